// Objects of the store as the API shows them: required keys, states, lists and pages, logs,
// metrics.

#include "tests/unit/master/support/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "db/metrics/compaction.h"
#include "db/metrics/series_json.h"

// The generated Python client requires each of these keys.
static void expect_keys(const json_t *object, const char *keys)
{
    char key[64];
    assert_true(json_is_object(object));
    for (const char *c = keys; *c; c += strspn(c, " ")) {
        size_t len = strcspn(c, " ");
        snprintf(key, sizeof key, "%.*s", (int)len, c);
        const json_t *value = json_object_get(object, key);
        if (!value || json_is_null(value))
            fail_msg("no %s", key);
        c += len;
    }
}

static void expect(const json_t *json, const char *path, const char *value)
{
    if (strcmp(at(json, path), value))
        fail_msg("%s is \"%s\", not \"%s\"", path, at(json, path), value);
}

// Takes the reference.
static void expect_and_drop(json_t *json, const char *path, const char *value)
{
    expect(json, path, value);
    json_decref(json);
}

// A number beyond 64 bits is no id; it must not be cut to another object's id.
static void test_ids_that_are_too_large(void **state)
{
#define LARGE "18446744073709551617" // 1, if it were truncated
    static const char *const refused[] = {
        "/api/v1/experiments/" LARGE,
        "/api/v1/trials/" LARGE,
        "/api/v1/trials/" LARGE "/logs",
        "/api/v1/experiments?offset=" LARGE,
        "/api/v1/tokens?tokenIds=" LARGE,
        "/api/v1/trials/metrics/training_metrics?trialIds=" LARGE,
        "/api/v1/trials/1/logs?rankIds=" LARGE,
        "/api/v1/events?experimentIds=" LARGE,
        "/api/v1/events?since=" LARGE,
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int status = status_of("GET", refused[i], BY_USER, NULL);
        if (status != 400)
            fail_msg("%s: %d", refused[i], status);
    }
    assert_int_equal(status_of("GET", "/api/v1/models/" LARGE, BY_USER, NULL), 404);
    assert_int_equal(status_of("GET", "/api/v1/tasks/1." LARGE, BY_USER, NULL), 404);
    assert_int_equal(
        status_of("POST", "/api/v1/trials/1/progress", BY_TASK, "{\"progress\": " LARGE "}"), 400);
}

static void test_cluster(void **state)
{
    (void)state;
    json_t *j = get_json("/info", BY_NONE);
    expect_keys(j, "version musterVersion master_id cluster_id cluster_name");
    expect(j, "version", "0.38.1");
    expect(j, "musterVersion", MUSTER_VERSION);
    expect(j, "cluster_id", fx.cluster.id);
    json_decref(j);
    j = get_json("/api/v1/master", BY_NONE);
    expect_keys(j, "clusterId clusterName masterId version hasCustomLogo strictJobQueueControl");
    expect_and_drop(j, "rbacEnabled", "false");
    expect_and_drop(get_json("/api/v1/master/config", BY_ADMIN), "config.port", "0");
    expect_and_drop(get_json("/api/v1/openapi.json", BY_NONE), "openapi", "3.1.0");
    expect_and_drop(get_json("/api/v1/me", BY_TASK), "user.username", "determined");

    j = get_json("/api/v1/workspaces", BY_USER);
    expect_keys(value_at(j, "workspaces.0"),
                "archived errorMessage id immutable name numExperiments "
                "numProjects pinned state username userId");
    expect(j, "workspaces.0.name", "Uncategorized");
    expect(j, "workspaces.0.id", "1");
    expect_and_drop(j, "pagination.total", "1");
    expect_and_drop(get_json("/api/v1/workspaces/1", BY_USER), "workspace.immutable", "true");
    j = get_json("/api/v1/workspaces/1/projects", BY_USER);
    expect_keys(value_at(j, "projects.0"), "archived errorMessage id immutable key name notes "
                                           "numActiveExperiments numExperiments state userId "
                                           "username workspaceId numRuns");
    json_decref(j);
    expect_and_drop(get_json("/api/v1/projects/1", BY_USER), "project.name", "Uncategorized");
    assert_int_equal(status_of("GET", "/api/v1/projects/9", BY_USER, NULL), 404);
    assert_int_equal(status_of("GET", "/api/v1/workspaces/9", BY_USER, NULL), 404);
}

