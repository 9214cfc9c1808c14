#include "agent/reports/report_shipper.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/reports/report_calls.h"
#include "agent/tasks/taskdir.h"
#include "api/http/client.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/json.h"

// The task's token ends with the allocation: then nothing can be reported any more. So a refused
// token is permanent, other than for log lines.
static bool is_permanent(int code)
{
    return code == ERR_INVALID || code == ERR_AUTH || code == ERR_FORBIDDEN ||
           code == ERR_NOT_FOUND || code == ERR_METHOD || code == ERR_CONFLICT ||
           code == ERR_TOO_LARGE;
}

static bool is_power_of_ten(int64_t n)
{
    while (n >= 10 && n % 10 == 0)
        n /= 10;
    return n == 1;
}

// Writes to the task's log, as the agent, because the supervisor owns the log spool.
static void log_line(const struct shipment *s, const char *text)
{
    char time[CLOCK_RFC3339_MAX];
    json_t *body = json_pack("{s:s, s:s, s:s, s:[{s:s, s:s, s:s, s:s, s:s}]}", "taskId",
                             jget_string(s->spec, "taskId", ""), "allocationId", s->id, "agentId",
                             jget_string(s->spec, "agentId", ""), "logs", "timestamp",
                             clock_format(clock_wall_us(), time), "level", "LOG_LEVEL_WARNING",
                             "stdtype", "stderr", "source", "agent", "log", text);
    client_set_token(s->client, CLIENT_BEARER, s->master->token);
    if (client_call(s->client, "POST", "/api/v1/task/logs", body, NULL, NULL) != 0)
        log_debug("the line is not in the task's log", "alloc=%s", s->id);
    json_decref(body);
}

// Returns the name of a report that the program counts on, for the log; NULL: another report.
static const char *name_of(const struct report_call *call)
{
    return strstr(call->path, "/early_exit")             ? "an early exit"
           : json_string_value(jget(call->body, "uuid")) ? "a checkpoint"
                                                         : NULL;
}

// Tells of each checkpoint and early exit, and of another report if it is the first, the tenth, the
// hundredth that is refused.
static void log_refusal(const struct shipment *s, const struct report_call *call,
                        const struct error *why)
{
    char quoted[ERROR_TEXT_MAX];
    const char *name = name_of(call);
    ++*s->refused;
    if (!name && !is_power_of_ten(*s->refused))
        return;
    log_warn("the master refuses reports", "alloc=%s count=%" PRId64 " err=%s", s->id, *s->refused,
             log_quote(quoted, sizeof quoted, why->text));
    char *text = xasprintf("the master refuses %s of this program (number %" PRId64 " so far): %s",
                           name ? name : "a report", *s->refused, why->text);
    log_line(s, text);
    free(text);
}

static void log_total(const struct shipment *s)
{
    if (*s->refused < 2)
        return; // log_refusal() has told of the only one
    char *text =
        xasprintf("the master has refused %" PRId64 " reports of this program", *s->refused);
    log_line(s, text);
    free(text);
}

// The master replaces all metadata of a run. A change that a user makes between the two calls is
// lost.
static int merge_metadata(const struct shipment *s, const struct report_call *call, struct error *e)
{
    json_t *answer = NULL;
    int err = client_call(s->client, "GET", call->path, NULL, &answer, e);
    if (!err) {
        json_t *all =
            jget(answer, "metadata") ? json_deep_copy(jget(answer, "metadata")) : json_object();
        json_deep_merge(all, jget(call->body, "metadata"));
        json_t *body = json_pack("{s:o}", "metadata", all);
        err = client_call(s->client, "POST", call->path, body, NULL, e);
        json_decref(body);
    }
    json_decref(answer);
    return err;
}

