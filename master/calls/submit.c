// Submissions of experiments, and what all kinds of submissions share: a worker reads the
// configuration and packs the files, then the core thread creates the experiment.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "api/config/ignored_keys.h"
#include "api/config/log_bounds.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "master/calls/external_ids.h"
#include "master/calls/module.h"
#include "master/calls/queue.h"
#include "master/calls/snapshots.h"
#include "master/calls/submit.h"
#include "master/ingest/log_policies.h"
#include "master/kernel/loop.h"
#include "master/lifecycle/lifecycle.h"
#include "master/registry/template_apply.h"
#include "master/retention/gc.h"
#include "master/teams/agent_user.h"
#include "master/teams/authz.h"
#include "master/teams/task_account.h"
#include "master/teams/teams.h"

enum { LARGE_UPLOAD = 1 << 20 }; // bytes of files; larger ones go to the worker for slow work

static void submission_free(struct work *work)
{
    struct submission *s = (struct submission *)work;
    json_decref(s->config);
    json_decref(s->command);
    json_decref(s->preview);
    free(s->text);
    free(s->ancestors);
    buf_free(&s->ignored);
    code_archive_free(&s->code_archive);
    search_free(s->search);
    free(s);
}

// --- on the worker -------------------------------------------------------------------------------

static const char *config_text(const struct submission *s)
{
    return s->text ? s->text : jget_string(s->rq->body, "config", NULL);
}

// The workspace of the submission, which decides whose templates count; 0: not known.
static int64_t submission_workspace(struct submission *s, struct db_reader *db,
                                    const json_t *config)
{
    int64_t project = jget_int(s->rq->body, "projectId", 0), workspace = 0;
    const char *name = jget_string(config, "workspace", NULL);
    if (!project && jget_int(s->rq->body, "workspaceId", 0))
        return jget_int(s->rq->body, "workspaceId", 0);
    if (!project && name) {
        struct db_rows *rows = DB_QUERY(db, WORKSPACE_OF_NAME, name);
        size_t count =
            authz_count_visible(db, &s->rq->principal, AUTHZ_WORKSPACE, rows, &workspace);
        return count == 1 ? workspace : 0;
    }
    struct db_rows *rows = DB_QUERY(db, PROJECT_WORKSPACE, project ? project : 1);
    bool found = db_next(rows) > 0;
    workspace = found ? DB_GET(rows, PROJECT_WORKSPACE, workspace_id) : 0;
    db_rows_close(rows);
    return workspace;
}

// Parses the configuration and completes it with the template that the caller names.
static int parse_config(struct submission *s, struct db_reader *db, const char *text,
                        struct yaml_doc *doc)
{
    const char *template = jget_string(s->rq->body, s->fields->template, "");
    int err = yaml_parse(text, strlen(text), "config", doc, &s->e);
    if (!err && *template && json_is_object(doc->root))
        err = template_merge(db, &s->rq->principal, template,
                             submission_workspace(s, db, doc->root), doc->root, &s->e);
    if (err)
        return err;
    ignored_keys_list(doc->root, &s->ignored);
    s->names_pool = *jget_string(jget(doc->root, "resources"), "resource_pool", "");
    s->names_launch = jget(doc->root, "launch");
    if (s->kind != KIND_EXPERIMENT)
        return task_submission_finish(s, doc);
    return s->unmanaged ? expconf_finish_detached(doc, &s->e) : expconf_finish(doc, &s->e);
}

static int read_config(struct submission *s, struct db_reader *db)
{
    const char *text = config_text(s);
    struct yaml_doc doc = {0};
    if (!text)
        return error_set(&s->e, ERR_INVALID, "config: missing: the experiment's YAML as text");
    if (strlen(text) > LIMIT_CONFIG)
        return error_set(&s->e, ERR_TOO_LARGE, "config: more than %d bytes", LIMIT_CONFIG);
    int err = parse_config(s, db, text, &doc);
    if (!err && !s->unmanaged)
        err = log_policies_check(doc.root, s->text ? NULL : &doc, &s->e);
    if (!err)
        s->config = json_incref(doc.root);
    yaml_doc_free(&doc);
    return err;
}

