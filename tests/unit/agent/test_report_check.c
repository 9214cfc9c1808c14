// Lines that programs report: each kind, and each wrong field with its remedy.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/reports/report_check.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"

#define UUID   "4b21c0de-4a38-4b0e-9c0f-0123456789ab"
#define DIGEST "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ITEM                                                                                       \
    "{\"step\":1,\"name\":\"a\",\"type\":\"image\",\"format\":\"png\",\"digest\":\"" DIGEST "\","

static int check_as(const char *text, enum report_kind *kind, struct error *e)
{
    json_t *line = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(line);
    *e = (struct error){0};
    int err = report_check(line, kind, e);
    json_decref(line);
    return err;
}

static int check(const char *text, struct error *e)
{
    enum report_kind kind;
    return check_as(text, &kind, e);
}

static void good_lines_pass(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"kind\":\"metrics\",\"group\":\"training\",\"steps\":[0,7],\"times\":[5,6],"
        "\"metrics\":{\"loss\":[0.5,null],\"x\":[\"NaN\",\"-Infinity\"]}}",
        "{\"kind\":\"progress\",\"progress\":0}",
        "{\"kind\":\"progress\",\"progress\":1.0}",
        "{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":3,\"metadata\":{\"a\":1},"
        "\"resources\":{\"model.pt\":12,\"deep/\":0},\"time\":9}",
        "{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":0,\"resources\":{},\"time\":9}",
        "{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":9007199254740992,"
        "\"resources\":{\"a\":9007199254740991,\"b\":1},\"time\":9007199254740992}",
        "{\"kind\":\"metadata\",\"metadata\":{\"a\":{\"b\":1}}}",
        "{\"kind\":\"media\",\"items\":[" ITEM "\"size\":3,\"time\":4}]}",
        "{\"kind\":\"media\",\"items\":[" ITEM "\"size\":16777216,\"time\":4}]}",
        "{\"kind\":\"exited\",\"reason\":\"INVALID_HP\"}",
        "{\"kind\":\"exited\",\"reason\":\"INVALID_HP\",\"text\":\"width is negative\"}",
        "{\"kind\":\"failure\",\"rank\":0,\"text\":\"ValueError: no\",\"place\":\"a.py:3\"}",
    };
    struct error e;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (check(lines[i], &e) != 0)
            fail_msg("%s: %s", lines[i], e.text);
}

