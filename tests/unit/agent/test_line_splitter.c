// Splits streams of bytes into lines, and reads their prefixes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/logs/line_splitter.h"
#include "base/arena.h"
#include "base/limits.h"

// Collects lines, each followed by "|".
static void gather(void *ctx, const char *text, size_t len)
{
    struct buf *out = ctx;
    buf_append(out, text, len);
    buf_puts(out, "|");
}

// Feeds `text` in pieces of `piece` bytes.
static void split_text(const char *text, size_t len, size_t piece, struct buf *out)
{
    struct line_splitter s;
    line_splitter_init(&s);
    buf_reset(out);
    for (size_t at = 0; at < len; at += piece)
        line_splitter_feed(&s, text + at, len - at < piece ? len - at : piece, gather, out);
    line_splitter_end(&s, gather, out);
    line_splitter_free(&s);
}

static void splitting(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lines;
    } cases[] = {
        {"", ""},
        {"a", "a|"},
        {"a\n", "a|"},
        {"a\nb\n", "a|b|"},
        {"\n\n", "||"},
        {"a\r\nb\r\n", "a|b|"},
        {"\r\n\r\n", "||"},
        {"10%\r50%\r100%\n", "10%|50%|100%|"},
        {"\r10%\r\r100%\n\n", "10%|100%||"},
        {"a\r", "a|"},
        {"a\r\n\nb", "a||b|"},
    };
    struct buf out;
    buf_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t piece = 1; piece <= 4; piece++) { // for every way to cut the stream
            split_text(cases[i].text, strlen(cases[i].text), piece, &out);
            assert_string_equal(buf_str(&out), cases[i].lines);
        }
    }
    buf_free(&out);
}

static void control_bytes_are_replaced(void **state)
{
    (void)state;
    static const char text[] = "a\0b\n\0\n\x01\x07\x08\x7f\n\ttab \x1b[31mred\x1b[0m\n\xc3\xa4\0";
    struct buf out;
    buf_init(&out, 1 << 20);
    for (size_t piece = 1; piece <= 4; piece++) {
        split_text(text, sizeof text - 1, piece, &out);
        assert_string_equal(buf_str(&out), "a\xEF\xBF\xBD"
                                           "b|\xEF\xBF\xBD|"
                                           "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD|"
                                           "\ttab \x1b[31mred\x1b[0m|\xc3\xa4\xEF\xBF\xBD|");
    }
    buf_free(&out);
}

// Three bytes for each byte of the line: it is cut by the length of its text, between characters.
static void a_long_line_of_control_bytes_is_cut(void **state)
{
    (void)state;
    struct buf out;
    size_t len = LIMIT_LOG_LINE;
    char *zeros = xcalloc(len, 1);
    buf_init(&out, 1 << 20);
    split_text(zeros, len, len, &out);
    const char *mark = strstr(buf_str(&out), " [cut: the line has 65536 bytes]|");
    assert_non_null(mark);
    assert_null(strchr(mark, '\n'));
    assert_int_equal((mark - buf_str(&out)) % 3, 0);
    assert_true(out.len <= LIMIT_LOG_LINE);
    free(zeros);
    buf_free(&out);
}

static void split_x(size_t len, struct buf *out)
{
    char *text = xcalloc(len + 3, 1);
    memset(text, 'x', len);
    text[len] = '\n';
    text[len + 1] = 'y';
    split_text(text, len + 2, 4096, out);
    free(text);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    struct buf out;
    size_t whole = LIMIT_LOG_LINE - 64;
    buf_init(&out, 1 << 20);
    split_x(whole, &out);
    assert_int_equal(out.len, whole + 3);
    assert_null(strstr(buf_str(&out), "[cut"));
    split_x(whole + 1, &out);
    assert_true(out.len <= LIMIT_LOG_LINE + 3);
    assert_non_null(strstr(buf_str(&out), "x [cut: the line has 65473 bytes]|y|"));
    split_x(3 * LIMIT_LOG_LINE, &out);
    assert_true(out.len <= LIMIT_LOG_LINE + 3);
    assert_non_null(strstr(buf_str(&out), "x [cut: the line has 196608 bytes]|y|"));
    buf_free(&out);
}

static void a_cut_does_not_go_through_a_character(void **state)
{
    (void)state;
    struct buf out;
    size_t whole = LIMIT_LOG_LINE - 64, len = whole + 8;
    char *text = xcalloc(len, 1);
    buf_init(&out, 1 << 20);
    for (size_t shift = 1; shift <= 4; shift++) {
        memset(text, 'x', len);
        memcpy(text + whole - shift, "\xF0\x9F\x98\x80", 4);
        split_text(text, len, len, &out);
        const char *mark = strstr(buf_str(&out), " [cut");
        assert_non_null(mark);
        assert_int_equal(mark - buf_str(&out), shift == 4 ? whole : whole - shift);
    }
    free(text);
    buf_free(&out);
}

static void rank_and_level(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rank;
        const char *level, *rest;
    } cases[] = {
        {"plain", -1, "INFO", "plain"},
        {"", -1, "INFO", ""},
        {"[rank=0] hello", 0, "INFO", "hello"},
        {"[rank=12] WARNING: odd", 12, "WARNING", "odd"},
        {"[rank=3]ERROR:bad", 3, "ERROR", "bad"},
        {"DEBUG: x", -1, "DEBUG", "x"},
        {"TRACE: x", -1, "TRACE", "x"},
        {"CRITICAL: INFO: x", -1, "CRITICAL", "INFO: x"},
        {"INFO", -1, "INFO", "INFO"},
        {"INFO:", -1, "INFO", ""},
        {"ERRORS: two", -1, "INFO", "ERRORS: two"},
        {"error: small", -1, "INFO", "error: small"},
        {" INFO: x", -1, "INFO", " INFO: x"},
        {"[rank=] x", -1, "INFO", "[rank=] x"},
        {"[rank=1 x", -1, "INFO", "[rank=1 x"},
        {"[rank=-1] x", -1, "INFO", "[rank=-1] x"},
        {"[rank=1234567890] x", -1, "INFO", "[rank=1234567890] x"},
        {"[rank=999999999] x", 999999999, "INFO", "x"},
        {"ts=1 level=error msg=\"m\"", -1, "ERROR", "ts=1 level=error msg=\"m\""},
        {"ts=1 level=warn msg=m", -1, "WARNING", "ts=1 level=warn msg=m"},
        {"ts=1 level=errors", -1, "INFO", "ts=1 level=errors"},
        {"ts=1", -1, "INFO", "ts=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct parsed_line v = line_parse_prefix(cases[i].text, strlen(cases[i].text));
        assert_int_equal(v.rank, cases[i].rank);
        assert_string_equal(v.level, cases[i].level);
        assert_int_equal(v.len, strlen(cases[i].rest));
        assert_string_equal(v.text, cases[i].rest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitting),
        cmocka_unit_test(control_bytes_are_replaced),
        cmocka_unit_test(a_long_line_of_control_bytes_is_cut),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(a_cut_does_not_go_through_a_character),
        cmocka_unit_test(rank_and_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