// Checks the size of the configuration after YAML aliases were written out.
static int check_size(struct submission *s)
{
    size_t bytes = json_dumpb(s->config, NULL, 0, JSON_COMPACT);
    if (bytes <= LIMIT_CONFIG_COMPLETE)
        return 0;
    return error_set(
        &s->e, ERR_TOO_LARGE,
        "config: %zu bytes as JSON, with defaults and aliases written out; at most %d fit into the "
        "environment of a task, so move large values into a file of the experiment",
        bytes, LIMIT_CONFIG_COMPLETE);
}

static int check_limits(struct submission *s)
{
    const json_t *resources = jget(s->config, "resources");
    int64_t slots = jget_int(resources, "slots_per_trial", 1);
    slots = jget_int(resources, "min_slots", slots);
    int64_t max_slots = jget_int(resources, "max_slots", 0);
    if (strlen(jget_string(s->config, "name", "")) > LIMIT_NAME)
        return error_set(&s->e, ERR_TOO_LARGE, "name: more than %d bytes", LIMIT_NAME);
    if (strlen(jget_string(s->config, "description", "")) > LIMIT_DESCRIPTION)
        return error_set(&s->e, ERR_TOO_LARGE, "description: more than %d bytes",
                         LIMIT_DESCRIPTION);
    if (max_slots && slots > max_slots)
        return error_set(&s->e, ERR_INVALID,
                         "resources.max_slots: %lld is less than the slots of a trial (%lld), so "
                         "no trial could ever start",
                         (long long)max_slots, (long long)slots);
    return check_size(s);
}

static void set_seed(struct submission *s)
{
    json_t *reproducibility = json_object_get(s->config, "reproducibility");
    uint32_t drawn;
    rng_secret(&drawn, sizeof drawn);
    if (!json_is_object(reproducibility)) {
        reproducibility = json_object();
        must(!json_object_set_new(s->config, "reproducibility", reproducibility));
    }
    s->seed_given = json_is_integer(jget(reproducibility, "experiment_seed"));
    s->seed = jget_int(reproducibility, "experiment_seed", drawn >> 1); // within the range of numpy
    must(!json_object_set_new(reproducibility, "experiment_seed", json_integer(s->seed)));
}

static bool read_single_int(struct db_rows *rows, int64_t *out)
{
    bool found = db_next(rows) > 0;
    if (found)
        *out = DB_GET(rows, ID, id);
    db_rows_close(rows);
    return found;
}

bool submission_sees(struct submission *s, struct db_reader *db, enum authz_object what, int64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)id);
    return !authz_check(db, &s->rq->principal, what, text, NULL);
}

// The project by its id, by the names in the configuration, or the first project of all.
static int find_project(struct submission *s, struct db_reader *db)
{
    const char *workspace = jget_string(s->config, "workspace", "");
    const char *project = jget_string(s->config, "project", "");
    int64_t id = jget_int(s->rq->body, "projectId", 0);
    int64_t team = jget_int(s->rq->body, "workspaceId", 0); // of commands and generic tasks
    if (!id && team && s->kind != KIND_EXPERIMENT)
        return task_submission_find_project(s, db, team);
    if (!id && !*workspace != !*project)
        return error_set(&s->e, ERR_INVALID,
                         "workspace and project belong together: name both, or neither");
    if (!id && *workspace && *project) {
        struct db_rows *rows = DB_QUERY(db, PROJECT_OF_NAMES, workspace, project);
        size_t count = authz_count_visible(db, &s->rq->principal, AUTHZ_PROJECT, rows, &s->project);
        if (count > 1)
            return error_set(&s->e, ERR_CONFLICT,
                             "workspace: %zu workspaces are called \"%.64s\" and have a project "
                             "\"%.64s\": name the project by its id (projectId) instead",
                             count, workspace, project);
        if (count == 1)
            return 0;
        return error_set(&s->e, ERR_NOT_FOUND,
                         "project '%.64s' not found in workspace '%.64s'; create it first", project,
                         workspace);
    }
    if (read_single_int(DB_QUERY(db, PROJECT_BY_ID, id ? id : 1), &s->project))
        return 0;
    return error_not_found(&s->e, "project", "%lld", (long long)(id ? id : 1));
}

