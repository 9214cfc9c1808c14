// Training programs: a gang meets, its rank 0 counts steps, saves, reports, and watches for the
// drain; the other ranks follow. Reports are sent one after the other and repeated until they are
// answered, as the trainer does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/sim/machines.h"

enum {
    EXIT_STALE = 80,
    EXIT_PEERS = 1,
    ASK_TIMEOUT = 30 * SECOND,
    TRY_AGAIN = 500 * MS,
    MEET_MOST = 30 * MINUTE,    // all repeated calls together
    PEERS_NOTICED = 2 * SECOND, // until a lost peer is noticed
};

// --- characters ----------------------------------------------------------------------------------

static const struct character *character_of(struct world *w, int64_t experiment)
{
    struct rng r;
    struct character *k = arena_alloc(&w->arena, sizeof *k);
    static const int codes[] = {1, 1, 3, -9, -11, EXIT_STALE, 137};
    rng_seed(&r, w->seed * 1000003 + (uint64_t)experiment, 9);
    k->step_us = between(&r, 300 * MS, 4 * SECOND);
    k->save_us = between(&r, 50 * MS, 3 * SECOND);
    k->start_us = chance(&r, 500) ? between(&r, SECOND, 40 * SECOND) : between(&r, MS, 2 * SECOND);
    k->leave_us = between(&r, MS, 2 * SECOND);
    k->steps = between(&r, 1, 40);
    k->save_every = (int)between(&r, 1, 10);
    k->report_every = (int)between(&r, 1, 4);
    k->fails = chance(&r, 3000) ? (uint32_t)between(&r, 50, 600) : 0;
    k->fail_code = codes[rng_below(&r, sizeof codes / sizeof *codes)];
    k->ignores_drain = chance(&r, 800);
    k->ignores_sigterm = chance(&r, 800);
    k->leaves_unsaved = chance(&r, 500);
    k->hangs = chance(&r, 500) ? 100 : 0;
    k->straggles = chance(&r, 2000) ? 500 : 0;
    return k;
}

struct model_run *run_find(struct world *w, const char *id)
{
    for (struct model_run *r = w->runs; r; r = r->next)
        if (!strcmp(r->id, id))
            return r;
    return NULL;
}

struct model_run *run_of(struct world *w, const json_t *task, const json_t *env)
{
    const char *id = jget_string(task, "allocationId", "");
    struct model_run *r = run_find(w, id);
    int world = (int)jget_int(env, "WORLD_SIZE", 0);
    if (r && env && r->world && r->world != world)
        broken(w, "a_gang_has_one_size", "%s: %d and %d ranks", id, r->world, world);
    if (!r) {
        r = arena_alloc(&w->arena, sizeof *r);
        snprintf(r->id, sizeof r->id, "%s", id);
        r->experiment = jget_int(task, "experimentId", 0);
        r->trial = jget_int(task, "trialId", 0);
        r->epoch = jget_int(task, "epoch", 0);
        r->character = character_of(w, r->experiment);
        r->next = w->runs;
        w->runs = r;
    }
    if (env)
        r->world = world;
    return r;
}

// --- calls ---------------------------------------------------------------------------------------

static bool is_over(const struct model_part *t)
{
    return t->gone || t->state != TASK_RUNNING;
}

static void leave(struct world *w, struct model_part *t, int code);

// Whether the answer ends the task because its allocation has ended.
static bool is_stale(struct world *w, struct model_part *t, int status)
{
    if (status == 403)
        leave(w, t, EXIT_STALE);
    return status == 403;
}

static struct sim_call *ask(struct world *w, struct model_part *t, core_handler *handler,
                            const char *name, const char *p0, const char *p1, json_t *body,
                            const char *query, call_done *done, int64_t tag)
{
    struct sim_call call = {.handler = handler,
                            .name = name,
                            .kind = PRINCIPAL_TASK,
                            .user = 2,
                            .allocation = t->run->id,
                            .machine = t->machine,
                            .body = body,
                            .query = query,
                            .timeout = ASK_TIMEOUT,
                            .done = done,
                            .owner = t,
                            .tag = tag};
    snprintf(call.p0, sizeof call.p0, "%s", p0);
    snprintf(call.p1, sizeof call.p1, "%s", p1);
    return call_send(w, &call);
}

