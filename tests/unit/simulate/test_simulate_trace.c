// Tests traces and teams from text: the values read, and the error of every kind of fault.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "simulate/trace.h"

#define S   SIMULATE_SECOND
#define TOP "submit_s,gpus,duration_s,user,queue\n"

static int read_bytes(struct trace *t, const char *text, size_t len, struct error *e)
{
    char *copy = malloc(len ? len : 1); // the exact length, for the address sanitizer
    memcpy(copy, text, len);
    int err = trace_read_jobs(t, copy, len, "t.csv", 0, INT64_MAX, e);
    free(copy);
    return err;
}

static struct trace read_good(const char *text)
{
    struct trace t = {0};
    struct error e = {0};
    if (read_bytes(&t, text, strlen(text), &e))
        fail_msg("%s", e.text);
    return t;
}

static void columns_go_by_their_names(void **state)
{
    (void)state;
    struct trace t = read_good("queue, what ,priority,duration_s,gpus,min_gpus,submit_s\r\n"
                               "vision,\"a, \"\"b\"\"\",7,1.5,8,2,100.25\r\n"
                               "\r\n"
                               "text,,,0,1,,3");
    assert_int_equal(t.job_count, 2);
    const struct simulate_job *j = &t.jobs[1]; // by time of submission
    assert_int_equal(t.jobs[0].submit, 3 * S);
    assert_int_equal(t.jobs[0].length, 1); // the shortest job takes one microsecond
    assert_int_equal(t.jobs[0].min_slots, 1);
    assert_int_equal(t.jobs[0].priority, SCHED_PRIORITY_DEFAULT);
    assert_true(j->submit == 100 * S + S / 4 && j->length == S + S / 2);
    assert_int_equal(j->max_slots, 8);
    assert_int_equal(j->min_slots, 2);
    assert_int_equal(j->priority, 7);
    assert_string_equal(t.teams[t.teams[j->team].parent].name, "vision");
    assert_string_equal(t.teams[j->team].name, "-");
    trace_free(&t);
}

static void a_byte_order_mark_and_no_jobs_are_fine(void **state)
{
    (void)state;
    struct trace t = read_good("\xef\xbb\xbf" TOP);
    assert_int_equal(t.job_count, 0);
    trace_free(&t);
}

static void jobs_outside_of_the_window_and_of_no_slots_are_counted(void **state)
{
    (void)state;
    static const char text[] = TOP "0,1,5,u,q\n10,1,5,u,q\n10,0,5,u,q\n20,1,5,u,q\n";
    struct trace t = {0};
    struct error e = {0};
    assert_int_equal(trace_read_jobs(&t, text, strlen(text), "t.csv", 10 * S, 20 * S, &e), 0);
    assert_int_equal(t.job_count, 1);
    assert_int_equal(t.outside, 2);
    assert_int_equal(t.no_slots, 1);
    trace_free(&t);
}

static void many_teams_are_told_apart(void **state)
{
    (void)state;
    enum { QUEUES = 40, USERS = 50 };
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_puts(&text, TOP);
    for (int i = 0; i < 2 * QUEUES * USERS; i++) // every user appears twice
        buf_printf(&text, "%d,1,5,u%d,q%d\n", i, i / QUEUES % USERS, i % QUEUES);
    struct trace t = read_good(buf_str(&text));
    assert_int_equal(t.team_count, QUEUES * (USERS + 1));
    for (int i = 0; i < QUEUES * USERS; i++) {
        char user[16], queue[16];
        snprintf(user, sizeof user, "u%d", i / QUEUES);
        snprintf(queue, sizeof queue, "q%d", i % QUEUES);
        const struct simulate_team *team = &t.teams[t.jobs[i].team];
        assert_int_equal(t.jobs[i].team, t.jobs[i + QUEUES * USERS].team);
        assert_string_equal(team->name, user);
        assert_string_equal(t.teams[team->parent].name, queue);
    }
    trace_free(&t);
    buf_free(&text);
}