// Sets the workspace's default pool where the configuration names none.
static void set_pool(struct submission *s, struct db_rows *rows)
{
    json_t *resources = jget(s->config, "resources");
    int64_t slots = jget_int(resources, "slots_per_trial", 1);
    const char *pool = slots ? DB_GET(rows, PROJECT_DEFAULTS, compute_pool)
                             : DB_GET(rows, PROJECT_DEFAULTS, aux_pool);
    s->workspace_pool = !s->names_pool && *pool;
    if (s->workspace_pool)
        must(!json_object_set_new(resources, "resource_pool", json_string(pool)));
}

// Adds to *out, which the caller owns, the default storage of the project's workspace, if it has
// one, and completes the pool.
static int add_workspace_defaults(struct submission *s, struct db_reader *db, json_t *out)
{
    json_t *own = NULL;
    int err = 0;
    if (!submission_sees(s, db, AUTHZ_PROJECT, s->project))
        return 0; // the core thread refuses the submission
    struct db_rows *rows = DB_QUERY(db, PROJECT_DEFAULTS, s->project);
    bool found = db_next(rows) > 0;
    const char *text = found ? DB_GET(rows, PROJECT_DEFAULTS, checkpoint_storage) : "";
    if (found)
        set_pool(s, rows);
    if (*text)
        err = json_parse(text, strlen(text), "the workspace's checkpoint storage", &own, &s->e);
    if (!err && own)
        json_object_set(out, "checkpoint_storage", own);
    db_rows_close(rows);
    json_decref(own);
    return err;
}

// An unmanaged experiment stores its checkpoints itself, so the master need not reach the storage.
static int check_storage(struct submission *s)
{
    const json_t *at = jget(s->config, "checkpoint_storage");
    const char *type = jget_string(at, "type", "");
    if (s->unmanaged || (strcmp(type, "directory") && strcmp(type, "shared_fs")))
        return 0;
    return storage_check(s->storage, at, &s->e) ? error_prefix(&s->e, "checkpoint_storage") : 0;
}

// The experiment's storage is completed from the workspace's default, and this from the master's.
static int complete_storage(struct submission *s, struct db_reader *db)
{
    const char *text = storage_default(s->storage);
    json_t *master = NULL, *defaults = json_object();
    int err = json_parse(text, strlen(text), "checkpoint storage", &master, &s->e);
    if (!err)
        err = add_workspace_defaults(s, db, defaults);
    if (!err)
        err = expconf_merge_storage(defaults, master, &s->e);
    if (!err)
        err = expconf_merge_storage(s->config, jget(defaults, "checkpoint_storage"), &s->e);
    json_decref(defaults);
    json_decref(master);
    return err ? err : check_storage(s);
}

static int refuse_deleted_source(struct submission *s, const char *uuid)
{
    return error_set(
        &s->e, ERR_CONFLICT,
        "searcher.source_checkpoint_uuid: checkpoint %s is deleted; start from another one", uuid);
}

// An unknown checkpoint is allowed: it may exist in the storage.
static int check_source_checkpoint(struct submission *s, struct db_reader *db, const char *uuid)
{
    struct db_rows *rows = DB_QUERY(db, CHECKPOINT_STORAGE, uuid);
    bool known = db_next(rows) > 0,
         gone = known && !strcmp(DB_GET(rows, CHECKPOINT_STORAGE, state), "DELETED");
    db_rows_close(rows);
    int err = known ? authz_check(db, &s->rq->principal, AUTHZ_CHECKPOINT, uuid, &s->e) : 0;
    if (err)
        return error_prefix(&s->e, "searcher.source_checkpoint_uuid");
    return gone ? refuse_deleted_source(s, uuid) : 0;
}

