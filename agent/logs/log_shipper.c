#include "agent/logs/log_shipper.h"

#include "agent/tasks/taskdir.h"
#include "api/wire.h"
#include "base/log.h"
#include "base/text/json.h"

static json_t *request_line(const json_t *line)
{
    const char *rank_id = jget(line, "rank") ? "rankId" : NULL;
    json_t *out = json_pack("{s:O, s:s, s:O, s:O, s:O, s:O}", "timestamp", jget(line, "timestamp"),
                            "level", wire_name(WIRE_LOG_LEVEL, jget_string(line, "level", "INFO")),
                            "stdtype", jget(line, "stdtype"), "source", jget(line, "source"), "log",
                            jget(line, "log"), "sequence", jget(line, "sequence"));
    if (out && rank_id)
        json_object_set(out, rank_id, jget(line, "rank"));
    return out;
}

// Sends the fields that all lines share once.
static int post_lines(const struct shipment *s, struct error *e)
{
    json_t *logs = json_array();
    size_t i;
    json_t *line;
    json_array_foreach(s->lines, i, line)
    {
        json_t *one = request_line(line); // NULL: a damaged line
        if (one)
            json_array_append_new(logs, one);
    }
    json_t *body =
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "taskId", jget_string(s->spec, "taskId", ""),
                  "allocationId", s->id, "agentId", jget_string(s->spec, "agentId", ""),
                  "containerId", jget_string(s->spec, "containerId", s->id), "logs", logs);
    int err = client_call(s->client, "POST", "/api/v1/task/logs", body, NULL, e);
    json_decref(body);
    return err;
}

// A refused token is not permanent here, as it is for reports: log lines go out with the token of
// the agent, which outlives the task, and its owner can replace it.
static bool is_permanent(int code)
{
    return code == ERR_INVALID || code == ERR_NOT_FOUND || code == ERR_CONFLICT ||
           code == ERR_TOO_LARGE;
}

// Lines that the master refuses permanently (of a task that it does not know) are skipped.
static int send_lines(const struct shipment *s, struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    struct error why = {0};
    int err = post_lines(s, &why);
    if (!is_permanent(err))
        return err ? error_set(e, err, "%s", why.text) : 0;
    log_warn("the master refuses log lines; skipping them", "alloc=%s lines=%zu err=%s", s->id,
             json_array_size(s->lines), log_quote(quoted, sizeof quoted, why.text));
    return 0;
}

const struct shipper_kind log_shipper = {
    .noun = "log lines",
    .spool = TASKDIR_SPOOL,
    .cursor = TASKDIR_CURSOR,
    .shipped = INBOX_SHIPPED,
    .send = send_lines,
};
