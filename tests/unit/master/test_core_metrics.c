// Metrics in the core: single reports and columns, the values kept beside them, the load at a
// start, and compaction.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "db/metrics/compaction.h"

static void run_one(void)
{
    submit_slots(1, "");
    report("agent-1", 1, "");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
}

static void post_as(const char *allocation, const char *group, int64_t steps, double loss)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"group\":\"%s\",\"metrics\":{\"stepsCompleted\":%lld,"
             "\"metrics\":{\"avgMetrics\":{\"loss\":%g}}}}",
             group, (long long)steps, loss);
    call_ok(core_trial_metrics, as_task(allocation), "1", body);
}

static void post(const char *group, int64_t steps, double loss)
{
    post_as("1.1.1", group, steps, loss);
}

// A list of steps or values, made by the caller's rule.
static void put_list(struct buf *out, int64_t count, int64_t (*rule)(int64_t i))
{
    buf_puts(out, "[");
    for (int64_t i = 0; i < count; i++)
        buf_printf(out, "%s%lld", i ? "," : "", (long long)rule(i));
    buf_puts(out, "]");
}

static int64_t from_one(int64_t i)
{
    return i + 1;
}

static int64_t zigzag(int64_t i)
{
    return i % 2 ? i : i + 10;
}

static char *columns(const char *group, int64_t count, int64_t (*steps)(int64_t i), int metrics)
{
    struct buf out;
    buf_init(&out, LIMIT_BODY);
    buf_printf(&out, "{\"group\":\"%s\",\"steps\":", group);
    put_list(&out, count, steps);
    buf_puts(&out, ",\"metrics\":{");
    for (int i = 0; i < metrics; i++) {
        buf_printf(&out, "%s\"m%d\":", i ? "," : "", i);
        put_list(&out, count, from_one);
    }
    buf_puts(&out, "}}");
    return buf_take(&out);
}

static int post_columns(const char *group, int64_t count, int64_t (*steps)(int64_t i), int metrics)
{
    char *body = columns(group, count, steps, metrics);
    int status = call_status(core_trial_metric_columns, as_task("1.1.1"), "1", body);
    free(body);
    return status;
}

static size_t seen(const char *group)
{
    size_t count = 0;
    for (const char *at = strchr(reports_seen(1, group), ':'); at; at = strchr(at + 1, ':'))
        count++;
    return count;
}

static void test_columns(void **state)
{
    (void)state;
    run_one();
    call_ok(core_trial_metric_columns, as_task("1.1.1"), "1",
            "{\"group\":\"training\",\"trialRunId\":1,\"steps\":[10,20,30],"
            "\"times\":[1700000000.5,\"2023-11-14T22:13:21Z\",1700000002],"
            "\"metrics\":{\"loss\":[0.5,null,\"NaN\"],\"lr\":[1,2,3]}}");
    assert_string_equal(reports_seen(1, "training"), "1:10 1:20 1:30");
    assert_stored("SELECT steps_completed FROM trials", "30");
    assert_stored("SELECT json_extract(summary_metrics, '$.avg_metrics.loss.count') FROM trials",
                  "1");
    assert_stored("SELECT json_extract(summary_metrics, '$.avg_metrics.lr.last') FROM trials", "3");
    assert_stored(
        "SELECT latest_training FROM trials",
        "{\"endTime\":\"2023-11-14T22:13:22.000000Z\",\"metrics\":{\"avgMetrics\":{\"loss\":"
        "\"NaN\",\"lr\":3}},\"numInputs\":0,\"totalBatches\":30}");

    // Repeated reports, large and small, in any order, do not change the visible values.
    for (int again = 0; again < 2; again++) {
        assert_int_equal(post_columns("many", COMPACTION_KEEP, from_one, 2), 200);
        assert_int_equal(post_columns("many", 100, from_one, 1), 200);
        assert_int_equal(post_columns("many", COMPACTION_KEEP, zigzag, 1), 200);
        assert_int_equal(seen("many"), COMPACTION_KEEP + 4);
    }
    assert_stored("SELECT count(*) FROM metric_chunks", "2");
    assert_int_equal(post_columns("validation", 3, from_one, 1), 200);
    assert_stored("SELECT json_extract(latest_validation, '$.totalBatches') FROM trials", "3");
}

