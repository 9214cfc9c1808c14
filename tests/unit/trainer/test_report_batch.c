// The combination of queued reports.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "trainer/launcher/report_batch.h"

static struct queued_report *metrics(const char *group, int64_t step, const char *text)
{
    struct queued_report *r = xcalloc(1, sizeof *r);
    struct error e;
    r->group = group;
    r->step = step;
    r->wall_us = INT64_C(1700000000000000) + step;
    assert_int_equal(json_parse(text, strlen(text), "a test", &r->metrics, &e), 0);
    return r;
}

static struct queued_report *make_call(const char *path)
{
    struct queued_report *r = xcalloc(1, sizeof *r);
    r->path = xstrdup(path);
    r->body = json_object();
    return r;
}

static void free_all(struct queued_report **reports, size_t n)
{
    for (size_t i = 0; i < n; i++)
        queued_report_free(reports[i]);
}

static void test_nothing_is_overtaken(void **state)
{
    (void)state;
    struct queued_report *reports[] = {
        metrics("training", 1, "{}"),   metrics("training", 2, "{}"),
        make_call("/checkpoints"),      make_call("/checkpoints"),
        metrics("training", 3, "{}"),   metrics("validation", 3, "{}"),
        metrics("validation", 6, "{}"),
    };
    static const size_t runs[] = {2, 1, 1, 1, 2};
    size_t n = sizeof reports / sizeof *reports, at = 0;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        assert_int_equal(report_batch_size(reports + at, n - at), runs[i]);
        at += runs[i];
    }
    assert_int_equal(at, n);
    assert_int_equal(report_batch_size(reports, 1), 1);
    free_all(reports, n);
}

static void assert_columns(struct queued_report **reports, size_t n, const char *expected)
{
    json_t *wanted = NULL, *columns = report_batch_json(reports, n, 4);
    struct error e;
    assert_int_equal(json_parse(expected, strlen(expected), "a test", &wanted, &e), 0);
    if (!json_equal(columns, wanted))
        fail_msg("found %s", json_dumps(columns, 0));
    json_decref(wanted);
    json_decref(columns);
    free_all(reports, n);
}

static void test_columns(void **state)
{
    (void)state;
    struct queued_report *one[] = {metrics("validation", 7, "{\"loss\": 0.5}")};
    assert_columns(
        one, 1,
        "{\"group\": \"validation\", \"trialRunId\": 4, \"steps\": [7],"
        " \"times\": [\"2023-11-14T22:13:20.000007Z\"], \"metrics\": {\"loss\": [0.5]}}");
    struct queued_report *some[] = {
        metrics("training", 10, "{\"loss\": 0.5}"),
        metrics("training", 20, "{\"loss\": \"NaN\", \"mfu\": 0.25}"),
        metrics("training", 30, "{\"late\": 1}"),
        metrics("training", 40, "{\"loss\": 0.125}"),
    };
    assert_columns(some, 4,
                   "{\"group\": \"training\", \"trialRunId\": 4, \"steps\": [10, 20, 30, 40],"
                   " \"times\": [\"2023-11-14T22:13:20.000010Z\", \"2023-11-14T22:13:20.000020Z\","
                   " \"2023-11-14T22:13:20.000030Z\", \"2023-11-14T22:13:20.000040Z\"],"
                   " \"metrics\": {\"loss\": [0.5, \"NaN\", null, 0.125],"
                   " \"mfu\": [null, 0.25, null, null], \"late\": [null, null, 1, null]}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_overtaken),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
