// Changes of experiments and new experiments made from them: set, label, move, continue, fork;
// their files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/archive/archive.h"
#include "api/config/expconf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "base/text/yaml.h"
#include "cli/commands/commands.h"
#include "cli/common/lookup.h"
#include "cli/common/overlay.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

// --- set -----------------------------------------------------------------------------------------

static int add_changes(struct cli *c, json_t *body, struct error *e)
{
    const struct cli_options *o = &c->options;
    json_t *resources = NULL;
    cli_put(body, "name", o->name);
    cli_put(body, "description", o->description);
    cli_put(body, "notes", o->notes);
    int err = cli_resources(o, &resources, e);
    if (json_object_size(resources) > 0)
        json_object_set(body, "resources", resources);
    json_decref(resources);
    return err;
}

// Parses "30" or "forever" (-1) as days.
static int parse_retention(const char *text, long long *days, struct error *e)
{
    char *end;
    *days = strtoll(text, &end, 10);
    if (strcmp(text, "forever") == 0) {
        *days = -1;
    } else if (*text == '\0' || *end != '\0' || *days < 0) {
        return error_set(e, ERR_INVALID,
                         "--log-retention takes a number of days, or forever, not \"%s\"", text);
    }
    return 0;
}

static int set_retention(struct cli *c, const char *noun, long long id, struct error *e)
{
    long long days;
    int err = parse_retention(c->options.log_retention, &days, e);
    json_t *body = json_pack("{s:I}", "numDays", (json_int_t)days);
    err = err ? err : cli_call(c, "PUT", body, NULL, e, "/api/v1/%ss/%lld/retain_logs", noun, id);
    json_decref(body);
    return err;
}

static int set_experiment(struct cli *c, long long id, struct error *e)
{
    const struct cli_options *o = &c->options;
    json_t *body = json_object();
    int err = add_changes(c, body, e);
    bool gc = o->save_experiment_best >= 0 || o->save_trial_best >= 0 || o->save_trial_latest >= 0;
    if (!err && json_object_size(body) == 0 && !gc && !o->log_retention)
        err = error_set(e, ERR_INVALID,
                        "nothing to change: give a flag; muster experiment set --help lists them");
    if (!err && json_object_size(body) > 0)
        err = cli_call(c, "PATCH", body, NULL, e, "/api/v1/experiments/%lld", id);
    if (!err && gc)
        err = set_gc_policy(c, id, e);
    if (!err && o->log_retention)
        err = set_retention(c, "experiment", id, e);
    json_decref(body);
    return err;
}

int run_experiment_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    int err = 0;
    for (int i = 0; i < c->arg_count && !err; i++) {
        long long id;
        err = cli_id(c, i, "experiment", &id, e);
        err = err ? err : set_experiment(c, id, e);
        json_t *row = !err ? json_pack("{s:I, s:s}", "id", (json_int_t)id, "done", "set") : NULL;
        err = err ? err : cli_report(c, row, e, "Experiment %lld: changed", id);
    }
    return err;
}

// --- resize --------------------------------------------------------------------------------------

// "3 slots", "2 to 4 slots"
static const char *slots_text(struct cli *c, const json_t *experiment)
{
    const json_t *resources = jget(jget(experiment, "config"), "resources");
    long long most = jget_int(resources, "slots_per_trial", 1);
    long long least = jget_int(resources, "min_slots", most);
    return least < most ? arena_printf(&c->arena, "%lld to %lld slots", least, most)
                        : arena_printf(&c->arena, "%lld slot%s", most, most == 1 ? "" : "s");
}

static int report_resize(struct cli *c, long long id, const json_t *experiment, struct error *e)
{
    const json_t *resources = jget(jget(experiment, "config"), "resources");
    json_t *row = json_pack("{s:I, s:s, s:O?, s:O?}", "id", (json_int_t)id, "done", "resized",
                            "slots_per_trial", jget(resources, "slots_per_trial"), "min_slots",
                            jget(resources, "min_slots"));
    bool paused = strcmp(jget_string(experiment, "state", ""), "STATE_PAUSED") == 0;
    const char *then = "";
    if (paused)
        then = " from its next activation on";
    else if (jget_int(experiment, "liveAllocations", 0) > 0)
        then = "; a trial that runs with another number saves its work and continues";
    return cli_report(c, row, e, "Experiment %lld: each trial uses %s%s", id,
                      slots_text(c, experiment), then);
}

