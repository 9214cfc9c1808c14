// YAML: the value of each scalar, errors with their positions, and positions of values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "base/text/yaml.h"

static void reads(const char *text, const char *expected_json)
{
    struct yaml_doc doc;
    struct error e;
    if (yaml_parse(text, strlen(text), "f.yaml", &doc, &e) != 0)
        fail_msg("%s", e.text);
    char *json = json_text(doc.root);
    assert_string_equal(json, expected_json);
    free(json);
    yaml_doc_free(&doc);
}

static void refuses_bytes(const char *text, size_t len, const char *expected)
{
    struct yaml_doc doc;
    struct error e;
    assert_int_equal(yaml_parse(text, len, "f.yaml", &doc, &e), ERR_INVALID);
    assert_null(doc.root);
    assert_string_equal(e.text, expected);
}

static void refuses(const char *text, const char *expected)
{
    refuses_bytes(text, strlen(text), expected);
}

static void collections(void **state)
{
    (void)state;
    reads("a: 1\nb:\n  - x\n  - {c: [], d: {}}\n", "{\"a\":1,\"b\":[\"x\",{\"c\":[],\"d\":{}}]}");
    reads("", "null");
    reads("# nothing\n", "null");
    reads("---\n", "null");
    reads("- 1\n- - 2\n", "[1,[2]]");
    reads("just a text", "\"just a text\"");
    reads("\xef\xbb\xbf"
          "a: 1",
          "{\"a\":1}"); // a byte order mark
    reads("1: one\nnull: none\ntrue: yes\n", "{\"1\":\"one\",\"null\":\"none\",\"true\":\"yes\"}");
    reads("? a\n: 1\n", "{\"a\":1}");
}

static void scalars(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"~", "null"},
        {"null", "null"},
        {"Null", "null"},
        {"NULL", "null"},
        {"nULL", "\"nULL\""},
        {"true", "true"},
        {"True", "true"},
        {"TRUE", "true"},
        {"false", "false"},
        {"False", "false"},
        {"FALSE", "false"},
        {"yes", "\"yes\""},
        {"on", "\"on\""},
        {"0", "0"},
        {"-0", "0"},
        {"+12", "12"},
        {"-12", "-12"},
        {"007", "7"},
        {"0o17", "15"},
        {"0xFf", "255"},
        {"0o18", "\"0o18\""},
        {"0x", "\"0x\""},
        {"0xg", "\"0xg\""},
        {"-0x1", "\"-0x1\""},
        {"1.5", "1.5"},
        {"1.", "1.0"},
        {".5", "0.5"},
        {"-.5", "-0.5"},
        {"1e3", "1000.0"},
        {"1e-3", "0.001"},
        {"1E+3", "1000.0"},
        {"1.5e2", "150.0"},
        {".", "\".\""},
        {"-", "[null]"},
        {"+", "\"+\""},
        {"e3", "\"e3\""},
        {"1e", "\"1e\""},
        {"1e+", "\"1e+\""},
        {"1_000", "\"1_000\""},
        {"1,000", "\"1,000\""},
        {"1.2.3", "\"1.2.3\""},
        {"12:30", "\"12:30\""},
        {"1 2", "\"1 2\""},
        {".inf", "\"Infinity\""},
        {"-.INF", "\"-Infinity\""},
        {"+.Inf", "\"Infinity\""},
        {".nan", "\"NaN\""},
        {".NaN", "\"NaN\""},
        {"-.nan", "\"-.nan\""},
        {"inf", "\"inf\""},
        {"nan", "\"nan\""},
        {"\"12\"", "\"12\""},
        {"'true'", "\"true\""},
        {"''", "\"\""},
        {"2026-11-21", "\"2026-11-21\""},
        {"1e-400", "0.0"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"0x7fffffffffffffff", "9223372036854775807"},
        {"<<", "\"<<\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        reads(rows[i][0], rows[i][1]);
    reads("|\n  12\n", "\"12\\n\""); // a block scalar is text
}

static void numbers_too_large(void **state)
{
    (void)state;
    refuses("a:\n  b: 9223372036854775808\n",
            "f.yaml:2:6: the number 9223372036854775808 is too large (put it in quotes if it is "
            "text)");
    refuses("-9223372036854775809", "f.yaml:1:1: the number -9223372036854775809 is too large (put "
                                    "it in quotes if it is text)");
    refuses("[0x8000000000000000]",
            "f.yaml:1:2: the number 0x8000000000000000 is too large (put it "
            "in quotes if it is text)");
    refuses("1e999", "f.yaml:1:1: the number 1e999 is too large (put it in quotes if it is text)");
}

