// Batches of reports as calls to the master: what is joined, and what keeps its place.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/reports/report_calls.h"
#include "agent/reports/report_shipper.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"

#define UUID "4b21c0de-4a38-4b0e-9c0f-0123456789ab"

static const struct reporting_trial target = {
    .trial = 7, .run = 3, .task = "2.T", .allocation = "2.T.3"};

static json_t *metrics(const char *group, int step, const char *name, double value)
{
    return json_pack("{s:s, s:s, s:[i], s:[I], s:{s:[f]}}", "kind", "metrics", "group", group,
                     "steps", step, "times", (json_int_t)1500000, "metrics", name, value);
}

static json_t *progress(double value)
{
    return json_pack("{s:s, s:f}", "kind", "progress", "progress", value);
}

static json_t *checkpoint(int step)
{
    return json_pack("{s:s, s:s, s:i, s:{s:s}, s:{s:i}, s:I}", "kind", "checkpoint", "uuid", UUID,
                     "steps", step, "metadata", "by", "me", "resources", "model.pt", 12, "time",
                     (json_int_t)1000000);
}

// Takes ownership of the lines.
static struct report_calls calls_of(json_t *lines)
{
    struct report_calls calls;
    report_calls_make(&target, lines, &calls);
    json_decref(lines);
    return calls;
}

static void assert_body(const struct report_call *call, const char *path, const char *expected)
{
    json_t *body = json_loads(expected, 0, NULL);
    char *text = json_text(call->body);
    assert_non_null(body);
    assert_string_equal(call->path, path);
    if (!json_equal(call->body, body))
        fail_msg("%s is not %s", text, expected);
    free(text);
    json_decref(body);
}

static void columns_are_joined_by_group(void **state)
{
    (void)state;
    struct report_calls calls = calls_of(
        json_pack("[o, o, o, o, o, o]", metrics("training", 1, "loss", 0.5), progress(0.1),
                  metrics("validation", 1, "error", 0.25), metrics("training", 2, "speed", 4.0),
                  progress(0.2), metrics("training", 3, "loss", 0.75)));
    assert_int_equal(calls.count, 3);
    assert_body(&calls.items[0], "/api/v1/trials/7/metrics/columns",
                "{\"group\":\"training\",\"trialRunId\":3,\"steps\":[1,2,3],"
                "\"times\":[1.5,1.5,1.5],\"metrics\":{\"loss\":[0.5,null,0.75],"
                "\"speed\":[null,4.0,null]}}");
    assert_int_equal(json_array_size(calls.items[0].lines), 3);
    assert_body(&calls.items[1], "/api/v1/trials/7/progress", "{\"isRaw\":true,\"progress\":0.2}");
    assert_body(&calls.items[2], "/api/v1/trials/7/metrics/columns",
                "{\"group\":\"validation\",\"trialRunId\":3,\"steps\":[1],\"times\":[1.5],"
                "\"metrics\":{\"error\":[0.25]}}");
    report_calls_free(&calls);
}

static void a_checkpoint_is_behind_all_earlier_reports(void **state)
{
    (void)state;
    struct report_calls calls = calls_of(json_pack(
        "[o, o, o, o, o]", metrics("training", 1, "loss", 0.5), checkpoint(1),
        metrics("training", 2, "loss", 0.25),
        json_pack("{s:s, s:s, s:s}", "kind", "exited", "reason", "INVALID_HP", "text", "lr < 0"),
        progress(0.2)));
    assert_int_equal(calls.count, 5);
    assert_string_equal(calls.items[0].path, "/api/v1/trials/7/metrics/columns");
    assert_body(&calls.items[1], "/api/v1/checkpoints",
                "{\"uuid\":\"" UUID "\",\"taskId\":\"2.T\",\"allocationId\":\"2.T.3\","
                "\"metadata\":{\"by\":\"me\",\"steps_completed\":1},"
                "\"resources\":{\"model.pt\":\"12\"},\"state\":\"STATE_COMPLETED\","
                "\"reportTime\":\"1970-01-01T00:00:01.000000Z\",\"training\":{}}");
    assert_string_equal(calls.items[2].path, "/api/v1/trials/7/metrics/columns");
    assert_body(&calls.items[3], "/api/v1/trials/7/early_exit",
                "{\"reason\":\"EXITED_REASON_INVALID_HP\",\"text\":\"lr < 0\"}");
    assert_string_equal(calls.items[4].path, "/api/v1/trials/7/progress");
    report_calls_free(&calls);
}

