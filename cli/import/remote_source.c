#include "cli/import/remote_source.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/text/json.h"
#include "cli/common/password.h"
#include "cli/import/importer.h"
#include "cli/import/records.h"

enum { PAGE = 200, REMOTE_TIMEOUT_S = 300 };

#define ACTIVITY "+activity" // key of a listed experiment: the newest activity of its trials

struct remote_source {
    struct cli *c;
    struct client *client;
    struct importer *importer;
    struct progress_meter meter;
    char *cluster;
    int64_t last_experiment, last_trial;
    json_t *experiments; // [{"id", "numTrials", ..}] of all projects
};

// --- calls ---------------------------------------------------------------------------------------

static int get(struct remote_source *s, json_t **answer, struct error *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int get(struct remote_source *s, json_t **answer, struct error *e, const char *fmt, ...)
{
    va_list args;
    char *path = NULL;
    va_start(args, fmt);
    int err = vasprintf(&path, fmt, args) < 0 ? ERR_NO_MEMORY : 0;
    va_end(args);
    *answer = NULL;
    if (!err)
        err = client_call(s->client, "GET", path, NULL, answer, e);
    err = err ? error_prefix(e, "GET %s", path) : 0;
    free(path);
    return err;
}

typedef int remote_item(struct remote_source *s, const json_t *item, struct error *e);

// Reads all pages of a list and calls on_item() for each element.
static int get_list(struct remote_source *s, const char *path, const char *key,
                    remote_item *on_item, struct error *e)
{
    int64_t have = 0, total = 1;
    int err = 0;
    while (!err && have < total) {
        json_t *answer, *item;
        size_t i;
        err = get(s, &answer, e, "%s%climit=%d&offset=%" PRId64, path,
                  strchr(path, '?') ? '&' : '?', PAGE, have);
        const json_t *list = jget(answer, key);
        total = jget_int(jget(answer, "pagination"), "total", 0);
        have += (int64_t)json_array_size(list);
        json_array_foreach((json_t *)list, i, item)
        {
            err = err ? err : on_item(s, item, e);
        }
        if (json_array_size(list) == 0)
            total = have;
        json_decref(answer);
    }
    return err;
}

static int sign_in(struct remote_source *s, struct error *e)
{
    char password[PASSWORD_MAX] = "", hash[SHA512_HEX] = "";
    const char *user = s->c->options.user ? s->c->options.user : "admin";
    json_t *answer = NULL;
    int err = password_get(s->c, user, false, password, e);
    if (err)
        return err;
    if (*password != '\0')
        wire_password_hash(password, hash);
    json_t *body = json_pack("{s:s, s:s, s:b}", "username", user, "password", hash, "isHashed", 1);
    explicit_bzero(password, sizeof(password));
    err = client_call(s->client, "POST", "/api/v1/auth/login", body, &answer, e);
    if (!err)
        client_set_token(s->client, CLIENT_BEARER, jget_string(answer, "token", ""));
    else
        error_prefix(e, "signing in to Determined as %s", user);
    json_decref(body);
    json_decref(answer);
    return err;
}

static int refuse_server(const struct remote_source *s, int code, const char *why, struct error *e)
{
    return error_set(e, code,
                     "%s does not answer as a Determined master (%.400s): check host, port and "
                     "whether it is http:// or https://; it is the address that people open in a "
                     "browser",
                     s->c->args[0], why);
}

static int check_version(struct remote_source *s, struct error *e)
{
    json_t *answer = NULL;
    struct error why = {0};
    int err = client_call(s->client, "GET", "/api/v1/master", NULL, &answer, &why);
    const char *version = jget_string(answer, "version", "");
    s->cluster = xstrdup(jget_string(answer, "clusterId", ""));
    if (err == ERR_UNAVAILABLE || err == ERR_TIMEOUT)
        error_set(e, err, "%s", why.text);
    else if (err)
        refuse_server(s, err, why.text, e);
    else if (*version == '\0' || *s->cluster == '\0')
        err = refuse_server(s, ERR_PEER, "GET /api/v1/master has no version or no clusterId", e);
    else if (strncmp(version, "0.38", 4) != 0)
        err = error_set(e, ERR_VERSION,
                        "%s is Determined %.32s; this command reads version 0.38: upgrade it first",
                        s->c->args[0], version);
    json_decref(answer);
    return err;
}

// --- records -------------------------------------------------------------------------------------

static void id_text(const json_t *object, const char *key, char out[24])
{
    snprintf(out, 24, "%" PRId64, (int64_t)jget_int(object, key, 0));
}

static json_t *item_record(const json_t *item, const char *kind)
{
    char id[24];
    id_text(item, "id", id);
    return record_new(kind, id);
}

static void copy_id(json_t *record, const char *key, const json_t *item, const char *from)
{
    char id[24];
    id_text(item, from, id);
    if (strcmp(id, "0") != 0)
        record_text(record, key, id);
}

static void copy_texts(json_t *record, const json_t *item, const char *const *keys)
{
    for (size_t i = 0; keys[i]; i++)
        record_text(record, keys[i], jget_string(item, keys[i], NULL));
}

static int on_user(struct remote_source *s, const json_t *item, struct error *e)
{
    static const char *const texts[] = {"username", "displayName", NULL};
    json_t *record = item_record(item, "user");
    copy_texts(record, item, texts);
    record_json(record, "admin", jget(item, "admin"));
    record_json(record, "active", jget(item, "active"));
    return importer_add(s->importer, record, e);
}

static int on_project(struct remote_source *s, const json_t *item, struct error *e)
{
    static const char *const texts[] = {"name", "description", NULL};
    json_t *record = item_record(item, "project");
    copy_texts(record, item, texts);
    copy_id(record, "owner", item, "userId");
    copy_id(record, "workspace", item, "workspaceId");
    record_json(record, "archived", jget(item, "archived"));
    record_json(record, "notes", jget(item, "notes"));
    return importer_add(s->importer, record, e);
}

static int on_workspace(struct remote_source *s, const json_t *item, struct error *e)
{
    json_t *record = item_record(item, "workspace");
    record_text(record, "name", jget_string(item, "name", ""));
    copy_id(record, "owner", item, "userId");
    record_json(record, "archived", jget(item, "archived"));
    return importer_add(s->importer, record, e);
}

static int on_workspace_projects(struct remote_source *s, const json_t *item, struct error *e)
{
    char path[96];
    snprintf(path, sizeof(path), "/api/v1/workspaces/%" PRId64 "/projects",
             (int64_t)jget_int(item, "id", 0));
    return get_list(s, path, "projects", on_project, e);
}

// --- experiments, in three rounds: experiments, then trials and checkpoints, then metrics --------

static int on_listed(struct remote_source *s, const json_t *item, struct error *e)
{
    (void)e;
    int64_t id = jget_int(item, "id", 0);
    s->last_experiment = id > s->last_experiment ? id : s->last_experiment;
    json_array_append(s->experiments, (json_t *)item);
    return 0;
}

static int add_files(struct remote_source *s, json_t *record, int64_t id, struct error *e)
{
    json_t *answer;
    int err = get(s, &answer, e, "/api/v1/experiments/%" PRId64 "/model_def", id);
    if (!err)
        record_text(record, "files", jget_string(answer, "b64Tgz", NULL));
    json_decref(answer);
    return err;
}

static int import_experiment(struct remote_source *s, const json_t *listed, struct error *e)
{
    int64_t id = jget_int(listed, "id", 0);
    json_t *answer, *record = item_record(listed, "experiment");
    int err = get(s, &answer, e, "/api/v1/experiments/%" PRId64, id);
    const json_t *x = jget(answer, "experiment"), *config = jget(answer, "config");
    if (!config)
        config = jget(x, "config");
    if (!err && (!record_state(record, jget_string(x, "state", "")) || !config)) {
        importer_skip(s->importer, "experiment", jget_string(record, "old", ""), "it is %s",
                      config ? "being deleted" : "without configuration");
        json_decref(answer);
        json_decref(record);
        return 0;
    }
    const struct source_experiment from = {.config = config,
                                           .original_config =
                                               jget_string(x, "originalConfig", NULL),
                                           .notes = jget_string(x, "notes", NULL),
                                           .cluster = s->cluster,
                                           .unmanaged = jget_bool(x, "unmanaged", false)};
    if (!err) {
        record_experiment(s->importer, record, &from);
        record_text(record, "startTime", jget_string(x, "startTime", NULL));
        record_end(record, jget_string(x, "endTime", NULL), jget_int(listed, ACTIVITY, 0));
        copy_id(record, "owner", x, "userId");
        copy_id(record, "project", x, "projectId");
        copy_id(record, "parent", x, "forkedFrom");
        record_text(record, "externalId", jget_string(x, "externalExperimentId", NULL));
        record_json(record, "archived", jget(x, "archived"));
        json_object_set_new(record, "progress", json_real(jget_double(x, "progress", 0)));
        err = add_files(s, record, id, e);
    }
    json_decref(answer);
    return err ? (json_decref(record), err) : importer_add(s->importer, record, e);
}

static double searcher_value(const json_t *trial, const char *metric)
{
    const json_t *best =
        json_object_get(jget_path(jget(trial, "bestValidation"), "metrics.avgMetrics"), metric);
    return json_is_number(best) ? json_number_value(best) : 0;
}

// The best trial of an experiment, by the metric of its searcher; 0: none has a validation.
static int64_t best_trial(const json_t *trials, const json_t *config)
{
    const json_t *searcher = jget(config, "searcher");
    const char *metric = jget_string(searcher, "metric", "");
    bool smaller = jget_bool(searcher, "smaller_is_better", true);
    const json_t *best = NULL;
    json_t *trial;
    size_t i;
    json_array_foreach((json_t *)trials, i, trial)
    {
        double value = searcher_value(trial, metric);
        if (!jget(trial, "bestValidation"))
            continue;
        if (!best ||
            (smaller ? value < searcher_value(best, metric) : value > searcher_value(best, metric)))
            best = trial;
    }
    return best ? jget_int(best, "id", 0) : 0;
}

// The newest time of a trial's objects, in microseconds; 0: none.
static int64_t trial_activity(const json_t *trial)
{
    static const char *const paths[] = {"startTime",
                                        "endTime",
                                        "latestTraining.endTime",
                                        "latestValidation.endTime",
                                        "bestValidation.endTime",
                                        "bestCheckpoint.endTime"};
    int64_t newest = 0;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        int64_t us = source_time_us(json_string_value(jget_path(trial, paths[i])));
        newest = us > newest ? us : newest;
    }
    return newest;
}