static void set_source_checkpoint(struct submission *s, const char *uuid)
{
    must(!json_object_set_new(jget(s->config, "searcher"), "source_checkpoint_uuid",
                              json_string(uuid)));
}

static int find_trial_checkpoint(struct submission *s, struct db_reader *db, int64_t trial)
{
    struct db_rows *rows = DB_QUERY(db, TRIAL_CHECKPOINT, trial);
    bool seen = submission_sees(s, db, AUTHZ_TRIAL, trial);
    const char *uuid =
        seen && db_next(rows) > 0 ? DB_GET(rows, TRIAL_CHECKPOINT, latest_checkpoint) : NULL;
    int err = uuid ? 0
                   : error_set(&s->e, ERR_INVALID,
                               "searcher.source_trial_id: there is no trial %lld with a checkpoint",
                               (long long)trial);
    if (uuid)
        set_source_checkpoint(s, uuid);
    db_rows_close(rows);
    return err;
}

static int find_best_checkpoint(struct submission *s, struct db_reader *db, int64_t experiment)
{
    struct db_rows *rows = DB_QUERY(db, EXPERIMENT_BEST_CHECKPOINT, experiment);
    bool seen = submission_sees(s, db, AUTHZ_EXPERIMENT, experiment);
    bool found = seen && db_next(rows) > 0;
    int err = 0;
    if (!found)
        err = error_set(&s->e, ERR_INVALID,
                        "searcher.source_experiment_id: there is no experiment %lld with a "
                        "checkpoint",
                        (long long)experiment);
    else if (DB_IS_NULL(rows, EXPERIMENT_BEST_CHECKPOINT, metric))
        err = error_set(&s->e, ERR_INVALID,
                        "searcher.source_experiment_id: no checkpoint of experiment %lld has a "
                        "value of its searcher's metric, so none is the best; name a checkpoint "
                        "with searcher.source_checkpoint_uuid (muster checkpoint list %lld)",
                        (long long)experiment, (long long)experiment);
    else
        set_source_checkpoint(s, DB_GET(rows, EXPERIMENT_BEST_CHECKPOINT, uuid));
    db_rows_close(rows);
    return err;
}

// searcher.source_trial_id is replaced by the newest checkpoint of that trial,
// searcher.source_experiment_id by the best one of that experiment. A configuration that was stored
// names the checkpoint, too.
static int find_source_checkpoint(struct submission *s, struct db_reader *db)
{
    const json_t *searcher = jget(s->config, "searcher");
    int64_t trial = jget_int(searcher, "source_trial_id", 0);
    int64_t experiment = jget_int(searcher, "source_experiment_id", 0);
    const char *given = jget_string(searcher, "source_checkpoint_uuid", NULL);
    if (trial && experiment)
        return error_set(&s->e, ERR_INVALID,
                         "searcher: source_trial_id and source_experiment_id exclude each other; "
                         "give one of them");
    if (given)
        return check_source_checkpoint(s, db, given);
    return trial        ? find_trial_checkpoint(s, db, trial)
           : experiment ? find_best_checkpoint(s, db, experiment)
                        : 0;
}

// A link of an account that a former master has accepted.
static int check_account(struct submission *s, struct db_reader *db)
{
    json_t *account = task_account_read(db, s->rq->principal.user_id, s->project);
    int err = agent_user_check_account(account, &s->e);
    json_decref(account);
    return err ? error_prefix(&s->e, "an administrator must link another account "
                                     "(det user link-with-agent-user)")
               : 0;
}

void submission_copy_files(struct submission *s, int64_t experiment, const char *hash)
{
    s->files_from = experiment;
    snprintf(s->code_archive.hash, sizeof s->code_archive.hash, "%s", hash);
}