static void test_experiment(void **state)
{
    (void)state;
    json_t *j = get_json("/api/v1/experiments/1", BY_USER);
    const json_t *x = jget(j, "experiment");
    expect_keys(x, "archived config id jobId name numTrials originalConfig projectId "
                   "projectOwnerId searcherType startTime state username");
    expect(x, "state", "STATE_RUNNING"); // by its allocation
    expect(x, "name", "first");
    expect(x, "labels.1", "b");
    expect(x, "username", "determined");
    expect(x, "originalConfig", "name: first\n");
    expect(x, "config.searcher.name", "single");
    expect(x, "resourcePool", "default");
    expect(x, "startTime", "2023-11-14T22:13:20.000001Z");
    expect(x, "trialIds.0", "1");
    assert_true(json_is_null(json_object_get(x, "endTime")));
    json_decref(j);
    assert_int_equal(status_of("GET", "/api/v1/experiments/99", BY_USER, NULL), 404);
    assert_int_equal(status_of("GET", "/api/v1/experiments/x", BY_USER, NULL), 400);

    // Answers that are rendered after the core's work: a submission and a change.
    struct reply r = call("POST", "/api/v1/experiments", BY_USER, "{\"config\":\"name: x\"}");
    assert_int_equal(r.status, 200);
    expect_keys(r.json, "config experiment warnings");
    expect(r.json, "experiment.id", "1");
    reply_free(&r);
    r = call("PATCH", "/api/v1/experiments/1", BY_USER, "{\"name\":\"y\"}");
    expect(r.json, "experiment.name", "first");
    reply_free(&r);

    const char *const states[][2] = {
        {"QUEUED", "STATE_QUEUED"},       {"ASSIGNED", "STATE_QUEUED"},
        {"PULLING", "STATE_PULLING"},     {"STARTING", "STATE_STARTING"},
        {"TERMINATING", "STATE_RUNNING"}, {"TERMINATED", "STATE_QUEUED"},
        {"RUNNING", "STATE_RUNNING"}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        STORE(ALLOCATION_SET_STATE, states[i][0], "1.task.1");
        expect_and_drop(get_json("/api/v1/experiments/1", BY_USER), "experiment.state",
                        states[i][1]);
        expect_and_drop(get_json("/api/v1/trials/1", BY_USER), "trial.state", states[i][1]);
    }
}

static int64_t total_of(const char *query)
{
    char path[256];
    snprintf(path, sizeof path, "/api/v1/experiments?%s", query);
    json_t *j = get_json(path, BY_USER);
    int64_t total = jget_int(jget(j, "pagination"), "total", -1);
    json_decref(j);
    return total;
}

