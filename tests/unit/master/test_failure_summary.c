// The summary of the reasons why trials of a search failed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "master/common/failure_summary.h"

enum { MOST = 80 };

struct failed_trial {
    const char *reason, *hparams;
};

static void expect_summary(const struct failed_trial *list, size_t count, const char *text)
{
    struct trial_outcome trials[MOST] = {{0}};
    for (size_t i = 0; i < count; i++)
        trials[i] = (struct trial_outcome){.id = (int64_t)i + 1,
                                           .reason = list[i].reason,
                                           .hparams = json_loads(list[i].hparams, 0, NULL)};
    char *found = failure_summary(trials, count, count);
    if (text)
        assert_string_equal(found, text);
    else
        assert_null(found);
    free(found);
    for (size_t i = 0; i < count; i++)
        json_decref(trials[i].hparams);
}

#define EXPECT(list, text) expect_summary(list, sizeof(list) / sizeof *(list), text)

static void equal_reasons_are_counted(void **state)
{
    (void)state;
    const struct failed_trial trials[] = {
        {NULL, "{\"lr\": 0.1, \"batch\": 64}"},
        {"rank 0: exit 1: KeyError: 'lr' (train.py:31)", "{\"lr\": 0.2, \"batch\": 64}"},
        {NULL, "{\"lr\": 0.3, \"batch\": 128}"},
        {"rank 1: exit 1: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
         "{\"lr\": 0.1, \"batch\": 512}"},
        {"rank 0: exit 1: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 4 GiB",
         "{\"lr\": 0.3, \"batch\": 1024}"},
    };
    EXPECT(trials, "3 of 5 trials failed: 2 x CUDA out of memory in trials 4, 5 (batch 512 to "
                   "1024); 1 x KeyError: 'lr' (train.py:31) in trial 2 (lr 0.2)");
}

// A character of UTF-8 is shown whole or not at all.
static void long_values_are_cut_between_characters(void **state)
{
    (void)state;
    static const char nines[] = "999999999999999999999999999999999999999";
    char *hparams = xasprintf("{\"word\": \"%s\u00e9\"}", nines);
    char *text = xasprintf("1 of 2 trials failed: 1 x KeyError: 'lr' (train.py:31) in trial 2 "
                           "(word %s)",
                           nines);
    const struct failed_trial trials[] = {
        {NULL, "{\"word\": \"a\"}"},
        {"rank 0: exit 1: KeyError: 'lr' (train.py:31)", hparams},
    };
    EXPECT(trials, text);
    free(text);
    free(hparams);
}

// Trial 4 has the learning rate of trial 2, but did not come so far.
static void trials_that_failed_otherwise_do_not_count(void **state)
{
    (void)state;
    const struct failed_trial trials[] = {
        {NULL, "{\"lr\": 0.1, \"batch\": 64}"},
        {"rank 0: exit 1: KeyError: 'x'", "{\"lr\": 0.3, \"batch\": 64}"},
        {NULL, "{\"lr\": 0.1, \"batch\": 128}"},
        {"rank 0: exit 1: MemoryError: out of memory", "{\"lr\": 0.3, \"batch\": 512}"},
        {"rank 0: exit 1: MemoryError: out of memory", "{\"lr\": 0.1, \"batch\": 512}"},
    };
    EXPECT(trials, "3 of 5 trials failed: 2 x out of memory in trials 4, 5 (batch 512); 1 x "
                   "KeyError: 'x' in trial 2 (lr 0.3)");
    const struct failed_trial all[] = {
        {"rank 0: exit 1: KeyError: 'x'", "{\"lr\": 0.3, \"batch\": 64}"},
        {"rank 0: exit 1: MemoryError: out of memory", "{\"lr\": 0.3, \"batch\": 512}"},
    };
    EXPECT(all, "2 of 2 trials failed: 1 x KeyError: 'x' in trial 1 (batch 64); 1 x out of memory "
                "in trial 2 (batch 512)");
}

static void numbers_in_reasons_do_not_matter(void **state)
{
    (void)state;
    const struct failed_trial trials[] = {
        {"rank 0: exit 1: ValueError: loss is NaN at step 12 (train.py:3)", "{}"},
        {"rank 3: exit 2: ValueError: loss is NaN at step 9876 (train.py:3)", "{}"},
        {"rank 0: exit 1: ValueError: loss is NaN at step 1 (train.py:3) (3 times in the same way, "
         "right after its start)",
         "{}"},
        {"rank 0: exit 1: ValueError: loss is Inf at step 1 (train.py:3)", "{}"},
    };
    EXPECT(trials, "4 of 4 trials failed: 3 x ValueError: loss is NaN at step 12 (train.py:3) in "
                   "trials 1, 2, 3; 1 x ValueError: loss is Inf at step 1 (train.py:3) in trial 4");
}

