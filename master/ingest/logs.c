// Log lines, which agents send for their tasks and tasks send for themselves. They arrive packed
// (log_parse.h) and get their numbers here. A sender numbers its lines and sends them in order, so
// a line whose sequence is not above the sender's last one is a repetition.
#include "master/ingest/logs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "master/ingest/log_parse.h"
#include "master/ingest/log_patterns.h"
#include "master/ingest/module.h"
#include "master/kernel/loop.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/authz.h"
#include "master/teams/teams.h"

enum {
    TAIL_CHUNKS_MAX = 64, // small chunks at the end of a log
    CHECK_INTERVAL_US = 5 * 1000000,
    QUIET_US = 10 * 1000000,   // after this time a tail is merged
    FORGET_US = 600 * 1000000, // .. a task is forgotten; its last rows are committed by then
};

// --- tasks whose logs grow -----------------------------------------------------------------------

static void free_task(struct log_task *t)
{
    for (size_t i = 0; i < t->sender_count; i++) {
        free(t->senders[i].allocation);
        free(t->senders[i].agent);
    }
    free(t->senders);
    free(t->id);
    free(t);
}

static struct log_sender *add_sender(struct log_task *t, const char *allocation, const char *agent,
                                     int64_t last)
{
    t->senders = xrealloc(t->senders, (t->sender_count + 1) * sizeof *t->senders);
    struct log_sender *s = &t->senders[t->sender_count++];
    *s = (struct log_sender){xstrdup(allocation), xstrdup(agent), last};
    return s;
}

static struct log_sender *sender_of(struct log_task *t, const char *allocation, const char *agent)
{
    for (size_t i = t->sender_count; i-- > 0;) // the newest allocation is the last
        if (!strcmp(t->senders[i].allocation, allocation) && !strcmp(t->senders[i].agent, agent))
            return &t->senders[i];
    return add_sender(t, allocation, agent, -1);
}

static struct log_task *add_task(struct core *c, int64_t trial, const char *id, int64_t newest)
{
    struct log_task *t = xcalloc(1, sizeof *t);
    t->trial = trial;
    t->id = xstrdup(id);
    t->newest = newest;
    t->used = c->now;
    if (!c->logs->tasks.count)
        timer_set(&c->timers, &c->logs->quiet, c->now + CHECK_INTERVAL_US);
    id_map_put(&c->logs->tasks, trial, t);
    return t;
}

static int store_unreadable(struct error *e)
{
    return error_set(e, ERR_UNAVAILABLE, "the store cannot be read; send the lines again");
}

static int load_senders(struct core *c, struct log_task *t, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, LOG_SENDERS, t->id);
    int more;
    while ((more = db_next(rows)) == 1)
        add_sender(t, DB_GET(rows, LOG_SENDERS, allocation_id), DB_GET(rows, LOG_SENDERS, agent_id),
                   DB_GET(rows, LOG_SENDERS, last_sequence));
    db_rows_close(rows);
    return more < 0 ? store_unreadable(e) : 0;
}

static void forget_task(struct logs *l, struct log_task *t)
{
    id_map_remove(&l->tasks, t->trial);
    free_task(t);
}

static int load_task(struct core *c, const char *id, struct log_task **out, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, LOG_TASK, id);
    int found = db_next(rows);
    *out = found == 1
               ? add_task(c, DB_GET(rows, LOG_TASK, trial_id), id, DB_GET(rows, LOG_TASK, last_id))
               : NULL;
    db_rows_close(rows);
    int err = found < 0 ? store_unreadable(e) : *out ? load_senders(c, *out, e) : 0;
    if (err && *out)
        forget_task(c->logs, *out);
    return err;
}

// *trial = 0: there is no such task.
static int find_trial_id(struct core *c, const struct experiment *x, const char *id, int64_t *trial,
                         struct error *e)
{
    const struct trial *t = core_trial_of_task(c, id);
    struct task_id read;
    *trial = t ? t->id : task_id_read(id, &read) ? read.trial : 0;
    if (t || x->kind == KIND_EXPERIMENT)
        return 0;
    struct db_rows *rows = DB_QUERY(c->reader, LOG_TASK, id); // for a task that has ended
    int found = db_next(rows);
    *trial = found == 1 ? DB_GET(rows, LOG_TASK, trial_id) : 0;
    db_rows_close(rows);
    return found < 0 ? store_unreadable(e) : 0;
}

