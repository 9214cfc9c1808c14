// The warning that no trial has reported the searcher's metric.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/common/missing_metric.h"

static const char *const none[] = {NULL};

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_warning(const char *metric, const char *const *validation,
                           const char *const *training, bool completed, bool single,
                           const char *text)
{
    const struct reported_metrics reported = {"the trials", validation, training, completed,
                                              single};
    char *found = missing_metric_warning(metric, &reported);
    if (text)
        assert_string_equal(found, text);
    else
        assert_null(found);
    free(found);
}

static void names_the_reported_metrics(void **state)
{
    (void)state;
    expect_warning("val_loss", NAMES("accuracy", "loss"), none, false, false,
                   "the trials reported accuracy, loss; the searcher waits for val_loss: report it "
                   "as a validation metric, or set searcher.metric to one of these");
    expect_warning(
        "validation_los", NAMES("a", "validation_loss"), none, false, false,
        "the trials reported a, validation_loss; the searcher waits for validation_los: did "
        "you mean validation_loss?");
    expect_warning("accuracy", NAMES("acuracy"), none, true, true,
                   "the trials reported acuracy; the searcher waits for accuracy: did you mean "
                   "acuracy?");
    expect_warning("val_loss", NAMES("score"), none, false, false,
                   "the trials reported score; the searcher waits for val_loss: report it as a "
                   "validation metric, or set searcher.metric to score");
    expect_warning(
        "x1", NAMES("aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii", "jj"), none, false, false,
        "the trials reported aa, bb, cc, dd, ee, ff, gg, hh and 2 more; the searcher waits for x1: "
        "report it as a validation metric, or set searcher.metric to one of these");
}

static void long_names_are_cut_between_characters(void **state)
{
    (void)state;
    char name[201] = "a", found[512];
    for (int i = 0; i < 99; i++)
        memcpy(name + 1 + 2 * i, "\xc3\xbc", 3); // the 100th byte is the first half of a letter
    snprintf(found, sizeof found,
             "the trials reported score; the searcher waits for %.99s: report it as a validation "
             "metric, or set searcher.metric to score",
             name);
    expect_warning(name, NAMES("score"), none, false, false, found);
}

static void a_training_metric_is_in_the_wrong_group(void **state)
{
    (void)state;
    const char *text = "the trials reported loss as a training metric; the searcher waits for a "
                       "validation metric of this name: report it in the group validation";
    expect_warning("loss", none, NAMES("loss"), true, true, text);
    expect_warning("loss", NAMES("acc"), NAMES("loss"), false, false, text);
    expect_warning("loss", none, NAMES("loss"), false, false, NULL);
}

static void a_search_without_validations_has_no_winner(void **state)
{
    (void)state;
    expect_warning("loss", none, NAMES("speed"), true, false,
                   "the trials reported no validation metrics; the searcher waits for loss: report "
                   "it in the group validation");
    expect_warning("loss", none, NAMES("speed"), false, false, NULL);
    expect_warning("accuracy", none, NAMES("loss"), true, true,
                   "the trials reported no validation metrics; the searcher waits for accuracy: "
                   "report it in the group validation, or set searcher.metric to none");
    expect_warning("loss", none, NAMES("speed"), false, true, NULL);
    expect_warning("loss", none, none, true, true, NULL);
}

static void silent_if_nobody_waits(void **state)
{
    (void)state;
    expect_warning("loss", NAMES("accuracy", "loss"), none, true, false, NULL);
    expect_warning("", NAMES("accuracy"), none, true, false, NULL);
    expect_warning(NULL, NAMES("accuracy"), none, true, false, NULL);
    expect_warning("none", NAMES("accuracy"), none, true, false, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_reported_metrics),
        cmocka_unit_test(long_names_are_cut_between_characters),
        cmocka_unit_test(a_training_metric_is_in_the_wrong_group),
        cmocka_unit_test(a_search_without_validations_has_no_winner),
        cmocka_unit_test(silent_if_nobody_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
