// Webhooks and proxies: a webhook goes to its own address whatever the environment says.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "master/notify/webhook_delivery.h"

static int listen_here(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_false(bind(fd, (struct sockaddr *)&at, len) || listen(fd, 4));
    assert_false(getsockname(fd, (struct sockaddr *)&at, &len));
    *port = ntohs(at.sin_port);
    return fd;
}

struct receiver {
    int fd;
    char text[2048];
};

// Takes one call and thanks for it.
static void *receive(void *arg)
{
    static const char thanks[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    struct receiver *r = arg;
    struct pollfd ready = {.fd = r->fd, .events = POLLIN};
    if (poll(&ready, 1, 20000) == 1) {
        int fd = accept(r->fd, NULL, NULL);
        ssize_t n = read(fd, r->text, sizeof r->text - 1);
        r->text[n > 0 ? n : 0] = '\0';
        n = write(fd, thanks, sizeof thanks - 1);
        (void)n;
        close(fd);
    }
    return NULL;
}

static void test_no_proxy_is_asked(void **state)
{
    (void)state;
    char url[64], proxy[64];
    int port, proxy_port, proxy_fd = listen_here(&proxy_port);
    struct receiver r = {.fd = listen_here(&port)};
    struct pollfd asked = {.fd = proxy_fd, .events = POLLIN};
    struct delivery *d = NULL;
    struct db *db = NULL;
    struct error e = {0};
    pthread_t thread;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/hook", port);
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", proxy_port);
    setenv("http_proxy", proxy, 1);
    setenv("ALL_PROXY", proxy, 1);
    assert_false(db_open(".", &db, &e));
    assert_false(delivery_start(db, "key", &d, &e));
    assert_false(pthread_create(&thread, NULL, receive, &r));
    if (delivery_try(d, url, true, "{}", &e))
        fail_msg("%s", e.text);
    pthread_join(thread, NULL);
    assert_memory_equal(r.text, "POST /hook ", 11);
    assert_int_equal(poll(&asked, 1, 0), 0);
    delivery_stop(d);
    db_close(db);
    close(r.fd);
    close(proxy_fd);
}

static void test_proxies_are_forgotten(void **state)
{
    (void)state;
    static const char *const gone[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                       "All_Proxy",  "no_proxy",   "NO_PROXY"};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        setenv(gone[i], "http://192.0.2.1:3128", 1);
    setenv("http_proxy_port", "1", 1);
    setenv("FTP_PROXY", "kept", 1);
    delivery_forget_proxies();
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        assert_null(getenv(gone[i]));
    assert_string_equal(getenv("http_proxy_port"), "1");
    assert_string_equal(getenv("FTP_PROXY"), "kept");
}

// unsetenv() neither removes such an entry nor fails, so that the loop did not end.
static void test_an_entry_without_a_value_is_passed_over(void **state)
{
    (void)state;
    char bare[] = "http_proxy", set[] = "HTTPS_PROXY=http://192.0.2.1:3128";
    char *entries[] = {bare, set, NULL}, **own = environ;
    alarm(20);
    environ = entries;
    delivery_forget_proxies();
    environ = own;
    alarm(0);
    assert_ptr_equal(entries[0], bare);
    assert_null(entries[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_proxy_is_asked),
        cmocka_unit_test(test_proxies_are_forgotten),
        cmocka_unit_test(test_an_entry_without_a_value_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