// Lines may arrive after the end of their task, but not after its deletion: then *out is NULL.
static int find_task(struct core *c, const char *id, struct log_task **out, struct error *e)
{
    int64_t trial;
    char first[TASK_ID];
    id = task_id_first(id, first);
    const struct experiment *x = core_experiment_find(c, strtoll(id, NULL, 10));
    *out = NULL;
    if (!x || !strchr(id, '.'))
        return 0;
    int err = find_trial_id(c, x, id, &trial, e);
    if (!err)
        *out = id_map_find(&c->logs->tasks, trial);
    if (!err && !*out)
        err = load_task(c, id, out, e);
    if (err)
        return err;
    if (*out && strcmp((*out)->id, id))
        *out = NULL;
    if (*out)
        (*out)->used = c->now;
    return 0;
}

static void check_quiet_tasks(struct core *c, void *arg)
{
    struct logs *l = arg;
    for (size_t i = l->tasks.count; i-- > 0;) {
        struct log_task *t = l->tasks.items[i].value;
        int64_t quiet = c->now - t->used;
        if (quiet >= QUIET_US && t->tail > 1)
            log_merge_begin(c, t);
        if (quiet >= FORGET_US && !t->merging)
            forget_task(l, t);
    }
    if (l->tasks.count)
        timer_set(&c->timers, &l->quiet, c->now + CHECK_INTERVAL_US);
}

struct logs *logs_new(void)
{
    struct logs *l = xcalloc(1, sizeof *l);
    l->matcher = log_matcher_new();
    l->quiet = (struct timer){.fire = check_quiet_tasks, .arg = l};
    return l;
}

void logs_free(struct logs *l)
{
    for (size_t i = 0; l && i < l->tasks.count; i++)
        free_task(l->tasks.items[i].value);
    if (l) {
        free(l->tasks.items);
        log_matcher_free(l->matcher);
    }
    free(l);
}

// --- storing -------------------------------------------------------------------------------------

static void store_chunk(struct core *c, struct log_task *t, const struct log_packed *chunk)
{
    t->newest += chunk->lines;
    meters_count(c->options.meters, METER_LOG_LINES, chunk->lines);
    STORE(c, LOG_CHUNK_INSERT, t->id, t->newest, chunk->lines, chunk->bytes, chunk->first_time,
          chunk->last_time, DB_BLOB(chunk->origins, chunk->origins_len),
          DB_BLOB(chunk->data, chunk->data_len));
    bool small = chunk->bytes < LOG_CHUNK_SMALL;
    t->tail = small ? t->tail + 1 : 0;
    t->tail_bytes = small ? t->tail_bytes + chunk->bytes : 0;
}

static void store_part(struct core *c, struct log_task *t, struct log_part *p)
{
    if (p->first_sequence >= 0) {
        struct log_sender *s = sender_of(t, p->allocation, p->agent);
        if (p->first_sequence <= s->last)
            log_part_drop(p, s->last);
        if (p->last_sequence > s->last) {
            s->last = p->last_sequence;
            STORE(c, LOG_SENDER_SET, t->id, p->allocation, p->agent, s->last);
        }
    }
    for (size_t i = 0; i < p->chunk_count; i++)
        store_chunk(c, t, &p->chunks[i]);
    if (t->tail >= TAIL_CHUNKS_MAX || t->tail_bytes >= LOG_MERGED_BYTES_MAX - LOG_CHUNK_SMALL)
        log_merge_begin(c, t);
    if (p->chunk_count)
        core_notify_log(c, t->id);
}

void log_post_store(struct core *c, struct log_post *post)
{
    struct log_task *t;
    for (struct log_part *p = post->parts; p; p = p->next)
        if (!find_task(c, p->task, &t, NULL) && t) // lines of a deleted task are dropped
            store_part(c, t, p);
}

