// Deletes checkpoints: whole ones, some of their files, or those that the policy does not keep.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

// Appends the parts of "a,b" to the list.
static void list_add_parts(json_t *list, const char *text)
{
    char *copy = xstrdup(text), *rest = copy, *part;
    while ((part = strsep(&rest, ",")))
        if (*part != '\0')
            json_array_append_new(list, json_string(part));
    free(copy);
}

static json_t *uuids_of(const struct cli *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->arg_count; i++)
        list_add_parts(list, c->args[i]);
    return list;
}

static int report_deleted(struct cli *c, const json_t *uuids, const char *state, struct error *e)
{
    json_t *rows = json_array(), *uuid;
    size_t i;
    if (c->format == OUTPUT_TABLE) {
        if (!c->options.quiet) {
            printf("%zu checkpoint%s %s; the master removes the files in the background\n",
                   json_array_size(uuids), json_array_size(uuids) == 1 ? "" : "s", state);
        }
        json_decref(rows);
        return 0;
    }
    json_array_foreach((json_t *)uuids, i, uuid)
    {
        json_array_append_new(rows, json_pack("{s:O}", "uuid", uuid));
    }
    int err = output_rows(c, rows, "uuid", e);
    json_decref(rows);
    return err;
}

// Removes the checkpoints that are already deleted from the list, and reports them.
static int skip_deleted(struct cli *c, json_t *uuids, struct error *e)
{
    int err = 0;
    for (size_t i = json_array_size(uuids); i-- > 0 && !err;) {
        const char *uuid = json_string_value(json_array_get(uuids, i));
        char *escaped = client_escape(uuid);
        json_t *answer = NULL;
        err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/checkpoints/%s", escaped);
        const char *state = jget_string(jget(answer, "checkpoint"), "state", "");
        if (strcmp(state, wire_name(WIRE_CHECKPOINT_STATE, "DELETED")) == 0) {
            fprintf(stderr, "Checkpoint %s is already deleted\n", uuid);
            json_array_remove(uuids, i);
        }
        json_decref(answer);
        free(escaped);
    }
    return err;
}

int run_checkpoint_delete(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *uuids = uuids_of(c);
    int err = skip_deleted(c, uuids, e);
    size_t count = json_array_size(uuids);
    if (err || count == 0) {
        err = err || c->format == OUTPUT_TABLE ? err : report_deleted(c, uuids, "deleted", e);
        json_decref(uuids);
        return err;
    }
    err = cli_confirm(c, e, "Delete %zu checkpoint%s with %s files?", count, count == 1 ? "" : "s",
                      count == 1 ? "its" : "their");
    if (!err) {
        json_t *body = json_pack("{s:O}", "checkpointUuids", uuids);
        err = cli_call(c, "DELETE", body, NULL, e, "/api/v1/checkpoints");
        json_decref(body);
    }
    err = err ? err : report_deleted(c, uuids, "deleted", e);
    json_decref(uuids);
    return err;
}

int run_checkpoint_rm(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    if (!c->options.file_patterns) {
        return error_set(e, ERR_INVALID,
                         "--files is missing: give patterns, as in --files 'optimizer*,**/*.log'; "
                         "muster checkpoint describe lists the files");
    }
    json_t *uuids = uuids_of(c), *patterns = json_array();
    list_add_parts(patterns, c->options.file_patterns);
    size_t count = json_array_size(uuids);
    int err = cli_confirm(c, e, "Remove %s from %zu checkpoint%s?", c->options.file_patterns, count,
                          count == 1 ? "" : "s");
    if (!err) {
        json_t *body =
            json_pack("{s:O, s:O}", "checkpointUuids", uuids, "checkpointGlobs", patterns);
        err = cli_call(c, "POST", body, NULL, e, "/api/v1/checkpoints/rm");
        json_decref(body);
    }
    err = err ? err : report_deleted(c, uuids, "reduced", e);
    json_decref(patterns);
    json_decref(uuids);
    return err;
}

// --- by policy -----------------------------------------------------------------------------------

static bool has_policy(const struct cli_options *o)
{
    return o->save_experiment_best >= 0 || o->save_trial_best >= 0 || o->save_trial_latest >= 0;
}

static json_t *gc_row(const json_t *victim, const char *metric)
{
    json_t *row = json_pack("{s:s, s:I, s:I, s:s}", "uuid", jget_string(victim, "UUID", ""),
                            "trial", (json_int_t)jget_int(victim, "TrialID", 0), "steps",
                            (json_int_t)jget_int(victim, "StepsCompleted", 0), "reported",
                            jget_string(victim, "ReportTime", ""));
    json_object_set(row, "metric", json_object_get(jget(victim, "ValidationMetrics"), metric));
    return row;
}

// Lists the checkpoints that the policy, as changed by the flags, would delete.
static int preview_gc(struct cli *c, long long experiment, json_t **rows, struct error *e)
{
    const struct cli_options *o = &c->options;
    json_t *answer = NULL, *victim;
    size_t i;
    int err =
        cli_call(c, "GET", NULL, &answer, e,
                 "/experiments/%lld/preview_gc?save_experiment_best=%lld&save_trial_best=%lld"
                 "&save_trial_latest=%lld",
                 experiment, o->save_experiment_best, o->save_trial_best, o->save_trial_latest);
    *rows = json_array();
    json_array_foreach(jget(answer, "checkpoints"), i, victim)
    {
        json_array_append_new(*rows, gc_row(victim, jget_string(answer, "metric_name", "")));
    }
    json_decref(answer);
    return err;
}

// The call takes all three numbers: those that were not given keep their values.
int set_gc_policy(struct cli *c, long long experiment, struct error *e)
{
    json_t *object = NULL;
    int err = fetch_experiment(c, experiment, &object, e);
    if (err)
        return err;
    const struct cli_options *o = &c->options;
    const json_t *now = jget_path(object, "config.checkpoint_storage");
    json_t *body = json_pack(
        "{s:{s:I, s:I, s:I}}", "checkpointStorage", "saveExperimentBest",
        (json_int_t)(o->save_experiment_best >= 0 ? o->save_experiment_best
                                                  : jget_int(now, "save_experiment_best", 0)),
        "saveTrialBest",
        (json_int_t)(o->save_trial_best >= 0 ? o->save_trial_best
                                             : jget_int(now, "save_trial_best", 1)),
        "saveTrialLatest",
        (json_int_t)(o->save_trial_latest >= 0 ? o->save_trial_latest
                                               : jget_int(now, "save_trial_latest", 1)));
    err = cli_call(c, "PATCH", body, NULL, e, "/api/v1/experiments/%lld", experiment);
    json_decref(body);
    json_decref(object);
    return err;
}

int run_checkpoint_gc(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    json_t *rows = NULL;
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : preview_gc(c, id, &rows, e);
    if (!err && (c->options.dry_run || c->format != OUTPUT_TABLE || !c->options.yes))
        err = output_rows(c, rows, self->columns, e);
    if (!err && !c->options.dry_run) {
        err = cli_confirm(c, e, "Delete these %zu checkpoints?", json_array_size(rows));
        if (!err) {
            err = has_policy(&c->options)
                      ? set_gc_policy(c, id, e)
                      : cli_call(c, "POST", NULL, NULL, e, "/api/v1/experiments/%lld/gc", id);
        }
        if (!err && !c->options.quiet && c->format == OUTPUT_TABLE) {
            printf("Experiment %lld: %zu checkpoints are deleted in the background\n", id,
                   json_array_size(rows));
        }
    }
    json_decref(rows);
    return err;
}
