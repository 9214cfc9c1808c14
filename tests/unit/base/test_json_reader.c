// The JSON reader accepts the same texts as jansson and reads the same values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json_reader.h"

static void test_reads_members(void **state)
{
    (void)state;
    char text[] = " {\"name\" : \"a\\n\\u00e9\\ud83d\\ude00\\\"\", \"n\":-12, \"s\":\"34\","
                  " \"skip\":{\"x\":[1,{\"y\":null}],\"z\":1.5e-3}, \"list\":[true , false,null]} ";
    struct json_reader s;
    struct error e = {0};
    char *key, *name = NULL;
    size_t len = 0, elements = 0;
    int64_t n = 0, as_text = 0;
    jr_init(&s, text, strlen(text), "the text", &e);
    assert_true(jr_enter(&s, '{'));
    while (jr_member(&s, &key))
        if (!strcmp(key, "name"))
            name = jr_string(&s, &len);
        else if (!strcmp(key, "n"))
            assert_true(jr_int(&s, &n));
        else if (!strcmp(key, "s"))
            assert_true(jr_int(&s, &as_text));
        else if (!strcmp(key, "list") && jr_enter(&s, '['))
            for (; jr_element(&s); elements++)
                jr_skip(&s);
        else
            jr_skip(&s);
    assert_int_equal(jr_end(&s), 0);
    assert_string_equal(name, "a\n\xc3\xa9\xf0\x9f\x98\x80\"");
    assert_int_equal(len, strlen(name));
    assert_int_equal(n, -12);
    assert_int_equal(as_text, 34);
    assert_int_equal(elements, 3);
}

static void test_odd_escapes(void **state)
{
    (void)state;
    char text[] = "[\"\\u0000|\\ud800|\\udc00x|\\ud800\\u0041|\\udc00\\udc00\"]";
    struct json_reader s;
    jr_init(&s, text, strlen(text), "the text", NULL);
    assert_true(jr_enter(&s, '[') && jr_element(&s));
#define REPLACED "\xef\xbf\xbd"
    assert_string_equal(jr_string(&s, NULL),
                        REPLACED "|" REPLACED "|" REPLACED "x|" REPLACED "A|" REPLACED REPLACED);
}

