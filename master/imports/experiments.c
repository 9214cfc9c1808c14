// Experiments that have ended, their trials and checkpoints. Nothing of them becomes live, except
// that the core knows every experiment.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "master/calls/external_ids.h"
#include "master/common/storage.h"
#include "master/common/task_id.h"
#include "master/imports/internal.h"
#include "master/kernel/module.h"
#include "master/search/search.h"
#include "master/teams/teams.h"

// Every imported object has ended. If its record names no end, its start is its end.
static int64_t end_time(const json_t *record)
{
    int64_t end = import_time(record, "endTime");
    return end ? end : import_time(record, "startTime");
}

static double read_progress(const json_t *record, double otherwise)
{
    double progress = jget_double(record, "progress", otherwise);
    return progress >= 0 && progress <= 1 ? progress : otherwise;
}

// --- experiments ---------------------------------------------------------------------------------

// An imported object has ended, whatever it was doing there.
static bool read_experiment_state(const json_t *record, enum experiment_state *out,
                                  struct import_result *r)
{
    const char *word = import_text(record, "state");
    bool good =
        experiment_state_of(word, out) && *out >= EXPERIMENT_COMPLETED && *out <= EXPERIMENT_ERROR;
    if (!good)
        import_skip(r, "its state %.32s is not COMPLETED, CANCELED or ERROR", word);
    return good;
}

// The state of a search that has just begun, with which an experiment of one trial can be
// continued. Heap.
static char *search_state(const json_t *config, int64_t seed)
{
    struct search *search = NULL;
    if (search_new(config, seed, &search, NULL))
        return xstrdup("{}");
    char *text = search_snapshot(search);
    search_free(search);
    return text;
}

static void store_experiment(struct import_call *m, const json_t *record,
                             const struct experiment *x)
{
    const json_t *config = jget(record, "config");
    int64_t seed = jget_int(record, "seed", 0), old_parent = jget_int(record, "parent", 0);
    bool keeps = old_parent <= m->last_experiment;
    int64_t parent = old_parent == 0 ? 0
                     : keeps         ? old_parent
                             : import_find(m, "experiment", import_text(record, "parent")).id;
    const struct import_prepared *p = m->prepared;
    char job[UUID_TEXT];
    char *config_text = json_text(config), *labels = import_json(record, "labels", "[]"),
         *state = search_state(config, seed);
    uuid_make(job);
    if (p->files)
        STORE(m->c, MODEL_DEFINITION_INSERT, p->files_hash, DB_BLOB(p->files, p->files_len));
    STORE(m->c, IMPORT_EXPERIMENT, x->id, experiment_state_word(x->state),
          import_text(record, "name"), import_text(record, "description"),
          import_text(record, "notes"), labels, x->user_id, x->project_id, job, parent,
          import_text(record, "originalConfig"), config_text,
          jget_int(jget(config, "resources"), "priority", SCHED_PRIORITY_DEFAULT),
          jget_string(jget(config, "searcher"), "name", "single"), state, read_progress(record, 0),
          x->archived, jget_bool(record, "unmanaged", false), seed, p->files_hash,
          import_time(record, "startTime"), end_time(record));
    free(state);
    free(labels);
    free(config_text);
}

static void set_external_id(struct core *c, struct experiment *x, const char *text)
{
    if (!*text || strlen(text) > LIMIT_NAME ||
        external_id_find(c, core_workspace_of(c, x), x->kind, text))
        return;
    external_id_set(c, x, text);
    STORE(c, EXPERIMENT_SET_EXTERNAL, text, x->id);
}

static int64_t experiment_id(struct import_call *m, const json_t *record)
{
    int64_t old = jget_int(record, "old", 0);
    bool keeps = old > 0 && old <= m->last_experiment && !core_experiment_find(m->c, old);
    return keeps ? old : m->c->next_experiment++;
}

static void experiment_make(struct import_call *m, const json_t *record,
                            enum experiment_state state, int64_t owner, int64_t project,
                            struct import_result *r)
{
    struct experiment *x = xcalloc(1, sizeof *x);
    x->id = r->id = experiment_id(m, record);
    x->user_id = owner;
    x->project_id = project;
    x->kind = KIND_EXPERIMENT;
    x->state = state;
    x->archived = jget_bool(record, "archived", false);
    core_project(m->c, project)->experiments++;
    id_map_put(&m->c->experiments, x->id, x);
    store_experiment(m, record, x);
    set_external_id(m->c, x, import_text(record, "externalId"));
    import_keep(m, "experiment", import_text(record, "old"), x->id,
                jget_bool(record, "open", false), m->prepared->digest);
    change_mark(m->c, EVENT_EXPERIMENT, x->id, 0, NULL);
}

// Whether a record tells how an object ended that had not ended when it was imported.
static bool ended_since(const struct import_call *m, const struct imported *found)
{
    return found->open && strcmp(m->prepared->digest, found->digest);
}

