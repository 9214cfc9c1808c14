#include "cli/output/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "api/exit_reason.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/output/failure.h"
#include "cli/output/wait_reason.h"

static void set_string(json_t *row, const char *key, const char *text)
{
    json_object_set_new(row, key, text ? json_string(text) : json_null());
}

static void set_copy(json_t *row, const char *key, const json_t *value)
{
    json_object_set_new(row, key, value ? json_deep_copy(value) : json_null());
}

static const char *plain_state(enum wire_names table, const json_t *object)
{
    const char *name = jget_string(object, "state", "");
    const char *word = wire_word(table, name);
    return word ? word : name;
}

const char *row_state(enum wire_names table, const json_t *object)
{
    const char *word = plain_state(table, object);
    bool holds = jget_int(object, "liveAllocations", 0) > 0;
    return strcmp(word, "PAUSED") == 0 && holds ? "PAUSING" : word;
}

// Sets "reason", and "failure": the error cut to BRIEF characters for tables.
static void set_reason(json_t *row, const char *reason, bool failed)
{
    enum { BRIEF = 60 };
    size_t n = 0, at = 0;
    const char *error = exit_reason_error(reason);
    for (; failed && error[at] != '\0' && n < BRIEF;
         n += ((unsigned char)error[++at] & 0xC0) != 0x80)
        ;
    char *brief = xasprintf("%.*s%s", (int)at, error, n == BRIEF ? ".." : "");
    set_string(row, "reason", reason);
    set_string(row, "failure", brief);
    free(brief);
}

// Sets a duration as text under `name`, and in seconds under `name`_s. NULL: it is not known.
static void set_duration(json_t *row, const char *name, const json_t *seconds)
{
    char text[32], key[32];
    if (!json_is_number(seconds))
        return;
    double value = json_number_value(seconds);
    snprintf(key, sizeof(key), "%s_s", name);
    set_string(row, name, duration_format((int64_t)(value * 1e6), text, sizeof(text)));
    json_object_set_new(row, key, json_real(value));
}

// Sets "ran" and "waited" of one start: queued, placed, ended; what has not happened lasts until
// now.
static void set_start_times(json_t *row, const json_t *start)
{
    const char *queued = jget_string(start, "queuedTime", NULL);
    const char *placed = jget_string(start, "startTime", NULL);
    const char *ended = jget_string(start, "endTime", NULL);
    int64_t from, begin, end = clock_wall_us();
    if (!queued || clock_parse(queued, &from) != 0 || (ended && clock_parse(ended, &end) != 0))
        return;
    bool ran = placed && clock_parse(placed, &begin) == 0;
    json_t *waited = json_real((double)((ran ? begin : end) - from) / 1e6);
    json_t *run = ran ? json_real((double)(end - begin) / 1e6) : NULL;
    set_duration(row, "waited", waited);
    set_duration(row, "ran", run);
    json_decref(waited);
    json_decref(run);
}

// Sets "started", "ended", "duration" (text) and "duration_s", until now if it has not ended. The
// duration includes waiting and pauses.
static void set_times(json_t *row, const json_t *object)
{
    const char *start = jget_string(object, "startTime", NULL);
    const char *end = jget_string(object, "endTime", NULL);
    int64_t from, to = clock_wall_us();
    set_string(row, "started", start);
    set_string(row, "ended", end);
    if (start && clock_parse(start, &from) == 0 && (!end || clock_parse(end, &to) == 0)) {
        char text[32];
        set_string(row, "duration", duration_format(to - from, text, sizeof(text)));
        json_object_set_new(row, "duration_s", json_real((double)(to - from) / 1e6));
    }
}

static void set_progress(json_t *row, const json_t *object)
{
    double progress = jget_double(object, "progress", 0);
    char text[16];
    snprintf(text, sizeof(text), "%.0f%%", progress * 100);
    json_object_set_new(row, "progress", json_real(progress));
    set_string(row, "percent", text);
}

