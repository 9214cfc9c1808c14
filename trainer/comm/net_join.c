// Connects the machines of a world.
//
// Consecutive ranks that can share memory form a machine. Every leader listens on a port of its own
// and publishes address, port and a random key through the rendezvous. A leader connects to the
// leaders before it, and both prove that they know these keys (net_proof.h). Other connections are
// closed. When all leaders are connected, the ports close.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "trainer/comm/net.h"
#include "trainer/comm/net_proof.h"
#include "trainer/comm/net_tls.h"

#define SECOND INT64_C(1000000)

enum {
    MEETING_S = 30,
    GUEST_S = 5,        // seconds in which a new connection (a guest) must identify itself
    STRANGERS_MAX = 64, // guests beside one of each machine
    PORT_TEXT = 8,
};

struct net_guest {
    int fd;
    int64_t since;
    size_t got; // bytes of `hello`, and after the answer of `proof`
    bool answered;
    struct net_hello hello;
    uint8_t proof[NET_KEY];
    struct net_greeting greeting; // complete when `answered`
};

struct net_meeting {
    struct net *net;
    const struct comm_config *config;
    json_t *places; // by rank; for leaders: {"address", "port", "key"}
    int listener;
    int64_t deadline;
    uint8_t key[NET_KEY];     // of this leader
    int missing;              // expected connections that have not arrived
    int strangers;            // connections that were closed because they proved nothing
    struct net_guest *guests; // [guest_max]
    struct pollfd *polls;     // [guest_max + 1]
    int guest_count, guest_max;
};

// --- machines ------------------------------------------------------------------------------------

static void group_machines(struct net *n, const json_t *peers)
{
    n->machines = xcalloc((size_t)n->base.world, sizeof *n->machines);
    for (int rank = 0; rank < n->base.world; rank++) {
        if (rank == 0 || !comm_same_machine(peers, rank - 1, rank)) {
            const json_t *first = json_array_get(peers, (size_t)rank);
            n->machines[n->machine_count++] =
                (struct net_machine){.first = rank,
                                     .data = {.fd = -1},
                                     .control = {.fd = -1},
                                     .host = xstrdup(jget_string(first, "host", "?"))};
        }
        n->machines[n->machine_count - 1].count++;
        if (rank == n->base.rank)
            n->here = n->machine_count - 1;
    }
    size_t pieces = (size_t)n->machines[n->here].count + 2; // a header and a buffer for each rank
    for (int i = 0; i < n->machine_count; i++) {
        struct net_machine *m = &n->machines[i];
        m->queue_max = (int)pieces;
        m->out = xcalloc(pieces, sizeof *m->out);
        m->in = xcalloc(pieces, sizeof *m->in);
    }
    n->leader = n->base.rank == n->machines[n->here].first;
    n->scratch = xcalloc(1, NET_SCRATCH);
    n->from = xcalloc((size_t)n->machine_count, sizeof *n->from);
    n->polls = xcalloc(2 * (size_t)n->machine_count + 1, sizeof *n->polls);
}

static json_t *local_entries(const struct net *n, const json_t *all)
{
    const struct net_machine *m = &n->machines[n->here];
    json_t *here = json_array();
    for (int rank = m->first; rank < m->first + m->count; rank++)
        json_array_append(here, json_array_get(all, (size_t)rank));
    return here;
}

// A rendezvous of all ranks that returns only the values of this machine's ranks.
static int gather_local(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    const struct net_meeting *meeting = ctx;
    json_t *world = NULL;
    int err = comm_rendezvous_gather(meeting->config, mine, &world, e);
    if (!err)
        *all = local_entries(meeting->net, world);
    json_decref(world);
    return err;
}

static int open_inner(struct net_meeting *meeting, const json_t *peers, struct error *e)
{
    struct net *n = meeting->net;
    const struct net_machine *m = &n->machines[n->here];
    struct comm_config config = *meeting->config;
    struct comm *inner = NULL;
    json_t *here = local_entries(n, peers);
    config.rank -= m->first;
    config.world = m->count;
    config.rendezvous = (struct rendezvous){.all_gather = gather_local, .ctx = meeting};
    int err = comm_shm_backend.open(&config, here, &inner, e);
    json_decref(here);
    if (err)
        return err;
    n->inner = (struct shm *)inner;
    shm_share_arena(n->inner);
    n->spins = n->inner->spins;
    n->base.arena = inner->arena;
    n->base.arena_bytes = inner->arena_bytes;
    return 0;
}

