// The filter language: accepted and refused texts with positions, and that a printed tree parses to
// the same tree.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/filter/filter.h"
#include "base/rng.h"

static struct arena arena;

static int teardown(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

static struct filter_node *parse(const char *text)
{
    struct filter_node *tree;
    struct error e = {0};
    if (filter_parse(&arena, FILTER_EXPERIMENTS, text, &tree, &e))
        fail_msg("%s: %s", text, e.text);
    return tree;
}

static void expect_printed(const char *text, const char *printed)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    filter_print(parse(text), &out);
    assert_string_equal(buf_str(&out), printed);
    buf_free(&out);
}

static void test_trees(void **state)
{
    (void)state;
    assert_null(parse(" \n "));
    expect_printed("id=7", "id = 7");
    expect_printed("id = 1 or id = 2 and id = 3", "id = 1 or (id = 2 and id = 3)");
    expect_printed("(id = 1 or id = 2) and not archived", "(id = 1 or id = 2) and not (archived)");
    expect_printed("NOT (id in (1, 2,3) AND label not in ('a b', c))",
                   "not (id in (1, 2, 3) and label not in (\"a b\", \"c\"))");
    expect_printed("state = running", "state = \"RUNNING\"");
    expect_printed("state != STATE_PAUSED", "state != \"PAUSED\"");
    expect_printed("name ~ \"a \\\"b\\\\\"", "name ~ \"a \\\"b\\\\\"");
    expect_printed("archived = TRUE", "archived = 1");
    expect_printed("duration > 1h30m", "duration > 5400");
    expect_printed("started > -7d and started < 2026-11-21",
                   "started > -604800s and started < 2026-11-21T00:00:00.000000Z");
    expect_printed("text : image", "text : \"image\"");
    expect_printed("id == 5", "id = 5");
}

static void expect_name(const char *text, const char *key, enum filter_pick pick, size_t parts)
{
    const struct filter_node *n = parse(text);
    assert_int_equal(n->shape, FILTER_TEST);
    assert_string_equal(n->name.key, key);
    assert_int_equal(n->name.pick, pick);
    assert_int_equal(n->name.part_count, parts);
}

static void test_names(void **state)
{
    (void)state;
    expect_name("validation.loss < 1", "loss", FILTER_LAST, 1);
    expect_name("validation.loss.min<1", "loss", FILTER_MIN, 1);
    expect_name("validation.loss.\"min\"", "loss.min", FILTER_LAST, 1); // quoted: part of the name
    expect_name("validation.eval/top-5.acc.max > -1e-3", "eval/top-5.acc", FILTER_MAX, 1);
    expect_name("validation.max", "max", FILTER_LAST, 1); // a name is required
    expect_name("hparams.optimizer.name = adam", "optimizer.name", FILTER_LAST, 2);
    expect_name("hparams.\"a b\".c", "a b.c", FILTER_LAST, 2);
}

static void test_values_of_hyperparameters(void **state)
{
    (void)state;
    const struct filter_node *n = parse("hparams.x in (3, \"3\", adam, true)");
    assert_int_equal(n->value_count, 4);
    assert_int_equal(n->values[0].kind, FILTER_IS_NUMBER);
    assert_int_equal(n->values[1].kind, FILTER_IS_TEXT);
    assert_int_equal(n->values[2].kind, FILTER_IS_TEXT);
    assert_int_equal(n->values[3].kind, FILTER_IS_NUMBER);
    assert_string_equal(parse("hparams.x ~ 3")->values[0].text, "3");
}

static void expect_error(const char *text, int column, const char *words)
{
    struct filter_node *tree;
    struct error e = {0};
    char place[32];
    int err = filter_parse(&arena, FILTER_EXPERIMENTS, text, &tree, &e);
    assert_true(err == ERR_INVALID || err == ERR_TOO_LARGE);
    snprintf(place, sizeof place, "filter, column %d: ", column);
    if (strncmp(e.text, place, strlen(place)) || !strstr(e.text, words))
        fail_msg("\"%s\" gave: %s", text, e.text);
}

