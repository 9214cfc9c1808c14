// The text format of COPY: headers, fields, escapes; and the lines of a dump.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/os/file.h"
#include "cli/import/copy_text.h"
#include "cli/import/dump_file.h"
#include "cli/import/id_table.h"

// --- headers -------------------------------------------------------------------------------------

static void headers_name_table_and_columns(void **state)
{
    (void)state;
    struct copy_header h;
    struct error e;
    assert_int_equal(
        copy_read_header("COPY public.users (id, \"user\"\"name\", x_1) FROM stdin;", &h, &e), 0);
    assert_string_equal(h.table, "users");
    assert_int_equal(h.column_count, 3);
    assert_string_equal(h.columns[1], "user\"name");
    assert_int_equal(copy_find_column(&h, "x_1"), 2);
    assert_int_equal(copy_find_column(&h, "x"), -1);
    assert_int_equal(copy_read_header("COPY \"Odd Schema\".t (a) FROM stdin;", &h, &e), 0);
    assert_string_equal(h.table, "t");
}

static void broken_headers_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "COPY public.users FROM stdin;",          "COPY public.users () FROM stdin;",
        "COPY public.users (a, b FROM stdin;",    "COPY public.users (a b) FROM stdin;",
        "COPY public.\"users (a) FROM stdin;",    "COPY (a) FROM stdin;",
        "COPY public.users (a) FROM stdin; -- x",
    };
    struct copy_header h;
    struct error e;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(copy_read_header(lines[i], &h, &e), ERR_INVALID);
    assert_false(copy_is_header("COPY public.users (a) TO stdout;"));
    assert_true(copy_is_header(lines[0]));
}

static void headers_have_limits(void **state)
{
    (void)state;
    struct copy_header h;
    struct error e;
    for (int over = 0; over < 2; over++) { // at the limit, and one past it
        struct buf line;
        buf_init(&line, 1 << 16);
        for (int i = 0; i < COPY_COLUMNS_MAX + over; i++)
            buf_puts(&line, i ? ", a" : "COPY t (a");
        buf_puts(&line, ") FROM stdin;");
        assert_int_equal(copy_read_header(buf_str(&line), &h, &e), over ? ERR_INVALID : 0);
        buf_free(&line);
        char *name = xasprintf("COPY %0*d (a) FROM stdin;", COPY_NAME_MAX - 1 + over, 0);
        assert_int_equal(copy_read_header(name, &h, &e), over ? ERR_INVALID : 0);
        free(name);
    }
}

// --- rows ----------------------------------------------------------------------------------------

static void expect_field(const char *row, const char *text, size_t len)
{
    struct copy_field field;
    struct error e;
    char *line = xstrdup(row);
    assert_int_equal(copy_split(line, strlen(line), &field, 1, &e), 0);
    assert_int_equal(field.len, len);
    assert_memory_equal(field.text, text, len + 1);
    free(line);
}

static void escapes_are_decoded(void **state)
{
    (void)state;
    expect_field("", "", 0);
    expect_field("plain", "plain", 5);
    expect_field("a\\tb\\nc\\rd\\\\e", "a\tb\nc\rd\\e", 9);
    expect_field("\\b\\f\\v", "\b\f\v", 3);
    expect_field("\\101\\0\\1012", "A\0A2", 4);
    expect_field("\\x41\\x4g\\xg", "A\4gxg", 5);
    expect_field("\\q\\.", "q.", 2);
    expect_field("\\\\x1f8b", "\\x1f8b", 6); // a bytea
    expect_field("\\Nothing", "Nothing", 7); // no null, because more follows
}

static void rows_have_their_fields(void **state)
{
    (void)state;
    struct copy_field f[4];
    struct error e;
    char row[] = "1\t\\N\t\tlast\\tone";
    assert_int_equal(copy_split(row, strlen(row), f, 4, &e), 0);
    assert_string_equal(f[0].text, "1");
    assert_null(f[1].text);
    assert_string_equal(f[2].text, "");
    assert_string_equal(f[3].text, "last\tone");
    char null_at_end[] = "1\t\\N";
    assert_int_equal(copy_split(null_at_end, strlen(null_at_end), f, 2, &e), 0);
    assert_null(f[1].text);
}

static void wrong_rows_are_refused(void **state)
{
    (void)state;
    struct copy_field f[4];
    struct error e;
    static const char *const rows[] = {"1", "1\t2\t3", "1\t2\\"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *row = xstrdup(rows[i]);
        assert_int_equal(copy_split(row, strlen(row), f, 2, &e), ERR_INVALID);
        free(row);
    }
}

static void raw_fields_are_found(void **state)
{
    (void)state;
    size_t len;
    const char row[] = "12\tab\\tc\t";
    assert_memory_equal(copy_raw_field(row, strlen(row), 1, &len), "ab\\tc", 5);
    assert_int_equal(len, 5);
    assert_non_null(copy_raw_field(row, strlen(row), 2, &len));
    assert_int_equal(len, 0);
    assert_null(copy_raw_field(row, strlen(row), 3, &len));
}

// --- the file ------------------------------------------------------------------------------------

static const char *const watched[] = {"b", NULL};

static int count_raw(void *ctx, const struct copy_header *h, const char *row, size_t len,
                     struct error *e)
{
    (void)e;
    assert_string_equal(h->table, "b");
    assert_int_equal(strlen(row), len);
    ++*(int *)ctx;
    return 0;
}

