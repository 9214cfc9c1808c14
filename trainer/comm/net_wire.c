// Moves bytes between machines and detects lost peers.
//
// There are three cases. A peer ends: the kernel closes its connections, which is seen at once. Its
// machine or the network becomes silent: TCP keepalive on the control connection gives up after
// NET_SILENCE_S; the data connection cannot be used for this, because data may lie unread while a
// peer computes. A peer hangs while its machine still answers: nothing arrives for longer than the
// timeout.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "trainer/comm/net.h"
#include "trainer/comm/net_tls.h"

enum { TICK_MS = 50, LAST_WORDS_MS = 200 };

static void queue_buffer(struct iovec *list, int *count, void *data, size_t bytes, int max_count)
{
    must(*count < max_count);
    if (bytes > 0)
        list[(*count)++] = (struct iovec){data, bytes};
}

void net_send(struct net_machine *m, const void *data, size_t bytes)
{
    queue_buffer(m->out, &m->out_count, (void *)(uintptr_t)data, bytes, m->queue_max);
}

void net_receive(struct net_machine *m, void *data, size_t bytes)
{
    queue_buffer(m->in, &m->in_count, data, bytes, m->queue_max);
}

// --- failures ------------------------------------------------------------------------------------

static int report_died(const struct net_machine *m, struct error *e)
{
    return error_set(e, ERR_PEER,
                     "rank %d died: its process on \"%s\" has ended; its log may say why", m->first,
                     m->host);
}

static int report_changed(const struct net_machine *m, const struct net_link *link, struct error *e)
{
    return error_set(e, ERR_PEER,
                     "the bytes from rank %d on \"%s\" are not those that it has encrypted (%s): "
                     "something in the network between the machines has changed them",
                     m->first, m->host, link->tls ? net_tls_why(link->tls) : "");
}

static int report_errno(const struct net_machine *m, const struct net_link *link, int no,
                        struct error *e)
{
    if (no == ECONNRESET || no == EPIPE)
        return report_died(m, e);
    if (no == EBADMSG)
        return report_changed(m, link, e);
    return error_set_errno(e, ERR_PEER, no,
                           "rank %d is silent: its machine \"%s\" has not answered for %d s; it or "
                           "the network is down",
                           m->first, m->host, NET_SILENCE_S);
}

// Reads the available control messages; returns an error if they show that the peer is lost.
static int read_control(struct net_machine *m, struct error *e)
{
    ssize_t got = -1;
    if (m->control.fd < 0)
        return 0;
    for (;;) {
        const struct iovec rest = {(char *)&m->note + m->note_bytes,
                                   sizeof m->note - m->note_bytes};
        got = net_link_receive(&m->control, &rest, 1);
        if (got < 0)
            break;
        m->note_bytes += (size_t)got;
        if (m->note_bytes < sizeof m->note)
            continue;
        m->note_bytes = 0;
        m->left = m->note.kind == NET_BYE;
        if (!m->left)
            return error_set(e, ERR_PEER, "%.*s", (int)sizeof m->note.text, m->note.text);
    }
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    int err = m->left ? 0 : report_errno(m, &m->control, errno, e);
    net_link_close(&m->control);
    return err;
}

// The data connection is lost; the control connection may have a better explanation.
static int report_lost(struct net_machine *m, int no, struct error *e)
{
    struct pollfd control = {.fd = m->control.fd, .events = POLLIN};
    if (no == EBADMSG)
        return report_errno(m, &m->data, no, e);
    poll(&control, 1, LAST_WORDS_MS);
    int err = read_control(m, e);
    if (!err && m->left)
        err = error_set(e, ERR_PEER, "rank %d has left before the others were done", m->first);
    return err ? err : report_errno(m, &m->data, no, e);
}

// --- progress ------------------------------------------------------------------------------------

static bool is_sending(const struct net_machine *m)
{
    return m->out_at < m->out_count;
}

static bool is_receiving(const struct net_machine *m)
{
    return m->in_at < m->in_count;
}

static void advance_queue(struct iovec *list, int *at, int *count, size_t moved)
{
    while (*at < *count && moved >= list[*at].iov_len)
        moved -= list[(*at)++].iov_len;
    if (*at == *count) {
        *at = *count = 0;
        return;
    }
    list[*at].iov_base = (char *)list[*at].iov_base + moved;
    list[*at].iov_len -= moved;
}

