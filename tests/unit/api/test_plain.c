// Which addresses the client speaks to by itself, and an answer in parts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/plain.h"
#include "base/clock.h"

static void addresses(void **state)
{
    static const struct {
        const char *url, *path; // NULL: another's
        bool loopback;
    } rows[] = {
        {"http://localhost", "", true},
        {"http://127.0.0.1:8080", "", true},
        {"http://[::1]:8080/muster", "/muster", true},
        {"http://master.example:80/a/b", "/a/b", false},
        {"https://localhost", NULL, false},
        {"http://", NULL, false},
        {"http://:8080", NULL, false},
        {"http://host:", NULL, false},
        {"http://host:0", NULL, false},
        {"http://host:65536", NULL, false},
        {"http://host:80x", NULL, false},
        {"http://[::1", NULL, false},
        {"http://user@host", NULL, false},
        {"http://a b", NULL, false},
        {"http://host/?q", NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct plain *p = plain_new(rows[i].url);
        if (!p != !rows[i].path)
            fail_msg("%s", rows[i].url);
        if (p) {
            assert_string_equal(plain_path(p), rows[i].path);
            assert_int_equal(plain_is_loopback(p), rows[i].loopback);
        }
        plain_free(p);
    }
}

struct peer { // answers each connection once, then ends it
    int fd, port;
    const char *const *answers; // NULL at the end
    pthread_t thread;
};

static void *answer(void *arg)
{
    struct peer *peer = arg;
    for (const char *const *a = peer->answers; *a; a++) {
        char request[4096];
        int fd = accept(peer->fd, NULL, NULL);
        if (read(fd, request, sizeof request) > 0)
            for (size_t i = 0; i < strlen(*a); i += 7)
                if (write(fd, *a + i, strnlen(*a + i, 7)) < 0)
                    break;
        close(fd);
    }
    return NULL;
}

static void listen_at(struct peer *peer)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(peer->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(peer->fd, 8), 0);
    assert_int_equal(getsockname(peer->fd, (struct sockaddr *)&at, &len), 0);
    peer->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&peer->thread, NULL, answer, peer), 0);
}

static int take(void *ctx, int status, const char *bytes, size_t len)
{
    (void)status;
    return buf_append(ctx, bytes, len);
}

static void answers(void **state)
{
    static const char *const said[] = {
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5;x=y\r\nhello\r\n11\r\n, in many chunks.\r\n0\r\nTrailer: a\r\n\r\n",
        "HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy",
        "HTTP/1.1 200 OK\r\n\r\nuntil the end",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot whole",
        "SSH-2.0-OpenSSH\r\n",
        NULL};
    static const struct {
        enum plain_end end;
        int status;
        const char *body;
    } expected[] = {{PLAIN_DONE, 200, "hello, in many chunks."},
                    {PLAIN_DONE, 503, "busy"},
                    {PLAIN_DONE, 200, "until the end"},
                    {PLAIN_DONE, 204, ""},
                    {PLAIN_FAILED, 200, "not whole"},
                    {PLAIN_FAILED, 0, ""}};
    (void)state;
    struct peer peer = {.answers = said};
    listen_at(&peer);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", peer.port);
    struct plain *p = plain_new(url); // its connection is ended behind each answer
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct buf body;
        buf_init(&body, 4096);
        struct plain_call call = {.head = "GET / HTTP/1.1\r\n",
                                  .connect_us = 5000000,
                                  .deadline = clock_mono_us() + 20000000,
                                  .take = take,
                                  .ctx = &body};
        assert_int_equal(plain_perform(p, &call), expected[i].end);
        assert_int_equal(call.status, expected[i].status);
        assert_string_equal(buf_str(&body), expected[i].body);
        buf_free(&body);
    }
    plain_free(p);
    pthread_join(peer.thread, NULL);
    close(peer.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(addresses), cmocka_unit_test(answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
