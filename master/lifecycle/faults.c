// What agents say of the health of their slots: {grade, reason, time} with each slot that has met
// with something. Grades: "noted" is said in the log of what runs there; "drains" takes the slot
// out of use; "ends" does so and ends what runs there, without blame: as when a machine is lost.
//
// An operator who enables a slot overrules its fault, that one alone. This is kept with the slot in
// the store, and goes when the agent does not report the fault any more.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "master/kernel/module.h"
#include "master/lifecycle/lifecycle.h"

static const json_t *slot_of(const struct agent *g, int slot)
{
    return json_array_get(g->slots, (size_t)slot);
}

static const json_t *fault_of(const struct agent *g, int slot)
{
    return jget(slot_of(g, slot), "fault");
}

bool agent_fault_is_overruled(const struct agent *g, int slot)
{
    const json_t *overruled = json_array_get(g->overruled, (size_t)slot);
    return json_is_object(overruled) && json_equal(overruled, fault_of(g, slot));
}

static bool is_noted(const json_t *fault)
{
    return !strcmp(jget_string(fault, "grade", ""), "noted");
}

const char *agent_slot_fault(const struct agent *g, int slot)
{
    const json_t *fault = fault_of(g, slot);
    if (!fault || is_noted(fault) || agent_fault_is_overruled(g, slot))
        return NULL;
    return jget_string(fault, "reason", "");
}

bool agent_slot_usable(const struct agent *g, int slot)
{
    return g->slot_use[slot] == SLOT_USED && !agent_slot_fault(g, slot);
}

void agent_overrule(struct agent *g, int slot)
{
    const json_t *fault = fault_of(g, slot);
    if (fault)
        json_array_set(g->overruled, (size_t)slot, (json_t *)fault);
}

// --- with the slots ------------------------------------------------------------------------------

// One for each slot; those that are not reported any more go.
void agent_renew_overruled(struct agent *g)
{
    json_t *renewed = json_array();
    for (int i = 0; i < g->slot_count; i++) {
        json_t *kept =
            agent_fault_is_overruled(g, i) ? json_array_get(g->overruled, (size_t)i) : json_null();
        must(!json_array_append(renewed, kept));
    }
    json_decref(g->overruled);
    g->overruled = renewed;
}

// Of the store: `overruled` beside the slot's fault.
static char *agent_slots_text(const struct agent *g)
{
    json_t *list = json_array();
    for (int i = 0; i < g->slot_count; i++) {
        json_t *slot = json_copy((json_t *)slot_of(g, i));
        if (agent_fault_is_overruled(g, i))
            json_object_set(slot, "overruled", json_array_get(g->overruled, (size_t)i));
        json_array_append_new(list, slot);
    }
    char *text = json_text(list);
    json_decref(list);
    return text;
}

void agent_load_overruled(struct agent *g)
{
    for (int i = 0; i < g->slot_count; i++) {
        json_t *slot = json_array_get(g->slots, (size_t)i), *overruled = jget(slot, "overruled");
        if (!overruled)
            continue;
        json_array_set(g->overruled, (size_t)i, overruled);
        json_object_del(slot, "overruled"); // as the agent reports it
    }
}

void agent_store(struct core *c, const struct agent *g)
{
    char *slots = agent_slots_text(g);
    STORE(c, AGENT_UPSERT, g->id, g->pool->name, slots, g->version, g->registered_at, c->wall,
          g->rack, g->instance);
    free(slots);
}

// --- what follows --------------------------------------------------------------------------------

struct part *agent_part_on_slot(const struct agent *g, int slot)
{
    for (struct part *p = g->parts; p; p = p->next_on_agent)
        for (int i = 0; i < p->slot_count; i++)
            if (p->slots[i] == slot)
                return p;
    return NULL;
}

static void drain(struct core *c, struct allocation *a, const char *why)
{
    allocation_event(c, a, ALLOCATION_EV_DRAIN);
    if (!a->leave)
        a->leave = xstrdup(why);
}

