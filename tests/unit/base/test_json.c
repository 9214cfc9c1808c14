// The writer, the getters and the parser of JSON.
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"

struct json_writer_test {
    struct buf out;
    struct json_writer w;
};

static int begin(void **state)
{
    struct json_writer_test *t = xcalloc(1, sizeof *t);
    buf_init(&t->out, 1 << 20);
    jw_init(&t->w, &t->out);
    *state = t;
    return 0;
}

static int end(void **state)
{
    struct json_writer_test *t = *state;
    buf_free(&t->out);
    free(t);
    return 0;
}

// --- writer --------------------------------------------------------------------------------------

static void nested(void **state)
{
    struct json_writer_test *t = *state;
    jw_object(&t->w);
    jw_kv_string(&t->w, "name", "a");
    jw_key(&t->w, "list");
    jw_array(&t->w);
    jw_int(&t->w, INT64_MIN);
    jw_object(&t->w);
    jw_object_end(&t->w);
    jw_array(&t->w);
    jw_array_end(&t->w);
    jw_null(&t->w);
    jw_array_end(&t->w);
    jw_kv_bool(&t->w, "yes", true);
    jw_kv_int(&t->w, "n", -1);
    jw_kv_double(&t->w, "d", 0.5);
    jw_kv_raw(&t->w, "raw", "[1]");
    jw_kv_raw(&t->w, "none", NULL);
    jw_kv_string(&t->w, "null", NULL);
    jw_object_end(&t->w);
    assert_string_equal(buf_str(&t->out),
                        "{\"name\":\"a\",\"list\":[-9223372036854775808,{},[],null],\"yes\":true,"
                        "\"n\":-1,\"d\":0.5,\"raw\":[1],\"none\":null,\"null\":null}");
}

