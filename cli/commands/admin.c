// Commands for administrators: the master's configuration, log and notice, the audit trail, the use
// of slots, pools; and any call of the API by its path.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

// --- master --------------------------------------------------------------------------------------

int run_master_config(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/master/config");
    const json_t *config = jget(answer, "config");
    if (!err && c->format == OUTPUT_TABLE && !c->options.columns) {
        json_dumpf(config, stdout, JSON_INDENT(2));
        putchar('\n');
    } else if (!err) {
        err = output_object(c, config, output_labels(config, &c->arena), e);
    }
    json_decref(answer);
    return err;
}

int run_master_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *level = c->options.log_level;
    if (!level) {
        return error_set(e, ERR_INVALID,
                         "nothing to change: give --log-level; the other settings are set when the "
                         "master starts, see muster-master --help");
    }
    json_t *body = json_pack("{s:{s:{s:s}}}", "config", "log", "level", level);
    int err = cli_call(c, "PATCH", body, NULL, e, "/api/v1/master/config");
    json_decref(body);
    return err ? err
               : cli_report(c, json_pack("{s:s}", "log_level", level), e,
                            "The master logs at level %s until it starts again", level);
}

struct log_view {
    struct cli *c;
    char last[CLOCK_RFC3339_MAX]; // time of the newest printed entry
    bool away;                    // the master has not answered since then
};

static int on_log_entry(void *ctx, const json_t *result, struct error *e)
{
    (void)e;
    struct log_view *shown = ctx;
    struct cli *c = shown->c;
    shown->away = false;
    const json_t *entry = jget(result, "logEntry");
    entry = entry ? entry : result;
    const char *time = jget_string(entry, "timestamp", "");
    if (strcmp(time, shown->last) < 0)
        return 0; // already printed before the stream was lost
    snprintf(shown->last, sizeof(shown->last), "%s", time);
    const char *level = jget_string(entry, "level", "");
    level = strncmp(level, "LOG_LEVEL_", 10) == 0 ? level + 10 : level;
    if (c->format != OUTPUT_TABLE) {
        json_t *row =
            json_pack("{s:I, s:s, s:s, s:s}", "id", (json_int_t)jget_int(entry, "id", 0), "time",
                      time, "level", level, "message", jget_string(entry, "message", ""));
        json_dumpf(row, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(row);
    } else {
        printf("%s %-7s %s\n", time, level, jget_string(entry, "message", ""));
    }
    fflush(stdout);
    return 0;
}

int run_master_logs(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    struct log_view shown = {.c = c};
    long long offset = c->options.tail > 0 ? -c->options.tail : 0;
    bool again = true;
    int err = 0;
    while (again) { // a restarted master has an empty log
        const char *path = arena_printf(&c->arena, "/api/v1/master/logs?offset=%lld%s", offset,
                                        c->options.follow ? "&follow=true" : "");
        err = client_stream(c->client, path, on_log_entry, &shown, e);
        err = !err && c->options.follow ? ERR_UNAVAILABLE : err; // the master stops
        again = c->options.follow && cli_await_master(err, &shown.away);
        offset = 0;
    }
    return err;
}

static int notice_show(struct cli *c, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/master/cluster_message");
    if (err == ERR_FORBIDDEN) // other users see it when it shows
        err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/master");
    const json_t *message = jget(answer, "clusterMessage");
    json_t *row = json_pack("{s:s?, s:s?, s:s?}", "message", jget_string(message, "message", NULL),
                            "from", jget_string(message, "startTime", NULL), "until",
                            jget_string(message, "endTime", NULL));
    if (!err && !message && c->format == OUTPUT_TABLE)
        puts("There is no notice.");
    else if (!err)
        err = output_object(c, row, "message,from,until", e);
    json_decref(row);
    json_decref(answer);
    return err;
}

static int notice_set(struct cli *c, struct error *e)
{
    const struct cli_options *o = &c->options;
    const char *from, *until, *lasts;
    int err = cli_time(c, "--since", o->from, &from, e);
    err = err ? err : cli_time(c, "--until", o->until, &until, e);
    err = err ? err : cli_length(c, "--for", o->lasts, &lasts, e);
    if (!err && c->arg_count < 2)
        err = error_set(e, ERR_INVALID, "the text is missing: muster master message set TEXT");
    if (err)
        return err;
    json_t *body = json_pack("{s:s, s:s*, s:s*, s:s*}", "message", c->args[1], "startTime", from,
                             "endTime", until, "duration", lasts);
    err = cli_call(c, "PUT", body, NULL, e, "/api/v1/master/cluster_message");
    json_decref(body);
    return err ? err
               : cli_report(c, json_pack("{s:s}", "message", c->args[1]), e,
                            "All users now see: %s", c->args[1]);
}

int run_master_message(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *verb = c->args[0];
    if (strcmp(verb, "get") == 0)
        return notice_show(c, e);
    if (strcmp(verb, "set") == 0)
        return notice_set(c, e);
    if (strcmp(verb, "clear") != 0) {
        return error_set(e, ERR_INVALID,
                         "muster master message takes get, set TEXT or clear, not \"%s\"", verb);
    }
    int err = cli_call(c, "DELETE", NULL, NULL, e, "/api/v1/master/cluster_message");
    return err ? err : cli_report(c, json_pack("{s:n}", "message"), e, "The notice is cleared");
}

// --- alerts --------------------------------------------------------------------------------------

static json_t *alert_row(const json_t *alert)
{
    return json_pack("{s:I, s:s, s:s, s:s, s:s?, s:s}", "id", (json_int_t)jget_int(alert, "id", 0),
                     "kind", jget_string(alert, "kind", ""), "subject",
                     jget_string(alert, "subject", ""), "began", jget_string(alert, "beganAt", ""),
                     "ended", jget_string(alert, "endedAt", NULL), "text",
                     jget_string(alert, "text", ""));
}

int run_master_alerts(struct cli *c, const struct command *self, struct error *e)
{
    json_t *answer = NULL, *rows = json_array();
    long long limit = c->options.limit > 0 ? c->options.limit : 100;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/alerts?limit=%lld", limit);
    const json_t *list = jget(answer, "alerts");
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append_new(rows, alert_row(json_array_get(list, i)));
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    json_decref(answer);
    return err;
}

// --- audit ---------------------------------------------------------------------------------------

static json_t *audit_row(const json_t *audit)
{
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:s}", "id", (json_int_t)jget_int(audit, "id", 0),
        "time", jget_string(audit, "time", ""), "user", jget_string(audit, "username", ""),
        "address", jget_string(audit, "address", ""), "method", jget_string(audit, "method", ""),
        "path", jget_string(audit, "path", ""), "status", (json_int_t)jget_int(audit, "status", 0),
        "detail", jget_string(audit, "detail", ""));
}