static void faults_have_a_position(void **state)
{
    (void)state;
    refuses("a: [1, 2\nb: 3\n", "f.yaml:2:2: did not find expected ',' or ']' (while parsing a "
                                "flow sequence that began at 1:4)");
    refuses("a:\n\tb: 2\n", "f.yaml:2:1: found a tab; indent with blanks");
    refuses("a: 1\n b: 2\n", "f.yaml:2:3: mapping values are not allowed in this context");
    refuses("a: \"x\n", "f.yaml:2:1: found unexpected end of stream (while scanning a quoted "
                        "scalar that began at 1:4)");
    refuses("a: b\n\tc: d\n", "f.yaml:2:1: found a tab character that violates indentation (while "
                              "scanning a plain scalar that began at 1:4)");
    refuses("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: duplicate key \"a\", first given at 1:1; keep one "
                                  "of them");
    refuses("x: {a: 1}\ny: {a: 1, a: 2}\n", "f.yaml:2:11: duplicate key \"a\", first given at 2:5; "
                                            "keep one of them");
    refuses("[a]: 1\n", "f.yaml:1:1: a key must be a scalar, not a list, a map or an alias");
    refuses("a: 1\n---\nb: 2\n",
            "f.yaml:2:1: a second document begins here; a file must hold only one");
    refuses("a: !mine 1\n", "f.yaml:1:4: the tag \"!mine\" is not supported; write the value "
                            "without it");
    refuses("a: !!str 1\n", "f.yaml:1:4: the tag \"tag:yaml.org,2002:str\" is not supported; "
                            "write the value without it");
    refuses("a: !x [1]\n", "f.yaml:1:4: the tag \"!x\" is not supported; write the value without "
                           "it");
    refuses("a: !x {}\n",
            "f.yaml:1:4: the tag \"!x\" is not supported; write the value without it");
    refuses("a: \"x\\0y\"\n", "f.yaml:1:4: text may not contain the character \\0");
    refuses("\"x\\0y\": a\n", "f.yaml:1:1: a key may not contain the character \\0");
}

static void bytes_that_are_no_text(void **state)
{
    (void)state;
    refuses("a: 1\nb: \xff\n", "f.yaml:2:4: invalid leading UTF-8 octet");
    refuses_bytes("a: b\0c", 6, "f.yaml:1:5: control characters are not allowed");
}

static void aliases(void **state)
{
    (void)state;
    reads("a: &x {k: 1}\nb: *x\nc: [*x, *x]\n",
          "{\"a\":{\"k\":1},\"b\":{\"k\":1},\"c\":[{\"k\":1},{\"k\":1}]}");
    reads("- &x 1\n- &x 2\n- *x\n", "[1,2,2]"); // the last anchor of a name counts
    refuses("a: *x\nb: &x 1\n", "f.yaml:1:4: there is no anchor &x before this alias");
    refuses("a: &x [*x]\n", "f.yaml:1:8: there is no anchor &x before this alias");
    refuses("a: &x 1\n*x : 2\n",
            "f.yaml:2:1: a key must be a scalar, not a list, a map or an alias");
}

static void aliases_share_nothing(void **state)
{
    (void)state;
    static const char text[] = "a: &x {k: 1}\nb: *x\n";
    struct yaml_doc doc;
    assert_int_equal(yaml_parse(text, strlen(text), "f.yaml", &doc, NULL), 0);
    json_object_set_new(json_object_get(doc.root, "a"), "k", json_integer(2));
    assert_int_equal(json_integer_value(jget_path(doc.root, "b.k")), 1);
    yaml_doc_free(&doc);
}

// Nine lines whose aliases expand to 10^9 values.
static void the_billion_laughs(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 4096);
    buf_puts(&text, "a0: &a0 lol\n");
    for (int i = 1; i <= 9; i++) {
        buf_printf(&text, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            buf_printf(&text, "*a%d,", i - 1);
        buf_puts(&text, "]\n");
    }
    struct error e;
    struct yaml_doc doc;
    assert_int_equal(yaml_parse(text.data, text.len, "f.yaml", &doc, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "the aliases expand to more than 16 MiB"));
    assert_memory_equal(e.text, "f.yaml:6:", 9);
    buf_free(&text);
}

// `depth` nested lists.
static char *deep_text(int depth)
{
    char *text = xcalloc(2 * (size_t)depth + 1, 1);
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    return text;
}

static void depth_at_the_limit_and_past_it(void **state)
{
    (void)state;
    char *text = deep_text(LIMIT_JSON_DEPTH);
    reads(text, text);
    free(text);
    text = deep_text(LIMIT_JSON_DEPTH + 1);
    refuses(text, "f.yaml:1:33: more than 32 levels");
    free(text);
    text = deep_text(100000); // far beyond the limit
    refuses(text, "f.yaml:1:33: more than 32 levels");
    free(text);
}

static void depth_through_aliases(void **state)
{
    (void)state;
    char *inner = deep_text(LIMIT_JSON_DEPTH - 2);
    char *text = xasprintf("a: &x %s\nb: [*x]\n", inner);
    struct yaml_doc doc;
    assert_int_equal(yaml_parse(text, strlen(text), "f.yaml", &doc, NULL), 0);
    yaml_doc_free(&doc);
    free(text);
    text = xasprintf("a: &x %s\nb: [[*x]]\n", inner);
    refuses(text, "f.yaml:2:6: more than 32 levels");
    free(text);
    free(inner);
}

