// Characters that act on a terminal are escaped, and all other characters stay as they are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"

static size_t encode(uint32_t code, char out[5])
{
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(leads[n] | code);
    out[n] = '\0';
    return n;
}

static void assert_shown(const char *text, const char *kept, const char *expected)
{
    char *shown = printable_text(text, kept);
    assert_string_equal(shown, expected);
    free(shown);
}

static void first_and_last_of_each_range(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        enum printability kind;
    } rows[] = {
        {0x01, CHAR_CONTROL},      {0x1b, CHAR_CONTROL},      {0x1f, CHAR_CONTROL},
        {0x20, CHAR_PRINTABLE},    {0x7e, CHAR_PRINTABLE},    {0x7f, CHAR_CONTROL},
        {0x80, CHAR_CONTROL},      {0x85, CHAR_CONTROL},      {0x9b, CHAR_CONTROL},
        {0x9f, CHAR_CONTROL},      {0xa0, CHAR_PRINTABLE},    {0x61b, CHAR_PRINTABLE},
        {0x61c, CHAR_CONTROL},     {0x61d, CHAR_PRINTABLE},   {0x7ff, CHAR_PRINTABLE},
        {0x800, CHAR_PRINTABLE},   {0x200d, CHAR_PRINTABLE},  {0x200e, CHAR_CONTROL},
        {0x200f, CHAR_CONTROL},    {0x2010, CHAR_PRINTABLE},  {0x2027, CHAR_PRINTABLE},
        {0x2028, CHAR_CONTROL},    {0x2029, CHAR_CONTROL},    {0x202a, CHAR_CONTROL},
        {0x202e, CHAR_CONTROL},    {0x202f, CHAR_PRINTABLE},  {0x2065, CHAR_PRINTABLE},
        {0x2066, CHAR_CONTROL},    {0x2069, CHAR_CONTROL},    {0x206f, CHAR_CONTROL},
        {0x2070, CHAR_PRINTABLE},  {0xd7ff, CHAR_PRINTABLE},  {0xd800, CHAR_INVALID},
        {0xdfff, CHAR_INVALID},    {0xe000, CHAR_PRINTABLE},  {0xffff, CHAR_PRINTABLE},
        {0x10000, CHAR_PRINTABLE}, {0x1f600, CHAR_PRINTABLE}, {0x10ffff, CHAR_PRINTABLE},
        {0x110000, CHAR_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[5];
        size_t len = encode(rows[i].code, text), taken;
        enum printability kind = printable_classify(text, len, &taken);
        if (kind != rows[i].kind)
            fail_msg("U+%04X is %d", (unsigned)rows[i].code, (int)kind);
        assert_int_equal(taken, kind == CHAR_INVALID ? 1 : len);
    }
}

static void invalid_utf8_is_escaped_byte_by_byte(void **state)
{
    (void)state;
    assert_shown("a\x9b"
                 "b",
                 "",
                 "a\\x9b"
                 "b");                                   // the 8-bit CSI itself
    assert_shown("\xc0\x9b", "", "\\xc0\\x9b");          // an overlong form of ESC
    assert_shown("\xe0\x80\x9b", "", "\\xe0\\x80\\x9b"); // a longer overlong form
    assert_shown("\xed\xa0\x80", "", "\\xed\\xa0\\x80"); // a surrogate
    assert_shown("\xf4\x90\x80\x80", "", "\\xf4\\x90\\x80\\x80");
    assert_shown("\xf8\xff", "", "\\xf8\\xff");
    assert_shown("x\xe2\x80", "", "x\\xe2\\x80"); // incomplete
    assert_shown("\xe2\x80[31m", "", "\\xe2\\x80[31m");
    assert_shown("\xe2\x1b[31m", "",
                 "\\xe2\\u001b[31m"); // the byte after an invalid one is classified
}

static void kept_characters_stay(void **state)
{
    (void)state;
    assert_shown("a\nb\tc\r", "\n\t", "a\nb\tc\\u000d");
    assert_shown("a\nb\tc", "", "a\\u000ab\\u0009c");
    assert_shown("\xc2\x9b"
                 "31m",
                 "\n\t", "\\u009b31m");
    assert_shown("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", "", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80");
    assert_shown("", "", "");
}

static void a_character_may_end_later(void **state)
{
    (void)state;
    size_t taken;
    assert_int_equal(printable_classify("\xe2\x80", 2, &taken), CHAR_INCOMPLETE);
    assert_int_equal(taken, 2);
    assert_int_equal(printable_classify("\xf0", 1, &taken), CHAR_INCOMPLETE);
    assert_int_equal(printable_classify("\xe0\x80", 2, &taken), CHAR_INVALID); // never well-formed
}

static void no_text_of_two_bytes_reaches_a_terminal_raw(void **state)
{
    (void)state;
    for (unsigned pair = 0; pair <= 0xffff; pair++) {
        char text[2] = {(char)(pair >> 8), (char)pair};
        struct buf out;
        buf_init(&out, 64);
        printable_append(&out, text, 2, "");
        assert_int_equal(buf_str(&out)[out.len], '\0');
        for (size_t i = 0, taken; i < out.len; i += taken)
            assert_int_equal(printable_classify(out.data + i, out.len - i, &taken), CHAR_PRINTABLE);
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_and_last_of_each_range),
        cmocka_unit_test(invalid_utf8_is_escaped_byte_by_byte),
        cmocka_unit_test(kept_characters_stay),
        cmocka_unit_test(a_character_may_end_later),
        cmocka_unit_test(no_text_of_two_bytes_reaches_a_terminal_raw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