// A fork without files uses its parent's; a fork without a configuration uses its parent's.
static int copy_parent(struct submission *s, struct db_rows *rows)
{
    if (!jget_string(s->rq->body, "config", NULL))
        s->text = xstrdup(DB_GET(rows, EXPERIMENT_SOURCE, original_config));
    if (!DB_IS_NULL(rows, EXPERIMENT_SOURCE, hash) &&
        !json_array_size(jget(s->rq->body, s->fields->files)))
        submission_copy_files(s, DB_GET(rows, EXPERIMENT_SOURCE, id),
                              DB_GET(rows, EXPERIMENT_SOURCE, hash));
    return 0;
}

static int read_parent(struct submission *s, struct db_reader *db)
{
    int64_t id = jget_int(s->rq->body, "parentId", 0);
    s->parent = id;
    if (!id)
        return 0;
    if (s->unmanaged)
        return error_set(&s->e, ERR_INVALID, "parentId: an unmanaged experiment cannot be a fork");
    struct db_rows *rows = DB_QUERY(db, EXPERIMENT_SOURCE, id);
    int found = db_next(rows), err = 0;
    if (found > 0 && submission_sees(s, db, AUTHZ_EXPERIMENT, id))
        err = copy_parent(s, rows);
    else
        err =
            error_set(&s->e, ERR_NOT_FOUND, "parentId: experiment '%lld' not found", (long long)id);
    db_rows_close(rows);
    return err;
}

static int pack_files(struct submission *s)
{
    const json_t *files = jget(s->rq->body, s->fields->files);
    if (s->files_from)
        return 0;
    s->no_files = !json_array_size(files);
    return code_archive_pack(&s->code_archive, s->db, s->archive_id, files, s->rq->texts, &s->e);
}

static void read_submission(struct work *work, struct db_reader *db)
{
    struct submission *s = (struct submission *)work;
    s->err = s->kind == KIND_EXPERIMENT ? read_parent(s, db) : task_submission_read(s, db);
    if (!s->err)
        s->err = read_config(s, db);
    if (!s->err)
        s->err = find_project(s, db);
    if (!s->err && !s->unmanaged)
        s->err = check_account(s, db);
    if (!s->err)
        s->err = complete_storage(s, db);
    if (!s->err)
        s->err = check_limits(s);
    if (s->err)
        return;
    set_seed(s);
    task_submission_show(s);
    if (!s->unmanaged)
        s->err = search_new(s->config, s->seed, &s->search, &s->e);
    if (!s->err)
        s->err = find_source_checkpoint(s, db);
    if (!s->err)
        s->err = s->fields->previews ? submission_preview(s) : pack_files(s);
}

// --- on the core thread --------------------------------------------------------------------------

static void store_experiment(struct core *c, const struct submission *s,
                             const struct active_experiment *active)
{
    const struct experiment *x = active->experiment;
    const json_t *labels = jget(active->config, "labels");
    char *label_text = labels ? json_text(labels) : xstrdup("[]");
    char *snapshot = active->search ? search_snapshot(active->search) : xstrdup("{}");
    if (!s->files_from)
        code_archive_store(c, &s->code_archive);
#define EXPERIMENT_VALUES                                                                          \
    x->id, experiment_state_word(x->state), jget_string(active->config, "name", ""),               \
        jget_string(active->config, "description", ""), "", label_text, x->user_id, s->project,    \
        active->job_id, s->parent, config_text(s), active->config_text, (int64_t)active->priority, \
        jget_string(jget(active->config, "searcher"), "name", ""), snapshot,                       \
        (int64_t)active->unmanaged, active->seed, s->code_archive.hash, active->submitted_at
    if (x->kind == KIND_EXPERIMENT)
        STORE(c, EXPERIMENT_INSERT, EXPERIMENT_VALUES);
    else
        STORE(c, TASK_INSERT, EXPERIMENT_VALUES, kind_words[x->kind].word,
              active->ancestors ? active->ancestors : "", (int64_t)active->no_pause);
#undef EXPERIMENT_VALUES
    STORE(c, USER_LIMIT_LATE_TASKS, x->id, x->user_id, s->rq->principal.token);
    change_mark(c, EVENT_EXPERIMENT, x->id, 0, NULL);
    if (s->external_id)
        STORE(c, EXPERIMENT_SET_EXTERNAL, s->external_id, x->id);
    if (active->weight < 1 || active->weight > 1)
        STORE(c, EXPERIMENT_SET_QUEUE, 0, active->weight, active->pool->name, x->id);
    free(label_text);
    free(snapshot);
}

