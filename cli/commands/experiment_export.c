// muster experiment export: reads the API, writes a folder, packs it into a tar file.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/bundle.h"
#include "cli/common/bundle_media.h"
#include "cli/output/output.h"

struct export_job {
    struct cli *c;
    const char *folder;
    struct progress_meter meter;
    FILE *out; // file of the current stream
    long long trials, reports, lines, checkpoints;
    struct bundle_media_counts media;
};

// --- the experiment ------------------------------------------------------------------------------

static int export_json(struct export_job *x, const char *name, const json_t *value, struct error *e)
{
    char *text = json_text(value);
    int err = bundle_put(x->folder, name, text, strlen(text), e);
    free(text);
    return err;
}

static int export_manifest(struct export_job *x, long long id, struct error *e)
{
    char when[CLOCK_RFC3339_MAX];
    json_t *master = NULL;
    int err = cli_call(x->c, "GET", NULL, &master, e, "/api/v1/master");
    if (err)
        return err;
    json_t *manifest = json_pack("{s:s, s:i, s:s, s:I, s:{s:s, s:s}, s:s}", "format",
                                 "muster-experiment", "version", BUNDLE_VERSION, "exportedAt",
                                 clock_format(clock_wall_us(), when), "experiment", (json_int_t)id,
                                 "cluster", "id", jget_string(master, "clusterId", ""), "name",
                                 jget_string(master, "clusterName", ""), "program", MUSTER_VERSION);
    err = export_json(x, "manifest.json", manifest, e);
    json_decref(manifest);
    json_decref(master);
    return err;
}

static int export_files(struct export_job *x, long long id, struct error *e)
{
    json_t *answer = NULL;
    void *tgz = NULL;
    size_t len = 0;
    int err = cli_call(x->c, "GET", NULL, &answer, e, "/api/v1/experiments/%lld/model_def", id);
    const char *text = jget_string(answer, "b64Tgz", "");
    if (!err && *text != '\0' && base64_decode(text, strlen(text), &tgz, &len) != 0)
        err = error_set(
            e, ERR_PEER,
            "the master sent damaged files of the experiment: their base64 cannot be decoded");
    if (!err && len > 0) {
        char *folder = path_join(x->folder, "model_definition");
        err = archive_unpack(tgz, len, folder, (uint64_t)BUNDLE_MAX_GIB << 30, e);
        free(folder);
    }
    free(tgz);
    json_decref(answer);
    return err;
}

static int export_experiment(struct export_job *x, long long id, struct error *e)
{
    json_t *object = NULL;
    int err = fetch_experiment(x->c, id, &object, e);
    err = err ? err : export_manifest(x, id, e);
    err = err ? err : export_json(x, "experiment.json", object, e);
    err = err ? err : export_json(x, "config.json", jget(object, "config"), e);
    if (!err) {
        const char *yaml = jget_string(object, "originalConfig", "");
        err = bundle_put(x->folder, "config.yaml", yaml, strlen(yaml), e);
    }
    json_decref(object);
    return err ? err : export_files(x, id, e);
}

// --- trials --------------------------------------------------------------------------------------

static int on_export_reports(void *ctx, const json_t *result, struct error *e)
{
    struct export_job *x = ctx;
    size_t i;
    json_t *report;
    int err = 0;
    json_array_foreach(jget(result, "metrics"), i, report)
    {
        const json_t *all = jget(report, "metrics"), *metrics = jget(all, "avg_metrics");
        if (err || jget_bool(report, "archived", false))
            continue;
        json_t *line = json_pack(
            "{s:s, s:I, s:I, s:s?, s:O}", "group", jget_string(report, "group", ""), "run",
            (json_int_t)jget_int(report, "trialRunId", 0), "steps",
            (json_int_t)jget_int(report, "totalBatches", -1), "time",
            jget_string(report, "endTime", NULL), "metrics", metrics ? metrics : json_null());
        if (jget(all, "batch_metrics"))
            json_object_set(line, "batch_metrics", jget(all, "batch_metrics"));
        err = bundle_put_line(x->out, line, e);
        json_decref(line);
        x->reports++;
    }
    meter_show(&x->meter, "metrics", ftello(x->out), 0);
    return err;
}

static int on_export_log(void *ctx, const json_t *result, struct error *e)
{
    struct export_job *x = ctx;
    x->lines++;
    meter_show(&x->meter, "logs", ftello(x->out), 0);
    return bundle_put_line(x->out, result, e);
}

static int export_stream(struct export_job *x, long long trial, const char *name,
                         client_on_line *on_line, const char *path, struct error *e)
{
    x->out = bundle_create(x->folder, e, "trials/%lld/%s", trial, name);
    if (!x->out)
        return ERR_IO;
    int err = client_stream(x->c->client, path, on_line, x, e);
    struct error ignored;
    int closed = bundle_close(x->out, name, !err ? e : &ignored);
    return err ? err : closed;
}

static int export_metadata(struct export_job *x, long long trial, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(x->c, "GET", NULL, &answer, e, "/api/v1/runs/%lld/metadata", trial);
    if (!err && json_object_size(jget(answer, "metadata")) > 0) {
        char *name = xasprintf("trials/%lld/metadata.json", trial);
        err = export_json(x, name, jget(answer, "metadata"), e);
        free(name);
    }
    json_decref(answer);
    return err;
}