// The master names the field of the call; the user has given a flag.
static int name_flag(struct error *e)
{
    static const char *const names[][2] = {{"resources.slotsPerTrial: ", "--slots"},
                                           {"resources.minSlots: ", "--min-slots"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(e->text, names[i][0]);
        if (!at)
            continue;
        struct error said = *e;
        return error_set(e, said.code, "%s: %s", names[i][1],
                         said.text + (at - e->text) + strlen(names[i][0]));
    }
    return e->code;
}

static int resize_experiment(struct cli *c, long long id, struct error *e)
{
    const struct cli_options *o = &c->options;
    json_t *answer = NULL, *resources = json_object();
    if (o->slots >= 0)
        json_object_set_new(resources, "slotsPerTrial", json_integer(o->slots));
    if (o->min_slots >= 0)
        json_object_set_new(resources, "minSlots", json_integer(o->min_slots));
    json_t *body = json_pack("{s:o}", "resources", resources);
    int err = cli_call(c, "PATCH", body, &answer, e, "/api/v1/experiments/%lld", id);
    if (!err)
        print_warnings(answer);
    err = err ? name_flag(e) : report_resize(c, id, jget(answer, "experiment"), e);
    json_decref(body);
    json_decref(answer);
    return err;
}

int run_experiment_resize(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    int err = 0;
    if (c->options.slots < 0 && c->options.min_slots < 0)
        err = error_set(e, ERR_INVALID,
                        "give the number of slots of each trial: muster experiment resize %s "
                        "--slots 2",
                        c->args[0]);
    for (int i = 0; i < c->arg_count && !err; i++) {
        long long id;
        err = cli_id(c, i, "experiment", &id, e);
        err = err ? err : resize_experiment(c, id, e);
    }
    return err;
}

// --- trial set -----------------------------------------------------------------------------------

int run_trial_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    int err = cli_id(c, 0, "trial", &id, e);
    if (!err && !c->options.log_retention && c->options.metadata.count == 0)
        err = error_set(e, ERR_INVALID, "nothing to change: give --log-retention or --metadata");
    if (!err && c->options.log_retention)
        err = set_retention(c, "trial", id, e);
    if (!err && c->options.metadata.count > 0)
        err = set_trial_metadata(c, id, e);
    return err ? err
               : cli_report(c, json_pack("{s:I, s:s}", "id", (json_int_t)id, "done", "set"), e,
                            "Trial %lld: changed", id);
}

// --- label, move ---------------------------------------------------------------------------------

int run_experiment_label(struct cli *c, const struct command *self, struct error *e)
{
    bool adds = false;
    long long id = 0;
    json_t *answer = NULL;
    int err = cli_add_or_remove(c, self, &adds, e);
    err = err ? err : cli_id(c, 0, "experiment", &id, e);
    for (int i = 1; i < c->arg_count && !err; i++) {
        char *label = client_escape(c->args[i]);
        json_decref(answer);
        answer = NULL;
        err = cli_call(c, adds ? "PUT" : "DELETE", NULL, &answer, e,
                       "/api/v1/experiments/%lld/labels/%s", id, label);
        free(label);
    }
    if (!err) {
        json_t *labels = jget(answer, "labels");
        json_t *row = json_pack("{s:I, s:O?}", "id", (json_int_t)id, "labels", labels);
        err = cli_report(c, row, e, "Experiment %lld has %zu label%s", id, json_array_size(labels),
                         json_array_size(labels) == 1 ? "" : "s");
    }
    json_decref(answer);
    return err;
}

int run_experiment_move(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id, team, project;
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : lookup_team(c, NULL, c->args[1], &team, e);
    err = err ? err : lookup_project(c, team, c->args[2], &project, e);
    if (err)
        return err;
    json_t *body = json_pack("{s:I}", "destinationProjectId", (json_int_t)project);
    err = cli_call(c, "POST", body, NULL, e, "/api/v1/experiments/%lld/move", id);
    json_decref(body);
    json_t *row = json_pack("{s:I, s:s, s:s}", "id", (json_int_t)id, "team", c->args[1], "project",
                            c->args[2]);
    if (err) {
        json_decref(row);
        return err;
    }
    return cli_report(c, row, e, "Experiment %lld is in project %s of team %s", id, c->args[2],
                      c->args[1]);
}

// --- continue, fork ---------------------------------------------------------------------------

// The values of --config as JSON; "" without --config.
static int overrides_text(struct cli *c, char **text, struct error *e)
{
    struct yaml_doc doc = {0};
    int err = yaml_parse("{}", 2, "--config", &doc, e);
    for (int i = 0; i < c->options.config.count && !err; i++)
        err = expconf_set(&doc, c->options.config.items[i], e);
    bool some = !err && c->options.config.count > 0;
    *text = some ? overlay_value(doc.root, 0) : xstrdup("");
    yaml_doc_free(&doc);
    return err;
}

// A search refuses such changes, so the experiment has one trial.
static void warn_of_mixed_hyperparameters(long long id, const char *overrides)
{
    json_t *values = json_loads(overrides, 0, NULL);
    if (jget(values, "hyperparameters"))
        fprintf(stderr,
                "warning: the record of the trial now shows the new hyperparameters, also for the "
                "steps that it has trained with the old ones; `muster experiment fork %lld` with "
                "searcher.source_trial_id keeps both trainings apart\n",
                id);
    json_decref(values);
}

