// Lists of changes, the ring of events, and the filters of followers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "master/notify/event_ring.h"

enum { FIRST = 1000, ALL = (1 << EVENT_TOPICS) - 1 };

// --- changes -------------------------------------------------------------------------------------

static void a_thing_is_noted_once(void **state)
{
    (void)state;
    struct changes *n = changes_new();
    changes_add(n, EVENT_TRIAL, 1, 2, "");
    changes_add(n, EVENT_METRICS, 1, 2, "training");
    changes_add(n, EVENT_TRIAL, 1, 2, "");
    changes_add(n, EVENT_METRICS, 1, 2, "validation");
    changes_add(n, EVENT_EXPERIMENT, 1, 2, "");
    changes_add(n, EVENT_METRICS, 1, 2, "training");
    assert_int_equal(n->count, 4);
    assert_int_equal(n->items[0].topic, EVENT_TRIAL);
    assert_string_equal(n->items[1].name, "training");
    assert_string_equal(n->items[2].name, "validation");
    changes_free(n);
    changes_free(NULL);
}

static void many_things_keep_their_order(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    struct changes *n = changes_new();
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < MANY; i++)
            changes_add(n, EVENT_TRIAL, i / 10, i, i % 2 ? "odd" : "");
    assert_int_equal(n->count, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(n->items[i].trial_id, i);
    changes_free(n);
}

static void merging_keeps_what_is_newer(void **state)
{
    (void)state;
    struct changes *into = changes_new(), *from = changes_new();
    change_set_data(changes_add(into, EVENT_AGENT, 0, 0, "a"), xstrdup("{\"slotsUsed\":1}"));
    change_set_data(changes_add(into, EVENT_AGENT, 0, 0, "b"), xstrdup("{\"slotsUsed\":2}"));
    change_set_data(changes_add(from, EVENT_AGENT, 0, 0, "a"), xstrdup("{\"slotsUsed\":3}"));
    changes_add(from, EVENT_TRIAL, 4, 5, "")->workspace_id = 6;
    changes_merge(into, from);
    assert_int_equal(into->count, 3);
    assert_string_equal(into->items[0].data, "{\"slotsUsed\":3}");
    assert_string_equal(into->items[1].data, "{\"slotsUsed\":2}");
    assert_int_equal(into->items[2].workspace_id, 6);
    assert_int_equal(from->count, 2); // as it was
    changes_free(into);
    changes_free(from);
}

// --- the ring ------------------------------------------------------------------------------------

static void add(struct event_ring *r, enum event_topic topic, int64_t experiment, int64_t trial,
                const char *data)
{
    const struct change n = {.topic = topic, .experiment_id = experiment, .trial_id = trial};
    event_ring_add(r, event_new(event_ring_last(r) + 1, &n, data));
}

static void add_trials(struct event_ring *r, int count)
{
    for (int i = 0; i < count; i++)
        add(r, EVENT_TRIAL, 1, 1, "{}");
}

// Writes the numbers of the events after *place; returns the result of event_ring_read().
static int numbers(struct event_ring *r, uint64_t *place, const struct event_filter *f,
                   uint64_t *out, int most)
{
    struct event *events[64];
    int count = event_ring_read(r, place, f, events, most);
    for (int i = 0; i < count; i++) {
        out[i] = events[i]->number;
        event_release(events[i]);
    }
    return count;
}

static void an_event_is_written_as_it_is_sent(void **state)
{
    (void)state;
    const struct change n = {.topic = EVENT_CHECKPOINT, .experiment_id = 3, .workspace_id = 9};
    struct event *ev = event_new(77, &n, "{\"uuid\":\"x\"}");
    assert_string_equal(ev->text, "id: 77\nevent: checkpoint\ndata: {\"uuid\":\"x\"}\n\n");
    assert_int_equal(ev->len, strlen(ev->text));
    assert_int_equal(ev->workspace_id, 9);
    event_release(ev);
}

