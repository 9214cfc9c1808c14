#include "api/http/events.h"

#include <stdlib.h>
#include <string.h>

#include "api/http/client_parts.h"
#include "api/http/sse.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

enum {
    DATA_MAX = 1 << 20,          // bytes of one event
    QUEUE_MAX = 4096,            // received events that were not read yet
    SILENCE_S = 45,              // three missed heartbeats of the master
    PAUSE_FIRST_US = 100 * 1000, // pause before the next try, doubled each time
    PAUSE_MAX_US = 5 * 1000000,  // largest pause
    WAIT_MOST_US = 200 * 1000,   // interval of looking at the cancel flag
};

struct queued {
    char *name, *id;
    json_t *data;
};

struct event_stream {
    struct client *client; // provides handle, address and headers
    CURLM *multi;
    char *path;
    struct sse parser;
    struct buf refusal;
    struct queued *queue; // received events, from `first` on
    size_t first, count, cap;
    struct queued shown;
    bool connected, away;
    struct curl_slist *headers; // headers of this connection
    struct error broken;        // error in a callback; code 0: none
    int64_t retry_at, pause;
    int64_t heard_at, silence; // the last bytes; the time without any after which it is lost
};

// --- the queue -----------------------------------------------------------------------------------

static void queued_free(struct queued *q)
{
    free(q->name);
    free(q->id);
    json_decref(q->data);
    *q = (struct queued){0};
}

static void queue_push(struct event_stream *s, const char *name, const char *id, json_t *data)
{
    if (s->first && s->first == s->count)
        s->first = s->count = 0;
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->queue = xrealloc(s->queue, s->cap * sizeof *s->queue);
    }
    s->queue[s->count++] = (struct queued){xstrdup(name), xstrdup(id), data};
}

static bool queue_pop(struct event_stream *s, struct events_item *out)
{
    if (s->first == s->count)
        return false;
    queued_free(&s->shown);
    s->shown = s->queue[s->first++];
    *out = (struct events_item){s->shown.name, s->shown.id, s->shown.data};
    return true;
}

static int on_event(void *ctx, const struct sse_event *event, struct error *e)
{
    struct event_stream *s = ctx;
    json_t *data = NULL;
    int rc = json_parse(event->data, strlen(event->data), "event", &data, e);
    if (rc)
        return rc;
    s->away = false;
    s->pause = PAUSE_FIRST_US;
    queue_push(s, event->name, event->id, data);
    return 0;
}

// --- the connection ------------------------------------------------------------------------------

static size_t on_stream_data(char *bytes, size_t size, size_t count, void *ctx)
{
    struct event_stream *s = ctx;
    long status = 0;
    s->heard_at = clock_mono_us();
    curl_easy_getinfo(s->client->easy, CURLINFO_RESPONSE_CODE, &status);
    int rc = status >= 300 ? buf_append(&s->refusal, bytes, size * count)
                           : sse_feed(&s->parser, bytes, size * count, on_event, s, &s->broken);
    if (s->count - s->first > QUEUE_MAX)
        rc = error_set(&s->broken, ERR_TOO_LARGE, "events arrive faster than they are read");
    return rc ? 0 : size * count;
}

static void connect_to(struct event_stream *s)
{
    CURL *h = s->client->easy;
    char *url = xasprintf("%s%s", s->client->url, s->path);
    char *last = *s->parser.id ? xasprintf("Last-Event-ID: %s", s->parser.id) : NULL;
    curl_slist_free_all(s->headers);
    s->headers = curl_slist_append(NULL, "Accept: text/event-stream");
    for (const struct curl_slist *line = s->client->headers; line; line = line->next)
        s->headers = curl_slist_append(s->headers, line->data);
    if (last)
        s->headers = curl_slist_append(s->headers, last);
    must(s->headers);
    sse_begin(&s->parser);
    buf_reset(&s->refusal);
    s->broken.code = 0;
    curl_easy_setopt(h, CURLOPT_URL, url);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_stream_data);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, s);
    must(!curl_multi_add_handle(s->multi, h));
    s->connected = true;
    s->heard_at = clock_mono_us();
    free(last);
    free(url);
}

