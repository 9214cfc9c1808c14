#include "master/notify/event_ring.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"

const char *const event_names[EVENT_TOPICS] = {
    [EVENT_EXPERIMENT] = "experiment", [EVENT_TRIAL] = "trial",
    [EVENT_METRICS] = "metrics",       [EVENT_LOGS] = "logs",
    [EVENT_CHECKPOINT] = "checkpoint", [EVENT_QUEUE] = "queue",
    [EVENT_AGENT] = "agent",           [EVENT_WORKSPACE] = "workspace",
    [EVENT_MODEL] = "model",           [EVENT_AUDIT] = "audit"};
const char *const event_topics[EVENT_TOPICS] = {
    [EVENT_EXPERIMENT] = "experiments", [EVENT_TRIAL] = "trials",
    [EVENT_METRICS] = "metrics",        [EVENT_LOGS] = "logs",
    [EVENT_CHECKPOINT] = "checkpoints", [EVENT_QUEUE] = "queue",
    [EVENT_AGENT] = "agents",           [EVENT_WORKSPACE] = "workspaces",
    [EVENT_MODEL] = "models",           [EVENT_AUDIT] = "audit"};

struct event_ring {
    struct event **items; // numbers last - count + 1 to last; number n is at n % most
    size_t most, count;
    size_t bytes, bytes_most;
    uint64_t last;
};

struct event *event_new(uint64_t number, const struct change *what, const char *data)
{
    static const char form[] = "id: %" PRIu64 "\nevent: %s\ndata: %s\n\n";
    const char *name = event_names[what->topic];
    int len = snprintf(NULL, 0, form, number, name, data);
    struct event *ev = xcalloc(1, sizeof *ev + (size_t)len + 1);
    ev->number = number;
    ev->topic = what->topic;
    ev->experiment_id = what->experiment_id;
    ev->trial_id = what->trial_id;
    ev->workspace_id = what->workspace_id;
    ev->len = (size_t)len;
    atomic_init(&ev->references, 1);
    snprintf(ev->text, (size_t)len + 1, form, number, name, data);
    return ev;
}

void event_release(struct event *ev)
{
    if (atomic_fetch_sub(&ev->references, 1) == 1)
        free(ev);
}

static bool contains_id(const int64_t *ids, size_t count, int64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

bool event_passes(const struct event_filter *f, const struct event *ev)
{
    if (!(f->topics & 1U << ev->topic))
        return false;
    if (!ev->experiment_id || !(f->experiment_count + f->trial_count))
        return true;
    return contains_id(f->experiments, f->experiment_count, ev->experiment_id) ||
           contains_id(f->trials, f->trial_count, ev->trial_id);
}

static int refuse_topic(const char *word, size_t len, struct error *e)
{
    struct buf all;
    buf_init(&all, 512);
    for (int i = 0; i < EVENT_TOPICS; i++)
        buf_printf(&all, "%s%s", i ? ", " : "", event_topics[i]);
    error_set(e, ERR_INVALID, "topics: there is no \"%.*s\"; there are %s",
              len < 64 ? (int)len : 64, word, buf_str(&all));
    buf_free(&all);
    return ERR_INVALID;
}

int event_read_topics(const char *text, unsigned *bits, struct error *e)
{
    while (*text) {
        size_t len = strcspn(text, ",");
        int i = 0;
        while (i < EVENT_TOPICS &&
               (strlen(event_topics[i]) != len || strncmp(event_topics[i], text, len) != 0))
            i++;
        if (i == EVENT_TOPICS)
            return refuse_topic(text, len, e);
        *bits |= 1U << i;
        text += len;
        text += *text == ',';
    }
    return 0;
}

// --- the ring ------------------------------------------------------------------------------------

struct event_ring *event_ring_new(uint64_t last, size_t most, size_t bytes)
{
    struct event_ring *r = xcalloc(1, sizeof *r);
    must(most);
    r->items = xcalloc(most, sizeof(struct event *));
    r->most = most;
    r->bytes_most = bytes;
    r->last = last;
    return r;
}

static void drop_oldest(struct event_ring *r)
{
    struct event *ev = r->items[(r->last - r->count + 1) % r->most];
    r->count--;
    r->bytes -= ev->len;
    event_release(ev);
}

void event_ring_free(struct event_ring *r)
{
    if (!r)
        return;
    while (r->count)
        drop_oldest(r);
    free(r->items);
    free(r);
}

uint64_t event_ring_last(const struct event_ring *r)
{
    return r->last;
}

size_t event_ring_count(const struct event_ring *r)
{
    return r->count;
}

void event_ring_add(struct event_ring *r, struct event *ev)
{
    must(ev->number == r->last + 1);
    while (r->count && (r->count == r->most || r->bytes + ev->len > r->bytes_most))
        drop_oldest(r);
    r->items[++r->last % r->most] = ev;
    r->count++;
    r->bytes += ev->len;
}

void event_ring_lose(struct event_ring *r)
{
    while (r->count)
        drop_oldest(r);
    r->last++;
}

int event_ring_read(struct event_ring *r, uint64_t *place, const struct event_filter *f,
                    struct event **out, int most)
{
    int found = 0;
    if (*place > r->last || *place < r->last - r->count)
        return -1;
    while (*place < r->last && found < most) {
        struct event *ev = r->items[++*place % r->most];
        if (!event_passes(f, ev))
            continue;
        atomic_fetch_add(&ev->references, 1);
        out[found++] = ev;
    }
    return found;
}