// --- the end -------------------------------------------------------------------------------------

static void leave_now(struct world *w, void *who, int64_t code)
{
    struct model_part *t = who;
    if (!is_over(t))
        task_exit(w, t, code < 0 ? 0 : (int)code, code < 0 ? (int)-code : 0);
}

static void leave(struct world *w, struct model_part *t, int code)
{
    if (t->left)
        return;
    t->left = true;
    at(w, w->now + between(&w->work, MS, t->run->character->leave_us), leave_now, t, code);
}

// Rank 0 tells the other ranks to end.
static void end_run(struct world *w, struct model_run *r, int code)
{
    if (r->ended)
        return;
    r->ended = true;
    r->code = code;
    for (int i = 0; i < r->task_count; i++)
        if (!is_over(r->tasks[i]))
            leave(w, r->tasks[i], code);
}

static void miss_peers(struct world *w, void *who, int64_t arg)
{
    struct model_part *t = who;
    (void)arg;
    if (!is_over(t))
        leave(w, t, EXIT_PEERS);
}

void program_gone(struct world *w, struct model_part *t)
{
    struct model_run *r = t->run;
    if (r->ended)
        return;
    for (int i = 0; i < r->task_count; i++)
        if (r->tasks[i] != t && !is_over(r->tasks[i]))
            at(w, w->now + between(&w->work, MS, PEERS_NOTICED), miss_peers, r->tasks[i], 0);
}

// --- training ------------------------------------------------------------------------------------

static void step_later(struct world *w, struct model_part *t, int64_t in);
static void send_metrics(struct world *w, struct model_part *t, char group);
static void send_checkpoint(struct world *w, struct model_part *t);

static bool peers_stand(const struct world *w, const struct model_run *r)
{
    int ranks = 0;
    for (int i = 0; i < r->task_count; i++)
        if (!is_over(r->tasks[i]) && machine_stands(w, r->tasks[i]->machine))
            ranks += r->tasks[i]->rank_count;
    return ranks == r->world;
}

static void send_ack(struct world *w, void *who, int64_t arg);

static void acked(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    struct model_part *t = c->owner;
    (void)answer;
    if (is_over(t) || is_stale(w, t, status))
        return;
    if (status == 200)
        end_run(w, t->run, 0);
    else
        at(w, w->now + TRY_AGAIN, send_ack, t, 0);
}

static void send_ack(struct world *w, void *who, int64_t arg)
{
    struct model_part *t = who;
    (void)arg;
    if (!is_over(t) && !t->run->ended)
        ask(w, t, core_allocation_ack_preemption, "ack", t->run->id, "", NULL, NULL, acked, 0);
}

// Continues when no report is left.
static void go_on(struct world *w, struct model_part *t)
{
    struct model_run *r = t->run;
    const struct character *k = r->character;
    if (r->steps >= k->steps && r->saved >= r->steps) {
        known_trial(w, r->trial)->done = true;
        end_run(w, r, 0);
    } else if (r->asked && (w->calm || !k->ignores_drain)) {
        if (r->saved < r->steps && !k->leaves_unsaved)
            send_checkpoint(w, t);
        else
            send_ack(w, t, 0);
    } else {
        step_later(w, t, k->step_us);
    }
}