static void test_errors(void **state)
{
    (void)state;
    expect_error("stat = RUNNING", 1, "did you mean \"state\"");
    expect_error("zebra = 1", 1, "the other fields are: id, name");
    expect_error("zebra = 1", 1, "hparams.zebra");
    expect_error("best > 0.9", 1, "there is no field \"best\"; did you mean \"metric\"?");
    expect_error("steps > 1", 1, "there is no field \"steps\""); // a field of trials only
    expect_error("id = 1 and", 11, "expected the name of a field, not the end");
    expect_error("id = 1 id = 2", 8, "expected and, or, or the end, not \"id\"");
    expect_error("(id = 1", 8, "the \")\" of the \"(\" in column 1");
    expect_error("id = 1)", 7, "not \")\"");
    expect_error("id < ", 6, "expected a number, not the end");
    expect_error("id < five", 6, "id takes a number, not \"five\"");
    expect_error("id < 0x10", 6, "id takes a number");
    expect_error("id < nan", 6, "id takes a number");
    expect_error("id < 1e999", 6, "id takes a number");
    expect_error("id ~ 5", 4, "expected one of  =  !=");
    expect_error("id", 3, "after id");
    expect_error("name < b", 6, "after name");
    expect_error("text = a", 6, "expected one of  :  after text");
    expect_error("state = RUNING", 9, "did you mean");
    expect_error("started > soon", 11, "started takes a time");
    expect_error("started > 2026-13-01", 11, "started takes a time");
    expect_error("started > -", 11, "started takes a time");
    expect_error("duration > \"\"", 12, "duration takes a duration");
    expect_error("duration > -5m", 12, "duration takes a duration");
    expect_error("duration > 5 m", 14, "not \"m\"");
    expect_error("archived = 2", 12, "true or false");
    expect_error("validation < 1", 11, "expected \".\" and a name");
    expect_error("validation. < 1", 12, "expected a part of a name");
    expect_error("name.first = a", 1, "has no parts");
    expect_error("hparams.x < adam", 13, "a number with this sign");
    expect_error("name = \"abc", 8, "this quote is not closed");
    expect_error("hparams.'a\"b' = 1", 9, "which cannot contain quotes");
    expect_error("label in a", 10, "expected \"(\"");
    expect_error("label in (a", 12, "expected \",\" or \")\"");
    expect_error("label in ()", 11, "expected a text");
    expect_error("name ~ \xc3\xa4\xc3\xb6\xc3\xbc x", 12, "not \"x\""); // characters, not bytes
}

static char *repeat(const char *first, const char *more, int times, const char *last)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    buf_puts(&out, first);
    for (int i = 0; i < times; i++)
        buf_puts(&out, more);
    buf_puts(&out, last);
    return buf_take(&out);
}

static void at_limit(const char *first, const char *more, int times, const char *last)
{
    struct filter_node *tree;
    char *fine = repeat(first, more, times, last), *beyond = repeat(first, more, times + 1, last);
    parse(fine);
    assert_int_equal(filter_parse(&arena, FILTER_EXPERIMENTS, beyond, &tree, NULL), ERR_TOO_LARGE);
    free(fine);
    free(beyond);
}

static void test_limits(void **state)
{
    (void)state;
    at_limit("id = 1", " or id = 1", FILTER_TESTS_MAX - 1, "");
    at_limit("id in (1", ",1", FILTER_VALUES_MAX - 1, ")");
    at_limit("", "not ", FILTER_DEPTH_MAX, "id = 1");
    at_limit("id = 1", " ", FILTER_LENGTH_MAX - 6, "");
    at_limit("hparams.a", ".a", FILTER_PARTS_MAX - 1, " = 1");
    char *deep = repeat("", "(", FILTER_DEPTH_MAX, "id = 1");
    char *closed = repeat(deep, ")", FILTER_DEPTH_MAX, "");
    parse(closed);
    free(deep);
    free(closed);
}

