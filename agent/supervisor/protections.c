#include "agent/supervisor/protections.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"

static const char *const names[PROTECTION_COUNT] = {
    [PROTECTION_ACCOUNT] = "account",           [PROTECTION_FILES] = "files",
    [PROTECTION_PROCESSES] = "processes",       [PROTECTION_TEMPORARY] = "temporary",
    [PROTECTION_DEVICES] = "devices",           [PROTECTION_PRIVILEGES] = "privileges",
    [PROTECTION_SYSTEM_CALLS] = "system_calls", [PROTECTION_PROCESS_LIMIT] = "process_limit",
    [PROTECTION_MEMORY_LIMIT] = "memory_limit", [PROTECTION_PROCESSOR_SHARE] = "processor_share",
};

const char *protection_name(enum protection_id id)
{
    return names[id];
}

void protections_set(struct protections *p, enum protection_id id, const char *reason)
{
    p->list[id].active = !reason;
    snprintf(p->list[id].reason, sizeof p->list[id].reason, "%s", reason ? reason : "");
}

json_t *protections_json(const struct protections *p)
{
    json_t *list = json_array();
    for (enum protection_id id = 0; id < PROTECTION_COUNT; id++)
        must(json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", names[id], "active",
                                                   (int)p->list[id].active, "reason",
                                                   p->list[id].reason)) == 0);
    return list;
}

void protections_log(const struct protections *p, const char *agent_id)
{
    struct buf active, missing;
    char quoted[2 * ERROR_TEXT_MAX];
    buf_init(&active, ERROR_TEXT_MAX);
    buf_init(&missing, 64 * 1024);
    for (enum protection_id id = 0; id < PROTECTION_COUNT; id++) {
        const struct protection *one = &p->list[id];
        if (one->active)
            buf_printf(&active, "%s%s", active.len ? "," : "", names[id]);
        else
            buf_printf(&missing, "%s%s: %s", missing.len ? "; " : "", names[id], one->reason);
    }
    const char *none = active.len ? buf_str(&active) : "none";
    if (missing.len)
        log_warn("tasks lack protections", "agent=%s active=%s missing=%s", agent_id, none,
                 log_quote(quoted, sizeof quoted, buf_str(&missing)));
    else
        log_info("tasks have all protections", "agent=%s active=%s", agent_id, none);
    buf_free(&missing);
    buf_free(&active);
}
