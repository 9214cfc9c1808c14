// The format of server-sent events: a stream gives the same events wherever it is cut.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/http/sse.h"

struct seen_events {
    struct buf text; // "name|data|id;" of each event
    int stop_after;  // 0: never
};

static int note(void *ctx, const struct sse_event *event, struct error *e)
{
    struct seen_events *s = ctx;
    (void)e;
    buf_printf(&s->text, "%s|%s|%s;", event->name, event->data, event->id);
    return s->stop_after && !--s->stop_after ? 1 : 0;
}

// Feeds pieces of `step` bytes.
static void feed(struct sse *s, const char *text, size_t len, size_t step, struct seen_events *out)
{
    for (size_t at = 0; at < len; at += step) {
        size_t part = len - at < step ? len - at : step;
        assert_int_equal(sse_feed(s, text + at, part, note, out, NULL), 0);
    }
}

static void expect(const char *text, const char *wanted)
{
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        struct sse s;
        struct seen_events seen = {0};
        sse_init(&s, 256);
        buf_init(&seen.text, 4096);
        feed(&s, text, strlen(text), step, &seen);
        if (strcmp(buf_str(&seen.text), wanted) != 0)
            fail_msg("in pieces of %zu: \"%s\", not \"%s\"", step, buf_str(&seen.text), wanted);
        buf_free(&seen.text);
        sse_free(&s);
    }
}

static void events_come_out_whole(void **state)
{
    (void)state;
    expect("id: 7\nevent: trial\ndata: {\"id\":1}\n\n", "trial|{\"id\":1}|7;");
    expect("data: a\n\ndata: b\n\n", "message|a|;message|b|;");
    expect("id: 3\ndata: a\n\nevent: x\ndata: b\n\n", "message|a|3;x|b|3;"); // an id stays valid
    expect("data: one\ndata: two\n\n", "message|one\ntwo|;");
    expect("data\n\ndata:\ndata:\n\n", "message||;message|\n|;");
    expect("data:  two blanks\n\n",
           "message| two blanks|;"); // the first blank belongs to the format
    expect("data: left open\n", "");
    expect("", "");
}

static void every_end_of_a_line_counts(void **state)
{
    (void)state;
    expect("data: a\r\ndata: b\r\n\r\n", "message|a\nb|;");
    expect("data: a\rdata: b\r\r", "message|a\nb|;");
    expect("data: a\n\r\ndata: b\r\n\n", "message|a|;message|b|;");
    expect("data: a\rdata: b\n\n", "message|a\nb|;");
    expect("\xef\xbb\xbf"
           "data: after the mark\n\n",
           "message|after the mark|;");
}

static void what_is_no_event_is_passed_over(void **state)
{
    (void)state;
    expect(":\n\n: a beat\n\n", "");
    expect("event: lost\n\ndata: a\n\n", "message|a|;"); // an event without data is dropped
    expect("id: 9\n\ndata: a\n\n", "message|a|9;");      // but its id counts
    expect("unknown: x\nDATA: x\n data: x\ndata: a\n\n", "message|a|;");
    expect("event: a name that is far longer than any name of an event that we would ever send\n"
           "data: a\n\n",
           "message|a|;");
}

static void ids_with_a_nul_are_ignored(void **state)
{
    (void)state;
    static const char text[] = "id: 1\ndata: a\n\nid: 2\0x\ndata: b\n\n";
    struct sse s;
    struct seen_events seen = {0};
    sse_init(&s, 256);
    buf_init(&seen.text, 4096);
    feed(&s, text, sizeof text - 1, 5, &seen);
    assert_string_equal(buf_str(&seen.text), "message|a|1;message|b|1;");
    buf_free(&seen.text);
    sse_free(&s);
}

static void a_new_connection_keeps_the_id(void **state)
{
    (void)state;
    static const char first[] = "id: 5\ndata: a\n\nid: 6\nevent: x\ndata: ha", second[] =
                                                                                   "lf\n\n"
                                                                                   "data: b\n\n";
    struct sse s;
    struct seen_events seen = {0};
    sse_init(&s, 256);
    buf_init(&seen.text, 4096);
    feed(&s, first, strlen(first), 100, &seen);
    assert_string_equal(s.id, "5"); // the second event is incomplete
    sse_begin(&s);
    feed(&s, second, strlen(second), 100, &seen);
    assert_string_equal(buf_str(&seen.text), "message|a|5;message|b|5;");
    buf_free(&seen.text);
    sse_free(&s);
}

static void limits_and_ends(void **state)
{
    (void)state;
    struct sse s;
    struct error e = {0};
    struct seen_events seen = {.stop_after = 2};
    char line[64];
    sse_init(&s, 32);
    buf_init(&seen.text, 4096);
    assert_int_equal(sse_feed(&s, "data: a\n\ndata: b\n\ndata: c\n\n", 27, note, &seen, &e), 1);
    assert_string_equal(buf_str(&seen.text), "message|a|;message|b|;");

    snprintf(line, sizeof line, "data: %26s\n\n", "x"); // 32 bytes fit
    assert_int_equal(sse_feed(&s, line, strlen(line), note, &seen, &e), 0);
    sse_begin(&s);
    snprintf(line, sizeof line, "data: %27s\n\n", "x");
    assert_int_equal(sse_feed(&s, line, strlen(line), note, &seen, &e), ERR_TOO_LARGE);

    sse_begin(&s);
    assert_int_equal(sse_feed(&s, "data: 1234567890123456\n", 23, note, &seen, &e), 0);
    assert_int_equal(sse_feed(&s, "data: 1234567890123456\n", 23, note, &seen, &e), ERR_TOO_LARGE);
    buf_free(&seen.text);
    sse_free(&s);
}

static void the_server_says_when_to_come_back(void **state)
{
    (void)state;
    struct sse s;
    sse_init(&s, 256);
    assert_int_equal(sse_feed(&s, "retry: 250\n", 11, note, NULL, NULL), 0);
    assert_int_equal(s.retry_ms, 250);
    assert_int_equal(sse_feed(&s, "retry: soon\nretry:\n", 19, note, NULL, NULL), 0);
    assert_int_equal(s.retry_ms, 250);
    sse_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_out_whole),
        cmocka_unit_test(every_end_of_a_line_counts),
        cmocka_unit_test(what_is_no_event_is_passed_over),
        cmocka_unit_test(ids_with_a_nul_are_ignored),
        cmocka_unit_test(a_new_connection_keeps_the_id),
        cmocka_unit_test(limits_and_ends),
        cmocka_unit_test(the_server_says_when_to_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
