#include "master/http/limits/connections.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"

enum class { NEWCOMER, USER, AGENT, CLASSES };

enum { OF_CLASS, OF_GROUP, ORDERS }; // the two lists of which a connection is a member

enum {
    BUCKETS = 4096,
    SECOND = 1000000,
    REPORT_US = 60 * SECOND,
    SPARED_MOST = 64, // connections with an unread request that are passed over for one eviction
};

struct connection {
    int fd; // -1: it has not begun
    enum class class;
    enum connection_phase phase;
    int64_t since;   // begin of the phase; for newcomers, IDLE and HEADERS count as one phase
    int64_t heard;   // time of the last byte of a body, or of the last progress of an answer
    size_t received; // bytes of the body or the answer
    uint64_t acked;  // bytes that the peer has acknowledged since it connected
    int patience;    // seconds for PHASE_ANSWER; 0: unlimited
    bool closing;    // shut down; no longer in the lists by class and group
    struct connection_group *group;
    struct connection *next[ORDERS], *prev[ORDERS];
    struct connection *after, **link; // in the list of all connections
};

// Connections in the order in which their phases began; the head is the oldest.
struct order {
    struct connection *head, *tail;
    int count;
};

struct connection_group { // newcomers of one address, or connections of one user
    enum class class;
    uint64_t key;
    struct order members;
    struct connection_group *next;
};

struct connections {
    pthread_mutex_t lock;
    struct connection *first; // including those that are closing
    int open;                 // including those that are closing
    struct order classes[CLASSES];
    struct connection_group *groups[BUCKETS];
    int most, most_newcomers, most_users, per_address, per_user;
    int64_t swept, reported;
    struct connections_count done, told;
};

struct connections *connections_new(const struct connections_limits *limits)
{
    struct connections *all = xcalloc(1, sizeof *all);
    must(limits->most >= CONNECTIONS_LEAST);
    pthread_mutex_init(&all->lock, NULL);
    all->most = limits->most;
    all->most_newcomers = all->most / 4;
    all->most_users = all->most / 2; // which leaves a quarter to agents
    all->per_user = all->most_users / 2;
    all->per_address =
        limits->per_address ? limits->per_address : all->most_newcomers / ADDRESS_SHARE;
    return all;
}

