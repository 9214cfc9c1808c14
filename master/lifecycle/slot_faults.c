// Faults that agents report about their slots: {grade, reason, time} with each slot that has one.
// Grades: "noted" only adds a line to the log of the task there; "drains" takes the slot out of
// use; "ends" also ends the task there, without blaming its program, as after the loss of a
// machine.
//
// An operator who enables a slot overrules its present fault, and no other. The overruled fault
// is stored with the slot until the agent stops reporting it.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "master/kernel/module.h"
#include "master/lifecycle/lifecycle.h"

static const json_t *slot_json(const struct agent *g, int slot)
{
    return json_array_get(g->slots, (size_t)slot);
}

static const json_t *slot_fault(const struct agent *g, int slot)
{
    return jget(slot_json(g, slot), "fault");
}

bool agent_fault_is_overruled(const struct agent *g, int slot)
{
    const json_t *overruled = json_array_get(g->overruled, (size_t)slot);
    return json_is_object(overruled) && json_equal(overruled, slot_fault(g, slot));
}

static bool fault_is_noted(const json_t *fault)
{
    return !strcmp(jget_string(fault, "grade", ""), "noted");
}

const char *agent_slot_fault(const struct agent *g, int slot)
{
    const json_t *fault = slot_fault(g, slot);
    if (!fault || fault_is_noted(fault) || agent_fault_is_overruled(g, slot))
        return NULL;
    return jget_string(fault, "reason", "");
}

bool agent_slot_usable(const struct agent *g, int slot)
{
    return g->slot_setting[slot] == SLOT_ENABLED && !agent_slot_fault(g, slot);
}

void agent_overrule_fault(struct agent *g, int slot)
{
    const json_t *fault = slot_fault(g, slot);
    if (fault)
        json_array_set(g->overruled, (size_t)slot, (json_t *)fault);
}

// --- storing -------------------------------------------------------------------------------------

// Keeps one entry for each slot; overruled faults that are not reported any more are dropped.
void agent_prune_overruled(struct agent *g)
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

// For the store: the slots, with `overruled` beside the slot's fault.
static char *agent_slots_text(const struct agent *g)
{
    json_t *list = json_array();
    for (int i = 0; i < g->slot_count; i++) {
        json_t *slot = json_copy((json_t *)slot_json(g, i));
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

// --- effects -------------------------------------------------------------------------------------

struct part *agent_part_on_slot(const struct agent *g, int slot)
{
    for (struct part *p = g->parts; p; p = p->next_on_agent)
        for (int i = 0; i < p->slot_count; i++)
            if (p->slots[i] == slot)
                return p;
    return NULL;
}

static void fault_drain(struct core *c, struct allocation *a, const char *why)
{
    allocation_event(c, a, ALLOCATION_EV_DRAIN);
    if (!a->preempt_reason)
        a->preempt_reason = xstrdup(why);
}

// Returns the consequence of a fault as text for people. NULL: there is none, or the end of a task
// that runs once explains it.
static const char *fault_consequence(const struct allocation *a, const json_t *fault)
{
    bool ends = !strcmp(jget_string(fault, "grade", ""), "ends");
    if (fault_is_noted(fault) || a->trial->state != TRIAL_ACTIVE)
        return NULL;
    if (!active_experiment_runs_once(a->trial->active))
        return !ends ? "it is asked to save its work, and continues elsewhere"
               : *a->trial->checkpoint
                   ? "it continues elsewhere from its last checkpoint"
                   : "it has no checkpoint yet, and starts from the beginning elsewhere";
    return ends || a->state == ALLOCATION_ASSIGNED
               ? NULL
               : "it continues here, since it cannot be started a second time";
}

static void fault_apply(struct core *c, struct agent *g, int slot)
{
    const json_t *fault = slot_fault(g, slot), *device = slot_json(g, slot);
    const struct part *p = agent_part_on_slot(g, slot);
    bool ends = !strcmp(jget_string(fault, "grade", ""), "ends");
    if (!p)
        return;
    struct allocation *a = p->allocation;
    char *text = xasprintf("slot %d of agent %s (%s): %s", slot, g->id,
                           jget_string(device, "uuid", ""), jget_string(fault, "reason", ""));
    CORE_DISPATCH(c, trial_message, c, a->trial, a->id, fault_is_noted(fault) ? "WARNING" : "ERROR",
                  text);
    if (fault_consequence(a, fault))
        CORE_DISPATCH(c, trial_message, c, a->trial, a->id, "INFO", fault_consequence(a, fault));
    if (ends)
        allocation_kill(c, a, OUTCOME_LOST, text);
    else if (!fault_is_noted(fault))
        fault_drain(c, a, text);
    free(text);
}

void agent_apply_faults(struct core *c, struct agent *g, const json_t *before)
{
    for (int i = 0; i < g->slot_count; i++) {
        const json_t *fault = slot_fault(g, i),
                     *old = jget(json_array_get(before, (size_t)i), "fault");
        if (fault && !json_equal(fault, old) && !agent_fault_is_overruled(g, i))
            fault_apply(c, g, i);
    }
}

// --- utilization ---------------------------------------------------------------------------------

// Adds the means over the devices, for charts: {name: mean}; for a trial on several machines {"name
// agent": mean}.
static void means_add(json_t *values, const struct part *p, json_t *devices)
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

// In the form of Determined's profiler, {agent: {device: {name: value}}}, with the means beside it.
static json_t *part_utilization(const struct agent *g, const struct part *p)
{
    json_t *devices = json_object();
    for (int i = 0; i < p->slot_count; i++) {
        json_t *use = json_array_get(jget(g->utilization, "slots"), (size_t)p->slots[i]);
        if (json_is_object(use))
            json_object_set(devices, jget_string(slot_json(g, p->slots[i]), "uuid", ""), use);
    }
    json_t *values = json_pack("{s:o}", g->id, devices);
    means_add(values, p, devices);
    return values;
}

// A repeated call brings the same values again; they are recorded once.
void agent_record_utilization(struct core *c, struct agent *g, const json_t *use,
                              struct arena *arena)
{
    int64_t time;
    if (!use || clock_parse(jget_string(use, "time", ""), &time) || time == g->utilization_at)
        return;
    g->utilization_at = time;
    json_decref(g->utilization);
    g->utilization = json_incref((json_t *)use);
    for (const struct part *p = g->parts; p; p = p->next_on_agent) {
        if (p->state != PART_RUNNING || !p->slot_count)
            continue;
        json_t *values = part_utilization(g, p);
        CORE_DISPATCH(c, machine_measured, c, p->allocation->trial, jget_string(use, "group", ""),
                      values, time, arena);
        json_decref(values);
    }
}
