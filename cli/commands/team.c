// Teams: workspaces with their shares of the slots, members and roles.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/lookup.h"
#include "cli/common/removal.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

// --- settings from flags ----------------------------------------------------------------------

static int add_weight(const struct cli_options *o, json_t *body, struct error *e)
{
    double weight;
    int err = o->weight ? cli_number("--weight", o->weight, &weight, e) : 0;
    if (!err && o->weight)
        json_object_set_new(body, "weight", json_real(weight));
    return err;
}

static void add_slots(json_t *body, const char *key, long long slots)
{
    if (slots >= 0)
        json_object_set_new(body, key, json_integer(slots));
}

// Adds the settings of a team; ERR_INVALID: a flag applies to members only.
static int add_team_settings(const struct cli_options *o, json_t *body, struct error *e)
{
    if (o->role) {
        return error_set(e, ERR_INVALID,
                         "--role applies to one user: give --user too; --default-role applies to "
                         "all users who are not members");
    }
    add_slots(body, "guaranteedSlots", o->guaranteed);
    add_slots(body, "maxSlots", o->max_slots);
    if (o->default_role)
        json_object_set_new(body, "defaultRole", json_string(o->default_role));
    if (o->name)
        json_object_set_new(body, "name", json_string(o->name));
    return add_weight(o, body, e);
}

static int add_member_settings(const struct cli_options *o, json_t *body, struct error *e)
{
    if (o->guaranteed >= 0 || o->default_role || o->name) {
        return error_set(
            e, ERR_INVALID,
            "--guaranteed, --default-role and --name apply to the team: leave --user out");
    }
    add_slots(body, "maxSlots", o->max_slots);
    if (o->role) { // the API expects "" for the default role
        bool leaves = strcmp(o->role, "default") == 0;
        json_object_set_new(body, "role", json_string(leaves ? "" : o->role));
    }
    return add_weight(o, body, e);
}

static int check_settings_given(const json_t *body, struct error *e)
{
    if (json_object_size(body) > 0)
        return 0;
    return error_set(e, ERR_INVALID,
                     "nothing to change: give --weight, --guaranteed, --max-slots, --default-role, "
                     "--name, or --user with --role, --weight, --max-slots");
}

// --- commands ------------------------------------------------------------------------------------

int run_team_list(struct cli *c, const struct command *self, struct error *e)
{
    json_t *teams = NULL;
    int err = cli_list(c, "workspaces", 0, &teams, e, "/api/v1/workspaces%s",
                       c->options.all ? "" : "?archived=false");
    if (!err) {
        json_t *rows = rows_of(teams, row_team);
        err = output_rows(c, rows, self->columns, e);
        json_decref(rows);
    }
    json_decref(teams);
    return err;
}

// A workspace needs a project to hold experiments.
static int create_project(struct cli *c, long long team, const char *name, struct error *e)
{
    json_t *body = json_pack("{s:s}", "name", name);
    int err = cli_call(c, "POST", body, NULL, e, "/api/v1/workspaces/%lld/projects", team);
    json_decref(body);
    return err ? error_prefix(e, "the team was created, but its project \"%s\" was not", name) : 0;
}

// Returns the name as a YAML value, quoted where YAML would read something else.
static const char *yaml_text(struct cli *c, const char *name)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no", "on",
                                        "off",  "y",     "n",    "inf", "nan"};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    bool plain = *name != '\0' && strchr(letters, *name);
    for (const char *p = name; *p != '\0' && plain; p++)
        plain = strchr(letters, *p) || strchr("0123456789_-.", *p);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        plain = plain && strcasecmp(name, words[i]) != 0;
    if (plain)
        return name;
    json_t *value = json_string(name);
    char *text = json_text(value);
    const char *quoted = arena_strdup(&c->arena, text);
    free(text);
    json_decref(value);
    return quoted;
}

