// Regular expressions of users: the syntax, the error messages, and matching in linear time.
#include "base/text/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"

static bool matches(const char *pattern, const char *text)
{
    struct pattern *p;
    struct error e;
    if (pattern_compile(pattern, "p", &p, &e))
        fail_msg("%s", e.text);
    bool yes = pattern_matches(p, text, strlen(text));
    pattern_free(p);
    return yes;
}

static void test_syntax(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool yes;
    } cases[] = {
        {"CUDA.*out of memory", "torch: CUDA is out of memory now", true},
        {"^Error", "an Error", false},
        {"(?i)error", "an ERROR", true},
        {"a{3}$", "xaaa", true},
        {"a{3}$", "xaa", false},
        {"[[:digit:]]+ms", "12ms", true},
        {"^.{2}$", "äö", true},
        {"uncorrectable ECC error encountered", "ECC", false},
        {"\\bNaN\\b", "loss NaN at 3", true},
        {"", "anything", true},
        {"a\\.b", "axb", false},
        {"\\Qa.b\\E", "a.b", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (matches(cases[i].pattern, cases[i].text) != cases[i].yes)
            fail_msg("\"%s\" and \"%s\"", cases[i].pattern, cases[i].text);
}

static void test_a_mistake_is_placed_and_explained(void **state)
{
    static const struct {
        const char *pattern, *said;
    } cases[] = {
        {"ab(?=c)", "p: column 3 of the pattern, at (?=: look-ahead is not supported"},
        {"(?!c)", "p: column 1 of the pattern, at (?!: look-ahead is not supported"},
        {"x(?<=c)", "column 2 of the pattern, at (?<: look-behind is not supported"},
        {"ö(?>c)", "column 2 of the pattern, at (?>: atomic groups"},
        {"[(?=](?=c)", "column 6 of the pattern, at (?=: look-ahead"},
        {"\\\\1(a)\\1", "column 7 of the pattern, at \\1: back-references are not supported"},
        {"a(b", "column 2 of the pattern: this ( is not closed"},
        {"(a)(b(c)", "column 4 of the pattern: this ( is not closed"},
        {"(a))b", "column 4 of the pattern: this ) closes nothing"},
        {"[)](a", "column 4 of the pattern: this ( is not closed"},
        {"x[a-", "column 2 of the pattern, at [a-: this [ is not closed"},
        {"[z-a]", "column 2 of the pattern, at z-a: this character range"},
        {"[*]|*", "column 5 of the pattern, at *: there is nothing to repeat before this"},
        {"a{2,1}", "column 2 of the pattern, at {2,1}: a count goes"},
        {"a**", "column 2 of the pattern, at **: this repeats a repetition"},
        {"ab\\", "column 3 of the pattern: the pattern ends with a backslash"},
        {"a\\q", "column 2 of the pattern, at \\q: this escape does not exist"},
        {"(a{1000}){1000}", "at {1000}: a count goes"},
        {"(a?){1000}", "too large after its counts are expanded"},
        {"\\pL{900}", "too large after its counts are expanded"},
        {"\xff", "not valid UTF-8"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pattern *p;
        struct error e;
        int rc = pattern_compile(cases[i].pattern, "p", &p, &e);
        if (!rc || p || !strstr(e.text, cases[i].said))
            fail_msg("\"%s\": %s", cases[i].pattern, rc ? e.text : "no error");
    }
}

static void test_limits(void **state)
{
    char text[LIMIT_PATTERN + 2] = "";
    struct pattern *p;
    struct error e;
    (void)state;
    memset(text, 'a', LIMIT_PATTERN);
    text[0] = '('; // not LIMIT_PATTERN_PROGRAM
    memset(text + 1, '?', 1);
    memcpy(text + 1, "?:x|", 4);
    memset(text + 5, '|', LIMIT_PATTERN - 5);
    text[LIMIT_PATTERN - 1] = ')';
    assert_int_equal(pattern_compile(text, "p", &p, &e), 0);
    pattern_free(p);
    text[LIMIT_PATTERN - 1] = '|';
    text[LIMIT_PATTERN] = ')';
    assert_int_equal(pattern_compile(text, "p", &p, &e), ERR_TOO_LARGE);
    assert_int_equal(pattern_compile("(a?){200}", "p", &p, &e), 0);
    pattern_free(p);
    assert_int_equal(pattern_compile("(a?){1000}", "p", &p, &e), ERR_TOO_LARGE);

    char *line = xcalloc(1, LIMIT_PATTERN_TEXT + 2);
    memset(line, 'a', LIMIT_PATTERN_TEXT + 1);
    assert_int_equal(pattern_compile("b", "p", &p, &e), 0);
    line[LIMIT_PATTERN_TEXT - 1] = 'b';
    assert_true(pattern_matches(p, line, LIMIT_PATTERN_TEXT + 1));
    line[LIMIT_PATTERN_TEXT - 1] = 'a';
    line[LIMIT_PATTERN_TEXT] = 'b';
    assert_false(pattern_matches(p, line, LIMIT_PATTERN_TEXT + 1));
    pattern_free(p);
    free(line);
}

// A backtracking matcher would need exponential time for each of these.
static void test_a_pattern_cannot_take_the_time(void **state)
{
    static const char *const hard[] = {"(a+)+b", "(a|aa)+$b", "(.*)(.*)(.*)(.*)[^a]x", "(a?){240}b",
                                       "(a|b)*a(a|b){120}c"};
    enum { LINE = LIMIT_LOG_LINE };
    char *line = xcalloc(1, LINE + 1);
    (void)state;
    memset(line, 'a', LINE);
    int64_t start = clock_mono_us();
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        assert_false(matches(hard[i], line));
    assert_true(clock_mono_us() - start < 60 * 1000000);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_a_mistake_is_placed_and_explained),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_pattern_cannot_take_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
