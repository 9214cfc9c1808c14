#include "master/calls/module.h"

#include "master/calls/code_archives.h"
#include "master/calls/external_ids.h"
#include "master/calls/submit.h"

static void calls_init(struct core *c)
{
    external_ids_init(c);
    code_archives_init(c);
}

static int calls_load(struct core *c, struct error *e)
{
    int err = external_ids_load(c, e);
    return err ? err : code_archives_load(c, e);
}

static void calls_free(struct core *c)
{
    external_ids_free(c);
    code_archives_free(c);
}

static bool still_runs(const struct experiment *x)
{
    return x->active && !experiment_is_terminal(x->state);
}

// Active experiments of a project that moves must be able to run in its new workspace.
static int check_fits(struct core *c, const struct project *p, const struct workspace *to,
                      struct error *e)
{
    int err = 0;
    for (size_t i = 0; !err && i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (x->project_id != p->id || !still_runs(x) || x->active->unmanaged)
            continue;
        err = feasibility_check(c, x->active->config, to, x->user_id, e);
        if (err)
            error_prefix(e, "%s %lld", kind_words[x->kind].noun, (long long)x->id);
    }
    return err;
}

static int check_names(struct core *c, const struct project *p, const struct workspace *to,
                       struct error *e)
{
    int err = 0;
    for (size_t i = 0; !err && i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (x->project_id == p->id)
            err = external_id_check_move(c, x, to, e);
    }
    return err;
}

static int check_project_move(struct core *c, const struct project *p, const struct workspace *to,
                              struct error *e)
{
    int err = check_fits(c, p, to, e);
    return err ? err : check_names(c, p, to, e);
}

const struct core_module calls_module = {
    .name = "calls",
    .init = calls_init,
    .load = calls_load,
    .free = calls_free,
    .start = removals_resume,
    .after_turn = code_archives_sweep,
    .project_move_check = check_project_move,
};
