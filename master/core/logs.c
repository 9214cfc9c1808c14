// Lines of logs, from agents (of what their tasks print) and from tasks. A line that carries its
// sender's count is stored once however often it comes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "master/core/handlers.h"
#include "master/core/lives.h"
#include "master/core/policies.h"

// Task ids are EXPERIMENT.TRIAL. Lines may come after the end, but not of what was deleted.
static bool task_is_known(struct core *c, const char *task)
{
    long long experiment, trial;
    char exact[TASK_ID];
    if (sscanf(task, "%lld.%lld", &experiment, &trial) != 2)
        return false;
    snprintf(exact, sizeof exact, "%lld.%lld", experiment, trial);
    return !strcmp(exact, task) && trial < c->next_trial && core_experiment_find(c, experiment);
}

// At most LIMIT_LOG_LINE bytes, without the line's end; cut at a whole UTF-8 character.
static char *line_text(const char *log)
{
    size_t len = strlen(log);
    while (len && (log[len - 1] == '\n' || log[len - 1] == '\r'))
        len--;
    size_t cut = len;
    if (len > LIMIT_LOG_LINE)
        for (cut = LIMIT_LOG_LINE; cut && (log[cut] & 0xc0) == 0x80;)
            cut--;
    if (cut == len)
        return xasprintf("%.*s", (int)len, log);
    return xasprintf("%.*s [cut: %zu bytes more]", (int)cut, log, len - cut);
}

static void store_line(struct core *c, const char *task, const json_t *line)
{
    const char *time = jget_string(line, "timestamp", NULL);
    const char *level = wire_word(WIRE_LOG_LEVEL, jget_string(line, "level", "INFO"));
    char *text = line_text(jget_string(line, "log", ""));
    int64_t at;
    if (!time || clock_parse(time, &at))
        at = c->wall;
    STORE(c, LOG_INSERT, "ssssiissssi", task, jget_string(line, "allocationId", ""),
          jget_string(line, "agentId", ""), jget_string(line, "containerId", ""),
          jget_int(line, "rankId", -1), at, level ? level : "INFO",
          jget_string(line, "stdtype", "stdout"), jget_string(line, "source", "task"), text,
          jget_int(line, "sequence", -1));
    policies_line(c, task, jget_string(line, "agentId", ""), text);
    free(text);
}

int core_task_logs(struct core *c, struct request *rq, struct error *e)
{
    struct allocation *a = NULL;
    const json_t *logs = jget(rq->body, "logs");
    size_t i;
    json_t *line;
    if (rq->principal.kind != PRINCIPAL_AGENT) {
        int err = core_caller(c, rq, &a, e);
        if (err)
            return err;
    }
    if (!json_is_array(logs))
        return error_set(e, ERR_INVALID, "logs: not a list of lines");
    if (json_array_size(logs) > LIMIT_LOGS_PER_POST)
        return error_set(e, ERR_TOO_LARGE, "logs: more than %d lines", LIMIT_LOGS_PER_POST);
    json_array_foreach(logs, i, line)
    {
        const char *task = jget_string(line, "taskId", a ? a->trial->task_id : "");
        if (a && strcmp(task, a->trial->task_id))
            return error_set(e, ERR_FORBIDDEN, "logs.%zu.taskId: this token is of task %s", i,
                             a->trial->task_id);
    }
    json_array_foreach(logs, i, line)
    {
        const char *task = jget_string(line, "taskId", a ? a->trial->task_id : "");
        if (!task_is_known(c, task))
            continue; // deleted meanwhile: nobody will ask for it
        store_line(c, task, line);
        core_tell_log(c, task);
    }
    return 0;
}