// What comes of a fault, for people; what runs once and is ended by it hears it at its end.
static const char *consequence(const struct allocation *a, const json_t *fault)
{
    bool ends = !strcmp(jget_string(fault, "grade", ""), "ends");
    if (is_noted(fault) || a->trial->state != TRIAL_ACTIVE)
        return NULL;
    if (!active_experiment_runs_once(a->trial->active))
        return !ends                   ? "it is asked to save its work, and goes on elsewhere"
               : *a->trial->checkpoint ? "it goes on elsewhere from its last checkpoint"
                                       : "it has no checkpoint yet, and starts anew elsewhere";
    return ends || a->state == ALLOCATION_ASSIGNED
               ? NULL
               : "it goes on here, since it cannot be started a second time";
}

static void strike(struct core *c, struct agent *g, int slot)
{
    const json_t *fault = fault_of(g, slot), *device = slot_of(g, slot);
    const struct part *p = agent_part_on_slot(g, slot);
    bool ends = !strcmp(jget_string(fault, "grade", ""), "ends");
    if (!p)
        return;
    struct allocation *a = p->allocation;
    char *text = xasprintf("slot %d of agent %s (%s): %s", slot, g->id,
                           jget_string(device, "uuid", ""), jget_string(fault, "reason", ""));
    CORE_DISPATCH(c, trial_message, c, a->trial, a->id, is_noted(fault) ? "WARNING" : "ERROR",
                  text);
    if (consequence(a, fault))
        CORE_DISPATCH(c, trial_message, c, a->trial, a->id, "INFO", consequence(a, fault));
    if (ends)
        allocation_kill(c, a, OUTCOME_LOST, text);
    else if (!is_noted(fault))
        drain(c, a, text);
    free(text);
}

void agent_take_faults(struct core *c, struct agent *g, const json_t *before)
{
    for (int i = 0; i < g->slot_count; i++) {
        const json_t *fault = fault_of(g, i),
                     *old = jget(json_array_get(before, (size_t)i), "fault");
        if (fault && !json_equal(fault, old) && !agent_fault_is_overruled(g, i))
            strike(c, g, i);
    }
}

// --- how much the slots are used -----------------------------------------------------------------

// Over the devices, for charts: {name: mean}; of a trial on several machines {"name agent": mean}.
static void put_means(json_t *values, const struct part *p, json_t *devices)
{
    static const struct {
        const char *of, *name;
        double unit;
    } charts[] = {{"gpu_util", "gpu_util", 1},
                  {"gpu_used_memory", "gpu_used_gib", 1 << 30},
                  {"gpu_temperature", "gpu_temperature", 1},
                  {"gpu_power", "gpu_power", 1}};
    bool alone = p->allocation->part_count == 1;
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++) {
        json_t *device;
        const char *uuid;
        double sum = 0, count = 0;
        json_object_foreach(devices, uuid, device)
        {
            const json_t *value = jget(device, charts[i].of);
            sum += json_number_value(value);
            count += value != NULL;
        }
        char *key =
            xasprintf("%s%s%s", charts[i].name, alone ? "" : " ", alone ? "" : p->agent->id);
        if (count > 0)
            json_object_set_new(values, key, json_real(sum / count / charts[i].unit));
        free(key);
    }
}

// As Determined's profiler reports it, {agent: {device: {name: value}}}, and beside it the means.
static json_t *use_of_part(const struct agent *g, const struct part *p)
{
    json_t *devices = json_object();
    for (int i = 0; i < p->slot_count; i++) {
        json_t *use = json_array_get(jget(g->use, "slots"), (size_t)p->slots[i]);
        if (json_is_object(use))
            json_object_set(devices, jget_string(slot_of(g, p->slots[i]), "uuid", ""), use);
    }
    json_t *values = json_pack("{s:o}", g->id, devices);
    put_means(values, p, devices);
    return values;
}

// Each is taken once: a call that is made again brings it again.
void agent_take_use(struct core *c, struct agent *g, const json_t *use, struct arena *arena)
{
    int64_t time;
    if (!use || clock_parse(jget_string(use, "time", ""), &time) || time == g->used_at)
        return;
    g->used_at = time;
    json_decref(g->use);
    g->use = json_incref((json_t *)use);
    for (const struct part *p = g->parts; p; p = p->next_on_agent) {
        if (p->state != PART_RUNNING || !p->slot_count)
            continue;
        json_t *values = use_of_part(g, p);
        CORE_DISPATCH(c, machine_measured, c, p->allocation->trial, jget_string(use, "group", ""),
                      values, time, arena);
        json_decref(values);
    }
}