// --- sockets -------------------------------------------------------------------------------------

static void *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)address)->sin6_port
                                          : (void *)&((struct sockaddr_in *)address)->sin_port;
}

static int address_resolve(const char *host, const char *port, struct addrinfo **found,
                           struct error *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int rc = getaddrinfo(host, port, &hints, found);
    if (rc == 0)
        return 0;
    return error_set(
        e, ERR_NOT_FOUND,
        "\"%s\" is not a usable address: %s; set muster-agent --address to the address "
        "at which other machines reach this one",
        host, gai_strerror(rc));
}

// Binds to the address, or to all addresses of its family if this machine does not have that
// address itself (because it is behind NAT).
static int bind_near(int fd, const struct addrinfo *to)
{
    const struct sockaddr_in any4 = {.sin_family = AF_INET};
    const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    if (bind(fd, to->ai_addr, to->ai_addrlen) == 0)
        return 0;
    if (errno != EADDRNOTAVAIL)
        return -1;
    return to->ai_family == AF_INET6 ? bind(fd, (const void *)&any6, sizeof any6)
                                     : bind(fd, (const void *)&any4, sizeof any4);
}

static int listen_at(struct net_meeting *meeting, const char *host, int *port, struct error *e)
{
    struct addrinfo *found = NULL;
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    int err = address_resolve(host, "0", &found, e);
    if (err)
        return err;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    meeting->listener = fd;
    if (fd < 0 || bind_near(fd, found) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&address, &len))
        err = error_set_errno(e, ERR_IO, errno,
                              "cannot listen on %s for the ranks of other machines", host);
    else
        *port = ntohs(*(in_port_t *)port_of(&address));
    freeaddrinfo(found);
    return err;
}

// Keepalive on the control connection detects a silent peer; see net_wire.c.
static void set_options(int fd, enum net_channel channel)
{
    const int one = 1, every = 1, silence_ms = NET_SILENCE_S * 1000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (channel == NET_DATA)
        return;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
}

static struct net_link *link_of(struct net_machine *m, enum net_channel channel)
{
    return channel == NET_DATA ? &m->data : &m->control;
}

// Takes over the socket, also after an error. `g` is the complete greeting.
static int set_connection(struct net *n, int machine, const struct net_greeting *g, int fd,
                          struct error *e)
{
    struct net_link *link = link_of(&n->machines[machine], (enum net_channel)g->channel);
    uint8_t key[NET_KEY];
    link->fd = fd;
    set_options(fd, (enum net_channel)g->channel);
    if (!g->encrypted)
        return 0;
    net_prove(g, NET_KEY_OF_ENCRYPTION, key);
    return net_tls_new(fd, machine > n->here, key, &link->tls, e);
}

static int remaining_ms(const struct net_meeting *meeting)
{
    int64_t left = meeting->deadline - clock_mono_us();
    return left > 0 ? (int)(left / 1000 + 1) : 0;
}

// --- outgoing connections ------------------------------------------------------------------------

static int await_socket(const struct net_meeting *meeting, int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    if (poll(&p, 1, remaining_ms(meeting)) > 0)
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

static int connect_once(const struct net_meeting *meeting, const struct addrinfo *to)
{
    int no = 0;
    socklen_t len = sizeof no;
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    bool there = connect(fd, to->ai_addr, to->ai_addrlen) == 0;
    if (!there && errno == EINPROGRESS && await_socket(meeting, fd, POLLOUT) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &no, &len) == 0) {
        there = no == 0;
        errno = no;
    }
    if (there)
        return fd;
    no = errno;
    close(fd);
    errno = no;
    return -1;
}

