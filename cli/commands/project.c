// Projects: the folders of a team (workspace) for experiments.
#include <string.h>

#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/lookup.h"
#include "cli/common/removal.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

static json_t *project_row(const json_t *project)
{
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:I, s:I, s:s, s:b, s:I}", "id",
        (json_int_t)jget_int(project, "id", 0), "team", jget_string(project, "workspaceName", ""),
        "name", jget_string(project, "name", ""), "description",
        jget_string(project, "description", ""), "experiments",
        (json_int_t)jget_int(project, "numExperiments", 0), "active",
        (json_int_t)jget_int(project, "numActiveExperiments", 0), "owner",
        jget_string(project, "username", ""), "archived", jget_bool(project, "archived", false),
        "team_id", (json_int_t)jget_int(project, "workspaceId", 0));
}

static int add_projects(struct cli *c, long long team, json_t *rows, struct error *e)
{
    json_t *list = NULL;
    int err = cli_list(c, "projects", 0, &list, e, "/api/v1/workspaces/%lld/projects%s", team,
                       c->options.all ? "" : "?archived=false");
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append_new(rows, project_row(json_array_get(list, i)));
    json_decref(list);
    return err;
}

static int add_all_projects(struct cli *c, json_t *rows, struct error *e)
{
    json_t *teams = NULL;
    int err = cli_list(c, "workspaces", 0, &teams, e, "/api/v1/workspaces%s",
                       c->options.all ? "" : "?archived=false");
    for (size_t i = 0; i < json_array_size(teams) && !err; i++)
        err = add_projects(c, jget_int(json_array_get(teams, i), "id", 0), rows, e);
    json_decref(teams);
    return err;
}

int run_project_list(struct cli *c, const struct command *self, struct error *e)
{
    long long team;
    json_t *rows = json_array();
    int err = 0;
    if (c->arg_count == 0) {
        err = add_all_projects(c, rows, e);
    } else {
        err = lookup_team(c, NULL, c->args[0], &team, e);
        err = err ? err : add_projects(c, team, rows, e);
    }
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    return err;
}

// The id of the project that the first two arguments name.
static int lookup_named_project(struct cli *c, long long *id, struct error *e)
{
    long long team;
    int err = lookup_team(c, NULL, c->args[0], &team, e);
    return err ? err : lookup_project(c, team, c->args[1], id, e);
}

int run_project_create(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long team;
    json_t *answer = NULL, *body = json_pack("{s:s}", "name", c->args[1]);
    cli_put(body, "description", c->options.description);
    int err = lookup_team(c, NULL, c->args[0], &team, e);
    if (!err)
        err = cli_call(c, "POST", body, &answer, e, "/api/v1/workspaces/%lld/projects", team);
    if (!err) {
        const json_t *project = jget(answer, "project");
        err = cli_report(c, project_row(project), e, "Created project %s (%lld) in team %s",
                         c->args[1], (long long)jget_int(project, "id", 0), c->args[0]);
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

static void show_notes(const json_t *notes)
{
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const json_t *note = json_array_get(notes, i);
        printf("\n%s\n  %s\n", jget_string(note, "name", ""), jget_string(note, "contents", ""));
    }
}

int run_project_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *answer = NULL;
    int err = lookup_named_project(c, &id, e);
    err = err ? err : cli_call(c, "GET", NULL, &answer, e, "/api/v1/projects/%lld", id);
    if (!err) {
        const json_t *notes = jget(jget(answer, "project"), "notes");
        json_t *row = project_row(jget(answer, "project"));
        json_object_set(row, "notes", (json_t *)notes);
        err =
            output_object(c, row, "id,team,name,description,experiments,active,owner,archived", e);
        if (!err && c->format == OUTPUT_TABLE && !c->options.columns)
            show_notes(notes);
        json_decref(row);
    }
    json_decref(answer);
    return err;
}

int run_project_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const struct cli_options *o = &c->options;
    long long id;
    json_t *answer = NULL, *body = json_object();
    cli_put(body, "name", o->name);
    cli_put(body, "description", o->description);
    int err = json_object_size(body) > 0
                  ? lookup_named_project(c, &id, e)
                  : error_set(e, ERR_INVALID, "nothing to change: give --name or --description");
    err = err ? err : cli_call(c, "PATCH", body, &answer, e, "/api/v1/projects/%lld", id);
    if (!err) {
        err = cli_report(c, project_row(jget(answer, "project")), e,
                         "Changed project %s of team %s", c->args[1], c->args[0]);
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_project_note(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    const char *name = c->options.name ? c->options.name : "Note";
    json_t *body = json_pack("{s:s, s:s}", "name", name, "contents", c->args[2]);
    int err = lookup_named_project(c, &id, e);
    err = err ? err : cli_call(c, "POST", body, NULL, e, "/api/v1/projects/%lld/notes", id);
    err = err ? err : cli_report(c, json_incref(body), e, "Added a note to project %s", c->args[1]);
    json_decref(body);
    return err;
}

static json_t *project_done_row(const struct cli *c, const struct command *self, long long id)
{
    return json_pack("{s:I, s:s, s:s}", "id", (json_int_t)id, "name", c->args[c->arg_count - 1],
                     "done", self->verb);
}

int run_project_archive(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    int err = lookup_named_project(c, &id, e);
    err =
        err ? err : cli_call(c, "POST", NULL, NULL, e, "/api/v1/projects/%lld/%s", id, self->verb);
    return err ? err
               : cli_report(c, project_done_row(c, self, id), e, "Project %s: %sd", c->args[1],
                            self->verb);
}

int run_project_move(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id, team;
    int err = lookup_named_project(c, &id, e);
    err = err ? err : lookup_team(c, NULL, c->args[2], &team, e);
    if (err)
        return err;
    json_t *body = json_pack("{s:I}", "destinationWorkspaceId", (json_int_t)team);
    err = cli_call(c, "POST", body, NULL, e, "/api/v1/projects/%lld/move", id);
    json_decref(body);
    return err ? err
               : cli_report(c,
                            json_pack("{s:I, s:s, s:s}", "id", (json_int_t)id, "name", c->args[1],
                                      "team", c->args[2]),
                            e, "Project %s is in team %s", c->args[1], c->args[2]);
}

int run_project_delete(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    int err = lookup_named_project(c, &id, e);
    err = err ? err
              : cli_confirm(c, e,
                            "Delete project %s of team %s with its experiments and checkpoints?",
                            c->args[1], c->args[0]);
    err = err ? err : removal_run(c, "project", id, e);
    return err ? err
               : cli_report(c, project_done_row(c, self, id), e, "Deleted project %s", c->args[1]);
}
