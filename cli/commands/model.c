// The model registry: models, and their versions, which are checkpoints.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/lookup.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

static json_t *copy_or_empty(const json_t *value)
{
    return value ? json_deep_copy(value) : json_array();
}

static json_t *model_row(const json_t *model)
{
    return json_pack(
        "{s:I, s:s, s:s, s:I, s:o, s:s, s:I, s:b, s:s?, s:s?}", "id",
        (json_int_t)jget_int(model, "id", 0), "name", jget_string(model, "name", ""), "description",
        jget_string(model, "description", ""), "versions",
        (json_int_t)jget_int(model, "numVersions", 0), "labels",
        copy_or_empty(jget(model, "labels")), "user", jget_string(model, "username", ""), "team_id",
        (json_int_t)jget_int(model, "workspaceId", 0), "archived",
        jget_bool(model, "archived", false), "created", jget_string(model, "creationTime", NULL),
        "updated", jget_string(model, "lastUpdatedTime", NULL));
}

static json_t *version_row(const json_t *version)
{
    const json_t *checkpoint = jget(version, "checkpoint"), *of = jget(checkpoint, "training");
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:s, s:s?}", "version",
        (json_int_t)jget_int(version, "version", 0), "name", jget_string(version, "name", ""),
        "comment", jget_string(version, "comment", ""), "checkpoint",
        jget_string(checkpoint, "uuid", ""), "experiment",
        (json_int_t)jget_int(of, "experimentId", 0), "trial",
        (json_int_t)jget_int(of, "trialId", 0), "steps",
        (json_int_t)jget_int(jget(checkpoint, "metadata"), "steps_completed", 0), "labels",
        copy_or_empty(jget(version, "labels")), "user", jget_string(version, "username", ""),
        "registered", jget_string(version, "creationTime", NULL));
}

// "/api/v1/models/NAME" with the first argument, escaped.
static const char *model_path(struct cli *c)
{
    char *name = client_escape(c->args[0]);
    const char *path = arena_printf(&c->arena, "/api/v1/models/%s", name);
    free(name);
    return path;
}

static int version_path(struct cli *c, const char **path, struct error *e)
{
    char *end;
    errno = 0;
    long long number = strtoll(c->args[1], &end, 10);
    if (*end != '\0' || number <= 0 || errno == ERANGE) {
        return error_set(
            e, ERR_INVALID,
            "\"%s\" is not a version; versions are numbers, see: muster model versions %s",
            c->args[1], c->args[0]);
    }
    *path = arena_printf(&c->arena, "%s/versions/%lld", model_path(c), number);
    return 0;
}

int run_model_list(struct cli *c, const struct command *self, struct error *e)
{
    struct buf path;
    buf_init(&path, 1 << 16);
    buf_printf(&path, "/api/v1/models?%s%s%s%s", c->options.all ? "" : "archived=false",
               cli_query(c, "name", c->options.search), cli_query(c, "users", c->options.user),
               cli_query(c, "workspaceName", c->options.team));
    for (int i = 0; i < c->options.label.count; i++)
        buf_puts(&path, cli_query(c, "labels", c->options.label.items[i]));
    int err = output_list(c, self, "models", model_row, e, buf_str(&path));
    buf_free(&path);
    return err;
}

// Adds the flags that describe a model or a version.
static int add_model_settings(struct cli *c, json_t *body, struct error *e)
{
    const struct cli_options *o = &c->options;
    cli_put(body, "name", o->name);
    cli_put(body, "description", o->description);
    cli_put(body, "comment", o->comment);
    cli_put(body, "notes", o->notes);
    if (o->label.count > 0)
        json_object_set_new(body, "labels", cli_words(&o->label));
    json_t *metadata = NULL;
    int err = o->metadata.count > 0 ? cli_pairs("--metadata", &o->metadata, &metadata, e) : 0;
    if (metadata)
        json_object_set_new(body, "metadata", metadata);
    return err;
}

