#include "master/ingest/log_patterns.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/pattern_cache.h"
#include "master/ingest/log_policies.h"
#include "master/ingest/logs.h"
#include "master/kernel/module.h"
#include "master/kernel/workers.h"

enum {
    LOOK_BYTES = 4096, // that are matched between two looks at the clock
    SAY_AGAIN_US = 60 * 1000000,
};

struct log_watch_kit {
    struct pattern_cache *patterns;
};

struct log_watch {
    struct work work;
    const struct workers *workers;
    struct log_watch_kit *kit;
    struct request *rq;
    struct log_post *post; // the request's
    struct log_watched *parts;
    size_t count;
    bool stopped; // nothing was decided: the master stops, or the client has gone

    // While it runs:
    int64_t end; // of the budget of the part at hand, in processor time
    size_t bytes;
};

struct log_watch_kit *log_watch_kit_new(void)
{
    struct log_watch_kit *k = xcalloc(1, sizeof *k);
    k->patterns = pattern_cache_new();
    return k;
}

void log_watch_kit_free(struct log_watch_kit *k)
{
    if (k)
        pattern_cache_free(k->patterns);
    free(k);
}

void log_watched_add(struct log_watched *w, const char *pattern, int policy, int64_t trigger)
{
    if (w->count == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 4;
        w->wishes = xrealloc(w->wishes, w->cap * sizeof *w->wishes);
    }
    w->wishes[w->count++] =
        (struct log_wish){.pattern = xstrdup(pattern), .policy = policy, .trigger = trigger};
}

static void free_part(struct log_watched *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->wishes[i].pattern);
        free(w->wishes[i].line);
        free(w->wishes[i].fault);
    }
    free(w->wishes);
}

static void watch_free(struct work *work)
{
    struct log_watch *w = (struct log_watch *)work;
    for (size_t i = 0; i < w->count; i++)
        free_part(&w->parts[i]);
    free(w->parts);
    free(w);
}

// --- on the worker -------------------------------------------------------------------------------

// The master stops, or nobody waits for the answer any more: such a post comes again.
static bool is_in_vain(const struct log_watch *w)
{
    return workers_stopping(w->workers) || atomic_load(&w->rq->client_gone);
}

static bool is_over(struct log_watch *w, size_t len)
{
    w->bytes += len;
    if (w->bytes < LOOK_BYTES)
        return false;
    w->bytes = 0;
    w->stopped |= is_in_vain(w);
    return w->stopped || clock_cpu_us() >= w->end;
}

// The lines of a chunk up to the first that matches. *unseen grows by those that were not come to.
static void match_lines(struct log_watch *w, struct log_wish *wish, const struct log_chunk *chunk,
                        int64_t *unseen)
{
    struct error e = {0};
    const struct pattern *p = pattern_cache_get(w->kit->patterns, wish->pattern, &e);
    if (!p) {
        wish->fault = xstrdup(e.text);
        return;
    }
    for (size_t i = 0; i < chunk->line_count && !wish->matched; i++) {
        const struct log_line *line = &chunk->lines[i];
        if (is_over(w, line->len)) {
            *unseen = (int64_t)(chunk->line_count - i);
            w->bytes = LOOK_BYTES; // and stays over
            return;
        }
        wish->matched = pattern_matches(p, line->text, line->len);
        if (wish->matched)
            wish->line = xstrdup(line->text);
    }
}

static void match_chunk(struct log_watch *w, struct log_watched *part, struct log_packed *packed)
{
    struct log_chunk chunk;
    int64_t most = 0;
    must(!log_chunk_read_origins(&chunk, packed->origins, packed->origins_len, NULL));
    must(!log_chunk_read_lines(&chunk, packed->data, packed->data_len, NULL));
    for (size_t i = 0; i < part->count && !w->stopped; i++) {
        int64_t unseen = 0;
        struct log_wish *wish = &part->wishes[i];
        if (!wish->matched && !wish->fault)
            match_lines(w, wish, &chunk, &unseen);
        most = unseen > most ? unseen : most;
    }
    part->unseen += most;
    log_chunk_free(&chunk);
}