static void experiment_update(struct import_call *m, const struct imported *found,
                              const json_t *record, enum experiment_state state,
                              struct import_result *r)
{
    struct experiment *x = core_experiment_find(m->c, found->id);
    *r = (struct import_result){.outcome = IMPORT_EXISTING, .id = found->id};
    if (!ended_since(m, found) || !x || x->active || !experiment_is_terminal(x->state))
        return;
    x->state = state;
    STORE(m->c, IMPORT_EXPERIMENT_END, experiment_state_word(state), import_text(record, "notes"),
          read_progress(record, 0), end_time(record), x->id);
    import_keep(m, "experiment", import_text(record, "old"), x->id,
                jget_bool(record, "open", false), m->prepared->digest);
    change_mark(m->c, EVENT_EXPERIMENT, x->id, 0, NULL);
    r->outcome = IMPORT_CHANGED;
}

// Whether the columns that the store fills from a configuration can hold its values.
static bool config_is_storable(const json_t *config)
{
    const json_t *slots = jget(jget(config, "resources"), "slots_per_trial"),
                 *storage = jget(config, "checkpoint_storage");
    return json_is_object(config) && (!slots || json_is_integer(slots)) &&
           (!storage || json_is_object(storage));
}

void import_experiment(struct import_call *m, const json_t *record, struct import_result *r)
{
    int64_t owner, project;
    enum experiment_state state;
    struct imported found = import_find(m, "experiment", import_text(record, "old"));
    if (!read_experiment_state(record, &state, r))
        return;
    if (found.found)
        experiment_update(m, &found, record, state, r);
    else if (!config_is_storable(jget(record, "config")))
        import_skip(r, "its config is not an object, or resources.slots_per_trial is not an "
                       "integer, or checkpoint_storage is not an object");
    else if (!import_reference(m, record, "owner", "user", r, &owner) ||
             !import_reference(m, record, "project", "project", r, &project))
        return;
    else if (!core_project(m->c, project))
        import_skip(r, "its project was deleted here");
    else
        experiment_make(m, record, state, owner, project, r);
}

// --- trials --------------------------------------------------------------------------------------

static bool read_trial_state(const json_t *record, enum trial_state *out, struct import_result *r)
{
    const char *word = import_text(record, "state");
    bool good = trial_state_of(word, out) && trial_is_terminal(*out);
    if (!good)
        import_skip(r, "its state %.32s is not COMPLETED, CANCELED or ERROR", word);
    return good;
}

static int64_t trial_id(struct import_call *m, const json_t *record)
{
    int64_t old = jget_int(record, "old", 0);
    bool keeps = old > 0 && old <= m->last_trial &&
                 !import_row_exists(DB_QUERY(m->c->reader, TRIAL_EXISTS, old));
    return keeps ? old : m->c->next_trial++;
}

// The log is not imported. Its only line says so, wherever people look for it.
static void tell_about_log(struct import_call *m, const json_t *record, int64_t trial,
                           const char *task)
{
    struct trial t = {.id = trial};
    char *text = xasprintf("this trial was imported without its log: it was trial %s of the other "
                           "cluster, and its log is only there (det trial logs %s)",
                           import_text(record, "old"), import_text(record, "old"));
    snprintf(t.first_task_id, sizeof t.first_task_id, "%s", task);
    CORE_DISPATCH(m->c, trial_message, m->c, &t, "", "INFO", text);
    free(text);
}

static void store_trial(struct import_call *m, const json_t *record, int64_t experiment,
                        enum trial_state state, int64_t id)
{
    char task[TASK_ID], request[SEARCH_REQUEST_ID];
    char *hparams = import_json(record, "hparams", "{}"),
         *metadata = import_json(record, "metadata", "{}");
    task_id_make(task, m->c->options.cluster_id, experiment, id);
    // The only trial of the searcher `single` is its request 1.
    snprintf(request, sizeof request, "%s",
             jget_bool(record, "single", false) ? "1" : import_text(record, "requestId"));
    STORE(m->c, IMPORT_TRIAL, id, experiment, request, task, trial_state_word(state), hparams,
          jget_int(record, "seed", 0), jget_int(record, "restarts", 0),
          read_progress(record, state == TRIAL_COMPLETED), jget_int(record, "steps", 0),
          import_text(record, "runnerState"), import_text(record, "exitReason"),
          import_time(record, "startTime"), end_time(record), metadata,
          import_text(record, "externalId"));
    tell_about_log(m, record, id, task);
    free(metadata);
    free(hparams);
}

// A record of the best trial names the best value of its experiment.
static void store_best(struct import_call *m, const json_t *record, int64_t experiment, int64_t id)
{
    const json_t *best = jget(record, "bestMetric");
    if (!json_is_number(best))
        return;
    STORE(m->c, EXPERIMENT_SET_BEST_METRIC, json_number_value(best), experiment);
    STORE(m->c, IMPORT_FORGET_BEST, experiment);
    STORE(m->c, VALIDATION_HISTORY_ADD, experiment, id, end_time(record), json_number_value(best));
}