static int add_trial(struct remote_source *s, const json_t *trial, const json_t *config,
                     int64_t best, struct error *e)
{
    static const char *const texts[] = {"startTime", "runnerState", NULL};
    json_t *metadata = NULL, *record = item_record(trial, "trial");
    int64_t id = jget_int(trial, "id", 0);
    if (!record_state(record, jget_string(trial, "state", ""))) {
        json_decref(record);
        return 0;
    }
    copy_texts(record, trial, texts);
    record_end(record, jget_string(trial, "endTime", NULL), trial_activity(trial));
    copy_id(record, "experiment", trial, "experimentId");
    copy_id(record, "requestId", trial, "id");
    record_json(record, "hparams", jget(trial, "hparams"));
    json_object_set_new(record, "restarts", json_integer(jget_int(trial, "restarts", 0)));
    json_object_set_new(record, "steps", json_integer(jget_int(trial, "totalBatchesProcessed", 0)));
    json_object_set_new(record, "single", json_boolean(config_is_single(config)));
    if (id == best) {
        const char *metric = jget_string(jget(config, "searcher"), "metric", "");
        json_object_set_new(record, "bestMetric", json_real(searcher_value(trial, metric)));
    }
    int err = get(s, &metadata, e, "/api/v1/runs/%" PRId64 "/metadata", id);
    if (!err)
        record_json(record, "metadata", jget(metadata, "metadata"));
    json_decref(metadata);
    return err ? (json_decref(record), err) : importer_add(s->importer, record, e);
}