static void create_experiment(struct core *c, struct submission *s)
{
    struct request *rq = s->rq;
    struct experiment *x = xcalloc(1, sizeof *x);
    struct search_event begin = {.kind = SEARCH_BEGIN};
    x->id = c->next_experiment++;
    x->user_id = rq->principal.user_id;
    x->project_id = s->project;
    core_project(c, x->project_id)->experiments++;
    x->kind = s->kind;
    bool starts = s->kind != KIND_EXPERIMENT || jget_bool(rq->body, "activate", false);
    x->state = starts && !s->unmanaged ? EXPERIMENT_ACTIVE : EXPERIMENT_PAUSED;
    id_map_put(&c->experiments, x->id, x);
    struct active_experiment *active = active_experiment_new(c, x, json_incref(s->config));
    char job[UUID_TEXT];
    uuid_make(job);
    active->job_id = xstrdup(job);
    active->owner = xstrdup(rq->principal.username);
    active->seed = s->seed;
    active->submitted_at = c->wall;
    active->no_files = s->no_files;
    active->no_pause = s->no_pause;
    active->ancestors = s->ancestors;
    s->ancestors = NULL;
    active->unmanaged = s->unmanaged;
    if (s->external_id)
        external_id_set(c, x, s->external_id);
    active->search = s->search;
    s->search = NULL;
    active_experiment_schedule(c, active);
    store_experiment(c, s, active);
    experiment_search_event(c, active, &begin);
    log_info("experiment created", "exp=%lld user=%s slots=%d", (long long)x->id, active->owner,
             active->slots_per_trial);
    rq->id = x->id;
}

// The experiment that would be created; it has no id.
static void answer_preview(struct core *c, const struct submission *s)
{
    struct request *rq = s->rq;
    struct experiment_preview *result = arena_alloc(&rq->arena, sizeof *result);
    *result = (struct experiment_preview){
        .config_text = arena_strdup(&rq->arena, config_text(s)),
        .config = request_copy_json(rq, s->config),
        .project_id = s->project,
        .user_id = rq->principal.user_id,
        .submitted_at = c->wall,
    };
    rq->result = result;
}

static int recheck_source_checkpoint(struct core *c, struct submission *s)
{
    const char *uuid = jget_string(jget(s->config, "searcher"), "source_checkpoint_uuid", NULL);
    const struct gc_deletion *taken = uuid ? gc_find_deletion(c, uuid) : NULL;
    struct db_rows *rows = uuid ? DB_QUERY(c->reader, CHECKPOINT_STORAGE, uuid) : NULL;
    bool gone =
        (taken && taken->whole) ||
        (rows && db_next(rows) > 0 && !strcmp(DB_GET(rows, CHECKPOINT_STORAGE, state), "DELETED"));
    db_rows_close(rows);
    return gone ? refuse_deleted_source(s, uuid) : 0;
}

// The default pool of a workspace may have vanished since it was set.
static int check_default_pool(struct core *c, struct submission *s, const struct workspace *ws)
{
    struct pool *pool;
    const char *name = jget_string(jget(s->config, "resources"), "resource_pool", "");
    int err = s->workspace_pool ? core_pool_require(c, name, &pool, &s->e) : 0;
    return err ? error_prefix(&s->e,
                              "resources.resource_pool: names none, and the default pool of "
                              "workspace \"%.64s\" is gone",
                              ws->name)
               : 0;
}

