// The actions of the agent's state machine, and the slots that the scheduler may use.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"

static void agent_fell_silent(struct core *c, void *arg)
{
    agent_event(c, arg, AGENT_EV_SILENT);
}

static void agent_grace_over(struct core *c, void *arg)
{
    agent_event(c, arg, AGENT_EV_GRACE_OVER);
}

// An agent that has not been heard from yet. Versions start at the wall clock, so that they never
// repeat those of an earlier life of the master.
struct agent *agent_new(struct core *c, const char *id)
{
    struct agent *g = xcalloc(1, sizeof *g);
    size_t at = c->agent_count;
    c->agents = xrealloc(c->agents, (c->agent_count + 1) * sizeof(struct agent *));
    for (; at && strcmp(c->agents[at - 1]->id, id) > 0; at--)
        c->agents[at] = c->agents[at - 1];
    c->agents[at] = g;
    c->agent_count++;
    g->id = xstrdup(id);
    g->state = AGENT_LOST;
    g->enabled = true;
    g->handle = SCHED_NONE;
    g->pool = core_pool_get(c, "");
    g->slots = json_array();
    g->overruled = json_array();
    g->address = xstrdup("");
    g->hostname = xstrdup("");
    g->master_url = xstrdup("");
    g->rack = xstrdup("");
    g->mount_fault = xstrdup("");
    g->instance = xstrdup("");
    g->desired = c->wall;
    g->registered_at = g->heard_at = c->wall;
    g->silence = (struct timer){.fire = agent_fell_silent, .arg = g};
    g->grace = (struct timer){.fire = agent_grace_over, .arg = g};
    return g;
}

void agent_free(struct agent *g)
{
    char *const texts[] = {g->id,      g->address,     g->hostname, g->version,  g->master_url,
                           g->session, g->old_session, g->rack,     g->instance, g->mount_fault};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    json_decref(g->slots);
    json_decref(g->handle_near);
    json_decref(g->lost_runs);
    json_decref(g->overruled);
    json_decref(g->utilization);
    json_decref(g->protections);
    json_decref(g->limits);
    free(g->slot_setting);
    free(g);
}

// The object stays, since trials may have excluded the agent. Without a version nobody sees it.
void agent_forget(struct agent *g)
{
    free(g->version);
    g->version = NULL;
    g->enabled = true;
    g->draining = false;
    for (int i = 0; i < g->slot_setting_count; i++)
        g->slot_setting[i] = SLOT_ENABLED;
    json_decref(g->lost_runs);
    g->lost_runs = NULL;
    g->lost_at = 0;
}

// An operator's setting of a slot is kept when the machine comes back without that slot: it may
// have it again later.
static void slot_settings_grow(struct agent *g, int count)
{
    if (count <= g->slot_setting_count && g->slot_setting)
        return;
    g->slot_setting = xrealloc(g->slot_setting, ((size_t)count + 1) * sizeof *g->slot_setting);
    for (int i = g->slot_setting_count; i < count; i++)
        g->slot_setting[i] = SLOT_ENABLED;
    g->slot_setting_count = count;
}

int agent_set_slots(struct agent *g, json_t *slots, struct error *e)
{
    size_t i;
    json_t *slot;
    size_t count = json_array_size(slots);
    if (!json_is_array(slots) || count > LIMIT_SLOTS_PER_AGENT)
        return error_set(e, ERR_INVALID, "slots: a list of at most %d slots",
                         LIMIT_SLOTS_PER_AGENT);
    json_array_foreach(slots, i, slot)
    {
        if (jget_int(slot, "id", -1) != (int64_t)i)
            return error_set(e, ERR_INVALID, "slots.%zu.id: slots are numbered from 0", i);
    }
    slot_settings_grow(g, (int)count);
    json_decref(g->slots);
    g->slot_count = (int)count;
    g->slots = json_incref(slots);
    agent_prune_overruled(g);
    return 0;
}

// Returns the disabled slots as the store holds them: a list of slot numbers, and {"draining":
// number} for slots whose tasks may end.
void agent_disable_slots(struct agent *g, const json_t *list)
{
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry)
    {
        bool draining = json_is_object(entry);
        int64_t slot =
            draining ? jget_int(entry, "draining", -1) : (int64_t)json_integer_value(entry);
        if (slot < 0 || slot >= LIMIT_SLOTS_PER_AGENT)
            continue;
        slot_settings_grow(g, (int)slot + 1);
        g->slot_setting[slot] = draining ? SLOT_DRAINING : SLOT_DISABLED;
    }
}

