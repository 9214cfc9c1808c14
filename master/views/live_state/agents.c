// Agents and their slots.
#include <stdio.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"
#include "master/views/live_state/live_state.h"

// --- slots ---------------------------------------------------------------------------------------

static const char *const container_states[] = {[PART_ASSIGNED] = "STATE_ASSIGNED",
                                               [PART_STARTING] = "STATE_STARTING",
                                               [PART_RUNNING] = "STATE_RUNNING",
                                               [PART_EXITED] = "STATE_TERMINATED"};

void write_device(struct json_writer *w, const json_t *device, int slot)
{
    static const char *const facts[] = {"memory", "pciBusId", "driver", "nvlinkGroup", "numaGroup"};
    jw_object(w);
    jw_kv_int(w, "id", slot);
    jw_kv_string(w, "brand", jget_string(device, "name", ""));
    jw_kv_string(w, "uuid", jget_string(device, "uuid", ""));
    jw_kv_string(w, "type", wire_name(WIRE_DEVICE_TYPE, jget_string(device, "type", "CPU")));
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (jget(device, facts[i])) {
            jw_key(w, facts[i]);
            jw_json(w, jget(device, facts[i]));
        }
    jw_object_end(w);
}

static void write_container(struct json_writer *w, const struct container_snapshot *container)
{
    jw_object(w);
    jw_kv_string(w, "parent", container->task_id);
    jw_kv_string(w, "id", container->id);
    jw_kv_string(w, "state", container_states[container->state]);
    jw_key(w, "devices");
    jw_array(w);
    for (int i = 0; i < container->slot_count; i++)
        write_device(w, container->devices[i], container->slots[i]);
    jw_array_end(w);
    jw_kv_string(w, "allocationId", container->allocation_id);
    jw_object_end(w);
}

static void write_fault(struct json_writer *w, const struct agent_snapshot *g, int slot)
{
    const json_t *fault = jget(json_array_get(g->devices, (size_t)slot), "fault");
    if (!fault)
        return;
    jw_key(w, "fault");
    jw_object(w);
    jw_kv_string(w, "grade", jget_string(fault, "grade", ""));
    jw_kv_string(w, "reason", jget_string(fault, "reason", ""));
    if (jget(fault, "time"))
        jw_kv_string(w, "time", jget_string(fault, "time", ""));
    jw_kv_bool(w, "overruled", g->slots[slot].fault_overruled);
    jw_object_end(w);
}

static void write_use(struct json_writer *w, const struct agent_snapshot *g, int slot)
{
    const json_t *use = json_array_get(g->use, (size_t)slot);
    if (!json_is_object(use))
        return;
    jw_key(w, "use");
    jw_json(w, use);
}

static void write_slot(struct json_writer *w, const struct agent_snapshot *g, int number)
{
    const struct slot_snapshot *slot = &g->slots[number];
    char id[16];
    snprintf(id, sizeof id, "%d", number);
    jw_object(w);
    jw_kv_string(w, "id", id);
    jw_key(w, "device");
    write_device(w, json_array_get(g->devices, (size_t)number), number);
    jw_kv_bool(w, "enabled", slot->enabled);
    jw_key(w, "container");
    if (slot->container)
        write_container(w, slot->container);
    else
        jw_null(w);
    jw_kv_bool(w, "draining", slot->draining);
    write_fault(w, g, number);
    write_use(w, g, number);
    jw_object_end(w);
}

// --- counts of slots by type and by brand --------------------------------------------------------

static const char *slot_kind(const struct agent_snapshot *g, int slot, bool by_type)
{
    const json_t *device = json_array_get(g->devices, (size_t)slot);
    return by_type ? wire_name(WIRE_DEVICE_TYPE, jget_string(device, "type", "CPU"))
                   : jget_string(device, "name", "");
}

// Counts the slots of the same kind as slot `first`, which is the first of its kind.
static void write_kind_stats(struct json_writer *w, const struct agent_snapshot *g, int first,
                             bool by_type)
{
    int64_t total = 0, disabled = 0, draining = 0, states[PART_EXITED + 1] = {0};
    for (int i = first; i < g->slot_count; i++) {
        if (strcmp(slot_kind(g, i, by_type), slot_kind(g, first, by_type)))
            continue;
        total++;
        disabled += !g->slots[i].enabled;
        draining += g->slots[i].draining;
        if (g->slots[i].container)
            states[g->slots[i].container->state]++;
    }
    jw_object(w);
    jw_key(w, "states");
    jw_object(w);
    for (int i = 0; i <= PART_EXITED; i++)
        if (states[i])
            jw_kv_int(w, container_states[i], states[i]);
    jw_object_end(w);
    jw_kv_int(w, "total", total);
    jw_kv_int(w, "disabled", disabled);
    jw_kv_int(w, "draining", draining);
    jw_object_end(w);
}