int run_model_create(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long team = 0;
    json_t *answer = NULL, *body = json_object();
    int err = add_model_settings(c, body, e);
    json_object_set_new(body, "name", json_string(c->args[0]));
    if (!err && c->options.team) {
        err = lookup_team(c, "--team", c->options.team, &team, e);
        json_object_set_new(body, "workspaceId", json_integer(team));
    }
    err = err ? err : lookup_none(c, "model", model_path(c), c->args[0], e);
    err = err ? err : cli_call(c, "POST", body, &answer, e, "/api/v1/models");
    err = err ? err
              : cli_report(c, model_row(jget(answer, "model")), e,
                           "Created model %s; register a checkpoint as its version with\n"
                           "  muster model register-version '%s' UUID",
                           c->args[0], c->args[0]);
    json_decref(answer);
    json_decref(body);
    return err;
}

static int fetch_versions(struct cli *c, json_t **rows, struct error *e)
{
    json_t *list = NULL;
    int err = cli_list(c, "modelVersions", 0, &list, e, "%s/versions", model_path(c));
    *rows = !err ? rows_of(list, version_row) : NULL;
    json_decref(list);
    return err;
}

int run_model_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL, *versions = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "%s", model_path(c));
    err = err ? err : fetch_versions(c, &versions, e);
    if (!err) {
        const json_t *model = jget(answer, "model");
        json_t *row = model_row(model);
        const char *team = lookup_team_name(c, jget_int(row, "team_id", 0));
        json_object_set_new(row, "team", json_string(team));
        json_object_set_new(row, "notes", json_string(jget_string(model, "notes", "")));
        json_object_set(row, "metadata", jget(model, "metadata"));
        json_object_set(row, "version_list", versions);
        err = output_object(c, row,
                            "id,name,description,team,user,labels,notes,metadata,archived,"
                            "created,updated",
                            e);
        json_decref(row);
    }
    if (!err && c->format == OUTPUT_TABLE && !c->options.columns) {
        printf("\nVersions\n");
        err = output_rows(c, versions, "version,name,checkpoint,experiment,steps,comment", e);
    }
    json_decref(versions);
    json_decref(answer);
    return err;
}

int run_model_versions(struct cli *c, const struct command *self, struct error *e)
{
    json_t *rows = NULL;
    int err = fetch_versions(c, &rows, e);
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    return err;
}

// Refuses to register one checkpoint as two versions of a model: that is a mistake.
static int check_unregistered(struct cli *c, const char *uuid, struct error *e)
{
    json_t *rows = NULL, *row;
    size_t i;
    int err = fetch_versions(c, &rows, e);
    json_array_foreach(rows, i, row)
    {
        long long version = jget_int(row, "version", 0);
        if (strcmp(jget_string(row, "checkpoint", ""), uuid) == 0) {
            err = error_set(e, ERR_CONFLICT,
                            "checkpoint %s is already version %lld of model %s; to change its "
                            "description: muster model set-version %s %lld",
                            uuid, version, c->args[0], c->args[0], version);
            break;
        }
    }
    json_decref(rows);
    return err;
}

int run_model_register(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL, *body = json_pack("{s:s}", "checkpointUuid", c->args[1]);
    int err = add_model_settings(c, body, e);
    err = err ? err : check_unregistered(c, c->args[1], e);
    err = err ? err : cli_call(c, "POST", body, &answer, e, "%s/versions", model_path(c));
    if (!err) {
        const json_t *version = jget(answer, "modelVersion");
        err = cli_report(c, version_row(version), e, "Model %s: checkpoint %s is version %lld",
                         c->args[0], c->args[1], (long long)jget_int(version, "version", 0));
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

static int check_settings_given(const json_t *body, struct error *e)
{
    return json_object_size(body) > 0
               ? 0
               : error_set(e, ERR_INVALID, "nothing to change: give a flag; --help lists them");
}

static int patch_model(struct cli *c, const json_t *body, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "PATCH", body, &answer, e, "%s", model_path(c));
    err = err ? err
              : cli_report(c, model_row(jget(answer, "model")), e, "Changed model %s", c->args[0]);
    json_decref(answer);
    return err;
}

int run_model_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *body = json_object();
    int err = add_model_settings(c, body, e);
    err = err ? err : check_settings_given(body, e);
    err = err ? err : patch_model(c, body, e);
    json_decref(body);
    return err;
}

