// Calls about one trial: kill, early exit, free metadata, and the checkpoint that it works with.
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "api/run_metadata.h"
#include "api/wire.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/common/storage.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/unmanaged.h"
#include "master/teams/authz.h"
#include "master/teams/teams.h"

// --- kill and early exit -------------------------------------------------------------------------

// Returns whether the store has a trial that is no longer active.
static bool trial_was(struct core *c, int64_t id)
{
    struct db_rows *rows = DB_QUERY(c->reader, TRIAL_EXISTS, id);
    bool found = db_next(rows) > 0;
    db_rows_close(rows);
    return found;
}

void trial_kill(struct core *c, struct trial *t)
{
    if (t->unmanaged)
        unmanaged_event(c, t, UNMANAGED_EV_CANCELED, "canceled");
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
        return trial_was(c, id) ? 0 : error_not_found(e, "trial", "%lld", (long long)id);
    err = core_may_change(c, rq, t->active->experiment, e);
    if (!err)
        trial_kill(c, t);
    return err;
}

// The reason of a trial that reports invalid hyperparameters, on one line. Heap.
static char *reason_of_invalid(const char *text)
{
    if (!*text)
        return xstrdup("the program reports that its configuration or its data is not valid: no "
                       "restart can help; see its log");
    char *why = xasprintf("invalid hyperparameters: %s", text);
    for (char *p = why; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    return why;
}

static void exit_early(struct core *c, struct trial *t, bool invalid, const char *why)
{
    t->exited_early = true;
    t->invalid = invalid;
    if (t->unmanaged) {
        unmanaged_event(c, t, invalid ? UNMANAGED_EV_FAILED : UNMANAGED_EV_COMPLETED,
                        invalid ? why : "");
        return;
    }
    if (invalid)
        trial_set_reason(c, t, why);
    trial_event(c, t, invalid ? TRIAL_EV_INVALID : TRIAL_EV_STOP);
    if (invalid && t->allocation)
        allocation_expect_exit(c, t->allocation);
}

int core_trial_early_exit(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    const char *reason = jget_string(rq->body, "reason", "");
    const char *text = jget_string(rq->body, "text", "");
    int err = core_reporter_of_trial(c, rq, &t, e);
    if (err)
        return err;
    bool invalid = !strcmp(reason, "EXITED_REASON_INVALID_HP");
    if (!invalid && strcmp(reason, "EXITED_REASON_USER_REQUESTED_STOP"))
        return error_set(e, ERR_INVALID,
                         "reason: \"%.64s\" is neither EXITED_REASON_INVALID_HP nor "
                         "EXITED_REASON_USER_REQUESTED_STOP",
                         reason);
    if (strlen(text) > LIMIT_EXIT_TEXT)
        return error_set(e, ERR_INVALID, "text: more than %d bytes; shorten it", LIMIT_EXIT_TEXT);
    if (t->exited_early)
        return error_set(e, ERR_INVALID, "trial %lld has already reported its early exit",
                         (long long)t->id);
    char *why = reason_of_invalid(text);
    exit_early(c, t, invalid, why);
    free(why);
    return 0;
}

// --- calls of runs -------------------------------------------------------------------------------

// An unmanaged trial may name a storage of its own, which its reports of checkpoints then name by
// its number. Other checkpoints are in the storage of their experiment.
static const char *own_storage(struct request *rq, const struct trial *t)
{
    json_t *storage = jget(rq->body, "checkpointStorage");
    if (!storage || !t->active->unmanaged ||
        expconf_check_storage(storage, "checkpointStorage", NULL))
        return NULL;
    char *text = storage_text(storage);
    const char *out = arena_strdup(&rq->arena, text);
    free(text);
    return out;
}

int core_run_start(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    int err = core_reporter(c, rq, jget_int(rq->body, "runId", 0), &t, e);
    if (err)
        return err;
    const char *own = own_storage(rq, t);
    char *storage = arena_strdup(&rq->arena, own ? own : t->active->storage);
    STORE(c, STORAGE_ADD, storage);
    if (t->active->unmanaged)
        STORE(c, TRIAL_SET_STORAGE, storage, t->id);
    rq->result = storage;
    return 0;
}

// Checks that the caller is the task of the trial, or a user who may change its experiment. The
// trial may have ended.
static int find_run(struct core *c, struct request *rq, int64_t id, struct error *e)
{
    struct allocation *a;
    int err = 0;
    if (rq->principal.kind != PRINCIPAL_USER) {
        err = core_caller(c, rq, &a, e);
        if (!err && a->trial->id != id)
            err = error_set(e, ERR_FORBIDDEN, "allocation %s is of trial %lld, not of trial %lld",
                            a->id, (long long)a->trial->id, (long long)id);
        return err;
    }
    const struct trial *t = core_trial_find(c, id);
    struct db_rows *rows = t ? NULL : DB_QUERY(c->reader, TRIAL_HOME, id);
    int64_t home = t                           ? t->active->experiment->id
                   : rows && db_next(rows) > 0 ? DB_GET(rows, TRIAL_HOME, experiment_id)
                                               : 0;
    db_rows_close(rows);
    const struct experiment *x = core_experiment_find(c, home);
    return x && core_sees(c, rq, x) ? core_may_change(c, rq, x, e)
                                    : error_not_found(e, "trial", "%lld", (long long)id);
}

// --- metadata ------------------------------------------------------------------------------------

// Replaces the metadata of a run.
int core_run_metadata(struct core *c, struct request *rq, struct error *e)
{
    const json_t *metadata = jget(rq->body, "metadata");
    int err = request_param_int(rq, 0, &rq->id, e);
    if (!err)
        err = find_run(c, rq, rq->id, e);
    if (!err)
        err = run_metadata_check(metadata, e);
    if (err)
        return err;
    char *text = json_text(metadata);
    STORE(c, TRIAL_SET_METADATA, text, rq->id);
    change_mark(c, EVENT_TRIAL, 0, rq->id, NULL);
    request_answer(rq, ANSWER_RAW("metadata", text));
    free(text);
    return 0;
}

// --- POST trial-source-info ----------------------------------------------------------------------

static int read_type(const json_t *info, const char **out, struct error *e)
{
    static const char *const types[] = {"INFERENCE", "FINE_TUNING"};
    static const char prefix[] = "TRIAL_SOURCE_INFO_TYPE_";
    const char *type = jget_string(info, "trialSourceInfoType", "");
    const char *word = strncmp(type, prefix, sizeof prefix - 1) ? type : type + sizeof prefix - 1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], word)) {
            *out = types[i];
            return 0;
        }
    return error_set(e, ERR_INVALID,
                     "trialSourceInfo.trialSourceInfoType: \"%.64s\" is neither %sINFERENCE nor "
                     "%sFINE_TUNING",
                     type, prefix, prefix);
}

// Checks that the owner of the experiment may see the checkpoint, which may belong to another
// experiment.
static int check_checkpoint(struct core *c, const struct request *rq, const char *uuid,
                            struct error *e)
{
    struct principal owner = rq->principal;
    owner.kind = PRINCIPAL_USER;
    return authz_check(c->reader, &owner, AUTHZ_CHECKPOINT, uuid, e)
               ? error_prefix(e, "trialSourceInfo.checkpointUuid")
               : 0;
}

int core_trial_source(struct core *c, struct request *rq, struct error *e)
{
    const char *type = "";
    const json_t *info = jget(rq->body, "trialSourceInfo");
    const char *uuid = jget_string(info, "checkpointUuid", "");
    int64_t trial = jget_int(info, "trialId", 0);
    int err = find_run(c, rq, trial, e);
    if (!err)
        err = read_type(info, &type, e);
    if (!err)
        err = check_checkpoint(c, rq, uuid, e);
    if (err)
        return err;
    STORE(c, TRIAL_SOURCE_SET, trial, uuid, type, jget_int(info, "modelId", 0),
          jget_int(info, "modelVersion", 0));
    request_answer(rq, ANSWER_INT("trialId", trial), ANSWER_STRING("checkpointUuid", uuid));
    return 0;
}