int run_audit_list(struct cli *c, const struct command *self, struct error *e)
{
    const struct cli_options *o = &c->options;
    const char *since, *until;
    int err = cli_time(c, "--since", o->from, &since, e);
    err = err ? err : cli_time(c, "--until", o->until, &until, e);
    if (err)
        return err;
    char *method = arena_strdup(&c->arena, o->method);
    for (char *p = method; p && *p != '\0'; p++)
        *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    const char *status = o->status > 0 ? arena_printf(&c->arena, "&status=%lld", o->status) : "";
    const char *path =
        arena_printf(&c->arena, "/api/v1/audit?%s%s%s%s%s%s", status, cli_query(c, "user", o->user),
                     cli_query(c, "method", method), cli_query(c, "path", o->path),
                     cli_query(c, "since", since), cli_query(c, "until", until));
    c->options.limit = o->limit > 0 ? o->limit : 100; // the audit trail is long
    return output_list(c, self, "audit", audit_row, e, path);
}

// --- use of slots ----------------------------------------------------------------

static json_t *usage_row(const json_t *entry)
{
    return json_pack(
        "{s:I, s:s, s:O?, s:I, s:s?, s:s?, s:f}", "experiment",
        (json_int_t)jget_int(entry, "experimentId", 0), "user", jget_string(entry, "username", ""),
        "labels", jget(entry, "labels"), "slots", (json_int_t)jget_int(entry, "slots", 0),
        "started", jget_string(entry, "startTime", NULL), "ended",
        jget_string(entry, "endTime", NULL), "seconds", jget_double(entry, "seconds", 0));
}

enum { HOUR_S = 3600 };

// Converts slot-seconds by name into slot hours.
static json_t *slot_hours_by(const json_t *entry, const char *key)
{
    json_t *out = json_object(), *value;
    const char *name;
    json_object_foreach(jget(entry, key), name, value)
    {
        json_object_set_new(out, name, json_real(json_number_value(value) / HOUR_S));
    }
    return out;
}

static json_t *usage_period_row(const json_t *entry)
{
    return json_pack("{s:s, s:f, s:o, s:o, s:o}", "period", jget_string(entry, "periodStart", ""),
                     "slot_hours", jget_double(entry, "seconds", 0) / HOUR_S, "users",
                     slot_hours_by(entry, "byUsername"), "labels",
                     slot_hours_by(entry, "byExperimentLabel"), "pools",
                     slot_hours_by(entry, "byResourcePool"));
}

