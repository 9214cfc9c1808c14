// Bodies of log lines: both key cases, nulls, defaults, repetitions, limits, invalid bodies.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/rng.h"
#include "master/ingest/log_parse.h"

typedef int reader(struct request *rq, char *text, size_t len, struct error *e);

// The text is freed at once: nothing may point into it.
static int read_text(reader *read, const char *text, struct log_post **out, struct error *e)
{
    struct request rq = {0};
    char *copy = xstrdup(text);
    int err = read(&rq, copy, strlen(copy), e);
    free(copy);
    *out = rq.input;
    return err;
}

static struct log_post *read_well(reader *read, const char *text)
{
    struct log_post *post;
    struct error e = {0};
    if (read_text(read, text, &post, &e))
        fail_msg("%s: %s", e.text, text);
    return post;
}

// "ALLOCATION AGENT CONTAINER SOURCE STDTYPE LEVEL RANK: TEXT|" for each line of a part; static.
static const char *lines_of(const struct log_part *p)
{
    static struct buf out;
    if (!out.limit)
        buf_init(&out, 8 << 20);
    buf_reset(&out);
    for (size_t i = 0; i < p->chunk_count; i++) {
        struct log_chunk c;
        assert_int_equal(
            log_chunk_read_origins(&c, p->chunks[i].origins, p->chunks[i].origins_len, NULL), 0);
        assert_int_equal(log_chunk_read_lines(&c, p->chunks[i].data, p->chunks[i].data_len, NULL),
                         0);
        for (size_t k = 0; k < c.line_count; k++) {
            const struct log_origin *o = &c.origins[c.lines[k].origin];
            for (int f = 0; f < LOG_FIELDS; f++)
                buf_printf(&out, "%s ", o->text[f]);
            buf_printf(&out, "%lld: %s|", (long long)o->rank, c.lines[k].text);
        }
        log_chunk_free(&c);
    }
    return buf_str(&out);
}

static void what_determineds_shipper_sends(void **state)
{
    (void)state;
    struct log_post *post =
        read_well(log_post_read,
                  "{\"logs\":[{\"task_id\":\"1.1\",\"allocation_id\":\"1.1.1\",\"container_id\":"
                  "\"c\",\"agent_id\":\"a\",\"rank_id\":2,\"timestamp\":"
                  "\"2026-11-21T09:00:00+00:00\",\"level\":\"LOG_LEVEL_ERROR\",\"stdtype\":"
                  "\"stderr\",\"source\":\"task\",\"log\":\"bad\\n\",\"more\":{\"x\":[1]}},"
                  "{\"task_id\":\"1.1\",\"allocation_id\":\"1.1.1\",\"agent_id\":\"a\","
                  "\"rank_id\":null,\"level\":null,\"log\":\"plain\",\"timestamp\":null}]}");
    assert_string_equal(post->parts->task, "1.1");
    assert_int_equal(post->parts->first_sequence, -1);
    assert_int_equal(post->parts->chunks[0].first_time, 1795251600000000);
    assert_string_equal(lines_of(post->parts), "1.1.1 a c task stderr ERROR 2: bad|"
                                               "1.1.1 a  task stdout INFO -1: plain|");
    assert_null(post->parts->next);
    log_post_free(post);
}

static void what_lines_share_is_said_once(void **state)
{
    (void)state;
    struct log_post *post = read_well(
        log_post_read, "{\"taskId\":\"1.1\",\"agentId\":\"a\",\"allocationId\":\"1.1.1\",\"logs\":["
                       "{\"log\":\"one\",\"sequence\":4},{\"log\":\"other\",\"agentId\":\"b\"},"
                       "{\"log\":\"two\",\"sequence\":\"5\"},{\"log\":\"again\",\"sequence\":5}]}");
    assert_string_equal(lines_of(post->parts), "1.1.1 a  task stdout INFO -1: one|"
                                               "1.1.1 a  task stdout INFO -1: two|");
    assert_int_equal(post->parts->first_sequence, 4);
    assert_int_equal(post->parts->last_sequence, 5);
    assert_string_equal(post->parts->next->agent, "b");
    log_part_drop(post->parts, 4);
    assert_string_equal(lines_of(post->parts), "1.1.1 a  task stdout INFO -1: two|");
    log_part_drop(post->parts, 5);
    assert_int_equal(post->parts->chunk_count, 0);
    log_post_free(post);
}

static void a_list_alone(void **state)
{
    (void)state;
    struct log_post *post = read_well(log_list_read, " [{\"task_id\":\"1.1\",\"log\":\"x\"}] ");
    assert_string_equal(lines_of(post->parts), "   task stdout INFO -1: x|");
    log_post_free(post);
    post = read_well(log_list_read, "[]");
    assert_null(post->parts);
    log_post_free(post);
}

