// A stream of events from a server that sends nothing but heartbeats, and then nothing.
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/http/events.h"
#include "base/clock.h"

enum { SILENCE_S = 2, HEARTBEATS = 10, PAUSE_US = 500 * 1000 };

static int listener;

static void send_text(int fd, const char *text)
{
    assert_true(send(fd, text, strlen(text), MSG_NOSIGNAL) > 0);
}

// The first connection has heartbeats for longer than the silence, and then none. The second one
// brings an event.
static void *serve(void *arg)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    char request[4096];
    (void)arg;
    int first = accept(listener, NULL, NULL);
    assert_true(recv(first, request, sizeof request, 0) > 0);
    send_text(first, head);
    for (int i = 0; i < HEARTBEATS; i++) {
        clock_sleep_us(PAUSE_US);
        send_text(first, ":\n\n");
    }
    int second = accept(listener, NULL, NULL);
    assert_true(recv(second, request, sizeof request, 0) > 0);
    send_text(second, head);
    send_text(second, "event: start\ndata: {}\n\n");
    close(second);
    close(first);
    return NULL;
}

static void heartbeats_are_no_silence(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    pthread_t thread;
    char url[64];
    struct error e = {0};
    struct event_stream *events = NULL;
    struct events_item item = {0};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    const struct client_options options = {.url = url, .silence_s = SILENCE_S};
    assert_int_equal(events_open(&options, "/api/v1/events", &events, &e), 0);
    int64_t began = clock_mono_us(), deadline = began + 60 * INT64_C(1000000);
    assert_int_equal(events_next(events, deadline, &item, &e), 1);
    assert_string_equal(item.name, "away");
    assert_true(clock_mono_us() - began > HEARTBEATS * PAUSE_US + SILENCE_S * 1000000 / 2);
    assert_int_equal(events_next(events, deadline, &item, &e), 1);
    assert_string_equal(item.name, "start");
    events_close(events);
    pthread_join(thread, NULL);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(heartbeats_are_no_silence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
