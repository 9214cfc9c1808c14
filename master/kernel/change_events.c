#include "master/kernel/change_events.h"

#include <stdio.h>

#include "base/arena.h"
#include "master/kernel/state.h"

void core_event(struct core *c, enum event_topic topic, int64_t experiment_id, int64_t trial_id,
                const char *name)
{
    if (!c->options.events_committed)
        return;
    if (!c->notes)
        c->notes = notes_new();
    const struct trial *t = experiment_id ? NULL : core_trial_find(c, trial_id);
    if (t)
        experiment_id = t->active->experiment->id;
    struct note *n = notes_add(c->notes, topic, experiment_id, trial_id, name ? name : "");
    const struct experiment *x = experiment_id ? core_experiment_find(c, experiment_id) : NULL;
    if (x)
        n->workspace_id = core_workspace_of(c, x)->id;
}

void core_event_left(struct core *c, const struct experiment *x)
{
    char name[32];
    if (!c->options.events_committed)
        return;
    if (!c->notes)
        c->notes = notes_new();
    int64_t workspace = core_workspace_of(c, x)->id;
    snprintf(name, sizeof name, "left %lld", (long long)workspace);
    struct note *n = notes_add(c->notes, EVENT_EXPERIMENT, x->id, 0, name);
    n->workspace_id = workspace;
    note_set_data(n, xasprintf("{\"id\":%lld,\"workspaceId\":%lld,\"moved\":true}",
                               (long long)x->id, (long long)workspace));
}

void core_event_workspace(struct core *c, int64_t workspace_id)
{
    char name[32];
    snprintf(name, sizeof name, "%lld", (long long)workspace_id);
    core_event(c, EVENT_WORKSPACE, 0, 0, name);
}