char *agent_disabled_slots(const struct agent *g)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text, LIMIT_BODY_SMALL);
    jw_init(&w, &text);
    jw_array(&w);
    for (int i = 0; i < g->slot_setting_count; i++) {
        if (g->slot_setting[i] == SLOT_DISABLED)
            jw_int(&w, i);
        if (g->slot_setting[i] != SLOT_DRAINING)
            continue;
        jw_object(&w);
        jw_kv_int(&w, "draining", i);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    return buf_take(&text);
}

bool agent_allows(const struct agent *g, const struct part *p)
{
    if (!g->enabled && !g->draining)
        return false;
    for (int i = 0; i < p->slot_count; i++)
        if (g->slot_setting[p->slots[i]] == SLOT_DISABLED || agent_slot_fault(g, p->slots[i]))
            return false;
    return true;
}

// The number of the group of slots that this slot is near to, as the agent reports it; -1: none.
static int agent_slot_group(const struct agent *g, int slot, const char *kind)
{
    int64_t group = jget_int(json_array_get(g->slots, (size_t)slot), kind, -1);
    return group >= 0 && group < LIMIT_SLOTS_PER_AGENT ? (int)group : -1;
}

static bool part_in_one_group(const struct part *p, const char *kind)
{
    int group = agent_slot_group(p->agent, p->slots[0], kind);
    for (int i = 1; i < p->slot_count; i++)
        if (agent_slot_group(p->agent, p->slots[i], kind) != group)
            return false;
    return group >= 0;
}

static bool agent_has_groups(const struct agent *g)
{
    for (int i = 0; i < g->slot_count; i++)
        if (agent_slot_group(g, i, "nvlinkGroup") >= 0 || agent_slot_group(g, i, "numaGroup") >= 0)
            return true;
    return false;
}

const char *part_nearness(const struct part *p)
{
    if (p->slot_count < 2 || !agent_has_groups(p->agent))
        return NULL;
    if (part_in_one_group(p, "nvlinkGroup"))
        return "nvlink";
    return part_in_one_group(p, "numaGroup") ? "numa" : "apart";
}

// --- the scheduler's view ------------------------------------------------------------------------

static void handle_renew(struct core *c, struct agent *g)
{
    if (g->handle != SCHED_NONE)
        sched_agent_remove(c->sched, g->handle);
    g->handle_rack = core_rack_number(c, g->rack);
    g->handle = sched_agent_add(c->sched, g->pool->handle, g->slot_count, g->handle_rack);
    g->handle_pool = g->pool;
    g->handle_slots = g->slot_count;
    json_decref(g->handle_near);
    g->handle_near = NULL;
    if ((size_t)g->handle >= c->handle_count) {
        c->handle_count = (size_t)g->handle + 1;
        c->agent_of_handle = xrealloc(c->agent_of_handle, c->handle_count * sizeof(struct agent *));
    }
    c->agent_of_handle[g->handle] = g;
}

// The first slot with the same name.
static int slot_model(const struct agent *g, int slot)
{
    const char *name = jget_string(json_array_get(g->slots, (size_t)slot), "name", "");
    int first = 0;
    while (strcmp(jget_string(json_array_get(g->slots, (size_t)first), "name", ""), name))
        first++;
    return first;
}

static void handle_set_groups(struct core *c, struct agent *g)
{
    int nvlink[LIMIT_SLOTS_PER_AGENT], numa[LIMIT_SLOTS_PER_AGENT], model[LIMIT_SLOTS_PER_AGENT];
    if (g->handle_near == g->slots)
        return;
    for (int i = 0; i < g->slot_count; i++) {
        nvlink[i] = agent_slot_group(g, i, "nvlinkGroup");
        numa[i] = agent_slot_group(g, i, "numaGroup");
        model[i] = slot_model(g, i);
    }
    sched_agent_set_nearness(c->sched, g->handle, nvlink, numa, model);
    json_decref(g->handle_near);
    g->handle_near = json_incref(g->slots);
}

// The scheduler may use the slots of an agent that is connected and enabled and runs no stray
// tasks. A change of slots or pool takes effect when the tasks on the old slots have ended; so does
// a change of rack, but new tasks may start meanwhile.
void agent_refresh(struct core *c, struct agent *g)
{
    bool same =
        g->handle != SCHED_NONE && g->handle_slots == g->slot_count && g->handle_pool == g->pool;
    bool moved = same && core_rack_number(c, g->rack) != g->handle_rack;
    if ((!same || moved) && !g->parts) {
        handle_renew(c, g);
        same = true;
    }
    if (g->handle == SCHED_NONE)
        return;
    if (same)
        handle_set_groups(c, g);
    for (int i = 0; same && i < g->slot_count; i++)
        sched_slot_set(c->sched, g->handle, i, agent_slot_usable(g, i));
    sched_agent_set(c->sched, g->handle,
                    same && g->state == AGENT_CONNECTED && g->enabled && !g->stray_tasks);
    c->sched_due = true;
}