static void a_follower_goes_on_from_every_point(void **state)
{
    (void)state;
    static const struct event_filter all = {.topics = ALL};
    struct event_ring *r = event_ring_new(FIRST, 8, 1 << 20);
    add_trials(r, 8);
    for (uint64_t from = FIRST; from <= FIRST + 8; from++) {
        uint64_t place = from, got[64], next = from;
        int count;
        while ((count = numbers(r, &place, &all, got, 3)) > 0)
            for (int i = 0; i < count; i++)
                assert_int_equal(got[i], ++next);
        assert_int_equal(count, 0);
        assert_int_equal(next, FIRST + 8);
        assert_int_equal(place, FIRST + 8);
    }
    event_ring_free(r);
}

static void who_is_too_far_behind_is_told(void **state)
{
    (void)state;
    static const struct event_filter all = {.topics = ALL};
    struct event_ring *r = event_ring_new(FIRST, 8, 1 << 20);
    uint64_t got[64], place = FIRST - 1, next = FIRST + 1;
    assert_int_equal(numbers(r, &place, &all, got, 8), -1); // of an earlier start
    assert_int_equal(numbers(r, &next, &all, got, 8), -1);  // of another store
    place = FIRST;
    assert_int_equal(numbers(r, &place, &all, got, 8), 0);
    add_trials(r, 8);
    assert_int_equal(numbers(r, &place, &all, got, 64), 8); // just kept
    place = FIRST;
    add_trials(r, 1);
    assert_int_equal(event_ring_count(r), 8);
    assert_int_equal(numbers(r, &place, &all, got, 64), -1); // just lost
    assert_int_equal(place, FIRST);
    event_ring_free(r);
}

static void bytes_are_bounded_too(void **state)
{
    (void)state;
    static const struct event_filter all = {.topics = ALL};
    char data[401];
    memset(data, 'x', sizeof data);
    data[400] = '\0';
    struct event_ring *r = event_ring_new(FIRST, 100, 2000);
    for (int i = 0; i < 20; i++)
        add(r, EVENT_METRICS, 1, 1, data);
    assert_int_equal(event_ring_count(r), 4);
    uint64_t place = FIRST + 16, got[64];
    assert_int_equal(numbers(r, &place, &all, got, 64), 4);
    place = FIRST + 15;
    assert_int_equal(numbers(r, &place, &all, got, 64), -1);
    event_ring_free(r);
}

static void what_was_not_kept_is_a_gap(void **state)
{
    (void)state;
    static const struct event_filter all = {.topics = ALL};
    struct event_ring *r = event_ring_new(FIRST, 8, 1 << 20);
    uint64_t got[64], place = FIRST;
    add_trials(r, 3);
    event_ring_lose(r);
    assert_int_equal(event_ring_count(r), 0);
    assert_int_equal(numbers(r, &place, &all, got, 64), -1);
    place = FIRST + 3;
    assert_int_equal(numbers(r, &place, &all, got, 64), -1); // he had read all there was
    place = event_ring_last(r);
    add_trials(r, 1);
    assert_int_equal(numbers(r, &place, &all, got, 64), 1);
    assert_int_equal(got[0], FIRST + 5);
    event_ring_free(r);
}

static void a_reader_keeps_what_he_holds(void **state)
{
    (void)state;
    static const struct event_filter all = {.topics = ALL};
    struct event_ring *r = event_ring_new(FIRST, 2, 1 << 20);
    struct event *held[2];
    uint64_t place = FIRST;
    add(r, EVENT_TRIAL, 1, 1, "{\"id\":1}");
    assert_int_equal(event_ring_read(r, &place, &all, held, 2), 1);
    add_trials(r, 5);
    event_ring_free(r);
    assert_non_null(strstr(held[0]->text, "{\"id\":1}"));
    event_release(held[0]);
}

// --- filters -------------------------------------------------------------------------------------

