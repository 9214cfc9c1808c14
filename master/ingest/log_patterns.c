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
    CLOCK_BYTES = 4096, // bytes that are matched between two looks at the clock
    UNMATCHED_AGAIN_US = 60 * 1000000,
};

struct log_matcher {
    struct pattern_cache *patterns;
};

struct log_match_job {
    struct work work;
    const struct workers *workers;
    struct log_matcher *matcher;
    struct request *rq;
    struct log_post *post; // owned by the request
    struct log_pattern_list *parts;
    size_t count;
    bool stopped; // nothing was decided: the master stops, or the client is gone

    // Valid while the job runs:
    int64_t end; // CPU time at which the budget of the current part is used up
    size_t bytes;
};

struct log_matcher *log_matcher_new(void)
{
    struct log_matcher *k = xcalloc(1, sizeof *k);
    k->patterns = pattern_cache_new();
    return k;
}

void log_matcher_free(struct log_matcher *k)
{
    if (k)
        pattern_cache_free(k->patterns);
    free(k);
}

void log_patterns_add(struct log_pattern_list *w, const char *pattern, int policy, int64_t trigger)
{
    if (w->count == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 4;
        w->patterns = xrealloc(w->patterns, w->cap * sizeof *w->patterns);
    }
    w->patterns[w->count++] =
        (struct log_pattern){.text = xstrdup(pattern), .policy = policy, .trigger = trigger};
}

static void pattern_list_free(struct log_pattern_list *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->patterns[i].text);
        free(w->patterns[i].line);
        free(w->patterns[i].fault);
    }
    free(w->patterns);
}

static void match_job_free(struct work *work)
{
    struct log_match_job *w = (struct log_match_job *)work;
    for (size_t i = 0; i < w->count; i++)
        pattern_list_free(&w->parts[i]);
    free(w->parts);
    free(w);
}

// --- on the worker -------------------------------------------------------------------------------

// The master stops, or nobody waits for the answer any more: the client sends such a post again.
static bool is_abandoned(const struct log_match_job *w)
{
    return workers_stopping(w->workers) || atomic_load(&w->rq->client_gone);
}

static bool is_out_of_time(struct log_match_job *w, size_t len)
{
    w->bytes += len;
    if (w->bytes < CLOCK_BYTES)
        return false;
    w->bytes = 0;
    w->stopped |= is_abandoned(w);
    return w->stopped || clock_cpu_us() >= w->end;
}

// The agent's own lines say how the task began and ended; policies are about the program's output.
static bool is_of_agent(const struct log_chunk *chunk, const struct log_line *line)
{
    return !strcmp(chunk->origins[line->origin].text[LOG_SOURCE], "agent");
}

// Matches the lines of a chunk up to the first that matches. *unmatched: the number of lines that
// were not tried, as the budget was used up.
static void match_lines(struct log_match_job *w, struct log_pattern *pattern,
                        const struct log_chunk *chunk, int64_t *unmatched)
{
    struct error e = {0};
    const struct pattern *p = pattern_cache_get(w->matcher->patterns, pattern->text, &e);
    if (!p) {
        pattern->fault = xstrdup(e.text);
        return;
    }
    for (size_t i = 0; i < chunk->line_count && !pattern->matched; i++) {
        const struct log_line *line = &chunk->lines[i];
        if (is_out_of_time(w, line->len)) {
            *unmatched = (int64_t)(chunk->line_count - i);
            w->bytes = CLOCK_BYTES; // so that the next call sees it at once
            return;
        }
        if (is_of_agent(chunk, line))
            continue;
        pattern->matched = pattern_matches(p, line->text, line->len);
        if (pattern->matched)
            pattern->line = xstrdup(line->text);
    }
}

static void match_chunk(struct log_match_job *w, struct log_pattern_list *part,
                        struct log_packed *packed)
{
    struct log_chunk chunk;
    int64_t most = 0;
    must(!log_chunk_read_origins(&chunk, packed->origins, packed->origins_len, NULL));
    must(!log_chunk_read_lines(&chunk, packed->data, packed->data_len, NULL));
    for (size_t i = 0; i < part->count && !w->stopped; i++) {
        int64_t unmatched = 0;
        struct log_pattern *pattern = &part->patterns[i];
        if (!pattern->matched && !pattern->fault)
            match_lines(w, pattern, &chunk, &unmatched);
        most = unmatched > most ? unmatched : most;
    }
    part->unmatched += most;
    log_chunk_free(&chunk);
}

