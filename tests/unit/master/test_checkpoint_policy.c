// The checkpoint policy against a second implementation of its rules, and path patterns.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "master/retention/checkpoint_policy.h"
#include "master/retention/path_patterns.h"

enum { ROWS_MAX = 40, HISTORIES = 4000 };

// --- the oracle: a row is kept if fewer than so many rows come before it -------------------------

static bool later(const struct checkpoint_candidate *a, const struct checkpoint_candidate *b)
{
    if (a->steps != b->steps)
        return a->steps > b->steps;
    if (a->reported_at != b->reported_at)
        return a->reported_at > b->reported_at;
    return strcmp(a->uuid, b->uuid) < 0;
}

static bool better(const struct checkpoint_candidate *a, const struct checkpoint_candidate *b,
                   bool smaller)
{
    if (!a->has_metric || !b->has_metric)
        return a->has_metric;
    if (a->metric < b->metric)
        return smaller;
    if (a->metric > b->metric)
        return !smaller;
    if (a->leads != b->leads)
        return a->leads; // the first that reached it
    if (a->reported_at != b->reported_at)
        return a->reported_at < b->reported_at;
    if (a->steps != b->steps)
        return a->steps < b->steps;
    return strcmp(a->uuid, b->uuid) < 0;
}

static unsigned expected(const struct checkpoint_candidate *rows, size_t count,
                         const struct checkpoint_candidate *row, const struct checkpoint_policy *p)
{
    int64_t better_all = 0, better_own = 0, later_own = 0;
    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_candidate *o = &rows[i];
        if (o == row)
            continue;
        bool own = o->trial_id == row->trial_id, ahead = better(o, row, p->smaller_is_better);
        better_all += ahead;
        better_own += own && ahead;
        later_own += own && later(o, row);
    }
    unsigned keep = row->reasons & (KEEP_NEEDED | KEEP_OUT_OF_REACH);
    if (row->has_metric && better_all < p->experiment_best)
        keep |= KEEP_EXPERIMENT_BEST;
    if (row->has_metric && better_own < p->trial_best)
        keep |= KEEP_TRIAL_BEST;
    if (later_own < p->trial_latest)
        keep |= KEEP_TRIAL_LATEST;
    return keep;
}

static size_t random_history(struct rng *g, struct checkpoint_candidate *rows)
{
    size_t count = rng_below(g, ROWS_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct checkpoint_candidate){.trial_id = (int64_t)rng_below(g, 4),
                                                .steps = (int64_t)rng_below(g, 8),
                                                .reported_at = (int64_t)rng_below(g, 4),
                                                .leads = rng_below(g, 2),
                                                .has_metric = rng_below(g, 3),
                                                .metric = (double)rng_below(g, 5),
                                                .reasons = rng_below(g, 9) ? 0 : KEEP_NEEDED};
        snprintf(rows[i].uuid, sizeof rows[i].uuid, "%08llx-0000-4000-8000-%012zx",
                 (unsigned long long)rng_u32(g), i);
    }
    return count;
}

static void test_random_histories(void **state)
{
    struct rng g;
    struct checkpoint_candidate given[ROWS_MAX], rows[ROWS_MAX];
    (void)state;
    rng_seed(&g, 20260101, 1);
    for (int history = 0; history < HISTORIES; history++) {
        size_t count = random_history(&g, given);
        const struct checkpoint_policy policy = {.experiment_best = (int64_t)rng_below(&g, 5),
                                                 .trial_best = (int64_t)rng_below(&g, 4),
                                                 .trial_latest = (int64_t)rng_below(&g, 4),
                                                 .smaller_is_better = rng_below(&g, 2)};
        memcpy(rows, given, sizeof rows);
        checkpoint_policy_apply(rows, count, &policy);
        for (size_t i = 0; i < count; i++) {
            const struct checkpoint_candidate *found = NULL;
            for (size_t k = 0; k < count; k++)
                found = strcmp(rows[k].uuid, given[i].uuid) ? found : &rows[k];
            assert_non_null(found);
            unsigned want = expected(given, count, &given[i], &policy);
            if (found->reasons != want)
                fail_msg("history %d: row %zu is kept for %u, not for %u", history, i,
                         found->reasons, want);
        }
    }
}