// A link that has just come back has no route for some moments. Retrying for up to NET_SILENCE_S,
// the time that a silent machine gets, saves a restart.
static int connect_to(const struct net_meeting *meeting, const struct addrinfo *to)
{
    int64_t patience = clock_mono_us() + NET_SILENCE_S * SECOND;
    int fd;
    while ((fd = connect_once(meeting, to)) < 0 &&
           (errno == EHOSTUNREACH || errno == ENETUNREACH) && clock_mono_us() < patience &&
           remaining_ms(meeting) > 0)
        clock_sleep_us(SECOND / 10);
    return fd;
}

static bool send_whole(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes; // small: the buffer has room
}

static int receive_whole(const struct net_meeting *meeting, int fd, void *into, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        if (await_socket(meeting, fd, POLLIN))
            return -1;
        ssize_t n = recv(fd, (char *)into + got, bytes - got, 0);
        if (n == 0)
            errno = ECONNRESET;
        if (n <= 0)
            return -1;
        got += (size_t)n;
    }
    return 0;
}

// Fills in everything but the other side's nonce. Returns -1 if the other leader has published no
// key.
static int greeting_begin(const struct net_meeting *meeting, int other, enum net_channel channel,
                          struct net_greeting *g)
{
    const struct net *n = meeting->net;
    bool calling = other < n->here;
    const json_t *place = json_array_get(meeting->places, (size_t)n->machines[other].first);
    *g = (struct net_greeting){.caller = (uint32_t)(calling ? n->here : other),
                               .callee = (uint32_t)(calling ? other : n->here),
                               .channel = channel,
                               .encrypted = meeting->config->encrypt,
                               .allocation = meeting->config->allocation};
    memcpy(calling ? g->caller_key : g->callee_key, meeting->key, NET_KEY);
    rng_secret(calling ? g->caller_nonce : g->callee_nonce, NET_KEY);
    return hex_decode(jget_string(place, "key", ""), calling ? g->callee_key : g->caller_key,
                      NET_KEY);
}

// Proves to the callee who calls, after the callee has proved who answers. Returns -1 with errno;
// EACCES: the callee does not know the keys of this rendezvous.
static int greet_callee(const struct net_meeting *meeting, int fd, struct net_greeting *g)
{
    struct net_hello hello;
    struct net_answer answer;
    uint8_t proof[NET_KEY];
    net_hello_make(&hello, g);
    if (!send_whole(fd, &hello, sizeof hello) || receive_whole(meeting, fd, &answer, sizeof answer))
        return -1;
    memcpy(g->callee_nonce, answer.nonce, NET_KEY);
    errno = EACCES;
    if (!net_proof_is_right(g, NET_PROOF_OF_CALLEE, answer.proof))
        return -1;
    net_prove(g, NET_PROOF_OF_CALLER, proof);
    return send_whole(fd, proof, NET_KEY) ? 0 : -1;
}

static int report_unreachable(const struct net_meeting *meeting, int machine, const char *host,
                              const char *port, int no, struct error *e)
{
    const struct net *n = meeting->net;
    const struct net_machine *m = &n->machines[machine];
    if (no == EACCES)
        return error_set(e, ERR_PEER,
                         "the program at %s port %s does not know the keys of this training, so "
                         "it is not rank %d on \"%s\"; another machine may have this address "
                         "(muster-agent --address)",
                         host, port, m->first, m->host);
    return error_set_errno(e, ERR_PEER, no,
                           "rank %d on \"%s\" cannot be reached at %s port %s from \"%s\"; the "
                           "agents' machines must reach each other (muster-agent --address)",
                           m->first, m->host, host, port, n->machines[n->here].host);
}

static int call_leader(struct net_meeting *meeting, int machine, enum net_channel channel,
                       struct error *e)
{
    struct net *n = meeting->net;
    const struct net_machine *m = &n->machines[machine];
    const json_t *place = json_array_get(meeting->places, (size_t)m->first);
    const char *host = jget_string(place, "address", "");
    struct net_greeting greeting;
    char port[PORT_TEXT];
    struct addrinfo *found = NULL;
    snprintf(port, sizeof port, "%d", (int)jget_int(place, "port", 0));
    if (greeting_begin(meeting, machine, channel, &greeting))
        return error_set(e, ERR_PEER, "rank %d published no address", m->first);
    int err = address_resolve(host, port, &found, e);
    if (err)
        return err;
    int fd = connect_to(meeting, found);
    if (fd < 0 || greet_callee(meeting, fd, &greeting)) {
        err = report_unreachable(meeting, machine, host, port, errno, e);
        if (fd >= 0)
            close(fd);
    } else {
        err = set_connection(n, machine, &greeting, fd, e);
    }
    freeaddrinfo(found);
    return err;
}