int run_model_set_version(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *path = NULL;
    json_t *answer = NULL, *body = json_object();
    int err = version_path(c, &path, e);
    err = err ? err : add_model_settings(c, body, e);
    err = err ? err : check_settings_given(body, e);
    err = err ? err : cli_call(c, "PATCH", body, &answer, e, "%s", path);
    err = err ? err
              : cli_report(c, version_row(jget(answer, "modelVersion")), e,
                           "Changed version %s of model %s", c->args[1], c->args[0]);
    json_decref(answer);
    json_decref(body);
    return err;
}

// --- labels --------------------------------------------------------------------------------------

static bool labels_contain(const json_t *labels, const char *label, size_t *at)
{
    for (*at = 0; *at < json_array_size(labels); (*at)++)
        if (strcmp(json_string_value(json_array_get(labels, *at)), label) == 0)
            return true;
    return false;
}

int run_model_label(struct cli *c, const struct command *self, struct error *e)
{
    json_t *answer = NULL;
    bool adds = false;
    int err = cli_add_or_remove(c, self, &adds, e);
    err = err ? err : cli_call(c, "GET", NULL, &answer, e, "%s", model_path(c));
    json_t *labels = copy_or_empty(jget(jget(answer, "model"), "labels"));
    for (int i = 1; i < c->arg_count; i++) {
        size_t at;
        bool there = labels_contain(labels, c->args[i], &at);
        if (adds && !there)
            json_array_append_new(labels, json_string(c->args[i]));
        else if (!adds && there)
            json_array_remove(labels, at);
    }
    json_t *body = json_pack("{s:o}", "labels", labels);
    err = err ? err : patch_model(c, body, e);
    json_decref(body);
    json_decref(answer);
    return err;
}

// --- archive, move, delete ----------------------------------------------------------------------

static json_t *model_done_row(const struct cli *c, const struct command *self)
{
    return json_pack("{s:s, s:s}", "name", c->args[0], "done", self->verb);
}

int run_model_archive(struct cli *c, const struct command *self, struct error *e)
{
    int err = cli_call(c, "POST", NULL, NULL, e, "%s/%s", model_path(c), self->verb);
    return err ? err
               : cli_report(c, model_done_row(c, self), e, "Model %s: %sd", c->args[0], self->verb);
}

int run_model_move(struct cli *c, const struct command *self, struct error *e)
{
    long long team;
    int err = lookup_team(c, NULL, c->args[1], &team, e);
    json_t *body = json_pack("{s:I}", "destinationWorkspaceId", (json_int_t)team);
    err = err ? err : cli_call(c, "POST", body, NULL, e, "%s/move", model_path(c));
    json_decref(body);
    return err ? err
               : cli_report(c, model_done_row(c, self), e, "Model %s is in team %s", c->args[0],
                            c->args[1]);
}

int run_model_delete(struct cli *c, const struct command *self, struct error *e)
{
    int err =
        cli_confirm(c, e, "Delete model %s with its versions? Their checkpoints stay.", c->args[0]);
    err = err ? err : cli_call(c, "DELETE", NULL, NULL, e, "%s", model_path(c));
    return err ? err : cli_report(c, model_done_row(c, self), e, "Deleted model %s", c->args[0]);
}

int run_model_delete_version(struct cli *c, const struct command *self, struct error *e)
{
    const char *path = NULL;
    int err = version_path(c, &path, e);
    err = err ? err
              : cli_confirm(c, e, "Delete version %s of model %s? Its checkpoint stays.",
                            c->args[1], c->args[0]);
    err = err ? err : cli_call(c, "DELETE", NULL, NULL, e, "%s", path);
    return err ? err
               : cli_report(c, model_done_row(c, self), e, "Deleted version %s of model %s",
                            c->args[1], c->args[0]);
}