// Each task of the post gets an equal part of the budget that the tasks before it have left.
static void watch_run(struct work *work, struct db_reader *db)
{
    struct log_watch *w = (struct log_watch *)work;
    int64_t end = clock_cpu_us() + LIMIT_MATCH_POST_MS * 1000;
    (void)db;
    w->stopped = is_in_vain(w);
    for (size_t i = 0; i < w->count && !w->stopped; i++) {
        int64_t now = clock_cpu_us(), left = end > now ? end - now : 0;
        w->end = now + left / (int64_t)(w->count - i);
        w->bytes = 0;
        for (size_t k = 0; k < w->parts[i].part->chunk_count && !w->stopped; k++)
            match_chunk(w, &w->parts[i], &w->parts[i].part->chunks[k]);
    }
}

// --- on the core thread --------------------------------------------------------------------------

static void say_unseen(struct core *c, const struct trial *t, const struct log_watched *w)
{
    struct log_task *task = id_map_find(&c->logs->tasks, t->id);
    if (!w->unseen || !task || (task->unseen_said && c->now - task->unseen_said < SAY_AGAIN_US))
        return;
    task->unseen_said = c->now;
    char *text = xasprintf(
        "log policies and webhooks have passed over %lld lines: matching took longer than %d ms "
        "for one post; make the patterns simpler or fewer, or print less",
        (long long)w->unseen, LIMIT_MATCH_POST_MS);
    logs_say(c, t, "", "WARNING", text);
    free(text);
}

static void apply(struct core *c, const struct log_watched *w)
{
    struct trial *t = core_trial_of_task(c, w->part->task);
    if (!t)
        return;
    for (size_t i = 0; i < w->count; i++) {
        const struct log_wish *wish = &w->wishes[i];
        if (wish->policy >= 0)
            policies_heard(c, t, w->part->agent, wish);
        else if (wish->matched)
            CORE_DISPATCH(c, log_line_matched, c, t, w->part->agent, wish->trigger, wish->line);
    }
    say_unseen(c, t, w);
}

static void watch_done(struct core *c, struct work *work)
{
    struct log_watch *w = (struct log_watch *)work;
    struct error e = {0};
    if (w->stopped) {
        error_set(&e, ERR_UNAVAILABLE, "the lines were not taken; send them again soon");
        core_refuse(c, w->rq, &e);
    } else {
        log_post_store(c, w->post);
        for (size_t i = 0; i < w->count; i++)
            apply(c, &w->parts[i]);
        core_complete(c, w->rq);
    }
    watch_free(work);
}

static void add_part(struct core *c, struct log_watch *w, const struct log_part *p)
{
    struct trial *t = core_trial_of_task(c, p->task);
    struct log_watched *part = &w->parts[w->count];
    if (!t || !p->chunk_count)
        return;
    *part = (struct log_watched){.part = p};
    CORE_DISPATCH(c, log_patterns_wanted, c, t, part);
    policies_wish(c, t, p->agent, part);
    w->count += part->count > 0;
    w->work.turn.user = t->active->experiment->user_id; // an agent sends the lines of one task
}

int log_watch_begin(struct core *c, struct request *rq, struct log_post *post, struct error *e)
{
    size_t parts = 0;
    for (const struct log_part *p = post->parts; p; p = p->next)
        parts++;
    struct log_watch *w = xcalloc(1, sizeof *w);
    w->work = (struct work){.run = watch_run, .done = watch_done, .drop = watch_free};
    w->workers = c->workers;
    w->kit = c->logs->kit;
    w->rq = rq;
    w->post = post;
    w->parts = xcalloc(parts + 1, sizeof *w->parts);
    for (const struct log_part *p = post->parts; p; p = p->next)
        add_part(c, w, p);
    int err = w->count ? workers_send(c->workers, &w->work, WORK_MATCHING, e) : 0;
    if (err || !w->count)
        watch_free(&w->work);
    else
        err = REQUEST_PARKED;
    return err;
}
