// Templates: configurations whose values experiments use unless they set their own.
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "base/text/yaml.h"
#include "cli/commands/commands.h"
#include "cli/common/lookup.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

static json_t *template_row(struct cli *c, const json_t *object)
{
    long long team = jget_int(object, "workspaceId", 0);
    return json_pack("{s:s, s:s, s:I, s:O?}", "name", jget_string(object, "name", ""), "team",
                     lookup_team_name(c, team), "team_id", (json_int_t)team, "config",
                     jget(object, "config"));
}

static const char *template_path(struct cli *c)
{
    char *name = client_escape(c->args[0]);
    const char *path = arena_printf(&c->arena, "/api/v1/templates/%s", name);
    free(name);
    return path;
}

int run_template_list(struct cli *c, const struct command *self, struct error *e)
{
    json_t *list = NULL, *rows = json_array();
    int err = cli_list(c, "templates", 0, &list, e, "/api/v1/templates");
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append_new(rows, template_row(c, json_array_get(list, i)));
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    json_decref(list);
    return err;
}

// The table format prints the configuration as JSON, which is also YAML.
int run_template_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "%s", template_path(c));
    if (!err) {
        json_t *row = template_row(c, jget(answer, "template"));
        if (c->format == OUTPUT_TABLE && !c->options.columns) {
            json_dumpf(jget(row, "config"), stdout, JSON_INDENT(2));
            putchar('\n');
        } else {
            err = output_object(c, row, "name,team,config", e);
        }
        json_decref(row);
    }
    json_decref(answer);
    return err;
}

static int template_body(struct cli *c, json_t **body, struct error *e)
{
    char *text = NULL;
    size_t len = 0;
    long long team = 0;
    struct yaml_doc doc = {0};
    int err = file_read(c->args[1], LIMIT_CONFIG, &text, &len, e);
    err = err ? err : yaml_parse(text, len, c->args[1], &doc, e);
    if (!err && !json_is_object(doc.root)) {
        err = error_set(e, ERR_INVALID,
                        "%s is not a template: a template is a part of an experiment file, with "
                        "lines such as resources: {slots_per_trial: 4}",
                        c->args[1]);
    }
    if (!err && c->options.team)
        err = lookup_team(c, "--team", c->options.team, &team, e);
    if (!err) {
        *body = json_pack("{s:s, s:O}", "name", c->args[0], "config", doc.root);
        if (team > 0)
            json_object_set_new(*body, "workspaceId", json_integer(team));
    }
    yaml_doc_free(&doc);
    free(text);
    return err;
}

int run_template_set(struct cli *c, const struct command *self, struct error *e)
{
    bool creates = strcmp(self->verb, "create") == 0;
    json_t *body = NULL, *answer = NULL;
    int err = template_body(c, &body, e);
    if (!err && creates)
        err = lookup_none(c, "template", template_path(c), c->args[0], e);
    err =
        err ? err : cli_call(c, creates ? "POST" : "PUT", body, &answer, e, "%s", template_path(c));
    err = err ? err
              : cli_report(c, template_row(c, jget(answer, "template")), e,
                           "Template %s is saved; use it with\n"
                           "  muster experiment create FILE --template '%s'",
                           c->args[0], c->args[0]);
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_template_delete(struct cli *c, const struct command *self, struct error *e)
{
    int err = cli_confirm(c, e, "Delete template %s?", c->args[0]);
    err = err ? err : cli_call(c, "DELETE", NULL, NULL, e, "%s", template_path(c));
    json_t *row = json_pack("{s:s, s:s}", "name", c->args[0], "done", self->verb);
    if (err) {
        json_decref(row);
        return err;
    }
    return cli_report(c, row, e, "Deleted template %s", c->args[0]);
}