static void test_columns_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *words;
    } cases[] = {
        {"{\"group\":\"\",\"steps\":[1],\"metrics\":{}}", "group"},
        {"{\"group\":\"g\",\"metrics\":{}}", "steps: not a list of 1 to"},
        {"{\"group\":\"g\",\"steps\":[],\"metrics\":{}}", "steps: not a list of 1 to"},
        {"{\"group\":\"g\",\"steps\":[1,-1],\"metrics\":{}}", "steps[1]"},
        {"{\"group\":\"g\",\"steps\":[1,1.5],\"metrics\":{}}", "steps[1]"},
        {"{\"group\":\"g\",\"steps\":[1],\"metrics\":[]}", "metrics: not an object"},
        {"{\"group\":\"g\",\"steps\":[1]}", "metrics: not an object"},
        {"{\"group\":\"g\",\"steps\":[1],\"metrics\":{\"a\":[1,2]}}", "metrics.a: not a list of 1"},
        {"{\"group\":\"g\",\"steps\":[1],\"metrics\":{\"a\":1}}", "metrics.a: not a list of 1"},
        {"{\"group\":\"g\",\"steps\":[1],\"metrics\":{\"a\":[true]}}", "metrics.a[0]"},
        {"{\"group\":\"g\",\"steps\":[1],\"metrics\":{\"\\u0001\":[1]}}", "control character"},
        {"{\"group\":\"g\",\"steps\":[1],\"times\":[1,2],\"metrics\":{}}",
         "times: not a list of 1"},
        {"{\"group\":\"g\",\"steps\":[1],\"times\":[\"x\"],\"metrics\":{}}", "times[0]"},
        {"{\"group\":\"g\",\"steps\":[1],\"times\":[null],\"metrics\":{}}", "times[0]"},
    };
    run_one();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            call_status(core_trial_metric_columns, as_task("1.1.1"), "1", cases[i].body), 400);
        if (!strstr(last_error, cases[i].words))
            fail_msg("%s: %s", cases[i].body, last_error);
    }
    assert_int_equal(call_status(core_trial_metric_columns, as_task("1.1.1"), "1",
                                 "{\"group\":\"g\",\"trialRunId\":2,\"steps\":[1],\"metrics\":{}}"),
                     403);
    assert_int_equal(call_status(core_trial_metric_columns, as_task("1.1.1"), "2", "{}"), 403);
    assert_stored("SELECT count(*) FROM metrics", "0");
}

static void test_columns_at_their_limits(void **state)
{
    (void)state;
    run_one();
    assert_int_equal(post_columns("g", LIMIT_STEPS_PER_POST, from_one, 1), 200);
    assert_int_equal(post_columns("g", LIMIT_STEPS_PER_POST + 1, from_one, 1), 413);
    int64_t steps = LIMIT_POINTS_PER_POST / 100;
    assert_int_equal(post_columns("h", steps, from_one, 100), 200);
    assert_int_equal(post_columns("h", steps + 1, from_one, 100), 413);
    assert_int_equal(post_columns("i", 1, from_one, LIMIT_METRICS_PER_POST), 200);
    assert_int_equal(post_columns("i", 1, from_one, LIMIT_METRICS_PER_POST + 1), 413);
    // The summary has exactly that many metrics.
    assert_int_equal(post_columns("j", 1, from_one, 10), 200);
    advance(SECOND);
    assert_stored("SELECT sum((SELECT count(*) FROM json_each(g.value))) FROM trials,"
                  " json_each(summary_metrics) g",
                  decimal(LIMIT_METRIC_NAMES));
}