// Moves as much as possible without waiting. Returns 1 if anything moved, 0, or an error.
static int move_bytes(struct net_machine *m, struct error *e)
{
    ssize_t out = 0, in = 0;
    if (is_sending(m)) {
        out = net_link_send(&m->data, m->out + m->out_at, m->out_count - m->out_at);
        if (out < 0 && errno != EAGAIN && errno != EINTR)
            return report_lost(m, errno, e);
        if (out > 0)
            advance_queue(m->out, &m->out_at, &m->out_count, (size_t)out);
    }
    if (is_receiving(m)) {
        in = net_link_receive(&m->data, m->in + m->in_at, m->in_count - m->in_at);
        if (in < 0 && errno != EAGAIN && errno != EINTR)
            return report_lost(m, errno, e);
        if (in > 0)
            advance_queue(m->in, &m->in_at, &m->in_count, (size_t)in);
    }
    return out > 0 || in > 0;
}

static int check_timeout(const struct net *n, struct error *e)
{
    // Longer than the timeout among the ranks of a machine, who know better which rank hangs.
    int64_t patience = n->timeout_us + n->timeout_us / 4 + 1000000, now = clock_mono_us();
    const struct net_machine *slowest = NULL;
    for (int i = 0; i < n->machine_count; i++) {
        const struct net_machine *m = &n->machines[i];
        bool awaited = is_sending(m) || is_receiving(m);
        if (awaited && (!slowest || m->moved < slowest->moved))
            slowest = m;
    }
    if (!slowest || now - slowest->moved <= patience)
        return 0;
    return error_set(
        e, ERR_PEER,
        "rank %d hangs: its machine \"%s\" answers, but it has sent nothing for %lld s",
        slowest->first, slowest->host, (long long)(patience / 1000000));
}

static int read_controls(struct net *n, struct error *e)
{
    int err = 0;
    for (int i = 0; i < n->machine_count && !err; i++)
        if (n->polls[2 * i + 1].revents)
            err = read_control(&n->machines[i], e);
    return err;
}

static int poll_machines(struct net *n, bool data, int timeout_ms)
{
    for (int i = 0; i < n->machine_count; i++) {
        const struct net_machine *m = &n->machines[i];
        int events = (is_sending(m) ? POLLOUT : 0) | (is_receiving(m) ? POLLIN : 0);
        n->polls[2 * i] =
            (struct pollfd){.fd = data && events ? m->data.fd : -1, .events = (short)events};
        n->polls[2 * i + 1] = (struct pollfd){.fd = m->control.fd, .events = POLLIN};
    }
    return poll(n->polls, 2 * (nfds_t)n->machine_count + 1, timeout_ms);
}

int net_check(struct net *n, struct error *e)
{
    int err = poll_machines(n, false, 0) > 0 ? read_controls(n, e) : 0;
    return err ? err : shm_check(n->inner, e);
}

// Waits once until a socket is ready.
static int wait_once(struct net *n, struct error *e)
{
    int ready = poll_machines(n, true, TICK_MS);
    if (atomic_load(&n->failed))
        return error_set(e, ERR_PEER, "rank %d gave up", n->base.rank);
    int err = ready > 0 ? read_controls(n, e) : shm_check(n->inner, e);
    return err ? err : check_timeout(n, e);
}

int net_exchange(struct net *n, bool sent, struct error *e)
{
    int64_t now = clock_mono_us();
    for (int i = 0; i < n->machine_count; i++)
        n->machines[i].moved = now;
    for (;;) {
        bool moved = false, awaited = false;
        for (int i = 1; i < n->machine_count; i++) { // starts at the next, to spread the load
            struct net_machine *m = &n->machines[(n->here + i) % n->machine_count];
            int result = move_bytes(m, e);
            if (result < 0)
                return result;
            if (result > 0) {
                m->moved = clock_mono_us();
                moved = true;
            }
            awaited |= is_receiving(m) || (sent && is_sending(m));
        }
        if (!awaited)
            return 0;
        int err = moved ? 0 : wait_once(n, e);
        if (err)
            return err;
    }
}

void net_notify(struct net *n, enum net_note_kind kind, const char *text)
{
    struct net_note note = {.kind = (uint8_t)kind};
    snprintf(note.text, sizeof note.text, "%s", text);
    const struct iovec message = {&note, sizeof note};
    for (int i = 0; i < n->machine_count; i++) // the socket buffer has room: few messages are sent
        if (n->machines[i].control.fd >= 0)
            net_link_send(&n->machines[i].control, &message, 1);
}