static const struct {
    const char *line, *place;
} bad_lines[] = {
    {"[1]", "expected a JSON object"},
    {"{}", "kind: "},
    {"{\"kind\":\"metric\"}", "kind: expected metrics, "},
    {"{\"kind\":\"metrics\"}", "group: "},
    {"{\"kind\":\"metrics\",\"group\":\"\"}", "group: "},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[],\"times\":[]}", "steps: "},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[-1],\"times\":[1]}", "steps[0]: "},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1.5],\"times\":[1]}", "steps[0]: "},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1],\"times\":[1,2]}", "times: "},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1],\"times\":[\"x\"]}", "times[0]: "},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1],\"times\":[1]}", "metrics: "},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1],\"times\":[1],\"metrics\":{}}",
     "metrics: "},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1],\"times\":[1],\"metrics\":{\"\":[1]}"
     "}",
     "metrics: a name"},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1],\"times\":[1],"
     "\"metrics\":{\"a\":[1,2]}}",
     "metrics.a: expected a list of 1 values"},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1],\"times\":[1],"
     "\"metrics\":{\"a\":[\"0.5\"]}}",
     "metrics.a[0]: expected a number"},
    {"{\"kind\":\"progress\"}", "progress: "},
    {"{\"kind\":\"progress\",\"progress\":1.01}", "progress: "},
    {"{\"kind\":\"progress\",\"progress\":-0.01}", "progress: "},
    {"{\"kind\":\"progress\",\"progress\":\"1\"}", "progress: "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"1\"}", "uuid: "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "0\"}", "uuid: "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\"}", "steps: "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"metadata\":[]}", "metadata: "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1}", "resources: "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":{\"../a\":1}}",
     "resources: \"../a\": "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":{\"a/..\":1}}",
     "resources: \"a/..\": "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":{\"a/../b\":1}}",
     "resources: \"a/../b\": "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":{\"/a\":1}}",
     "resources: \"/a\": "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID
     "\",\"steps\":1,\"resources\":{\"a..b/...\":1,\"..a\":1,\"a../b\":1}}",
     "time: "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":{\"a\":\"1\"}}",
     "resources: \"a\": "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":{}}", "time: "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":9007199254740993}",
     "steps: expected an integer from 0 to 9007199254740992"},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":{},"
     "\"time\":9223372036854775807}",
     "time: expected an integer from 0 to 9007199254740992"},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":"
     "{\"a\":9007199254740993}}",
     "resources: \"a\": "},
    {"{\"kind\":\"checkpoint\",\"uuid\":\"" UUID "\",\"steps\":1,\"resources\":"
     "{\"a\":9007199254740992,\"b\":1}}",
     "resources: expected sizes of at most 9007199254740992 together"},
    {"{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[9007199254740993],\"times\":[1]}",
     "steps[0]: "},
    {"{\"kind\":\"metadata\",\"metadata\":1}", "metadata: "},
    {"{\"kind\":\"media\",\"items\":[]}", "items: "},
    {"{\"kind\":\"media\",\"items\":[{}]}", "items[0]: step: "},
    {"{\"kind\":\"media\",\"items\":[{\"step\":1,\"name\":\"a\",\"type\":\"film\"}]}",
     "items[0]: type: \"film\" is none of image, histogram, table and text"},
    {"{\"kind\":\"media\",\"items\":[{\"step\":1,\"name\":\"a\",\"type\":\"text\","
     "\"format\":\"text\",\"digest\":\"BA\"}]}",
     "items[0]: digest: "},
    {"{\"kind\":\"media\",\"items\":[" ITEM "\"time\":4}]}", "items[0]: size: "},
    {"{\"kind\":\"media\",\"items\":[" ITEM "\"size\":16777217,\"time\":4}]}",
     "items[0]: size: 16777217 bytes, at most 16777216"},
    {"{\"kind\":\"media\",\"items\":[" ITEM "\"size\":3,\"time\":0}]}", "items[0]: time: "},
    {"{\"kind\":\"media\",\"items\":[" ITEM "\"size\":3}]}", "items[0]: time: "},
    {"{\"kind\":\"media\",\"items\":[{\"step\":1,\"name\":\"a\\tb\"}]}",
     "items[0]: name: byte 1 is a control character"},
    {"{\"kind\":\"media\",\"items\":[{\"step\":1,\"name\":\"a\",\"type\":\"table\","
     "\"format\":\"png\"}]}",
     "items[0]: format: \"png\"; the format of type table is json"},
    {"{\"kind\":\"exited\",\"reason\":\"INIT_INVALID_HP\"}", "reason: expected one of "},
    {"{\"kind\":\"exited\",\"reason\":\"INVALID_HP\",\"text\":\"\"}",
     "text: expected a text of 1 "},
    {"{\"kind\":\"exited\",\"reason\":\"INVALID_HP\",\"text\":3}", "text: expected a text of 1 "},
    {"{\"kind\":\"metadata\"}", "metadata: missing, or not an object"},
    {"{\"kind\":\"metadata\",\"metadata\":{\"a.b\":1}}", "metadata: the key \"a.b\" contains "},
    {"{\"kind\":\"failure\",\"text\":\"x\"}", "rank: "},
    {"{\"kind\":\"failure\",\"rank\":0}", "text: "},
    {"{\"kind\":\"failure\",\"rank\":0,\"text\":\"x\",\"place\":3}", "place: "},
};

static void bad_lines_name_the_field(void **state)
{
    (void)state;
    struct error e;
    for (size_t i = 0; i < sizeof bad_lines / sizeof *bad_lines; i++) {
        if (check(bad_lines[i].line, &e) != ERR_INVALID ||
            strncmp(e.text, bad_lines[i].place, strlen(bad_lines[i].place)) != 0)
            fail_msg("%s: %s", bad_lines[i].line, e.text);
    }
}

