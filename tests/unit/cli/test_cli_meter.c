// The progress bar of long operations, and the tables of an export.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/os/file.h"
#include "cli/common/bundle.h"

static void sizes_are_short(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {{0, "0 bytes"},         {999, "999 bytes"},       {1000, "1.0 KB"},
                 {999949, "999.9 KB"},   {999960, "1.0 MB"},       {12345678, "12.3 MB"},
                 {5000000000, "5.0 GB"}, {2500000000000, "2.5 TB"}};
    char text[24];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(meter_bytes(cases[i].bytes, text, sizeof(text)), cases[i].text);
}

static void the_bar_stays_inside(void **state)
{
    (void)state;
    char line[120];
    assert_string_equal(meter_line("copying", 5000000, 10000000, line, sizeof(line)),
                        "copying [############............]  50 %  5.0 MB of 10.0 MB");
    assert_non_null(strstr(meter_line("copying", 30, 10, line, sizeof(line)), "100 %"));
    assert_string_equal(meter_line("fetching", 1000, 0, line, sizeof(line)), "fetching  1.0 KB");
}

static void expect_file(const char *path, const char *text)
{
    char *found = NULL;
    size_t len;
    struct error e;
    if (file_read(path, 1 << 20, &found, &len, &e) != 0)
        fail_msg("%s", e.text);
    assert_string_equal(found, text);
    free(found);
}

static void a_table_for_each_group(void **state)
{
    (void)state;
    static const char reports[] =
        "{\"group\":\"training\",\"run\":1,\"steps\":1,\"time\":\"t\",\"metrics\":{\"loss\":0.5}}\n"
        "{\"group\":\"../"
        "odd\",\"run\":1,\"steps\":-1,\"time\":null,\"metrics\":{\"a,b\":\"NaN\"}}\n"
        "{\"group\":\"training\",\"run\":2,\"steps\":2,\"time\":\"t\",\"metrics\":"
        "{\"acc\":1,\"loss\":null,\"name\":\"x \\\"y\\\"\"}}\n";
    struct error e = {0};
    assert_int_equal(bundle_put("bundle", "trials/7/metrics.jsonl", reports, strlen(reports), &e),
                     0);
    if (bundle_tables("bundle", 7, &e) != 0)
        fail_msg("%s", e.text);
    expect_file("bundle/trials/7/training.csv", "steps,time,run,loss,acc,name\n"
                                                "1,t,1,0.5,,\n"
                                                "2,t,2,,1,\"x \"\"y\"\"\"\n");
    expect_file("bundle/trials/7/group-1.csv", "steps,time,run,\"a,b\"\n-1,,1,NaN\n");
    assert_int_equal(bundle_tables("bundle", 8, &e), 0); // a trial without metrics
}

static int count_line(void *ctx, const json_t *value, struct error *e)
{
    (void)value;
    (void)e;
    ++*(int *)ctx;
    return 0;
}

static void broken_lines_are_told_by_their_place(void **state)
{
    (void)state;
    struct error e = {0};
    int count = 0;
    assert_int_equal(bundle_put("bundle", "broken.jsonl", "{}\n{\n", 5, &e), 0);
    assert_true(bundle_lines("bundle", "broken.jsonl", count_line, &count, &e) < 0);
    assert_int_equal(count, 1);
    assert_non_null(strstr(e.text, "broken.jsonl:2"));
    char *large = malloc(BUNDLE_LINE_MAX + 8);
    memset(large, ' ', BUNDLE_LINE_MAX + 8);
    assert_int_equal(bundle_put("bundle", "large.jsonl", large, BUNDLE_LINE_MAX + 8, &e), 0);
    assert_int_equal(bundle_lines("bundle", "large.jsonl", count_line, &count, &e), ERR_TOO_LARGE);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_short),
        cmocka_unit_test(the_bar_stays_inside),
        cmocka_unit_test(a_table_for_each_group),
        cmocka_unit_test(broken_lines_are_told_by_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