json_t *row_experiment(const json_t *experiment)
{
    json_t *row = json_object();
    json_object_set_new(row, "id", json_integer(jget_int(experiment, "id", 0)));
    set_string(row, "name", jget_string(experiment, "name", ""));
    set_string(row, "state", row_state(WIRE_EXPERIMENT_STATE, experiment));
    set_reason(row, failure_reason(experiment), true);
    set_progress(row, experiment);
    set_times(row, experiment);
    set_duration(row, "ran", jget(experiment, "ranSeconds"));
    set_duration(row, "waited", jget(experiment, "waitedSeconds"));
    set_string(row, "user", jget_string(experiment, "username", ""));
    json_object_set_new(row, "trials", json_integer(jget_int(experiment, "numTrials", 0)));
    set_string(row, "searcher", jget_string(experiment, "searcherType", ""));
    set_copy(row, "labels", jget(experiment, "labels"));
    set_copy(row, "metric", jget(experiment, "bestTrialSearcherMetric"));
    set_string(row, "pool", jget_string(experiment, "resourcePool", ""));
    set_string(row, "project", jget_string(experiment, "projectName", ""));
    set_string(row, "workspace", jget_string(experiment, "workspaceName", ""));
    json_object_set_new(row, "archived", json_boolean(jget_bool(experiment, "archived", false)));
    return row;
}

// A generic task has its own state "taskState", because it can be paused.
json_t *row_task(const json_t *task)
{
    static const char prefix[] = "GENERIC_TASK_STATE_";
    json_t *row = json_object();
    const char *state = jget_string(task, "taskState", NULL);
    set_string(row, "id", jget_string(task, "id", ""));
    set_string(row, "state",
               state && strncmp(state, prefix, sizeof(prefix) - 1) == 0
                   ? state + sizeof(prefix) - 1
                   : plain_state(WIRE_ALLOCATION_STATE, task));
    set_string(row, "name", jget_string(task, "description", NULL));
    set_copy(row, "exit", jget(task, "exitCode"));
    set_string(row, "exit_status", jget_string(task, "exitStatus", NULL));
    set_string(row, "user", jget_string(task, "username", NULL));
    set_string(row, "pool", jget_string(task, "resourcePool", NULL));
    set_times(row, task);
    set_string(row, "parent", jget_string(task, "parentId", NULL));
    set_string(row, "forked_from", jget_string(task, "forkedFrom", NULL));
    return row;
}

const char *searcher_metric(const json_t *config)
{
    const char *metric = json_string_value(jget_path(config, "searcher.metric"));
    return metric ? metric : "";
}

static const json_t *average_metrics(const json_t *report)
{
    return jget_path(report, "metrics.avgMetrics");
}

// The checkpoint from which the trial began, and the trial of the same search that saved it.
static void set_source(json_t *row, const json_t *trial)
{
    const char *uuid = jget_string(trial, "warmStartCheckpointUuid", NULL);
    int64_t of = jget_int(trial, "sourceTrialId", 0);
    char *text = uuid && of ? xasprintf("checkpoint %s of trial %" PRId64, uuid, of)
                 : uuid     ? xasprintf("checkpoint %s", uuid)
                 : of       ? xasprintf("trial %" PRId64 ", which had no checkpoint", of)
                            : NULL;
    set_string(row, "source", text);
    free(text);
}

json_t *row_trial(const json_t *trial, const json_t *config)
{
    json_t *row = json_object();
    const char *metric = searcher_metric(config);
    json_object_set_new(row, "id", json_integer(jget_int(trial, "id", 0)));
    json_object_set_new(row, "experiment", json_integer(jget_int(trial, "experimentId", 0)));
    set_string(row, "state", row_state(WIRE_TRIAL_STATE, trial));
    set_reason(row, jget_string(trial, "exitReason", ""),
               strcmp(plain_state(WIRE_TRIAL_STATE, trial), "COMPLETED") != 0);
    set_string(row, "last_words", jget_string(trial, "lastWords", ""));
    json_object_set_new(row, "steps", json_integer(jget_int(trial, "totalBatchesProcessed", 0)));
    set_copy(row, "latest",
             json_object_get(average_metrics(jget(trial, "latestValidation")), metric));
    set_copy(row, "best", json_object_get(average_metrics(jget(trial, "bestValidation")), metric));
    json_object_set_new(row, "restarts", json_integer(jget_int(trial, "restarts", 0)));
    set_times(row, trial);
    set_duration(row, "ran", jget(trial, "wallClockTime"));
    set_duration(row, "waited", jget(trial, "waitedSeconds"));
    set_copy(row, "hparams", jget(trial, "hparams"));
    set_string(row, "runner", jget_string(trial, "runnerState", NULL));
    set_source(row, trial);
    return row;
}

