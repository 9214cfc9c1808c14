// Bodies of metrics: one pass and the JSON tree give the same result, and the faults of bodies that
// neither accepts are named.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/rng.h"
#include "master/ingest/metric_parse.h"

typedef int read_body(struct request *rq, char *text, size_t len, struct error *e);
typedef int parse_body(struct request *rq, const json_t *body, struct error *e);

static void put_post(struct buf *out, const struct request *rq)
{
    const struct metric_post *p = rq->input;
    buf_printf(out, "%s %lld %d ", p->group, (long long)p->run, p->timed);
    series_put_block(out, &p->block, 0, p->block.count);
}

// Parses a body in both ways; 0 or the error that both returned.
static int both(const char *body, read_body *read, parse_body *parse)
{
    struct request one = {0}, two = {0};
    struct error e = {0}, f = {0};
    struct buf a, b;
    json_t *json = NULL;
    char *text = strdup(body);
    buf_init(&a, SERIES_BLOB_MAX);
    buf_init(&b, SERIES_BLOB_MAX);
    int err = read(&one, text, strlen(text), &e);
    int other = json_parse(body, strlen(body), "body", &json, &f);
    if (!other)
        other = parse(&two, json_is_object(json) ? json : NULL, &f);
    if (err != other)
        fail_msg("%s: %d %s, %d %s", body, err, e.text, other, f.text);
    if (!err) {
        put_post(&a, &one);
        put_post(&b, &two);
        if (a.len != b.len || memcmp(a.data, b.data, a.len))
            fail_msg("%s: read in one pass it is something else", body);
    } else {
        assert_true(*e.text);
    }
    json_decref(json);
    buf_free(&a);
    buf_free(&b);
    arena_free(&one.arena);
    arena_free(&two.arena);
    free(text);
    return err;
}

static int report(const char *body)
{
    return both(body, metric_report_read, metric_report_parse);
}

static int columns(const char *body)
{
    return both(body, metric_columns_read, metric_columns_parse);
}

#define REPORT(inner) "{\"group\":\"g\",\"metrics\":{\"metrics\":{\"avgMetrics\":{" inner "}}}}"

static void test_reports(void **state)
{
    (void)state;
    static const char *const good[] = {
        REPORT(""),
        REPORT("\"a\":1"),
        REPORT("\"a\":1.5,\"b\":-2e-3,\"c\":\"NaN\""),
        REPORT("\"a\":9007199254740993"),
        REPORT("\"a\":-0,\"b\":-0.0"),
        REPORT("\"a\":1e400"),
        REPORT("\"a\":null,\"b\":[1,{\"c\":2}],\"d\":true,\"e\":\"text\""),
        REPORT("\"\xc3\xa4\":1,\"b\\\"c\":2,\"\\u00e4b\":3"),
        " { \"metrics\" : { \"metrics\" : { \"avg_metrics\" : { \"a\" : 1 } , \"batch_metrics\" : "
        "null } ,"
        " \"steps_completed\" : 12, \"trial_run_id\" : 3, \"trialId\" : 4 } , \"group\" : \"g\" } ",
        "{\"group\":\"g\",\"metrics\":{\"stepsCompleted\":\"12\",\"reportTime\":\"2026-11-21T09:00:"
        "00Z\","
        "\"metrics\":{\"avgMetrics\":{\"a\":1},\"batchMetrics\":[{\"a\":1}]}}}",
        "{\"group\":\"g\",\"other\":1,\"metrics\":{\"stepsCompleted\":null,\"trialRunId\":null,"
        "\"metrics\":{\"avgMetrics\":{\"a\":1},\"more\":{}}}}",
        "{\"group\":\"g\",\"metrics\":{\"stepsCompleted\":3.0,\"metrics\":{\"avgMetrics\":{}}}}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int err = report(good[i]);
        if (err && !strstr(good[i], "1e400"))
            fail_msg("%s is refused", good[i]);
    }
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "null",
        "{",
        REPORT("\"a\""),
        REPORT("\"a\":1,"),
        REPORT("\"a\":1,\"a\":2"),
        REPORT("\"a\":01"),
        REPORT("\"\\u0001\":1"),
        REPORT("\"a\":1") " x",
        REPORT("\"\xff\":1"),
        "{\"group\":\"\",\"metrics\":{\"metrics\":{\"avgMetrics\":{}}}}",
        "{\"group\":1,\"metrics\":{\"metrics\":{\"avgMetrics\":{}}}}",
        "{\"group\":\"g\",\"group\":\"h\",\"metrics\":{\"metrics\":{\"avgMetrics\":{}}}}",
        "{\"group\":\"g\",\"metrics\":{\"metrics\":{\"avgMetrics\":[]}}}",
        "{\"group\":\"g\",\"metrics\":{\"stepsCompleted\":-2,\"metrics\":{\"avgMetrics\":{}}}}",
        "{\"group\":\"g\",\"metrics\":{\"stepsCompleted\":true,\"metrics\":{\"avgMetrics\":{}}}}",
        "{\"group\":\"g\",\"metrics\":{\"reportTime\":\"soon\",\"metrics\":{\"avgMetrics\":{}}}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!report(bad[i]))
            fail_msg("%s is taken", bad[i]);
}