static void filters_pick(void **state)
{
    (void)state;
    static const int64_t experiments[] = {7}, trials[] = {30};
    const struct event_filter by_topic = {.topics = 1 << EVENT_TRIAL | 1 << EVENT_AGENT};
    const struct event_filter by_id = {.topics = ALL,
                                       .experiments = experiments,
                                       .experiment_count = 1,
                                       .trials = trials,
                                       .trial_count = 1};
    static const struct {
        enum event_topic topic;
        int64_t experiment, trial;
        bool topic_passes, id_passes;
    } cases[] = {
        {EVENT_TRIAL, 7, 20, true, true},        {EVENT_TRIAL, 8, 30, true, true},
        {EVENT_TRIAL, 8, 31, true, false},       {EVENT_EXPERIMENT, 7, 0, false, true},
        {EVENT_EXPERIMENT, 30, 0, false, false}, {EVENT_AGENT, 0, 0, true, true},
        {EVENT_QUEUE, 0, 0, false, true},        {EVENT_METRICS, 8, 7, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct event ev = {.topic = cases[i].topic,
                                 .experiment_id = cases[i].experiment,
                                 .trial_id = cases[i].trial};
        assert_int_equal(event_passes(&by_topic, &ev), cases[i].topic_passes);
        assert_int_equal(event_passes(&by_id, &ev), cases[i].id_passes);
    }
}

static void what_is_passed_over_is_not_looked_at_again(void **state)
{
    (void)state;
    static const struct event_filter queues = {.topics = 1 << EVENT_QUEUE};
    struct event_ring *r = event_ring_new(FIRST, 8, 1 << 20);
    uint64_t got[64], place = FIRST;
    add_trials(r, 3);
    assert_int_equal(numbers(r, &place, &queues, got, 64), 0);
    assert_int_equal(place, FIRST + 3);
    add(r, EVENT_QUEUE, 0, 0, "{}");
    add_trials(r, 2);
    assert_int_equal(numbers(r, &place, &queues, got, 64), 1);
    assert_int_equal(got[0], FIRST + 4);
    assert_int_equal(place, FIRST + 6);
    event_ring_free(r);
}

static void topics_are_read(void **state)
{
    (void)state;
    unsigned bits = 0;
    struct error e = {0};
    assert_int_equal(event_read_topics("", &bits, &e), 0);
    assert_int_equal(bits, 0);
    assert_int_equal(event_read_topics("trials", &bits, &e), 0);
    assert_int_equal(event_read_topics("queue,agents", &bits, &e), 0);
    assert_int_equal(bits, 1 << EVENT_TRIAL | 1 << EVENT_QUEUE | 1 << EVENT_AGENT);
    static const char *const wrong[] = {"trial",    "trials,,queue", ",",
                                        "trials,x", "TRIALS",        " trials"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(event_read_topics(wrong[i], &bits, &e), ERR_INVALID);
    event_read_topics("trials,unknwn", &bits, &e);
    assert_non_null(strstr(e.text, "\"unknwn\""));
    assert_non_null(strstr(e.text, "experiments, trials, metrics, logs, checkpoints, queue"));
    bits = 0;
    for (int i = 0; i < EVENT_TOPICS; i++)
        assert_int_equal(event_read_topics(event_topics[i], &bits, &e), 0);
    assert_int_equal(bits, ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thing_is_noted_once),
        cmocka_unit_test(many_things_keep_their_order),
        cmocka_unit_test(merging_keeps_what_is_newer),
        cmocka_unit_test(an_event_is_written_as_it_is_sent),
        cmocka_unit_test(a_follower_goes_on_from_every_point),
        cmocka_unit_test(who_is_too_far_behind_is_told),
        cmocka_unit_test(bytes_are_bounded_too),
        cmocka_unit_test(what_was_not_kept_is_a_gap),
        cmocka_unit_test(a_reader_keeps_what_he_holds),
        cmocka_unit_test(filters_pick),
        cmocka_unit_test(what_is_passed_over_is_not_looked_at_again),
        cmocka_unit_test(topics_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
