#include "agent/slots.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/gpu/nvml.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"

enum { REPEATED_FAULT_US = 60 * 1000 * 1000 };

static long long usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? online : 1;
}

static void read_cpu_model(char *out, size_t cap)
{
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(out, cap, "CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && value) {
            value += 1 + strspn(value + 1, " ");
            snprintf(out, cap, "%.*s", (int)strcspn(value, "\n"), value);
            break;
        }
    }
    if (f)
        fclose(f);
}

static void make_cpu_slots(struct slots *s, long long count)
{
    char model[128];
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    read_cpu_model(model, sizeof model);
    s->count = (size_t)count;
    s->items = xcalloc(s->count, sizeof *s->items);
    for (size_t i = 0; i < s->count; i++) {
        struct agent_slot *slot = &s->items[i];
        snprintf(slot->name, sizeof slot->name, "%s", model);
        snprintf(slot->uuid, sizeof slot->uuid, "cpu-%zu", i);
        slot->memory = memory / (int64_t)count;
    }
}

int slots_find(struct slots *s, long long cpu_slots, bool gpus, struct error *e)
{
    *s = (struct slots){0};
    if (cpu_slots == 0 && gpus) {
        int err = slots_find_gpus(s, "libnvidia-ml.so.1", e);
        if (err != ERR_NOT_FOUND)
            return err;
    }
    if (cpu_slots == 0)
        cpu_slots = usable_cores();
    make_cpu_slots(s, cpu_slots < LIMIT_SLOTS_PER_AGENT ? cpu_slots : LIMIT_SLOTS_PER_AGENT);
    return 0;
}

void slots_free(struct slots *s)
{
    nvml_close(s->driver);
    free(s->items);
    *s = (struct slots){0};
}

// --- faults --------------------------------------------------------------------------------------

bool slot_report_fault(struct agent_slot *slot, const struct slot_fault *fault)
{
    const struct slot_fault *old = &slot->fault;
    bool same = old->grade == fault->grade && strcmp(old->reason, fault->reason) == 0;
    if (fault->grade < old->grade || (same && fault->at < old->at + REPEATED_FAULT_US))
        return false;
    slot->fault = *fault;
    return true;
}

bool slot_report_xid(struct agent_slot *slot, long long xid, int64_t wall)
{
    struct slot_fault fault = {.at = wall};
    const char *text = xid_describe(xid, &fault.grade);
    snprintf(fault.reason, sizeof fault.reason, "Xid %lld, %s", xid, text);
    return slot_report_fault(slot, &fault);
}

// --- nearness ------------------------------------------------------------------------------------

static void mark_group(const bool *near, size_t count, size_t from, int number, int *group)
{
    group[from] = number;
    for (size_t i = 0; i < count; i++)
        if (group[i] < 0 && i != from && near[from * count + i])
            mark_group(near, count, i, number, group);
}

void slots_group(const bool *near, size_t count, int *group)
{
    int next = 0;
    for (size_t i = 0; i < count; i++)
        group[i] = -1;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count && group[i] < 0; k++)
            if (k != i && near[i * count + k])
                mark_group(near, count, i, next++, group);
}

// --- JSON ----------------------------------------------------------------------------------------

static void set_member(json_t *to, const char *key, json_t *value)
{
    must(json_object_set_new(to, key, value) == 0);
}

static void add_gpu_fields(json_t *to, const struct slot_gpu *gpu)
{
    if (gpu->bus_id[0])
        set_member(to, "pciBusId", json_string(gpu->bus_id));
    if (gpu->driver[0])
        set_member(to, "driver", json_string(gpu->driver));
    if (gpu->nvlink >= 0)
        set_member(to, "nvlinkGroup", json_integer(gpu->nvlink));
    if (gpu->numa >= 0)
        set_member(to, "numaGroup", json_integer(gpu->numa));
}

static json_t *fault_json(const struct slot_fault *fault)
{
    char time[CLOCK_RFC3339_MAX];
    json_t *json =
        json_pack("{s:s, s:s}", "grade", fault_grade_names[fault->grade], "reason", fault->reason);
    if (fault->at)
        set_member(json, "time", json_string(clock_format(fault->at, time)));
    return json;
}

json_t *slots_json(const struct slots *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++) {
        const struct agent_slot *slot = &s->items[i];
        json_t *one = json_pack("{s:I, s:s, s:s, s:s, s:I}", "id", (json_int_t)i, "type",
                                s->cuda ? "CUDA" : "CPU", "name", slot->name, "uuid", slot->uuid,
                                "memory", (json_int_t)slot->memory);
        must(one && json_array_append_new(list, one) == 0);
        if (s->cuda)
            add_gpu_fields(one, &slot->gpu);
        if (slot->fault.grade != FAULT_NONE)
            set_member(one, "fault", fault_json(&slot->fault));
    }
    return list;
}
