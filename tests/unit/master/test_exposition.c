// The text format of Prometheus.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "master/views/monitoring/exposition.h"

static struct buf out;

static int reset(void **state)
{
    (void)state;
    buf_free(&out);
    buf_init(&out, 1 << 20);
    return 0;
}

static void test_samples(void **state)
{
    (void)state;
    exposition_single(&out, "a_total", EXPOSITION_COUNTER, "Back\\slash\nand line", 3);
    exposition_family(&out, "b", EXPOSITION_GAUGE, "B");
    exposition_sample(&out, "b", LABELS({"pool", "a\"b\\c\nd"}, {"state", "free"}), 0.1);
    exposition_sample(&out, "b", NULL, 1e300);
    exposition_sample(&out, "b", NULL, 9007199254740991.0);
    exposition_sample(&out, "b", NULL, NAN);
    exposition_sample(&out, "b", NULL, -INFINITY);
    assert_string_equal(buf_str(&out), "# HELP a_total Back\\\\slash\\nand line\n"
                                       "# TYPE a_total counter\n"
                                       "a_total 3\n"
                                       "# HELP b B\n"
                                       "# TYPE b gauge\n"
                                       "b{pool=\"a\\\"b\\\\c\\nd\",state=\"free\"} 0.1\n"
                                       "b 1e+300\n"
                                       "b 9007199254740991\n"
                                       "b NaN\n"
                                       "b -Inf\n");
}

static void test_a_histogram(void **state)
{
    (void)state;
    struct histogram h = {0};
    histogram_add(&h, 90);
    histogram_add(&h, 200);
    histogram_add(&h, 40 * 1000000);
    exposition_histogram(&out, "t", LABELS({"route", "/x"}), &h);
    assert_string_equal(buf_str(&out), "t_bucket{route=\"/x\",le=\"0.0001\"} 1\n"
                                       "t_bucket{route=\"/x\",le=\"0.00025\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"0.001\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"0.0025\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"0.01\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"0.025\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"0.1\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"0.25\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"1\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"2.5\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"10\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"30\"} 2\n"
                                       "t_bucket{route=\"/x\",le=\"+Inf\"} 3\n"
                                       "t_sum{route=\"/x\"} 40.00029\n"
                                       "t_count{route=\"/x\"} 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_samples, reset),
        cmocka_unit_test_setup_teardown(test_a_histogram, reset, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