static void test_experiment_list(void **state)
{
    (void)state;
    for (int64_t id = 100; id < 110; id++)
        store_experiment(id, id % 2 ? "COMPLETED" : "PAUSED", id == 105 ? "50%_done" : "other");
    STORE(EXPERIMENT_SET_ARCHIVED, I(1), I(109));

    json_t *j = get_json("/api/v1/experiments?limit=4&offset=2&archived=false", BY_USER);
    assert_int_equal(json_array_size(jget(j, "experiments")), 4);
    expect(j, "experiments.0.id", "106"); // newest first
    expect_keys(value_at(j, "experiments.0"),
                "archived config id jobId name numTrials originalConfig projectId projectOwnerId "
                "searcherType startTime state username");
    const char *const pages[][2] = {
        {"offset", "2"}, {"limit", "4"}, {"startIndex", "2"}, {"endIndex", "6"}, {"total", "10"}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        expect(jget(j, "pagination"), pages[i][0], pages[i][1]);
    json_decref(j);

    j = get_json("/api/v1/experiments?offset=-3", BY_USER); // from the end
    assert_int_equal(json_array_size(jget(j, "experiments")), 3);
    expect_and_drop(j, "pagination.endIndex", "11");
    j = get_json("/api/v1/experiments?limit=-2", BY_USER); // only the total
    assert_int_equal(json_array_size(jget(j, "experiments")), 0);
    expect_and_drop(j, "pagination.total", "11");
    j = get_json("/api/v1/experiments?offset=50", BY_USER);
    assert_int_equal(json_array_size(jget(j, "experiments")), 0);
    expect_and_drop(j, "pagination.endIndex", "11");
    j = get_json("/api/v1/experiments?sortBy=SORT_BY_NAME&orderBy=ORDER_BY_ASC&limit=1", BY_USER);
    expect_and_drop(j, "experiments.0.name", "50%_done");
    j = get_json("/api/v1/experiments?sort_by=SORT_BY_START_TIME&order_by=ORDER_BY_ASC", BY_USER);
    expect_and_drop(j, "experiments.0.id", "1");

    assert_int_equal(total_of("states=STATE_COMPLETED"), 5);
    assert_int_equal(total_of("states=STATE_COMPLETED&states=STATE_PAUSED"), 10);
    assert_int_equal(total_of("states=STATE_ACTIVE"), 1); // includes its sub-states
    assert_int_equal(total_of("states=STATE_RUNNING"), 1);
    assert_int_equal(total_of("states=STATE_QUEUED"), 0);
    assert_int_equal(total_of("users=determined"), 11);
    assert_int_equal(total_of("users=admin"), 0);
    assert_int_equal(total_of("userIds=2&userIds=1"), 11);
    assert_int_equal(total_of("archived=true"), 1);
    assert_int_equal(total_of("name=%25_"), 1); // wildcards match only themselves
    assert_int_equal(total_of("name=OTHER"), 9);
    assert_int_equal(total_of("labels=a&labels=b"), 11);
    assert_int_equal(total_of("labels=a&labels=c"), 0);
    assert_int_equal(total_of("projectId=1"), 11);
    assert_int_equal(total_of("unknown=1"), 11);

    const char *const bad[] = {
        "states=STATE_COMPLETE", "limit=many", "userIds=me", "archived=perhaps",
        "sortBy=SORT_BY_MOON",   "orderBy=UP", NULL};
    for (int i = 0; bad[i]; i++) {
        char path[128];
        snprintf(path, sizeof path, "/api/v1/experiments?%s", bad[i]);
        assert_int_equal(status_of("GET", path, BY_USER, NULL), 400);
    }
}

#define VALIDATION(loss, step)                                                                     \
    "{\"endTime\":\"2023-11-14T22:13:20Z\",\"metrics\":{\"avgMetrics\":{\"validation_loss\":" loss \
    "}},\"numInputs\":0,\"totalBatches\":" step "}"

static void report(const char *group, int64_t run, int64_t steps, const char *metrics,
                   const char *batches)
{
    static int64_t id;
    struct arena arena = {0};
    struct series_block b;
    json_t *values = json_loads(metrics, 0, NULL);
    json_t *more = batches ? json_loads(batches, 0, NULL) : NULL;
    assert_int_equal(series_from_json(&arena, values, more, &b, NULL), 0);
    b.ids[0] = ++id;
    b.runs[0] = run;
    b.steps[0] = steps;
    b.times[0] = AT + steps;
    struct db_batch *batch = db_batch_new();
    compaction_add_row(batch, 1, group, &b, 0, 1);
    assert_int_equal(db_commit_wait(fx.db, batch, &(struct error){0}), 0);
    json_decref(values);
    json_decref(more);
    arena_free(&arena);
}

static void checkpoint(const char *uuid, const char *status, int64_t steps, const char *validation)
{
    char here[512], storage[1024];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(storage, sizeof storage,
             "{\"type\":\"directory\",\"container_path\":\"%s/checkpoints\"}", here);
    STORE(CHECKPOINT_UPSERT, uuid, "1.task", "1.task.1", I(1), I(1), status, steps,
          "{\"steps_completed\":1}", "{\"weights.safetensors\":\"5000000000\",\"dir/\":0}", storage,
          validation, AT);
}

static void test_trial(void **state)
{
    (void)state;
    STORE(TRIAL_SET_LATEST_VALIDATION, VALIDATION("0.75", "200"), I(1));
    STORE(TRIAL_SET_BEST_VALIDATION, VALIDATION("0.5", "100"), I(1));
    STORE(TRIAL_SET_STEPS, I(230), I(1));
    expect_and_drop(get_json("/api/v1/trials/1", BY_TASK), "trial.logRetentionDays", "");
    STORE(EXPERIMENT_SET_LOG_RETENTION, I(30), I(1));
    expect_and_drop(get_json("/api/v1/trials/1", BY_TASK), "trial.logRetentionDays", "30");
    STORE(TRIAL_SET_LOG_RETENTION, I(7), I(1));
    checkpoint("c1", "COMPLETED", 100, "{\"avgMetrics\":{\"validation_loss\":0.5}}");
    checkpoint("c2", "COMPLETED", 200, "{\"avgMetrics\":{\"validation_loss\":0.75}}");
    checkpoint("c3", "DELETED", 50, NULL);

    json_t *j = get_json("/api/v1/trials/1", BY_TASK);
    const json_t *t = jget(j, "trial");
    expect_keys(t, "experimentId hparams id restarts startTime state totalBatchesProcessed taskIds "
                   "runnerState summaryMetrics");
    expect(t, "hparams.width", "64");
    expect(t, "totalBatchesProcessed", "230");
    expect(t, "latestValidation.totalBatches", "200");
    expect(t, "bestValidation.metrics.avgMetrics.validation_loss", "0.5");
    expect(t, "searcherMetricValue", "0.5");
    expect(t, "bestCheckpoint.uuid", "c1");
    expect(t, "taskIds.0", "1.task");
    expect(t, "checkpointCount", "2"); // one of three is deleted
    expect(t, "logRetentionDays", "7");
    json_decref(j);
    STORE(ALLOCATION_SET_CAUSE, "SHARE", I(7), "1.task.1");
    j = get_json("/api/v1/trials/1/starts", BY_USER);
    expect(j, "starts.0.cause", "SHARE");
    expect(j, "starts.0.preemptedForTrialId", "7");
    json_decref(j);
    j = get_json("/api/v1/experiments/1/starts?limit=1", BY_USER);
    expect(j, "starts.0.trialId", "1");
    expect_keys(json_array_get(jget(j, "starts"), 0), "agents epoch parts reason state trialId");
    expect_and_drop(j, "pagination.total", "1");
    assert_int_equal(status_of("GET", "/api/v1/experiments/99/starts", BY_USER, NULL), 404);
    STORE(ALLOCATION_PLACE, "RUNNING", "[]", AT, I(1), "1.task.1");
    j = get_json("/api/v1/experiments/1", BY_USER);
    expect(j, "experiment.liveAllocations", "1");
    assert_true(jget_double(jget(j, "experiment"), "runSeconds", -1) > 0);
    json_decref(j);
    j = get_json("/api/v1/experiments/1/trials?sort=ran&filter=ran%20%3E%200", BY_USER);
    assert_true(jget_double(json_array_get(jget(j, "trials"), 0), "wallClockTime", -1) > 0);
    json_decref(j);
    j = get_json("/api/v1/experiments/1/trials?filter=ran%20%3C%200.001", BY_USER);
    expect_and_drop(j, "pagination.total",
                    "0"); // waiting time does not count
    j = get_json("/api/v1/experiments/1/trials?sortBy=SORT_BY_BEST_VALIDATION_METRIC", BY_USER);
    expect(j, "trials.0.searcherMetricValue", "0.5");
    expect_and_drop(j, "pagination.total", "1");
    j = get_json("/api/v1/experiments/1/trials?states=STATE_PAUSED", BY_USER);
    expect_and_drop(j, "pagination.total", "0");
    assert_int_equal(status_of("GET", "/api/v1/experiments/99/trials", BY_USER, NULL), 404);
    expect_and_drop(get_json("/api/v1/experiments/1/search", BY_USER), "metric", "validation_loss");
    assert_int_equal(status_of("GET", "/api/v1/experiments/99/search", BY_USER, NULL), 404);
    assert_int_equal(status_of("GET", "/api/v1/trials/99", BY_USER, NULL), 404);
}

static void expect_seconds(const char *url, const char *object, double ran, double waited)
{
    json_t *j = get_json(url, BY_USER);
    const json_t *x = jget(j, object);
    x = json_is_array(x) ? json_array_get(x, 0) : x;
    const char *key = jget(x, "ranSeconds") ? "ranSeconds" : "wallClockTime";
    double seen = jget_double(x, key, -1), queued = jget_double(x, "waitedSeconds", -1);
    if (fabs(seen - ran) > 1e-3 || fabs(queued - waited) > 1e-3)
        fail_msg("%s: ran %g, waited %g", url, seen, queued);
    json_decref(j);
}

// Starts of two trials, in seconds: trial 21 waits from 100, runs 110 to 150, waits again from 170
// and runs 180 to 200; trial 22 waits from 120, runs 140 to 160, and is withdrawn after 205 to 207.
static void test_ran_and_waited(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        int trial, queued, started, ended;
    } starts[] = {{"r.1", 21, 100, 110, 150},
                  {"r.2", 21, 170, 180, 200},
                  {"r.3", 22, 120, 140, 160},
                  {"r.4", 22, 205, 0, 207}};
    store_experiment(77, "ACTIVE", "second");
    store_trial(21, 77, "21.task");
    store_trial(22, 77, "22.task");
    json_t *j = get_json("/api/v1/experiments/77", BY_USER);
    assert_null(jget(jget(j, "experiment"), "ranSeconds")); // it never asked for slots
    json_decref(j);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        int64_t second = 1000000;
        STORE(ALLOCATION_INSERT, starts[i].id, I(starts[i].trial), I(i + 10), "QUEUED", I(1),
              "default", I(starts[i].queued * second));
        if (starts[i].started)
            STORE(ALLOCATION_PLACE, "RUNNING", "[]", I(starts[i].started * second), I(1),
                  starts[i].id);
        STORE(ALLOCATION_END, "", I(starts[i].ended * second), starts[i].id);
    }
    // At least one trial ran: 110 to 160 and 180 to 200. They only waited: 100 to 110, 170 to 180,
    // 205 to 207.
    expect_seconds("/api/v1/experiments/77", "experiment", 70, 22);
    expect_seconds("/api/v1/experiments?filter=id%20%3D%2077", "experiments", 70, 22);
    expect_seconds("/api/v1/trials/21", "trial", 60, 20);
    expect_seconds("/api/v1/trials/22", "trial", 20, 22);
}