static void write_stats(struct json_writer *w, const char *key, const struct agent_snapshot *g,
                        bool by_type)
{
    jw_key(w, key);
    jw_object(w);
    for (int i = 0, earlier; i < g->slot_count; i++) {
        const char *kind = slot_kind(g, i, by_type);
        for (earlier = 0; earlier < i; earlier++)
            if (!strcmp(slot_kind(g, earlier, by_type), kind))
                break;
        if (earlier < i)
            continue;
        jw_key(w, kind);
        write_kind_stats(w, g, i, by_type);
    }
    jw_object_end(w);
}

// --- agents --------------------------------------------------------------------------------------

static void write_protections(struct json_writer *w, const json_t *list)
{
    size_t i;
    json_t *entry;
    if (!json_is_array(list))
        return;
    jw_key(w, "protections");
    jw_array(w);
    json_array_foreach(list, i, entry)
    {
        jw_object(w);
        jw_kv_string(w, "name", jget_string(entry, "name", ""));
        jw_kv_bool(w, "active", jget_bool(entry, "active", false));
        jw_kv_string(w, "reason", jget_string(entry, "reason", ""));
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_limits(struct json_writer *w, const json_t *limits)
{
    static const char *const names[] = {"processes", "memory", "disk", "files", "diskFloor"};
    if (!json_is_object(limits))
        return;
    jw_key(w, "taskLimits");
    jw_object(w);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        jw_kv_int(w, names[i], jget_int(limits, names[i], 0));
    jw_object_end(w);
}

static void write_agent(struct json_writer *w, const struct agent_snapshot *g)
{
    char time[CLOCK_RFC3339_MAX];
    jw_object(w);
    jw_kv_string(w, "id", g->id);
    jw_kv_string(w, "registeredTime", clock_format(g->registered_at, time));
    jw_key(w, "slots");
    jw_object(w);
    for (int i = 0; i < g->slot_count; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        jw_key(w, key);
        write_slot(w, g, i);
    }
    jw_object_end(w);
    jw_key(w, "containers");
    jw_object(w);
    for (int i = 0; i < g->container_count; i++) {
        jw_key(w, g->containers[i].id);
        write_container(w, &g->containers[i]);
    }
    jw_object_end(w);
    jw_kv_string(w, "label", "");
    jw_key(w, "resourcePools");
    jw_array(w);
    jw_string(w, g->pool);
    jw_array_end(w);
    jw_key(w, "addresses");
    jw_array(w);
    jw_string(w, g->address);
    jw_array_end(w);
    jw_kv_bool(w, "enabled", g->enabled);
    jw_kv_bool(w, "draining", g->draining);
    jw_kv_string(w, "version", g->version);
    jw_kv_string(w, "hostname", g->hostname);
    jw_kv_string(w, "rack", g->rack);
    jw_kv_bool(w, "connected", g->connected);
    jw_kv_bool(w, "lost", g->lost);
    jw_kv_string(w, "lastSeen", clock_format(g->heard_at, time));
    if (g->ran) {
        jw_key(w, "ran");
        jw_json(w, g->ran);
    }
    write_protections(w, g->protections);
    write_limits(w, g->limits);
    jw_key(w, "slotStats");
    jw_object(w);
    write_stats(w, "typeStats", g, true);
    write_stats(w, "brandStats", g, false);
    jw_object_end(w);
    jw_object_end(w);
}

int render_agents(struct view *v, struct error *e)
{
    const struct agents_snapshot *agents = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "agents");
    jw_array(&v->w);
    for (int64_t i = 0; i < agents->page.shown; i++)
        write_agent(&v->w, &agents->items[i]);
    jw_array_end(&v->w);
    write_page(&v->w, &agents->page);
    jw_object_end(&v->w);
    return 0;
}

int render_agent(struct view *v, struct error *e)
{
    const struct agents_snapshot *agents = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "agent");
    write_agent(&v->w, agents->items);
    jw_object_end(&v->w);
    return 0;
}

int render_slots(struct view *v, struct error *e)
{
    const struct agents_snapshot *agents = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "slots");
    jw_array(&v->w);
    for (int i = 0; i < agents->items->slot_count; i++)
        write_slot(&v->w, agents->items, i);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}

int render_slot(struct view *v, struct error *e)
{
    const struct agents_snapshot *agents = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "slot");
    write_slot(&v->w, agents->items, (int)v->rq->id);
    jw_object_end(&v->w);
    return 0;
}