static void strings(void **state)
{
    struct json_writer_test *t = *state;
    jw_string(&t->w, "\" \\ / \n\r\t\b\f \x01 \x1f \x7f gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80");
    assert_string_equal(buf_str(&t->out), "\"\\\" \\\\ / \\n\\r\\t\\b\\f \\u0001 \\u001f \\u007f "
                                          "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"");
    buf_reset(&t->out);
    jw_stringn(&t->w, "a\0b", 3);
    assert_string_equal(buf_str(&t->out), "\"a\\u0000b\"");
}

// YAML can read the JSON that jw_string() writes.
static void characters_that_yaml_forbids_are_escaped(void **state)
{
    struct json_writer_test *t = *state;
    jw_string(&t->w,
              "\x7f|\xc2\x80|\xc2\x85|\xc2\x9f|\xc2\xa0|\xe2\x80\xa7|\xe2\x80\xa8|\xe2\x80\xa9|"
              "\xe2\x80\xaa|\xef\xbf\xbd|\xef\xbf\xbe|\xef\xbf\xbf");
    assert_string_equal(buf_str(&t->out),
                        "\"\\u007f|\\u0080|\\u0085|\\u009f|\xc2\xa0|\xe2\x80\xa7|\\u2028|\\u2029|"
                        "\xe2\x80\xaa|\xef\xbf\xbd|\\ufffe|\\uffff\"");
}

static void bad_utf8_is_replaced(void **state)
{
    struct json_writer_test *t = *state;
#define FFFD "\xef\xbf\xbd"
    static const char *const rows[][2] = {
        {"a\xff"
         "b",
         "\"a" FFFD "b\""},
        {"\xc3", "\"" FFFD "\""},                            // cut short
        {"\xe2\x82", "\"" FFFD FFFD "\""},                   // cut short
        {"\xc0\xaf", "\"" FFFD FFFD "\""},                   // overlong
        {"\xe0\x80\x80", "\"" FFFD FFFD FFFD "\""},          // overlong
        {"\xf0\x80\x80\x80", "\"" FFFD FFFD FFFD FFFD "\""}, // overlong
        {"\xed\xa0\x80", "\"" FFFD FFFD FFFD "\""},          // a surrogate
        {"\xf4\x90\x80\x80", "\"" FFFD FFFD FFFD FFFD "\""}, // past U+10FFFF
        {"\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\""},        // the last code point
        {"\xed\x9f\xbf\xee\x80\x80", "\"\xed\x9f\xbf\xee\x80\x80\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_reset(&t->out);
        jw_string(&t->w, rows[i][0]);
        assert_string_equal(buf_str(&t->out), rows[i][1]);
        assert_int_equal(json_is_utf8(rows[i][0]), !strstr(rows[i][1], FFFD));
        json_t *again = json_loads(buf_str(&t->out), JSON_DECODE_ANY, NULL);
        assert_non_null(again);
        json_decref(again);
    }
}

static void bad_utf8_is_left_out(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"cut \xe2\x82", "cut "},
        {"cut \xf0\x9f\x98\" is", "cut \" is"},
        {"\xff\xc0\xaf", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *string = json_string_cut(rows[i][0]);
        assert_string_equal(json_string_value(string), rows[i][1]);
        json_decref(string);
    }
}

static void a_text_is_cut_between_characters(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";
    static const size_t fit[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    for (size_t most = 0; most < sizeof fit / sizeof *fit; most++)
        assert_int_equal(json_utf8_fit(text, most), fit[most]);
    assert_int_equal(json_utf8_fit("\x80\x80\x80", 2), 0);
}

static const char *double_text(struct json_writer_test *t, double v)
{
    buf_reset(&t->out);
    jw_double(&t->w, v);
    return buf_str(&t->out);
}

static void doubles_are_short(void **state)
{
    struct json_writer_test *t = *state;
    assert_string_equal(double_text(t, 0.1), "0.1");
    assert_string_equal(double_text(t, 3), "3");
    assert_string_equal(double_text(t, -0.0), "-0");
    assert_string_equal(double_text(t, 1e300), "1e+300");
    assert_string_equal(double_text(t, 5e-324), "5e-324");
    assert_string_equal(double_text(t, 0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(double_text(t, 1.0 / 3), "0.3333333333333333");
    assert_string_equal(double_text(t, NAN), "\"NaN\"");
    assert_string_equal(double_text(t, INFINITY), "\"Infinity\"");
    assert_string_equal(double_text(t, -INFINITY), "\"-Infinity\"");
}

static void doubles_read_back_equal(void **state)
{
    struct json_writer_test *t = *state;
    static const double edges[] = {DBL_MAX,           -DBL_MAX,     DBL_MIN,
                                   DBL_EPSILON,       DBL_TRUE_MIN, 0x1.fffffffffffffp-1023,
                                   9007199254740993.0};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        assert_true(strtod(double_text(t, edges[i]), NULL) == edges[i]);
    struct rng r;
    rng_seed(&r, 11, 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = (uint64_t)rng_u32(&r) << 32 | rng_u32(&r);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (isfinite(v))
            assert_true(strtod(double_text(t, v), NULL) == v);
    }
}

static void depth_of_the_writer(void **state)
{
    struct json_writer_test *t = *state;
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        jw_array(&t->w);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        jw_array_end(&t->w);
    assert_int_equal(t->out.len, 2 * JSON_DEPTH_MAX);
}

static void a_value_inside(void **state)
{
    struct json_writer_test *t = *state;
    json_t *v = json_pack("{s:i, s:[f, f, s, b, n]}", "z", 1, "a", 1.0, 0.1, "x\n", 0);
    jw_array(&t->w);
    jw_json(&t->w, v);
    jw_json(&t->w, NULL);
    jw_array_end(&t->w);
    assert_string_equal(buf_str(&t->out), "[{\"z\":1,\"a\":[1.0,0.1,\"x\\n\",false,null]},null]");
    char *text = json_text(v);
    assert_string_equal(text, "{\"z\":1,\"a\":[1.0,0.1,\"x\\n\",false,null]}");
    free(text);
    json_decref(v);
}

static void the_limit_of_the_buffer_is_told(void **state)
{
    (void)state;
    struct buf out;
    struct json_writer w;
    buf_init(&out, 8);
    jw_init(&w, &out);
    jw_array(&w);
    jw_string(&w, "longer than that");
    jw_array_end(&w);
    assert_int_equal(out.err, ERR_TOO_LARGE);
    buf_free(&out);
}

// --- getters -------------------------------------------------------------------------------------

static json_t *parse(const char *text)
{
    json_t *v;
    struct error e;
    int err = json_parse(text, strlen(text), "test", &v, &e);
    if (err)
        fail_msg("%s", e.text);
    return v;
}

static void both_cases_of_keys(void **state)
{
    (void)state;
    json_t *v = parse("{\"slotsPerTrial\":1,\"max_slots\":2,\"experiment_id\":3,\"id\":null}");
    assert_int_equal(jget_int(v, "slotsPerTrial", -1), 1);
    assert_int_equal(jget_int(v, "maxSlots", -1), 2);
    assert_int_equal(jget_int(v, "experimentId", -1), 3);
    assert_int_equal(jget_int(v, "experiment_id", -1), 3);
    assert_int_equal(jget_int(v, "slots_per_trial", -1), -1); // only camelCase has a second form
    assert_null(jget(v, "id"));
    assert_null(jget(v, "absent"));
    assert_null(jget(NULL, "x"));
    json_decref(v);
    v = parse("{\"trialId\":null,\"trial_id\":5}");
    assert_int_equal(jget_int(v, "trialId", -1), 5);
    json_decref(v);
    char key[300];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    v = json_pack("{s:i}", key, 9);
    assert_int_equal(jget_int(v, key, -1), 9); // too long for a second form, but found as it is
    json_decref(v);
}

static void getters_of_integers(void **state)
{
    (void)state;
    json_t *v = parse("{\"i\":7,\"s\":\"-9223372036854775808\",\"big\":\"9223372036854775808\","
                      "\"word\":\"7x\",\"empty\":\"\",\"blank\":\" 7\",\"whole\":3.0,\"real\":3.5,"
                      "\"huge\":1e19,\"b\":true}");
    assert_true(jget_int(v, "i", -1) == 7);
    assert_true(jget_int(v, "s", -1) == INT64_MIN);
    assert_true(jget_int(v, "whole", -1) == 3);
    static const char *const wrong[] = {"big", "word", "empty", "blank", "real", "huge", "b"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_true(jget_int(v, wrong[i], -1) == -1);
    json_decref(v);
}

static void getters_of_the_rest(void **state)
{
    (void)state;
    json_t *v = parse("{\"d\":0.5,\"i\":2,\"nan\":\"NaN\",\"inf\":\"Infinity\",\"minus\":"
                      "\"-Infinity\",\"text\":\"abc\",\"yes\":true}");
    assert_true(jget_double(v, "d", -1) == 0.5);
    assert_true(jget_double(v, "i", -1) == 2);
    assert_true(isnan(jget_double(v, "nan", -1)));
    assert_true(jget_double(v, "inf", -1) == INFINITY);
    assert_true(jget_double(v, "minus", -1) == -INFINITY);
    assert_true(jget_double(v, "text", -1) == -1);
    assert_true(jget_double(v, "yes", -1) == -1);
    assert_string_equal(jget_string(v, "text", "none"), "abc");
    assert_string_equal(jget_string(v, "i", "none"), "none");
    assert_null(jget_string(v, "absent", NULL));
    assert_true(jget_bool(v, "yes", false));
    assert_true(jget_bool(v, "absent", true));
    assert_false(jget_bool(v, "text", false));
    json_decref(v);
}

static void paths(void **state)
{
    (void)state;
    json_t *v = parse("{\"resources\":{\"slots_per_trial\":4,\"none\":null},\"n\":1}");
    assert_int_equal(json_integer_value(jget_path(v, "resources.slots_per_trial")), 4);
    assert_int_equal(json_integer_value(jget_path(v, "resources.slotsPerTrial")), 4);
    assert_true(json_is_object(jget_path(v, "resources")));
    static const char *const absent[] = {"resources.none", "resources.x", "n.x", "",
                                         "resources.",     ".resources"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        assert_null(jget_path(v, absent[i]));
    json_decref(v);
}

// --- parser --------------------------------------------------------------------------------------

static void refuses(const char *text, const char *expected)
{
    json_t *v = (json_t *)text;
    struct error e;
    assert_int_equal(json_parse(text, strlen(text), "body", &v, &e), ERR_INVALID);
    assert_null(v);
    if (!strstr(e.text, expected))
        fail_msg("\"%s\" does not hold \"%s\"", e.text, expected);
}

static void faults_have_a_position(void **state)
{
    (void)state;
    refuses("", "body:1:");
    refuses("{\n  \"a\": x}", "body:2:");
    refuses("{\"a\":1,\"a\":2}", "duplicate");
    refuses("[1,]", "body:1:");
    refuses("[1] x", "body:1:");
    refuses("\"\xff\"", "decode byte 0xff");
    refuses("\"\\u0000\"", "body:1:");
    refuses("99999999999999999999", "too big");
    refuses("1e999", "overflow");
    refuses("NaN", "body:1:");
}

// `depth` nested lists on several lines, with brackets in a string, which do not count.
static char *deep_text(int depth)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_puts(&b, "[\"[[{{\\\"[\",\n");
    for (int i = 1; i < depth; i++)
        buf_puts(&b, "[");
    for (int i = 1; i < depth; i++)
        buf_puts(&b, "]");
    buf_puts(&b, "]");
    return buf_take(&b);
}

static void depth_at_the_limit_and_past_it(void **state)
{
    (void)state;
    char *text = deep_text(LIMIT_RESPONSE_DEPTH);
    json_t *deep = parse(text);
    assert_true(json_is_deeper_than(deep, LIMIT_RESPONSE_DEPTH - 1));
    assert_false(json_is_deeper_than(deep, LIMIT_RESPONSE_DEPTH));
    json_decref(deep);
    free(text);
    text = deep_text(LIMIT_RESPONSE_DEPTH + 1);
    refuses(text, "body:2:64: the JSON has more than 64 levels");
    free(text);
    json_t *v;
    assert_int_equal(json_parse("[", (size_t)LIMIT_BODY + 1, "body", &v, NULL), ERR_TOO_LARGE);
}

static void any_value_will_do(void **state)
{
    (void)state;
    static const char *const texts[] = {"null", "true", "-1", "0.5", "\"x\"", " [ ] "};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        json_decref(parse(texts[i]));
    json_t *v;
    assert_int_equal(json_parse("[1]garbage", 3, "body", &v, NULL), 0); // `len` ends it
    json_decref(v);
}

static void merging(void **state)
{
    (void)state;
    json_t *into = parse("{\"a\":{\"x\":1,\"y\":[1,2]},\"b\":2,\"c\":{\"z\":1}}");
    json_t *over = parse("{\"a\":{\"y\":[3],\"w\":{}},\"b\":{\"q\":1},\"c\":null}");
    assert_true(json_deep_merge(into, over));
    json_object_set_new(json_object_get(over, "b"), "q", json_integer(99)); // shares nothing
    char *text = json_text(into);
    assert_string_equal(text, "{\"a\":{\"x\":1,\"y\":[3],\"w\":{}},\"b\":{\"q\":1},\"c\":null}");
    free(text);
    json_t *same = json_deep_copy(into);
    assert_false(json_deep_merge(into, same));
    json_decref(same);
    json_decref(over);
    json_decref(into);
}

// --- size of trees -------------------------------------------------------------------------------

static size_t allocated, most;

static void *counted_malloc(size_t size)
{
    void *p = malloc(size);
    allocated += malloc_usable_size(p) + sizeof(size_t);
    most = allocated > most ? allocated : most;
    return p;
}

static void counted_free(void *p)
{
    allocated -= p ? malloc_usable_size(p) + sizeof(size_t) : 0;
    free(p);
}

// json_tree_bytes() is an upper bound, and for long strings it is near the length of the text.
static void test_weight(void **state)
{
    static const char *const kinds[] = {
        "{}",       "[]",        "\"\"",          "0",     "true",
        "{\"\":0}", "[[]]",      "{\"a\":\"b\"}", "1.5e3", "\"\\u00e4\\\"\"",
        "[0]",      "{\"a\":{}}"};
    enum { COUNT = 20000 };
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct buf text;
        json_error_t fault;
        buf_init(&text, 1 << 22);
        buf_puts(&text, "[");
        for (int k = 0; k < COUNT; k++)
            buf_printf(&text, "%s%s", k ? "," : "", kinds[i]);
        buf_puts(&text, "]");
        size_t weight = json_tree_bytes(buf_str(&text), text.len);
        allocated = most = 0;
        json_set_alloc_funcs(counted_malloc, counted_free);
        json_t *tree = json_loads(buf_str(&text), 0, &fault);
        assert_non_null(tree);
        json_decref(tree);
        json_set_alloc_funcs(malloc, free);
        if (weight + 4096 < most || weight > 4 * most + 4096)
            fail_msg("%s: weight %zu, allocated %zu", kinds[i], weight, most);
        buf_free(&text);
    }
    assert_true(json_tree_bytes("\"aaaa\\\"[[[[[{{{{{,,,,,\"", 24) < 512);
    assert_true(json_tree_bytes("\"open\\", 6) < 512);
}

// A search for the quote after each escape would take minutes.
static void test_weight_of_escapes_takes_linear_time(void **state)
{
    static const char *const ends[] = {"\"", "x"}; // the quote comes at the end, or is missing
    enum { SIZE = 8 << 20 };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char *text = malloc(SIZE);
        assert_non_null(text);
        for (size_t k = 0; k < SIZE; k += 2)
            memcpy(text + k, "\\n", 2);
        memcpy(text, "\" ", 2);
        text[SIZE - 2] = ' ';
        text[SIZE - 1] = ends[i][0];
        clock_t start = clock();
        size_t weight = json_tree_bytes(text, SIZE);
        assert_true(clock() - start < 5 * CLOCKS_PER_SEC);
        assert_in_range(weight, SIZE, SIZE + 512);
        free(text);
    }
    assert_true(json_tree_bytes("\"a\\\"\\\\\",[", 9) > json_tree_bytes("\"a\\\"\\\\\"", 7) + 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weight_of_escapes_takes_linear_time),
        cmocka_unit_test(test_weight),
        cmocka_unit_test_setup_teardown(nested, begin, end),
        cmocka_unit_test_setup_teardown(strings, begin, end),
        cmocka_unit_test(bad_utf8_is_left_out),
        cmocka_unit_test(a_text_is_cut_between_characters),
        cmocka_unit_test_setup_teardown(bad_utf8_is_replaced, begin, end),
        cmocka_unit_test_setup_teardown(characters_that_yaml_forbids_are_escaped, begin, end),
        cmocka_unit_test_setup_teardown(doubles_are_short, begin, end),
        cmocka_unit_test_setup_teardown(doubles_read_back_equal, begin, end),
        cmocka_unit_test_setup_teardown(depth_of_the_writer, begin, end),
        cmocka_unit_test_setup_teardown(a_value_inside, begin, end),
        cmocka_unit_test(the_limit_of_the_buffer_is_told),
        cmocka_unit_test(both_cases_of_keys),
        cmocka_unit_test(getters_of_integers),
        cmocka_unit_test(getters_of_the_rest),
        cmocka_unit_test(paths),
        cmocka_unit_test(faults_have_a_position),
        cmocka_unit_test(depth_at_the_limit_and_past_it),
        cmocka_unit_test(any_value_will_do),
        cmocka_unit_test(merging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
