// No cell is a formula, numbers stay numbers, and every text reads back equal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/text/csv.h"

static void cells(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"a,b", "\"a,b\""},
        {"a\"b", "\"a\"\"b\""},
        {"a\rb", "\"a\rb\""},
        {"a\nb", "\"a\nb\""},
        {"=1+1", "'=1+1"},
        {"=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"},
        {"=\"a\"", "\"'=\"\"a\"\"\""},
        {"@SUM(A1)", "'@SUM(A1)"},
        {"+1-1", "'+1-1"},
        {"-1-1", "'-1-1"},
        {"-", "'-"},
        {"+", "'+"},
        {"-.", "'-."},
        {"-1e", "'-1e"},
        {"-1e+", "'-1e+"},
        {"-1.5.2", "'-1.5.2"},
        {"-0x10", "'-0x10"},
        {"-infinite", "'-infinite"},
        {"-1.5 ", "'-1.5 "},
        {"\t=1", "'\t=1"},
        {"\r=1", "\"'\r=1\""},
        {"\n=1", "\"'\n=1\""},
        {"\xef\xbc\x9d"
         "1",
         "'\xef\xbc\x9d"
         "1"}, // full-width
        {"-1", "-1"},
        {"+1", "+1"},
        {"-1.5", "-1.5"},
        {"-.5", "-.5"},
        {"-5.", "-5."},
        {"-1e-07", "-1e-07"},
        {"-1.25E+10", "-1.25E+10"},
        {"-inf", "-inf"},
        {"-nan", "-nan"},
        {"a=1", "a=1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf out;
        buf_init(&out, 256);
        csv_append_cell(&out, rows[i][0]);
        assert_string_equal(buf_str(&out), rows[i][1]);
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
