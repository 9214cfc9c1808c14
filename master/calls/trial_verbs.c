// Trials by the hand of a person, and what a task says of its own end.
#include <string.h>

#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/unmanaged.h"
#include "master/teams/teams.h"

// Whether the store has the trial that does not live any more.
static bool trial_was(struct core *c, int64_t id)
{
    struct db_rows *rows = db_query(c->reader, STMT_TRIAL_EXISTS, "i", id);
    bool found = db_next(rows) > 0;
    db_rows_close(rows);
    return found;
}

void trial_kill(struct core *c, struct trial *t)
{
    if (t->detached)
        detached_event(c, t, DETACHED_EV_CANCELED, "canceled");
    else
        trial_event(c, t, TRIAL_EV_KILL);
}

int core_trial_kill(struct core *c, struct request *rq, struct error *e)
{
    int64_t id;
    int err = request_param_int(rq, 0, &id, e);
    if (err)
        return err;
    rq->id = id;
    struct trial *t = core_trial_find(c, id);
    if (!t)
        return trial_was(c, id)
                   ? 0
                   : error_set(e, ERR_NOT_FOUND, "there is no trial %lld", (long long)id);
    err = core_may_change(c, rq, t->active->experiment, e);
    if (!err)
        trial_kill(c, t);
    return err;
}

static void exit_early(struct core *c, struct trial *t, bool invalid)
{
    static const char why[] = "the program reports that its configuration or its data is not "
                              "valid: no restart can help; see its log";
    t->exited_early = true;
    t->invalid = invalid;
    if (t->detached) {
        detached_event(c, t, invalid ? DETACHED_EV_FAILED : DETACHED_EV_COMPLETED,
                       invalid ? why : "");
        return;
    }
    if (invalid)
        trial_set_reason(c, t, why);
    trial_event(c, t, invalid ? TRIAL_EV_INVALID : TRIAL_EV_STOP);
    if (invalid && t->allocation)
        allocation_leaves(c, t->allocation);
}

int core_trial_early_exit(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    const char *reason = jget_string(rq->body, "reason", "");
    int err = core_reporter_of_trial(c, rq, &t, e);
    if (err)
        return err;
    bool invalid = !strcmp(reason, "EXITED_REASON_INVALID_HP");
    if (!invalid && strcmp(reason, "EXITED_REASON_USER_REQUESTED_STOP"))
        return error_set(e, ERR_INVALID,
                         "reason: \"%.64s\" is neither EXITED_REASON_INVALID_HP nor "
                         "EXITED_REASON_USER_REQUESTED_STOP",
                         reason);
    if (t->exited_early)
        return error_set(e, ERR_INVALID, "trial %lld has reported its early exit already",
                         (long long)t->id);
    exit_early(c, t, invalid);
    return 0;
}