static int64_t total_size(const json_t *resources)
{
    int64_t total = 0;
    const char *key;
    json_t *size;
    json_object_foreach((json_t *)resources, key, size)
    {
        total += jget_int(resources, key, 0);
    }
    return total;
}

json_t *row_checkpoint(const json_t *checkpoint, const char *metric)
{
    json_t *row = json_object();
    const json_t *training = jget(checkpoint, "training");
    const char *uuid = jget_string(checkpoint, "uuid", "");
    set_string(row, "uuid", uuid);
    json_object_set_new(row, "experiment", json_integer(jget_int(training, "experimentId", 0)));
    json_object_set_new(row, "trial", json_integer(jget_int(training, "trialId", 0)));
    json_object_set_new(row, "steps",
                        json_integer(jget_int(jget(checkpoint, "metadata"), "steps_completed", 0)));
    set_string(row, "state", plain_state(WIRE_CHECKPOINT_STATE, checkpoint));
    json_object_set_new(row, "size", json_integer(total_size(jget(checkpoint, "resources"))));
    set_string(row, "reported", jget_string(checkpoint, "reportTime", NULL));
    if (metric) {
        set_copy(row, "metric",
                 json_object_get(jget_path(training, "validationMetrics.avgMetrics"), metric));
    }
    char *folder = NULL;
    const json_t *storage = jget_path(training, "experimentConfig.checkpoint_storage");
    bool visible = checkpoint_folder(storage, uuid, &folder, NULL) == 0 && path_exists(folder);
    set_string(row, "path", visible ? folder : NULL);
    free(folder);
    return row;
}

// Appends numbers in rank order: "0-3", "0,2,1".
static void append_numbers(struct buf *out, const json_t *numbers)
{
    size_t count = json_array_size(numbers);
    for (size_t i = 0, end; i < count; i = end) {
        json_int_t first = json_integer_value(json_array_get(numbers, i)), last = first;
        for (end = i + 1; end < count; end++, last++)
            if (json_integer_value(json_array_get(numbers, end)) != last + 1)
                break;
        buf_printf(out, "%s%lld", i > 0 ? "," : "", (long long)first);
        if (last > first)
            buf_printf(out, "-%lld", (long long)last);
    }
}

// Appends "gpu-1 slots 0-3 (one NVLink group)".
static void append_part(struct buf *out, const json_t *part)
{
    static const char *const words[][2] = {{"nvlink", " (one NVLink group)"},
                                           {"numa", " (one NUMA node)"},
                                           {"apart", " (no group had room for all)"}};
    const json_t *slots = jget(part, "slots");
    size_t count = json_array_size(slots);
    buf_printf(out, "%s%s", jget_string(part, "agent", ""),
               count > 1 ? " slots " : (count ? " slot " : ""));
    append_numbers(out, slots);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], jget_string(part, "near", "")) == 0)
            buf_puts(out, words[i][1]);
}

// Sets "placed": the slots on each agent, and how they are connected.
static void set_placed(json_t *row, const json_t *parts)
{
    size_t i;
    json_t *part;
    struct buf text;
    buf_init(&text, LIMIT_BODY_SMALL);
    json_array_foreach(parts, i, part)
    {
        buf_puts(&text, i > 0 ? "; " : "");
        append_part(&text, part);
    }
    set_string(row, "placed", buf_str(&text));
    buf_free(&text);
}