static void test_sort(void **state)
{
    (void)state;
    struct filter_key keys[FILTER_KEYS_MAX];
    size_t count;
    struct error e = {0};
    assert_int_equal(
        filter_parse_sort(&arena, FILTER_EXPERIMENTS, "-validation.loss.min, id", keys, &count, &e),
        0);
    assert_int_equal(count, 2);
    assert_true(keys[0].descending && !keys[1].descending);
    assert_int_equal(keys[0].name.pick, FILTER_MIN);
    assert_string_equal(keys[1].name.field->name, "id");
    static const char *const bad[] = {"id,",  "-",      "label", "id name",
                                      "text", "--name", "zebra", "id,id,id,id,id"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.text[0] = '\0';
        assert_int_not_equal(
            filter_parse_sort(&arena, FILTER_EXPERIMENTS, bad[i], keys, &count, &e), 0);
        assert_non_null(strstr(e.text, "sort, column "));
    }
}

// --- any tree ------------------------------------------------------------------------------------

static const char *random_text(struct rng *r)
{
    static const char letters[] = "ab \"\\'(),~:=<>.%_*\t\xc3\xa4";
    char text[12];
    size_t n = rng_below(r, sizeof text - 1);
    for (size_t i = 0; i < n; i++)
        text[i] = letters[rng_below(r, sizeof letters - 1)];
    text[n] = '\0';
    return arena_strdup(&arena, text);
}

static double random_number(struct rng *r)
{
    double number = (double)(int64_t)rng_below(r, 2000) - 1000;
    return rng_below(r, 2) ? number : number / 7e-5;
}

// Writes a test in one of the possible ways.
static void write_test(struct rng *r, struct buf *out)
{
    static const char *const numbers[] = {
        "id", "slots", "metric", "validation.loss", "training.\"a b\".max", "hparams.x.y"};
    static const char *const texts[] = {"name", "owner", "label", "hparams.\"q r\""};
    static const char *const signs[] = {"=", "!=", "<", "<=", ">", ">="};
    struct buf quoted;
    buf_init(&quoted, 1024);
    for (const char *c = random_text(r); *c; c++)
        buf_printf(&quoted, strchr("\"\\", *c) ? "\\%c" : "%c", *c);
    switch (rng_below(r, 5)) {
    case 0:
        buf_printf(out, "%s %s %.17g", numbers[rng_below(r, 6)], signs[rng_below(r, 6)],
                   random_number(r));
        break;
    case 1:
        buf_printf(out, "%s %s \"%s\"", texts[rng_below(r, 4)], rng_below(r, 2) ? "=" : "~",
                   buf_str(&quoted));
        break;
    case 2:
        buf_printf(out, "%s %s (%.17g,%.17g)", numbers[rng_below(r, 6)],
                   rng_below(r, 2) ? "in" : "not  in", random_number(r), random_number(r));
        break;
    case 3:
        buf_printf(out, "started %s -%dh", rng_below(r, 2) ? "<" : ">=", (int)rng_below(r, 999));
        break;
    default:
        buf_puts(out, rng_below(r, 2) ? "archived" : "ended");
    }
    buf_free(&quoted);
}

static void write_tree(struct rng *r, int depth, struct buf *out)
{
    uint32_t shape = depth ? rng_below(r, 4) : 0;
    if (shape == 0) {
        write_test(r, out);
    } else if (shape == 1) {
        buf_puts(out, "not (");
        write_tree(r, depth - 1, out);
        buf_puts(out, ")");
    } else {
        for (uint32_t i = 0, n = 2 + rng_below(r, 2); i < n; i++) {
            buf_puts(out, i == 0 ? "(" : shape == 2 ? ") and (" : ") or (");
            write_tree(r, depth - 1, out);
        }
        buf_puts(out, ")");
    }
}

