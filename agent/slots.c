#include "agent/slots.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"

static long long usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? online : 1;
}

static void cpu_model(char *out, size_t cap)
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

static void find_cpu_shares(struct slots *s, long long count)
{
    char model[128];
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    cpu_model(model, sizeof model);
    s->count = (size_t)count;
    s->items = xcalloc(s->count, sizeof *s->items);
    for (size_t i = 0; i < s->count; i++) {
        struct slot *slot = &s->items[i];
        snprintf(slot->name, sizeof slot->name, "%s", model);
        snprintf(slot->uuid, sizeof slot->uuid, "cpu-%zu", i);
        slot->memory = memory / (int64_t)count;
    }
}

int slots_find(struct slots *s, long long cpu_slots, bool gpus, struct error *e)
{
    *s = (struct slots){0};
    if (cpu_slots == 0 && gpus) {
        int rc = slots_find_gpus(s, "libnvidia-ml.so.1", e);
        if (rc != ERR_NOT_FOUND)
            return rc;
    }
    if (cpu_slots == 0)
        cpu_slots = usable_cores();
    find_cpu_shares(s, cpu_slots < LIMIT_SLOTS_PER_AGENT ? cpu_slots : LIMIT_SLOTS_PER_AGENT);
    return 0;
}

void slots_free(struct slots *s)
{
    free(s->items);
    *s = (struct slots){0};
}

json_t *slots_json(const struct slots *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++) {
        const struct slot *slot = &s->items[i];
        json_t *one = json_pack("{s:I, s:s, s:s, s:s, s:I}", "id", (json_int_t)i, "type",
                                s->cuda ? "CUDA" : "CPU", "name", slot->name, "uuid", slot->uuid,
                                "memory", (json_int_t)slot->memory);
        must(one != NULL && json_array_append_new(list, one) == 0);
    }
    return list;
}