static void step(struct world *w, void *who, int64_t arg)
{
    struct model_part *t = who;
    struct model_run *r = t->run;
    const struct character *k = r->character;
    (void)arg;
    if (is_over(t) || r->ended)
        return;
    if (!peers_stand(w, r) || (r->stuck && !w->calm)) {
        step_later(w, t, SECOND);
        return;
    }
    r->stuck = !w->calm && chance(&w->work, k->hangs);
    if (!w->calm && chance(&w->work, k->fails)) {
        leave(w, t, k->fail_code);
        return;
    }
    if (r->steps < k->steps)
        r->steps++;
    bool last = r->steps >= k->steps;
    if (last || r->steps - r->saved >= k->save_every)
        send_checkpoint(w, t);
    else if (r->steps % k->report_every == 0)
        send_metrics(w, t, 't');
    else
        go_on(w, t);
}

static void step_later(struct world *w, struct model_part *t, int64_t in)
{
    bool slow = !w->calm && chance(&w->work, t->run->character->straggles);
    at(w, w->now + in * (slow ? 10 : 1) + between(&w->work, 0, MS), step, t, 0);
}

// --- reports -------------------------------------------------------------------------------------

static void report_again(struct world *w, void *who, int64_t what)
{
    struct model_part *t = who;
    if (is_over(t) || t->run->ended)
        return;
    if (what == 'c')
        send_checkpoint(w, t);
    else
        send_metrics(w, t, (char)what);
}

static void reported(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    struct model_part *t = c->owner;
    (void)answer;
    if (is_over(t) || t->run->ended || is_stale(w, t, status))
        return;
    if (status != 200) {
        at(w, w->now + TRY_AGAIN, report_again, t, c->tag);
        return;
    }
    if (c->tag == 'c') {
        t->run->saved = t->run->steps;
        send_metrics(w, t, 'v');
    } else {
        go_on(w, t);
    }
}

static const char *decimal(char out[24], int64_t value)
{
    snprintf(out, 24, "%lld", (long long)value);
    return out;
}

static void send_metrics(struct world *w, struct model_part *t, char group)
{
    char trial[24];
    struct model_run *r = t->run;
    double loss = (double)(r->trial * 7919 % 101) + 100.0 / (double)(r->steps + 1);
    json_t *value = r->trial % 17 ? json_real(loss) : json_string("NaN");
    json_t *body = json_pack(
        "{s:s, s:{s:I, s:I, s:I, s:{s:{s:o}}}}", "group", group == 'v' ? "validation" : "training",
        "metrics", "trialId", (json_int_t)r->trial, "trialRunId", (json_int_t)r->epoch,
        "stepsCompleted", (json_int_t)r->steps, "metrics", "avgMetrics", "loss", value);
    must(body);
    ask(w, t, core_trial_metrics, "metrics", decimal(trial, r->trial), "", body, NULL, reported,
        group);
    if (group == 'v') {
        struct known_trial *known = known_trial(w, r->trial);
        known->validated = r->steps > known->validated ? r->steps : known->validated;
        double progress = (double)r->steps / (double)r->character->steps;
        ask(w, t, core_trial_progress, "progress", decimal(trial, r->trial), "",
            json_pack("{s:f}", "progress", progress > 1 ? 1 : progress), NULL, NULL, 0);
    }
}

static void send_checkpoint(struct world *w, struct model_part *t)
{
    char uuid[40];
    struct model_run *r = t->run;
    snprintf(uuid, sizeof uuid, "%08llx-%04llx-4000-8000-%012llx", (unsigned long long)r->trial,
             (unsigned long long)r->epoch, (unsigned long long)r->steps);
    json_t *body = json_pack("{s:s, s:s, s:s, s:{s:I}, s:{}}", "uuid", uuid, "allocationId", r->id,
                             "state", "STATE_COMPLETED", "metadata", "steps_completed",
                             (json_int_t)r->steps, "resources");
    must(body);
    ask(w, t, core_checkpoint_report, "checkpoint", "", "", body, NULL, reported, 'c');
}

// --- the drain -----------------------------------------------------------------------------------

static void watch(struct world *w, void *who, int64_t arg);