// Checks against live state, which may have changed since the worker read the store.
static int check_submission(struct core *c, struct submission *s)
{
    if (s->files_from && !core_experiment_find(c, s->files_from))
        return error_set(&s->e, ERR_NOT_FOUND,
                         "experiment %lld, whose files this submission uses, has been deleted",
                         (long long)s->files_from);
    int err = core_may_submit(c, s->rq, s->project, &s->e);
    if (!err)
        err = recheck_source_checkpoint(c, s);
    if (err || s->unmanaged)
        return err;
    const struct workspace *ws = core_project(c, s->project)->workspace;
    err = check_default_pool(c, s, ws);
    if (!err)
        err = feasibility_check(c, s->config, ws, s->rq->principal.user_id, &s->e);
    if (!err && s->kind == KIND_EXPERIMENT)
        err = feasibility_check_storage(c, s->config, &s->e);
    return err ? err : queue_check_submission(c, s->rq, ws, s->config, &s->e);
}

// Finds the experiment that has the submission's external id already; it is the answer.
// ERR_CONFLICT: the caller may not change that experiment. Its existence is no secret to those who
// see the workspace.
static int find_existing(struct core *c, struct submission *s, bool *existing)
{
    const struct project *p = core_project(c, s->project);
    const struct experiment *x = NULL;
    if (p && s->external_id && role_may(core_role(s->rq, p->workspace), ACT_SEE))
        x = external_id_find(c, p->workspace, s->kind, s->external_id);
    *existing = x;
    if (!x)
        return 0;
    s->rq->id = x->id;
    return core_may_change(c, s->rq, x, NULL)
               ? error_set(&s->e, ERR_CONFLICT,
                           "%s: workspace \"%.64s\" already has \"%.64s\", which you may not "
                           "change; choose another id",
                           s->fields->external, p->workspace->name, s->external_id)
               : 0;
}

// One sentence for all keys that have no effect.
static const char *describe_ignored(struct core *c, struct submission *s)
{
    if (!s->unmanaged && feasibility_ignores_mounts(c, s->config))
        buf_printf(&s->ignored, "%sbind_mounts", s->ignored.len ? ", " : "");
    if (!s->ignored.len)
        return NULL;
    return arena_printf(&s->rq->arena,
                        "these keys have no effect, because programs run as processes of a machine "
                        "and not in containers: %s",
                        buf_str(&s->ignored));
}

void submission_warn(struct core *c, struct request *rq, const json_t *config)
{
    char *warning = feasibility_warning(c, config), *bounds = log_bounds_warning(config);
    rq->warning = warning ? arena_strdup(&rq->arena, warning) : NULL;
    rq->notes[1] = bounds ? arena_strdup(&rq->arena, bounds) : NULL;
    free(warning);
    free(bounds);
}

static void warn_of_launch(struct submission *s)
{
    char *text = NULL;
    if (!s->unmanaged && !s->names_launch && s->kind == KIND_EXPERIMENT)
        text = feasibility_launch_warning(s->config);
    s->rq->notes[2] = text ? arena_strdup(&s->rq->arena, text) : NULL;
    free(text);
}

// resources.slots is a key of commands; Determined accepts it in experiments, too.
static const char *describe_slots(const struct submission *s)
{
    const json_t *resources = jget(s->config, "resources");
    if (s->kind != KIND_EXPERIMENT || jget_int(resources, "slots", 0) < 1)
        return NULL;
    return arena_printf(&s->rq->arena,
                        "resources.slots has no effect on an experiment; each trial gets the "
                        "number of resources.slots_per_trial, which is %lld",
                        (long long)jget_int(resources, "slots_per_trial", 1));
}

static void answer_submission(struct core *c, struct submission *s)
{
    s->rq->notes[0] = describe_ignored(c, s);
    s->rq->notes[3] = describe_slots(s);
    warn_of_launch(s);
    if (!s->unmanaged)
        submission_warn(c, s->rq, s->config);
    if (s->fields->previews)
        s->rq->result = request_copy_json(s->rq, s->preview);
    else if (s->kind == KIND_EXPERIMENT && jget_bool(s->rq->body, "validateOnly", false))
        answer_preview(c, s);
    else
        create_experiment(c, s);
}

