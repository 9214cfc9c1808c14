// The live values of agents and queues, which their changes carry because they are not in the
// store.
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"
#include "master/notify/module.h"

enum { TEXT_MAX = 64 * 1024 };

static void write_agent(struct core *c, struct json_writer *w, const char *id)
{
    const struct agent *g = core_agent_find(c, id);
    int used = 0, usable = 0;
    jw_kv_string(w, "id", id);
    if (!g)
        return;
    for (const struct part *p = g->parts; p; p = p->next_on_agent)
        used += p->slot_count;
    for (int i = 0; i < g->slot_count; i++)
        usable += g->enabled && agent_slot_usable(g, i);
    jw_kv_string(w, "resourcePool", g->pool->name);
    jw_kv_bool(w, "connected", g->state == AGENT_CONNECTED);
    jw_kv_bool(w, "lost", g->state == AGENT_LOST);
    jw_kv_bool(w, "enabled", g->enabled);
    jw_kv_bool(w, "draining", g->draining);
    jw_kv_int(w, "slots", g->slot_count);
    jw_kv_int(w, "slotsEnabled", usable);
    jw_kv_int(w, "slotsUsed", used);
}

static void write_queue(struct core *c, struct json_writer *w, const char *name)
{
    struct sched_pool_view view;
    sched_pool_inspect(c->sched, core_pool_get(c, name)->handle, &view);
    jw_kv_string(w, "resourcePool", name);
    jw_kv_int(w, "queued", view.waiting);
    jw_kv_int(w, "scheduled", view.running);
    jw_kv_int(w, "agents", view.agents);
    jw_kv_int(w, "slots", view.slots);
    jw_kv_int(w, "slotsUsed", view.slots - view.free);
}

static void change_describe(struct core *c, struct change *n)
{
    struct buf out;
    struct json_writer w;
    if (n->topic != EVENT_AGENT && n->topic != EVENT_QUEUE)
        return;
    buf_init(&out, TEXT_MAX);
    jw_init(&w, &out);
    jw_object(&w);
    if (n->topic == EVENT_AGENT)
        write_agent(c, &w, n->name);
    else
        write_queue(c, &w, n->name);
    jw_object_end(&w);
    change_set_data(n, buf_take(&out));
}

void changes_describe(struct core *c, struct changes *changes)
{
    for (size_t i = 0; i < changes->count; i++)
        change_describe(c, &changes->items[i]);
}