static int export_trial(struct export_job *x, long long trial, struct error *e)
{
    char *metrics = xasprintf("/api/v1/trials/metrics/trial_metrics?trialIds=%lld", trial);
    char *logs = xasprintf("/api/v1/trials/%lld/logs?limit=0", trial);
    int err = export_stream(x, trial, "metrics.jsonl", on_export_reports, metrics, e);
    err = err ? err : bundle_tables(x->folder, trial, e);
    err = err ? err : export_stream(x, trial, "logs.jsonl", on_export_log, logs, e);
    err = err ? err : export_metadata(x, trial, e);
    err = err ? err : bundle_media_save(x->c, x->folder, trial, &x->media, e);
    free(logs);
    free(metrics);
    return err;
}

static int export_list(struct export_job *x, const char *name, const json_t *list, struct error *e)
{
    size_t i;
    json_t *item;
    int err = 0;
    FILE *f = bundle_create(x->folder, e, "%s", name);
    if (!f)
        return ERR_IO;
    json_array_foreach(list, i, item)
    {
        err = err ? err : bundle_put_line(f, item, e);
    }
    struct error ignored;
    int closed = bundle_close(f, name, !err ? e : &ignored);
    return err ? err : closed;
}

static int export_trials(struct export_job *x, long long id, struct error *e)
{
    json_t *trials = NULL, *trial;
    size_t i;
    int err = fetch_trials(x->c, id, &trials, e);
    err = err ? err : export_list(x, "trials.jsonl", trials, e);
    json_array_foreach(trials, i, trial)
    {
        if (!err) {
            err = export_trial(x, jget_int(trial, "id", 0), e);
            x->trials++;
        }
    }
    json_decref(trials);
    return err;
}

// --- checkpoints ---------------------------------------------------------------------------------

static bool has_files(const json_t *checkpoint)
{
    const char *state = jget_string(checkpoint, "state", "");
    return strcmp(state, "STATE_COMPLETED") == 0 || strcmp(state, "STATE_PARTIALLY_DELETED") == 0;
}

static int export_checkpoints(struct export_job *x, long long id, struct error *e)
{
    json_t *list = NULL, *checkpoint;
    size_t i;
    int err =
        cli_list(x->c, "checkpoints", 0, &list, e, "/api/v1/experiments/%lld/checkpoints", id);
    json_array_foreach(list, i, checkpoint)
    {
        json_object_del(jget(checkpoint, "training"), "experimentConfig"); // it is in config.json
        x->checkpoints++;
        if (!err && x->c->options.checkpoints && has_files(checkpoint)) {
            const char *uuid = jget_string(checkpoint, "uuid", "");
            char *folder = xasprintf("%s/checkpoints/%s", x->folder, uuid);
            meter_show(&x->meter, "checkpoints", x->checkpoints, (int64_t)json_array_size(list));
            err = fetch_checkpoint_files(x->c, uuid, folder, e);
            free(folder);
        }
    }
    err = err ? err : export_list(x, "checkpoints.jsonl", list, e);
    json_decref(list);
    return err;
}

// --- the file ------------------------------------------------------------------------------------

static int export_pack(struct export_job *x, const char *temporary, struct error *e)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s", temporary);
    meter_show(&x->meter, "packing", 0, 0);
    int err = archive_pack_folder_as(x->folder, ARCHIVE_TAR, fd, e);
    if (!err && fsync(fd) != 0)
        err = error_set_errno(e, ERR_IO, errno, "%s", temporary);
    close(fd);
    return err;
}

static int export_all(struct export_job *x, long long id, const char *path, struct error *e)
{
    char *temporary = xasprintf("%s.tmp.%ld", path, (long)getpid());
    int err = export_experiment(x, id, e);
    err = err ? err : export_trials(x, id, e);
    err = err ? err : export_checkpoints(x, id, e);
    err = err ? err : export_pack(x, temporary, e);
    if (!err && rename(temporary, path) != 0)
        err = error_set_errno(e, ERR_IO, errno, "%s", path);
    if (err)
        unlink(temporary);
    free(temporary);
    return err;
}

static int export_report(struct export_job *x, long long id, const char *path, struct error *e)
{
    struct cli *c = x->c;
    if (c->format == OUTPUT_TABLE && !c->options.columns) {
        if (!c->options.quiet) {
            printf("%s: experiment %lld with %lld trials, %lld reports of metrics, %lld log lines, "
                   "%lld checkpoints%s, %lld images and other media\n",
                   path, id, x->trials, x->reports, x->lines, x->checkpoints,
                   c->options.checkpoints ? " and their files" : "", x->media.items);
            if (x->media.missing)
                printf("%lld more media are left out: the master cannot read their content\n",
                       x->media.missing);
        }
        return 0;
    }
    json_t *row = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "path", path, "experiment", (json_int_t)id, "trials",
        (json_int_t)x->trials, "reports", (json_int_t)x->reports, "log_lines", (json_int_t)x->lines,
        "checkpoints", (json_int_t)x->checkpoints, "media", (json_int_t)x->media.items);
    int err =
        output_object(c, row, "path,experiment,trials,reports,log_lines,checkpoints,media", e);
    json_decref(row);
    return err;
}

int run_experiment_export(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    const char *path = c->args[1];
    int err = cli_id(c, 0, "experiment", &id, e);
    if (!err && path_exists(path) && !c->options.force) {
        err = error_set(e, ERR_CONFLICT,
                        "%s exists already: name another file, or overwrite it with --force", path);
    }
    if (err)
        return err;
    char *folder = xasprintf("%s.parts.%ld", path, (long)getpid());
    struct export_job x = {.c = c, .folder = folder};
    meter_begin(&x.meter, c->options.quiet);
    err = export_all(&x, id, path, e);
    meter_end(&x.meter);
    dir_remove_tree(folder, NULL);
    free(folder);
    return err ? err : export_report(&x, id, path, e);
}