void connections_free(struct connections *all)
{
    if (!all)
        return;
    must(!all->first);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

// --- orders and groups ---------------------------------------------------------------------------

static void order_append(struct order *o, int which, struct connection *c)
{
    c->prev[which] = o->tail;
    c->next[which] = NULL;
    if (o->tail)
        o->tail->next[which] = c;
    else
        o->head = c;
    o->tail = c;
    o->count++;
}

static void order_remove(struct order *o, int which, struct connection *c)
{
    if (c->prev[which])
        c->prev[which]->next[which] = c->next[which];
    else
        o->head = c->next[which];
    if (c->next[which])
        c->next[which]->prev[which] = c->prev[which];
    else
        o->tail = c->prev[which];
    o->count--;
}

static struct connection_group **find_group(struct connections *all, enum class class, uint64_t key)
{
    struct connection_group **at = &all->groups[(key ^ key >> 32 ^ class) % BUCKETS];
    while (*at && ((*at)->class != class || (*at)->key != key))
        at = &(*at)->next;
    return at;
}

static int group_size(struct connections *all, enum class class, uint64_t key)
{
    const struct connection_group *g = *find_group(all, class, key);
    return g ? g->members.count : 0;
}

static void join(struct connections *all, struct connection *c, enum class class, uint64_t key)
{
    struct connection_group **at = find_group(all, class, key);
    if (!*at) {
        *at = xcalloc(1, sizeof **at);
        (*at)->class = class;
        (*at)->key = key;
    }
    c->class = class;
    c->group = *at;
    order_append(&all->classes[class], OF_CLASS, c);
    order_append(&c->group->members, OF_GROUP, c);
}

static void leave(struct connections *all, struct connection *c)
{
    struct connection_group *g = c->group;
    order_remove(&all->classes[c->class], OF_CLASS, c);
    order_remove(&g->members, OF_GROUP, c);
    c->group = NULL;
    if (g->members.count)
        return;
    *find_group(all, g->class, g->key) = g->next;
    free(g);
}

static void move_to_end(struct connections *all, struct connection *c)
{
    struct order *class = &all->classes[c->class];
    order_remove(class, OF_CLASS, c);
    order_append(class, OF_CLASS, c);
    order_remove(&c->group->members, OF_GROUP, c);
    order_append(&c->group->members, OF_GROUP, c);
}

// --- closing -------------------------------------------------------------------------------------

static void close_one(struct connections *all, struct connection *c)
{
    leave(all, c);
    c->closing = true;
    if (c->fd >= 0)
        shutdown(c->fd, SHUT_RDWR);
}

// Returns whether a connection may be closed for another: a newcomer unless its request is in work,
// a user's connection only while it is idle.
static bool is_dispensable(const struct connection *c)
{
    return c->class == NEWCOMER ? c->phase != PHASE_WORK
                                : c->class == USER && c->phase == PHASE_IDLE;
}

// Returns whether a request has arrived of which the server has read nothing: its thread is late,
// not the caller.
static bool has_unread_request(const struct connection *c)
{
    int unread = 0;
    return c->phase == PHASE_IDLE && c->fd >= 0 && !ioctl(c->fd, FIONREAD, &unread) && unread > 0;
}

// Closes the oldest dispensable connection without an unread request, or, if none is found among
// the first, the oldest dispensable one.
static bool evict_oldest(struct connections *all, const struct order *o, int which)
{
    struct connection *oldest = NULL, *late = NULL;
    int spared = 0;
    for (struct connection *c = o->head; c && !late && spared < SPARED_MOST; c = c->next[which]) {
        if (!is_dispensable(c))
            continue;
        oldest = oldest ? oldest : c;
        if (has_unread_request(c))
            spared++;
        else
            late = c;
    }
    if (!oldest)
        return false;
    close_one(all, late ? late : oldest);
    all->done.evicted++;
    return true;
}

static bool evict_of_group(struct connections *all, enum class class, uint64_t key)
{
    const struct connection_group *g = *find_group(all, class, key);
    return g && evict_oldest(all, &g->members, OF_GROUP);
}

static bool evict_of_class(struct connections *all, enum class class)
{
    return evict_oldest(all, &all->classes[class], OF_CLASS);
}

// --- coming, signing in, leaving -----------------------------------------------------------------

// The part of an address that identifies one caller: the complete IPv4 address, or the /64 network
// of IPv6.
static uint64_t address_key(const struct sockaddr *peer)
{
    if (peer->sa_family == AF_INET)
        return hash64(&((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
    if (peer->sa_family != AF_INET6)
        return 0;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
    return IN6_IS_ADDR_V4MAPPED(a) ? hash64(a->s6_addr + 12, 4) : hash64(a->s6_addr, 8);
}

static int places_taken(const struct connections *all)
{
    return all->classes[NEWCOMER].count + all->classes[USER].count + all->classes[AGENT].count;
}

static bool has_place(struct connections *all, uint64_t address)
{
    bool place = true;
    if (group_size(all, NEWCOMER, address) >= all->per_address)
        place = evict_of_group(all, NEWCOMER, address);
    else if (all->classes[NEWCOMER].count >= all->most_newcomers)
        place = evict_of_class(all, NEWCOMER);
    else if (places_taken(all) >= all->most)
        place = evict_of_class(all, NEWCOMER) || evict_of_class(all, USER);
    // A connection that was shut down stays open until its thread reads the end.
    return place && all->open < all->most + all->most / 8;
}

struct connection *connections_admit(struct connections *all, const struct sockaddr *peer,
                                     int64_t now)
{
    struct connection *c = NULL;
    uint64_t address = address_key(peer);
    pthread_mutex_lock(&all->lock);
    if (has_place(all, address)) {
        c = xcalloc(1, sizeof *c);
        c->fd = -1;
        c->since = now;
        c->after = all->first;
        c->link = &all->first;
        if (c->after)
            c->after->link = &c->after;
        all->first = c;
        all->open++;
        join(all, c, NEWCOMER, address);
    } else {
        all->done.refused++;
    }
    pthread_mutex_unlock(&all->lock);
    return c;
}

void connections_begin(struct connections *all, struct connection *c, int fd)
{
    pthread_mutex_lock(&all->lock);
    c->fd = fd;
    if (c->closing)
        shutdown(fd, SHUT_RDWR);
    pthread_mutex_unlock(&all->lock);
}

void connections_remove(struct connections *all, struct connection *c)
{
    pthread_mutex_lock(&all->lock);
    if (!c->closing)
        leave(all, c);
    *c->link = c->after;
    if (c->after)
        c->after->link = c->link;
    all->open--;
    pthread_mutex_unlock(&all->lock);
    free(c);
}

static bool user_has_place(struct connections *all, uint64_t user)
{
    if (group_size(all, USER, user) >= all->per_user)
        return evict_of_group(all, USER, user);
    return all->classes[USER].count < all->most_users || evict_of_group(all, USER, user) ||
           evict_of_class(all, USER);
}

int connections_sign_in(struct connections *all, struct connection *c, bool agent, int64_t user,
                        int64_t now, struct error *e)
{
    int rc = 0;
    enum class class = agent ? AGENT : USER;
    uint64_t key = agent ? 0 : (uint64_t)user;
    pthread_mutex_lock(&all->lock);
    bool stays = c->closing || c->class == AGENT || (c->class == class && c->group->key == key);
    if (!stays && !agent && !user_has_place(all, key)) {
        rc = error_set(e, ERR_BUSY,
                       "%d connections of this user, and %d of all users, are open and in use; "
                       "close some, or try again",
                       group_size(all, USER, key), all->classes[USER].count);
        all->done.refused++;
    } else if (!stays) {
        leave(all, c);
        join(all, c, class, key);
        c->since = now;
    }
    pthread_mutex_unlock(&all->lock);
    return rc;
}

bool connections_make_room(struct connections *all)
{
    pthread_mutex_lock(&all->lock);
    bool made = evict_of_class(all, NEWCOMER) || evict_of_class(all, USER);
    pthread_mutex_unlock(&all->lock);
    return made;
}

// --- time ----------------------------------------------------------------------------------------

// 0: unknown. The struct in <netinet/tcp.h> lacks the field.
static uint64_t bytes_acked(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? 0 : info.tcpi_bytes_acked;
}

// Bytes in the kernel's buffer count as sent, but the peer has not read them.
static void look_at_reply(struct connection *c, int64_t now)
{
    uint64_t acked = bytes_acked(c->fd);
    if (acked == c->acked)
        return;
    c->received += acked - c->acked;
    c->acked = acked;
    c->heard = now;
}

void connections_enter(struct connections *all, struct connection *c, enum connection_phase phase,
                       int64_t now)
{
    pthread_mutex_lock(&all->lock);
    bool goes_on = phase == PHASE_HEADERS && c->class == NEWCOMER;
    c->phase = phase;
    if (phase == PHASE_IDLE)
        c->patience = 0;
    if (!goes_on) {
        c->since = now;
        c->heard = now;
        c->received = 0;
        if (phase == PHASE_REPLY)
            c->acked = bytes_acked(c->fd);
        if (!c->closing)
            move_to_end(all, c);
    }
    pthread_mutex_unlock(&all->lock);
}

int connections_may_work(struct connections *all, const struct connection *c, struct error *e)
{
    int working = 0;
    pthread_mutex_lock(&all->lock);
    if (c->class == NEWCOMER && !c->closing)
        for (const struct connection *o = c->group->members.head; o; o = o->next[OF_GROUP])
            working += o->phase == PHASE_WORK;
    pthread_mutex_unlock(&all->lock);
    if (working < WORKING_NEWCOMERS)
        return 0;
    return error_set(e, ERR_BUSY, "%d requests of this address wait already; try again in a second",
                     working);
}

void connections_set_patience(struct connections *all, struct connection *c, int seconds)
{
    pthread_mutex_lock(&all->lock);
    c->patience = seconds;
    pthread_mutex_unlock(&all->lock);
}

void connections_received(struct connections *all, struct connection *c, size_t len, int64_t now)
{
    pthread_mutex_lock(&all->lock);
    c->received += len;
    c->heard = now;
    pthread_mutex_unlock(&all->lock);
}

static bool is_late(const struct connection *c, int64_t now)
{
    int64_t seconds = (now - c->since) / SECOND;
    switch (c->phase) {
    case PHASE_IDLE:
        return seconds >= (c->class == NEWCOMER ? IDLE_NEWCOMER_S : IDLE_S);
    case PHASE_HEADERS:
        return seconds >= HEADERS_S;
    case PHASE_BODY:
    case PHASE_REPLY:
        return now - c->heard >= BODY_SILENCE_S * SECOND ||
               seconds >= BODY_GRACE_S + (int64_t)(c->received / BODY_RATE);
    case PHASE_ANSWER:
        return c->patience && seconds >= c->patience;
    default:
        return false; // the server itself is slow
    }
}

static struct connections_count difference(const struct connections_count *a,
                                           const struct connections_count *b)
{
    return (struct connections_count){.evicted = a->evicted - b->evicted,
                                      .slow = a->slow - b->slow,
                                      .refused = a->refused - b->refused};
}

void connections_sweep(struct connections *all, int64_t now)
{
    struct connections_count news = {0};
    pthread_mutex_lock(&all->lock);
    int open = all->open;
    if (now - all->swept >= SECOND) {
        all->swept = now;
        for (struct connection *c = all->first; c; c = c->after) {
            if (!c->closing && c->phase == PHASE_REPLY)
                look_at_reply(c, now);
            if (!c->closing && is_late(c, now)) {
                close_one(all, c);
                all->done.slow++;
            }
        }
        news = difference(&all->done, &all->told);
        if (now - all->reported < REPORT_US)
            news = (struct connections_count){0};
    }
    bool tell = news.slow || news.evicted || news.refused;
    if (tell) {
        all->reported = now;
        all->told = all->done;
    }
    pthread_mutex_unlock(&all->lock);
    if (tell)
        log_info("connections were closed", "slow=%lld evicted=%lld refused=%lld open=%d",
                 (long long)news.slow, (long long)news.evicted, (long long)news.refused, open);
}

struct connections_count connections_count(struct connections *all)
{
    pthread_mutex_lock(&all->lock);
    struct connections_count n = all->done;
    n.newcomers = all->classes[NEWCOMER].count;
    n.users = all->classes[USER].count;
    n.agents = all->classes[AGENT].count;
    pthread_mutex_unlock(&all->lock);
    return n;
}