static void media_and_metadata_are_joined(void **state)
{
    (void)state;
    static const char item[] =
        "{\"step\":1,\"name\":\"a\",\"type\":\"text\",\"format\":\"text\",\"digest\":"
        "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\"size\":1,"
        "\"time\":2}";
    json_t *media = json_pack("{s:s, s:[o]}", "kind", "media", "items", json_loads(item, 0, NULL));
    struct report_calls calls = calls_of(json_pack(
        "[o, o, O, o]",
        json_pack("{s:s, s:{s:i, s:{s:i}}}", "kind", "metadata", "metadata", "a", 1, "b", "c", 1),
        media, media,
        json_pack("{s:s, s:{s:i, s:{s:i}}}", "kind", "metadata", "metadata", "a", 2, "b", "d", 3)));
    assert_int_equal(calls.count, 2);
    assert_body(&calls.items[0], "/api/v1/runs/7/metadata",
                "{\"metadata\":{\"a\":2,\"b\":{\"c\":1,\"d\":3}}}");
    assert_true(calls.items[0].merges);
    assert_string_equal(calls.items[1].path, "/api/v1/trials/7/media");
    assert_int_equal(json_array_size(jget(calls.items[1].body, "items")), 2);
    assert_int_equal(jget_int(calls.items[1].body, "trialRunId", 0), 3);
    report_calls_free(&calls);
}

static json_t *wide_line(size_t names, size_t steps, int first)
{
    json_t *columns = json_object(), *axis = json_array(), *values = json_array();
    for (size_t i = 0; i < steps; i++) {
        json_array_append_new(axis, json_integer((json_int_t)i));
        json_array_append_new(values, json_null());
    }
    for (size_t i = 0; i < names; i++) {
        char name[32];
        snprintf(name, sizeof name, "m%zu", (size_t)first + i);
        json_object_set(columns, name, values);
    }
    json_decref(values);
    return json_pack("{s:s, s:s, s:O, s:o, s:o}", "kind", "metrics", "group", "g", "steps", axis,
                     "times", axis, "metrics", columns);
}

// Joined calls keep the limits that the master sets for one call.
static void calls_have_limits(void **state)
{
    (void)state;
    struct report_calls calls = calls_of(
        json_pack("[o, o]", wide_line(1, LIMIT_STEPS_PER_POST - 1, 0), wide_line(1, 1, 0)));
    assert_int_equal(calls.count, 1);
    report_calls_free(&calls);
    calls =
        calls_of(json_pack("[o, o]", wide_line(1, LIMIT_STEPS_PER_POST, 0), wide_line(1, 1, 0)));
    assert_int_equal(calls.count, 2);
    report_calls_free(&calls);
    calls = calls_of(json_pack("[o, o]", wide_line(LIMIT_METRICS_PER_POST - 1, 1, 0),
                               wide_line(1, 1, LIMIT_METRICS_PER_POST - 1)));
    assert_int_equal(calls.count, 1);
    report_calls_free(&calls);
    calls = calls_of(json_pack("[o, o]", wide_line(LIMIT_METRICS_PER_POST, 1, 0),
                               wide_line(1, 1, LIMIT_METRICS_PER_POST)));
    assert_int_equal(calls.count, 2);
    report_calls_free(&calls);
    calls = calls_of(
        json_pack("[o, o]", wide_line(64, LIMIT_POINTS_PER_POST / 64 - 1, 0), wide_line(64, 1, 0)));
    assert_int_equal(calls.count, 1);
    report_calls_free(&calls);
    calls = calls_of(
        json_pack("[o, o]", wide_line(64, LIMIT_POINTS_PER_POST / 64, 0), wide_line(64, 1, 0)));
    assert_int_equal(calls.count, 2);
    report_calls_free(&calls);
}

