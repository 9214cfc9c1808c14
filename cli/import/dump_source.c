#include "cli/import/dump_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "cli/import/records.h"

enum { FILES_MAX = 22 << 20 }; // bytes of an experiment's files that a record may carry

struct source_search {            // an experiment while the dump is read
    int64_t best_trial, activity; // activity: the newest of its trials; 0: none
    bool single;
};

struct checkpoint_run {
    char uuid[UUID_TEXT];
    int64_t run;
};

// --- helpers -------------------------------------------------------------------------------------

struct source_run *dump_run(struct dump_source *s, int64_t id)
{
    struct source_run *run = id_table_find(&s->runs, id);
    if (!run) {
        run = xcalloc(1, sizeof(*run));
        run->id = id;
        run->training_steps = -1;
        id_table_put(&s->runs, id, run);
    }
    return run;
}

void dump_note_activity(struct source_run *run, const char *time)
{
    int64_t us = source_time_us(time);
    run->activity = us > run->activity ? us : run->activity;
}

static struct source_search *dump_search(struct dump_source *s, int64_t id)
{
    struct source_search *search = id_table_find(&s->experiments, id);
    if (!search) {
        search = xcalloc(1, sizeof(*search));
        id_table_put(&s->experiments, id, search);
    }
    return search;
}

void dump_progress(struct dump_source *s, const char *what, int64_t offset)
{
    meter_show(&s->meter, what, offset, dump_size(s->file));
}

int dump_json(const struct dump_row *row, const char *column, json_t **out, struct error *e)
{
    const char *text = dump_text(row, column);
    *out = NULL;
    if (!text)
        return 0;
    int err = json_parse(text, dump_len(row, column), column, out, e);
    return err ? error_set(e, ERR_CORRUPT, "broken JSON: %.300s", e->text) : 0;
}

static json_t *row_record(const struct dump_row *row, const char *kind, const char *id_column)
{
    return record_new(kind, dump_text(row, id_column));
}

static void copy_text_column(json_t *record, const char *key, const struct dump_row *row,
                             const char *column)
{
    record_text(record, key, dump_text(row, column));
}

static void copy_time_column(json_t *record, const char *key, const struct dump_row *row,
                             const char *column)
{
    record_time(record, key, dump_text(row, column));
}

static void copy_bool_column(json_t *record, const char *key, const struct dump_row *row,
                             const char *column)
{
    json_object_set_new(record, key, json_boolean(dump_bool(row, column)));
}

static int copy_json_column(json_t *record, const char *key, const struct dump_row *row,
                            const char *column, struct error *e)
{
    json_t *value = NULL;
    int err = dump_json(row, column, &value, e);
    record_json(record, key, value);
    json_decref(value);
    return err;
}

// Reads PostgreSQL's form of a list of texts: {a,"b c"}.
static json_t *text_list(const char *text)
{
    json_t *list = json_array();
    char *word = text ? xstrdup(text) : NULL, *to;
    const char *at = text && *text == '{' ? text + 1 : "";
    while (*at && *at != '}') {
        bool quoted = *at == '"';
        to = word;
        for (at += quoted; *at && (quoted ? *at != '"' : !strchr(",}", *at)); at++) {
            if (*at == '\\' && at[1])
                at++;
            *to++ = *at;
        }
        *to = '\0';
        if (quoted || strcmp(word, "NULL") != 0)
            json_array_append_new(list, json_string(word));
        at += quoted && *at == '"';
        at += *at == ',';
    }
    free(word);
    return list;
}

// --- users, workspaces, projects -----------------------------------------------------------------

static int on_user(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    json_t *record = row_record(row, "user", "id");
    copy_text_column(record, "username", row, "username");
    copy_text_column(record, "displayName", row, "display_name");
    copy_text_column(record, "passwordHash", row, "password_hash");
    copy_bool_column(record, "admin", row, "admin");
    copy_bool_column(record, "active", row, "active");
    return importer_add(s->importer, record, e);
}