json_t *row_start(const json_t *start)
{
    json_t *row = json_object();
    json_object_set_new(row, "epoch", json_integer(jget_int(start, "epoch", 0)));
    set_string(row, "state", plain_state(WIRE_ALLOCATION_STATE, start));
    json_object_set_new(row, "slots", json_integer(jget_int(start, "slots", 0)));
    set_copy(row, "agents", jget(start, "agents"));
    set_placed(row, jget(start, "parts"));
    set_times(row, start);
    set_start_times(row, start);
    set_string(row, "reason", jget_string(start, "reason", ""));
    return row;
}

static int64_t slots_in_use(const json_t *slots)
{
    int64_t used = 0;
    const char *key;
    json_t *slot;
    json_object_foreach((json_t *)slots, key, slot)
    {
        used += jget(slot, "container") != NULL;
    }
    return used;
}

// Whether a fault takes the slot out of use.
static bool has_fault(const json_t *slot)
{
    const json_t *fault = jget(slot, "fault");
    return fault && strcmp(jget_string(fault, "grade", ""), "noted") != 0 &&
           !jget_bool(fault, "overruled", false);
}

static int64_t slots_with_faults(const json_t *slots)
{
    int64_t count = 0;
    const char *key;
    json_t *slot;
    json_object_foreach((json_t *)slots, key, slot)
    {
        count += has_fault(slot);
    }
    return count;
}

// Sets "health": the reason of the slot's fault, or "".
static void set_health(json_t *row, const json_t *slot)
{
    const json_t *fault = jget(slot, "fault");
    const char *reason = jget_string(fault, "reason", "");
    char *text =
        xasprintf("%s%s", reason, jget_bool(fault, "overruled", false) ? " (overruled)" : "");
    set_string(row, "health", text);
    free(text);
}

// Sets "near": the slot's NVLink group and NUMA node, "nvlink 0, node 0".
static void set_near(json_t *row, const json_t *device)
{
    int64_t link = jget_int(device, "nvlinkGroup", -1), node = jget_int(device, "numaGroup", -1);
    char text[64] = "";
    if (link >= 0)
        snprintf(text, sizeof(text), "nvlink %lld%s", (long long)link, node >= 0 ? ", " : "");
    if (node >= 0)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "node %lld", (long long)node);
    set_string(row, "near", text);
}

// Sets "load": the reported load of a GPU ("40 %, 1.0 of 80 GiB, 61 C, 250 W"), or "".
static void set_load(json_t *row, const json_t *slot)
{
    const json_t *use = jget(slot, "use");
    double total = jget_double(jget(slot, "device"), "memory", 0);
    struct buf text;
    buf_init(&text, LIMIT_BODY_SMALL);
    if (jget(use, "gpu_util"))
        buf_printf(&text, "%.0f %%, ", jget_double(use, "gpu_util", 0));
    if (jget(use, "gpu_free_memory"))
        buf_printf(&text, "%.1f of %.0f GiB, ",
                   (total - jget_double(use, "gpu_free_memory", 0)) / (1 << 30), total / (1 << 30));
    if (jget(use, "gpu_temperature"))
        buf_printf(&text, "%.0f C, ", jget_double(use, "gpu_temperature", 0));
    if (jget(use, "gpu_power"))
        buf_printf(&text, "%.0f W, ", jget_double(use, "gpu_power", 0));
    char *words = buf_take(&text);
    if (words && *words)
        words[strlen(words) - 2] = '\0'; // the last ", "
    set_string(row, "load", words ? words : "");
    free(words);
}

