#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/output/columns.h"
#include "cli/output/failure.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

enum { NAMES_LISTED = 20 }; // metrics in an error

int run_trial_list(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    json_t *experiment = NULL, *trials = NULL, *rows = json_array();
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : fetch_experiment(c, id, &experiment, e);
    err = err ? err
              : cli_list(c, "trials", c->options.limit, &trials, e,
                         "/api/v1/experiments/%lld/trials?orderBy=ORDER_BY_ASC%s%s%s", id,
                         cli_query(c, "filter", c->options.filter),
                         cli_query(c, "sort", c->options.sort), columns_query(c));
    size_t i;
    json_t *trial;
    json_array_foreach(trials, i, trial)
    {
        json_array_append_new(rows, row_trial(trial, jget(experiment, "config")));
    }
    err = err ? err : columns_add(c, trials, rows, e);
    err = err ? err : output_rows(c, rows, failure_columns(rows, self->columns, &c->arena), e);
    json_decref(rows);
    json_decref(trials);
    json_decref(experiment);
    return err;
}

int fetch_trial(struct cli *c, long long id, json_t **trial, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/trials/%lld", id);
    *trial = !err ? json_incref(jget(answer, "trial")) : NULL;
    json_decref(answer);
    return err;
}

int run_trial_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *trial = NULL, *experiment = NULL, *answer = NULL, *starts = NULL, *row = NULL;
    json_t *metadata = NULL;
    int err = cli_id(c, 0, "trial", &id, e);
    err = err ? err : fetch_trial(c, id, &trial, e);
    err = err ? err : fetch_experiment(c, jget_int(trial, "experimentId", 0), &experiment, e);
    err = err ? err : cli_call(c, "GET", NULL, &answer, e, "/api/v1/trials/%lld/starts", id);
    err = err ? err : fetch_trial_metadata(c, id, &metadata, e);
    if (!err) {
        starts = rows_of(jget(answer, "starts"), row_start);
        row = row_trial(trial, jget(experiment, "config"));
        json_object_set(row, "starts", starts);
        json_object_set(row, "metadata", metadata);
        err = output_object(
            c, row,
            "id,experiment,state,reason,steps,latest,best,restarts,hparams,source,metadata,"
            "started,ended,ran,waited,duration",
            e);
    }
    if (!err && c->format == OUTPUT_TABLE && !c->options.columns) {
        printf("\nStarts\n");
        err = output_rows(c, starts, "epoch,state,slots,placed,waited,ran,reason", e);
        failure_print(trial);
    }
    json_decref(row);
    json_decref(metadata);
    json_decref(starts);
    json_decref(answer);
    json_decref(experiment);
    json_decref(trial);
    return err;
}

// --- metrics -------------------------------------------------------------------------------------

struct metrics_reader {
    json_t *rows, *names; // names: an object whose keys are all metrics
    const char *group, *metric;
};

// Keeps only the wanted metric of a row; false: the row does not have it.
static bool keep_metric(json_t *row, const char *wanted)
{
    const json_t *value = json_object_get(json_object_get(row, "metrics"), wanted);
    if (value)
        json_object_set_new(row, "metrics", json_pack("{s:O}", wanted, value));
    return value != NULL;
}

static int on_metrics(void *ctx, const json_t *result, struct error *e)
{
    (void)e;
    struct metrics_reader *g = ctx;
    size_t i;
    json_t *report;
    json_array_foreach(jget(result, "metrics"), i, report)
    {
        if (jget_bool(report, "archived", false))
            continue;
        json_t *row = row_metrics(report, g->group);
        json_object_update(g->names, json_object_get(row, "metrics"));
        if (!g->metric || keep_metric(row, g->metric))
            json_array_append(g->rows, row);
        json_decref(row);
    }
    return 0;
}

static int read_metric_group(struct cli *c, long long trial, struct metrics_reader *g,
                             struct error *e)
{
    char *path = xasprintf("/api/v1/trials/metrics/trial_metrics?trialIds=%lld%s", trial,
                           cli_query(c, "group", g->group));
    int err = client_stream(c->client, path, on_metrics, g, e);
    free(path);
    return err;
}

