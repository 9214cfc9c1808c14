// Alerts of the cluster: one message when trouble begins, one when it has ended, none in between.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "master/watch/alerts.h"

enum { CALM = 60 };

static char heard[512];

static void hear(void *ctx, const struct alert *a, bool ended)
{
    size_t len = strlen(heard);
    (void)ctx;
    snprintf(heard + len, sizeof heard - len, "%s%lld:%s:%s;", ended ? "-" : "+", (long long)a->id,
             alert_words[a->kind], a->subject);
}

static const char *step(struct alerts *all, int64_t now, const struct trouble *list, size_t count)
{
    *heard = '\0';
    alerts_step(all, list, count, now, 1000 + now, CALM, hear, NULL);
    return heard;
}

static const struct trouble lost_a = {ALERT_AGENT_LOST, "a", "agent a was lost"},
                            lost_b = {ALERT_AGENT_LOST, "b", "agent b was lost"},
                            slow = {ALERT_STORE_SLOW, "", "the store is slow"};

static void test_one_message_at_each_end(void **state)
{
    (void)state;
    struct alerts *all = alerts_new(7);
    assert_string_equal(step(all, 0, NULL, 0), "");
    assert_string_equal(step(all, 1, &lost_a, 1), "+7:AGENT_LOST:a;");
    assert_int_equal(all->open->began_at, 1001);
    for (int now = 2; now < 500; now++)
        assert_string_equal(step(all, now, &lost_a, 1), "");
    assert_int_equal(alerts_open(all, ALERT_AGENT_LOST), 1);
    assert_string_equal(step(all, 499 + CALM - 1, NULL, 0), "");
    assert_string_equal(step(all, 499 + CALM, NULL, 0), "-7:AGENT_LOST:a;");
    assert_string_equal(step(all, 499 + CALM + 1, NULL, 0), "");
    assert_int_equal(alerts_open(all, ALERT_AGENT_LOST), 0);
    assert_string_equal(step(all, 600, &lost_a, 1), "+8:AGENT_LOST:a;");
    alerts_free(all);
}

// Trouble that comes and goes every second is one alert.
static void test_trouble_that_flickers(void **state)
{
    (void)state;
    struct alerts *all = alerts_new(1);
    step(all, 0, &slow, 1);
    for (int now = 1; now < 1000; now++)
        assert_string_equal(step(all, now, &slow, now % (CALM - 1) == 0), "");
    alerts_free(all);
}

static void test_subjects_are_separate(void **state)
{
    (void)state;
    struct alerts *all = alerts_new(1);
    const struct trouble both[] = {lost_a, lost_b}, three[] = {lost_b, slow, lost_a};
    assert_string_equal(step(all, 0, both, 2), "+1:AGENT_LOST:a;+2:AGENT_LOST:b;");
    assert_string_equal(step(all, 1, three, 3), "+3:STORE_SLOW:;");
    assert_string_equal(step(all, 1 + CALM, &lost_b, 1), "-1:AGENT_LOST:a;-3:STORE_SLOW:;");
    assert_int_equal(alerts_open(all, ALERT_AGENT_LOST), 1);
    alerts_free(all);
}

// An alert of an earlier start is not repeated while its trouble lasts.
static void test_loaded_alerts(void **state)
{
    (void)state;
    struct alerts *all = alerts_new(9);
    alerts_load(all, 4, ALERT_AGENT_LOST, "a", "agent a was lost", 500, 100);
    alerts_load(all, 5, ALERT_STORE_SLOW, "", "the store is slow", 501, 100);
    assert_string_equal(step(all, 100, &lost_a, 1), "");
    assert_string_equal(step(all, 99 + CALM, &lost_a, 1), "");
    assert_string_equal(step(all, 100 + CALM, &lost_a, 1), "-5:STORE_SLOW:;");
    assert_int_equal(all->open->began_at, 500);
    alerts_free(all);
}

static void test_words(void **state)
{
    (void)state;
    enum alert_kind kind;
    for (int i = 0; i < ALERT_KINDS; i++) {
        assert_true(alert_kind_of(alert_words[i], &kind));
        assert_int_equal(kind, i);
    }
    assert_false(alert_kind_of("AGENT", &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_message_at_each_end),
        cmocka_unit_test(test_trouble_that_flickers),
        cmocka_unit_test(test_subjects_are_separate),
        cmocka_unit_test(test_loaded_alerts),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