static bool same(const struct filter_node *a, const struct filter_node *b)
{
    if (!a || !b)
        return a == b;
    bool equal = a->shape == b->shape && same(a->child, b->child) && same(a->next, b->next);
    if (!equal || a->shape != FILTER_TEST)
        return equal;
    equal = a->name.field == b->name.field && !strcmp(a->name.key, b->name.key) &&
            a->name.pick == b->name.pick && a->op == b->op && a->value_count == b->value_count;
    for (size_t i = 0; equal && i < a->value_count; i++) {
        const struct filter_value *v = &a->values[i], *w = &b->values[i];
        equal = v->kind == w->kind && !(v->number < w->number) && !(v->number > w->number) &&
                v->time == w->time && (v->kind != FILTER_IS_TEXT || !strcmp(v->text, w->text));
    }
    return equal;
}

static void test_printed_and_read_again(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 5, 1);
    for (int round = 0; round < 3000; round++) {
        struct buf text, printed;
        buf_init(&text, FILTER_LENGTH_MAX);
        buf_init(&printed, 1 << 20);
        write_tree(&r, 3, &text);
        struct filter_node *tree = NULL, *again = NULL;
        if (!text.err && !filter_parse(&arena, FILTER_EXPERIMENTS, buf_str(&text), &tree, NULL)) {
            struct error e = {0};
            filter_print(tree, &printed);
            if (printed.len <= FILTER_LENGTH_MAX &&
                (filter_parse(&arena, FILTER_EXPERIMENTS, buf_str(&printed), &again, &e) ||
                 !same(tree, again)))
                fail_msg("%s\nwas printed as\n%s\n%s", buf_str(&text), buf_str(&printed), e.text);
        } else {
            assert_true(text.err || text.len > 1000); // the only allowed error is too many tests
        }
        buf_free(&text);
        buf_free(&printed);
        arena_reset(&arena);
    }
}

// Any text gives an answer, and never more than the limits allow.
static void test_noise(void **state)
{
    (void)state;
    static const char *const words[] = {"id",  "name",  "and",     "or",         "not", "in",
                                        "(",   ")",     ",",       "=",          "<",   "~",
                                        ":",   ".",     "\"",      "'",          "\\",  "-",
                                        "1e5", "label", "hparams", "validation", " ",   "\xc3"};
    struct rng r;
    rng_seed(&r, 7, 1);
    for (int round = 0; round < 20000; round++) {
        struct buf out;
        buf_init(&out, 256);
        for (uint32_t i = 0, n = rng_below(&r, 12); i < n; i++)
            buf_puts(&out, words[rng_below(&r, sizeof words / sizeof *words)]);
        const char *text = buf_str(&out);
        struct filter_node *tree;
        struct filter_key keys[FILTER_KEYS_MAX];
        size_t count;
        struct error e = {0};
        if (filter_parse(&arena, FILTER_TRIALS, text, &tree, &e))
            assert_non_null(strstr(e.text, "filter, column "));
        filter_parse_sort(&arena, FILTER_TRIALS, text, keys, &count, NULL);
        buf_free(&out);
        arena_reset(&arena);
    }
}

static void test_help_names_every_field(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1 << 20);
    filter_document(&out);
    for (const struct filter_field *f = filter_fields; f->name; f++) {
        char line[64];
        if (f->lists == FILTER_RUNS)
            continue; // only the web client filters runs
        snprintf(line, sizeof line, "\n  %s ", f->name);
        assert_non_null(strstr(buf_str(&out), line));
    }
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_trees, teardown),
        cmocka_unit_test_teardown(test_names, teardown),
        cmocka_unit_test_teardown(test_values_of_hyperparameters, teardown),
        cmocka_unit_test_teardown(test_errors, teardown),
        cmocka_unit_test_teardown(test_limits, teardown),
        cmocka_unit_test_teardown(test_sort, teardown),
        cmocka_unit_test_teardown(test_printed_and_read_again, teardown),
        cmocka_unit_test_teardown(test_noise, teardown),
        cmocka_unit_test_teardown(test_help_names_every_field, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