static int check_metadata_of_levels(int levels)
{
    struct error e;
    json_t *metadata = json_object();
    for (int i = 1; i < levels; i++)
        metadata = json_pack("{s:o}", "k", metadata);
    char *text = json_dumps(metadata, 0);
    char *line = xasprintf("{\"kind\":\"checkpoint\",\"uuid\":\"" UUID
                           "\",\"steps\":1,\"resources\":{},\"time\":9,\"metadata\":%s}",
                           text);
    int err = check(line, &e);
    free(line);
    free(text);
    json_decref(metadata);
    return err;
}

// With its body, the master takes LIMIT_JSON_DEPTH levels.
static void metadata_of_a_checkpoint_have_a_depth(void **state)
{
    (void)state;
    assert_int_equal(check_metadata_of_levels(LIMIT_JSON_DEPTH - 1), 0);
    assert_int_equal(check_metadata_of_levels(LIMIT_JSON_DEPTH), ERR_INVALID);
}

static int check_media_name(size_t bytes)
{
    struct error e;
    char *line = xasprintf("{\"kind\":\"media\",\"items\":[{\"step\":1,\"name\":\"%0*d\",\"type\":"
                           "\"text\",\"format\":\"text\",\"digest\":\"" DIGEST "\",\"size\":1,"
                           "\"time\":1}]}",
                           (int)bytes, 0);
    int err = check(line, &e);
    free(line);
    return err;
}

static void names_of_media_have_a_limit(void **state)
{
    (void)state;
    assert_int_equal(check_media_name(LIMIT_MEDIA_NAME), 0);
    assert_int_equal(check_media_name(LIMIT_MEDIA_NAME + 1), ERR_INVALID);
}

static void the_kind_is_found(void **state)
{
    (void)state;
    struct error e;
    enum report_kind kind = REPORT_KINDS;
    assert_int_equal(check_as("{\"kind\":\"progress\",\"progress\":1}", &kind, &e), 0);
    assert_int_equal(kind, REPORT_PROGRESS);
}

static int check_steps(size_t count)
{
    struct error e;
    json_t *steps = json_array(), *values = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(steps, json_integer((json_int_t)i));
        json_array_append_new(values, json_null());
    }
    json_t *line = json_pack("{s:s, s:s, s:O, s:o, s:{s:o}}", "kind", "metrics", "group", "g",
                             "steps", steps, "times", steps, "metrics", "a", values);
    char *text = json_text(line);
    int err = check(text, &e);
    free(text);
    json_decref(line);
    return err;
}

static int check_media(size_t count)
{
    struct error e;
    char *text = xstrdup("{\"kind\":\"media\",\"items\":[");
    for (size_t i = 0; i < count; i++) {
        char *longer = xasprintf("%s%s" ITEM "\"size\":3,\"time\":4}", text, i ? "," : "");
        free(text);
        text = longer;
    }
    char *line = xasprintf("%s]}", text);
    int err = check(line, &e);
    free(line);
    free(text);
    return err;
}

static int check_name(size_t bytes)
{
    struct error e;
    char *name = xcalloc(bytes + 1, 1);
    memset(name, 'n', bytes);
    char *line = xasprintf("{\"kind\":\"metrics\",\"group\":\"g\",\"steps\":[1],\"times\":[1],"
                           "\"metrics\":{\"%s\":[1]}}",
                           name);
    int err = check(line, &e);
    free(line);
    free(name);
    return err;
}

static int check_group(size_t bytes)
{
    struct error e;
    char *name = xcalloc(bytes + 1, 1);
    memset(name, 'n', bytes);
    char *line = xasprintf("{\"kind\":\"metrics\",\"group\":\"%s\",\"steps\":[1],\"times\":[1],"
                           "\"metrics\":{\"a\":[1]}}",
                           name);
    int err = check(line, &e);
    free(line);
    free(name);
    return err;
}