static int make_call(const struct shipment *s, const struct report_call *call, struct error *e)
{
    client_set_token(s->client, CLIENT_TASK,
                     jget_string(jget(s->spec, "env"), "DET_SESSION_TOKEN", ""));
    int err = call->merges ? merge_metadata(s, call, e)
                           : client_call(s->client, "POST", call->path, call->body, NULL, e);
    // A second early exit is refused: it was reported already.
    bool repeated = err == ERR_INVALID && strstr(call->path, "/early_exit");
    return repeated ? 0 : err;
}

static int64_t env_number(const json_t *spec, const char *name)
{
    return strtoll(jget_string(jget(spec, "env"), name, "0"), NULL, 10);
}

static int send_reports(const struct shipment *s, const json_t *reports, bool patient,
                        struct error *e);

bool report_patience_over(int64_t *since, bool failed, int64_t now)
{
    if (!failed || *since == 0)
        *since = failed ? now : 0;
    return failed && now - *since >= REPORT_PATIENCE_US;
}

// Returns whether the master refuses this call for good. It looks for the content of media in the
// checkpoint storage, so it may fail with them alone for ever, and the reports behind them must not
// wait so long. Any other call fails only with all of the master, which will work again.
static bool is_refused(const struct shipment *s, const struct report_call *call, int err,
                       bool patient)
{
    if (!call->reads_storage || is_permanent(err))
        return is_permanent(err);
    bool failed = err && err != ERR_FULL && client_status(s->client) >= 500;
    return patient ? report_patience_over(s->failing_since, failed, clock_mono_us()) : failed;
}

static int send_part(const struct shipment *s, const json_t *lines, size_t from, size_t to,
                     bool patient, struct error *e)
{
    json_t *part = json_array();
    for (size_t i = from; i < to; i++)
        must(json_array_append(part, json_array_get(lines, i)) == 0);
    int err = send_reports(s, part, patient, e);
    json_decref(part);
    return err;
}

// Divides a refused call that carries several lines into halves, so that a bad line is found with
// few calls and the good ones are stored. A refusal of the trial or of the token concerns all lines
// alike.
static int send_call(const struct shipment *s, const struct report_call *call, bool patient,
                     struct error *e)
{
    struct error why = {0};
    int err = make_call(s, call, &why);
    size_t count = json_array_size(call->lines);
    bool of_all = err == ERR_AUTH || err == ERR_FORBIDDEN || err == ERR_NOT_FOUND;
    if (!is_refused(s, call, err, patient))
        return err ? error_set(e, err, "%s", why.text) : 0;
    if (count == 1 || of_all) {
        log_refusal(s, call, &why);
        return 0;
    }
    patient = patient && is_permanent(err);
    err = send_part(s, call->lines, 0, count / 2, patient, e);
    return err ? err : send_part(s, call->lines, count / 2, count, patient, e);
}

// `patient`: a call that fails with the master's storage may be sent again later.
static int send_reports(const struct shipment *s, const json_t *reports, bool patient,
                        struct error *e)
{
    const struct reporting_trial target = {
        .trial = env_number(s->spec, "DET_TRIAL_ID"),
        .run = env_number(s->spec, "DET_TRIAL_RUN_ID"),
        .task = jget_string(s->spec, "taskId", ""),
        .allocation = s->id,
    };
    struct report_calls calls;
    int err = 0;
    report_calls_make(&target, reports, &calls);
    for (size_t i = 0; i < calls.count && !err; i++)
        err = send_call(s, &calls.items[i], patient, e);
    report_calls_free(&calls);
    return err;
}

static int send_lines(const struct shipment *s, struct error *e)
{
    json_t *reports = json_array(), *line;
    size_t i;
    json_array_foreach(s->lines, i, line)
    {
        if (jget(line, "report"))
            must(json_array_append(reports, jget(line, "report")) == 0);
    }
    int err = send_reports(s, reports, true, e);
    json_decref(reports);
    return err;
}

const struct shipper_kind report_shipper = {
    .noun = "reports",
    .spool = TASKDIR_REPORT_SPOOL,
    .cursor = TASKDIR_REPORT_CURSOR,
    .shipped = INBOX_REPORTED,
    .send = send_lines,
    .finish = log_total,
};