static int get_trials(struct remote_source *s, int64_t experiment, json_t **out, struct error *e)
{
    int64_t total = 1;
    int err = 0;
    *out = json_array();
    while (!err && (int64_t)json_array_size(*out) < total) {
        json_t *answer;
        err = get(s, &answer, e, "/api/v1/experiments/%" PRId64 "/trials?limit=%d&offset=%zu",
                  experiment, PAGE, json_array_size(*out));
        const json_t *list = jget(answer, "trials");
        total = json_array_size(list) ? jget_int(jget(answer, "pagination"), "total", 0) : 0;
        json_array_extend(*out, (json_t *)list);
        json_decref(answer);
    }
    return err;
}

static int on_checkpoint(struct remote_source *s, const json_t *item, struct error *e)
{
    static const char *const texts[] = {"allocationId", "reportTime", NULL};
    const char *state = jget_string(item, "state", "");
    const char *name;
    json_t *bytes, *resources = json_object();
    json_t *record = record_new("checkpoint", jget_string(item, "uuid", ""));
    copy_texts(record, item, texts);
    record_text(record, "state", strncmp(state, "STATE_", 6) == 0 ? state + 6 : state);
    copy_id(record, "trial", jget(item, "training"), "trialId");
    record_json(record, "metadata", jget(item, "metadata"));
    json_object_foreach(jget(item, "resources"), name, bytes)
    {
        json_object_set_new(resources, name,
                            json_integer(jget_int(jget(item, "resources"), name, 0)));
    }
    json_object_set_new(record, "resources", resources);
    json_object_set_new(record, "steps",
                        json_integer(jget_int(jget(item, "metadata"), "steps_completed", 0)));
    return importer_add(s->importer, record, e);
}

