#include "agent/gpu/gpu_monitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "agent/gpu/nvml.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/json.h"

enum {
    WAIT_MS = 500,
    SAMPLE_US = 10 * 1000 * 1000,
};

struct gpu_monitor {
    const struct slots *slots;
    const struct nvml *driver;
    struct inbox *inbox;
    void *events; // NVML event set; NULL: the driver has no events
    bool *lost;   // for each slot: its loss was reported
    atomic_bool stop;
    pthread_t thread;
};

// --- faults --------------------------------------------------------------------------------------

static bool event_affects(const struct agent_slot *slot, const struct nvml_event *event)
{
    unsigned any = (unsigned)SLOT_NO_INSTANCE;
    return slot->gpu.board == event->device &&
           (event->gpu_instance == any || slot->gpu.instance == any ||
            slot->gpu.instance == event->gpu_instance);
}

static void report_event(struct gpu_monitor *m, const struct nvml_event *event)
{
    long long xid = event->type & NVML_EVENT_XID_CRITICAL ? (long long)event->data
                                                          : (long long)XID_DOUBLE_BIT_ECC;
    for (size_t i = 0; i < m->slots->count; i++)
        if (event_affects(&m->slots->items[i], event))
            inbox_send_fault(m->inbox, i, xid);
}

static void report_lost(struct gpu_monitor *m, size_t slot)
{
    if (!m->lost[slot])
        inbox_send_fault(m->inbox, slot, XID_OFF_THE_BUS);
    m->lost[slot] = true;
}

static void wait_for_event(struct gpu_monitor *m)
{
    struct nvml_event event = {0};
    int code = m->events ? m->driver->events_wait(m->events, &event, WAIT_MS) : -1;
    if (code == NVML_SUCCESS)
        report_event(m, &event);
    else if (code != NVML_ERROR_TIMEOUT)
        clock_sleep_us(WAIT_MS * 1000); // the call may keep failing at once
}

// --- usage ---------------------------------------------------------------------------------------

// gpu_util (percent) and gpu_free_memory (bytes) have the names of Determined's profiler;
// gpu_used_memory (bytes), gpu_temperature (degrees Celsius) and gpu_power (watts) are additional.
// Leaves out values that the driver does not report for this GPU.
static json_t *sample_slot(struct gpu_monitor *m, size_t i)
{
    const struct nvml *n = m->driver;
    const struct slot_gpu *gpu = &m->slots->items[i].gpu;
    struct nvml_memory memory;
    struct nvml_utilization utilization;
    unsigned value = 0;
    if (!gpu->device)
        return json_null();
    int code = n->memory(gpu->device, &memory);
    if (nvml_is_lost(code))
        report_lost(m, i);
    if (code != NVML_SUCCESS)
        return json_null();
    json_t *usage = json_pack("{s:I, s:I}", "gpu_free_memory", (json_int_t)memory.free,
                              "gpu_used_memory", (json_int_t)(memory.total - memory.free));
    if (n->utilization && n->utilization(gpu->device, &utilization) == NVML_SUCCESS)
        json_object_set_new(usage, "gpu_util", json_integer(utilization.gpu));
    if (n->temperature && n->temperature(gpu->board, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
        json_object_set_new(usage, "gpu_temperature", json_integer(value));
    if (n->power && n->power(gpu->board, &value) == NVML_SUCCESS)
        json_object_set_new(usage, "gpu_power", json_real(value / 1000.0));
    return usage;
}

static void sample_slots(struct gpu_monitor *m)
{
    char time[CLOCK_RFC3339_MAX];
    json_t *slots = json_array();
    for (size_t i = 0; i < m->slots->count; i++)
        must(json_array_append_new(slots, sample_slot(m, i)) == 0);
    inbox_send_usage(m->inbox, json_pack("{s:s, s:s, s:o}", "group", "gpu", "time",
                                         clock_format(clock_wall_us(), time), "slots", slots));
}

// --- the thread ----------------------------------------------------------------------------------

static void *monitor_thread(void *arg)
{
    struct gpu_monitor *m = arg;
    int64_t sample_at = 0;
    while (!atomic_load(&m->stop)) {
        int64_t now = clock_mono_us();
        if (now >= sample_at) {
            sample_at = now + SAMPLE_US;
            sample_slots(m);
        }
        wait_for_event(m);
    }
    return NULL;
}

// If the driver reports no events, a sample still detects a lost GPU.
static void register_events(struct gpu_monitor *m)
{
    const struct nvml *n = m->driver;
    const unsigned long long both = NVML_EVENT_XID_CRITICAL | NVML_EVENT_DOUBLE_BIT_ECC;
    if (!n->events_new || !n->events_register || !n->events_wait || !n->events_free ||
        n->events_new(&m->events) != NVML_SUCCESS) {
        m->events = NULL;
        log_warn("the NVIDIA driver does not report faults", "slots=%zu", m->slots->count);
        return;
    }
    for (size_t i = 0; i < m->slots->count; i++) {
        void *board = m->slots->items[i].gpu.board;
        // The slots of a GPU in MIG mode follow each other.
        bool registered = i > 0 && board == m->slots->items[i - 1].gpu.board;
        if (!board || registered)
            continue;
        // The first call fails without ECC memory.
        if (n->events_register(board, both, m->events) != NVML_SUCCESS &&
            n->events_register(board, NVML_EVENT_XID_CRITICAL, m->events) != NVML_SUCCESS)
            log_warn("the NVIDIA driver does not report faults", "slot=%zu", i);
    }
}

static void monitor_free(struct gpu_monitor *m)
{
    if (m->events)
        m->driver->events_free(m->events);
    free(m->lost);
    free(m);
}

int gpu_monitor_start(const struct slots *slots, struct inbox *inbox, struct gpu_monitor **out,
                      struct error *e)
{
    struct gpu_monitor *m = xcalloc(1, sizeof *m);
    m->slots = slots;
    m->driver = slots->driver;
    m->inbox = inbox;
    m->lost = xcalloc(slots->count, sizeof *m->lost);
    register_events(m);
    int err = pthread_create(&m->thread, NULL, monitor_thread, m);
    if (err) {
        monitor_free(m);
        return error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
    }
    *out = m;
    return 0;
}

void gpu_monitor_stop(struct gpu_monitor *m)
{
    if (!m)
        return;
    atomic_store(&m->stop, true);
    pthread_join(m->thread, NULL);
    monitor_free(m);
}