static void control_bytes_are_replaced(void **state)
{
    (void)state;
    struct log_post *post =
        read_well(log_post_read, "{\"logs\":[{\"log\":\"\\u0000a\\u0000\\u0001b\\u007f\\r\\n\"},"
                                 "{\"log\":\"\\u0000\"},{\"log\":\"\\ta\\nb \\u001b[1mc\"}]}");
    assert_string_equal(lines_of(post->parts), "   task stdout INFO -1: \xEF\xBF\xBD"
                                               "a\xEF\xBF\xBD\xEF\xBF\xBD"
                                               "b\xEF\xBF\xBD|"
                                               "   task stdout INFO -1: \xEF\xBF\xBD|"
                                               "   task stdout INFO -1: \ta\nb \x1b[1mc|");
    log_post_free(post);
}

static char *lines_body(int count)
{
    struct buf out;
    buf_init(&out, 8 << 20);
    buf_puts(&out, "{\"logs\":[");
    for (int i = 0; i < count; i++)
        buf_printf(&out, "%s{\"log\":\"%d\",\"rankId\":%d}", i ? "," : "", i, i);
    buf_puts(&out, "]}");
    return buf_take(&out);
}

// Ten thousand lines of as many ranks take several chunks; one more is too many.
static void as_many_lines_as_a_post_may_have(void **state)
{
    (void)state;
    char *body = lines_body(LIMIT_LOGS_PER_POST);
    struct log_post *post = read_well(log_post_read, body);
    size_t lines = 0;
    for (size_t i = 0; i < post->parts->chunk_count; i++)
        lines += (size_t)post->parts->chunks[i].lines;
    assert_int_equal(lines, LIMIT_LOGS_PER_POST);
    assert_true(post->parts->chunk_count > 1);
    log_post_free(post);
    free(body);
    struct error e = {0};
    body = lines_body(LIMIT_LOGS_PER_POST + 1);
    assert_int_equal(read_text(log_post_read, body, &post, &e), ERR_TOO_LARGE);
    log_post_free(post);
    free(body);
}

static void a_long_line_is_cut(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct buf body;
        char text[64];
        buf_init(&body, 1 << 20);
        buf_puts(&body, "[{\"log\":\"");
        for (int i = 0; i < LIMIT_LOG_LINE / 2 + more; i++)
            buf_puts(&body, "\xc3\xa9"); // never cut within a letter
        buf_puts(&body, "\\r\\n\"}]");
        struct log_post *post = read_well(log_list_read, buf_str(&body));
        const char *said = lines_of(post->parts);
        snprintf(text, sizeof text, " [cut: %d bytes more]|", 2 * more);
        assert_true(!strstr(said, text) == !more);
        assert_int_equal(strlen(said), strlen("   task stdout INFO -1: |") + LIMIT_LOG_LINE +
                                           (more ? strlen(text) - 1 : 0));
        log_post_free(post);
        buf_free(&body);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{}",
                                      "[]",
                                      "{\"logs\":null}",
                                      "{\"logs\":{}}",
                                      "{\"logs\":[1]}",
                                      "{\"logs\":[{\"log\":1}]}",
                                      "{\"logs\":[{\"log\":\"x\",\"sequence\":1.5}]}",
                                      "{\"logs\":[{\"log\":\"x\",\"rankId\":\"one\"}]}",
                                      "{\"logs\":[]} more",
                                      "{\"logs\":[{\"log\":\"x\"}]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct log_post *post;
        struct error e = {0};
        if (read_text(log_post_read, bad[i], &post, &e) != ERR_INVALID)
            fail_msg("%s was taken", bad[i]);
        assert_true(*e.text);
        log_post_free(post);
    }
}

static void damage_does_no_harm(void **state)
{
    (void)state;
    static const char good[] =
        "{\"taskId\":\"1.1\",\"logs\":[{\"log\":\"a\\u00e9\",\"sequence\":1,\"rank_id\":0,"
        "\"timestamp\":\"2026-11-21T09:00:00Z\"},{\"log\":\"b\",\"level\":\"LOG_LEVEL_INFO\"}]}";
    struct rng rng;
    rng_seed(&rng, 21, 1);
    for (int i = 0; i < 50000; i++) {
        char text[sizeof good];
        struct log_post *post;
        memcpy(text, good, sizeof good);
        for (uint32_t k = rng_below(&rng, 3) + 1; k; k--)
            text[rng_below(&rng, sizeof good - 1)] = (char)(1 + rng_below(&rng, 255));
        if (!read_text(log_post_read, text, &post, NULL) && post->parts)
            lines_of(post->parts);
        log_post_free(post);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_determineds_shipper_sends),
        cmocka_unit_test(what_lines_share_is_said_once),
        cmocka_unit_test(a_list_alone),
        cmocka_unit_test(control_bytes_are_replaced),
        cmocka_unit_test(as_many_lines_as_a_post_may_have),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(damage_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