static int import_trials(struct remote_source *s, const json_t *x, struct error *e)
{
    char path[96];
    json_t *trials, *trial;
    size_t i;
    int64_t id = jget_int(x, "id", 0);
    int err = get_trials(s, id, &trials, e);
    const json_t *config = jget(x, "config");
    int64_t best = best_trial(trials, config);
    json_array_foreach(trials, i, trial)
    {
        err = err ? err : add_trial(s, trial, config, best, e);
    }
    json_decref(trials);
    snprintf(path, sizeof(path), "/api/v1/experiments/%" PRId64 "/checkpoints", id);
    return err ? err : get_list(s, path, "checkpoints", on_checkpoint, e);
}

// --- metrics -------------------------------------------------------------------------------------

struct report_target {
    struct remote_source *s;
    int64_t trial;
    const char *group;
};

static int on_reports(void *ctx, const json_t *line, struct error *e)
{
    const struct report_target *to = ctx;
    json_t *report;
    size_t i;
    int err = 0;
    json_array_foreach(jget(line, "metrics"), i, report)
    {
        char time[SOURCE_TIME_MAX];
        const struct import_report r = {
            .trial = to->trial,
            .steps = jget_int(report, "totalBatches", -1),
            .group = to->group,
            .time = source_time(jget_string(report, "endTime", "1970-01-01 00:00:00"), time),
            .values = report_values(jget(report, "metrics"))};
        if (!err && r.values && !jget_bool(report, "archived", false))
            err = importer_add_report(to->s->importer, &r, e);
    }
    return err;
}