static int skip_all(const char *text, struct error *e)
{
    char *copy = xstrdup(text);
    struct json_reader s;
    jr_init(&s, copy, strlen(copy), "the text", e);
    jr_skip(&s);
    int err = jr_end(&s);
    free(copy);
    return err;
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",      "{",     "[",      "[1,]",    "[,1]",        "{\"a\"}",    "{\"a\":}",
        "{1:2}", "[1 2]", "\"open", "\"\\x\"", "\"\\u12g4\"", "nul",        "[tru]",
        "01",    "-",     "1.",     "1e",      "[1]]",        "{\"a\":1,}", "\"a\nb\"",
        "{} {}", "\"\\",  "[}",     "{]",      "+1",          ".5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        if (skip_all(bad[i], &e) != ERR_INVALID)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_non_null(strstr(e.text, "the text, byte "));
    }
}

static void test_depth(void **state)
{
    (void)state;
    char text[2 * LIMIT_JSON_DEPTH + 8];
    for (int more = 0; more < 2; more++) {
        int depth = LIMIT_JSON_DEPTH + more;
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        assert_int_equal(skip_all(text, NULL), more ? ERR_INVALID : 0);
    }
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } cases[] = {{"7", true, 7},
                 {"\"-8\"", true, -8},
                 {"9223372036854775807", true, INT64_MAX},
                 {"9223372036854775808", false, 0},
                 {"1.5", false, 0},
                 {"1e3", false, 0},
                 {"\"\"", false, 0},
                 {"\"x\"", false, 0},
                 {"true", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        struct json_reader s;
        int64_t value = 0;
        snprintf(text, sizeof text, "%s", cases[i].text);
        jr_init(&s, text, strlen(text), "the text", NULL);
        bool good = jr_int(&s, &value);
        if (good != cases[i].good || value != cases[i].value)
            fail_msg("%s", cases[i].text);
    }
}

// Random damage to a valid text causes at most an error, and always where jansson fails.
static void test_damaged(void **state)
{
    (void)state;
    static const char good[] = "{\"logs\":[{\"taskId\":\"1.1\",\"log\":\"a \\\"line\\\" \\u00e9\","
                               "\"rankId\":null,\"sequence\":12,\"x\":[1.5,{}]},{}]}";
    static const char letters[] = "{}[]\",:\\u0n1eE.-+ \ntrf\x01\xff";
    struct rng rng;
    rng_seed(&rng, 7, 1);
    for (int i = 0; i < 100000; i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (uint64_t k = rng_below(&rng, 3) + 1; k; k--)
            text[rng_below(&rng, sizeof good - 1)] = letters[rng_below(&rng, sizeof letters - 1)];
        bool by_scan = skip_all(text, NULL) == 0;
        json_t *j = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (j && !by_scan)
            fail_msg("not taken: %s", text);
        bool utf8 = !strchr(text, '\xff'), halves = strstr(text, "\\ud") || strstr(text, "\\uD");
        if (by_scan && !j && utf8 && !halves)
            fail_msg("taken: %s", text);
        json_decref(j);
    }
}

// --- trees ---------------------------------------------------------------------------------------

// json_parse_in_place() builds the same trees as jansson and refuses the same texts.
static void test_trees(void **state)
{
    static const char *const texts[] = {
        "{\"a\": [1, -2.5e3, \"x\\n\\u00e4\", null, true, false, {}], \"b\": {\"c\": []}}",
        "[]",
        " 7 ",
        "\"text\"",
        "null",
        "[9223372036854775807, -9223372036854775808]",
        "{\"\": \"\"}",
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\":1,\"a\":2}",
        "[9223372036854775808]",
        "[1 2]",
        "{\"a\" 1}",
        "\"\xff\"",
        "{\"\xff\": 1}",
        "[tru]",
        "[01]",
        "\"open",
        "[1] 2",
        "{1: 2}",
        "[\"\\x\"]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char copy[256];
        struct error e;
        json_t *ours = NULL, *theirs;
        snprintf(copy, sizeof copy, "%s", texts[i]);
        theirs = json_loads(texts[i], JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
        int err = json_parse_in_place(copy, strlen(copy), "text", &ours, &e);
        if (!err != !!theirs || !err != !!ours || (ours && !json_equal(ours, theirs)))
            fail_msg("%s: %s", texts[i], err ? e.text : "another tree");
        json_decref(ours);
        json_decref(theirs);
    }
}

// The contents of an upload's files stay in the text; all other values are read as usual.
static void test_uploads(void **state)
{
    char text[] =
        "{\"content\": \"a\", \"o\": {\"content\": \"b\"}, \"l\": [[{\"content\": \"c\"}], "
        "{\"content\": \"d\\/e\", \"more\": {\"content\": \"f\"}}, "
        "{\"content\": null}]}";
    json_t *tree;
    struct error e;
    (void)state;
    assert_int_equal(json_parse_upload(text, strlen(text), "text", &tree, &e), 0);
    json_t *one = json_array_get(json_object_get(tree, "l"), 1);
    json_int_t at = json_integer_value(json_object_get(one, "content"));
    assert_string_equal(text + at, "d/e");
    assert_int_equal(json_object_set_new(one, "content", json_string("d/e")), 0);
    json_t *expected = json_loads("{\"content\": \"a\", \"o\": {\"content\": \"b\"}, \"l\": "
                                  "[[{\"content\": \"c\"}], {\"content\": \"d/e\", \"more\": "
                                  "{\"content\": \"f\"}}, {\"content\": null}]}",
                                  0, NULL);
    assert_true(json_equal(tree, expected));
    json_decref(tree);
    json_decref(expected);
    char forged[] = "{\"l\": [{\"content\": 5}]}";
    assert_int_equal(json_parse_upload(forged, strlen(forged), "text", &tree, &e), ERR_INVALID);
    assert_null(tree);
}

static void test_uploads_have_few_other_texts(void **state)
{
    enum { LEN = LIMIT_JSON_STRINGS + 100 };
    struct error e;
    json_t *tree;
    char *text = malloc(LEN + 1);
    (void)state;
    for (int wrong = 0; wrong <= 1; wrong++) {
        const char *head = wrong ? "{\"l\":[{\"contend\":\"" : "{\"l\":[{\"content\":\"";
        memset(text, 'x', LEN);
        memcpy(text, head, strlen(head));
        snprintf(text + LEN - 4, 5, "\"}]}");
        assert_int_equal(json_parse_upload(text, LEN, "text", &tree, &e),
                         wrong ? ERR_TOO_LARGE : 0);
        json_decref(tree);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trees),
                                       cmocka_unit_test(test_reads_members),
                                       cmocka_unit_test(test_odd_escapes),
                                       cmocka_unit_test(test_refuses),
                                       cmocka_unit_test(test_depth),
                                       cmocka_unit_test(test_integers),
                                       cmocka_unit_test(test_damaged),
                                       cmocka_unit_test(test_uploads),
                                       cmocka_unit_test(test_uploads_have_few_other_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