// Each task of the post gets an equal share of the budget that the tasks before it have left.
static void match_job_run(struct work *work, struct db_reader *db)
{
    struct log_match_job *w = (struct log_match_job *)work;
    int64_t end = clock_cpu_us() + LIMIT_MATCH_POST_MS * 1000;
    (void)db;
    w->stopped = is_abandoned(w);
    for (size_t i = 0; i < w->count && !w->stopped; i++) {
        int64_t now = clock_cpu_us(), left = end > now ? end - now : 0;
        w->end = now + left / (int64_t)(w->count - i);
        w->bytes = 0;
        for (size_t k = 0; k < w->parts[i].part->chunk_count && !w->stopped; k++)
            match_chunk(w, &w->parts[i], &w->parts[i].part->chunks[k]);
    }
}

// --- on the core thread --------------------------------------------------------------------------

static void report_unmatched(struct core *c, const struct trial *t,
                             const struct log_pattern_list *w)
{
    struct log_task *task = id_map_find(&c->logs->tasks, t->id);
    if (!w->unmatched || !task ||
        (task->unmatched_reported && c->now - task->unmatched_reported < UNMATCHED_AGAIN_US))
        return;
    task->unmatched_reported = c->now;
    char *text = xasprintf(
        "log policies and webhooks have skipped %lld lines: matching took longer than %d ms "
        "for one post; make the patterns simpler or fewer, or print less",
        (long long)w->unmatched, LIMIT_MATCH_POST_MS);
    logs_add_message(c, t, "", "WARNING", text);
    free(text);
}

static void apply_matches(struct core *c, const struct log_pattern_list *w)
{
    struct trial *t = core_trial_of_task(c, w->part->task);
    if (!t)
        return;
    for (size_t i = 0; i < w->count; i++) {
        const struct log_pattern *pattern = &w->patterns[i];
        if (pattern->policy >= 0)
            log_policies_matched(c, t, w->part->agent, pattern);
        else if (pattern->matched)
            CORE_DISPATCH(c, log_line_matched, c, t, w->part->agent, pattern->trigger,
                          pattern->line);
    }
    report_unmatched(c, t, w);
}

static void match_job_done(struct core *c, struct work *work)
{
    struct log_match_job *w = (struct log_match_job *)work;
    struct error e = {0};
    if (w->stopped) {
        error_set(&e, ERR_UNAVAILABLE, "the lines were not stored; send them again soon");
        core_refuse(c, w->rq, &e);
    } else {
        log_post_store(c, w->post);
        for (size_t i = 0; i < w->count; i++)
            apply_matches(c, &w->parts[i]);
        core_complete(c, w->rq);
    }
    match_job_free(work);
}

static void job_add_part(struct core *c, struct log_match_job *w, const struct log_part *p)
{
    struct trial *t = core_trial_of_task(c, p->task);
    struct log_pattern_list *part = &w->parts[w->count];
    if (!t || !p->chunk_count)
        return;
    *part = (struct log_pattern_list){.part = p};
    CORE_DISPATCH(c, log_patterns_wanted, c, t, part);
    log_policies_add_patterns(c, t, p->agent, part);
    w->count += part->count > 0;
    w->work.turn.user = t->active->experiment->user_id; // an agent sends the lines of one task
}

int log_match_begin(struct core *c, struct request *rq, struct log_post *post, struct error *e)
{
    size_t parts = 0;
    for (const struct log_part *p = post->parts; p; p = p->next)
        parts++;
    struct log_match_job *w = xcalloc(1, sizeof *w);
    w->work = (struct work){.run = match_job_run, .done = match_job_done, .drop = match_job_free};
    w->workers = c->workers;
    w->matcher = c->logs->matcher;
    w->rq = rq;
    w->post = post;
    w->parts = xcalloc(parts + 1, sizeof *w->parts);
    for (const struct log_part *p = post->parts; p; p = p->next)
        job_add_part(c, w, p);
    int err = w->count ? workers_send(c->workers, &w->work, WORK_MATCHING, e) : 0;
    if (err || !w->count)
        match_job_free(&w->work);
    else
        err = REQUEST_PARKED;
    return err;
}
