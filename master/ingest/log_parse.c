#include "master/ingest/log_parse.h"

#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json_reader.h"
#include "base/text/log_text.h"

struct line_fields { // the fields of one line; "" and -1: absent
    const char *task, *allocation, *agent, *container, *stdtype, *source, *level, *time;
    char *log;
    size_t len;
    int64_t rank, sequence;
};

// The fields of a line in camel and in snake case, and their places.
static const struct line_field {
    const char *name, *other;
    enum { TEXT, NUMBER, LINE } kind;
    size_t place;
} fields[] = {
    {"log", "log", LINE, 0},
    {"sequence", "sequence", NUMBER, offsetof(struct line_fields, sequence)},
    {"timestamp", "timestamp", TEXT, offsetof(struct line_fields, time)},
    {"level", "level", TEXT, offsetof(struct line_fields, level)},
    {"rankId", "rank_id", NUMBER, offsetof(struct line_fields, rank)},
    {"stdtype", "stdtype", TEXT, offsetof(struct line_fields, stdtype)},
    {"source", "source", TEXT, offsetof(struct line_fields, source)},
    {"taskId", "task_id", TEXT, offsetof(struct line_fields, task)},
    {"allocationId", "allocation_id", TEXT, offsetof(struct line_fields, allocation)},
    {"agentId", "agent_id", TEXT, offsetof(struct line_fields, agent)},
    {"containerId", "container_id", TEXT, offsetof(struct line_fields, container)},
};

enum {
    FIELD_COUNT = sizeof fields / sizeof *fields,
    BODY_FIELDS_FROM = 7, // the fields from taskId on may stand beside the list
};

static const struct line_field *find_field(const char *name, size_t from)
{
    for (size_t i = from; i < FIELD_COUNT; i++)
        if (!strcmp(fields[i].name, name) || !strcmp(fields[i].other, name))
            return &fields[i];
    return NULL;
}

static void read_field(struct json_reader *s, const struct line_field *f, struct line_fields *into)
{
    char *place = (char *)into + (f ? f->place : 0);
    if (!f)
        jr_skip(s);
    else if (jr_null(s))
        return; // null counts as absent
    else if (f->kind == NUMBER)
        jr_int(s, (int64_t *)(void *)place);
    else if (f->kind == TEXT)
        *(const char **)(void *)place = jr_string(s, NULL);
    else
        into->log = jr_string(s, &into->len);
}

// --- lines into parts ----------------------------------------------------------------------------

static struct log_part *post_part(struct log_post *post, const struct line_fields *g)
{
    struct log_part *p = post->parts;
    while (p && (strcmp(p->task, g->task) || strcmp(p->allocation, g->allocation) ||
                 strcmp(p->agent, g->agent)))
        p = p->next;
    if (p)
        return p;
    p = xcalloc(1, sizeof *p);
    p->task = xstrdup(g->task);
    p->allocation = xstrdup(g->allocation);
    p->agent = xstrdup(g->agent);
    p->first = post->lines;
    p->first_sequence = p->last_sequence = -1;
    *post->end = p;
    post->end = &p->next;
    return p;
}

static void part_pack(struct log_part *p)
{
    if (!p->packer.count)
        return;
    p->chunks = xrealloc(p->chunks, (p->chunk_count + 1) * sizeof *p->chunks);
    log_packer_pack(&p->packer, &p->chunks[p->chunk_count++]);
}

static void part_add_line(struct log_part *p, const struct log_origin *o, int64_t time,
                          const char *text, size_t len, int64_t sequence)
{
    if (!log_packer_add(&p->packer, o, time, text, len)) {
        part_pack(p);
        must(log_packer_add(&p->packer, o, time, text, len));
    }
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 64;
        p->sequences = xrealloc(p->sequences, p->cap * sizeof *p->sequences);
    }
    p->sequences[p->count++] = sequence;
    if (p->first_sequence < 0)
        p->first_sequence = sequence;
    if (sequence >= 0)
        p->last_sequence = sequence;
}

// Removes the line's end and cuts the line to LIMIT_LOG_LINE bytes, at a whole UTF-8 character;
// then *cut is the shortened copy, on the heap.
static void trim_line(struct line_fields *g, char **cut)
{
    size_t len = g->len, keep;
    while (len && (g->log[len - 1] == '\n' || g->log[len - 1] == '\r'))
        len--;
    *cut = NULL;
    g->len = keep = len;
    if (len <= LIMIT_LOG_LINE)
        return;
    for (keep = LIMIT_LOG_LINE; keep && (g->log[keep] & 0xc0) == 0x80;)
        keep--;
    *cut = xasprintf("%.*s [cut: %zu bytes more]", (int)keep, g->log, len - keep);
    g->log = *cut;
    g->len = strlen(*cut);
}

// Replaces the control bytes of the line, if it has any; then *plain is its copy, on the heap.
static void replace_controls(struct line_fields *g, char **plain)
{
    struct buf text;
    size_t at = log_text_span(g->log, g->len);
    *plain = NULL;
    if (at == g->len)
        return;
    buf_init(&text, LIMIT_BODY);
    buf_append(&text, g->log, at);
    while (at < g->len) {
        size_t next = at + 1, span = log_text_span(g->log + next, g->len - next);
        buf_puts(&text, LOG_TEXT_MARK);
        buf_append(&text, g->log + next, span);
        at = next + span;
    }
    g->len = text.len;
    g->log = *plain = buf_take(&text);
}