// --- faults --------------------------------------------------------------------------------------

static void refuse(const char *text, size_t len, const char *wanted)
{
    struct trace t = {0};
    struct error e = {0};
    int err = read_bytes(&t, text, len, &e);
    if (err != ERR_INVALID)
        fail_msg("code %d (%s) for %s", err, e.text, text);
    if (strncmp(e.text, wanted, strlen(wanted)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", e.text, wanted);
    trace_free(&t);
}

static void every_fault_has_a_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } faults[] = {
        {"", "t.csv:1:1: no column \"submit_s\""},
        {"gpus,submit_s\n", "t.csv:1:1: no column \"duration_s\""},
        {"submit_s,gpus,duraton_s\n", "t.csv:1:15: column \"duraton_s\"; did you mean"},
        {"submit_s,gpus,gpus,duration_s\n", "t.csv:1:15: there are two columns \"gpus\""},
        {"submit_s,\"gpus,duration_s\n", "t.csv:1:10: a quoted field that does not end"},
        {TOP "0,1,5,u\n", "t.csv:2:8: 4 fields, the first line has 5"},
        {TOP "0,1,5,u,q,z\n", "t.csv:2:10: more fields than the 5"},
        {TOP "0,1,5,u,q\n\nx,1,5,u,q\n", "t.csv:4:1: submit_s: expected a number of seconds"},
        {TOP ",1,5,u,q\n", "t.csv:2:1: submit_s: expected a number"},
        {TOP "-1,1,5,u,q\n", "t.csv:2:1: submit_s: -1 is not between"},
        {TOP "nan,1,5,u,q\n", "t.csv:2:1: submit_s: expected a number"},
        {TOP "1e300,1,5,u,q\n", "t.csv:2:1: submit_s: 1e300 is not between"},
        {TOP "0,1.5,5,u,q\n", "t.csv:2:3: gpus: expected a whole number"},
        {TOP "0,,5,u,q\n", "t.csv:2:3: gpus: expected a whole number, found \"\""},
        {TOP "0,-1,5,u,q\n", "t.csv:2:3: gpus: -1 is not between 0 and 8192"},
        {TOP "0,8193,5,u,q\n", "t.csv:2:3: gpus: 8193 is not between"},
        {TOP "0,99999999999999999999,5,u,q\n", "t.csv:2:3: gpus: 9999"},
        {TOP "0,1,5s,u,q\n", "t.csv:2:5: duration_s: expected a number of seconds, found \"5s\""},
        {TOP "0,1,1e9,u,q\n", "t.csv:2:5: duration_s: 1e9 is not between"},
        {TOP "0,1,5,\"u\"x,q\n", "t.csv:2:10: expected a comma after the quoted field"},
        {TOP "0,1,5,\"u,q\n", "t.csv:2:7: a quoted field that does not end"},
        {"submit_s,gpus,duration_s,priority\n0,1,5,0\n", "t.csv:2:7: priority: 0 is not"},
        {"submit_s,gpus,duration_s,min_gpus\n0,4,5,5\n", "t.csv:2:7: min_gpus: 5 is not"},
        {"submit_s,gpus,duration_s,min_gpus\n0,4,5,0\n", "t.csv:2:7: min_gpus: 0 is not"},
        {TOP "0,1,5,u,q\n1e9,1,5,u,q\n", "t.csv: from the first submission to the last"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        refuse(faults[i].text, strlen(faults[i].text), faults[i].wanted);
}

static void long_fields_and_zero_bytes_are_refused(void **state)
{
    (void)state;
    char text[600] = TOP "0,1,5,";
    size_t len = strlen(text);
    memset(text + len, 'u', 256);
    memcpy(text + len + 256, ",q\n", 4);
    refuse(text, strlen(text), "t.csv:2:7: a field of more than 255 bytes");
    text[len + 255] = ',';
    memcpy(text + len + 256, "q\n", 3);
    struct trace t = read_good(text);
    assert_int_equal(t.job_count, 1);
    trace_free(&t);
    refuse(TOP "0,1,5,u\0,q\n", strlen(TOP) + 12, "t.csv:2:8: a zero byte");
}

static void a_cut_text_never_reads_on(void **state)
{
    (void)state;
    static const char text[] = TOP "0,1,5,\"u\"\"v\",q\r\n1,2,3,w,\"q\"\r\n";
    for (size_t len = 0; len < sizeof text; len++) {
        struct trace t = {0};
        struct error e = {0};
        read_bytes(&t, text, len, &e); // the sanitizers check this
        assert_true(t.job_count <= 2);
        trace_free(&t);
    }
}

// --- teams ---------------------------------------------------------------------------------------

static int read_teams(struct trace *t, const char *text, struct error *e)
{
    return trace_read_teams(t, text, strlen(text), "teams.yaml", e);
}

static void teams_have_users_weights_and_bounds(void **state)
{
    (void)state;
    struct trace t = {0};
    struct error e = {0};
    assert_int_equal(read_teams(&t,
                                "teams:\n"
                                "- {name: vision, weight: 2.5, guaranteed: 8, maximum: 64}\n"
                                "- name: text\n"
                                "  users: [ada, grace]\n",
                                &e),
                     0);
    static const char jobs[] = TOP "0,1,5,ada,vision\n1,1,5,bob,vision\n2,1,5,eve,other\n";
    assert_int_equal(trace_read_jobs(&t, jobs, strlen(jobs), "t.csv", 0, INT64_MAX, &e), 0);
    static const char *const wanted[] = {"text", "vision", "other"}; // the user decides first
    for (int i = 0; i < 3; i++)
        assert_string_equal(t.teams[t.teams[t.jobs[i].team].parent].name, wanted[i]);
    assert_string_equal(t.teams[t.jobs[0].team].name, "ada");
    assert_int_equal(t.teams[0].weight, 2500);
    assert_int_equal(t.teams[0].guaranteed, 8);
    assert_int_equal(t.teams[0].maximum, 64);
    assert_int_equal(t.teams[1].weight, SCHED_WEIGHT_ONE);
    assert_int_equal(t.teams[1].maximum, 0);
    trace_free(&t);
}

static void faults_of_teams_have_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } faults[] = {
        {"teams: [", "teams.yaml:"},
        {"", "teams.yaml"},
        {"teams:\n- {weight: 2}\n", "teams.yaml:2:"},
        {"teams:\n- {name: a, wieght: 2}\n", "teams.yaml:2:"},
        {"teams:\n- {name: a, weight: 0}\n", "teams.yaml:2:"},
        {"teams:\n- {name: a}\n- {name: a}\n", "teams.yaml:3:10: there are two teams a"},
        {"teams:\n- {name: a, users: [u]}\n- {name: b, users: [v, u]}\n",
         "teams.yaml:3:24: user u is in team a already"},
        {"teams:\n- {name: a, guaranteed: 9, maximum: 8}\n", "teams.yaml:2:10: team a is guar"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct trace t = {0};
        struct error e = {0};
        assert_int_not_equal(read_teams(&t, faults[i].text, &e), 0);
        if (strncmp(e.text, faults[i].wanted, strlen(faults[i].wanted)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", e.text, faults[i].wanted);
        trace_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_go_by_their_names),
        cmocka_unit_test(a_byte_order_mark_and_no_jobs_are_fine),
        cmocka_unit_test(jobs_outside_of_the_window_and_of_no_slots_are_counted),
        cmocka_unit_test(many_teams_are_told_apart),
        cmocka_unit_test(every_fault_has_a_place),
        cmocka_unit_test(long_fields_and_zero_bytes_are_refused),
        cmocka_unit_test(a_cut_text_never_reads_on),
        cmocka_unit_test(teams_have_users_weights_and_bounds),
        cmocka_unit_test(faults_of_teams_have_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
