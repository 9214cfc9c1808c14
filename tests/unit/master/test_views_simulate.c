// The effect of additional agents: two gangs, and one agent that has capacity for one of them at a
// time.

#include "tests/unit/master/support/fixture.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"

static const int64_t second = 1000000;

// A job that held `slots` for `seconds` from its submission on.
static void store_run(int64_t trial, int64_t slots, int64_t asked_at, int64_t seconds)
{
    char id[32], task[16];
    snprintf(task, sizeof task, "%lld.task", (long long)trial);
    snprintf(id, sizeof id, "%s.1", task);
    store_trial(trial, 2, task);
    STORE(ALLOCATION_INSERT, id, trial, I(1), "QUEUED", slots, "gpu", asked_at);
    STORE(ALLOCATION_PLACE, "RUNNING", "[]", asked_at, slots, id);
    STORE(ALLOCATION_END, "", asked_at + seconds * second, id);
}

static int start(void **state)
{
    int failed = fixture_start(state);
    int64_t hour_ago = clock_wall_us() - 3600 * second;
    store_experiment(2, "COMPLETED", "second");
    store_run(11, 4, hour_ago, 1000);
    store_run(12, 4, hour_ago, 1000);
    store_run(13, 4, AT, 1000); // years ago
    STORE(AGENT_UPSERT, "node", "gpu", "[{},{},{},{}]", "", AT, AT, "", "");
    return failed;
}

// Mean wait in seconds of the gangs of 2 to 4 slots.
static double mean_wait(const json_t *answer, const char *key)
{
    char path[64];
    snprintf(path, sizeof path, "%s.waits.1.hours.mean", key);
    return round(json_number_value(value_at(answer, path)) * 3600);
}

static void one_more_agent_ends_the_wait(void **state)
{
    (void)state;
    json_t *answer = get_json("/api/v1/simulate?resourcePool=gpu&addNodes=1", BY_ADMIN);
    assert_string_equal(at(answer, "jobs"), "2");
    assert_string_equal(at(answer, "slotsPerNode"), "4");
    assert_string_equal(at(answer, "now.slots"), "4");
    assert_string_equal(at(answer, "then.slots"), "8");
    assert_true(mean_wait(answer, "now") >= 500);
    assert_true(mean_wait(answer, "then") == 0);
    json_decref(answer);
    answer = get_json("/api/v1/simulate?resourcePool=gpu&slotsPerNode=2&scheduler=fifo", BY_ADMIN);
    assert_string_equal(at(answer, "then.slots"), "6");
    assert_true(mean_wait(answer, "then") ==
                500); // two slots do not help, and nothing is preempted
    json_decref(answer);
}

static void bad_questions_are_refused(void **state)
{
    static const char *const refused[] = {
        "resourcePool=none", "resourcePool=gpu&days=0", "resourcePool=gpu&addNodes=0",
        "resourcePool=gpu&slotsPerNode=-1", "resourcePool=gpu&scheduler=luck"};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char path[128];
        snprintf(path, sizeof path, "/api/v1/simulate?%s", refused[i]);
        int status = status_of("GET", path, BY_ADMIN, NULL);
        if (status != 400)
            fail_msg("%s: %d", path, status);
    }
    assert_int_equal(status_of("GET", "/api/v1/simulate?resourcePool=gpu", BY_USER, NULL), 403);
    // A pool without agents has no usual size of an agent.
    assert_int_equal(status_of("GET", "/api/v1/simulate?resourcePool=default", BY_ADMIN, NULL),
                     409);
    assert_int_equal(
        status_of("GET", "/api/v1/simulate?resourcePool=default&slotsPerNode=2", BY_ADMIN, NULL),
        200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_agent_ends_the_wait),
        cmocka_unit_test(bad_questions_are_refused),
    };
    return cmocka_run_group_tests(tests, start, fixture_stop);
}