// The groups of a trial are the keys of its summary.
static int read_reports(struct remote_source *s, const json_t *trial, struct error *e)
{
    const char *key;
    json_t *metrics;
    int err = 0;
    json_object_foreach(jget(trial, "summaryMetrics"), key, metrics)
    {
        const char *group = strcmp(key, "avg_metrics") == 0          ? "training"
                            : strcmp(key, "validation_metrics") == 0 ? "validation"
                                                                     : key;
        struct report_target to = {s, jget_int(trial, "id", 0), group};
        char *escaped = client_escape(group);
        char *path = xasprintf("/api/v1/trials/metrics/trial_metrics?trialIds=%" PRId64 "&group=%s",
                               to.trial, escaped);
        if (!err)
            err = client_stream(s->client, path, on_reports, &to, e);
        free(path);
        free(escaped);
    }
    return err;
}

// Changes when the trial has reported more.
static void mark_of(const json_t *trial, char out[SHA256_HEX])
{
    char *text = json_text(jget(trial, "summaryMetrics"));
    sha256_hex(text, strlen(text), out);
    free(text);
}

static int end_trial(struct remote_source *s, const json_t *trial, struct error *e)
{
    char mark[SHA256_HEX];
    json_t *record = item_record(trial, "metrics_end"), *summary;
    mark_of(trial, mark);
    summary = summary_of(jget(trial, "summaryMetrics"));
    record_text(record, "mark", mark);
    record_json(record, "summary", summary);
    record_json(record, "latestTraining", jget(trial, "latestTraining"));
    record_json(record, "latestValidation", jget(trial, "latestValidation"));
    record_json(record, "bestValidation", jget(trial, "bestValidation"));
    json_object_set_new(record, "steps", json_integer(jget_int(trial, "totalBatchesProcessed", 0)));
    json_decref(summary);
    return importer_end_metrics(s->importer, jget_int(trial, "id", 0), record, e);
}

static int import_metrics(struct remote_source *s, const json_t *x, struct error *e)
{
    json_t *trials, *trial;
    size_t i;
    char mark[SHA256_HEX];
    int err = get_trials(s, jget_int(x, "id", 0), &trials, e);
    json_array_foreach(trials, i, trial)
    {
        mark_of(trial, mark);
        if (!err && json_object_size(jget(trial, "summaryMetrics")) > 0)
            err = importer_begin_metrics(s->importer, jget_int(trial, "id", 0), mark, e);
    }
    err = err ? err : importer_flush(s->importer, e);
    json_array_foreach(trials, i, trial)
    {
        if (err || !importer_wants_metrics(s->importer, jget_int(trial, "id", 0)))
            continue;
        err = read_reports(s, trial, e);
        err = err ? err : end_trial(s, trial, e);
    }
    json_decref(trials);
    return err ? err : importer_flush(s->importer, e);
}

// --- models --------------------------------------------------------------------------------------

static int on_version(struct remote_source *s, const json_t *item, struct error *e)
{
    static const char *const texts[] = {"name", "comment", "notes", NULL};
    char model[24], old[64];
    int64_t version = jget_int(item, "version", 0);
    id_text(jget(item, "model"), "id", model);
    snprintf(old, sizeof(old), "%s/%" PRId64, model, version);
    json_t *record = record_new("model_version", old);
    copy_texts(record, item, texts);
    record_text(record, "model", model);
    json_object_set_new(record, "version", json_integer(version));
    record_text(record, "checkpoint", jget_string(jget(item, "checkpoint"), "uuid", NULL));
    copy_id(record, "owner", item, "userId");
    record_text(record, "createdAt", jget_string(item, "creationTime", NULL));
    record_text(record, "updatedAt", jget_string(item, "lastUpdatedTime", NULL));
    record_json(record, "metadata", jget(item, "metadata"));
    record_json(record, "labels", jget(item, "labels"));
    return importer_add(s->importer, record, e);
}

static int on_model(struct remote_source *s, const json_t *item, struct error *e)
{
    static const char *const texts[] = {"name", "description", "notes", NULL};
    json_t *record = item_record(item, "model");
    copy_texts(record, item, texts);
    copy_id(record, "owner", item, "userId");
    copy_id(record, "workspace", item, "workspaceId");
    record_json(record, "archived", jget(item, "archived"));
    record_text(record, "createdAt", jget_string(item, "creationTime", NULL));
    record_text(record, "updatedAt", jget_string(item, "lastUpdatedTime", NULL));
    record_json(record, "metadata", jget(item, "metadata"));
    record_json(record, "labels", jget(item, "labels"));
    return importer_add(s->importer, record, e);
}