// The log says once, at the first validation, that the searcher's metric is not in it.
static void test_a_missing_metric_is_logged(void **state)
{
    (void)state;
    static const char warning[] = "this trial reported accuracy; the searcher waits for loss: ";
    static const char body[] = "{\"group\":\"validation\",\"trialRunId\":1,\"steps\":[%d],"
                               "\"metrics\":{\"accuracy\":[0.5]}}";
    run_one();
    post("training", 1, 3);
    assert_null(strstr(logged("1.1"), "the searcher waits for"));
    for (int step = 2; step < 4; step++) {
        char text[200];
        snprintf(text, sizeof text, body, step);
        call_ok(core_trial_metric_columns, as_task("1.1.1"), "1", text);
    }
    const char *said = strstr(logged("1.1"), warning);
    assert_non_null(said);
    assert_null(strstr(said + 1, warning));
    restart_core();
    settle();
    call_ok(core_trial_metric_columns, as_task("1.1.1"), "1",
            "{\"group\":\"validation\",\"steps\":[9],\"metrics\":{\"accuracy\":[0.5]}}");
    said = strstr(logged("1.1"), warning);
    assert_null(strstr(said + 1, warning));
}

static void test_a_reported_metric_is_not_missing(void **state)
{
    (void)state;
    run_one();
    post("validation", 1, 1);
    call_ok(core_trial_metric_columns, as_task("1.1.1"), "1",
            "{\"group\":\"validation\",\"steps\":[9],\"metrics\":{\"accuracy\":[0.5]}}");
    assert_null(strstr(logged("1.1"), "the searcher waits for"));
}

// The first report after a pause is visible at once, later ones within a second.
static void test_what_is_kept_follows(void **state)
{
    (void)state;
    static const char steps[] = "SELECT steps_completed || ' ' || json_extract(latest_training,"
                                " '$.totalBatches') || ' ' || json_extract(summary_metrics,"
                                " '$.avg_metrics.loss.count') FROM trials";
    run_one();
    post("training", 1, 3);
    assert_stored(steps, "1 1 1");
    post("training", 2, 2);
    post("training", 3, 1);
    assert_stored(steps, "1 1 1");
    assert_string_equal(reports_seen(1, "training"), "1:1 1:2 1:3");
    advance(SECOND);
    assert_stored(steps, "3 3 3");
    post("training", 4, 1);
    post("validation", 4, 1); // the test waits for these
    assert_stored(steps, "4 4 4");
}

static void test_a_start_finds_what_was_not_kept(void **state)
{
    (void)state;
    run_one();
    for (int i = 1; i <= 20; i++)
        post("training", i, i);
    post("training", 7, 7); // a repetition
    assert_stored("SELECT steps_completed FROM trials", "1");
    restart_core();
    settle();
    assert_stored("SELECT steps_completed FROM trials", "20");
    assert_stored("SELECT json_extract(summary_metrics, '$.avg_metrics.loss.count') || ' ' ||"
                  " json_extract(summary_metrics, '$.avg_metrics.loss.sum') FROM trials",
                  "20 210");
    assert_stored("SELECT json_extract(latest_training, '$.totalBatches') FROM trials", "20");
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    post("training", 21, 21); // its id was not used before
    assert_int_equal(seen("training"), 21);
}

// All reports of the first run are hidden, so the summary no longer counts them.
static void test_a_run_without_a_checkpoint_begins_the_summary_again(void **state)
{
    (void)state;
    run_one();
    post("training", 1, 100);
    post("training", 2, 200);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_80));
    report("agent-1", 1, task_in("1.1.2", "RUNNING", ""));
    post_as("1.1.2", "training", 1, 1);
    advance(SECOND);
    assert_stored("SELECT json_extract(summary_metrics, '$.avg_metrics.loss.count') || ' ' ||"
                  " json_extract(summary_metrics, '$.avg_metrics.loss.max') FROM trials",
                  "1 1");
    assert_int_equal(seen("training"), 1);
}

