// The number of slots of an experiment's trials, changed after its submission. Trials that wait ask
// for the new number at once. The scheduler lets trials that run with a number outside the new
// range save their work and leave; they continue with the new number.
#include <stdlib.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/submit.h"
#include "master/calls/verbs.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

bool resize_is_empty(const struct resize *r)
{
    return r->slots < 0 && r->min_slots < 0;
}

static int check_range(const struct active_experiment *active, const struct resize *r,
                       const char *path, struct error *e)
{
    if (r->slots < 1 || r->slots > LIMIT_SLOTS_PER_TRIAL)
        return error_set(e, ERR_INVALID, "%s.slotsPerTrial: not a number from 1 to %d", path,
                         LIMIT_SLOTS_PER_TRIAL);
    if (r->min_slots < 0 || r->min_slots > r->slots)
        return error_set(e, ERR_INVALID,
                         "%s.minSlots: %lld; give a number from 1 to %lld (the slots of a trial), "
                         "or 0 for exactly that many",
                         path, (long long)r->min_slots, (long long)r->slots);
    if (active->one_agent && (r->min_slots ? r->min_slots : r->slots) > LIMIT_SLOTS_PER_AGENT)
        return error_set(e, ERR_INVALID,
                         "%s.slotsPerTrial: the experiment asks for one machine (is_single_node), "
                         "and a machine has at most %d slots",
                         path, LIMIT_SLOTS_PER_AGENT);
    return 0;
}

// Absent values keep those of the experiment, but fewer slots lower a minimum that was not given.
int resize_read(const struct active_experiment *active, const json_t *from, const char *path,
                struct resize *out, struct error *e)
{
    bool elastic = active->min_slots < active->slots_per_trial;
    *out = (struct resize){-1, -1};
    if (!jget(from, "slotsPerTrial") && !jget(from, "minSlots"))
        return 0;
    out->slots = jget_int(from, "slotsPerTrial", active->slots_per_trial);
    out->min_slots = jget_int(from, "minSlots", elastic ? active->min_slots : 0);
    if (!jget(from, "minSlots") && out->min_slots > out->slots)
        out->min_slots = out->slots;
    if (!active->slots_per_trial)
        return error_set(e, ERR_STATE,
                         "%s.slotsPerTrial: the trials of experiment %lld use no slots; submit it "
                         "again with resources.slots_per_trial (muster experiment fork)",
                         path, (long long)active->experiment->id);
    return check_range(active, out, path, e);
}

static void set_number(json_t *resources, const char *key, int64_t value)
{
    must(!json_object_set_new(resources, key, value ? json_integer(value) : json_null()));
}

static void set_range(json_t *config, const struct resize *r)
{
    json_t *resources = json_object_get(config, "resources");
    set_number(resources, "slots_per_trial", r->slots);
    set_number(resources, "min_slots", r->min_slots);
}

// Checks the limits of the experiment itself and of its team, as for a new experiment.
int resize_check(struct core *c, const struct active_experiment *active, const struct resize *r,
                 const char *path, struct error *e)
{
    const struct experiment *x = active->experiment;
    int64_t least = r->min_slots ? r->min_slots : r->slots;
    if (active->max_slots && least > active->max_slots)
        return error_set(e, ERR_INVALID,
                         "%s.slotsPerTrial: a trial would need %lld slots, and the experiment may "
                         "hold %lld (resources.max_slots): raise that number first, or give fewer",
                         path, (long long)least, (long long)active->max_slots);
    json_t *config = json_deep_copy(active->config);
    set_range(config, r);
    int err = feasibility_check(c, config, core_workspace_of(c, x), x->user_id, e);
    json_decref(config);
    return err;
}

void resize_apply(struct core *c, struct active_experiment *active, const struct resize *r)
{
    set_range(active->config, r);
    free(active->config_text);
    active->config_text = json_text(active->config);
    active->slots_per_trial = (int)r->slots;
    active->min_slots = (int)(r->min_slots ? r->min_slots : r->slots);
    for (struct trial *t = active->trials; t; t = t->next)
        if (t->allocation)
            allocation_resize(c, t->allocation);
    log_info("experiment resized", "exp=%lld slots=%d min_slots=%d",
             (long long)active->experiment->id, active->slots_per_trial, active->min_slots);
}
