#include "master/kernel/change_marks.h"

#include <stdio.h>

#include "base/arena.h"
#include "master/kernel/state.h"

void change_mark(struct core *c, enum event_topic topic, int64_t experiment_id, int64_t trial_id,
                 const char *name)
{
    if (!c->options.events_committed)
        return;
    if (!c->changes)
        c->changes = changes_new();
    const struct trial *t = experiment_id ? NULL : core_trial_find(c, trial_id);
    if (t)
        experiment_id = t->active->experiment->id;
    struct change *n = changes_add(c->changes, topic, experiment_id, trial_id, name ? name : "");
    const struct experiment *x = experiment_id ? core_experiment_find(c, experiment_id) : NULL;
    if (x)
        n->workspace_id = core_workspace_of(c, x)->id;
}

void change_mark_left(struct core *c, const struct experiment *x)
{
    char name[32];
    if (!c->options.events_committed)
        return;
    if (!c->changes)
        c->changes = changes_new();
    int64_t workspace = core_workspace_of(c, x)->id;
    snprintf(name, sizeof name, "left %lld", (long long)workspace);
    struct change *n = changes_add(c->changes, EVENT_EXPERIMENT, x->id, 0, name);
    n->workspace_id = workspace;
    change_set_data(n, xasprintf("{\"id\":%lld,\"workspaceId\":%lld,\"moved\":true}",
                                 (long long)x->id, (long long)workspace));
}

void change_mark_workspace(struct core *c, int64_t workspace_id)
{
    char name[32];
    snprintf(name, sizeof name, "%lld", (long long)workspace_id);
    change_mark(c, EVENT_WORKSPACE, 0, 0, name);
}