static int on_workspace(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    json_t *record = row_record(row, "workspace", "id");
    copy_text_column(record, "name", row, "name");
    copy_text_column(record, "owner", row, "user_id");
    copy_bool_column(record, "archived", row, "archived");
    copy_time_column(record, "createdAt", row, "created_at");
    return importer_add(s->importer, record, e);
}

static int on_project(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    json_t *record = row_record(row, "project", "id");
    copy_text_column(record, "name", row, "name");
    copy_text_column(record, "description", row, "description");
    copy_text_column(record, "owner", row, "user_id");
    copy_text_column(record, "workspace", row, "workspace_id");
    copy_bool_column(record, "archived", row, "archived");
    copy_time_column(record, "createdAt", row, "created_at");
    int err = copy_json_column(record, "notes", row, "notes", e);
    return err ? (json_decref(record), err) : importer_add(s->importer, record, e);
}

// --- experiments ---------------------------------------------------------------------------------

// The files are the bytes of a tar.gz, which COPY writes as \x and hexadecimal digits.
static void copy_files(struct dump_source *s, json_t *record, const struct dump_row *row)
{
    const char *hex = dump_text(row, "model_definition");
    size_t len = hex ? dump_len(row, "model_definition") : 0;
    if (len < 4 || strncmp(hex, "\\x", 2) != 0)
        return;
    size_t bytes = (len - 2) / 2;
    if (bytes > FILES_MAX) {
        importer_note(s->importer,
                      "experiments came with more than %d MiB of files, which are left out",
                      FILES_MAX >> 20);
        return;
    }
    void *data = xrealloc(NULL, bytes);
    if (!hex_decode(hex + 2, data, bytes)) {
        char *encoded = base64_encode(data, bytes);
        json_object_set_new(record, "files", json_string(encoded));
        free(encoded);
    }
    free(data);
}

static struct source_search *keep_search(struct dump_source *s, const struct dump_row *row,
                                         const json_t *config)
{
    struct source_search *search = dump_search(s, dump_int(row, "id", 0));
    search->single = config_is_single(config);
    search->best_trial = dump_int(row, "best_trial_id", 0);
    return search;
}

static int on_experiment(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    json_t *config = NULL, *record = row_record(row, "experiment", "id");
    dump_progress(s, "experiments", row->offset);
    int err = dump_json(row, "config", &config, e);
    if (err || !record_state(record, dump_text(row, "state")) || !config) {
        if (!err)
            importer_skip(s->importer, "experiment", dump_text(row, "id"), "it is %s",
                          config ? "being deleted" : "without configuration");
        json_decref(config);
        json_decref(record);
        return err;
    }
    const struct source_experiment from = {.config = config,
                                           .original_config = dump_text(row, "original_config"),
                                           .notes = dump_text(row, "notes"),
                                           .cluster = s->cluster,
                                           .unmanaged = dump_bool(row, "unmanaged")};
    const char *progress = dump_text(row, "progress");
    record_experiment(s->importer, record, &from);
    const struct source_search *search = keep_search(s, row, config);
    copy_text_column(record, "owner", row, "owner_id");
    copy_text_column(record, "project", row, "project_id");
    copy_text_column(record, "parent", row, "parent_id");
    copy_text_column(record, "externalId", row, "external_experiment_id");
    copy_bool_column(record, "archived", row, "archived");
    copy_time_column(record, "startTime", row, "start_time");
    record_end(record, dump_text(row, "end_time"), search->activity);
    json_object_set_new(record, "progress", json_real(progress ? strtod(progress, NULL) : 0));
    copy_files(s, record, row);
    json_decref(config);
    return importer_add(s->importer, record, e);
}

// --- trials: runs, trials_v2, runs_metadata ------------------------------------------------------

static int on_trial_v2(void *ctx, const struct dump_row *row, struct error *e)
{
    (void)e;
    struct source_run *run = dump_run(ctx, dump_int(row, "run_id", 0));
    free(run->request);
    run->request = xstrdup(dump_text(row, "request_id"));
    run->seed = dump_int(row, "seed", 0);
    return 0;
}