json_t *row_agent(const json_t *agent)
{
    json_t *row = json_object();
    const json_t *slots = jget(agent, "slots");
    set_string(row, "id", jget_string(agent, "id", ""));
    set_string(row, "version", jget_string(agent, "version", ""));
    json_object_set_new(row, "slots", json_integer((json_int_t)json_object_size(slots)));
    json_object_set_new(row, "used", json_integer(slots_in_use(slots)));
    json_object_set_new(row, "connected", json_boolean(jget_bool(agent, "connected", true)));
    json_object_set_new(row, "lost", json_boolean(jget_bool(agent, "lost", false)));
    set_string(row, "seen", jget_string(agent, "lastSeen", NULL));
    json_object_set_new(row, "enabled", json_boolean(jget_bool(agent, "enabled", true)));
    json_object_set_new(row, "draining", json_boolean(jget_bool(agent, "draining", false)));
    json_object_set_new(row, "faults", json_integer(slots_with_faults(slots)));
    const json_t *pools = jget(agent, "resourcePools");
    set_string(row, "pool", json_string_value(json_array_get(pools, 0)));
    set_string(row, "registered", jget_string(agent, "registeredTime", NULL));
    return row;
}

json_t *row_slot(const json_t *agent, const json_t *slot)
{
    json_t *row = json_object();
    const json_t *device = jget(slot, "device");
    const char *type = wire_word(WIRE_DEVICE_TYPE, jget_string(device, "type", ""));
    set_string(row, "agent", jget_string(agent, "id", ""));
    set_string(row, "slot", jget_string(slot, "id", ""));
    set_string(row, "type", type ? type : "");
    set_string(row, "device", jget_string(device, "brand", ""));
    set_string(row, "uuid", jget_string(device, "uuid", ""));
    set_copy(row, "memory", jget(device, "memory"));
    set_string(row, "bus", jget_string(device, "pciBusId", NULL));
    set_string(row, "driver", jget_string(device, "driver", NULL));
    set_near(row, device);
    set_copy(row, "use", jget(slot, "use"));
    set_load(row, slot);
    set_health(row, slot);
    json_object_set_new(row, "enabled", json_boolean(jget_bool(slot, "enabled", true)));
    const json_t *container = jget(slot, "container");
    set_string(row, "allocation", jget_string(container, "allocationId", NULL));
    return row;
}

static void copy_numbers(json_t *row, const json_t *from, const char *const names[][2])
{
    for (; (*names)[0]; names++) {
        json_t *value = jget(from, (*names)[1]);
        json_object_set_new(row, (*names)[0], value ? json_incref(value) : json_null());
    }
}

json_t *row_team(const json_t *workspace)
{
    static const char *const numbers[][2] = {{"id", "id"},
                                             {"weight", "weight"},
                                             {"guaranteed", "guaranteedSlots"},
                                             {"max_slots", "maxSlots"},
                                             {"members", "numMembers"},
                                             {"projects", "numProjects"},
                                             {"experiments", "numExperiments"},
                                             {NULL, NULL}};
    json_t *row = json_object();
    copy_numbers(row, workspace, numbers);
    set_string(row, "name", jget_string(workspace, "name", ""));
    set_string(row, "owner", jget_string(workspace, "username", ""));
    set_string(row, "default_role", jget_string(workspace, "defaultRole", ""));
    json_object_set_new(row, "archived", json_boolean(jget_bool(workspace, "archived", false)));
    return row;
}

json_t *row_member(const json_t *member)
{
    static const char *const numbers[][2] = {
        {"id", "userId"}, {"weight", "weight"}, {"max_slots", "maxSlots"}, {NULL, NULL}};
    json_t *row = json_object();
    const char *role = jget_string(member, "role", "");
    copy_numbers(row, member, numbers);
    set_string(row, "user", jget_string(member, "username", ""));
    set_string(row, "role", *role != '\0' ? role : "default");
    return row;
}

static double round_to_tenths(double hours)
{
    return round(hours * 10) / 10;
}

