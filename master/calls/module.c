#include "master/calls/module.h"

#include "master/calls/code_archives.h"
#include "master/calls/external_ids.h"
#include "master/calls/feasibility.h"

static void calls_init(struct core *c)
{
    names_init(c);
    files_init(c);
}

static int calls_load(struct core *c, struct error *e)
{
    int err = names_load(c, e);
    return err ? err : files_load(c, e);
}

static void calls_free(struct core *c)
{
    names_free(c);
    files_end(c);
}

static bool still_runs(const struct experiment *x)
{
    return x->active && !experiment_is_terminal(x->state);
}

// Those of it that are not at their end must be able to run there.
static int check_fits(struct core *c, const struct project *p, const struct workspace *to,
                      struct error *e)
{
    int err = 0;
    for (size_t i = 0; !err && i < c->experiments.count; i++) {
        const struct experiment *x = c->experiments.items[i].value;
        if (x->project_id != p->id || !still_runs(x) || x->active->unmanaged)
            continue;
        err = fits_check(c, x->active->config, to, x->user_id, e);
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
            err = names_check_move(c, x, to, e);
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
    .after_turn = files_pass,
    .project_move_check = check_project_move,
};