static int on_metadata(void *ctx, const struct dump_row *row, struct error *e)
{
    (void)e;
    struct source_run *run = dump_run(ctx, dump_int(row, "run_id", 0));
    free(run->metadata);
    run->metadata = xstrdup(dump_text(row, "metadata"));
    return 0;
}

static int set_metadata(json_t *record, const struct source_run *run, struct error *e)
{
    json_t *metadata = NULL;
    int err = run->metadata
                  ? json_parse(run->metadata, strlen(run->metadata), "metadata", &metadata, e)
                  : 0;
    if (json_is_object(metadata))
        record_json(record, "metadata", metadata);
    json_decref(metadata);
    return err;
}

static void keep_run(struct source_run *run, const struct dump_row *row)
{
    run->known = true;
    run->experiment = dump_int(row, "experiment_id", 0);
    run->steps = dump_int(row, "total_batches", 0);
    run->best = dump_int(row, "best_validation_id", 0);
    run->latest = dump_int(row, "latest_validation_id", 0);
    free(run->summary);
    run->summary = xstrdup(dump_text(row, "summary_metrics"));
}

static void set_best(json_t *record, const struct source_run *run, const struct dump_row *row,
                     const struct source_search *search)
{
    const char *best = dump_text(row, "searcher_metric_value");
    json_object_set_new(record, "single", json_boolean(search && search->single));
    if (best && search && search->best_trial == run->id)
        json_object_set_new(record, "bestMetric", json_real(strtod(best, NULL)));
}

static int on_run(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    struct source_run *run = dump_run(s, dump_int(row, "id", 0));
    json_t *record = row_record(row, "trial", "id");
    dump_progress(s, "trials", row->offset);
    keep_run(run, row);
    if (!record_state(record, dump_text(row, "state"))) {
        json_decref(record);
        run->known = false;
        return 0;
    }
    copy_text_column(record, "experiment", row, "experiment_id");
    record_text(record, "requestId", run->request ? run->request : dump_text(row, "id"));
    copy_text_column(record, "externalId", row, "external_run_id");
    copy_text_column(record, "runnerState", row, "runner_state");
    copy_time_column(record, "startTime", row, "start_time");
    record_end(record, dump_text(row, "end_time"), run->activity);
    json_object_set_new(record, "seed", json_integer(run->seed));
    json_object_set_new(record, "restarts", json_integer(dump_int(row, "restarts", 0)));
    json_object_set_new(record, "steps", json_integer(run->steps));
    set_best(record, run, row, id_table_find(&s->experiments, run->experiment));
    int err = copy_json_column(record, "hparams", row, "hparams", e);
    err = err ? err : set_metadata(record, run, e);
    return err ? (json_decref(record), err) : importer_add(s->importer, record, e);
}

// --- checkpoints ---------------------------------------------------------------------------------

static const struct {
    const char *table, *column, *type; // column: of storage_backend
} storage_kinds[] = {{"storage_backend_shared_fs", "shared_fs_id", "shared_fs"},
                     {"storage_backend_directory", "directory_id", "directory"},
                     {"storage_backend_s3", "s3_id", "s3"},
                     {"storage_backend_gcs", "gcs_id", "gcs"},
                     {"storage_backend_azure", "azure_id", "azure"}};
enum { STORAGE_KINDS = sizeof(storage_kinds) / sizeof(storage_kinds[0]), KIND_SHIFT = 40 };

// Backends of each kind count from 1, so the kind is a part of their key.
static int64_t backend_key(size_t kind, int64_t id)
{
    return ((int64_t)(kind + 1) << KIND_SHIFT) + id;
}

