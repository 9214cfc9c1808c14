// Every pair of state and event of every machine, and the words of the states.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/wire.h"
#include "master/lifecycle/machines_run.h"

// One letter for each pair: '.' keeps the state and does nothing; '!' keeps the state and does
// something; else the letter of the next state. States in the order of the enums; experiments: A P
// C(ompleting) N (canceling) K(illing) E(rring), then c n e for the ends, D F.
static char experiment_letter(enum experiment_state s)
{
    return "APCNKEcneDF"[s];
}

static char pair_letter(struct transition t, int s, char letter)
{
    if (t.next == s)
        return t.action ? '!' : '.';
    return letter;
}

// Rows: states. Columns: activate pause cancel kill, search completed failed canceled, trials
// ended, delete, delete failed, continue.
static void test_experiment(void **state)
{
    (void)state;
    static const char *const expected[EXPERIMENT_STATES] = {
        ".PNKCEN.!.!", // ACTIVE
        "A.NKCEN.!.!", // PAUSED
        "!!NK...c!.!", // STOPPING_COMPLETED
        "!!.K...n!.!", // STOPPING_CANCELED
        "!!.....n!.!", // STOPPING_KILLED
        "!!.K...e!.!", // STOPPING_ERROR
        "!!......D.A", // COMPLETED
        "!!......D.A", // CANCELED
        "!!......D.A", // ERROR
        "!!.......F!", // DELETING
        "!!......D.!", // DELETE_FAILED
    };
    for (int s = 0; s < EXPERIMENT_STATES; s++)
        for (int ev = 0; ev < EXPERIMENT_EVENTS; ev++) {
            struct transition t =
                experiment_transition((enum experiment_state)s, (enum experiment_event)ev);
            char got = pair_letter(t, s, experiment_letter((enum experiment_state)t.next));
            if (got != expected[s][ev])
                fail_msg("experiment state %d event %d: %c, not %c", s, ev, got, expected[s][ev]);
            assert_true((got == '!') == (t.action == EXPERIMENT_DO_REFUSE));
            bool ends = t.next != s && t.next >= EXPERIMENT_COMPLETED && t.next <= EXPERIMENT_ERROR;
            assert_true(ends == (t.action == EXPERIMENT_DO_END));
        }
}

// Columns: activate pause stop cancel kill invalid out-of-restarts, completed preempted failed lost
// idle, continue.
static void test_trial(void **state)
{
    (void)state;
    static const char letters[] = "APCNKEcne";
    static const char *const expected[TRIAL_STATES] = {
        "!PCNKEec!!!!.", // ACTIVE
        "A.CNKEec.!...", // PAUSED
        "...NK..ccccc.", // STOPPING_COMPLETED
        "....K..nnnnn.", // STOPPING_CANCELED
        ".......nnnnn.", // STOPPING_KILLED
        ".......eeeee.", // STOPPING_ERROR
        "............A", // COMPLETED
        "............A", // CANCELED
        "............A", // ERROR
    };
    for (int s = 0; s < TRIAL_STATES; s++)
        for (int ev = 0; ev < TRIAL_EVENTS; ev++) {
            struct transition t = trial_transition((enum trial_state)s, (enum trial_event)ev);
            char got = pair_letter(t, s, letters[t.next]);
            if (got != expected[s][ev])
                fail_msg("trial state %d event %d: %c, not %c", s, ev, got, expected[s][ev]);
            assert_true((t.next != s && t.next >= TRIAL_COMPLETED) == (t.action == TRIAL_DO_END));
        }
}

// Columns: start runs paused completed failed canceled silent. Unmanaged trials are never STOPPING.
static void test_detached(void **state)
{
    (void)state;
    static const char letters[] = "AP....cne";
    static const char *const expected[TRIAL_STATES] = {
        "!.Pcene", // ACTIVE
        "AA.cen.", // PAUSED
        ".......", ".......", ".......", ".......",
        "A......", // COMPLETED
        "A......", // CANCELED
        "AA.c...", // ERROR
    };
    for (int s = 0; s < TRIAL_STATES; s++)
        for (int ev = 0; ev < UNMANAGED_EVENTS; ev++) {
            struct transition t =
                unmanaged_transition((enum trial_state)s, (enum unmanaged_event)ev);
            char got = pair_letter(t, s, letters[t.next]);
            if (got != expected[s][ev])
                fail_msg("trial state %d event %d: %c, not %c", s, ev, got, expected[s][ev]);
            bool ends = t.next != s && t.next >= TRIAL_COMPLETED;
            assert_true(ends == (t.action == UNMANAGED_DO_END));
            assert_true((t.next == TRIAL_ACTIVE && t.action) == (t.action == UNMANAGED_DO_RUN));
        }
}

