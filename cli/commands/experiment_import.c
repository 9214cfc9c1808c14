// muster experiment import: creates an unmanaged experiment from an export. It has new ids; its
// notes name the old ones. If a step fails, the new experiment is deleted.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "api/checkpoint/checkpoint.h"
#include "api/wire.h"
#include "base/clock.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/bundle.h"
#include "cli/common/bundle_media.h"
#include "cli/output/output.h"

enum { BATCH = 1000, BATCH_BYTES = 4 << 20 };

struct import_job {
    struct cli *c;
    const char *folder;
    struct progress_meter meter;
    long long experiment; // id of the new experiment; 0: none yet
    long long trial;      // id of the new trial that is being sent
    json_t *trials;       // {old id: new id}
    json_t *storage;      // checkpoint_storage of the new experiment
    json_t *history;      // times and final states, for the last call
    json_t *batch;        // metrics or log lines not sent yet
    char *group;          // group of the metrics in the batch
    size_t bytes;         // approximate size of the batch
    bool no_columns;      // the master has no call for columns
    long long reports, lines, checkpoints, files;
    char *cluster; // id of the new cluster
    struct bundle_media_counts media;
};

// --- metrics -------------------------------------------------------------------------------------

static int post_report(struct import_job *m, const json_t *report, struct error *e)
{
    long long steps = jget_int(report, "steps", -1);
    json_t *body = json_pack(
        "{s:s, s:{s:I, s:I, s:{s:O, s:O?}}}", "group", jget_string(report, "group", ""), "metrics",
        "trialId", (json_int_t)m->trial, "trialRunId", (json_int_t)1, "metrics", "avgMetrics",
        json_object_get(report, "metrics"), "batchMetrics", jget(report, "batch_metrics"));
    json_t *inner = json_object_get(body, "metrics");
    json_object_set(inner, "reportTime", json_object_get(report, "time"));
    if (steps >= 0)
        json_object_set_new(inner, "stepsCompleted", json_integer(steps));
    int err = cli_call(m->c, "POST", body, NULL, e, "/api/v1/trials/%lld/metrics", m->trial);
    json_decref(body);
    return err;
}

// Returns the batch as columns; null where a report does not have the metric.
static json_t *batch_columns(const json_t *batch)
{
    json_t *steps = json_array(), *times = json_array(), *metrics = json_object();
    json_t *report, *value, *column;
    const char *name;
    size_t i, rows = json_array_size(batch);
    json_array_foreach(batch, i, report)
    {
        json_array_append(steps, json_object_get(report, "steps"));
        json_array_append(times, json_object_get(report, "time"));
        json_object_foreach(json_object_get(report, "metrics"), name, value)
        {
            column = json_object_get(metrics, name);
            if (!column) {
                column = json_array();
                json_object_set_new(metrics, name, column);
            }
            while (json_array_size(column) < i)
                json_array_append_new(column, json_null());
            json_array_append(column, value);
        }
    }
    json_object_foreach(metrics, name, column)
    {
        while (json_array_size(column) < rows)
            json_array_append_new(column, json_null());
    }
    return json_pack("{s:o, s:o, s:o}", "steps", steps, "times", times, "metrics", metrics);
}

static int post_columns(struct import_job *m, struct error *e)
{
    json_t *body = batch_columns(m->batch);
    json_object_set_new(body, "group", json_string(m->group));
    json_object_set_new(body, "trialRunId", json_integer(1));
    int err =
        cli_call(m->c, "POST", body, NULL, e, "/api/v1/trials/%lld/metrics/columns", m->trial);
    json_decref(body);
    return err;
}