static int on_backend(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    size_t kind = 0;
    (void)e;
    while (kind < STORAGE_KINDS - 1 && strcmp(storage_kinds[kind].table, row->header->table) != 0)
        kind++;
    int64_t key = backend_key(kind, dump_int(row, "id", 0));
    json_t *storage = json_pack("{s:s}", "type", storage_kinds[kind].type);
    for (int i = 0; i < row->header->column_count; i++) {
        const char *name = row->header->columns[i];
        bool secret = strstr(name, "key") || strstr(name, "secret") || strstr(name, "credential") ||
                      strstr(name, "connection");
        if (strcmp(name, "id") != 0 && !secret)
            record_text(storage, name, row->fields[i].text);
    }
    if (id_table_find(&s->storages, key))
        json_decref(storage);
    else
        id_table_put(&s->storages, key, storage);
    return 0;
}

static int on_storage(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    int64_t id = dump_int(row, "id", 0);
    (void)e;
    for (size_t i = 0; i < STORAGE_KINDS; i++) {
        json_t *storage =
            id_table_find(&s->storages, backend_key(i, dump_int(row, storage_kinds[i].column, -1)));
        if (storage && !id_table_find(&s->storages, id))
            id_table_put(&s->storages, id, json_incref(storage));
    }
    return 0;
}

static int on_run_checkpoint(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    const char *uuid = dump_text(row, "checkpoint_id");
    (void)e;
    if (s->checkpoint_count == s->checkpoint_cap) {
        s->checkpoint_cap = s->checkpoint_cap ? 2 * s->checkpoint_cap : 1024;
        s->checkpoints = xrealloc(s->checkpoints, s->checkpoint_cap * sizeof(*s->checkpoints));
    }
    struct checkpoint_run *at = &s->checkpoints[s->checkpoint_count++];
    snprintf(at->uuid, sizeof(at->uuid), "%s", uuid ? uuid : "");
    at->run = dump_int(row, "run_id", 0);
    return 0;
}

static int compare_uuids(const void *a, const void *b)
{
    const struct checkpoint_run *x = a, *y = b;
    return strcmp(x->uuid, y->uuid);
}

static const struct checkpoint_run *checkpoint_owner(const struct dump_source *s, const char *uuid)
{
    struct checkpoint_run key = {.run = 0};
    snprintf(key.uuid, sizeof(key.uuid), "%s", uuid ? uuid : "");
    return s->checkpoint_count
               ? bsearch(&key, s->checkpoints, s->checkpoint_count, sizeof(key), compare_uuids)
               : NULL;
}

static int on_checkpoint(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    const char *uuid = dump_text(row, "uuid");
    const struct checkpoint_run *owner = checkpoint_owner(s, uuid);
    dump_progress(s, "checkpoints", row->offset);
    if (!owner) {
        importer_skip(s->importer, "checkpoint", uuid ? uuid : "", "it belongs to no trial");
        return 0;
    }
    char trial[24];
    json_t *record = row_record(row, "checkpoint", "uuid");
    snprintf(trial, sizeof(trial), "%" PRId64, owner->run);
    record_text(record, "trial", trial);
    copy_text_column(record, "allocationId", row, "allocation_id");
    copy_text_column(record, "state", row, "state");
    copy_time_column(record, "reportTime", row, "report_time");
    record_json(record, "storage", id_table_find(&s->storages, dump_int(row, "storage_id", -1)));
    int err = copy_json_column(record, "metadata", row, "metadata", e);
    err = err ? err : copy_json_column(record, "resources", row, "resources", e);
    json_object_set_new(
        record, "steps",
        json_integer(jget_int(json_object_get(record, "metadata"), "steps_completed", 0)));
    return err ? (json_decref(record), err) : importer_add(s->importer, record, e);
}

static int import_checkpoints(struct dump_source *s, struct error *e)
{
    int err = 0;
    for (size_t i = 0; i < STORAGE_KINDS && !err; i++)
        err = dump_read(s->file, storage_kinds[i].table, on_backend, s, e);
    err = err ? err : dump_read(s->file, "storage_backend", on_storage, s, e);
    return err ? err : dump_read(s->file, "checkpoints_v2", on_checkpoint, s, e);
}

// --- the newest activity, read before the records are made ---------------------------------------