static void limits(void **state)
{
    (void)state;
    assert_int_equal(check_steps(LIMIT_STEPS_PER_POST), 0);
    assert_int_equal(check_steps(LIMIT_STEPS_PER_POST + 1), ERR_INVALID);
    assert_int_equal(check_media(LIMIT_MEDIA_PER_LINE), 0);
    assert_int_equal(check_media(LIMIT_MEDIA_PER_LINE + 1), ERR_INVALID);
    assert_int_equal(check_name(LIMIT_METRIC_NAME), 0);
    assert_int_equal(check_name(LIMIT_METRIC_NAME + 1), ERR_INVALID);
    assert_int_equal(check_group(LIMIT_NAME), 0);
    assert_int_equal(check_group(LIMIT_NAME + 1), ERR_INVALID);
}

// Adds `count` levels around a number: {"k":{"k":1}}.
static json_t *nested(int count)
{
    json_t *value = json_integer(1);
    while (count-- > 0)
        value = json_pack("{s:o}", "k", value);
    return value;
}

static json_t *with_values(size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%zu", i);
        json_object_set_new(object, name, json_integer(1));
    }
    return object;
}

static json_t *with_list(size_t count)
{
    json_t *list = json_array();
    while (count-- > 0)
        json_array_append_new(list, json_integer(1));
    return json_pack("{s:o}", "k", list);
}

static json_t *with_texts(size_t key_bytes, size_t bytes)
{
    char *key = xcalloc(key_bytes + 1, 1), *text = xcalloc(bytes + 1, 1);
    memset(key, 'k', key_bytes);
    memset(text, 'x', bytes);
    json_t *object = json_pack("{s:s}", key, text);
    free(key);
    free(text);
    return object;
}

// Takes ownership of the metadata.
static void assert_metadata(json_t *metadata, const char *expected)
{
    enum report_kind kind;
    struct error e = {0};
    json_t *line = json_pack("{s:s, s:o}", "kind", "metadata", "metadata", metadata);
    assert_int_equal(report_check(line, &kind, &e), *expected ? ERR_INVALID : 0);
    assert_non_null(strstr(e.text, expected));
    json_decref(line);
}

static void metadata_has_limits(void **state)
{
    (void)state;
    assert_metadata(nested(LIMIT_METADATA_DEPTH), "");
    assert_metadata(nested(LIMIT_METADATA_DEPTH + 1), "metadata: nested more than 10 levels");
    assert_metadata(with_values(LIMIT_METADATA_VALUES), "");
    assert_metadata(with_values(LIMIT_METADATA_VALUES + 1), "metadata: more than 1000 values");
    assert_metadata(with_list(LIMIT_METADATA_LIST), "");
    assert_metadata(with_list(LIMIT_METADATA_LIST + 1), "metadata: a list of more than 100");
    assert_metadata(with_texts(LIMIT_METADATA_KEY, LIMIT_METADATA_TEXT), "");
    assert_metadata(with_texts(LIMIT_METADATA_KEY + 1, 1), "is longer than 50 bytes");
    assert_metadata(with_texts(1, LIMIT_METADATA_TEXT + 1), "metadata: a text of more than 5000");
}

static void the_text_of_an_exit_has_a_limit(void **state)
{
    (void)state;
    for (size_t bytes = LIMIT_EXIT_TEXT; bytes <= LIMIT_EXIT_TEXT + 1; bytes++) {
        struct error e;
        char *line = xasprintf("{\"kind\":\"exited\",\"reason\":\"INVALID_HP\",\"text\":\"%0*d\"}",
                               (int)bytes, 0);
        assert_int_equal(check(line, &e), bytes > LIMIT_EXIT_TEXT ? ERR_INVALID : 0);
        free(line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines_pass),
        cmocka_unit_test(bad_lines_name_the_field),
        cmocka_unit_test(metadata_of_a_checkpoint_have_a_depth),
        cmocka_unit_test(names_of_media_have_a_limit),
        cmocka_unit_test(the_kind_is_found),
        cmocka_unit_test(limits),
        cmocka_unit_test(metadata_has_limits),
        cmocka_unit_test(the_text_of_an_exit_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
