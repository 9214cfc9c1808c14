// Actions of people: they submit, change settings, and move jobs. Their calls may be lost; they do
// not repeat them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "master/kernel/state.h"
#include "tests/sim/machines.h"

enum { ADA = 1, CALL_TIMEOUT = 30 * SECOND }; // an administrator

static void person_call(struct world *w, int64_t user, core_handler *handler, const char *name,
                        const char *p0, const char *p1, json_t *body, call_done *done)
{
    struct sim_call call = {.handler = handler,
                            .name = name,
                            .kind = PRINCIPAL_USER,
                            .user = user,
                            .body = body,
                            .timeout = CALL_TIMEOUT,
                            .done = done};
    snprintf(call.p0, sizeof call.p0, "%s", p0);
    snprintf(call.p1, sizeof call.p1, "%s", p1);
    note_outside(w, "%s %s%s%s", name, p0, *p1 ? " " : "", p1);
    call_send(w, &call);
}

// --- submission ----------------------------------------------------------------------------------

static void submitted(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    if (status == 200 && c->id > w->experiments)
        w->experiments = c->id;
    const char *why = jget_string(jget(answer, "error"), "error", "no reason");
    bool early = strstr(why, "there is no resource pool"); // its pool has no agent yet
    if (status == 400 && !w->limited && !early)
        broken(w, "submissions_are_taken", "%s", why);
}

static int some_slots(struct world *w, struct rng *r)
{
    if (chance(r, 800))
        return 0;
    if (chance(r, 5000))
        return (int)between(r, 1, w->largest);
    return (int)between(r, 1, chance(r, 3000) ? w->total_slots : (w->total_slots + 1) / 2);
}

static void write_resources(struct world *w, struct rng *r, struct buf *out)
{
    int slots = some_slots(w, r);
    buf_printf(out, "resources: {slots_per_trial: %d", slots);
    if (slots > 1 && chance(r, 3000))
        buf_printf(out, ", min_slots: %d", (int)between(r, 1, slots));
    if (slots && slots <= w->largest && chance(r, 2000))
        buf_puts(out, ", is_single_node: true");
    if (slots && chance(r, 2000))
        buf_printf(out, ", max_slots: %d", slots * (int)between(r, 1, 3));
    if (chance(r, 3000))
        buf_printf(out, ", priority: %d", (int)between(r, 30, 60));
    if (chance(r, 2000))
        buf_printf(out, ", weight: %d", (int)between(r, 1, 4));
    if (w->pools > 1 && chance(r, 5000))
        buf_puts(out, ", resource_pool: other");
    buf_puts(out, "}\n");
}

static void write_searcher(struct rng *r, struct buf *out)
{
    int trials = (int)between(r, 1, 8), rungs = (int)between(r, 1, 3);
    if (!chance(r, 2500)) {
        buf_puts(out, "searcher: {name: single, metric: loss}\n");
        return;
    }
    buf_printf(out, "searcher: {metric: loss, max_concurrent_trials: %d", (int)between(r, 3, 5));
    switch (rng_below(r, 4)) {
    case 0:
        buf_printf(out, ", name: random, max_trials: %d", trials);
        break;
    case 1:
        buf_puts(out, ", name: grid");
        break;
    case 2:
        buf_printf(out, ", name: async_halving, max_trials: %d, num_rungs: %d", trials, rungs);
        break;
    default:
        buf_printf(out, ", name: adaptive_asha, max_trials: %d, max_rungs: %d", trials, rungs);
        buf_printf(out, ", mode: %s", chance(r, 5000) ? "conservative" : "standard");
    }
    if (strstr(buf_str(out), "name: a"))
        buf_printf(out, ", divisor: %d, max_time: %d", (int)between(r, 2, 4),
                   (int)between(r, 2, 40));
    buf_printf(out, "}\nhyperparameters: {x: {type: int, minval: 0, maxval: 99, count: %d}}\n",
               trials);
}

static json_t *submission(struct world *w, struct rng *r)
{
    struct buf yaml;
    buf_init(&yaml, 4096);
    buf_puts(&yaml, "name: simulated\nentrypoint: sh x.sh\nlaunch: per_slot\n");
    write_resources(w, r, &yaml);
    write_searcher(r, &yaml);
    buf_printf(&yaml, "max_restarts: %d\npreemption_timeout: %d\n", (int)between(r, 0, 4),
               (int)between(r, 5, 60));
    buf_printf(&yaml, "reproducibility: {experiment_seed: %d}\n", (int)between(r, 0, 1000));
    json_t *body =
        json_pack("{s:s, s:b, s:i, s:[]}", "config", buf_str(&yaml), "activate", !chance(r, 1000),
                  "projectId", (int)between(r, 1, 2), "modelDefinition");
    buf_free(&yaml);
    must(body);
    return body;
}

