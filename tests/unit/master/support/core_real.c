// The real core in place of the stub, for tests of HTTP and core together. Its store marks the
// fixture's experiment as ended, because the fixture lacks the rows of a running one.
#include "tests/unit/master/support/fixture.h"

#include "master/kernel/core.h"
#include "master/modules.h"

struct core *stub_start(void)
{
    struct error e = {0};
    const struct core_options options = {
        .modules = master_modules,
        .cluster_id = "cluster",
        .cluster_name = "test",
        .master_url = "",
        .storage = fx.storage,
        .agent_silence_us = 10 * 1000000LL,
        .agent_reconnect_us = 30 * 1000000LL,
        .kill_grace_us = 10 * 1000000LL,
        .preemption_timeout_us = 600 * 1000000LL,
    };
    struct core *core = NULL;
    STORE(EXPERIMENT_END, "COMPLETED", AT, I(1));
    STORE(TRIAL_SET_STATE, "COMPLETED", I(1));
    STORE(ALLOCATION_SET_STATE, "TERMINATED", "1.task.1");
    if (core_new(fx.db, &options, &core, &e) || core_start(core, &e))
        fail_msg("%s", e.text);
    STORE(ALLOCATION_SET_STATE, "RUNNING", "1.task.1"); // makes its token valid
    return core;
}

void stub_stop(struct core *c)
{
    core_stop(c);
    core_free(c);
}

void stub_let_go(struct core *c, int status)
{
    (void)c;
    (void)status; // no request of these tests is parked
}
