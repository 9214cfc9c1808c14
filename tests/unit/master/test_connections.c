// The table of connections: admission, eviction and slow connections. The sockets are pairs, and
// the test sets the clock.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "master/http/limits/connections.h"

enum {
    MOST = 128,
    NEWCOMERS = MOST / 4,
    PER_ADDRESS = NEWCOMERS / 4,
    USERS = MOST / 2,
    SECOND_US = 1000000
};

struct caller {
    struct connection *c;
    int own, theirs; // the two ends; `own` is the master's
};

static struct connections *table;
static struct caller callers[4 * MOST];
static int count;
static int64_t now;

static int setup(void **state)
{
    (void)state;
    table = connections_new(&(struct connections_limits){.most = MOST});
    count = 0;
    now = 1000 * (int64_t)SECOND_US;
    return 0;
}

static void hang_up(struct caller *k)
{
    if (k->c)
        connections_remove(table, k->c);
    k->c = NULL;
    close(k->own);
    close(k->theirs);
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < count; i++)
        if (callers[i].c)
            hang_up(&callers[i]);
    connections_free(table);
    return 0;
}

static struct caller *arrive(const char *address)
{
    int ends[2];
    struct caller *k = &callers[count++];
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *k = (struct caller){.own = ends[0], .theirs = ends[1]};
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    if (!is_v4)
        assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    k->c = connections_admit(table, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6, ++now);
    if (k->c)
        connections_begin(table, k->c, k->own);
    return k;
}

// Returns a different address for every number.
static struct caller *arrive_from(int number)
{
    char address[32];
    snprintf(address, sizeof address, "192.0.%d.%d", number / 250, number % 250 + 1);
    return arrive(address);
}

static bool is_cut(const struct caller *k)
{
    struct pollfd p = {.fd = k->theirs, .events = POLLIN};
    char byte;
    return poll(&p, 1, 0) == 1 && recv(k->theirs, &byte, 1, MSG_DONTWAIT) == 0;
}

static void enter(const struct caller *k, enum connection_phase phase)
{
    connections_enter(table, k->c, phase, ++now);
}

static int sign_in(const struct caller *k, bool agent, int64_t user)
{
    return connections_sign_in(table, k->c, agent, user, ++now, NULL);
}

// The http threads remove the connections that were shut down.
static void reap(void)
{
    for (int i = 0; i < count; i++)
        if (callers[i].c && is_cut(&callers[i]))
            hang_up(&callers[i]);
}

static void sweep_after(int seconds)
{
    now += seconds * (int64_t)SECOND_US;
    connections_sweep(table, now);
}

static void test_address_evicts_its_own_connections(void **state)
{
    (void)state;
    struct caller *other = arrive("198.51.100.7"), *mine[PER_ADDRESS];
    for (int i = 0; i < PER_ADDRESS; i++)
        mine[i] = arrive("192.0.2.1");
    enter(mine[0], PHASE_WORK); // a login that is being checked stays
    enter(mine[1], PHASE_HEADERS);
    struct caller *next = arrive("::ffff:192.0.2.1"); // the same address
    assert_non_null(next->c);
    assert_true(is_cut(mine[1]));
    assert_false(is_cut(mine[0]) || is_cut(mine[2]) || is_cut(other));
    enter(mine[2], PHASE_IDLE); // it was answered just now, so it is younger than the others
    assert_non_null(arrive("192.0.2.1")->c);
    assert_true(is_cut(mine[3]));
    assert_false(is_cut(mine[2]) || is_cut(other));
}

// The http thread of these connections is late, not their callers.
static void test_unread_requests_are_spared(void **state)
{
    (void)state;
    struct caller *mine[PER_ADDRESS];
    for (int i = 0; i < PER_ADDRESS; i++) {
        mine[i] = arrive("192.0.2.1");
        if (i != 2)
            assert_int_equal(write(mine[i]->theirs, "GET", 3), 3);
    }
    assert_non_null(arrive("192.0.2.1")->c);
    assert_true(is_cut(mine[2]));
    assert_false(is_cut(mine[0]) || is_cut(mine[1]) || is_cut(mine[3]));
    enter(mine[1], PHASE_HEADERS); // it has been read in part
    assert_non_null(arrive("192.0.2.1")->c);
    assert_true(is_cut(mine[1]));
}

static void test_oldest_of_unread_requests_is_closed(void **state)
{
    (void)state;
    struct caller *mine[PER_ADDRESS];
    for (int i = 0; i < PER_ADDRESS; i++) {
        mine[i] = arrive("192.0.2.1");
        assert_int_equal(write(mine[i]->theirs, "GET", 3), 3);
    }
    assert_non_null(arrive("192.0.2.1")->c);
    assert_int_equal(connections_count(table).evicted, 1);
    assert_int_equal(connections_count(table).newcomers, PER_ADDRESS);
    char byte;
    assert_int_equal(recv(mine[1]->theirs, &byte, 1, MSG_DONTWAIT), -1); // it is open
}