void logs_add_message(struct core *c, const struct trial *trial, const char *allocation,
                      const char *level, const char *text)
{
    struct log_task *t;
    struct log_packer packer = {0};
    struct log_packed chunk;
    const struct log_origin o = {.text = {[LOG_ALLOCATION] = allocation,
                                          [LOG_AGENT] = "",
                                          [LOG_CONTAINER] = "",
                                          [LOG_SOURCE] = "master",
                                          [LOG_STDTYPE] = "stdout",
                                          [LOG_LEVEL] = level},
                                 .rank = -1};
    if (find_task(c, trial->first_task_id, &t, NULL))
        return;
    if (!t && id_map_find(&c->logs->tasks, trial->id))
        return; // the second of two records of an import that name the same trial
    if (!t)     // the trial's row is not committed yet
        t = add_task(c, trial->id, trial->first_task_id, 0);
    must(log_packer_add(&packer, &o, c->wall, text, strlen(text)));
    log_packer_pack(&packer, &chunk);
    store_chunk(c, t, &chunk);
    core_notify_log(c, t->id);
    log_packed_free(&chunk);
    log_packer_free(&packer);
}

// --- the request handler -------------------------------------------------------------------------

// An agent with a credential of its own sends the lines of allocations that have a part on it, also
// after their end.
static int check_sender(struct core *c, const struct request *rq, const struct log_part *p,
                        struct error *e)
{
    const char *agent = rq->principal.agent_id;
    size_t task = strlen(p->task);
    bool own = (!*p->agent || !strcmp(p->agent, agent)) && !strncmp(p->allocation, p->task, task) &&
               p->allocation[task] == '.' && core_allocation_on_agent(c, p->allocation, agent);
    return own ? 0
               : error_set(e, ERR_FORBIDDEN,
                           "logs.%zu: allocation %.88s of task %.64s is none of agent %s", p->first,
                           *p->allocation ? p->allocation : "(none)", p->task, agent);
}

static int check_part(struct core *c, struct request *rq, struct log_part *p, const char *own,
                      struct error *e)
{
    struct log_task *t;
    const char *task = *p->task ? task_id_resolve(c->reader, &rq->arena, p->task) : own;
    if (task != p->task) {
        free(p->task);
        p->task = xstrdup(task);
    }
    if (rq->principal.kind == PRINCIPAL_TASK && strcmp(p->task, own))
        return error_set(e, ERR_FORBIDDEN, "logs.%zu.taskId: this token belongs to task %s",
                         p->first, own);
    int err = find_task(c, p->task, &t, e);
    if (!err && t && *rq->principal.agent_id)
        return check_sender(c, rq, p, e);
    if (err || rq->principal.kind != PRINCIPAL_USER)
        return err;
    bool exists = t && !authz_check(c->reader, &rq->principal, AUTHZ_TASK, p->task, NULL);
    const struct experiment *x =
        exists ? core_experiment_find(c, strtoll(p->task, NULL, 10)) : NULL;
    return x ? core_may_change(c, rq, x, e)
             : error_set(e, ERR_NOT_FOUND, "logs.%zu.taskId: task '%.64s' not found", p->first,
                         p->task);
}

int core_task_logs(struct core *c, struct request *rq, struct error *e)
{
    struct log_post *post = rq->input;
    struct allocation *a = NULL;
    const char *own = "";
    int err = 0;
    if (rq->principal.kind == PRINCIPAL_TASK) {
        err = core_caller(c, rq, &a, e);
        if (!err)
            own = a->trial->task_id;
    }
    if (!err && !post)
        err = error_set(e, ERR_INVALID, "logs: not a list of lines");
    for (struct log_part *p = err ? NULL : post->parts; p && !err; p = p->next)
        err = check_part(c, rq, p, own, e);
    if (!err)
        err = log_match_begin(c, rq, post, e);
    if (!err)
        log_post_store(c, post);
    return err;
}
