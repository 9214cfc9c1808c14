#include "agent/tasks/reconcile.h"

#include <string.h>

static const enum action_kind action_table[DESIRED_COUNT][OBSERVED_COUNT] = {
    [DESIRED_NONE] = {[OBSERVED_RUNNING] = ACTION_KILL},
    [DESIRED_RUN] = {[OBSERVED_ABSENT] = ACTION_START},
    [DESIRED_KILL] = {[OBSERVED_ABSENT] = ACTION_DECLARE_GONE, [OBSERVED_RUNNING] = ACTION_KILL},
    [DESIRED_FORGET] = {[OBSERVED_RUNNING] = ACTION_KILL, [OBSERVED_EXITED] = ACTION_FORGET},
};

enum action_kind reconcile_pair(enum desired_action want, enum observed_state observed)
{
    return action_table[want][observed];
}

static enum desired_action desired_action_of(const struct desired_state *d,
                                             const struct desired_task *wanted, const char *id)
{
    if (wanted)
        return wanted->kill ? DESIRED_KILL : DESIRED_RUN;
    return desired_state_forgets(d, id) ? DESIRED_FORGET : DESIRED_NONE;
}

static enum observed_state observed_state_of(const struct observed_task *observed, size_t count,
                                             const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(observed[i].id, id) == 0)
            return observed[i].state;
    return OBSERVED_ABSENT;
}

size_t reconcile(const struct desired_state *desired, const struct observed_task *observed,
                 size_t count, struct action *out)
{
    size_t actions = 0;
    for (size_t i = 0; i < count; i++) {
        const struct desired_task *wanted = desired_state_find(desired, observed[i].id);
        enum desired_action want = desired_action_of(desired, wanted, observed[i].id);
        enum action_kind kind = reconcile_pair(want, observed[i].state);
        if (kind != ACTION_NONE)
            out[actions++] = (struct action){kind, observed[i].id, wanted};
    }
    for (size_t i = 0; i < desired->count; i++) {
        const struct desired_task *wanted = &desired->tasks[i];
        enum action_kind kind = reconcile_pair(wanted->kill ? DESIRED_KILL : DESIRED_RUN,
                                               observed_state_of(observed, count, wanted->id));
        bool seen = observed_state_of(observed, count, wanted->id) != OBSERVED_ABSENT;
        bool first = desired_state_find(desired, wanted->id) == wanted;
        if (kind != ACTION_NONE && !seen && first)
            out[actions++] = (struct action){kind, wanted->id, wanted};
    }
    return actions;
}