static void disconnect(struct event_stream *s)
{
    if (s->connected)
        curl_multi_remove_handle(s->multi, s->client->easy);
    s->connected = false;
}

// CURLOPT_LOW_SPEED_LIMIT cannot tell this: a heartbeat of a few bytes counts as no speed.
static bool is_silent(const struct event_stream *s)
{
    return s->connected && clock_mono_us() - s->heard_at > s->silence;
}

// Sets the error that ended the connection, and whether another try may succeed.
static int connection_lost(struct event_stream *s, CURLcode code, struct error *e)
{
    struct client *c = s->client;
    long status = 0;
    int rc = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    c->status = (int)status;
    c->may_retry = true; // a stream that ends without an error was ended by a stopping master
    if (s->broken.code)
        rc = error_set(e, s->broken.code, "%s: %s", c->url, s->broken.text);
    else if (status >= 300)
        rc = client_http_failed(c, "GET", s->path, &s->refusal, e);
    else if (code)
        rc = client_transport_failed(c, code, e);
    if (s->broken.code)
        c->may_retry = s->broken.code == ERR_TOO_LARGE;
    disconnect(s);
    if (!c->may_retry)
        return rc;
    s->retry_at = clock_mono_us() + s->pause;
    s->pause = s->pause * 2 < PAUSE_MAX_US ? s->pause * 2 : PAUSE_MAX_US;
    if (!s->away)
        queue_push(s, "away", s->parser.id, NULL);
    s->away = true;
    return 0;
}

static int receive_events(struct event_stream *s, struct error *e)
{
    int running = 0, left = 0, rc = 0;
    if (!s->connected && clock_mono_us() >= s->retry_at)
        connect_to(s);
    curl_multi_perform(s->multi, &running);
    const CURLMsg *m = curl_multi_info_read(s->multi, &left);
    if (m && m->msg == CURLMSG_DONE)
        rc = connection_lost(s, m->data.result, e);
    else if (is_silent(s))
        rc = connection_lost(s, CURLE_OPERATION_TIMEDOUT, e);
    return rc;
}

static bool is_cancelled(const struct event_stream *s)
{
    return s->client->cancel && atomic_load(s->client->cancel);
}

int events_next(struct event_stream *s, int64_t deadline, struct events_item *out, struct error *e)
{
    for (;;) {
        if (queue_pop(s, out))
            return 1;
        int rc = receive_events(s, e);
        if (rc)
            return is_cancelled(s) ? 0 : rc;
        int64_t left = deadline - clock_mono_us();
        if (s->first != s->count)
            continue;
        if (left <= 0 || is_cancelled(s))
            return 0;
        left = left < WAIT_MOST_US ? left : WAIT_MOST_US;
        curl_multi_poll(s->multi, NULL, 0, (int)(left / 1000) + 1, NULL);
    }
}

int events_open(const struct client_options *options, const char *path, struct event_stream **out,
                struct error *e)
{
    struct client *client;
    struct client_options of_stream = *options;
    of_stream.plain = NULL; // streams need libcurl's handle
    int rc = client_open(&of_stream, &client, e);
    if (rc)
        return rc;
    struct event_stream *s = xcalloc(1, sizeof *s);
    s->client = client;
    s->multi = curl_multi_init();
    must(s->multi);
    s->path = xstrdup(path);
    s->pause = PAUSE_FIRST_US;
    s->silence = (options->silence_s ? options->silence_s : SILENCE_S) * INT64_C(1000000);
    sse_init(&s->parser, DATA_MAX);
    buf_init(&s->refusal, LIMIT_BODY_SMALL);
    *out = s;
    return 0;
}

void events_close(struct event_stream *s)
{
    if (!s)
        return;
    disconnect(s);
    queued_free(&s->shown);
    while (s->first < s->count)
        queued_free(&s->queue[s->first++]);
    free(s->queue);
    curl_multi_cleanup(s->multi);
    curl_slist_free_all(s->headers);
    client_close(s->client);
    sse_free(&s->parser);
    buf_free(&s->refusal);
    free(s->path);
    free(s);
}