static int on_checkpoint_time(void *ctx, const struct dump_row *row, struct error *e)
{
    (void)e;
    struct dump_source *s = ctx;
    const struct checkpoint_run *owner = checkpoint_owner(s, dump_text(row, "uuid"));
    if (owner)
        dump_note_activity(dump_run(s, owner->run), dump_text(row, "report_time"));
    return 0;
}

static int on_run_times(void *ctx, const struct dump_row *row, struct error *e)
{
    static const char *const columns[] = {"start_time", "end_time", "last_activity"};
    (void)e;
    struct source_run *run = dump_run(ctx, dump_int(row, "id", 0));
    struct source_search *search = dump_search(ctx, dump_int(row, "experiment_id", 0));
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        dump_note_activity(run, dump_text(row, columns[i]));
    search->activity = run->activity > search->activity ? run->activity : search->activity;
    return 0;
}

static int read_activity(struct dump_source *s, struct error *e)
{
    int err = dump_read(s->file, "run_checkpoints", on_run_checkpoint, s, e);
    if (!err && s->checkpoint_count)
        qsort(s->checkpoints, s->checkpoint_count, sizeof(*s->checkpoints), compare_uuids);
    err = err ? err : dump_read(s->file, "checkpoints_v2", on_checkpoint_time, s, e);
    return err ? err : dump_read(s->file, "runs", on_run_times, s, e);
}

// --- models --------------------------------------------------------------------------------------

static int on_model(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    json_t *record = row_record(row, "model", "id");
    copy_text_column(record, "name", row, "name");
    copy_text_column(record, "description", row, "description");
    copy_text_column(record, "notes", row, "notes");
    copy_text_column(record, "owner", row, "user_id");
    copy_text_column(record, "workspace", row, "workspace_id");
    copy_bool_column(record, "archived", row, "archived");
    copy_time_column(record, "createdAt", row, "creation_time");
    copy_time_column(record, "updatedAt", row, "last_updated_time");
    json_object_set_new(record, "labels", text_list(dump_text(row, "labels")));
    int err = copy_json_column(record, "metadata", row, "metadata", e);
    return err ? (json_decref(record), err) : importer_add(s->importer, record, e);
}

static int on_model_version(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    const char *model = dump_text(row, "model_id"), *version = dump_text(row, "version");
    char *old = xasprintf("%s/%s", model ? model : "", version ? version : "");
    json_t *record = record_new("model_version", old);
    free(old);
    record_text(record, "model", model);
    json_object_set_new(record, "version", json_integer(dump_int(row, "version", 0)));
    copy_text_column(record, "checkpoint", row, "checkpoint_uuid");
    copy_text_column(record, "name", row, "name");
    copy_text_column(record, "comment", row, "comment");
    copy_text_column(record, "notes", row, "notes");
    copy_text_column(record, "owner", row, "user_id");
    copy_time_column(record, "createdAt", row, "creation_time");
    copy_time_column(record, "updatedAt", row, "last_updated_time");
    json_object_set_new(record, "labels", text_list(dump_text(row, "labels")));
    int err = copy_json_column(record, "metadata", row, "metadata", e);
    return err ? (json_decref(record), err) : importer_add(s->importer, record, e);
}

// --- the whole import ----------------------------------------------------------------------------

static int on_raw_row(void *ctx, const struct copy_header *h, const char *row, size_t len,
                      struct error *e)
{
    struct dump_source *s = ctx;
    size_t field;
    bool experiment = strcmp(h->table, "experiments") == 0;
    if (!experiment && strcmp(h->table, "runs") != 0)
        return dump_count_report(s, h, row, len, e);
    int column = copy_find_column(h, "id");
    const char *text = column < 0 ? NULL : copy_raw_field(row, len, column, &field);
    if (!text)
        return error_set(e, ERR_CORRUPT, "a row of table %s without an id", h->table);
    int64_t id = strtoll(text, NULL, 10);
    int64_t *last = experiment ? &s->last_experiment : &s->last_trial;
    *last = id > *last ? id : *last;
    return 0;
}