// A master without the call for columns gets the reports one by one.
static int batch_post_metrics(struct import_job *m, struct error *e)
{
    size_t i;
    json_t *report;
    int err = 0;
    if (json_array_size(m->batch) > 0 && !m->no_columns) {
        err = post_columns(m, e);
        m->no_columns = err == ERR_NOT_FOUND || err == ERR_METHOD;
        err = m->no_columns ? 0 : err;
    }
    if (m->no_columns) {
        json_array_foreach(m->batch, i, report)
        {
            err = err ? err : post_report(m, report, e);
        }
    }
    json_array_clear(m->batch);
    m->bytes = 0;
    return err;
}

// Columns carry only reports that have a step and a time, numeric metrics, and no metrics of single
// batches.
static bool fits_columns(const json_t *report)
{
    const char *name;
    json_t *value;
    if (jget_int(report, "steps", -1) < 0 || jget(report, "batch_metrics") ||
        !jget_string(report, "time", NULL))
        return false;
    json_object_foreach(jget(report, "metrics"), name, value)
    {
        if (!json_is_number(value))
            return false;
    }
    return json_object_size(jget(report, "metrics")) > 0;
}

static int on_import_report(void *ctx, const json_t *report, struct error *e)
{
    struct import_job *m = ctx;
    const char *group = jget_string(report, "group", "");
    bool plain = fits_columns(report);
    int err = 0;
    if (!plain || !m->group || strcmp(group, m->group) != 0 || json_array_size(m->batch) >= BATCH ||
        m->bytes > BATCH_BYTES) {
        err = batch_post_metrics(m, e);
        free(m->group);
        m->group = xstrdup(group);
    }
    m->reports++;
    meter_show(&m->meter, "metrics", m->reports, 0);
    if (err || !plain)
        return err ? err : post_report(m, report, e);
    json_array_append(m->batch, (json_t *)report);
    m->bytes += 64 * (json_object_size(jget(report, "metrics")) + 1);
    return 0;
}

// --- logs ----------------------------------------------------------------------------------------

static int batch_post_logs(struct import_job *m, struct error *e)
{
    int err =
        json_array_size(m->batch) > 0 ? cli_call(m->c, "POST", m->batch, NULL, e, "/task-logs") : 0;
    json_array_clear(m->batch);
    m->bytes = 0;
    return err;
}

static int on_import_log(void *ctx, const json_t *line, struct error *e)
{
    static const char *const kept[] = {"timestamp",   "level",  "log",    "agentId",
                                       "containerId", "rankId", "source", "stdtype"};
    struct import_job *m = ctx;
    char task[48];
    snprintf(task, sizeof(task), "%lld.%lld", m->experiment, m->trial);
    json_t *one = json_pack("{s:s, s:s, s:I}", "taskId", task, "allocationId", "", "sequence",
                            (json_int_t)m->lines);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (jget(line, kept[i]))
            json_object_set(one, kept[i], jget(line, kept[i]));
    m->bytes += 256 + strlen(jget_string(line, "log", ""));
    json_array_append_new(m->batch, one);
    m->lines++;
    meter_show(&m->meter, "log lines", m->lines, 0);
    bool full = json_array_size(m->batch) >= BATCH || m->bytes > BATCH_BYTES;
    return full ? batch_post_logs(m, e) : 0;
}

// --- trials --------------------------------------------------------------------------------------

static int post_trial(struct import_job *m, const json_t *trial, struct error *e)
{
    const json_t *hparams = jget(trial, "hparams");
    char name[48];
    snprintf(name, sizeof(name), "import-%lld", (long long)jget_int(trial, "id", 0));
    json_t *body = json_pack("{s:s, s:{s:I, s:b, s:O}}", "externalTrialId", name,
                             "createTrialRequest", "experimentId", (json_int_t)m->experiment,
                             "unmanaged", 1, "hparams", hparams ? hparams : json_null());
    json_t *answer = NULL;
    int err = cli_call(m->c, "PUT", body, &answer, e, "/api/v1/trials");
    m->trial = jget_int(jget(answer, "trial"), "id", 0);
    if (!err)
        err = cli_call(m->c, "POST", NULL, NULL, e, "/api/v1/trials/%lld/start", m->trial);
    json_decref(answer);
    json_decref(body);
    return err;
}