static int sum_rows(void *ctx, const struct dump_row *row, struct error *e)
{
    if (dump_int(row, "n", 0) == 13)
        return error_set(e, ERR_CORRUPT, "thirteen");
    *(int64_t *)ctx += dump_int(row, "n", 0);
    assert_null(dump_text(row, "missing"));
    return 0;
}

static int open_text(const char *text, int *raw, struct dump_file **out, struct error *e)
{
    const struct dump_watch watch = {.tables = watched, .on_row = count_raw, .ctx = raw};
    assert_int_equal(file_write_durable("test.sql", text, strlen(text), 0600, e), 0);
    return dump_open("test.sql", &watch, out, e);
}

#define END "--\n-- PostgreSQL database dump complete\n--\n"

static void tables_are_read_in_any_order(void **state)
{
    (void)state;
    struct dump_file *d;
    struct error e;
    int raw = 0;
    int64_t sum = 0;
    assert_int_equal(
        open_text("-- x\nCOPY public.a (n) FROM stdin;\n1\n2\n\\.\n\nCOPY public.b (m, n) FROM "
                  "stdin;\r\nx\t30\r\ny\t\\N\n\\.\n" END,
                  &raw, &d, &e),
        0);
    assert_int_equal(raw, 2);
    assert_int_equal(dump_read(d, "b", sum_rows, &sum, &e), 0);
    assert_int_equal(sum, 30);
    assert_int_equal(dump_read(d, "a", sum_rows, &sum, &e), 0);
    assert_int_equal(sum, 33);
    assert_int_equal(dump_read(d, "none", sum_rows, &sum, &e), 0);
    assert_true(dump_has_table(d, "a"));
    assert_false(dump_has_table(d, "none"));
    dump_close(d);
}

static void errors_name_file_and_line(void **state)
{
    (void)state;
    struct dump_file *d;
    struct error e;
    int raw = 0;
    int64_t sum = 0;
    assert_int_equal(
        open_text("\nCOPY a (n) FROM stdin;\n1\n13\n\\.\nCOPY c (n) FROM stdin;\n1\t2\n\\.\n" END,
                  &raw, &d, &e),
        0);
    assert_int_equal(dump_read(d, "a", sum_rows, &sum, &e), ERR_CORRUPT);
    assert_string_equal(e.text, "test.sql, line 4: thirteen");
    assert_int_equal(dump_read(d, "c", sum_rows, &sum, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "test.sql, line 7: "));
    dump_close(d);
}

static void incomplete_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
        int err;
    } cases[] = {
        {"COPY b (n) FROM stdin;\n1\n2", "ends in the rows of table b", ERR_CORRUPT},
        {"COPY b (n) FROM stdin;\n1\n\\.\n", "truncated", ERR_CORRUPT},
        {"INSERT INTO b VALUES (1);\n" END, "without --inserts", ERR_INVALID},
        {"--\n", "not a dump", ERR_INVALID},
        {"", "test.sql is empty; make the dump again", ERR_INVALID},
        {"PGDMP...", "custom format", ERR_INVALID},
        {"\x1f\x8b...", "compressed", ERR_INVALID},
        {"COPY b FROM stdin;\n", "line 1: this COPY command cannot be read", ERR_INVALID},
    };
    struct dump_file *d;
    struct error e;
    int raw = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(open_text(cases[i].text, &raw, &d, &e), cases[i].err);
        assert_non_null(strstr(e.text, cases[i].words));
    }
    assert_int_equal(dump_open("/", &(struct dump_watch){.tables = watched}, &d, &e), ERR_INVALID);
}

// Lines are longer than the first buffer.
static void long_lines_are_read(void **state)
{
    (void)state;
    enum { LONG = 5 << 20 };
    struct dump_file *d;
    struct error e;
    int raw = 0;
    int64_t sum = 0;
    char *text = xasprintf("COPY b (m, n) FROM stdin;\n%0*d\t7\nx\t8\n\\.\n" END, LONG, 0);
    assert_int_equal(open_text(text, &raw, &d, &e), 0);
    assert_int_equal(dump_read(d, "b", sum_rows, &sum, &e), 0);
    assert_int_equal(sum, 15);
    dump_close(d);
    free(text);
}

static void ids_are_found_again(void **state)
{
    (void)state;
    struct id_table t = {0};
    assert_null(id_table_find(&t, 1));
    for (int64_t id = -500; id < 500; id++)
        id_table_put(&t, id * 7919, xasprintf("%d", (int)id));
    for (int64_t id = -500; id < 500; id++)
        assert_int_equal(strtol(id_table_find(&t, id * 7919), NULL, 10), id);
    assert_null(id_table_find(&t, 1));
    id_table_free(&t, free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_name_table_and_columns),
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(headers_have_limits),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(rows_have_their_fields),
        cmocka_unit_test(wrong_rows_are_refused),
        cmocka_unit_test(raw_fields_are_found),
        cmocka_unit_test(tables_are_read_in_any_order),
        cmocka_unit_test(errors_name_file_and_line),
        cmocka_unit_test(incomplete_files_are_refused),
        cmocka_unit_test(long_lines_are_read),
        cmocka_unit_test(ids_are_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