static void test_a_policy_of_nothing_keeps_what_is_needed(void **state)
{
    struct checkpoint_candidate rows[2] = {{.uuid = "a", .steps = 1, .has_metric = true},
                                           {.uuid = "b", .steps = 2, .reasons = KEEP_NEEDED}};
    const struct checkpoint_policy nothing = {.smaller_is_better = true};
    (void)state;
    checkpoint_policy_apply(rows, 2, &nothing);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rows[i].reasons, strcmp(rows[i].uuid, "b") ? 0 : KEEP_NEEDED);
    checkpoint_policy_apply(NULL, 0, &nothing);
}

// --- patterns ------------------------------------------------------------------------------------

static void test_patterns(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool match;
    } cases[] = {
        {"a.pt", "a.pt", true},
        {"a.pt", "b.pt", false},
        {"*.pt", "a.pt", true},
        {"*.pt", "x/a.pt", false},
        {"*", "a", true},
        {"*", "x/a", false},
        {"**", "a", true},
        {"**", "x/y/a", true},
        {"**/*", "a", true},
        {"**/*", "x/y/a", true},
        {"**/*.pt", "a.pt", true},
        {"**/*.pt", "x/y/a.pt", true},
        {"**/*.pt", "x/y/a.py", false},
        {"x/**", "x/y/a", true},
        {"x/**", "x", false},
        {"x/**", "xy/a", false},
        {"x/**/a", "x/a", true},
        {"x/**/a", "x/y/z/a", true},
        {"x/**/a", "y/x/a", false},
        {"**/x/**/a", "w/x/y/a", true},
        {"x/*", "x/y/a", false},
        {"x", "x/y", false},
        {"?.pt", "a.pt", true},
        {"?.pt", "ab.pt", false},
        {"[ab].pt", "b.pt", true},
        {"[!ab].pt", "b.pt", false},
        {"[a-c]1", "b1", true},
        {"[a-c]1", "d1", false},
        {"[", "[", true},
        {"[a", "[a", true},
        {"[]]", "]", true},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"", "a", false},
        {"*", "", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (path_pattern_match(cases[i].pattern, cases[i].path) != cases[i].match)
            fail_msg("\"%s\" and \"%s\"", cases[i].pattern, cases[i].path);
}

// A matcher that tries every combination would never finish these patterns.
static void test_a_pattern_cannot_take_the_time(void **state)
{
    char pattern[PATH_PATTERN_MAX], path[PATH_PATTERN_MAX];
    (void)state;
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    for (size_t i = 0; i + 2 < sizeof pattern; i += 2)
        memcpy(pattern + i, "a*", 2);
    memcpy(pattern + sizeof pattern - 2, "b", 2);
    int64_t start = clock_mono_us();
    assert_false(path_pattern_match(pattern, path));
    for (size_t i = 0; i + 4 < sizeof pattern; i += 5)
        memcpy(pattern + i, "**/a/", 5);
    for (size_t i = 1; i + 1 < sizeof path; i += 2)
        path[i] = '/';
    pattern[1019] = 'b';
    pattern[1020] = '\0';
    assert_false(path_pattern_match(pattern, path));
    assert_true(clock_mono_us() - start < 1000000);
}

static void test_patterns_stay_inside(void **state)
{
    static const char *const bad[] = {"", "/etc/passwd", "../x", "a/../b", "a/"};
    struct error e;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(path_pattern_check(bad[i], "checkpointGlobs.0", &e), ERR_INVALID);
    assert_int_equal(path_pattern_check(NULL, "checkpointGlobs.0", &e), ERR_INVALID);
    assert_int_equal(path_pattern_check("**/*.pt", "checkpointGlobs.0", &e), 0);
    char *longest = xcalloc(1, PATH_PATTERN_MAX + 2);
    memset(longest, 'a', PATH_PATTERN_MAX);
    assert_int_equal(path_pattern_check(longest, "x", &e), 0);
    longest[PATH_PATTERN_MAX] = 'a';
    assert_int_equal(path_pattern_check(longest, "x", &e), ERR_INVALID);
    free(longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories),
        cmocka_unit_test(test_a_policy_of_nothing_keeps_what_is_needed),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_a_pattern_cannot_take_the_time),
        cmocka_unit_test(test_patterns_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