static void exit_codes_without_an_error_differ(void **state)
{
    (void)state;
    const struct failed_trial trials[] = {{"rank 0: exit 3; it printed nothing", "{}"},
                                          {"rank 0: killed by SIGSEGV (segmentation fault)", "{}"},
                                          {"agent a was lost", "{}"}};
    EXPECT(trials, "3 of 3 trials failed: 1 x exit 3; it printed nothing in trial 1; 1 x killed by "
                   "SIGSEGV (segmentation fault) in trial 2; 1 x agent a was lost in trial 3");
}

static void words_and_nested_hyperparameters(void **state)
{
    (void)state;
    const struct failed_trial trials[] = {
        {"out of memory: MemoryError", "{\"model\": \"large\", \"o\": {\"a\": 1}, \"l\": [1]}"},
        {"killed by the kernel: out of memory", "{\"model\": \"large\", \"o\": {\"a\": 1}}"},
        {NULL, "{\"model\": \"small\", \"o\": {\"a\": 2}}"},
    };
    EXPECT(trials, "2 of 3 trials failed: 2 x out of memory in trials 1, 2 (model large)");
}

static void much_is_left_out(void **state)
{
    (void)state;
    struct failed_trial trials[16];
    char reasons[16][16];
    for (size_t i = 0; i < 16; i++) {
        memset(reasons[i], 0, sizeof reasons[i]);
        memset(reasons[i], i < 6 ? 'x' : 'a' + (int)i, 3);
        trials[i] = (struct failed_trial){reasons[i], "{}"};
    }
    EXPECT(trials, "16 of 16 trials failed: 6 x xxx in trials 1, 2, 3, 4, ..; 1 x ggg in trial 7; "
                   "1 x hhh in trial 8; 1 x iii in trial 9; 1 x jjj in trial 10; 6 more reasons");
}

// Reasons of letters alone: numbers do not tell reasons apart.
static void expect_reasons(size_t count, const char *text)
{
    struct failed_trial trials[MOST];
    char reasons[MOST][3];
    for (size_t i = 0; i < count; i++) {
        memcpy(reasons[i], (char[3]){(char)('a' + i / 26), (char)('a' + i % 26), '\0'}, 3);
        trials[i] = (struct failed_trial){reasons[i], "{}"};
    }
    expect_summary(trials, count, text);
}

static void many_reasons_are_bounded(void **state)
{
    (void)state;
    expect_reasons(64, "64 of 64 trials failed: 1 x aa in trial 1; 1 x ab in trial 2; 1 x ac in "
                       "trial 3; 1 x ad in trial 4; 1 x ae in trial 5; 59 more reasons");
    expect_reasons(65, "65 of 65 trials failed: 1 x aa in trial 1; 1 x ab in trial 2; 1 x ac in "
                       "trial 3; 1 x ad in trial 4; 1 x ae in trial 5; more than 59 more reasons");
}

static void a_part_of_the_trials(void **state)
{
    (void)state;
    const struct trial_outcome trials[] = {{.id = 1, .reason = "x"}, {.id = 2, .reason = "x"}};
    char *found = failure_summary(trials, 2, 3);
    assert_string_equal(found, "at least 2 of 3 trials failed: 2 x x in trials 1, 2");
    free(found);
}

static void no_failure_has_no_summary(void **state)
{
    (void)state;
    const struct failed_trial trials[] = {{NULL, "{}"}, {NULL, "{}"}};
    EXPECT(trials, NULL);
    expect_summary(trials, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_reasons_are_counted),
        cmocka_unit_test(long_values_are_cut_between_characters),
        cmocka_unit_test(trials_that_failed_otherwise_do_not_count),
        cmocka_unit_test(numbers_in_reasons_do_not_matter),
        cmocka_unit_test(exit_codes_without_an_error_differ),
        cmocka_unit_test(words_and_nested_hyperparameters),
        cmocka_unit_test(much_is_left_out),
        cmocka_unit_test(many_reasons_are_bounded),
        cmocka_unit_test(a_part_of_the_trials),
        cmocka_unit_test(no_failure_has_no_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