static void test_checkpoints(void **state)
{
    (void)state;
    json_t *j = get_json("/api/v1/checkpoints/c1", BY_TASK);
    const json_t *c = jget(j, "checkpoint");
    expect_keys(c, "metadata resources state training uuid taskId allocationId reportTime");
    expect_keys(jget(c, "training"), "experimentConfig experimentId trialId hparams");
    expect(c, "state", "STATE_COMPLETED");
    assert_string_equal(
        json_string_value(json_object_get(jget(c, "resources"), "weights.safetensors")),
        "5000000000");
    assert_string_equal(json_string_value(json_object_get(jget(c, "resources"), "dir/")), "0");
    expect(c, "training.searcherMetric", "0.5");
    expect(c, "training.validationMetrics.avgMetrics.validation_loss", "0.5");
    expect(c, "storage.type", "directory");
    json_decref(j);
    assert_int_equal(status_of("GET", "/api/v1/checkpoints/none", BY_USER, NULL), 404);

    const struct {
        const char *path, *first, *total;
    } lists[] = {
        {"/api/v1/trials/1/checkpoints", "c2", "3"},
        {"/api/v1/trials/1/checkpoints?states=STATE_COMPLETED", "c2", "2"},
        {"/api/v1/trials/1/checkpoints?states=STATE_DELETED&states=STATE_ERROR", "c3", "1"},
        {"/api/v1/trials/1/checkpoints?sortByAttr=SORT_BY_BATCH_NUMBER&orderBy=ORDER_BY_ASC", "c3",
         "3"},
        {"/api/v1/experiments/1/checkpoints?sortByAttr=SORT_BY_SEARCHER_METRIC", "c1", "3"},
        {"/api/v1/experiments/1/checkpoints?sortByAttr=SORT_BY_SEARCHER_METRIC&orderBy="
         "ORDER_BY_DESC&limit=1",
         "c2", "3"},
        {"/api/v1/experiments/1/checkpoints?sort_by_attr=SORT_BY_UUID&limit=2", "c1", "3"},
        {"/api/v1/experiments/1/checkpoints?sortByMetric=validation_loss", "c1", "3"},
        {"/api/v1/experiments/1/checkpoints?sortByMetric=validation_loss&states=STATE_COMPLETED"
         "&orderBy=ORDER_BY_DESC",
         "c2", "2"},
        {"/api/v1/trials/1/checkpoints?sortByMetric=%22%20OR%201", "c1", "3"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        j = get_json(lists[i].path, BY_USER);
        expect(j, "checkpoints.0.uuid", lists[i].first);
        expect_and_drop(j, "pagination.total", lists[i].total);
    }
    assert_int_equal(status_of("GET", "/api/v1/trials/9/checkpoints", BY_USER, NULL), 404);
}

static void test_workloads(void **state)
{
    (void)state;
    report("training", 1, 100, "{\"loss\":0.9}", "[{\"loss\":1}]");
    report("training", 1, 200, "{\"loss\":0.8}", NULL);
    report("validation", 1, 100, "{\"validation_loss\":0.5}", NULL);
    report("gpu", 1, -1, "{\"a\":1}", NULL);
    json_t *j = get_json("/api/v1/trials/1/workloads?limit=500", BY_USER);
    expect(j, "pagination.total", "6");
    expect(j, "workloads.0.checkpoint.uuid", "c3");
    expect(j, "workloads.1.training.totalBatches", "100");
    expect(j, "workloads.1.training.metrics.avgMetrics.loss", "0.9");
    assert_null(value_at(j, "workloads.1.training.metrics.batchMetrics"));
    expect_keys(value_at(j, "workloads.2.validation"), "metrics numInputs totalBatches endTime");
    expect_keys(value_at(j, "workloads.3.checkpoint"), "state totalBatches uuid resources");
    json_decref(j);
    j = get_json("/api/v1/trials/1/workloads?includeBatchMetrics=true&orderBy=ORDER_BY_DESC&limit=1"
                 "&offset=4",
                 BY_USER);
    expect_and_drop(j, "workloads.0.training.metrics.batchMetrics.0.loss", "1");
    const char *const totals[][2] = {{"filter=FILTER_OPTION_CHECKPOINT", "3"},
                                     {"filter=FILTER_OPTION_VALIDATION", "1"},
                                     {"filter=FILTER_OPTION_CHECKPOINT_OR_VALIDATION", "4"},
                                     {"filter=FILTER_OPTION_UNSPECIFIED", "6"},
                                     {"group=training", "5"},
                                     {"group=training&filter=FILTER_OPTION_VALIDATION", "0"},
                                     {"removeDeletedCheckpoints=true", "5"}};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        char path[128];
        snprintf(path, sizeof path, "/api/v1/trials/1/workloads?%s", totals[i][0]);
        expect_and_drop(get_json(path, BY_USER), "pagination.total", totals[i][1]);
    }
}