static void submit(struct world *w, const struct outside *o)
{
    struct rng r;
    rng_seed(&r, o->a, o->b);
    json_t *body = submission(w, &r);
    char *text = xstrdup(jget_string(body, "config", ""));
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? ';' : *c;
    note_outside(w, "submit: %s", text);
    free(text);
    person_call(w, between(&r, 1, USERS), core_experiment_create, "submit", "", "", body,
                submitted);
}

// --- calls on experiments ------------------------------------------------------------------------

static bool some_experiment(const struct world *w, const struct outside *o, char out[24])
{
    if (!w->experiments)
        return false;
    snprintf(out, 24, "%lld", (long long)(1 + o->a % w->experiments));
    return true;
}

static void verb(struct world *w, const struct outside *o, core_handler *handler, const char *name,
                 json_t *body)
{
    char id[24];
    if (some_experiment(w, o, id))
        person_call(w, ADA, handler, name, id, "", body, NULL);
    else
        json_decref(body);
}

static void do_pause(struct world *w, const struct outside *o)
{
    verb(w, o, core_experiment_pause, "pause", NULL);
}

static void activate(struct world *w, const struct outside *o)
{
    verb(w, o, core_experiment_activate, "activate", NULL);
}

static void cancel(struct world *w, const struct outside *o)
{
    verb(w, o, core_experiment_cancel, "cancel", NULL);
}

static void do_kill(struct world *w, const struct outside *o)
{
    verb(w, o, core_experiment_kill, "kill", NULL);
}

static void delete (struct world *w, const struct outside *o)
{
    verb(w, o, core_experiment_delete, "delete", NULL);
}

static void archive(struct world *w, const struct outside *o)
{
    verb(w, o, o->b % 2 ? core_experiment_archive : core_experiment_unarchive, "archive", NULL);
}

static void patch(struct world *w, const struct outside *o)
{
    json_t *resources = json_object();
    if (o->b % 3 == 0)
        json_object_set_new(resources, "priority", json_integer(30 + o->c % 30));
    if (o->b % 3 == 1)
        json_object_set_new(resources, "maxSlots", json_integer(o->c % 16));
    if (o->b % 3 == 2)
        json_object_set_new(resources, "weight", json_real(1 + o->c % 5));
    verb(w, o, core_experiment_patch, "patch", json_pack("{s:o}", "resources", resources));
}

static void kill_trial(struct world *w, const struct outside *o)
{
    char id[24];
    snprintf(id, sizeof id, "%u", 1 + o->a % 20);
    person_call(w, ADA, core_trial_kill, "kill trial", id, "", NULL, NULL);
}

static void queue_look_up(struct world *w, const struct outside *o)
{
    static core_handler *const views[] = {core_job_queue, core_tasks, core_agents,
                                          core_resource_pools, core_shares};
    char id[24];
    if (o->b % 6 < 5)
        person_call(w, 2, views[o->b % 6], "look", "", "", NULL, NULL);
    else if (some_experiment(w, o, id))
        person_call(w, 2, core_experiment_why, "why", id, "", NULL, NULL);
}

// --- the queue and the teams ---------------------------------------------------------------------

static const char *job_of(const struct world *w, uint32_t number)
{
    const struct core *c = w->core;
    if (!c || !c->experiments.count)
        return NULL;
    const struct experiment *x = c->experiments.items[number % c->experiments.count].value;
    return x->active ? x->active->job_id : NULL;
}

static void move_job(struct world *w, const struct outside *o)
{
    const char *job = job_of(w, o->a), *other = job_of(w, o->b);
    json_t *update = json_pack("{s:s}", "jobId", job ? job : "none");
    if (o->c % 4 < 2 && other)
        json_object_set_new(update, o->c % 4 ? "aheadOf" : "behindOf", json_string(other));
    else if (o->c % 4 == 2 && w->pools > 1)
        json_object_set_new(update, "resourcePool", json_string(o->b % 2 ? "other" : "default"));
    else
        json_object_set_new(update, "priority", json_integer(30 + o->b % 30));
    person_call(w, ADA, core_job_queue_update, "move a job", "", "",
                json_pack("{s:[o]}", "updates", update), NULL);
}

static void set_workspace(struct world *w, const struct outside *o)
{
    const char *id = o->a % 2 ? "1" : "2";
    json_t *body = json_object();
    if (o->b % 3 == 0)
        json_object_set_new(body, "weight", json_real(1 + o->c % 5));
    if (o->b % 3 == 1)
        json_object_set_new(body, "guaranteedSlots",
                            json_integer(o->c % ((uint32_t)w->total_slots + 1)));
    if (o->b % 3 == 2)
        json_object_set_new(body, "maxSlots", json_integer(o->c % ((uint32_t)w->total_slots + 3)));
    w->limited = true;
    person_call(w, ADA, core_workspace_patch, "set workspace", id, "", body, NULL);
}

