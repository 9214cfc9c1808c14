#include "tests/unit/trainer/wire_tap.h"

#include <arpa/inet.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "trainer/comm/net_proof.h"

enum { CONNECTIONS = 8 };

struct tapped {
    int caller, callee;
    size_t to_callee; // bytes so far
};

struct tap *tap_new(enum tap_manner manner)
{
    struct tap *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(t != MAP_FAILED);
    t->manner = manner;
    return t;
}

int connect_to_port(int port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static int listen_somewhere(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 8) == 0);
    must(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void send_all(int fd, const unsigned char *data, size_t bytes)
{
    for (ssize_t n; bytes > 0; data += n, bytes -= (size_t)n)
        if ((n = send(fd, data, bytes, MSG_NOSIGNAL)) <= 0)
            return; // the receiver has ended, which the other side learns from the next read
}

static void keep(struct tap *t, const unsigned char *data, size_t bytes)
{
    size_t room = TAP_KEPT - t->kept, n = bytes < room ? bytes : room;
    memcpy(t->bytes + t->kept, data, n);
    t->kept += n;
}

// Forwards what one side has sent. Returns false at the end, or with MSG_DONTWAIT if there is
// nothing now.
static bool forward(struct tap *t, struct tapped *c, bool first, int from, int flags)
{
    unsigned char data[65536];
    bool inward = from == c->caller;
    ssize_t n = recv(from, data, sizeof data, flags);
    if (n <= 0)
        return false;
    keep(t, data, (size_t)n);
    size_t at = t->after - c->to_callee;
    if (inward && t->manner == TAP_CHANGES && first && c->to_callee <= t->after && at < (size_t)n)
        data[at] ^= 1;
    if (inward)
        c->to_callee += (size_t)n;
    send_all(inward ? c->callee : c->caller, data, (size_t)n);
    return true;
}

static void receive_all(int fd, void *into, size_t bytes)
{
    must(recv(fd, into, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

// The caller's first greeting ends at the tap: the callee gets neither its proof nor, before that,
// another connection. Then the recorded messages go to the callee in a connection of the tap's.
static void replay(int caller, int port)
{
    struct net_hello hello;
    struct net_answer answer;
    unsigned char proof[NET_KEY];
    int first = connect_to_port(port), second = connect_to_port(port);
    receive_all(caller, &hello, sizeof hello);
    send_all(first, (unsigned char *)&hello, sizeof hello);
    receive_all(first, &answer, sizeof answer);
    send_all(caller, (unsigned char *)&answer, sizeof answer);
    receive_all(caller, proof, sizeof proof);
    close(first);
    send_all(second, (unsigned char *)&hello, sizeof hello);
    receive_all(second, &answer, sizeof answer);
    send_all(second, proof, sizeof proof);
}

// A rank that ends tells the other one the reason first, on another connection.
static void forward_rest(struct tap *t, struct tapped *connections, int count)
{
    for (int i = 0; i < count; i++) {
        while (forward(t, &connections[i], i == 0, connections[i].caller, MSG_DONTWAIT))
            ;
        while (forward(t, &connections[i], i == 0, connections[i].callee, MSG_DONTWAIT))
            ;
    }
}

static void run_tap(struct tap *t, int listener, int port)
{
    struct tapped connections[CONNECTIONS];
    int count = 0;
    for (;;) {
        struct pollfd polls[2 * CONNECTIONS + 1];
        for (int i = 0; i < count; i++) {
            polls[2 * i] = (struct pollfd){.fd = connections[i].caller, .events = POLLIN};
            polls[2 * i + 1] = (struct pollfd){.fd = connections[i].callee, .events = POLLIN};
        }
        polls[2 * count] = (struct pollfd){.fd = listener, .events = POLLIN};
        poll(polls, 2 * (nfds_t)count + 1, -1);
        for (int i = 0; i < 2 * count; i++)
            if (polls[i].revents && !forward(t, &connections[i / 2], i / 2 == 0, polls[i].fd, 0)) {
                forward_rest(t, connections, count);
                return; // the end of the process closes all connections
            }
        if (!polls[2 * count].revents)
            continue;
        int caller = accept(listener, NULL, NULL);
        if (t->manner == TAP_REPLAYS) {
            t->manner = TAP_LISTENS;
            replay(caller, port);
            continue;
        }
        must(caller >= 0 && count < CONNECTIONS);
        connections[count++] = (struct tapped){caller, connect_to_port(port), 0};
    }
}

int tap_start(struct tap *t, int port)
{
    int at = 0, listener = listen_somewhere(&at);
    pid_t parent = getpid();
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(listener, 3); // the rank's own sockets would stay open here
        close_range(4, UINT_MAX, 0);
        if (getppid() == parent)
            run_tap(t, 3, port);
        _exit(0);
    }
    close(listener);
    return at;
}