static void submission_ready(struct core *c, struct work *work)
{
    struct submission *s = (struct submission *)work;
    bool existing = false;
    if (!s->err)
        s->err = find_existing(c, s, &existing);
    if (!s->err && !existing)
        s->err = check_submission(c, s);
    if (!s->err && !existing && s->ancestors)
        s->err = task_submission_check_parent(c, s);
    if (s->err) {
        core_refuse(c, s->rq, &s->e);
    } else {
        if (!existing)
            answer_submission(c, s);
        core_complete(c, s->rq);
    }
    if (s->code_archive.parts)
        code_archives_check(c, s->archive_id); // also when the submission was refused
    submission_free(work);
}

static size_t upload_bytes(const struct request *rq, const struct submission_fields *fields)
{
    size_t i, bytes = rq->texts_len;
    json_t *file;
    json_array_foreach(jget(rq->body, fields->files), i, file) bytes +=
        json_string_length(json_object_get(file, "content"));
    return bytes;
}

static int submission_send(struct core *c, struct request *rq, enum kind kind,
                           const struct submission_fields *fields, const char *external_id,
                           struct error *e)
{
    if (rq->principal.kind != PRINCIPAL_USER)
        return error_set(e, ERR_FORBIDDEN, "only users submit %s", kind_words[kind].list);
    if (external_id && (!*external_id || strlen(external_id) > LIMIT_NAME))
        return error_set(e, ERR_INVALID, "%s: not a name of 1 to %d bytes", fields->external,
                         LIMIT_NAME);
    struct submission *s = xcalloc(1, sizeof *s);
    s->work =
        (struct work){.run = read_submission, .done = submission_ready, .drop = submission_free};
    s->rq = rq;
    s->kind = kind;
    s->fields = fields;
    s->unmanaged = kind == KIND_EXPERIMENT && jget_bool(rq->body, "unmanaged", false);
    s->external_id = external_id;
    s->storage = c->options.storage;
    s->db = loop_db(c);
    s->archive_id = c->next_archive++;
    buf_init(&s->ignored, LIMIT_NAME * 4);
    bool slow = fields->previews || upload_bytes(rq, fields) > LARGE_UPLOAD;
    int err = workers_send(c->workers, &s->work, slow ? WORK_SLOW : WORK_QUICK, e);
    if (err)
        submission_free(&s->work);
    return err ? err : REQUEST_PARKED;
}

static const struct submission_fields experiment_fields = {
    .files = "modelDefinition", .template = "template", .external = "externalExperimentId"};

int core_experiment_create(struct core *c, struct request *rq, struct error *e)
{
    return submission_send(c, rq, KIND_EXPERIMENT, &experiment_fields,
                           jget_string(rq->body, experiment_fields.external, NULL), e);
}

int core_experiment_preview(struct core *c, struct request *rq, struct error *e)
{
    static const struct submission_fields fields = {
        .files = "modelDefinition", .template = "template", .previews = true};
    return submission_send(c, rq, KIND_EXPERIMENT, &fields, NULL, e);
}

int core_experiment_put(struct core *c, struct request *rq, struct error *e)
{
    return submission_send(c, rq, KIND_EXPERIMENT, &experiment_fields, rq->params[0], e);
}

int core_command_create(struct core *c, struct request *rq, struct error *e)
{
    static const struct submission_fields fields = {
        .files = "files", .template = "templateName", .external = "externalTaskId"};
    return submission_send(c, rq, KIND_COMMAND, &fields,
                           jget_string(rq->body, fields.external, NULL), e);
}

int core_generic_create(struct core *c, struct request *rq, struct error *e)
{
    static const struct submission_fields fields = {
        .files = "contextDirectory", .template = "templateName", .external = "externalTaskId"};
    return submission_send(c, rq, KIND_GENERIC, &fields,
                           jget_string(rq->body, fields.external, NULL), e);
}