static void wait_until_stored(const char *sql, const char *expected)
{
    for (int i = 0; i < 1000 && strcmp(stored(sql), expected); i++) {
        settle();
        clock_sleep_us(2000);
    }
    assert_stored(sql, expected);
}

static void test_folding(void **state)
{
    (void)state;
    run_one();
    for (int i = 0; i < COMPACTION_AT + 10; i++)
        post("training", i + 1, i);
    wait_until_stored("SELECT count(*) || ' ' || sum(reports) FROM metric_chunks", "1 1024");
    assert_int_equal(seen("training"), COMPACTION_AT + 10);
    restart_core();
    report("agent-1", 1, task_in("1.1.1", "RUNNING", ""));
    assert_int_equal(seen("training"), COMPACTION_AT + 10);
    post("gpu", -1, 1);
    post("gpu", -1, 2);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    wait_until_stored("SELECT sum(metrics_loose) FROM trials", "0");
    assert_stored("SELECT count(*) FROM metrics WHERE grp = 'gpu'", "1");
    assert_stored("SELECT count(*) FROM metrics WHERE grp = 'training'", "0");
    assert_stored("SELECT sum(reports) FROM metric_chunks", decimal(COMPACTION_AT + 10));
    assert_int_equal(seen("training"), COMPACTION_AT + 10);
    assert_int_equal(seen("gpu"), 2);

    call_ok(core_experiment_delete, as_user(OWNER, false), "1", NULL);
    wait_until_stored("SELECT count(*) FROM experiments", "0");
    assert_stored("SELECT (SELECT count(*) FROM metrics) + (SELECT count(*) FROM metric_chunks) +"
                  " (SELECT count(*) FROM metric_columns) + (SELECT count(*) FROM metric_cuts)",
                  "0");
}

// The master is killed between the end of a trial and the compaction; its next start compacts.
static void test_what_ended_is_folded_by_the_next_master(void **state)
{
    (void)state;
    run_one();
    post("training", 1, 1);
    post("training", 2, 1);
    report("agent-1", 1, task_in("1.1.1", "EXITED", EXIT_0));
    wait_until_stored("SELECT sum(metrics_loose) FROM trials", "0");
    stop_core();
    struct db_batch *b = db_batch_new();
    struct error e = {0};
    DB_ADD(b, METRIC_INSERT, DB_NOT_NULL(900), 1, "training", 1, DB_BLOB("B", 1));
    DB_ADD(b, TRIAL_SET_LOOSE, 1, 1);
    assert_int_equal(db_commit_wait(cl.db, b, &e), 0);
    start_core(); // a damaged row is reported in the log, and stays
    settle();
    assert_stored("SELECT count(*) || ' ' || sum(length(data) = 1) FROM metrics", "2 1");
    stop_core();
    b = db_batch_new();
    DB_ADD(b, METRICS_DELETE_COMPACTED, 1, "training", 10000);
    assert_int_equal(db_commit_wait(cl.db, b, &e), 0);
    start_core();
    wait_until_stored("SELECT sum(metrics_loose) FROM trials", "0");
}

#define with_cluster(test) cmocka_unit_test_setup_teardown(test, cluster_setup, cluster_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_cluster(test_columns),
        with_cluster(test_columns_refused),
        with_cluster(test_columns_at_their_limits),
        with_cluster(test_a_missing_metric_is_logged),
        with_cluster(test_a_reported_metric_is_not_missing),
        with_cluster(test_what_is_kept_follows),
        with_cluster(test_a_start_finds_what_was_not_kept),
        with_cluster(test_a_run_without_a_checkpoint_begins_the_summary_again),
        with_cluster(test_folding),
        with_cluster(test_what_ended_is_folded_by_the_next_master),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
