#include "agent/tasks/reconcile.h"

#include <string.h>

static const enum action_kind table[WISH_COUNT][OBSERVED_COUNT] = {
    [WISH_NOTHING] = {[OBSERVED_LIVE] = ACTION_KILL},
    [WISH_RUN] = {[OBSERVED_ABSENT] = ACTION_START},
    [WISH_KILL] = {[OBSERVED_ABSENT] = ACTION_DECLARE_GONE, [OBSERVED_LIVE] = ACTION_KILL},
    [WISH_FORGET] = {[OBSERVED_LIVE] = ACTION_KILL, [OBSERVED_EXITED] = ACTION_FORGET},
};

enum action_kind reconcile_pair(enum wish wish, enum observed_state observed)
{
    return table[wish][observed];
}

static enum wish wish_for(const struct desired *d, const struct desired_task *wanted,
                          const char *id)
{
    if (wanted)
        return wanted->kill ? WISH_KILL : WISH_RUN;
    return desired_forgets(d, id) ? WISH_FORGET : WISH_NOTHING;
}

static enum observed_state state_of(const struct observed_task *observed, size_t count,
                                    const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(observed[i].id, id) == 0)
            return observed[i].state;
    return OBSERVED_ABSENT;
}

size_t reconcile(const struct desired *desired, const struct observed_task *observed, size_t count,
                 struct action *out)
{
    size_t actions = 0;
    for (size_t i = 0; i < count; i++) {
        const struct desired_task *wanted = desired_find(desired, observed[i].id);
        enum wish wish = wish_for(desired, wanted, observed[i].id);
        enum action_kind kind = reconcile_pair(wish, observed[i].state);
        if (kind != ACTION_NONE)
            out[actions++] = (struct action){kind, observed[i].id, wanted};
    }
    for (size_t i = 0; i < desired->count; i++) {
        const struct desired_task *wanted = &desired->tasks[i];
        enum action_kind kind = reconcile_pair(wanted->kill ? WISH_KILL : WISH_RUN,
                                               state_of(observed, count, wanted->id));
        bool seen = state_of(observed, count, wanted->id) != OBSERVED_ABSENT;
        bool first = desired_find(desired, wanted->id) == wanted;
        if (kind != ACTION_NONE && !seen && first)
            out[actions++] = (struct action){kind, wanted->id, wanted};
    }
    return actions;
}
