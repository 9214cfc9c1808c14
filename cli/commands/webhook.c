// Webhooks: URLs to which the master posts a message when something happens.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/lookup.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

// --- triggers from --on
// ------------------------------------------------------------------------------

static json_t *trigger_make(const char *type, json_t *condition)
{
    char name[64];
    snprintf(name, sizeof(name), "TRIGGER_TYPE_%s", type);
    return json_pack("{s:s, s:o}", "triggerType", name, "condition", condition);
}

// "loss<0.1"
static int trigger_from_metric(const char *text, size_t at, json_t **out, struct error *e)
{
    double limit;
    int err = cli_number("--on METRIC<LIMIT: the limit", text + at + 1, &limit, e);
    if (!err) {
        json_t *condition = json_pack("{s:s%, s:f}", "metric", text, at,
                                      text[at] == '<' ? "below" : "above", limit);
        *out = trigger_make("METRIC_THRESHOLD_EXCEEDED", condition);
    }
    return err;
}

static int trigger_from_state(struct cli *c, const char *text, json_t **out, struct error *e)
{
    const char *word = NULL;
    char *upper = arena_strdup(&c->arena, text);
    for (char *p = upper; *p != '\0'; p++)
        *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    int err = wire_parse(WIRE_EXPERIMENT_STATE, upper, &word, e);
    if (err) {
        return error_prefix(e, "--on takes a state, METRIC<LIMIT, METRIC>LIMIT, log:PATTERN, "
                               "custom or alert");
    }
    const char *name = wire_name(WIRE_EXPERIMENT_STATE, word);
    *out = trigger_make("EXPERIMENT_STATE_CHANGE", json_pack("{s:s}", "state", name));
    return 0;
}

static int trigger_parse(struct cli *c, const char *text, json_t **out, struct error *e)
{
    size_t at = strcspn(text, "<>");
    if (strcmp(text, "custom") == 0) {
        *out = trigger_make("CUSTOM", json_object());
        return 0;
    }
    if (strcmp(text, "alert") == 0) {
        *out = trigger_make("CLUSTER_ALERT", json_object());
        return 0;
    }
    if (strncmp(text, "log:", 4) == 0) {
        *out = trigger_make("TASK_LOG", json_pack("{s:s}", "regex", text + 4));
        return 0;
    }
    return text[at] != '\0' && at > 0 ? trigger_from_metric(text, at, out, e)
                                      : trigger_from_state(c, text, out, e);
}

// Converts the master's triggers back into the words of --on.
static json_t *trigger_words(const json_t *triggers)
{
    json_t *words = json_array();
    for (size_t i = 0; i < json_array_size(triggers); i++) {
        const json_t *one = json_array_get(triggers, i), *condition = jget(one, "condition");
        const char *type = jget_string(one, "triggerType", "");
        const char *state = jget_string(condition, "state", "");
        const char *metric = jget_string(condition, "metric", "");
        const json_t *below = jget(condition, "below");
        double limit = json_number_value(below ? below : jget(condition, "above"));
        json_t *word =
            strstr(type, "STATE_CHANGE")
                ? json_string(strncmp(state, "STATE_", 6) == 0 ? state + 6 : state)
            : strstr(type, "ALERT")    ? json_string("alert")
            : strstr(type, "TASK_LOG") ? json_sprintf("log:%s", jget_string(condition, "regex", ""))
            : strstr(type, "METRIC")   ? json_sprintf("%s%c%g", metric, below ? '<' : '>', limit)
                                       : json_string("custom");
        json_array_append_new(words, word);
    }
    return words;
}

// --- commands ------------------------------------------------------------------------------------

static json_t *webhook_row(struct cli *c, const json_t *hook)
{
    long long team = jget_int(hook, "workspaceId", 0);
    bool slack = strstr(jget_string(hook, "webhookType", ""), "SLACK") != NULL;
    bool specific = strstr(jget_string(hook, "mode", ""), "SPECIFIC") &&
                    !strstr(jget_string(hook, "mode", ""), "UNSPECIFIED");
    return json_pack(
        "{s:I, s:s, s:s, s:o, s:s, s:s, s:s}", "id", (json_int_t)jget_int(hook, "id", 0), "name",
        jget_string(hook, "name", ""), "url", jget_string(hook, "url", ""), "on",
        trigger_words(jget(hook, "triggers")), "type", slack ? "slack" : "plain", "of",
        specific ? "named" : "all", "team", team > 0 ? lookup_team_name(c, team) : "(cluster)");
}