static void test_ipv6_network_counts_as_one_address(void **state)
{
    (void)state;
    struct caller *first = arrive("2001:db8:0:1::1"), *elsewhere = arrive("2001:db8:0:2::1");
    for (int i = 0; i < PER_ADDRESS; i++) {
        char address[64];
        snprintf(address, sizeof address, "2001:db8:0:1::%x", i + 2);
        arrive(address);
    }
    assert_true(is_cut(first));
    assert_false(is_cut(elsewhere));
}

static void test_flood_does_not_evict_authenticated(void **state)
{
    (void)state;
    struct caller *user = arrive_from(0), *agent = arrive_from(1);
    assert_int_equal(sign_in(user, false, 7), 0);
    assert_int_equal(sign_in(agent, true, 0), 0);
    for (int i = 0; i < 2 * MOST; i++) {
        assert_non_null(arrive_from(i + 2)->c);
        reap();
    }
    assert_false(is_cut(user) || is_cut(agent));
    struct connections_count n = connections_count(table);
    assert_int_equal(n.newcomers, NEWCOMERS);
    assert_int_equal(n.users, 1);
    assert_int_equal(n.agents, 1);
    assert_int_equal(n.evicted, 2 * MOST - NEWCOMERS);
}

static void test_users_share_and_each_gets_at_most_half(void **state)
{
    (void)state;
    struct caller *first = arrive_from(0), *other = arrive_from(1), *k = NULL;
    assert_int_equal(sign_in(first, false, 7), 0);
    assert_int_equal(sign_in(other, false, 8), 0);
    for (int i = 1; i < USERS / 2; i++) {
        k = arrive_from(i + 1);
        assert_int_equal(sign_in(k, false, 7), 0);
        assert_int_equal(sign_in(k, false, 7), 0); // the next request on this connection
        enter(k, PHASE_WORK);
    }
    k = arrive_from(300);
    assert_int_equal(sign_in(k, false, 7), 0);
    assert_true(is_cut(first)); // it was the only idle connection
    assert_false(is_cut(other));
    enter(k, PHASE_WORK);
    k = arrive_from(301);
    assert_int_equal(sign_in(k, false, 7), ERR_BUSY);
    assert_int_equal(sign_in(k, false, 8), 0);
    for (int i = 0; i < USERS / 2 - 2; i++) {
        struct caller *more = arrive_from(302 + i);
        assert_int_equal(sign_in(more, false, 9), 0);
        enter(more, PHASE_WORK);
    }
    assert_int_equal(connections_count(table).users, USERS);
    struct caller *last = arrive_from(
        290); // all places of users are taken: the connection that was idle longest is closed
    assert_int_equal(sign_in(last, false, 10), 0);
    assert_true(is_cut(other));
    assert_int_equal(connections_count(table).users, USERS);
    for (int i = 0; i < MOST / 4; i++) // and there is still room for agents
        assert_int_equal(sign_in(arrive_from(400 + i), true, 0), 0);
}

static void test_deadlines(void **state)
{
    (void)state;
    struct caller *idle = arrive_from(1), *drips = arrive_from(2), *works = arrive_from(3),
                  *user = arrive_from(4), *slow_user = arrive_from(5), *taken = arrive_from(6);
    assert_int_equal(
        sign_in(user, false, 7) || sign_in(slow_user, false, 7) || sign_in(taken, false, 8), 0);
    enter(user, PHASE_IDLE);
    enter(works, PHASE_WORK);
    connections_set_patience(table, taken->c, 20);
    enter(taken, PHASE_ANSWER);
    sweep_after(HEADERS_S - 2);
    enter(drips, PHASE_HEADERS); // more bytes do not restart its time
    enter(slow_user, PHASE_HEADERS);
    sweep_after(1);
    assert_false(is_cut(idle) || is_cut(drips));
    sweep_after(1);
    assert_true(is_cut(idle) && is_cut(drips));
    assert_false(is_cut(works) || is_cut(user) || is_cut(slow_user) || is_cut(taken));
    sweep_after(HEADERS_S);
    assert_true(is_cut(slow_user));
    assert_true(is_cut(taken)); // a part of a download must be read within 20 s
    sweep_after(IDLE_S - 2 * HEADERS_S - 1);
    assert_false(is_cut(user));
    sweep_after(2);
    assert_true(is_cut(user));
    assert_false(is_cut(works));
    assert_int_equal(connections_count(table).slow, 5);
}

static void test_bodies(void **state)
{
    (void)state;
    struct caller *silent = arrive_from(1), *drips = arrive_from(2), *steady = arrive_from(3);
    struct caller *all[] = {silent, drips, steady};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sign_in(all[i], false, 7), 0);
        enter(all[i], PHASE_BODY);
    }
    for (int s = 0; s < 300; s++) {
        if (drips->c)
            connections_received(table, drips->c, 1, now);
        connections_received(table, steady->c, BODY_RATE, now);
        sweep_after(1);
        assert_int_equal(!silent->c, s + 1 > BODY_SILENCE_S);
        assert_int_equal(!drips->c, s + 1 > BODY_GRACE_S);
        reap();
    }
    assert_non_null(steady->c);
}

