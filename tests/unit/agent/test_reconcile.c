// Actions for every pair of desired and observed state, and for whole sets.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/tasks/reconcile.h"
#include "base/text/json.h"

static void every_pair(void **state)
{
    (void)state;
    enum {
        N = ACTION_NONE,
        S = ACTION_START,
        K = ACTION_KILL,
        G = ACTION_DECLARE_GONE,
        F = ACTION_FORGET
    };
    static const int expected[DESIRED_COUNT][OBSERVED_COUNT] = {
        //         absent running ending exited forgetting
        /* none    */ {N, K, N, N, N},
        /* run     */ {S, N, N, N, N},
        /* kill    */ {G, K, N, N, N},
        /* forget  */ {N, K, N, F, N},
    };
    for (int want = 0; want < DESIRED_COUNT; want++) {
        for (int seen = 0; seen < OBSERVED_COUNT; seen++)
            assert_int_equal(reconcile_pair((enum desired_action)want, (enum observed_state)seen),
                             expected[want][seen]);
    }
}

// Returns the state after an action.
static enum observed_state state_after(enum action_kind action, enum observed_state state)
{
    switch (action) {
    case ACTION_START:
        return OBSERVED_RUNNING;
    case ACTION_KILL:
        return OBSERVED_ENDING;
    case ACTION_DECLARE_GONE:
        return OBSERVED_EXITED;
    case ACTION_FORGET:
        return OBSERVED_FORGETTING;
    default:
        return state;
    }
}

// A repeated answer causes no further actions, and no order of answers starts a task twice.
static void answers_may_come_again_and_in_any_order(void **state)
{
    (void)state;
    for (int first = 0; first < DESIRED_COUNT; first++) {
        for (int seen = 0; seen < OBSERVED_COUNT; seen++) {
            enum action_kind action =
                reconcile_pair((enum desired_action)first, (enum observed_state)seen);
            enum observed_state now = state_after(action, (enum observed_state)seen);
            assert_int_equal(reconcile_pair((enum desired_action)first, now), ACTION_NONE);
            for (int late = 0; late < DESIRED_COUNT; late++)
                if (now != OBSERVED_ABSENT)
                    assert_int_not_equal(reconcile_pair((enum desired_action)late, now),
                                         ACTION_START);
        }
    }
}

static struct desired_state parse_desired(const char *text)
{
    struct desired_state d;
    struct error e = {0};
    json_t *answer = json_loads(text, 0, NULL);
    assert_non_null(answer);
    if (desired_state_parse(answer, &d, &e) != 0)
        fail_msg("%s", e.text);
    return d;
}

#define RUN(id)                                                                                    \
    "{\"allocationId\": \"" id "\", \"action\": \"RUN\", \"argv\": [\"x\"], \"ranks\": "           \
    "[{\"rank\": 0, \"localRank\": 0}]}"
#define KILL(id) "{\"allocationId\": \"" id "\", \"action\": \"KILL\", \"graceSeconds\": 3}"

static void whole_sets(void **state)
{
    (void)state;
    struct desired_state d =
        parse_desired("{\"version\": 4, \"tasks\": [" RUN("new") "," RUN("runs") "," KILL(
            "bad") "," KILL("unknown") "," RUN("new") "], \"forget\": [\"done\", \"stranger\"]}");
    const struct observed_task observed[] = {
        {"runs", OBSERVED_RUNNING},
        {"bad", OBSERVED_RUNNING},
        {"done", OBSERVED_EXITED},
        {"orphan", OBSERVED_RUNNING},
    };
    struct action actions[16];
    assert_int_equal(reconcile(&d, observed, 4, actions), 5);
    static const struct {
        enum action_kind kind;
        const char *id;
    } expected[] = {
        {ACTION_KILL, "bad"},  {ACTION_FORGET, "done"},          {ACTION_KILL, "orphan"},
        {ACTION_START, "new"}, {ACTION_DECLARE_GONE, "unknown"},
    };
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(actions[i].kind, expected[i].kind);
        assert_string_equal(actions[i].id, expected[i].id);
    }
    assert_int_equal(actions[0].wanted->grace_s, 3);
    assert_null(actions[2].wanted);
    assert_int_equal(actions[3].wanted->grace_s, DESIRED_DEFAULT_GRACE_S);
    desired_state_free(&d);
}

static void nothing_at_all(void **state)
{
    (void)state;
    struct desired_state d = parse_desired("{\"version\": 0, \"tasks\": []}");
    struct action actions[1];
    assert_int_equal(reconcile(&d, NULL, 0, actions), 0);
    desired_state_free(&d);
}

static void faulty_answers_are_refused_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text, *where;
    } cases[] = {
        {"{\"tasks\": []}", "version"},
        {"{\"version\": 1}", "tasks"},
        {"{\"version\": 1, \"tasks\": {}}", "tasks"},
        {"{\"version\": 1, \"tasks\": [" RUN("a") "," RUN("../b") "]}", "tasks.1.allocationId"},
        {"{\"version\": 1, \"tasks\": [" RUN("") "]}", "tasks.0.allocationId"},
        {"{\"version\": 1, \"tasks\": [" RUN("..") "]}", "tasks.0.allocationId"},
        {"{\"version\": 1, \"tasks\": [{\"allocationId\": \"a\", \"action\": \"STOP\"}]}",
         "tasks.0.action"},
        {"{\"version\": 1, \"tasks\": [{\"allocationId\": \"a\", \"action\": \"KILL\", "
         "\"graceSeconds\": -1}]}",
         "tasks.0.graceSeconds"},
        {"{\"version\": 1, \"tasks\": [{\"allocationId\": \"a\", \"action\": \"RUN\", "
         "\"argv\": []}]}",
         "tasks.0.argv"},
        {"{\"version\": 1, \"tasks\": [{\"allocationId\": \"a\", \"action\": \"RUN\", "
         "\"argv\": [1]}]}",
         "tasks.0.argv"},
        {"{\"version\": 1, \"tasks\": [{\"allocationId\": \"a\", \"action\": \"RUN\", "
         "\"argv\": [\"x\"], \"ranks\": []}]}",
         "tasks.0.ranks"},
        {"{\"version\": 1, \"tasks\": [{\"allocationId\": \"a\", \"action\": \"RUN\", "
         "\"argv\": [\"x\"], \"env\": {\"A\": 1}, \"ranks\": [{}]}]}",
         "tasks.0.env"},
        {"{\"version\": 1, \"tasks\": [{\"allocationId\": \"a\", \"action\": \"RUN\", "
         "\"argv\": [\"x\"], \"env\": {\"A=B\": \"\"}, \"ranks\": [{}]}]}",
         "tasks.0.env"},
        {"{\"version\": 1, \"tasks\": [{\"allocationId\": \"a\", \"action\": \"RUN\", "
         "\"argv\": [\"x\"], \"ranks\": [{\"rank\": 0}]}]}",
         "tasks.0.ranks.0"},
        {"{\"version\": 1, \"tasks\": [], \"forget\": [1]}", "forget.0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct desired_state d;
        struct error e = {0};
        json_t *answer = json_loads(cases[i].text, 0, NULL);
        assert_non_null(answer);
        assert_int_equal(desired_state_parse(answer, &d, &e), ERR_PEER);
        assert_int_equal(strncmp(e.text, cases[i].where, strlen(cases[i].where)), 0);
        assert_null(d.root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair),
        cmocka_unit_test(answers_may_come_again_and_in_any_order),
        cmocka_unit_test(whole_sets),
        cmocka_unit_test(nothing_at_all),
        cmocka_unit_test(faulty_answers_are_refused_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