static int on_group(void *groups, const json_t *result, struct error *e)
{
    (void)e;
    size_t i;
    json_t *report;
    json_array_foreach(jget(result, "metrics"), i, report)
    {
        json_object_set_new(groups, jget_string(report, "group", ""), json_true());
    }
    return 0;
}

// Says which groups the trial has reported. The summary of a trial may lack some, so its reports
// are read.
static int refuse_group(struct cli *c, long long trial, struct error *e)
{
    json_t *groups = json_object(), *value;
    const char *name, *names = "";
    char *path = xasprintf("/api/v1/trials/metrics/trial_metrics?trialIds=%lld", trial);
    int err = client_stream(c->client, path, on_group, groups, e);
    json_object_foreach(groups, name, value)
    {
        names = arena_printf(&c->arena, "%s%s%s", names, *names ? ", " : "", name);
    }
    // The first report of the group may have come since the group was read.
    if (!err && *names && !json_object_get(groups, c->options.group))
        err = error_set(e, ERR_NOT_FOUND,
                        "trial %lld has reported no metrics of group \"%s\"; its groups: %s", trial,
                        c->options.group, names);
    free(path);
    json_decref(groups);
    return err;
}

int check_metric(struct cli *c, const json_t *trial, const json_t *names, struct error *e)
{
    const char *wanted = c->options.metric, *list = "", *name;
    size_t count = json_object_size(names), shown = 0;
    json_t *value;
    if (count == 0 && c->options.group)
        return refuse_group(c, jget_int(trial, "id", 0), e);
    if (!wanted || count == 0 || json_object_get(names, wanted))
        return 0;
    const char **words = arena_alloc(&c->arena, (count + 1) * sizeof *words);
    json_object_foreach((json_t *)names, name, value)
    {
        if (shown < NAMES_LISTED)
            list = arena_printf(&c->arena, "%s%s%s", list, shown ? ", " : "", name);
        words[shown++] = name;
    }
    words[shown] = NULL;
    const char *near = nearest_word(wanted, words), *group = c->options.group;
    return error_set(
        e, ERR_NOT_FOUND, "--metric: \"%.100s\" was not reported%s%.100s%s%s%s The metrics: %s%s",
        wanted, group ? " in group " : "", group ? group : "", near ? "; did you mean \"" : ".",
        near ? near : "", near ? "\"?" : "", list, shown > NAMES_LISTED ? ", .." : "");
}

int fetch_metrics(struct cli *c, const json_t *trial, json_t **rows, json_t *names, struct error *e)
{
    static const char *const both[] = {"training", "validation"};
    const char *group = c->options.group;
    long long id = jget_int(trial, "id", 0);
    struct metrics_reader g = {.rows = json_array(), .names = names, .metric = c->options.metric};
    int err = 0;
    for (int i = 0; i < (group ? 1 : 2) && !err; i++) {
        g.group = group ? group : both[i];
        err = read_metric_group(c, id, &g, e);
    }
    *rows = g.rows;
    return err;
}

// Tables and CSV have a column for each metric; JSON keeps them nested.
static json_t *flatten_metrics(const json_t *rows, struct buf *columns)
{
    json_t *flat = json_array(), *names = json_object();
    bool of_all = json_object_get(json_array_get(rows, 0), "trial") != NULL;
    buf_puts(columns, of_all ? "trial,group,steps" : "group,steps");
    size_t i;
    json_t *row, *value;
    const char *key;
    json_array_foreach(rows, i, row)
    {
        json_t *one = json_pack("{s:O, s:O}", "group", json_object_get(row, "group"), "steps",
                                json_object_get(row, "steps"));
        json_object_set(one, "trial",
                        json_object_get(row, "trial")); // stays unset if there is none
        json_object_foreach(json_object_get(row, "metrics"), key, value)
        {
            json_object_set(one, key, value);
            if (!json_object_get(names, key)) {
                json_object_set_new(names, key, json_true());
                buf_printf(columns, ",%s", key);
            }
        }
        json_array_append_new(flat, one);
    }
    json_decref(names);
    return flat;
}