static json_t *media_of(size_t count, int64_t size)
{
    json_t *items = json_array();
    while (count-- > 0)
        json_array_append_new(
            items, json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:i}", "step", 1, "name", "a", "type",
                             "text", "format", "text", "digest",
                             "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                             "size", (json_int_t)size, "time", 2));
    return json_pack("{s:s, s:o}", "kind", "media", "items", items);
}

static void calls_with_media_have_limits(void **state)
{
    (void)state;
    const int64_t quarter = LIMIT_MEDIA_BYTES_PER_CALL / 4;
    struct report_calls calls =
        calls_of(json_pack("[o, o]", media_of(LIMIT_MEDIA_PER_POST - 1, 1), media_of(1, 1)));
    assert_int_equal(calls.count, 1);
    report_calls_free(&calls);
    calls = calls_of(json_pack("[o, o]", media_of(LIMIT_MEDIA_PER_POST, 1), media_of(1, 1)));
    assert_int_equal(calls.count, 2);
    report_calls_free(&calls);
    calls = calls_of(json_pack("[o, o]", media_of(3, quarter), media_of(1, quarter)));
    assert_int_equal(calls.count, 1);
    report_calls_free(&calls);
    calls = calls_of(json_pack("[o, o, o]", media_of(4, quarter), media_of(1, 1), media_of(1, 1)));
    assert_int_equal(calls.count, 2);
    assert_int_equal(json_array_size(calls.items[1].lines), 2);
    report_calls_free(&calls);
}

static void items_of_a_line_are_divided(void **state)
{
    (void)state;
    const int64_t quarter = LIMIT_MEDIA_BYTES_PER_CALL / 4;
    struct report_calls calls =
        calls_of(json_pack("[o, o]", media_of(2, quarter), media_of(5, quarter)));
    assert_int_equal(calls.count, 2);
    assert_int_equal(json_array_size(jget(calls.items[0].body, "items")), 4);
    assert_int_equal(json_array_size(jget(calls.items[1].body, "items")), 3);
    assert_int_equal(json_array_size(calls.items[0].lines), 2);
    assert_int_equal(json_array_size(calls.items[1].lines), 1);
    assert_true(calls.items[1].media_bytes == 3 * quarter);
    report_calls_free(&calls);
}

static void damaged_lines_are_skipped(void **state)
{
    (void)state;
    struct report_calls calls =
        calls_of(json_pack("[{s:s}, {}, o]", "kind", "unknown", progress(1)));
    assert_int_equal(calls.count, 1);
    report_calls_free(&calls);
}

static void patience_with_a_failing_storage_ends(void **state)
{
    (void)state;
    int64_t since = 0;
    assert_false(report_patience_over(&since, true, 1000));
    assert_false(report_patience_over(&since, true, 1000 + REPORT_PATIENCE_US - 1));
    assert_true(report_patience_over(&since, true, 1000 + REPORT_PATIENCE_US));
    assert_true(report_patience_over(&since, true, 1000 + 2LL * REPORT_PATIENCE_US));
    assert_false(report_patience_over(&since, false, 1000 + 2LL * REPORT_PATIENCE_US));
    assert_false(report_patience_over(&since, true, 1000 + 3LL * REPORT_PATIENCE_US));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_joined_by_group),
        cmocka_unit_test(a_checkpoint_is_behind_all_earlier_reports),
        cmocka_unit_test(media_and_metadata_are_joined),
        cmocka_unit_test(calls_have_limits),
        cmocka_unit_test(calls_with_media_have_limits),
        cmocka_unit_test(items_of_a_line_are_divided),
        cmocka_unit_test(damaged_lines_are_skipped),
        cmocka_unit_test(patience_with_a_failing_storage_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