// An unauthenticated address cannot fill the queue of the workers.
static void test_unauthenticated_work_is_bounded(void **state)
{
    (void)state;
    connections_free(table);
    table = connections_new(&(struct connections_limits){.most = MOST, .per_address = NEWCOMERS});
    for (int i = 0; i < WORKING_NEWCOMERS; i++) {
        struct caller *k = arrive("192.0.2.1");
        assert_int_equal(connections_may_work(table, k->c, NULL), 0);
        enter(k, PHASE_WORK);
    }
    struct caller *next = arrive("192.0.2.1"), *other = arrive("192.0.2.2");
    assert_int_equal(connections_may_work(table, next->c, NULL), ERR_BUSY);
    assert_int_equal(connections_may_work(table, other->c, NULL), 0);
    assert_int_equal(sign_in(next, false, 7), 0);
    assert_int_equal(connections_may_work(table, next->c, NULL), 0);
}

static void test_no_file_descriptors_left(void **state)
{
    (void)state;
    assert_false(connections_make_room(table));
    struct caller *agent = arrive_from(1);
    assert_int_equal(sign_in(agent, true, 0), 0);
    assert_false(connections_make_room(table));
    struct caller *user = arrive_from(2), *first = arrive_from(3), *second = arrive_from(4);
    assert_int_equal(sign_in(user, false, 7), 0);
    enter(user, PHASE_IDLE);
    assert_true(connections_make_room(table));
    assert_true(is_cut(first));
    assert_true(connections_make_room(table) && connections_make_room(table));
    assert_true(is_cut(second) && is_cut(user));
    assert_false(is_cut(agent));
}

// A connection that is being closed still holds its file descriptor and so counts.
static void test_closing_connections_are_bounded(void **state)
{
    (void)state;
    int in = 0;
    for (int i = 0; i < 2 * MOST; i++) {
        struct caller *k = arrive_from(i);
        in += k->c != NULL;
        if (!k->c)
            hang_up(k);
    }
    assert_int_equal(in, MOST + MOST / 8);
    reap();
    assert_non_null(arrive_from(2 * MOST)->c);
}

// A connection that failed to start has closed its socket, and the next connection gets the same
// number.
static void test_failed_connection_shuts_nothing(void **state)
{
    (void)state;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr *peer = (struct sockaddr *)&v4;
    struct connection *failed = connections_admit(table, peer, ++now);
    const struct caller *other = arrive("10.0.0.1");
    assert_true(connections_make_room(table)); // the oldest newcomer is the failed one
    assert_false(is_cut(other));
    connections_remove(table, failed);
    struct connection *late = connections_admit(table, peer, ++now);
    assert_true(connections_make_room(table));
    assert_true(is_cut(other));
    assert_true(connections_make_room(table));
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const struct caller began = {.theirs = ends[1]};
    assert_false(is_cut(&began));
    connections_begin(table, late, ends[0]); // it was closed meanwhile
    assert_true(is_cut(&began));
    connections_remove(table, late);
    close(ends[0]);
    close(ends[1]);
}

// A connection that reads nothing of its answer is cut; one that reads a part of it stays.
static void test_stalled_replies_are_cut(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    struct caller *k = &callers[count++], *unread = arrive("192.0.2.2");
    k->theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(k->theirs, (struct sockaddr *)&at, len), 0);
    k->own = accept(listener, NULL, NULL);
    k->c = connections_admit(table, (struct sockaddr *)&at, ++now);
    connections_begin(table, k->c, k->own);
    close(listener);
    assert_int_equal(sign_in(k, false, 1), 0);
    assert_int_equal(sign_in(unread, false, 2), 0);
    enter(k, PHASE_REPLY);
    enter(unread, PHASE_REPLY);
    for (int i = 0; i < BODY_GRACE_S + 1; i++) {
        if (i < BODY_GRACE_S)
            assert_int_equal(send(k->own, "more", 4, 0), 4);
        usleep(2000); // time for the acknowledgement
        sweep_after(1);
        assert_int_equal(is_cut(unread), i + 1 >= BODY_SILENCE_S);
        if (i + 1 < BODY_GRACE_S)
            assert_int_equal(connections_count(table).users, 1 + (i + 1 < BODY_SILENCE_S));
    }
    assert_int_equal(connections_count(table).users, 0); // 4 bytes a second are too few
}

int main(void)
{
    struct rlimit files = {2048, 2048};
    setrlimit(RLIMIT_NOFILE, &files);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_address_evicts_its_own_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unread_requests_are_spared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_oldest_of_unread_requests_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ipv6_network_counts_as_one_address, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flood_does_not_evict_authenticated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_users_share_and_each_gets_at_most_half, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stalled_replies_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unauthenticated_work_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_file_descriptors_left, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_connection_shuts_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closing_connections_are_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
