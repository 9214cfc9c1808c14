#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "cli/output/output.h"

static char *columns[] = {"id", "name", "nested.value"};

static json_t *rows_from(const char *text)
{
    json_t *rows = NULL;
    struct error e;
    assert_int_equal(json_parse(text, strlen(text), "rows", &rows, &e), 0);
    return rows;
}

static void expect(void (*write)(const json_t *, char **, size_t, struct buf *), const char *text,
                   const char *expected)
{
    json_t *rows = rows_from(text);
    struct buf out;
    buf_init(&out, 4096);
    write(rows, columns, 3, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_free(&out);
    json_decref(rows);
}

static void table_aligns_words_left_and_numbers_right(void **state)
{
    (void)state;
    expect(output_table,
           "[{\"id\":7,\"name\":\"a\",\"nested\":{\"value\":true}},"
           "{\"id\":123,\"name\":\"longer\",\"nested\":null}]",
           " id  name    nested.value\n"
           "  7  a       true\n"
           "123  longer\n");
}

static void table_counts_characters_not_bytes(void **state)
{
    (void)state;
    expect(output_table, "[{\"id\":1,\"name\":\"\xC3\xA9t\xC3\xA9\"},{\"id\":2,\"name\":\"abcd\"}]",
           "id  name  nested.value\n"
           " 1  \xC3\xA9t\xC3\xA9\n"
           " 2  abcd\n");
}

static void table_keeps_a_row_on_a_line(void **state)
{
    (void)state;
    expect(output_table, "[{\"id\":1,\"name\":\"two\\nlines\"}]",
           "id  name       nested.value\n"
           " 1  two lines\n");
}

static void table_shows_times_to_the_second(void **state)
{
    (void)state;
    const char *rows = "[{\"id\":1,\"name\":\"2026-11-21T09:00:00.123456Z\"},"
                       "{\"id\":2,\"name\":\"2026-11-21T09:00:00.123456Q\"}]";
    expect(output_table, rows,
           "id  name                         nested.value\n"
           " 1  2026-11-21T09:00:00Z\n"
           " 2  2026-11-21T09:00:00.123456Q\n");
    expect(output_csv, rows,
           "id,name,nested.value\n"
           "1,2026-11-21T09:00:00.123456Z,\n"
           "2,2026-11-21T09:00:00.123456Q,\n");
}

static void table_escapes_what_a_terminal_obeys(void **state)
{
    (void)state;
    expect(output_table,
           "[{\"id\":1,\"name\":\"a\\u001b[2Jb\\r\\u202ec\"},{\"id\":2,\"name\":\"abcd\","
           "\"nested\":{\"value\":1}}]",
           "id  name                      nested.value\n"
           " 1  a\\u001b[2Jb\\u000d\\u202ec\n"
           " 2  abcd                                 1\n");
}

static void csv_has_no_formulas(void **state)
{
    (void)state;
    expect(output_csv, "[{\"id\":-1.5,\"name\":\"=HYPERLINK(1)\",\"nested\":{\"value\":\"-2\"}}]",
           "id,name,nested.value\n"
           "-1.5,'=HYPERLINK(1),-2\n");
}

static void csv_quotes_what_needs_it(void **state)
{
    (void)state;
    expect(output_csv, "[{\"id\":1.5,\"name\":\"a,\\\"b\\\"\",\"nested\":{\"value\":[1,2]}}]",
           "id,name,nested.value\n"
           "1.5,\"a,\"\"b\"\"\",\"1, 2\"\n");
}

static void no_rows_still_have_a_heading(void **state)
{
    (void)state;
    expect(output_csv, "[]", "id,name,nested.value\n");
    expect(output_table, "[]", "id  name  nested.value\n");
}

static void unknown_column_is_named_with_the_nearest(void **state)
{
    (void)state;
    json_t *rows = rows_from("[{\"id\":1,\"name\":\"a\"}]");
    struct cli c = {.options.columns = "id,nane", .format = OUTPUT_CSV};
    struct error e = {0};
    assert_int_equal(output_rows(&c, rows, "id", &e), ERR_INVALID);
    assert_string_equal(e.text, "no column \"nane\"; did you mean \"name\"?");
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_aligns_words_left_and_numbers_right),
        cmocka_unit_test(table_counts_characters_not_bytes),
        cmocka_unit_test(table_keeps_a_row_on_a_line),
        cmocka_unit_test(table_shows_times_to_the_second),
        cmocka_unit_test(table_escapes_what_a_terminal_obeys),
        cmocka_unit_test(csv_has_no_formulas),
        cmocka_unit_test(csv_quotes_what_needs_it),
        cmocka_unit_test(no_rows_still_have_a_heading),
        cmocka_unit_test(unknown_column_is_named_with_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
