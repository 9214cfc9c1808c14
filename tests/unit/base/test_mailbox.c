// The mailbox between threads, also for the thread sanitizer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/os/mailbox.h"

enum { SENDERS = 4, PER_SENDER = 2000 };

// The messages are numbers from 1, so that none is NULL.
static void *message(uintptr_t n)
{
    return (void *)n;
}

static void order_and_limit(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new(3);
    void *out[4];
    for (uintptr_t round = 0; round < 5; round++) { // wraps around the ring
        for (uintptr_t i = 1; i <= 3; i++)
            assert_int_equal(mailbox_send(m, message(10 * round + i)), 0);
        assert_int_equal(mailbox_send(m, message(99)), ERR_BUSY);
        assert_int_equal(mailbox_length(m), 3);
        assert_int_equal(mailbox_receive(m, out, 2, 0), 2);
        assert_ptr_equal(out[0], message(10 * round + 1));
        assert_ptr_equal(out[1], message(10 * round + 2));
        assert_int_equal(mailbox_receive(m, out, 4, INT64_MAX), 1);
        assert_ptr_equal(out[0], message(10 * round + 3));
    }
    mailbox_free(m);
}

static void deadlines(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new(1);
    void *out[1];
    assert_int_equal(mailbox_receive(m, out, 1, 0), 0);
    assert_int_equal(mailbox_receive(m, out, 1, -1), 0);
    int64_t start = clock_mono_us();
    assert_int_equal(mailbox_receive(m, out, 1, start + 20000), 0);
    assert_true(clock_mono_us() >= start + 20000);
    assert_false(mailbox_closed(m));
    mailbox_free(m);
}

static void closing_lets_the_rest_out(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new(2);
    void *out[2];
    assert_int_equal(mailbox_send(m, message(1)), 0);
    mailbox_close(m);
    assert_true(mailbox_closed(m));
    assert_int_equal(mailbox_send(m, message(2)), ERR_UNAVAILABLE);
    assert_int_equal(mailbox_send_wait(m, message(2)), ERR_UNAVAILABLE);
    assert_int_equal(mailbox_receive(m, out, 2, INT64_MAX), 1);
    assert_int_equal(mailbox_receive(m, out, 2, INT64_MAX), 0); // does not wait
    mailbox_free(m);
    mailbox_free(NULL);
}

struct mailbox_sender {
    pthread_t thread;
    struct mailbox *m;
    uintptr_t number;
    bool wait;
    int refused;
};

static void *send_all(void *arg)
{
    struct mailbox_sender *s = arg;
    for (uintptr_t i = 0; i < PER_SENDER; i++) {
        void *note = message(1 + s->number * PER_SENDER + i);
        while (!s->wait && mailbox_send(s->m, note) != 0)
            s->refused++;
        if (s->wait && mailbox_send_wait(s->m, note) != 0)
            s->refused++;
    }
    return NULL;
}

// Every message arrives once, and the messages of one sender arrive in order.
static void exchange(bool wait)
{
    struct mailbox *m = mailbox_new(16);
    struct mailbox_sender senders[SENDERS];
    for (uintptr_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct mailbox_sender){.m = m, .number = i, .wait = wait};
        pthread_create(&senders[i].thread, NULL, send_all, &senders[i]);
    }
    uintptr_t next[SENDERS] = {0};
    for (size_t got = 0; got < (size_t)SENDERS * PER_SENDER;) {
        void *out[5];
        size_t n = mailbox_receive(m, out, 5, INT64_MAX);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) {
            uintptr_t note = (uintptr_t)out[i] - 1;
            assert_int_equal(note % PER_SENDER, next[note / PER_SENDER]++);
        }
        got += n;
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
        assert_true(!wait || senders[i].refused == 0);
    }
    assert_int_equal(mailbox_length(m), 0);
    mailbox_free(m);
}

static void many_senders_that_wait(void **state)
{
    (void)state;
    exchange(true);
}

static void many_senders_that_try_again(void **state)
{
    (void)state;
    exchange(false);
}

static void *send_one_more(void *arg)
{
    struct mailbox_sender *s = arg;
    s->refused = mailbox_send_wait(s->m, message(2));
    return NULL;
}

static void closing_wakes_those_who_wait(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new(1);
    assert_int_equal(mailbox_send(m, message(1)), 0);
    struct mailbox_sender s = {.m = m};
    pthread_create(&s.thread, NULL, send_one_more, &s);
    clock_sleep_us(10000); // so that the thread most likely waits; the result is the same if not
    mailbox_close(m);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.refused, ERR_UNAVAILABLE);
    void *out[1];
    assert_int_equal(mailbox_receive(m, out, 1, 0), 1);
    mailbox_free(m);
}

static void *receive_forever(void *arg)
{
    struct mailbox_sender *s = arg;
    void *out[1];
    s->refused = mailbox_receive(s->m, out, 1, INT64_MAX) == 0 && mailbox_closed(s->m);
    return NULL;
}

static void closing_wakes_the_receiver(void **state)
{
    (void)state;
    struct mailbox *m = mailbox_new(1);
    struct mailbox_sender s = {.m = m};
    pthread_create(&s.thread, NULL, receive_forever, &s);
    clock_sleep_us(10000);
    mailbox_close(m);
    pthread_join(s.thread, NULL);
    assert_true(s.refused);
    mailbox_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_limit),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(closing_lets_the_rest_out),
        cmocka_unit_test(many_senders_that_wait),
        cmocka_unit_test(many_senders_that_try_again),
        cmocka_unit_test(closing_wakes_those_who_wait),
        cmocka_unit_test(closing_wakes_the_receiver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