static void size_at_the_limit_and_past_it(void **state)
{
    (void)state;
    char *text = xcalloc(LIMIT_CONFIG + 2, 1);
    memset(text, '#', LIMIT_CONFIG + 1);
    struct yaml_doc doc;
    struct error e;
    assert_int_equal(yaml_parse(text, LIMIT_CONFIG, "f.yaml", &doc, &e), 0);
    yaml_doc_free(&doc);
    assert_int_equal(yaml_parse(text, LIMIT_CONFIG + 1, "f.yaml", &doc, &e), ERR_TOO_LARGE);
    assert_string_equal(e.text, "f.yaml: 1048577 bytes of YAML, at most 1048576 are allowed");
    free(text);
}

static void is_at(const struct yaml_doc *doc, const char *path, const char *value, const char *key)
{
    char out[64];
    assert_string_equal(yaml_where(doc, path, out, sizeof out), value);
    assert_string_equal(yaml_where_key(doc, path, out, sizeof out), key);
}

static void positions(void **state)
{
    (void)state;
    static const char text[] = "# a comment\n"
                               "trainer:\n"
                               "  model: {width: 8, \"a.b\": 1}\n"
                               "  steps:\n"
                               "    - 1\n"
                               "    - name: x\n"
                               "model: 3\n";
    struct yaml_doc doc;
    assert_int_equal(yaml_parse(text, strlen(text), "f.yaml", &doc, NULL), 0);
    is_at(&doc, "", "f.yaml:2:1", "f.yaml:2:1");
    is_at(&doc, "trainer", "f.yaml:3:3", "f.yaml:2:1");
    is_at(&doc, "trainer.model.width", "f.yaml:3:18", "f.yaml:3:11");
    is_at(&doc, "trainer.model.a.b", "f.yaml:3:28", "f.yaml:3:21");
    is_at(&doc, "trainer.steps.0", "f.yaml:5:7", "f.yaml:5:7");
    is_at(&doc, "trainer.steps.1.name", "f.yaml:6:13", "f.yaml:6:7");
    is_at(&doc, "model", "f.yaml:7:8", "f.yaml:7:1");
    // An unknown path has the position of its nearest parent.
    is_at(&doc, "trainer.model.depth", "f.yaml:3:10", "f.yaml:3:3");
    is_at(&doc, "trainer.model.width.x.y", "f.yaml:3:18", "f.yaml:3:11");
    is_at(&doc, "width", "f.yaml:2:1", "f.yaml:2:1");
    is_at(&doc, "er.model", "f.yaml:2:1", "f.yaml:2:1");
    char out[4];
    assert_string_equal(yaml_where(&doc, "model", out, sizeof out), "f.y");
    yaml_doc_free(&doc);
}

static void positions_of_nothing(void **state)
{
    (void)state;
    struct yaml_doc doc;
    assert_int_equal(yaml_parse("", 0, "f.yaml", &doc, NULL), 0);
    is_at(&doc, "a.b", "f.yaml", "f.yaml");
    is_at(&doc, "", "f.yaml", "f.yaml");
    yaml_doc_free(&doc);
    yaml_doc_free(&doc); // a second call is harmless
}

// Long keys above many values: memory is proportional to the file, not to the product.
static void long_keys_over_many_values(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, LIMIT_CONFIG);
    buf_puts(&text, "? ");
    for (int i = 0; i < 400000; i++)
        buf_puts(&text, "k");
    buf_puts(&text, "\n: [");
    for (int i = 0; i < LIMIT_YAML_VALUES - 2; i++)
        buf_puts(&text, "1,");
    buf_puts(&text, "]\n");
    assert_int_equal(text.err, 0);
    struct yaml_doc doc;
    struct error e;
    if (yaml_parse(text.data, text.len, "f.yaml", &doc, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(doc.mark_count, LIMIT_YAML_VALUES);
    yaml_doc_free(&doc);
    text.len -= 2;
    buf_puts(&text, "1]\n");
    assert_int_equal(yaml_parse(text.data, text.len, "f.yaml", &doc, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "more than"));
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collections),
        cmocka_unit_test(scalars),
        cmocka_unit_test(numbers_too_large),
        cmocka_unit_test(faults_have_a_position),
        cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(aliases),
        cmocka_unit_test(aliases_share_nothing),
        cmocka_unit_test(the_billion_laughs),
        cmocka_unit_test(depth_at_the_limit_and_past_it),
        cmocka_unit_test(depth_through_aliases),
        cmocka_unit_test(size_at_the_limit_and_past_it),
        cmocka_unit_test(positions),
        cmocka_unit_test(positions_of_nothing),
        cmocka_unit_test(long_keys_over_many_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
