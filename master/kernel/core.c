// The life of the core: core_new() makes it and lets every module load its rows, core_free() frees
// it.
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "master/kernel/loop.h"
#include "master/kernel/module.h"
#include "master/kernel/state.h"
#include "master/kernel/workers.h"

static void complete_options(struct core *c)
{
    if (!c->options.mono_us)
        c->options.mono_us = clock_mono_us;
    if (!c->options.wall_us)
        c->options.wall_us = clock_wall_us;
    if (!c->options.master_url)
        c->options.master_url = "";
    if (!c->options.external_url)
        c->options.external_url = "";
    must(c->options.storage && c->options.modules);
}

int core_new(struct db *db, const struct core_options *options, struct core **out, struct error *e)
{
    struct core *c = xcalloc(1, sizeof *c);
    c->options = *options;
    c->db = db;
    c->inbox = mailbox_new(LIMIT_CORE_QUEUE);
    c->sched = sched_new(options->rules);
    c->sched_last = INT64_MIN / 2;
    core_pool_get(c, "");
    for (size_t i = 0; i < options->pool_count; i++)
        core_pool_get(c, options->pools[i].name);
    complete_options(c);
    loop_read_clocks(c);
    CORE_DISPATCH(c, init, c); // before anything can fail: core_free() frees all modules
    int err = db_reader_open(db, &c->reader, e);
    if (!err)
        err = workers_new(c, &c->workers, e);
    if (!err)
        CORE_DISPATCH_CHECKED(err, c, load, c, e);
    if (!err)
        CORE_DISPATCH(c, resume, c);
    if (err) {
        core_free(c);
        return err;
    }
    log_info("core loaded", "experiments=%zu trials=%zu agents=%zu", c->experiments.count,
             c->trials.count, c->agent_count);
    *out = c;
    return 0;
}

static void pools_free(struct core *c)
{
    for (size_t i = 0; i < c->pool_count; i++) {
        free(c->pools[i]->name);
        free(c->pools[i]);
    }
    for (int i = 0; i < c->rack_count; i++)
        free(c->racks[i]);
    free(c->pools);
    free(c->racks);
}

void core_free(struct core *c)
{
    if (!c)
        return;
    must(!c->started);
    CORE_DISPATCH(c, free, c);
    pools_free(c);
    sched_free(c->sched);
    workers_free(c->workers);
    if (c->reader)
        db_reader_close(c->reader);
    loop_free(c);
    mailbox_free(c->inbox);
    timers_free(&c->timers);
    db_batch_free(c->batch);
    free(c);
}