// Columns: placed starting running drain ack kill part-failed gone.
static void test_allocation(void **state)
{
    (void)state;
    static const char letters[] = "QASREX";
    static const char *const expected[ALLOCATION_STATES] = {
        "A..X.X..", // QUEUED
        ".SRE!EEX", // ASSIGNED
        "..R!!EEX", // STARTING
        "...!!EEX", // RUNNING
        ".......X", // TERMINATING
        "........", // TERMINATED
    };
    for (int s = 0; s < ALLOCATION_STATES; s++)
        for (int ev = 0; ev < ALLOCATION_EVENTS; ev++) {
            struct transition t =
                allocation_transition((enum allocation_state)s, (enum allocation_event)ev);
            char got = pair_letter(t, s, letters[t.next]);
            if (got != expected[s][ev])
                fail_msg("allocation state %d event %d: %c, not %c", s, ev, got, expected[s][ev]);
            if (t.next == ALLOCATION_TERMINATED && s != ALLOCATION_TERMINATED)
                assert_int_equal(t.action, s == ALLOCATION_QUEUED ? ALLOCATION_DO_WITHDRAW
                                                                  : ALLOCATION_DO_END);
        }
}

// Columns: poll, new session, silent, grace over.
static void test_agent(void **state)
{
    (void)state;
    static const char letters[] = "ACL";
    static const char *const expected[AGENT_STATES] = {
        "CC.L", // AWAY
        ".!A.", // CONNECTED
        "CC..", // LOST
    };
    for (int s = 0; s < AGENT_STATES; s++)
        for (int ev = 0; ev < AGENT_EVENTS; ev++) {
            struct transition t = agent_transition((enum agent_state)s, (enum agent_event)ev);
            char got = pair_letter(t, s, letters[t.next]);
            if (got != expected[s][ev])
                fail_msg("agent state %d event %d: %c, not %c", s, ev, got, expected[s][ev]);
            assert_true((ev == AGENT_EV_NEW_SESSION) == (t.action == AGENT_DO_RECONCILE));
        }
}

// In every state of a trial some events still bring it to its end.
static void test_every_live_state_can_end(void **state)
{
    (void)state;
    for (int s = 0; s < TRIAL_COMPLETED; s++) {
        struct transition t = trial_transition((enum trial_state)s, TRIAL_EV_KILL);
        t = trial_transition((enum trial_state)t.next, TRIAL_EV_LOST);
        assert_true(trial_is_terminal((enum trial_state)t.next));
    }
    for (int s = 0; s < EXPERIMENT_COMPLETED; s++) {
        struct transition t = experiment_transition((enum experiment_state)s, EXPERIMENT_EV_KILL);
        t = experiment_transition((enum experiment_state)t.next, EXPERIMENT_EV_TRIALS_ENDED);
        assert_true(experiment_is_terminal((enum experiment_state)t.next));
    }
    for (int s = 0; s < ALLOCATION_TERMINATED; s++) {
        struct transition t = allocation_transition((enum allocation_state)s, ALLOCATION_EV_KILL);
        t = allocation_transition((enum allocation_state)t.next, ALLOCATION_EV_GONE);
        assert_int_equal(t.next, ALLOCATION_TERMINATED);
    }
}

static void test_words(void **state)
{
    (void)state;
    for (int s = 0; s < EXPERIMENT_STATES; s++) {
        enum experiment_state back;
        const char *word = experiment_state_word((enum experiment_state)s);
        assert_true(experiment_state_of(word, &back) && (int)back == s);
        assert_string_not_equal(wire_name(WIRE_EXPERIMENT_STATE, word), "STATE_UNSPECIFIED");
    }
    for (int s = 0; s < TRIAL_STATES; s++) {
        enum trial_state back;
        const char *word = trial_state_word((enum trial_state)s);
        assert_true(trial_state_of(word, &back) && (int)back == s);
        assert_string_not_equal(wire_name(WIRE_TRIAL_STATE, word), "STATE_UNSPECIFIED");
    }
    for (int s = 0; s < ALLOCATION_STATES; s++) {
        enum allocation_state back;
        const char *word = allocation_state_word((enum allocation_state)s);
        assert_true(allocation_state_of(word, &back) && (int)back == s);
        assert_string_not_equal(wire_name(WIRE_ALLOCATION_STATE, word), "STATE_UNSPECIFIED");
    }
    enum trial_state none;
    enum experiment_state active;
    assert_true(trial_state_of("RUNNING", &none) && none == TRIAL_ACTIVE);
    assert_true(experiment_state_of("RUNNING", &active) && active == EXPERIMENT_ACTIVE);
    assert_false(trial_state_of("DREAMING", &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experiment), cmocka_unit_test(test_trial),
        cmocka_unit_test(test_allocation), cmocka_unit_test(test_agent),
        cmocka_unit_test(test_words),      cmocka_unit_test(test_every_live_state_can_end),
        cmocka_unit_test(test_detached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