static void post_add_line(struct log_post *post, struct line_fields *g, int64_t now)
{
    static char nothing[1];
    const char *level = wire_word(WIRE_LOG_LEVEL, g->level);
    struct log_part *p = post_part(post, g);
    int64_t time;
    char *plain, *cut;
    post->lines++;
    if (g->sequence >= 0 && g->sequence <= p->last_sequence)
        return; // a repetition
    if (!g->log)
        g->log = nothing;
    if (!g->time || clock_parse(g->time, &time))
        time = now;
    replace_controls(g, &plain);
    trim_line(g, &cut);
    const struct log_origin o = {.text = {[LOG_ALLOCATION] = g->allocation,
                                          [LOG_AGENT] = g->agent,
                                          [LOG_CONTAINER] = g->container,
                                          [LOG_SOURCE] = g->source,
                                          [LOG_STDTYPE] = g->stdtype,
                                          [LOG_LEVEL] = level ? level : "INFO"},
                                 .rank = g->rank};
    part_add_line(p, &o, time, g->log, g->len, g->sequence < 0 ? -1 : g->sequence);
    free(cut);
    free(plain);
}

// --- the body ------------------------------------------------------------------------------------

static void read_lines(struct json_reader *s, struct log_post *post,
                       const struct line_fields *defaults)
{
    int64_t now = clock_wall_us();
    char *key;
    if (!jr_enter(s, '['))
        return;
    while (jr_element(s)) {
        struct line_fields line = *defaults;
        if (post->lines == LIMIT_LOGS_PER_POST) {
            jr_fail(s, ERR_TOO_LARGE,
                    "more lines than one post may have; send them in several posts");
            return;
        }
        if (jr_enter(s, '{'))
            while (jr_member(s, &key))
                read_field(s, find_field(key, 0), &line);
        if (!s->err)
            post_add_line(post, &line, now);
    }
}

static const struct line_fields default_fields = {.task = "",
                                                  .allocation = "",
                                                  .agent = "",
                                                  .container = "",
                                                  .stdtype = "stdout",
                                                  .source = "task",
                                                  .level = "INFO",
                                                  .rank = -1,
                                                  .sequence = -1};

static void read_object(struct json_reader *s, struct log_post *post)
{
    struct line_fields defaults = default_fields;
    bool found = false;
    char *key;
    if (!jr_enter(s, '{'))
        return;
    while (jr_member(s, &key)) {
        if (!strcmp(key, "logs")) {
            found = true;
            read_lines(s, post, &defaults);
        } else {
            read_field(s, find_field(key, BODY_FIELDS_FROM), &defaults);
        }
    }
    if (!found)
        jr_fail(s, ERR_INVALID, "logs: not a list of lines");
}

static int read_post(struct request *rq, char *text, size_t len, bool list, struct error *e)
{
    struct log_post *post = xcalloc(1, sizeof *post);
    struct json_reader s;
    post->end = &post->parts;
    rq->input = post;
    rq->input_free = log_post_free;
    jr_init(&s, text, len, "the request body", e);
    if (list)
        read_lines(&s, post, &default_fields);
    else
        read_object(&s, post);
    int err = jr_end(&s);
    for (struct log_part *p = post->parts; p && !err; p = p->next)
        part_pack(p);
    return err;
}

int log_post_read(struct request *rq, char *text, size_t len, struct error *e)
{
    return read_post(rq, text, len, false, e);
}

int log_list_read(struct request *rq, char *text, size_t len, struct error *e)
{
    return read_post(rq, text, len, true, e);
}

static void free_chunks(struct log_part *p)
{
    for (size_t i = 0; i < p->chunk_count; i++)
        log_packed_free(&p->chunks[i]);
    free(p->chunks);
    p->chunks = NULL;
    p->chunk_count = 0;
}

void log_post_free(void *given)
{
    struct log_post *post = given;
    while (post && post->parts) {
        struct log_part *p = post->parts;
        post->parts = p->next;
        free_chunks(p);
        log_packer_free(&p->packer);
        free(p->sequences);
        free(p->task);
        free(p->allocation);
        free(p->agent);
        free(p);
    }
    free(post);
}

// --- repeated lines ------------------------------------------------------------------------------

void log_part_drop(struct log_part *p, int64_t sequence)
{
    struct log_part kept = {.first_sequence = -1, .last_sequence = -1};
    size_t n = 0;
    for (size_t i = 0; i < p->chunk_count; i++) {
        struct log_chunk chunk;
        must(!log_chunk_read_origins(&chunk, p->chunks[i].origins, p->chunks[i].origins_len, NULL));
        must(!log_chunk_read_lines(&chunk, p->chunks[i].data, p->chunks[i].data_len, NULL));
        for (size_t k = 0; k < chunk.line_count; k++, n++) {
            const struct log_line *line = &chunk.lines[k];
            if (p->sequences[n] < 0 || p->sequences[n] > sequence)
                part_add_line(&kept, &chunk.origins[line->origin], line->time, line->text,
                              line->len, p->sequences[n]);
        }
        log_chunk_free(&chunk);
    }
    part_pack(&kept);
    log_packer_free(&kept.packer);
    free_chunks(p);
    free(p->sequences);
    p->chunks = kept.chunks;
    p->chunk_count = kept.chunk_count;
    p->sequences = kept.sequences;
    p->count = kept.count;
    p->cap = kept.cap;
    p->first_sequence = kept.first_sequence;
    p->last_sequence = kept.last_sequence;
}