void agent_changed(struct core *c, struct agent *g)
{
    change_mark(c, EVENT_AGENT, 0, 0, g->id);
    g->desired++;
    if (g->answer_due)
        return;
    g->answer_due = true;
    g->due_next = c->due_agents;
    c->due_agents = g;
}

// --- events --------------------------------------------------------------------------------------

static json_t *agent_runs(const struct agent *g)
{
    json_t *runs = json_array();
    for (const struct part *p = g->parts; p; p = p->next_on_agent) {
        json_t *slots = json_array();
        for (int i = 0; i < p->slot_count; i++)
            json_array_append_new(slots, json_integer(p->slots[i]));
        json_array_append_new(
            runs, json_pack("{s:s, s:o}", "allocationId", p->allocation->id, "slots", slots));
    }
    return runs;
}

// The agent is listed as lost, with the tasks it ran, until it comes back or is forgotten.
static void agent_set_lost(struct agent *g, int64_t at, json_t *runs)
{
    json_decref(g->lost_runs);
    g->lost_at = at;
    g->lost_runs = runs;
}

static void agent_give_up(struct core *c, struct agent *g)
{
    char span[32];
    agent_set_lost(g, c->wall, agent_runs(g));
    meters_count(c->options.meters, METER_AGENTS_LOST, 1);
    char *ran = json_text(g->lost_runs);
    STORE(c, AGENT_LOST, g->lost_at, ran, g->id);
    free(ran);
    duration_format(c->options.agent_silence_us + c->options.agent_reconnect_us, span, sizeof span);
    char *reason = xasprintf("agent %s was lost: no call for %s", g->id, span);
    for (struct part *p = g->parts, *next; p; p = next) {
        next = p->next_on_agent;
        part_exited(c, p, OUTCOME_LOST, reason);
    }
    free(reason);
}

// Tasks that ran before and are not reported are gone. A task that was never seen to begin may
// still begin.
static void agent_reconcile(struct core *c, struct agent *g)
{
    char *reason = xasprintf("agent %s came back without it", g->id);
    for (struct part *p = g->parts, *next; p; p = next) {
        next = p->next_on_agent;
        if (!p->reported && p->state != PART_ASSIGNED)
            part_exited(c, p, OUTCOME_LOST, reason);
    }
    free(reason);
}

static void agent_disconnect(struct core *c, struct agent *g)
{
    struct error e = {0};
    error_set(&e, ERR_TIMEOUT, "agent %s does not call any more", g->id);
    if (g->poll)
        core_refuse(c, core_unpark(c, g->poll), &e);
    timer_clear(&c->timers, &g->silence);
    timer_set(&c->timers, &g->grace, c->now + c->options.agent_reconnect_us);
}

void agent_event(struct core *c, struct agent *g, enum agent_event ev)
{
    struct transition to = agent_transition(g->state, ev);
    if (to.action == AGENT_DO_NOTHING)
        return;
    log_info(to.next == AGENT_CONNECTED ? "agent connected"
             : to.next == AGENT_AWAY    ? "agent not connected"
                                        : "agent lost",
             "agent=%s slots=%d", g->id, g->slot_count);
    if (to.next == AGENT_CONNECTED && g->state != AGENT_CONNECTED)
        g->connected_at = c->wall;
    g->state = (enum agent_state)to.next;
    change_mark(c, EVENT_AGENT, 0, 0, g->id);
    if (g->state != AGENT_LOST) {
        STORE(c, AGENT_SEEN, g->heard_at, g->id);
        agent_set_lost(g, 0, NULL);
    }
    switch ((enum agent_action)to.action) {
    case AGENT_DO_NOTHING:
        break;
    case AGENT_DO_RECONCILE:
        agent_reconcile(c, g);
        timer_clear(&c->timers, &g->grace);
        break;
    case AGENT_DO_RETURN:
        timer_clear(&c->timers, &g->grace);
        break;
    case AGENT_DO_LEAVE:
        agent_disconnect(c, g);
        break;
    case AGENT_DO_GIVE_UP:
        agent_give_up(c, g);
        break;
    }
    agent_refresh(c, g);
}