// Returns the lines of a stream as a JSON list of their results.
static json_t *get_lines(const char *path, int by)
{
    struct reply r = call("GET", path, by, NULL);
    if (r.status != 200)
        fail_msg("GET %s: %d %s", path, r.status, buf_str(&r.body));
    json_t *lines = json_array();
    char *rest = NULL;
    for (char *line = strtok_r(r.body.data ? r.body.data : (char[1]){0}, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *one = json_loads(line, 0, NULL);
        assert_non_null(one);
        json_array_append(lines, jget(one, "result"));
        json_decref(one);
    }
    reply_free(&r);
    return lines;
}

static size_t reports_in(const char *path)
{
    json_t *lines = get_lines(path, BY_USER);
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(lines); i++)
        n += json_array_size(jget(json_array_get(lines, i), "metrics"));
    json_decref(lines);
    return n;
}

static void test_metric_streams(void **state)
{
    (void)state;
    for (int64_t step = 1000; step < 3000; step++)
        report("training", 1, step, "{\"loss\":0.25}", NULL);
    STORE(METRIC_CUT_INSERT, I(1), I(2), I(2899)); // hides 100 of them
    json_t *lines = get_lines("/api/v1/trials/metrics/training_metrics?trialIds=1", BY_USER);
    expect_keys(value_at(lines, "0.metrics.0"),
                "archived endTime group id metrics totalBatches trialId trialRunId");
    expect(lines, "0.metrics.0.metrics.avg_metrics.loss", "0.9");
    expect(lines, "0.metrics.0.metrics.batch_metrics.0.loss", "1");
    expect(lines, "0.metrics.1.totalBatches", "200");
    json_decref(lines);
    assert_int_equal(reports_in("/api/v1/trials/metrics/training_metrics?trialIds=1"), 1902);
    lines = get_lines("/api/v1/trials/metrics/validation_metrics?trial_ids=1", BY_USER);
    expect_and_drop(lines, "0.metrics.0.metrics.validation_metrics.validation_loss", "0.5");
    assert_int_equal(reports_in("/api/v1/trials/metrics/trial_metrics?trialIds=1"), 1904);
    assert_int_equal(reports_in("/api/v1/trials/metrics/trial_metrics?trialIds=1&group=gpu"), 1);
    assert_int_equal(reports_in("/api/v1/trials/metrics/trial_metrics?trialIds=1&trialIds=1"),
                     3808);
    const char *const bad[] = {"", "?trialIds=x", NULL};
    for (int i = 0; bad[i]; i++) {
        char path[128];
        snprintf(path, sizeof path, "/api/v1/trials/metrics/training_metrics%s", bad[i]);
        assert_int_equal(status_of("GET", path, BY_USER, NULL), 400);
    }
    assert_int_equal(
        status_of("GET", "/api/v1/trials/metrics/training_metrics?trialIds=99", BY_USER, NULL),
        404);
}

