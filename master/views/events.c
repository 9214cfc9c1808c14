// GET /events: changes as server-sent events. The stream forwards the hub's events that the caller
// may see, and checks the caller's workspaces anew every two seconds.

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "master/notify/hub.h"
#include "master/teams/authz.h"
#include "master/views/views.h"

enum {
    HEARTBEAT_US = 15 * 1000000,
    CHECK_US = 2 * 1000000, // how long a removed role may still work
    BATCH = 64,             // events taken from the hub at a time
    VISIBLE_MAX = 64,       // workspaces whose visibility is remembered
};

struct events_stream {
    struct stream stream;
    struct hub *hub;
    struct hub_follower follower;
    bool listening;
    struct event_filter filter;
    const struct principal *who; // the HTTP server refreshes it
    uint64_t position;           // number of the last event that was sent or skipped
    int64_t heartbeat_at, check_at;
    struct {
        int64_t workspace;
        bool yes;
    } visible[VISIBLE_MAX];
    size_t visible_count;
};

// --- visibility ---------------------------------------------------------------------

static bool can_see_workspace(struct events_stream *s, struct db_reader *db, int64_t workspace)
{
    char id[32];
    for (size_t i = 0; i < s->visible_count; i++)
        if (s->visible[i].workspace == workspace)
            return s->visible[i].yes;
    snprintf(id, sizeof id, "%lld", (long long)workspace);
    bool yes = s->who->admin || !authz_check(db, s->who, AUTHZ_WORKSPACE, id, NULL);
    if (s->visible_count == VISIBLE_MAX)
        s->visible_count = 0;
    s->visible[s->visible_count].workspace = workspace;
    s->visible[s->visible_count++].yes = yes;
    return yes;
}

// Agent, queue and audit events belong to no workspace; a follower of these topics gets all of
// them.
static bool can_see_event(struct events_stream *s, struct db_reader *db, const struct event *ev)
{
    if (ev->topic == EVENT_AGENT || ev->topic == EVENT_QUEUE || ev->topic == EVENT_AUDIT)
        return true;
    return ev->workspace_id && can_see_workspace(s, db, ev->workspace_id);
}

static void forget_visibility(struct events_stream *s, int64_t now)
{
    if (now < s->check_at)
        return;
    s->check_at = now + CHECK_US;
    s->visible_count = 0;
}

// --- the stream --------------------------------------------------------------------------------

static void write_event(struct events_stream *s, struct buf *out, const char *event,
                        const char *reason)
{
    buf_printf(out, "id: %" PRIu64 "\nevent: %s\ndata: {\"sequence\":%" PRIu64, s->position, event,
               s->position);
    if (reason)
        buf_printf(out, ",\"reason\":\"%s\"", reason);
    buf_puts(out, "}\n\n");
}

static void write_reset(struct events_stream *s, struct buf *out)
{
    s->position = hub_last(s->hub);
    write_event(s, out, "reset", "events were lost; read all objects again");
}

// Returns false if no more events are waiting.
static bool send_batch(struct events_stream *s, struct db_reader *db, struct buf *out)
{
    struct event *batch[BATCH];
    int count = hub_read(s->hub, &s->position, &s->filter, batch, BATCH);
    if (count < 0) {
        write_reset(s, out);
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (can_see_event(s, db, batch[i]))
            buf_append(out, batch[i]->text, batch[i]->len);
        event_release(batch[i]);
    }
    return count == BATCH;
}

static enum stream_turn fill_events(struct stream *stream, struct db_reader *db, struct buf *out)
{
    struct events_stream *s = (struct events_stream *)stream;
    int64_t now = clock_mono_us();
    if (!s->listening) { // subscribe before the first read, so that no event is lost
        hub_listen(s->hub, &s->follower);
        s->listening = true;
        s->heartbeat_at = now + HEARTBEAT_US;
        write_event(s, out, "start", NULL);
    }
    if (atomic_load(&stream->ending))
        return STREAM_END;
    forget_visibility(s, now);
    bool more = true;
    while (more && out->len < STREAM_CHUNK)
        more = send_batch(s, db, out);
    if (!out->len && now >= s->heartbeat_at)
        buf_puts(out, ":\n\n");
    if (out->len) {
        s->heartbeat_at = now + HEARTBEAT_US;
        return STREAM_MORE;
    }
    stream->wait_until = s->heartbeat_at;
    return STREAM_WAIT;
}

static void close_events(struct stream *stream)
{
    struct events_stream *s = (struct events_stream *)stream;
    hub_remove_follower(s->hub, &s->follower);
}

// --- parameters ---------------------------------------------------------------------------

static int read_topics(const struct query *q, unsigned *bits, struct error *e)
{
    const char *texts[QUERY_PAIRS_MAX];
    size_t count = query_all(q, "topics", texts, QUERY_PAIRS_MAX);
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++)
        rc = event_read_topics(texts[i], bits, e);
    if (!rc && !*bits)
        *bits = (1U << EVENT_TOPICS) - 1;
    return rc;
}

// Reads "3,4", possibly repeated, into numbers in the arena.
static int read_ids(struct view *v, const char *name, const int64_t **out, size_t *count,
                    struct error *e)
{
    const char *texts[QUERY_PAIRS_MAX];
    size_t given = query_all(v->query, name, texts, QUERY_PAIRS_MAX), most = 0;
    for (size_t i = 0; i < given; i++)
        most += strlen(texts[i]) / 2 + 1;
    int64_t *ids = arena_alloc(&v->rq->arena, (most + 1) * sizeof *ids);
    *out = ids;
    for (size_t i = 0; i < given; i++) {
        for (const char *text = texts[i]; *text; text += *text == ',') {
            char *end;
            errno = 0;
            int64_t id = strtoll(text, &end, 10);
            if (errno || end == text || (*end && *end != ',') || id < 1)
                return error_set(e, ERR_INVALID, "query parameter %s: \"%.64s\" is no list of ids",
                                 name, texts[i]);
            ids[(*count)++] = id;
            text = end;
        }
    }
    return 0;
}

// Where to continue. A browser repeats the header Last-Event-ID after each reconnect, so the header
// is newer than the parameter and wins.
static int read_position(struct view *v, struct events_stream *s, struct error *e)
{
    const char *text = v->rq->header(v->rq, "Last-Event-ID");
    if (!text)
        text = query_get(v->query, "since");
    char *end;
    s->position = hub_last(s->hub);
    if (!text || !*text)
        return 0;
    errno = 0;
    s->position = strtoull(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9')
        return error_set(e, ERR_INVALID, "\"%.64s\" is not the id of an event", text);
    return 0;
}

int stream_events(struct view *v, struct stream **out, struct error *e)
{
    struct events_stream *s = arena_alloc(&v->rq->arena, sizeof *s);
    *s = (struct events_stream){.hub = v->service->hub, .who = &v->rq->principal};
    s->stream.fill = fill_events;
    s->stream.close = close_events;
    s->stream.content_type = "text/event-stream";
    s->follower = (struct hub_follower){
        .stream = &s->stream, .filter = &s->filter, .user_id = s->who->user_id};
    int rc = read_topics(v->query, &s->filter.topics, e);
    if (!rc)
        rc = read_ids(v, "experimentIds", &s->filter.experiments, &s->filter.experiment_count, e);
    if (!rc)
        rc = read_ids(v, "trialIds", &s->filter.trials, &s->filter.trial_count, e);
    if (!rc)
        rc = read_position(v, s, e);
    if (!rc)
        rc = hub_add_follower(s->hub, &s->follower, e);
    if (!rc)
        *out = &s->stream;
    return rc;
}