json_t *row_share(const json_t *share)
{
    static const char *const numbers[][2] = {{"weight", "weight"},
                                             {"guaranteed", "guaranteedSlots"},
                                             {"max_slots", "maxSlots"},
                                             {"used", "usedSlots"},
                                             {"wanted", "wantedSlots"},
                                             {"entitled", "entitledSlots"},
                                             {"waiting", "waitingJobs"},
                                             {"running", "runningJobs"},
                                             {NULL, NULL}};
    json_t *row = json_object();
    const char *workspace = jget_string(share, "workspaceName", "");
    bool of_user = jget(share, "userId") != NULL;
    const char *user = of_user ? jget_string(share, "username", "") : NULL;
    set_string(row, "team", of_user ? user : *workspace ? workspace : "(hidden)");
    set_string(row, "workspace", workspace);
    set_string(row, "user", user);
    set_string(row, "pool", jget_string(share, "resourcePool", ""));
    copy_numbers(row, share, numbers);
    json_object_set_new(row, "usage",
                        json_real(round_to_tenths(jget_double(share, "usageSlotHours", 0))));
    json_object_set_new(row, "debt",
                        json_real(round_to_tenths(jget_double(share, "debtSlotHours", 0))));
    return row;
}

// Sets "waits" (text) and "waits_s", the time since submission.
static void set_waiting_time(json_t *row, const json_t *full, int64_t now)
{
    char text[32];
    int64_t from;
    const char *since = jget_string(full, "submissionTime", NULL);
    if (since && clock_parse(since, &from) == 0) {
        set_string(row, "waits", duration_format(now - from, text, sizeof(text)));
        json_object_set_new(row, "waits_s", json_real((double)(now - from) / 1e6));
    }
}

json_t *row_job(const json_t *job)
{
    const json_t *full = jget(job, "full");
    full = full ? full : jget(job, "limited"); // of a workspace that the caller does not see
    const json_t *summary = jget(full, "summary");
    const char *state = jget_string(summary, "state", "");
    const char *start = jget_string(full, "estimatedStart", NULL);
    int64_t held = jget_int(full, "allocatedSlots", 0),
            wanted = jget_int(full, "requestedSlots", 0);
    int64_t now = clock_wall_us();
    char slots[48], until[WAITING_UNTIL_MAX];
    snprintf(slots, sizeof(slots), "%lld/%lld", (long long)held, (long long)wanted);
    json_t *row = json_object();
    json_object_set_new(row, "place", json_integer(jget_int(full, "place", 0)));
    set_string(row, "id", jget_string(full, "entityId", ""));
    set_string(row, "name", jget_string(full, "name", ""));
    set_string(row, "user", jget_string(full, "username", ""));
    set_string(row, "pool", jget_string(full, "resourcePool", ""));
    set_string(row, "state", strncmp(state, "STATE_", 6) == 0 ? state + 6 : state);
    json_object_set_new(row, "priority", json_integer(jget_int(full, "priority", 0)));
    json_object_set_new(row, "weight", json_real(jget_double(full, "weight", 1)));
    set_string(row, "slots", slots);
    json_object_set_new(row, "held", json_integer(held));
    json_object_set_new(row, "wanted", json_integer(wanted));
    set_string(row, "waits", NULL);
    json_object_set_new(row, "waits_s", json_null());
    if (strcmp(state, "STATE_QUEUED") == 0)
        set_waiting_time(row, full, now);
    set_string(row, "start", waiting_until(start, now, until));
    set_string(row, "estimated_start", start);
    set_string(row, "code", jget_string(full, "reasonCode", ""));
    set_string(row, "reason", jget_string(full, "reason", ""));
    return row;
}

json_t *row_metrics(const json_t *report, const char *group)
{
    json_t *row = json_object();
    const json_t *values = jget(report, "metrics");
    const json_t *average = jget(values, "avgMetrics");
    values = average ? average : values;
    set_string(row, "group", group);
    json_object_set_new(row, "steps", json_integer(jget_int(report, "totalBatches", 0)));
    set_string(row, "time", jget_string(report, "endTime", NULL));
    set_copy(row, "metrics", values);
    return row;
}

json_t *rows_of(const json_t *list, json_t *(*row)(const json_t *))
{
    json_t *rows = json_array();
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        json_array_append_new(rows, row(item));
    }
    return rows;
}