int print_metrics(struct cli *c, const json_t *rows, struct error *e)
{
    if (c->format == OUTPUT_JSON || c->format == OUTPUT_JSONL)
        return output_rows(c, rows, "group,steps,metrics", e);
    struct buf columns;
    buf_init(&columns, 1 << 20);
    json_t *flat = flatten_metrics(rows, &columns);
    int err = output_rows(c, flat, buf_str(&columns), e);
    json_decref(flat);
    buf_free(&columns);
    return err;
}

int run_trial_metrics(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *trial = NULL, *rows = NULL, *names = json_object();
    int err = cli_id(c, 0, "trial", &id, e);
    err = err ? err : fetch_trial(c, id, &trial, e);
    err = err ? err : fetch_metrics(c, trial, &rows, names, e);
    err = err ? err : check_metric(c, trial, names, e);
    err = err ? err : print_metrics(c, rows, e);
    json_decref(names);
    json_decref(rows);
    json_decref(trial);
    return err;
}

// --- logs, kill ----------------------------------------------------------------------------------

int run_trial_logs(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    int err = cli_id(c, 0, "trial", &id, e);
    return err ? err : print_trial_logs(c, id, e);
}

int run_trial_kill(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    int err = cli_id(c, 0, "trial", &id, e);
    err = err ? err : cli_call(c, "POST", NULL, NULL, e, "/api/v1/trials/%lld/kill", id);
    return err ? err
               : cli_report(c, json_pack("{s:I, s:s}", "id", (json_int_t)id, "done", "kill"), e,
                            "Trial %lld: kill accepted", id);
}

// --- files ---------------------------------------------------------------------------------------

// The newest checkpoint, or the best by the searcher's metric.
static int choose_checkpoint(struct cli *c, long long id, const char **uuid, struct error *e)
{
    json_t *list = NULL;
    const char *by = c->options.best ? "sortByAttr=SORT_BY_SEARCHER_METRIC"
                                     : "sortByAttr=SORT_BY_BATCH_NUMBER&orderBy=ORDER_BY_DESC";
    int err = cli_list(c, "checkpoints", 1, &list, e,
                       "/api/v1/trials/%lld/checkpoints?states=STATE_COMPLETED&%s", id, by);
    *uuid = arena_strdup(&c->arena, jget_string(json_array_get(list, 0), "uuid", NULL));
    if (!err && !*uuid)
        err = error_set(e, ERR_NOT_FOUND, "trial %lld has no checkpoint", id);
    json_decref(list);
    return err;
}

int run_trial_download(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    const char *uuid = NULL;
    int err = cli_id(c, 0, "trial", &id, e);
    err = err ? err : choose_checkpoint(c, id, &uuid, e);
    const char *folder = c->options.to ? c->options.to : uuid;
    err = err ? err : fetch_checkpoint_files(c, uuid, folder, e);
    return err ? err
               : cli_report(c,
                            json_pack("{s:I, s:s, s:s}", "trial", (json_int_t)id, "uuid", uuid,
                                      "folder", folder),
                            e, "Checkpoint %s is in %s", uuid, folder);
}

// Collects the values for --agent, --source and the other filters.
static int on_fields(void *ctx, const json_t *result, struct error *e)
{
    (void)e;
    json_object_update(ctx, (json_t *)result);
    return 0;
}

int run_trial_log_fields(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    int err = cli_id(c, 0, "trial", &id, e);
    json_t *found = json_object();
    const char *path = arena_printf(&c->arena, "/api/v1/trials/%lld/logs/fields", id);
    err = err ? err : client_stream(c->client, path, on_fields, found, e);
    if (!err) {
        json_t *row =
            json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?}", "agents", jget(found, "agentIds"),
                      "ranks", jget(found, "rankIds"), "allocations", jget(found, "allocationIds"),
                      "containers", jget(found, "containerIds"), "sources", jget(found, "sources"),
                      "stdtypes", jget(found, "stdtypes"));
        err = output_object(c, row, "agents,ranks,allocations,containers,sources,stdtypes", e);
        json_decref(row);
    }
    json_decref(found);
    return err;
}