int run_webhook_list(struct cli *c, const struct command *self, struct error *e)
{
    json_t *list = NULL, *rows = json_array();
    int err = cli_list(c, "webhooks", 0, &list, e, "/api/v1/webhooks");
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append_new(rows, webhook_row(c, json_array_get(list, i)));
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    json_decref(list);
    return err;
}

static int webhook_body(struct cli *c, json_t *body, struct error *e)
{
    const struct cli_options *o = &c->options;
    const struct flag_list usual = {{"completed", "error"}, 2};
    const struct flag_list *on = o->on.count > 0 ? &o->on : &usual;
    long long team = 0;
    json_t *triggers = json_array();
    int err = o->team ? lookup_team(c, "--team", o->team, &team, e) : 0;
    for (int i = 0; i < on->count && !err; i++) {
        json_t *one = NULL;
        err = trigger_parse(c, on->items[i], &one, e);
        if (one)
            json_array_append_new(triggers, one);
    }
    json_object_set_new(body, "url", json_string(c->args[0]));
    json_object_set_new(body, "name", json_string(o->name ? o->name : ""));
    json_object_set_new(body, "triggers", triggers);
    json_object_set_new(body, "webhookType",
                        json_string(o->slack ? "WEBHOOK_TYPE_SLACK" : "WEBHOOK_TYPE_DEFAULT"));
    json_object_set_new(
        body, "mode",
        json_string(o->specific ? "WEBHOOK_MODE_SPECIFIC" : "WEBHOOK_MODE_WORKSPACE"));
    if (team > 0)
        json_object_set_new(body, "workspaceId", json_integer(team));
    return err;
}

// A repeated POST with the same name would return the existing webhook.
static int check_name_free(struct cli *c, struct error *e)
{
    json_t *list = NULL;
    int err = c->options.name ? cli_list(c, "webhooks", 0, &list, e, "/api/v1/webhooks") : 0;
    for (size_t i = 0; i < json_array_size(list) && !err; i++) {
        if (strcmp(jget_string(json_array_get(list, i), "name", ""), c->options.name) == 0) {
            err = error_set(e, ERR_CONFLICT,
                            "a webhook \"%s\" exists already; see: muster webhook describe %s",
                            c->options.name, c->options.name);
        }
    }
    json_decref(list);
    return err;
}

int run_webhook_create(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *body = json_object(), *answer = NULL;
    int err = webhook_body(c, body, e);
    err = err ? err : check_name_free(c, e);
    err = err ? err : cli_call(c, "POST", body, &answer, e, "/api/v1/webhooks");
    if (!err) {
        const json_t *hook = jget(answer, "webhook");
        long long id = jget_int(hook, "id", 0);
        err = cli_report(c, webhook_row(c, hook), e,
                         "Created webhook %s (%lld); try it with: muster webhook test %lld",
                         jget_string(hook, "name", ""), id, id);
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_webhook_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *answer = NULL;
    int err = lookup_webhook(c, c->args[0], &id, e);
    err = err ? err : cli_call(c, "GET", NULL, &answer, e, "/api/v1/webhooks/%lld", id);
    if (!err) {
        json_t *row = webhook_row(c, jget(answer, "webhook"));
        err = output_object(c, row, "id,name,url,on,type,of,team", e);
        json_decref(row);
    }
    json_decref(answer);
    return err;
}

static json_t *webhook_done_row(const struct cli *c, const struct command *self, long long id)
{
    return json_pack("{s:I, s:s, s:s}", "id", (json_int_t)id, "name", c->args[0], "done",
                     self->verb);
}

int run_webhook_set(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    json_t *body = json_pack("{s:s}", "url", c->args[1]);
    int err = lookup_webhook(c, c->args[0], &id, e);
    err = err ? err : cli_call(c, "PATCH", body, NULL, e, "/api/v1/webhooks/%lld", id);
    json_decref(body);
    return err ? err
               : cli_report(c, webhook_done_row(c, self, id), e, "Webhook %s now posts to %s",
                            c->args[0], c->args[1]);
}

int run_webhook_test(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    int err = lookup_webhook(c, c->args[0], &id, e);
    err = err ? err : cli_call(c, "POST", NULL, NULL, e, "/api/v1/webhooks/%lld/test", id);
    return err ? err
               : cli_report(c, webhook_done_row(c, self, id), e, "Webhook %s: delivered",
                            c->args[0]);
}

int run_webhook_delete(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    int err = lookup_webhook(c, c->args[0], &id, e);
    err = err ? err : cli_confirm(c, e, "Delete webhook %s?", c->args[0]);
    err = err ? err : cli_call(c, "DELETE", NULL, NULL, e, "/api/v1/webhooks/%lld", id);
    return err ? err
               : cli_report(c, webhook_done_row(c, self, id), e, "Deleted webhook %s", c->args[0]);
}