static int send_lines(struct import_job *m, long long old, const char *name, bundle_line *on_line,
                      int (*flush)(struct import_job *m, struct error *e), struct error *e)
{
    char *path = xasprintf("trials/%lld/%s", old, name);
    int err = bundle_lines(m->folder, path, on_line, m, e);
    err = err ? err : flush(m, e);
    free(path);
    return err;
}

static int post_metadata(struct import_job *m, long long old, struct error *e)
{
    char *name = xasprintf("trials/%lld/metadata.json", old), *path = path_join(m->folder, name);
    json_t *metadata = NULL;
    int err = path_exists(path) ? bundle_json(m->folder, name, &metadata, e) : 0;
    if (!err && metadata) {
        json_t *body = json_pack("{s:O}", "metadata", metadata);
        err = cli_call(m->c, "POST", body, NULL, e, "/api/v1/runs/%lld/metadata", m->trial);
        json_decref(body);
    }
    json_decref(metadata);
    free(path);
    free(name);
    return err;
}

static int send_media(struct import_job *m, long long old, struct error *e)
{
    const struct bundle_media_target to = {.storage = m->storage,
                                           .cluster = m->cluster,
                                           .experiment = m->experiment,
                                           .old_trial = old,
                                           .trial = m->trial};
    return bundle_media_load(m->c, m->folder, &to, &m->media, e);
}

static void note_trial(struct import_job *m, const json_t *trial, long long old)
{
    static const char *const kept[] = {"startTime", "endTime", "state", "progress", "seed"};
    char key[24];
    snprintf(key, sizeof(key), "%lld", old);
    json_object_set_new(m->trials, key, json_integer(m->trial));
    json_t *one = json_pack("{s:I, s:I}", "id", (json_int_t)m->trial, "restarts",
                            (json_int_t)jget_int(trial, "restarts", 0));
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        json_object_set(one, kept[i], json_object_get(trial, kept[i]));
    json_array_append_new(json_object_get(m->history, "trials"), one);
}

static int on_import_trial(void *ctx, const json_t *trial, struct error *e)
{
    struct import_job *m = ctx;
    long long old = jget_int(trial, "id", 0);
    int err = post_trial(m, trial, e);
    m->lines = 0; // each task counts its own lines
    err = err ? err : send_lines(m, old, "metrics.jsonl", on_import_report, batch_post_metrics, e);
    err = err ? err : send_lines(m, old, "logs.jsonl", on_import_log, batch_post_logs, e);
    err = err ? err : post_metadata(m, old, e);
    err = err ? err : send_media(m, old, e);
    if (!err)
        note_trial(m, trial, old);
    return err;
}

// Sets the final states; a trial that had not ended is canceled, because nothing runs it here.
static int set_trial_states(struct import_job *m, struct error *e)
{
    json_t *trial;
    size_t i;
    int err = 0;
    json_array_foreach(json_object_get(m->history, "trials"), i, trial)
    {
        const char *word = wire_word(WIRE_TRIAL_STATE, jget_string(trial, "state", ""));
        bool ended = word && wire_state_is_terminal(word);
        json_t *body = json_pack("{s:s}", "state",
                                 ended ? wire_name(WIRE_TRIAL_STATE, word) : "STATE_CANCELED");
        long long id = jget_int(trial, "id", 0);
        err = err ? err : cli_call(m->c, "PATCH", body, NULL, e, "/api/v1/trials/%lld", id);
        json_decref(body);
    }
    return err;
}

// --- checkpoints ---------------------------------------------------------------------------------

