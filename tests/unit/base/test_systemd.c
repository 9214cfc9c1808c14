// Messages to systemd: sockets by path and by abstract name, the watchdog, the kept socket, the
// environment.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/systemd.h"

// A datagram socket as systemd has it; name[0] == '@': abstract.
static int listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(address.sun_path, name, len);
    if (*name == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, size), 0);
    return fd;
}

static void set_watchdog(const char *us, long pid)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", pid);
    setenv("WATCHDOG_USEC", us, 1);
    setenv("WATCHDOG_PID", text, 1);
}

static void assert_received(int fd, const char *expected)
{
    char text[256] = "";
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    assert_int_equal(n, expected ? (ssize_t)strlen(expected) : -1);
    assert_string_equal(text, expected ? expected : "");
}

static void check_socket(const char *name)
{
    int fd = listen_at(name);
    setenv("NOTIFY_SOCKET", name, 1);
    set_watchdog("3000000", getpid());
    systemd_open();
    assert_int_equal(systemd_watchdog_us(), 1500000);
    systemd_notify("READY=1\nSTATUS=listening");
    assert_received(fd, "READY=1\nSTATUS=listening");
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_null(getenv("WATCHDOG_USEC"));
    assert_null(getenv("WATCHDOG_PID"));
    close(fd);
}

static void path_and_abstract_name_work(void **state)
{
    (void)state;
    char path[108] = "", folder[64];
    snprintf(path, sizeof path, "%.60s/notify", getcwd(folder, sizeof folder));
    check_socket(path);
    snprintf(path, sizeof path, "@muster-test-%ld", (long)getpid());
    check_socket(path);
    // The longest name that an address can hold.
    memset(path + strlen(path), 'x', sizeof path - 1 - strlen(path));
    path[107] = '\0';
    check_socket(path);
}

static void without_systemd_nothing_is_sent(void **state)
{
    (void)state;
    set_watchdog("3000000", getpid());
    systemd_open();
    systemd_notify("READY=1");
    assert_int_equal(systemd_watchdog_us(), 0);
    const char *const wrong[] = {"", "@", "relative/name", "vsock:2:1", "/nowhere/notify", NULL};
    for (int i = 0; wrong[i]; i++) {
        setenv("NOTIFY_SOCKET", wrong[i], 1);
        systemd_open();
        systemd_notify("READY=1");
    }
    char long_name[200] = "/";
    memset(long_name + 1, 'x', sizeof long_name - 2);
    setenv("NOTIFY_SOCKET", long_name, 1);
    systemd_open();
    systemd_notify("READY=1");
    assert_int_equal(systemd_watchdog_us(), 0);
}

static void watchdog_of_others_is_ignored(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "@muster-watchdog-%ld", (long)getpid());
    int fd = listen_at(name);
    setenv("NOTIFY_SOCKET", name, 1);
    set_watchdog("3000000", getpid() + 1L);
    systemd_open();
    assert_int_equal(systemd_watchdog_us(), 0);
    const char *const wrong[] = {"", "0", "1", "-5", "soon", NULL};
    for (int i = 0; wrong[i]; i++) {
        setenv("NOTIFY_SOCKET", name, 1);
        set_watchdog(wrong[i], getpid());
        systemd_open();
        assert_int_equal(systemd_watchdog_us(), 0);
    }
    setenv("NOTIFY_SOCKET", name, 1);
    setenv("WATCHDOG_USEC", "20", 1); // without WATCHDOG_PID it is for every process
    systemd_open();
    assert_int_equal(systemd_watchdog_us(), 10);
    close(fd);
}

// The descriptor that comes with a message; -1: none.
static int receive_socket(int from, const char *expected)
{
    char text[256] = "", control[CMSG_SPACE(sizeof(int))];
    struct iovec room = {.iov_base = text, .iov_len = sizeof text - 1};
    struct msghdr message = {.msg_iov = &room,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    assert_true(recvmsg(from, &message, 0) > 0);
    assert_string_equal(text, expected);
    int fd = -1;
    struct cmsghdr *sent = CMSG_FIRSTHDR(&message);
    if (sent)
        memcpy(&fd, CMSG_DATA(sent), sizeof fd);
    return fd;
}

static void a_socket_is_kept(void **state)
{
    (void)state;
    char name[64], byte;
    snprintf(name, sizeof name, "@muster-kept-%ld", (long)getpid());
    int fd = listen_at(name), ends[2];
    setenv("NOTIFY_SOCKET", name, 1);
    systemd_open();
    assert_int_equal(pipe(ends), 0);
    systemd_keep_socket(ends[1]);
    assert_received(fd, "FDSTOREREMOVE=1\nFDNAME=listener");
    int kept = receive_socket(fd, "FDSTORE=1\nFDNAME=listener");
    assert_int_equal(write(kept, "x", 1), 1);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(kept);
    close(ends[0]);
    close(ends[1]);
    close(fd);
    systemd_open(); // without systemd
    systemd_keep_socket(0);
}

static void a_kept_socket_is_taken_once(void **state)
{
    (void)state;
    static const struct {
        const char *count, *names;
        long other; // added to the process id
        bool taken;
    } cases[] = {
        {"1", "listener", 0, true},
        {"1", "listener", 1, false}, // that of the parent
        {"1", "muster-master.socket", 0, false},
        {"1", NULL, 0, false},
        {"2", "listener:muster-master.socket", 0, false},
        {"0", "", 0, false},
        {NULL, "listener", 0, false},
    };
    enum { PASSED = 3 };
    int spare = dup(0); // the first descriptor that systemd passes is open
    while (spare >= 0 && spare < PASSED)
        spare = dup(0);
    systemd_open();
    assert_int_equal(systemd_take_socket(), -1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        snprintf(text, sizeof text, "%ld", (long)getpid() + cases[i].other);
        setenv("LISTEN_PID", text, 1);
        if (cases[i].count)
            setenv("LISTEN_FDS", cases[i].count, 1);
        if (cases[i].names)
            setenv("LISTEN_FDNAMES", cases[i].names, 1);
        assert_int_equal(fcntl(PASSED, F_SETFD, 0), 0);
        systemd_open();
        assert_int_equal(systemd_take_socket(), cases[i].taken ? PASSED : -1);
        assert_int_equal(systemd_take_socket(), -1);
        assert_int_equal(fcntl(PASSED, F_GETFD), cases[i].taken ? FD_CLOEXEC : 0);
        assert_null(getenv("LISTEN_PID"));
        assert_null(getenv("LISTEN_FDS"));
        assert_null(getenv("LISTEN_FDNAMES"));
    }
}

static void full_socket_does_not_block(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "@muster-full-%ld", (long)getpid());
    int fd = listen_at(name);
    setenv("NOTIFY_SOCKET", name, 1);
    systemd_open();
    for (int i = 0; i < 2000; i++) // more than net.unix.max_dgram_qlen
        systemd_notify("WATCHDOG=1");
    assert_received(fd, "WATCHDOG=1");
    close(fd);
    systemd_notify("WATCHDOG=1"); // to a socket that is gone
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_and_abstract_name_work),
        cmocka_unit_test(without_systemd_nothing_is_sent),
        cmocka_unit_test(watchdog_of_others_is_ignored),
        cmocka_unit_test(a_socket_is_kept),
        cmocka_unit_test(a_kept_socket_is_taken_once),
        cmocka_unit_test(full_socket_does_not_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