static void test_series(void **state)
{
    (void)state;
    for (int64_t step = 0; step < 5000; step++) {
        char metrics[128];
        snprintf(metrics, sizeof metrics, "{\"a.b\":%lld,\"other\":\"text\"}",
                 (long long)(step == 1234 ? -7 : step));
        report("curve", 5, step, step == 4321 ? "{\"a.b\":\"NaN\"}" : metrics, NULL);
    }
    json_t *j = get_json("/api/v1/trials/1/series?group=curve&metric=a.b&max=100", BY_USER);
    expect(j, "series.0.metric", "a.b");
    expect(j, "series.0.total", "5000");
    size_t n = json_array_size(value_at(j, "series.0.values"));
    assert_true(n <= 100 && n > 25);
    assert_int_equal(json_array_size(value_at(j, "series.0.steps")), n);
    assert_int_equal(json_array_size(value_at(j, "series.0.times")), n);
    assert_int_equal(json_integer_value(value_at(j, "series.0.shown")), n);
    expect(j, "series.0.steps.0", "0");
    bool low = false, nan = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(value_at(j, "series.0.values"), i);
        low |= json_number_value(v) == -7;
        nan |= json_is_string(v) && !strcmp(json_string_value(v), "NaN");
    }
    assert_true(low && nan);
    json_decref(j);
    j = get_json("/api/v1/trials/1/series?group=curve&metric=other", BY_USER);
    expect_and_drop(j, "series.0.total", "0");
    j = get_json("/api/v1/trials/1/series?metric=loss&max=100000",
                 BY_USER); // the group is training
    expect_and_drop(j, "series.0.total", "1902");
    const char *const bad[] = {
        "", "?metric=", "?metric=a&max=7", "?metric=a&max=100001", "?metric=a&max=x", NULL};
    for (int i = 0; bad[i]; i++) {
        char path[128];
        snprintf(path, sizeof path, "/api/v1/trials/1/series%s", bad[i]);
        assert_int_equal(status_of("GET", path, BY_USER, NULL), 400);
    }
}

static void test_parts_of_a_series(void **state)
{
    (void)state;
    json_t *j = get_json("/api/v1/trials/1/series?group=curve&metric=a.b&metric=none&metric=a.b"
                         "&from=100&to=299&max=50",
                         BY_USER);
    assert_int_equal(json_array_size(jget(j, "series")), 2);
    expect(j, "series.0.total", "200");
    expect(j, "series.0.steps.0", "100");
    expect(j, "series.1.metric", "none");
    expect(j, "series.1.shown", "0");
    assert_true(json_integer_value(value_at(j, "series.0.shown")) <= 50);
    json_decref(j);
    // New reports make the cached series invalid.
    const char path[] = "/api/v1/trials/1/series?group=curve&metric=a.b";
    for (int64_t step = 5000; step < 5003; step++) {
        for (int again = 0; again < 2; again++) {
            char total[16];
            snprintf(total, sizeof total, "%lld", (long long)step);
            expect_and_drop(get_json(path, BY_USER), "series.0.total", total);
        }
        report("curve", 5, step, "{\"a.b\":1}", NULL);
    }
    STORE(METRIC_CUT_INSERT, I(1), I(6), I(4999));
    expect_and_drop(get_json(path, BY_USER), "series.0.total", "5000");
}

static json_t *answer_of(const char *path)
{
    return strstr(path, "trialIds=") ? get_lines(path, BY_USER) : get_json(path, BY_USER);
}

static void test_folding_changes_no_answer(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "/api/v1/trials/1/series?group=curve&metric=a.b&max=100000",
        "/api/v1/trials/1/series?group=curve&metric=a.b&metric=other&from=1000&to=4500",
        "/api/v1/trials/1/workloads?limit=0&includeBatchMetrics=true",
        "/api/v1/trials/1/workloads?limit=10&offset=500&orderBy=ORDER_BY_DESC",
        "/api/v1/trials/1/workloads?limit=10&sortKey=endTime",
        "/api/v1/trials/metrics/trial_metrics?trialIds=1",
        "/api/v1/trials/metrics/training_metrics?trialIds=1",
        "/api/v1/trials/metrics/validation_metrics?trialIds=1",
    };
    enum { PATHS = sizeof paths / sizeof *paths };
    json_t *before[PATHS];
    report("training", 2, 100, "{\"loss\":0.3,\"note\":\"told anew\"}", NULL);
    report("training", 2, 2950, "{\"loss\":7,\"count\":3,\"whole\":3.0}", "[1]");
    for (int i = 0; i < PATHS; i++)
        before[i] = answer_of(paths[i]);
    struct db_reader *db;
    struct db_batch *batch = db_batch_new();
    bool more;
    assert_int_equal(db_reader_open(fx.db, &db, NULL), 0);
    assert_int_equal(compaction_run(db, 1, true, batch, &more, NULL), 0);
    assert_false(db_batch_empty(batch));
    assert_int_equal(db_commit_wait(fx.db, batch, &(struct error){0}), 0);
    db_reader_close(db);
    for (int i = 0; i < PATHS; i++) {
        json_t *after = answer_of(paths[i]);
        if (!json_equal(after, before[i]))
            fail_msg("%s has another answer", paths[i]);
        json_decref(after);
        json_decref(before[i]);
    }
}

static size_t lines_of(const char *query)
{
    char path[LIMIT_PATTERN + 200];
    snprintf(path, sizeof path, "/api/v1/trials/1/logs?%s", query);
    json_t *lines = get_lines(path, BY_USER);
    size_t n = json_array_size(lines);
    json_decref(lines);
    return n;
}

static void the_longest_pattern(void)
{
    char longest[LIMIT_PATTERN + 2];
    memset(longest, '.', sizeof longest); // one state for each character would be too many
    longest[LIMIT_PATTERN] = '\0';
    memset(longest, '|', LIMIT_PATTERN);
    longest[0] = 'z';
    longest[LIMIT_PATTERN - 1] = 'z';
    char query[LIMIT_PATTERN + 100];
    snprintf(query, sizeof query, "enableRegex=true&searchText=%s", longest);
    assert_int_equal(lines_of(query), 3000); // a pattern that also matches the empty text
    snprintf(query, sizeof query, "/api/v1/trials/1/logs?enableRegex=true&searchText=%sa", longest);
    assert_int_equal(status_of("GET", query, BY_USER, NULL), 413);
}