// --- incoming connections ------------------------------------------------------------------------

static void guest_remove(struct net_meeting *meeting, int i)
{
    if (meeting->guests[i].fd >= 0)
        close(meeting->guests[i].fd);
    meeting->guest_count--; // the order stays: the first one has been here for the longest time
    memmove(meeting->guests + i, meeting->guests + i + 1,
            (size_t)(meeting->guest_count - i) * sizeof *meeting->guests);
}

static void guest_accept(struct net_meeting *meeting)
{
    int fd = accept4(meeting->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (meeting->guest_count == meeting->guest_max)
        guest_remove(meeting, 0);
    meeting->guests[meeting->guest_count++] =
        (struct net_guest){.fd = fd, .since = clock_mono_us()};
}

static bool is_expected(const struct net_meeting *meeting, const struct net_hello *h)
{
    const struct net *n = meeting->net;
    return net_hello_is_known(h) && h->channel < NET_CHANNELS && h->machine > (uint32_t)n->here &&
           h->machine < (uint32_t)n->machine_count &&
           link_of(&n->machines[h->machine], (enum net_channel)h->channel)->fd < 0;
}

// Reads into the first `bytes` of what the guest sends next. Returns 1 when they are there, 0 if
// more must come, -1 if the guest is gone.
static int guest_receive(struct net_guest *g, void *into, size_t bytes)
{
    ssize_t n = recv(g->fd, (char *)into + g->got, bytes - g->got, 0);
    if (n <= 0)
        return n < 0 && errno == EAGAIN ? 0 : -1;
    g->got += (size_t)n;
    if (g->got < bytes)
        return 0;
    g->got = 0;
    return 1;
}

static bool guest_answer(struct net_meeting *meeting, struct net_guest *g)
{
    struct net_answer answer;
    if (!is_expected(meeting, &g->hello) ||
        greeting_begin(meeting, (int)g->hello.machine, (enum net_channel)g->hello.channel,
                       &g->greeting))
        return false;
    memcpy(g->greeting.caller_nonce, g->hello.nonce, NET_KEY);
    memcpy(answer.nonce, g->greeting.callee_nonce, NET_KEY);
    net_prove(&g->greeting, NET_PROOF_OF_CALLEE, answer.proof);
    g->answered = true;
    return send_whole(g->fd, &answer, sizeof answer);
}

// Whether the guest has proved that it is an expected caller.
static bool guest_is_right(const struct net_meeting *meeting, const struct net_guest *g)
{
    // Another connection may have taken the place since the hello.
    return net_proof_is_right(&g->greeting, NET_PROOF_OF_CALLER, g->proof) &&
           is_expected(meeting, &g->hello);
}

static int guest_admit(struct net_meeting *meeting, struct net_guest *g, struct error *e)
{
    int fd = g->fd;
    g->fd = -1;
    meeting->missing--;
    return set_connection(meeting->net, (int)g->hello.machine, &g->greeting, fd, e);
}

// Reads from a new connection. *done: whether to remove it from the guests, because it is a
// stranger's or because it is now connected.
static int guest_read(struct net_meeting *meeting, struct net_guest *g, bool *done, struct error *e)
{
    int rc = g->answered ? guest_receive(g, g->proof, sizeof g->proof)
                         : guest_receive(g, &g->hello, sizeof g->hello);
    *done = false;
    if (rc == 0)
        return 0;
    bool proved = rc > 0 && g->answered && guest_is_right(meeting, g);
    bool greeted = rc > 0 && !g->answered && guest_answer(meeting, g);
    *done = !greeted;
    meeting->strangers += !proved && !greeted;
    return proved ? guest_admit(meeting, g, e) : 0;
}

static int report_missing(const struct net_meeting *meeting, struct error *e)
{
    const struct net *n = meeting->net;
    int i = n->here + 1;
    while (n->machines[i].data.fd >= 0 && n->machines[i].control.fd >= 0)
        i++;
    char strangers[96] = "";
    if (meeting->strangers)
        snprintf(strangers, sizeof strangers,
                 "; callers that did not prove that they know its keys: %d", meeting->strangers);
    return error_set(e, ERR_PEER,
                     "rank %d on \"%s\" has not connected to rank %d on \"%s\" in time; the "
                     "agents' machines must reach each other (muster-agent --address)%s",
                     n->machines[i].first, n->machines[i].host, n->base.rank,
                     n->machines[n->here].host, strangers);
}

static int await_calls(struct net_meeting *meeting, struct error *e)
{
    struct pollfd *polls = meeting->polls;
    while (meeting->missing > 0) {
        int count = meeting->guest_count;
        for (int i = 0; i < count; i++)
            polls[i] = (struct pollfd){.fd = meeting->guests[i].fd, .events = POLLIN};
        polls[count] = (struct pollfd){.fd = meeting->listener, .events = POLLIN};
        int patience = remaining_ms(meeting);
        if (patience == 0)
            return report_missing(meeting, e);
        poll(polls, (nfds_t)count + 1, patience < 1000 ? patience : 1000);
        for (int i = count - 1; i >= 0; i--) { // removal moves the later ones
            struct net_guest *g = &meeting->guests[i];
            bool late = clock_mono_us() - g->since > GUEST_S * SECOND, done = late;
            meeting->strangers += late;
            int err = !late && polls[i].revents ? guest_read(meeting, g, &done, e) : 0;
            if (done)
                guest_remove(meeting, i);
            if (err)
                return err;
        }
        if (polls[count].revents)
            guest_accept(meeting);
    }
    return 0;
}

// --- encryption ----------------------------------------------------------------------------------

static int report_handshake(const struct net_machine *m, const struct net_link *link, int no,
                            struct error *e)
{
    if (no == EBADMSG)
        return error_set(e, ERR_PEER, "the connection to rank %d on \"%s\" cannot be encrypted: %s",
                         m->first, m->host, net_tls_why(link->tls));
    return error_set_errno(e, ERR_PEER, no,
                           "rank %d on \"%s\" has ended or become silent before the connection to "
                           "it was encrypted",
                           m->first, m->host);
}

// Takes one step of every handshake that is not complete. Returns the number of those, their
// sockets in `polls`, or an error.
static int advance_handshakes(struct net *n, bool *complete, struct pollfd *polls, struct error *e)
{
    int waiting = 0;
    for (int i = 0; i < NET_CHANNELS * n->machine_count; i++) {
        struct net_machine *m = &n->machines[i / NET_CHANNELS];
        struct net_link *link = link_of(m, (enum net_channel)(i % NET_CHANNELS));
        if (link->fd < 0 || complete[i])
            continue;
        complete[i] = net_tls_shake_hands(link->tls) == 0;
        if (!complete[i] && errno != EAGAIN)
            return report_handshake(m, link, errno, e);
        if (!complete[i])
            polls[waiting++] = (struct pollfd){.fd = link->fd, .events = net_tls_awaits(link->tls)};
    }
    return waiting;
}

static int report_late_handshake(struct net *n, const bool *complete, struct error *e)
{
    int i = 0;
    while (complete[i] ||
           link_of(&n->machines[i / NET_CHANNELS], (enum net_channel)(i % NET_CHANNELS))->fd < 0)
        i++;
    return error_set(
        e, ERR_PEER,
        "the connection to rank %d on \"%s\" was not encrypted in time; its machine or "
        "the network may be overloaded or down",
        n->machines[i / NET_CHANNELS].first, n->machines[i / NET_CHANNELS].host);
}

// All handshakes at the same time: no order among the machines can make two wait for each other.
static int encrypt_links(struct net_meeting *meeting, struct error *e)
{
    struct net *n = meeting->net;
    int count = NET_CHANNELS * n->machine_count, waiting;
    bool *complete = xcalloc((size_t)count, sizeof *complete);
    struct pollfd *polls = xcalloc((size_t)count, sizeof *polls);
    while ((waiting = advance_handshakes(n, complete, polls, e)) > 0) {
        int patience = remaining_ms(meeting);
        if (patience == 0) {
            waiting = report_late_handshake(n, complete, e);
            break;
        }
        poll(polls, (nfds_t)waiting, patience);
    }
    free(complete);
    free(polls);
    if (waiting == 0)
        log_info("the connections to other machines are encrypted", "machines=%d cipher=%s",
                 n->machine_count, net_tls_cipher(n->machines[n->here == 0].data.tls));
    return waiting;
}

// --- joining -------------------------------------------------------------------------------------

static int publish_address(struct net_meeting *meeting, struct error *e)
{
    const struct comm_config *config = meeting->config;
    const char *address = config->address ? config->address : "127.0.0.1";
    char key[2 * NET_KEY + 1];
    json_t *mine = NULL;
    int port = 0, err = 0;
    if (meeting->net->leader) {
        rng_secret(meeting->key, NET_KEY);
        hex_encode(meeting->key, NET_KEY, key);
        err = listen_at(meeting, address, &port, e);
        if (!err)
            mine = json_pack("{s:s, s:i, s:s}", "address", address, "port", port, "key", key);
    } else {
        mine = json_null();
    }
    if (!err)
        err = comm_rendezvous_gather(config, mine, &meeting->places, e);
    json_decref(mine);
    return err;
}

static int connect_leaders(struct net_meeting *meeting, struct error *e)
{
    struct net *n = meeting->net;
    int err = 0;
    int64_t patience = MEETING_S * SECOND;
    meeting->deadline = clock_mono_us() + (n->timeout_us < patience ? n->timeout_us : patience);
    meeting->missing = NET_CHANNELS * (n->machine_count - 1 - n->here);
    for (int i = 0; i < n->here && !err; i++)
        for (int channel = 0; channel < NET_CHANNELS && !err; channel++)
            err = call_leader(meeting, i, (enum net_channel)channel, e);
    if (!err)
        err = await_calls(meeting, e);
    if (!err && meeting->config->encrypt)
        err = encrypt_links(meeting, e);
    while (meeting->guest_count > 0)
        guest_remove(meeting, 0);
    return err;
}

int net_join(struct net *n, const struct comm_config *config, const json_t *peers, struct error *e)
{
    struct net_meeting *meeting = xcalloc(1, sizeof *meeting);
    *meeting = (struct net_meeting){.net = n, .config = config, .listener = -1};
    n->base.rank = config->rank;
    n->base.world = config->world;
    n->timeout_us = config->timeout_us;
    group_machines(n, peers);
    meeting->guest_max = STRANGERS_MAX + n->machine_count; // so no caller has to leave for another
    meeting->guests = xcalloc((size_t)meeting->guest_max, sizeof *meeting->guests);
    meeting->polls = xcalloc((size_t)meeting->guest_max + 1, sizeof *meeting->polls);
    n->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    n->polls[2 * n->machine_count] = (struct pollfd){.fd = n->wake, .events = POLLIN};
    int err = n->wake < 0 ? error_set_errno(e, ERR_IO, errno, "cannot create an eventfd") : 0;
    if (!err)
        err = publish_address(meeting, e);
    if (!err)
        err = open_inner(meeting, peers, e);
    if (!err && n->leader)
        err = connect_leaders(meeting, e);
    if (meeting->listener >= 0)
        close(meeting->listener);
    json_decref(meeting->places);
    free(meeting->guests);
    free(meeting->polls);
    free(meeting);
    return err;
}

void net_leave(struct net *n)
{
    for (int i = 0; i < n->machine_count; i++) {
        struct net_machine *m = &n->machines[i];
        net_link_close(&m->data);
        net_link_close(&m->control);
        free(m->host);
        free(m->out);
        free(m->in);
    }
    if (n->wake >= 0)
        close(n->wake);
    if (n->inner)
        comm_shm_backend.close(&n->inner->base);
    free(n->polls);
    free(n->from);
    free(n->scratch);
    free(n->machines);
    free(n);
}