static void on_progress(void *ctx, int64_t bytes, int64_t total)
{
    struct dump_source *s = ctx;
    meter_show(&s->meter, "reading", bytes, total);
}

static int on_cluster(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    (void)e;
    free(s->cluster);
    s->cluster = xstrdup(dump_text(row, "cluster_id"));
    return 0;
}

static int check_version(const struct dump_source *s, const char *path, struct error *e)
{
    static const char *const needed[] = {"users", "workspaces", "projects", "trials_v2", "runs"};
    if (!dump_has_table(s->file, "experiments"))
        return error_set(e, ERR_INVALID,
                         "%s is not a dump of Determined's database: it has no table experiments",
                         path);
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (!dump_has_table(s->file, needed[i]))
            return error_set(e, ERR_VERSION,
                             "%s has no table %s, which Determined 0.38 has: start a master of "
                             "version 0.38 on that database once, which upgrades it, and make the "
                             "dump again",
                             path, needed[i]);
    }
    // A table of metrics without data would replace the metrics of an earlier import by none.
    for (size_t i = 0; dump_metric_tables[i]; i++) {
        if (!dump_has_table(s->file, dump_metric_tables[i]))
            return error_set(e, ERR_INVALID,
                             "%s has no data of table %s: make the dump again without "
                             "--exclude-table-data for it",
                             path, dump_metric_tables[i]);
    }
    return 0;
}

static int import_tables(struct dump_source *s, struct error *e)
{
    static const struct {
        const char *table;
        dump_on_row *on_row;
    } tables[] = {
        {"users", on_user},         {"workspaces", on_workspace},
        {"projects", on_project},   {"experiments", on_experiment},
        {"trials_v2", on_trial_v2}, {"runs_metadata", on_metadata},
        {"runs", on_run},
    };
    int err = read_activity(s, e);
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !err; i++)
        err = dump_read(s->file, tables[i].table, tables[i].on_row, s, e);
    err = err ? err : import_checkpoints(s, e);
    err = err ? err : importer_flush(s->importer, e);
    err = err ? err : dump_import_metrics(s, e);
    err = err ? err : dump_read(s->file, "models", on_model, s, e);
    err = err ? err : dump_read(s->file, "model_versions", on_model_version, s, e);
    return err ? err : importer_flush(s->importer, e);
}

static void free_run(void *value)
{
    struct source_run *run = value;
    json_decref(run->best_report);
    json_decref(run->latest_report);
    json_decref(run->training);
    free(run->training_time);
    free(run->request);
    free(run->metadata);
    free(run->summary);
    free(run);
}

static void free_storage(void *value)
{
    json_decref(value);
}

static void source_free(struct dump_source *s)
{
    importer_close(s->importer);
    dump_close(s->file);
    id_table_free(&s->runs, free_run);
    id_table_free(&s->experiments, free);
    id_table_free(&s->storages, free_storage);
    free(s->checkpoints);
    free(s->cluster);
}

int import_dump(struct cli *c, const char *path, struct error *e)
{
    static const char *const tables[] = {"experiments",     "runs", "raw_steps", "raw_validations",
                                         "generic_metrics", NULL};
    struct dump_source s = {.c = c};
    const struct dump_watch watch = {
        .tables = tables, .on_row = on_raw_row, .progress = on_progress, .ctx = &s};
    meter_begin(&s.meter, c->options.quiet);
    int err = dump_open(path, &watch, &s.file, e);
    err = err ? err : check_version(&s, path, e);
    err = err ? err : dump_read(s.file, "cluster_id", on_cluster, &s, e);
    if (!err && !s.cluster)
        err = error_set(e, ERR_INVALID, "%s has no row in table cluster_id", path);
    err = err ? err : importer_open(c, s.cluster, s.last_experiment, s.last_trial, &s.importer, e);
    err = err ? err : import_tables(&s, e);
    meter_end(&s.meter);
    err = err ? err : importer_print_summary(s.importer, e);
    source_free(&s);
    return err;
}