static void test_logs(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++) {
        char text[64];
        snprintf(text, sizeof text, "step %d of \"3000\"%s", i, i % 2 ? "\n" : "");
        store_log("1.task", i % 3, i % 10 ? "INFO" : "WARNING", text);
    }
    json_t *lines = get_lines("/api/v1/trials/1/logs?limit=2", BY_USER);
    assert_int_equal(json_array_size(lines), 2);
    expect_keys(json_array_get(lines, 0), "id level message timestamp trialId taskId log");
    expect(lines, "0.message",
           "[2023-11-14T22:13:20.000000Z] containe [rank=0] || WARNING: step 0 "
           "of \"3000\"\n");
    expect(lines, "0.level", "LOG_LEVEL_WARNING");
    expect(lines, "1.rankId", "1");
    assert_true(json_is_string(value_at(lines, "0.id")));
    json_decref(lines);
    lines = get_lines("/api/v1/trials/1/logs?orderBy=ORDER_BY_DESC&limit=1", BY_USER);
    expect_and_drop(lines, "0.log", "step 2999 of \"3000\"\n");
    lines = get_lines("/api/v1/tasks/1.task/logs?limit=1", BY_USER);
    expect_keys(json_array_get(lines, 0), "id level log message taskId timestamp");
    json_decref(lines);

    assert_int_equal(lines_of(""), 3000);
    assert_int_equal(lines_of("rankIds=0&rank_ids=2"), 2000);
    assert_int_equal(lines_of("levels=LOG_LEVEL_WARNING"), 300);
    assert_int_equal(lines_of("agentIds=agent-a&containerIds=container-1234&stdtypes=stdout"
                              "&sources=task&allocationIds=1.task.1"),
                     3000);
    assert_int_equal(lines_of("agentIds=agent-b"), 0);
    assert_int_equal(lines_of("orderBy=ORDER_BY_DESC&before=3"), 2);
    assert_int_equal(lines_of("timestampBefore=2023-11-14T22:13:20Z"), 0);
    assert_int_equal(lines_of("timestampAfter=2023-11-14T22:13:19.5Z"), 3000);
    assert_int_equal(lines_of("searchText=STEP%2029"), 111); // 29, 290-299, 2900-2999
    assert_int_equal(lines_of("searchText=%25"), 0);
    assert_int_equal(lines_of("enableRegex=true&searchText=%5Estep%20(1%7C2)%20"), 2);
    assert_int_equal(lines_of("enableRegex=true&searchText=%5Estep%20(1%7C2)%20&limit=1"), 1);

    const char *const bad[] = {"levels=LOUD",
                               "rankIds=x",
                               "limit=-1",
                               "timestampAfter=yesterday",
                               "enableRegex=true&searchText=%5B",
                               "enableRegex=true&searchText=(a%7B1%2C200%7D)%7B1%2C200%7D",
                               "enableRegex=true&searchText=(a)%5C1",
                               "follow=true&orderBy=ORDER_BY_DESC",
                               NULL};
    for (int i = 0; bad[i]; i++) {
        char path[256];
        snprintf(path, sizeof path, "/api/v1/trials/1/logs?%s", bad[i]);
        assert_int_equal(status_of("GET", path, BY_USER, NULL), 400);
    }
    the_longest_pattern();
    assert_int_equal(status_of("GET", "/api/v1/trials/99/logs", BY_USER, NULL), 404);
    assert_int_equal(status_of("GET", "/api/v1/tasks/none/logs", BY_USER, NULL), 404);

    lines = get_lines("/api/v1/trials/1/logs/fields", BY_USER);
    expect(lines, "0.rankIds.2", "2");
    expect(lines, "0.agentIds.0", "agent-a");
    expect_and_drop(lines, "0.sources.0", "task");
}

// A search that used all its time says where it stopped. Continuing from there finds the remaining
// lines, each of them once.
static void search_in_parts(const char *order, const char *on, size_t expected)
{
    size_t found = 0, calls = 0;
    int64_t place = 0;
    for (bool cut = true; cut && calls < 10000; calls++) {
        char path[256];
        snprintf(path, sizeof path,
                 "/api/v1/trials/1/logs?enableRegex=true&searchText=step%%20%%5B0-9%%5D*0%%20"
                 "&orderBy=%s&%s=%lld",
                 order, on, (long long)place);
        struct reply r = call("GET", path, BY_USER, NULL);
        char *rest = NULL;
        cut = false;
        for (char *line = strtok_r(r.body.data ? r.body.data : (char[1]){0}, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest)) {
            json_t *one = json_loads(line, 0, NULL);
            const char *said = jget_string(jget(one, "error"), "message", "");
            const char *way = strstr(said, on);
            found += jget(one, "result") != NULL;
            cut = *said;
            assert_true(!cut || (way && strstr(said, "CPU time")));
            if (cut) {
                int64_t next = strtoll(way + strlen(on) + 1, NULL, 10);
                assert_int_not_equal(next, place);
                place = next;
            }
            json_decref(one);
        }
        reply_free(&r);
    }
    assert_int_equal(found, expected);
    assert_true(calls > 3);
}

static void test_a_search_has_an_allowance(void **state)
{
    (void)state;
    stop_server();
    fixture_log_search_us = 1;
    start_server();
    search_in_parts("ORDER_BY_ASC", "after", 300);
    search_in_parts("ORDER_BY_DESC", "before", 300);
    stop_server();
    fixture_log_search_us = 0;
    start_server();
}