int run_experiment_continue(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    char *text = NULL;
    json_t *answer = NULL;
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : overrides_text(c, &text, e);
    if (!err) {
        json_t *body = json_pack("{s:I, s:s}", "id", (json_int_t)id, "overrideConfig", text);
        err = cli_call(c, "POST", body, &answer, e, "/api/v1/experiments/continue");
        json_decref(body);
    }
    if (!err) {
        json_t *row = row_experiment(jget(answer, "experiment"));
        err = cli_report(c, row, e, "Experiment %lld continues", id);
    }
    if (!err)
        warn_of_mixed_hyperparameters(id, text);
    if (!err && c->options.follow)
        err = cli_follow(c, id, e);
    json_decref(answer);
    free(text);
    return err;
}

int run_experiment_fork(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *parent = NULL, *answer = NULL, *body = NULL;
    char *text = NULL;
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : fetch_experiment(c, id, &parent, e);
    if (!err) {
        const char *name = arena_printf(&c->arena, "experiment %lld", id);
        text = xstrdup(jget_string(parent, "originalConfig", ""));
        err = config_lay_over(c, name, &text, NULL, e);
    }
    if (!err) {
        body = json_pack("{s:s, s:I, s:b, s:b}", "config", text, "parentId", (json_int_t)id,
                         "activate", !c->options.paused, "validateOnly", c->options.validate_only);
        if (c->options.project_id > 0)
            json_object_set_new(body, "projectId", json_integer(c->options.project_id));
        err = cli_call(c, "POST", body, &answer, e, "/api/v1/experiments");
    }
    err = err ? err : experiment_created(c, answer, e);
    json_decref(body);
    json_decref(answer);
    json_decref(parent);
    free(text);
    return err;
}

// --- files ---------------------------------------------------------------------------------------

static void add_file_rows(json_t *rows, const json_t *nodes)
{
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        if (!jget_bool(node, "isDir", false)) {
            json_t *row = json_pack("{s:s, s:I, s:s?}", "path", jget_string(node, "path", ""),
                                    "size", (json_int_t)jget_int(node, "contentLength", 0),
                                    "modified", jget_string(node, "modifiedTime", NULL));
            json_array_append_new(rows, row);
        }
        add_file_rows(rows, jget(node, "files"));
    }
}

static int print_file(struct cli *c, long long id, const char *path, struct error *e)
{
    json_t *answer = NULL, *body = json_pack("{s:s}", "path", path);
    void *data = NULL;
    size_t len = 0;
    int err = cli_call(c, "POST", body, &answer, e, "/api/v1/experiments/%lld/file", id);
    const char *text = jget_string(answer, "file", "");
    if (!err && base64_decode(text, strlen(text), &data, &len) != 0)
        err = error_set(e, ERR_PEER, "the master's answer is not a file: its base64 is damaged");
    if (!err && len > 0 && fwrite(data, len, 1, stdout) != 1)
        err = error_set(e, ERR_IO, "cannot write to standard output");
    free(data);
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_experiment_files(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    json_t *answer = NULL, *rows = json_array();
    int err = cli_id(c, 0, "experiment", &id, e);
    if (!err && c->arg_count > 1) {
        err = print_file(c, id, c->args[1], e);
    } else if (!err) {
        err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/experiments/%lld/file_tree", id);
        add_file_rows(rows, jget(answer, "files"));
        err = err ? err : output_rows(c, rows, self->columns, e);
    }
    json_decref(rows);
    json_decref(answer);
    return err;
}

int run_experiment_download(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *answer = NULL;
    void *tgz = NULL;
    size_t len = 0;
    int err = cli_id(c, 0, "experiment", &id, e);
    const char *folder =
        c->options.to ? c->options.to : arena_printf(&c->arena, "experiment-%lld", id);
    err =
        err ? err : cli_call(c, "GET", NULL, &answer, e, "/api/v1/experiments/%lld/model_def", id);
    const char *text = jget_string(answer, "b64Tgz", "");
    if (!err && base64_decode(text, strlen(text), &tgz, &len) != 0)
        err =
            error_set(e, ERR_PEER, "the master's answer is not an archive: its base64 is damaged");
    err = err ? err : archive_unpack(tgz, len, folder, LIMIT_MODEL_DEFINITION, e);
    if (!err) {
        json_t *row = json_pack("{s:I, s:s}", "id", (json_int_t)id, "folder", folder);
        err = cli_report(c, row, e, "The files of experiment %lld are in %s", id, folder);
    }
    free(tgz);
    json_decref(answer);
    return err;
}
