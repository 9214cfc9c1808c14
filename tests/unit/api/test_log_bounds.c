// Warnings about log hyperparameters whose bounds look like values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "api/config/log_bounds.h"

static char *warning_of(const char *yaml)
{
    struct error e;
    struct yaml_doc doc;
    if (expconf_parse(yaml, strlen(yaml), "f", &doc, &e))
        fail_msg("%s", e.text);
    char *warning = log_bounds_warning(doc.root);
    yaml_doc_free(&doc);
    return warning;
}

static void check_bounds(const char *range, const char *expected)
{
    char yaml[1024];
    snprintf(yaml, sizeof yaml,
             "entrypoint: x\nsearcher: {name: random, metric: m, max_trials: 9}\n"
             "hyperparameters: {lr: {type: log%s}}\n",
             range);
    char *warning = warning_of(yaml);
    if (!expected ? warning != NULL : !warning || !strstr(warning, expected))
        fail_msg("\"%s\" for %s", warning ? warning : "(none)", range);
    free(warning);
}

static void bounds_that_look_like_values_are_told(void **state)
{
    (void)state;
    check_bounds(", minval: 0.0001, maxval: 0.1",
                 "hyperparameters.lr: the bounds of a log range are exponents, so base 10 with "
                 "minval 0.0001 and maxval 0.1 draws values from 1.00023 to 1.25893. For values "
                 "from 0.0001 to 0.1 write {type: log, base: 10, minval: -4, maxval: -1}");
    check_bounds(", base: 2, minval: 16, maxval: 256", "base: 2, minval: 4, maxval: 8");
    check_bounds(", minval: 1, maxval: 100", "minval: 0, maxval: 2");
    check_bounds(", minval: 0.003, maxval: 0.9", "minval: -2.52288, maxval: -0.0457575");
    check_bounds(", minval: -4, maxval: -1", NULL);
    check_bounds(", minval: -20, maxval: 0", NULL);
    check_bounds(", minval: 0, maxval: 3", NULL);
    check_bounds(", minval: 1, maxval: 4", NULL);
    check_bounds(", minval: 0.5, maxval: 2.5", NULL);
    check_bounds(", minval: 2, maxval: 2", NULL);
    check_bounds(", base: 2, minval: 4, maxval: 10", NULL);
}

static void bounds_of_nested_ranges_are_told(void **state)
{
    (void)state;
    char *warning = warning_of("entrypoint: x\nsearcher: {name: random, metric: m, max_trials: 9}\n"
                               "hyperparameters:\n"
                               "  net: {lr: {type: log, minval: 0.001, maxval: 0.1}, width: 3}\n"
                               "  decay: {type: log, minval: 1.0e-6, maxval: 1.0e-2}\n"
                               "  noise: {type: log, minval: 0.01, maxval: 0.9}\n"
                               "  share: {type: double, minval: 0.1, maxval: 0.5}\n"
                               "  good: {type: log, minval: -3, maxval: -1}\n");
    assert_non_null(warning);
    assert_true(!strncmp(warning, "hyperparameters.net.lr: ", 24));
    assert_non_null(strstr(warning, "; the same is true of hyperparameters.decay, "
                                    "hyperparameters.noise"));
    assert_null(strstr(warning, "good"));
    free(warning);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_that_look_like_values_are_told),
        cmocka_unit_test(bounds_of_nested_ranges_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