static int on_model_versions(struct remote_source *s, const json_t *item, struct error *e)
{
    char *name = client_escape(jget_string(item, "name", ""));
    char *path = xasprintf("/api/v1/models/%s/versions", name);
    int err = get_list(s, path, "modelVersions", on_version, e);
    free(path);
    free(name);
    return err;
}

// --- the whole import ----------------------------------------------------------------------------

static int each_experiment(struct remote_source *s, const char *what, remote_item *on_item,
                           struct error *e)
{
    size_t i, count = json_array_size(s->experiments);
    json_t *x;
    char label[80];
    int err = 0;
    json_array_foreach(s->experiments, i, x)
    {
        snprintf(label, sizeof(label), "%s of experiment %zu of %zu", what, i + 1, count);
        meter_say(&s->meter, label);
        err = err ? err : on_item(s, x, e);
    }
    return err ? err : importer_flush(s->importer, e);
}

// Finds the last trial, since ids are kept only if all of them can be reserved at the beginning,
// and the newest activity of the experiment.
static int on_trial_ids(struct remote_source *s, const json_t *x, struct error *e)
{
    json_t *trials, *trial;
    size_t i;
    int64_t activity = 0;
    int err = get_trials(s, jget_int(x, "id", 0), &trials, e);
    json_array_foreach(trials, i, trial)
    {
        int64_t id = jget_int(trial, "id", 0);
        s->last_trial = id > s->last_trial ? id : s->last_trial;
        int64_t us = trial_activity(trial);
        activity = us > activity ? us : activity;
    }
    json_object_set_new((json_t *)x, ACTIVITY, json_integer(activity));
    json_decref(trials);
    return err;
}

static int find_last_ids(struct remote_source *s, struct error *e)
{
    size_t i;
    json_t *x;
    int err = get_list(s, "/api/v1/experiments?showTrialData=false", "experiments", on_listed, e);
    json_array_foreach(s->experiments, i, x)
    {
        err = err ? err : on_trial_ids(s, x, e);
    }
    return err;
}

static int import_all(struct remote_source *s, struct error *e)
{
    int err = get_list(s, "/api/v1/users", "users", on_user, e);
    err = err ? err : get_list(s, "/api/v1/workspaces", "workspaces", on_workspace, e);
    err = err ? err : get_list(s, "/api/v1/workspaces", "workspaces", on_workspace_projects, e);
    err = err ? err : each_experiment(s, "files", import_experiment, e);
    err = err ? err : each_experiment(s, "trials", import_trials, e);
    err = err ? err : each_experiment(s, "metrics", import_metrics, e);
    err = err ? err : get_list(s, "/api/v1/models", "models", on_model, e);
    err = err ? err : get_list(s, "/api/v1/models", "models", on_model_versions, e);
    return err ? err : importer_flush(s->importer, e);
}

int import_remote(struct cli *c, const char *url, struct error *e)
{
    struct remote_source s = {.c = c, .experiments = json_array()};
    const struct client_options options = {
        .url = url, .ca_file = c->options.ca_file, .timeout_s = REMOTE_TIMEOUT_S};
    meter_begin(&s.meter, c->options.quiet);
    int err = client_open(&options, &s.client, e);
    err = err ? err : check_version(&s, e);
    err = err ? err : sign_in(&s, e);
    err = err ? err : find_last_ids(&s, e);
    err = err ? err : importer_open(c, s.cluster, s.last_experiment, s.last_trial, &s.importer, e);
    err = err ? err : import_all(&s, e);
    meter_end(&s.meter);
    err = err ? err : importer_print_summary(s.importer, e);
    importer_close(s.importer);
    client_close(s.client);
    json_decref(s.experiments);
    free(s.cluster);
    return err;
}