// Tables omit the periods in which nothing ran.
static int usage_show(struct cli *c, const struct command *self, const char *path,
                      json_t *(*row)(const json_t *), struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "%s", path);
    if (!err) {
        json_t *rows = rows_of(jget(answer, "resourceEntries"), row);
        for (size_t i = json_array_size(rows); c->format == OUTPUT_TABLE && i-- > 0;) {
            const json_t *sum = json_object_get(json_array_get(rows, i), "slot_hours");
            if (sum && json_number_value(sum) <= 0)
                json_array_remove(rows, i);
        }
        err = output_rows(c, rows, self->columns, e);
        json_decref(rows);
    }
    json_decref(answer);
    return err;
}

int run_resources_raw(struct cli *c, const struct command *self, struct error *e)
{
    const char *since, *until;
    const char *from = c->options.from ? c->options.from : "30d";
    const char *to = c->options.until ? c->options.until : "0.001s";
    int err = cli_time(c, "--since", from, &since, e);
    err = err ? err : cli_time(c, "--until", to, &until, e);
    return err ? err
               : usage_show(c, self,
                            arena_printf(&c->arena, "/api/v1/resources/allocation/raw?%s%s",
                                         cli_query(c, "timestampAfter", since),
                                         cli_query(c, "timestampBefore", until)),
                            usage_row, e);
}

int run_resources_aggregated(struct cli *c, const struct command *self, struct error *e)
{
    const char *period = c->options.period ? c->options.period : "daily";
    bool monthly = strcmp(period, "monthly") == 0;
    const char *since, *until;
    if (!monthly && strcmp(period, "daily") != 0)
        return error_set(e, ERR_INVALID, "--period is daily or monthly, not \"%s\"", period);
    const char *from = c->options.from ? c->options.from : monthly ? "365d" : "30d";
    const char *to = c->options.until ? c->options.until : "0.001s";
    int err = cli_time(c, "--since", from, &since, e);
    err = err ? err : cli_time(c, "--until", to, &until, e);
    if (err)
        return err;
    int digits = monthly ? 7 : 10; // length of 2026-11 or 2026-11-21
    return usage_show(
        c, self,
        arena_printf(&c->arena,
                     "/api/v1/resources/allocation/aggregated?startDate=%.*s&endDate=%.*s&period="
                     "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_%s",
                     digits, since, digits, until, monthly ? "MONTHLY" : "DAILY"),
        usage_period_row, e);
}

// --- pools ---------------------------------------------------------------------------------------

static json_t *pool_row(const json_t *pool)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:s, s:b, s:s}", "name", jget_string(pool, "name", ""),
                     "agents", (json_int_t)jget_int(pool, "numAgents", 0), "slots",
                     (json_int_t)jget_int(pool, "slotsAvailable", 0), "used",
                     (json_int_t)jget_int(pool, "slotsUsed", 0), "scheduler",
                     jget_string(pool, "scheduler", jget_string(pool, "schedulerType", "")),
                     "default", jget_bool(pool, "defaultComputePool", false), "description",
                     jget_string(pool, "description", ""));
}

int run_pool_list(struct cli *c, const struct command *self, struct error *e)
{
    return output_list(c, self, "resourcePools", pool_row, e, "/api/v1/resource-pools");
}

// --- any call ------------------------------------------------------------------------------------

static int stdin_read(char **text, size_t *len, struct error *e)
{
    struct buf in;
    char block[1 << 16];
    ssize_t n;
    buf_init(&in, LIMIT_CONFIG * 64);
    while ((n = read(STDIN_FILENO, block, sizeof(block))) > 0)
        buf_append(&in, block, (size_t)n);
    if (n < 0 || in.err) {
        buf_free(&in);
        return error_set(e, ERR_INVALID,
                         "standard input cannot be read, or is larger than the limit for --body");
    }
    *len = in.len;
    *text = buf_take(&in);
    return 0;
}

static int api_body_read(const char *text, json_t **body, struct error *e)
{
    char *read = NULL;
    size_t len = text ? strlen(text) : 0;
    int err = 0;
    if (text && strcmp(text, "-") == 0)
        err = stdin_read(&read, &len, e);
    else if (text && *text == '@')
        err = file_read(text + 1, (size_t)LIMIT_CONFIG * 64, &read, &len, e);
    if (!err && text)
        err = json_parse(read ? read : text, len, "--body", body, e);
    free(read);
    return err;
}

int run_api(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *body = NULL, *answer = NULL;
    char *method = arena_strdup(&c->arena, c->args[0]);
    for (char *p = method; *p != '\0'; p++)
        *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    const char *path = c->args[1];
    path = *path == '/' ? path : arena_printf(&c->arena, "/api/v1/%s", path);
    int err = api_body_read(c->options.body, &body, e);
    err = err ? err : cli_call(c, method, body, &answer, e, "%s", path);
    if (!err) {
        json_dumpf(answer, stdout,
                   (c->format == OUTPUT_JSONL ? JSON_COMPACT : JSON_INDENT(2)) | JSON_ENCODE_ANY);
        putchar('\n');
    }
    json_decref(answer);
    json_decref(body);
    return err;
}