static void watched(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    struct model_part *t = c->owner;
    if (is_over(t) || t->run->ended || is_stale(w, t, status))
        return;
    if (status == 200 && jget_bool(answer, "preempt", false)) {
        note(w, "%s hears that it shall leave", t->run->id);
        t->run->asked = true; // checked between two steps
        return;
    }
    at(w, w->now + (status == 200 ? 0 : TRY_AGAIN), watch, t, 0);
}

static void watch(struct world *w, void *who, int64_t arg)
{
    struct model_part *t = who;
    (void)arg;
    if (!is_over(t) && !t->run->ended)
        ask(w, t, core_allocation_preemption, "preemption", t->run->id, "", NULL, "20", watched, 0);
}

// --- the start -----------------------------------------------------------------------------------

static void refuse(struct world *w, void *who, int64_t arg);

static void refused(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    struct model_part *t = c->owner;
    (void)answer;
    if (is_over(t) || is_stale(w, t, status))
        return;
    if (status == 200 || status == 400) // the master knows it already
        end_run(w, t->run, 1);
    else
        at(w, w->now + TRY_AGAIN, refuse, t, 0);
}

static void refuse(struct world *w, void *who, int64_t arg)
{
    struct model_part *t = who;
    char trial[24];
    (void)arg;
    if (!is_over(t) && !t->run->ended)
        ask(w, t, core_trial_early_exit, "early_exit", decimal(trial, t->run->trial), "",
            json_pack("{s:s}", "reason", "EXITED_REASON_INVALID_HP"), NULL, refused, 0);
}

static void train(struct world *w, struct model_part *t)
{
    struct model_run *r = t->run;
    t->met = true;
    if (t->first_rank)
        return;
    if (r->trial % 13 == 0) { // its hyperparameters are invalid
        refuse(w, t, 0);
        return;
    }
    r->steps = r->saved = t->resume;
    watch(w, t, 0);
    step_later(w, t, r->character->step_us);
}

static void meet(struct world *w, void *who, int64_t arg);

// Ranks give up waiting for missing peers in the end.
static void try_again(struct world *w, struct model_part *t, event_fire *what)
{
    if (w->now > t->meet_until)
        leave(w, t, EXIT_PEERS);
    else
        at(w, w->now + TRY_AGAIN, what, t, 0);
}

static void met(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    struct model_part *t = c->owner;
    if (is_over(t) || t->met || is_stale(w, t, status))
        return;
    if (status != 200)
        try_again(w, t, meet);
    else if ((int)json_array_size(jget(answer, "data")) != t->run->parts)
        broken(w, "a_gang_is_whole", "%s: %zu of %d met", t->run->id,
               json_array_size(jget(answer, "data")), t->run->parts);
    else
        train(w, t);
}

static void meet(struct world *w, void *who, int64_t arg)
{
    struct model_part *t = who;
    char name[40];
    (void)arg;
    if (is_over(t))
        return;
    snprintf(name, sizeof name, "0:%d", t->first_rank);
    json_t *body = json_pack("{s:s, s:i, s:i}", "requestUuid", name, "numPeers", t->run->parts,
                             "data", t->first_rank);
    ask(w, t, core_allocation_all_gather, "all_gather", t->run->id, "", body, NULL, met, 0);
}

static void find_peers(struct world *w, void *who, int64_t arg);

static void found_peers(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    struct model_part *t = c->owner;
    const json_t *addresses = jget_path(answer, "rendezvousInfo.addresses");
    if (is_over(t) || is_stale(w, t, status))
        return;
    if (status != 200) {
        try_again(w, t, find_peers);
        return;
    }
    t->run->parts = (int)json_array_size(addresses);
    meet(w, t, 0);
}

static void find_peers(struct world *w, void *who, int64_t arg)
{
    struct model_part *t = who;
    (void)arg;
    if (!is_over(t))
        ask(w, t, core_allocation_rendezvous, "rendezvous", t->run->id, t->resources, NULL, NULL,
            found_peers, 0);
}

void program_start(struct world *w, struct model_part *t)
{
    t->meet_until = w->now + MEET_MOST;
    find_peers(w, t, 0);
}