#define COLUMNS(more) "{\"group\":\"g\",\"steps\":[1,2]," more "}"

static void test_columns(void **state)
{
    (void)state;
    static const char *const good[] = {
        COLUMNS("\"metrics\":{}"),
        COLUMNS("\"metrics\":{\"a\":[1,2.5],\"b\":[null,\"NaN\"]}"),
        COLUMNS("\"metrics\":{\"a\":[1,null]},\"trial_run_id\":7"),
        COLUMNS("\"times\":[1,2.5],\"metrics\":{\"a\":[1,1]}"),
        COLUMNS("\"times\":[\"2026-11-21T09:00:00Z\",1e9],\"metrics\":{\"a\":[1,1]}"),
        COLUMNS("\"times\":null,\"metrics\":{\"a\":[1,1]},\"else\":[{}]"),
        "{\"metrics\":{\"a\":[1]},\"steps\":[5],\"group\":\"g\"}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (columns(good[i]))
            fail_msg("%s is refused", good[i]);
    static const char *const bad[] = {
        "{}",
        COLUMNS("\"a\":1"),
        COLUMNS("\"metrics\":{\"a\":[1]}"),
        COLUMNS("\"metrics\":{\"a\":[1,2,3]}"),
        COLUMNS("\"metrics\":{\"a\":[1,2],\"a\":[1,2]}"),
        COLUMNS("\"metrics\":{\"a\":[1,true]}"),
        COLUMNS("\"metrics\":{\"a\":[1,9007199254740993]}"),
        COLUMNS("\"times\":[1],\"metrics\":{}"),
        COLUMNS("\"times\":[1,1e300],\"metrics\":{}"),
        COLUMNS("\"metrics\":{\"\\u0002\":[1,2]}"),
        "{\"group\":\"g\",\"steps\":[1,-2],\"metrics\":{}}",
        "{\"group\":\"g\",\"steps\":[\"1\"],\"metrics\":{}}",
        "{\"group\":\"g\",\"steps\":[],\"metrics\":{}}",
        "{\"group\":\"g\",\"steps\":[1.0],\"metrics\":{}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!columns(bad[i]))
            fail_msg("%s is taken", bad[i]);
}

// Bodies in which any one letter is changed, removed or doubled.
static void test_changed_bodies(void **state)
{
    (void)state;
    static const char one[] =
        "{\"group\":\"g\",\"metrics\":{\"trialRunId\":1,\"stepsCompleted\":10,\"reportTime\":"
        "\"2026-11-21T09:00:00.5Z\",\"metrics\":{\"avgMetrics\":{\"loss\":0.25,\"n\":3},"
        "\"batchMetrics\":null}}}";
    static const char two[] =
        "{\"group\":\"g\",\"steps\":[10,20],\"times\":[1,2.5],\"metrics\":{\"loss\":"
        "[0.5,null],\"n\":[1,\"NaN\"]}}";
    static const char letters[] = "{}[]\",:0123456789.eE-+ntf\\u x";
    struct rng rng;
    rng_seed(&rng, 1, 1);
    for (int i = 0; i < 20000; i++) {
        char body[512];
        const char *from = i % 2 ? one : two;
        size_t len = strlen(from), at = rng_below(&rng, (uint32_t)len);
        unsigned how = rng_below(&rng, 3);
        snprintf(body, sizeof body, "%.*s%c%s", (int)at, from,
                 letters[rng_below(&rng, sizeof letters - 1)], from + at + (how ? 1 : 0));
        if (how == 2)
            snprintf(body, sizeof body, "%.*s%s", (int)at, from, from + at + 1);
        (i % 2 ? report : columns)(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_changed_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