static void set_member(struct world *w, const struct outside *o)
{
    char user[16];
    json_t *body = o->b % 2 ? json_pack("{s:f}", "weight", 1.0 + o->c % 5)
                            : json_pack("{s:i}", "maxSlots", (int)(o->c % 8));
    snprintf(user, sizeof user, "%u", 1 + o->c % USERS);
    w->limited = true;
    person_call(w, ADA, core_member_set, "set member", o->a % 2 ? "1" : "2", user, body, NULL);
}

// --- operators -----------------------------------------------------------------------------------

static const struct machine *some_machine(const struct world *w, const struct outside *o)
{
    return w->machines[o->a % (uint32_t)w->machine_count];
}

static void enable_agent(struct world *w, const struct outside *o)
{
    person_call(w, ADA, core_agent_enable, "enable", some_machine(w, o)->id, "", NULL, NULL);
}

static void disable_agent(struct world *w, const struct outside *o)
{
    bool drain = o->b % 2;
    person_call(w, ADA, core_agent_disable, drain ? "drain" : "disable", some_machine(w, o)->id, "",
                json_pack("{s:b}", "drain", drain), NULL);
}

static void set_slot(struct world *w, const struct outside *o, bool enabled)
{
    char slot[16];
    const struct machine *m = some_machine(w, o);
    bool drain = o->c % 2;
    snprintf(slot, sizeof slot, "%u", o->b % (uint32_t)m->slots);
    person_call(w, ADA, enabled ? core_slot_enable : core_slot_disable,
                enabled ? "enable slot"
                : drain ? "drain slot"
                        : "disable slot",
                m->id, slot, json_pack("{s:b}", "drain", drain), NULL);
}

static void enable_slot(struct world *w, const struct outside *o)
{
    set_slot(w, o, true);
}

static void disable_slot(struct world *w, const struct outside *o)
{
    set_slot(w, o, false);
}

const struct outside_kind people_kinds[] = {
    {"submit", 30, submit},
    {"pause", 4, do_pause},
    {"activate", 4, activate},
    {"cancel", 2, cancel},
    {"kill", 2, do_kill},
    {"delete", 3, delete},
    {"archive", 1, archive},
    {"patch", 6, patch},
    {"kill_trial", 2, kill_trial},
    {"look", 4, queue_look_up},
    {"move_job", 6, move_job},
    {"set_workspace", 4, set_workspace},
    {"set_member", 3, set_member},
    {"enable_agent", 2, enable_agent},
    {"disable_agent", 3, disable_agent},
    {"enable_slot", 2, enable_slot},
    {"disable_slot", 3, disable_slot},
    {NULL, 0, NULL},
};

// --- the calm ------------------------------------------------------------------------------------

static void free_machine(struct world *w, const struct machine *m)
{
    char slot[16];
    person_call(w, ADA, core_agent_enable, "enable", m->id, "", NULL, NULL);
    for (int i = 0; i < m->slots; i++) {
        snprintf(slot, sizeof slot, "%d", i);
        person_call(w, ADA, core_slot_enable, "enable slot", m->id, slot, NULL, NULL);
    }
}

static void free_teams(struct world *w)
{
    static const char *const workspaces[] = {"1", "2"}, *const users[] = {"1", "2", "3"};
    for (int i = 0; i < 2; i++) {
        person_call(w, ADA, core_workspace_patch, "set workspace", workspaces[i], "",
                    json_pack("{s:i}", "maxSlots", 0), NULL);
        for (int k = 0; k < USERS; k++)
            person_call(w, ADA, core_member_set, "set member", workspaces[i], users[k],
                        json_pack("{s:i}", "maxSlots", 0), NULL);
    }
}

static void push_experiment(struct world *w, const struct experiment *x)
{
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)x->id);
    if (x->state == EXPERIMENT_PAUSED)
        person_call(w, ADA, core_experiment_activate, "activate", id, "", NULL, NULL);
    if (x->active && x->active->max_slots)
        person_call(w, ADA, core_experiment_patch, "patch", id, "",
                    json_pack("{s:{s:i}}", "resources", "maxSlots", 0), NULL);
    if (x->state == EXPERIMENT_DELETE_FAILED)
        person_call(w, ADA, core_experiment_delete, "delete", id, "", NULL, NULL);
}

void people_push_on(struct world *w)
{
    const struct core *c = w->core;
    if (!c)
        return;
    if (w->pushes % 8 == 0 &&
        w->pushes < 17) { // repeated after the last late message of the trouble
        for (int i = 0; i < w->machine_count; i++)
            free_machine(w, w->machines[i]);
        free_teams(w);
    }
    w->pushes++;
    for (size_t i = 0; i < c->experiments.count; i++)
        push_experiment(w, c->experiments.items[i].value);
}

bool people_done(struct world *w)
{
    const struct core *c = w->core;
    if (!c)
        return false;
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (!experiment_is_terminal(x->state) || x->state == EXPERIMENT_DELETING)
            return false;
    }
    return true;
}