static void trial_keep(struct import_call *m, const json_t *record, int64_t experiment, int64_t id)
{
    store_best(m, record, experiment, id);
    import_keep(m, "trial", import_text(record, "old"), id, jget_bool(record, "open", false),
                m->prepared->digest);
    change_mark(m->c, EVENT_TRIAL, experiment, id, NULL);
}

static bool experiment_is_ended(struct core *c, int64_t id)
{
    const struct experiment *x = core_experiment_find(c, id);
    return x && !x->active && experiment_is_terminal(x->state);
}

static void trial_update(struct import_call *m, const struct imported *found, const json_t *record,
                         enum trial_state state, int64_t experiment, struct import_result *r)
{
    *r = (struct import_result){.outcome = IMPORT_EXISTING, .id = found->id};
    if (!ended_since(m, found) || !experiment_is_ended(m->c, experiment))
        return;
    STORE(m->c, IMPORT_TRIAL_END, trial_state_word(state), jget_int(record, "restarts", 0),
          read_progress(record, state == TRIAL_COMPLETED), jget_int(record, "steps", 0),
          import_text(record, "exitReason"), end_time(record), found->id);
    trial_keep(m, record, experiment, found->id);
    r->outcome = IMPORT_CHANGED;
}

void import_trial(struct import_call *m, const json_t *record, struct import_result *r)
{
    int64_t experiment;
    enum trial_state state;
    struct imported found = import_find(m, "trial", import_text(record, "old"));
    if (!read_trial_state(record, &state, r) ||
        !import_reference(m, record, "experiment", "experiment", r, &experiment))
        return;
    if (found.found) {
        trial_update(m, &found, record, state, experiment, r);
    } else if (!experiment_is_ended(m->c, experiment)) {
        import_skip(r, "its experiment was deleted or continued here");
    } else {
        r->id = trial_id(m, record);
        store_trial(m, record, experiment, state, r->id);
        trial_keep(m, record, experiment, r->id);
    }
}

// --- checkpoints ---------------------------------------------------------------------------------

static bool checkpoint_state_is_known(const char *word)
{
    static const char *const words[] = {"ACTIVE", "COMPLETED", "ERROR", "DELETED",
                                        "PARTIALLY_DELETED"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], word))
            return true;
    return false;
}

// The record's own storage, else that of its experiment's configuration. Heap.
static char *checkpoint_storage(const json_t *record, const char *of_experiment)
{
    json_t *otherwise = NULL;
    const json_t *storage = jget(record, "storage");
    if (!storage && !json_parse(of_experiment, strlen(of_experiment), "storage", &otherwise, NULL))
        storage = otherwise;
    char *text = storage_text(storage);
    json_decref(otherwise);
    return text;
}

static void store_checkpoint(struct import_call *m, const json_t *record, int64_t trial,
                             const char *task, const char *of_experiment)
{
    char *metadata = import_json(record, "metadata", "{}"),
         *resources = import_json(record, "resources", "{}"),
         *storage = checkpoint_storage(record, of_experiment);
    STORE(m->c, IMPORT_CHECKPOINT, import_text(record, "old"), task,
          import_text(record, "allocationId"), trial, import_text(record, "state"),
          jget_int(record, "steps", 0), metadata, resources, storage,
          import_time(record, "reportTime"));
    STORE(m->c, IMPORT_NEWEST_CHECKPOINT, trial);
    free(storage);
    free(resources);
    free(metadata);
}

void import_checkpoint(struct import_call *m, const json_t *record, struct import_result *r)
{
    int64_t trial;
    char uuid[UUID_TEXT];
    if (checkpoint_uuid(import_text(record, "old"), uuid, &r->why)) {
        r->outcome = IMPORT_SKIPPED;
        return;
    }
    if (import_row_exists(DB_QUERY(m->c->reader, CHECKPOINT_OWNER, uuid))) {
        r->outcome = IMPORT_EXISTING;
        return;
    }
    if (!checkpoint_state_is_known(import_text(record, "state"))) {
        import_skip(r, "its state %.32s is unknown", import_text(record, "state"));
        return;
    }
    if (!import_reference(m, record, "trial", "trial", r, &trial))
        return;
    struct db_rows *rows = DB_QUERY(m->c->reader, IMPORT_CHECKPOINT_OWNER, trial);
    if (db_next(rows) == 1)
        store_checkpoint(m, record, trial, DB_GET(rows, IMPORT_CHECKPOINT_OWNER, task_id),
                         DB_GET(rows, IMPORT_CHECKPOINT_OWNER, storage));
    else
        import_skip(r, "its trial was deleted here");
    db_rows_close(rows);
}