// Returns the name as one word of a shell.
static const char *shell_text(struct cli *c, const char *name)
{
    const char *out = "'";
    for (const char *p = name; *p != '\0'; p++) {
        out = *p == '\'' ? arena_printf(&c->arena, "%s'\\''", out)
                         : arena_printf(&c->arena, "%s%c", out, *p);
    }
    bool plain =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") ==
        strlen(name);
    return plain && *name != '\0' ? name : arena_printf(&c->arena, "%s'", out);
}

int run_team_create(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *name = c->args[0];
    const char *project = c->options.project ? c->options.project : "default";
    json_t *body = json_object(), *answer = NULL;
    int err = add_team_settings(&c->options, body, e);
    json_object_set_new(body, "name", json_string(name));
    err = err ? err : cli_call(c, "POST", body, &answer, e, "/api/v1/workspaces");
    const json_t *team = jget(answer, "workspace");
    long long id = jget_int(team, "id", 0);
    err = err ? err : create_project(c, id, project, e);
    if (!err && c->format != OUTPUT_TABLE) {
        json_t *row = row_team(team);
        err = output_object(c, row, "id,name", e);
        json_decref(row);
    } else if (!err && !c->options.quiet) {
        printf("Created team %s (workspace %lld); to put an experiment there, write in its file\n"
               "  workspace: %s\n  project: %s\n",
               name, id, yaml_text(c, name), yaml_text(c, project));
        if (jget_double(team, "weight", 1) < 1)
            printf("Its weight is %g: it only gets slots that no other team wants, until an\n"
                   "administrator gives it a larger weight: muster team set %s --weight 1\n",
                   jget_double(team, "weight", 1), shell_text(c, name));
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

static int set_member(struct cli *c, long long team, json_t *body, struct error *e)
{
    long long user;
    int err = add_member_settings(&c->options, body, e);
    err = err ? err : check_settings_given(body, e);
    err = err ? err : lookup_user(c, "--user", c->options.user, &user, e);
    return err ? err
               : cli_call(c, "PUT", body, NULL, e, "/api/v1/workspaces/%lld/members/%lld", team,
                          user);
}

static int set_team(struct cli *c, long long team, json_t *body, struct error *e)
{
    int err = add_team_settings(&c->options, body, e);
    err = err ? err : check_settings_given(body, e);
    return err ? err : cli_call(c, "PATCH", body, NULL, e, "/api/v1/workspaces/%lld", team);
}

int run_team_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long team;
    json_t *body = json_object();
    int err = lookup_team(c, NULL, c->args[0], &team, e);
    if (!err)
        err = c->options.user ? set_member(c, team, body, e) : set_team(c, team, body, e);
    if (!err) {
        const char *user = c->options.user;
        json_object_set_new(body, "team", json_string(c->args[0]));
        err = cli_report(c, json_incref(body), e, "Changed team %s%s%s", c->args[0],
                         user ? ": user " : "", user ? user : "");
    }
    json_decref(body);
    return err;
}

int run_team_members(struct cli *c, const struct command *self, struct error *e)
{
    long long team;
    json_t *answer = NULL;
    int err = lookup_team(c, NULL, c->args[0], &team, e);
    err = err ? err : cli_call(c, "GET", NULL, &answer, e, "/api/v1/workspaces/%lld/members", team);
    if (!err) {
        json_t *rows = rows_of(jget(answer, "members"), row_member);
        err = output_rows(c, rows, self->columns, e);
        json_decref(rows);
    }
    json_decref(answer);
    return err;
}

static json_t *team_done_row(const struct cli *c, const struct command *self, long long id)
{
    return json_pack("{s:I, s:s, s:s}", "id", (json_int_t)id, "name", c->args[0], "done",
                     self->verb);
}

int run_team_delete(struct cli *c, const struct command *self, struct error *e)
{
    long long team;
    int err = lookup_team(c, NULL, c->args[0], &team, e);
    err = err ? err
              : cli_confirm(c, e,
                            "Delete team %s with its projects, experiments, checkpoints and "
                            "templates?",
                            c->args[0]);
    err = err ? err : removal_run(c, "workspace", team, e);
    return err ? err
               : cli_report(c, team_done_row(c, self, team), e, "Deleted team %s", c->args[0]);
}

int run_team_archive(struct cli *c, const struct command *self, struct error *e)
{
    long long team;
    int err = lookup_team(c, NULL, c->args[0], &team, e);
    err = err ? err
              : cli_call(c, "POST", NULL, NULL, e, "/api/v1/workspaces/%lld/%s", team, self->verb);
    return err ? err
               : cli_report(c, team_done_row(c, self, team), e, "Team %s: %sd", c->args[0],
                            self->verb);
}

static int fetch_team_list(struct cli *c, long long team, const char *part, json_t **list,
                           struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/workspaces/%lld/%s", team, part);
    *list = json_incref(jget(answer, part));
    json_decref(answer);
    return err;
}

static json_t *team_project_row(const json_t *project)
{
    return json_pack("{s:I, s:s, s:s, s:I, s:b}", "id", (json_int_t)jget_int(project, "id", 0),
                     "name", jget_string(project, "name", ""), "description",
                     jget_string(project, "description", ""), "experiments",
                     (json_int_t)jget_int(project, "numExperiments", 0), "archived",
                     jget_bool(project, "archived", false));
}

static int show_team(struct cli *c, const json_t *row, struct error *e)
{
    int err =
        output_object(c, row, "id,name,owner,weight,guaranteed,max_slots,default_role,archived", e);
    if (err || c->format != OUTPUT_TABLE || c->options.columns)
        return err;
    printf("\nMembers\n");
    err = output_rows(c, json_object_get(row, "member_list"), "user,role,weight,max_slots", e);
    printf("\nProjects\n");
    return err ? err
               : output_rows(c, json_object_get(row, "project_list"),
                             "id,name,experiments,description", e);
}

int run_team_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long team;
    json_t *answer = NULL, *members = NULL, *projects = NULL;
    int err = lookup_team(c, NULL, c->args[0], &team, e);
    err = err ? err : cli_call(c, "GET", NULL, &answer, e, "/api/v1/workspaces/%lld", team);
    err = err ? err : fetch_team_list(c, team, "members", &members, e);
    err = err ? err : fetch_team_list(c, team, "projects", &projects, e);
    if (!err) {
        json_t *row = row_team(jget(answer, "workspace"));
        json_object_set_new(row, "member_list", rows_of(members, row_member));
        json_object_set_new(row, "project_list", rows_of(projects, team_project_row));
        err = show_team(c, row, e);
        json_decref(row);
    }
    json_decref(projects);
    json_decref(members);
    json_decref(answer);
    return err;
}

// The rows of users follow their team; tables indent them.
static json_t *share_rows(const json_t *shares, bool drawn)
{
    json_t *rows = json_array(), *share;
    size_t i;
    json_array_foreach(shares, i, share)
    {
        json_t *row = row_share(share);
        if (drawn && jget(share, "userId")) {
            char *name = xasprintf("  %s", jget_string(row, "team", ""));
            json_object_set_new(row, "team", json_string(name));
            free(name);
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

int run_team_shares(struct cli *c, const struct command *self, struct error *e)
{
    json_t *answer = NULL;
    char *pool = client_escape(c->options.pool ? c->options.pool : "");
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/shares?resourcePool=%s", pool);
    if (!err && c->options.pool && json_array_size(jget(answer, "shares")) == 0)
        err = lookup_pool(c, "--pool", c->options.pool, e);
    if (!err) {
        json_t *rows = share_rows(jget(answer, "shares"), c->format == OUTPUT_TABLE);
        err = output_rows(c, rows, self->columns, e);
        json_decref(rows);
    }
    free(pool);
    json_decref(answer);
    return err;
}