static int copy_tree(const char *from, const char *to, struct error *e)
{
    FILE *spool = tmpfile();
    if (!spool)
        return error_set_errno(e, ERR_IO, errno, "cannot make a temporary file");
    int err = archive_pack_folder(from, fileno(spool), e);
    if (!err && lseek(fileno(spool), 0, SEEK_SET) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot read a temporary file");
    err = err ? err : archive_unpack_fd(fileno(spool), to, (uint64_t)BUNDLE_MAX_GIB << 30, e);
    fclose(spool);
    return err;
}

// Copies the files of a checkpoint into the new cluster's storage. *placed is false if the export
// has no files, or if this machine cannot write to the storage.
static int place_checkpoint_files(struct import_job *m, const char *old, const char *uuid,
                                  bool *placed, struct error *e)
{
    char *from = xasprintf("%s/checkpoints/%s", m->folder, old), *to = NULL;
    int err = 0;
    *placed = false;
    if (path_exists(from) && checkpoint_folder(m->storage, uuid, &to, NULL) == 0) {
        char *root = xasprintf("%.*s", (int)(strrchr(to, '/') - to), to);
        if (access(root, W_OK) == 0) {
            err = copy_tree(from, to, e);
            *placed = !err;
            m->files += !err;
        }
        free(root);
    }
    free(to);
    free(from);
    return err;
}

static int on_import_checkpoint(void *ctx, const json_t *checkpoint, struct error *e)
{
    struct import_job *m = ctx;
    char uuid[UUID_TEXT], old[UUID_TEXT], key[24], task[48];
    bool placed;
    long long trial = jget_int(jget(checkpoint, "training"), "trialId", 0);
    snprintf(key, sizeof(key), "%lld", trial);
    trial = jget_int(m->trials, key, 0);
    int err = checkpoint_uuid(jget_string(checkpoint, "uuid", ""), old, e);
    if (err || trial == 0)
        return err ? err
                   : error_set(e, ERR_INVALID,
                               "checkpoints.jsonl: a checkpoint names a trial that is not in "
                               "trials.jsonl");
    uuid_make(uuid);
    snprintf(task, sizeof(task), "%lld.%lld", m->experiment, trial);
    err = place_checkpoint_files(m, old, uuid, &placed, e);
    json_t *metadata = json_deep_copy(jget(checkpoint, "metadata"));
    if (!json_is_object(metadata)) {
        json_decref(metadata);
        metadata = json_object();
    }
    if (!jget(metadata, "steps_completed")) {
        json_object_set_new(metadata, "steps_completed",
                            json_integer(jget_int(checkpoint, "stepsCompleted", 0)));
    }
    json_object_set_new(metadata, "imported_from", json_string(old));
    const json_t *resources = jget(checkpoint, "resources");
    json_t *body = json_pack("{s:s, s:s, s:s, s:o, s:O?, s:s}", "uuid", uuid, "taskId", task,
                             "allocationId", "", "metadata", metadata, "resources", resources,
                             "state", placed ? "STATE_COMPLETED" : "STATE_DELETED");
    json_object_set(body, "reportTime", json_object_get(checkpoint, "reportTime"));
    err = err ? err : cli_call(m->c, "POST", body, NULL, e, "/api/v1/checkpoints");
    json_decref(body);
    m->checkpoints++;
    meter_show(&m->meter, "checkpoints", m->checkpoints, 0);
    return err;
}

// --- the experiment ------------------------------------------------------------------------------

static int check_manifest(struct import_job *m, json_t **manifest, struct error *e)
{
    int err = bundle_json(m->folder, "manifest.json", manifest, e);
    if (err || strcmp(jget_string(*manifest, "format", ""), "muster-experiment") != 0) {
        return error_set(e, ERR_INVALID,
                         "%s is not an export of an experiment: it has no valid manifest.json",
                         m->c->args[0]);
    }
    long long version = jget_int(*manifest, "version", 0);
    if (version < 1 || version > BUNDLE_VERSION) {
        return error_set(
            e, ERR_VERSION,
            "%s has version %lld of the export format; this program reads versions up to %d",
            m->c->args[0], version, BUNDLE_VERSION);
    }
    return 0;
}

static int read_code_files(struct import_job *m, json_t **files, struct error *e)
{
    char *folder = path_join(m->folder, "model_definition");
    int err = path_exists(folder) ? archive_list_folder(folder, files, e) : 0;
    free(folder);
    if (!err && !*files)
        *files = json_array();
    return err;
}

static int read_yaml(struct import_job *m, char **yaml, struct error *e)
{
    char *path = path_join(m->folder, "config.yaml");
    size_t len = 0;
    int err = file_read(path, BUNDLE_LINE_MAX, yaml, &len, e);
    free(path);
    return err;
}

static int find_cluster(struct import_job *m, struct error *e)
{
    json_t *master = NULL;
    int err = cli_call(m->c, "GET", NULL, &master, e, "/api/v1/master");
    m->cluster = xstrdup(jget_string(master, "clusterId", ""));
    json_decref(master);
    return err;
}

static int create_experiment(struct import_job *m, struct error *e)
{
    char *yaml = NULL;
    json_t *files = NULL, *answer = NULL;
    int err = read_yaml(m, &yaml, e);
    err = err ? err : read_code_files(m, &files, e);
    if (!err) {
        json_t *body = json_pack(
            "{s:s, s:b, s:O, s:I}", "config", yaml, "unmanaged", 1, "modelDefinition", files,
            "projectId", (json_int_t)(m->c->options.project_id > 0 ? m->c->options.project_id : 1));
        err = cli_call(m->c, "POST", body, &answer, e, "/api/v1/experiments");
        json_decref(body);
    }
    if (!err) {
        const json_t *experiment = jget(answer, "experiment");
        const json_t *storage = jget_path(experiment, "config.checkpoint_storage");
        m->experiment = jget_int(experiment, "id", 0);
        m->storage = storage ? json_deep_copy(storage) : json_object();
    }
    json_decref(answer);
    json_decref(files);
    free(yaml);
    return err;
}

// Sets name, description, labels, and notes that name the origin.
static int set_description(struct import_job *m, const json_t *manifest, const json_t *old,
                           struct error *e)
{
    const char *notes = jget_string(old, "notes", "");
    const json_t *labels = jget(old, "labels");
    char *pairs = json_text(m->trials);
    char *text = xasprintf("%s%sImported: it was experiment %lld of cluster \"%s\" (%s), exported "
                           "%s. Its trials, by their ids there and here: %s",
                           notes, *notes != '\0' ? "\n\n" : "",
                           (long long)jget_int(manifest, "experiment", 0),
                           jget_string(jget(manifest, "cluster"), "name", ""),
                           jget_string(jget(manifest, "cluster"), "id", ""),
                           jget_string(manifest, "exportedAt", ""), pairs);
    json_t *body =
        json_pack("{s:s, s:s, s:s}", "name",
                  m->c->options.name ? m->c->options.name : jget_string(old, "name", "imported"),
                  "description", jget_string(old, "description", ""), "notes", text);
    if (json_is_array(labels))
        json_object_set(body, "labels", (json_t *)labels);
    int err = cli_call(m->c, "PATCH", body, NULL, e, "/api/v1/experiments/%lld", m->experiment);
    json_decref(body);
    free(text);
    free(pairs);
    return err;
}

// Sets times and progress. This call is the last one, because the others set the times to now.
static int post_history(struct import_job *m, const json_t *old, struct error *e)
{
    json_object_set(m->history, "startTime", json_object_get(old, "startTime"));
    json_object_set(m->history, "endTime", json_object_get(old, "endTime"));
    json_object_set(m->history, "progress", json_object_get(old, "progress"));
    return cli_call(m->c, "POST", m->history, NULL, e, "/api/v1/experiments/%lld/history",
                    m->experiment);
}

static int import_all(struct import_job *m, struct error *e)
{
    json_t *manifest = NULL, *old = NULL;
    int err = check_manifest(m, &manifest, e);
    err = err ? err : bundle_json(m->folder, "experiment.json", &old, e);
    err = err ? err : find_cluster(m, e);
    err = err ? err : create_experiment(m, e);
    err = err ? err : bundle_lines(m->folder, "trials.jsonl", on_import_trial, m, e);
    err = err ? err : bundle_lines(m->folder, "checkpoints.jsonl", on_import_checkpoint, m, e);
    err = err ? err : set_description(m, manifest, old, e);
    err = err ? err : set_trial_states(m, e);
    if (!err && json_array_size(json_object_get(m->history, "trials")) == 0) {
        err =
            cli_call(m->c, "POST", NULL, NULL, e, "/api/v1/experiments/%lld/cancel", m->experiment);
    }
    err = err ? err : post_history(m, old, e);
    json_decref(old);
    json_decref(manifest);
    return err;
}

// Deletes the incomplete experiment.
static void delete_incomplete(struct import_job *m)
{
    struct error ignored;
    cli_call(m->c, "POST", NULL, NULL, &ignored, "/api/v1/experiments/%lld/kill", m->experiment);
    if (cli_call(m->c, "DELETE", NULL, NULL, &ignored, "/api/v1/experiments/%lld", m->experiment) !=
        0) {
        fprintf(stderr,
                "muster: experiment %lld is not complete and could not be deleted (%s); delete it "
                "with muster experiment delete %lld\n",
                m->experiment, ignored.text, m->experiment);
    }
}

static int unpack_export(struct import_job *m, struct error *e)
{
    int fd = open(m->c->args[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "%s",
                               m->c->args[0]);
    }
    meter_show(&m->meter, "unpacking", 0, 0);
    int err = archive_unpack_fd(fd, m->folder, (uint64_t)BUNDLE_MAX_GIB << 30, e);
    close(fd);
    return err ? error_prefix(e, "%s", m->c->args[0]) : 0;
}

static int report_import(struct import_job *m, struct error *e)
{
    struct cli *c = m->c;
    if (c->format == OUTPUT_TABLE && !c->options.columns) {
        printf(c->options.quiet ? "%lld\n" : "Imported as experiment %lld\n", m->experiment);
        if (!c->options.quiet && m->checkpoints > m->files) {
            printf("%lld of %lld checkpoints have no files here and are listed as deleted\n",
                   m->checkpoints - m->files, m->checkpoints);
        }
        if (!c->options.quiet && m->media.missing > 0)
            printf("%lld images and other media are left out: this machine cannot write to the "
                   "checkpoint storage\n",
                   m->media.missing);
        return 0;
    }
    json_t *row = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "id", (json_int_t)m->experiment,
                            "trials", (json_int_t)json_object_size(m->trials), "reports",
                            (json_int_t)m->reports, "checkpoints", (json_int_t)m->checkpoints,
                            "files", (json_int_t)m->files, "media", (json_int_t)m->media.items);
    int err = output_object(c, row, "id,trials,reports,checkpoints,files,media", e);
    json_decref(row);
    return err;
}

int run_experiment_import(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *tmp = getenv("TMPDIR");
    char *folder = xasprintf("%s/muster-import-%ld", tmp ? tmp : "/tmp", (long)getpid());
    struct import_job m = {.c = c,
                           .folder = folder,
                           .trials = json_object(),
                           .batch = json_array(),
                           .history = json_pack("{s:[]}", "trials")};
    meter_begin(&m.meter, c->options.quiet);
    int err = unpack_export(&m, e);
    err = err ? err : import_all(&m, e);
    meter_end(&m.meter);
    if (err && m.experiment != 0)
        delete_incomplete(&m);
    err = err ? err : report_import(&m, e);
    dir_remove_tree(folder, NULL);
    json_decref(m.history);
    json_decref(m.storage);
    json_decref(m.batch);
    json_decref(m.trials);
    free(m.group);
    free(m.cluster);
    free(folder);
    return err;
}
