// Checks that a master which starts now, from the rows in the store, would know what the present
// one knows.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "master/ingest/metric_summary.h"
#include "master/kernel/state.h"
#include "master/teams/teams.h"
#include "tests/sim/machines.h"

enum { DUMP_MAX = 16 << 20 };

static void dump_parts(struct buf *out, const struct allocation *a)
{
    for (int i = 0; i < a->part_count; i++) {
        const struct part *p = &a->parts[i];
        buf_printf(out, "\n   on %s ranks %d+%d slots", p->agent->id, p->first_rank, p->rank_count);
        for (int k = 0; k < p->slot_count; k++)
            buf_printf(out, " %d", p->slots[k]);
    }
}

static void dump_allocation(struct buf *out, const struct allocation *a)
{
    buf_printf(out, "\n  allocation %s %s outcome %d \"%s\" queued %lld started %lld", a->id,
               allocation_state_word(a->state), (int)a->outcome, a->reason ? a->reason : "",
               (long long)a->queued_at, (long long)a->started_at);
    buf_printf(out, " slots %d of %s%s", a->slots, a->pool->name,
               a->preempt_reason ? " is to leave" : "");
    dump_parts(out, a);
}

static void dump_trial(struct buf *out, const struct trial *t)
{
    char *summary = t->summary ? summary_text(t->summary) : xstrdup("{}");
    buf_printf(out, "\n trial %lld %s %s seed %lld restarts %lld run %lld steps %lld progress %.6f",
               (long long)t->id, trial_state_word(t->state), t->request_id, (long long)t->seed,
               (long long)t->restarts, (long long)t->run, (long long)t->steps, t->progress);
    buf_printf(out, " checkpoint %s %lld reason \"%s\" best %d %.9g summary %s", t->checkpoint,
               (long long)t->checkpoint_steps, t->exit_reason ? t->exit_reason : "", t->has_best,
               t->best, summary);
    free(summary);
    if (t->allocation)
        dump_allocation(out, t->allocation);
}

static void dump_active(struct buf *out, const struct active_experiment *l)
{
    char *search = search_snapshot(l->search);
    buf_printf(out, " priority %d slots %d to %d limit %lld progress %.6f best %d %.9g search %s",
               l->priority, l->min_slots, l->slots_per_trial, (long long)l->max_slots, l->progress,
               l->has_best, l->best, search);
    buf_printf(out, " order %lld weight %.6g pool %s", (long long)l->order, l->weight,
               l->pool->name);
    free(search);
    for (const struct trial *t = l->trials; t; t = t->next)
        dump_trial(out, t);
}

static void dump_workspace(struct buf *out, const struct workspace *ws)
{
    buf_printf(out, "\nworkspace %lld %s weight %.6g slots %lld to %lld", (long long)ws->id,
               ws->name, ws->weight, (long long)ws->guaranteed_slots, (long long)ws->max_slots);
    for (size_t i = 0; i < ws->members.count; i++) {
        const struct member *m = ws->members.items[i].value;
        if (m->weight != 1 || m->max_slots)
            buf_printf(out, "\n member %lld %s weight %.6g slots %lld", (long long)m->user_id,
                       m->role, m->weight, (long long)m->max_slots);
    }
}

static char *dump(const struct core *c)
{
    struct buf out;
    buf_init(&out, DUMP_MAX);
    buf_printf(&out, "next %lld %lld", (long long)c->next_experiment, (long long)c->next_trial);
    for (size_t i = 0; i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        buf_printf(&out, "\nexperiment %lld %s of %lld%s", (long long)x->id,
                   experiment_state_word(x->state), (long long)x->user_id,
                   x->archived ? " archived" : "");
        if (x->active && !experiment_is_terminal(x->state))
            dump_active(&out, x->active);
    }
    for (size_t i = 0; i < c->workspaces.count; i++)
        dump_workspace(&out, c->workspaces.items[i].value);
    for (size_t i = 0; i < c->agent_count; i++) {
        const struct agent *g = c->agents[i];
        char *slots = json_text(g->slots);
        buf_printf(&out, "\nagent %s %s%s %s", g->id, g->enabled ? "enabled" : "disabled",
                   g->draining ? " draining" : "", slots);
        free(slots);
    }
    return buf_take(&out);
}

static void compare(struct world *w, const char *live, const char *replayed)
{
    size_t at = 0, line = 0;
    for (; live[at] && live[at] == replayed[at]; at++)
        if (live[at] == '\n')
            line = at + 1;
    if (live[at] != replayed[at])
        broken(w, "store_describes_all_state", "live \"%.150s\", replayed \"%.150s\"", live + line,
               replayed + line);
}

// The agent came back with fewer slots: a new master gives the allocation up at once, the present
// one when its other parts have ended. Epochs and stray tasks make both safe.
static bool lost_its_slots(const struct core *c)
{
    for (size_t i = 0; i < c->agent_count; i++)
        for (const struct part *p = c->agents[i]->parts; p; p = p->next_on_agent)
            for (int k = 0; k < p->slot_count; k++)
                if (p->slots[k] >= c->agents[i]->slot_count)
                    return true;
    return false;
}

// While a batch is on its way, the store is a moment behind.
void check_replay(struct world *w)
{
    struct db *copy;
    struct core *c;
    struct error e = {0};
    if (w->core->submitted != w->core->committed || lost_its_slots(w->core))
        return;
    if (db_open_memory(w->db, &copy, &e) || core_new(copy, master_options(), &c, &e))
        broken(w, "master_starts", "%s", e.text);
    char *live = dump(w->core), *replayed = dump(c);
    compare(w, live, replayed);
    free(live);
    free(replayed);
    core_free(c);
    db_discard_queue(copy);
    db_close(copy);
    w->checks++;
}