static void test_files(void **state)
{
    (void)state;
    void *archive = NULL, *decoded = NULL;
    size_t len, decoded_len;
    struct error e = {0};
    json_t *files = json_array();
    assert_int_equal(archive_list_add(files, "train.py", "print(1)\n", 9, &e), 0);
    assert_int_equal(archive_pack_list(files, &archive, &len, &e), 0);
    json_decref(files);
    STORE(MODEL_DEFINITION_INSERT, "hash-2", DB_BLOB(archive, len));
    STORE(MODEL_DEFINITION_INSERT_PARTS, "hash-3", I(1));
    for (size_t part = 3; part-- > 0;) // written in any order
        STORE(MODEL_PART_INSERT, I(1), (int64_t)part,
              DB_BLOB((char *)archive + 9 * part, part < 2 ? 9 : len - 18));
    for (int64_t id = 2; id <= 3; id++) {
        STORE(EXPERIMENT_INSERT, id, "PAUSED", "n", "", "", "[]", I(2), I(1), "job", 0, "", "{}",
              I(42), "single", "{}", I(0), I(7), id == 2 ? "hash-2" : "hash-3", AT);
        store_trial(id, id, id == 2 ? "2.task" : "3.task");
    }
    const char *const paths[] = {
        "/api/v1/experiments/2/model_def", "/api/v1/experiments/3/model_def",
        "/api/v1/tasks/2.task/context_directory", "/api/v1/tasks/3.task/context_directory"};
    for (int i = 0; i < 4; i++) {
        json_t *j = get_json(paths[i], i > 1 ? BY_AGENT : BY_USER);
        const char *text = at(j, "b64Tgz");
        assert_int_equal(base64_decode(text, strlen(text), &decoded, &decoded_len), 0);
        assert_int_equal(decoded_len, len);
        assert_memory_equal(decoded, archive, len);
        free(decoded);
        json_decref(j);
    }
    free(archive);
    expect_and_drop(get_json("/api/v1/experiments/3/file_tree", BY_USER), "files.0.path",
                    "train.py");
    // An experiment without files has an empty archive; this is no error.
    expect_and_drop(get_json("/api/v1/experiments/1/model_def", BY_USER), "b64Tgz", "");
    assert_int_equal(status_of("GET", "/api/v1/tasks/none/context_directory", BY_AGENT, NULL), 404);
    assert_int_equal(status_of("GET", "/api/v1/experiments/99/model_def", BY_USER, NULL), 404);
}

static void test_download(void **state)
{
    (void)state;
    enum { BIG = 3 << 20 };
    const char *uuid = "11111111-2222-3333-4444-555555555555";
    char *big = xcalloc(1, BIG), path[256];
    struct error e = {0};
    uint32_t seed = 1;
    for (size_t i = 0; i < BIG; i++) // incompressible data
        big[i] = (char)((seed = seed * 1664525 + 1013904223) >> 24);
    snprintf(path, sizeof path, "checkpoints/%s/part", uuid);
    assert_int_equal(dir_make(path, 0755, &e), 0);
    snprintf(path, sizeof path, "checkpoints/%s/part/weights", uuid);
    assert_int_equal(file_write_durable(path, big, BIG, 0644, &e), 0);
    checkpoint(uuid, "COMPLETED", 300, NULL);
    snprintf(path, sizeof path, "/checkpoints/%s", uuid);
    struct reply r = call("GET", path, BY_USER, NULL);
    assert_int_equal(r.status, 200);
    assert_int_equal(strncmp(header_of(&r, "Content-Type"), "application/gzip", 16), 0);
    assert_int_equal(archive_unpack(r.body.data, r.body.len, "unpacked", 1 << 30, &e), 0);
    char *back = NULL;
    size_t len;
    assert_int_equal(file_read("unpacked/part/weights", BIG, &back, &len, &e), 0);
    assert_int_equal(len, BIG);
    assert_memory_equal(back, big, BIG);
    free(back);
    free(big);
    reply_free(&r);

    // The master notices a client that disconnects in the middle, and frees its seats.
    for (int i = 0; i < 12; i++) {
        int fd = dial();
        send_request(fd, "GET", path, BY_USER, NULL);
        assert_true(read_head(fd, &r));
        bool busy = r.status == 429;
        reply_free(&r);
        close(fd);
        if (busy)
            clock_sleep_us(300000);
    }
    int status = 429;
    for (int i = 0; i < 50 && status == 429; i++) {
        clock_sleep_us(100000);
        status = status_of("GET", path, BY_USER, NULL);
    }
    assert_int_equal(status, 200);
    assert_int_equal(status_of("GET", "/checkpoints/c3", BY_USER, NULL), 404);   // deleted
    assert_int_equal(status_of("GET", "/checkpoints/none", BY_USER, NULL), 404); // unknown
    assert_int_equal(status_of("GET", "/checkpoints/c1", BY_USER, NULL), 400);   // no uuid
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_ids_that_are_too_large),
        cmocka_unit_test(test_experiment),
        cmocka_unit_test(test_experiment_list),
        cmocka_unit_test(test_trial),
        cmocka_unit_test(test_ran_and_waited),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_workloads),
        cmocka_unit_test(test_metric_streams),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_parts_of_a_series),
        cmocka_unit_test(test_folding_changes_no_answer),
        cmocka_unit_test(test_logs),
        cmocka_unit_test(test_a_search_has_an_allowance),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_download),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
