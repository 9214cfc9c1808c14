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

struct watch {
    const struct slots *slots;
    const struct nvml *driver;
    struct notes *notes;
    void *events; // NULL: the driver cannot tell
    bool *lost;   // of each slot: told
    atomic_bool stop;
    pthread_t thread;
};

// --- faults --------------------------------------------------------------------------------------

static bool hits(const struct slot *slot, const struct nvml_event *event)
{
    unsigned nobody = (unsigned)SLOT_NO_INSTANCE;
    return slot->gpu.board == event->device &&
           (event->gpu_instance == nobody || slot->gpu.instance == nobody ||
            slot->gpu.instance == event->gpu_instance);
}

static void tell_event(struct watch *w, const struct nvml_event *event)
{
    long long xid = event->type & NVML_EVENT_XID_CRITICAL ? (long long)event->data
                                                          : (long long)XID_DOUBLE_BIT_ECC;
    for (size_t i = 0; i < w->slots->count; i++)
        if (hits(&w->slots->items[i], event))
            notes_fault(w->notes, i, xid);
}

static void tell_lost(struct watch *w, size_t slot)
{
    if (!w->lost[slot])
        notes_fault(w->notes, slot, XID_OFF_THE_BUS);
    w->lost[slot] = true;
}

static void wait_for_event(struct watch *w)
{
    struct nvml_event event = {0};
    int code = w->events ? w->driver->events_wait(w->events, &event, WAIT_MS) : -1;
    if (code == NVML_SUCCESS)
        tell_event(w, &event);
    else if (code != NVML_ERROR_TIMEOUT)
        clock_sleep_us(WAIT_MS * 1000); // it may fail at once, again and again
}

// --- use -----------------------------------------------------------------------------------------

// Names and units as Determined's profiler has them (percent, bytes), and three of our own (bytes,
// degrees Celsius, watts). What the driver does not know of this GPU is left out.
static json_t *sample_slot(struct watch *w, size_t i)
{
    const struct nvml *n = w->driver;
    const struct slot_gpu *gpu = &w->slots->items[i].gpu;
    struct nvml_memory memory;
    struct nvml_utilization utilization;
    unsigned value = 0;
    if (!gpu->device)
        return json_null();
    int code = n->memory(gpu->device, &memory);
    if (nvml_is_lost(code))
        tell_lost(w, i);
    if (code != NVML_SUCCESS)
        return json_null();
    json_t *use = json_pack("{s:I, s:I}", "gpu_free_memory", (json_int_t)memory.free,
                            "gpu_used_memory", (json_int_t)(memory.total - memory.free));
    if (n->utilization && n->utilization(gpu->device, &utilization) == NVML_SUCCESS)
        json_object_set_new(use, "gpu_util", json_integer(utilization.gpu));
    if (n->temperature && n->temperature(gpu->board, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
        json_object_set_new(use, "gpu_temperature", json_integer(value));
    if (n->power && n->power(gpu->board, &value) == NVML_SUCCESS)
        json_object_set_new(use, "gpu_power", json_real(value / 1000.0));
    return use;
}

static void sample(struct watch *w)
{
    char time[CLOCK_RFC3339_MAX];
    json_t *slots = json_array();
    for (size_t i = 0; i < w->slots->count; i++)
        must(json_array_append_new(slots, sample_slot(w, i)) == 0);
    notes_use(w->notes, json_pack("{s:s, s:s, s:o}", "group", "gpu", "time",
                                  clock_format(clock_wall_us(), time), "slots", slots));
}

// --- the thread ----------------------------------------------------------------------------------

static void *run(void *arg)
{
    struct watch *w = arg;
    int64_t sample_at = 0;
    while (!atomic_load(&w->stop)) {
        int64_t now = clock_mono_us();
        if (now >= sample_at) {
            sample_at = now + SAMPLE_US;
            sample(w);
        }
        wait_for_event(w);
    }
    return NULL;
}

// A GPU for which the driver does not tell is found lost by a sample, at the latest.
static void listen_for_events(struct watch *w)
{
    const struct nvml *n = w->driver;
    const unsigned long long both = NVML_EVENT_XID_CRITICAL | NVML_EVENT_DOUBLE_BIT_ECC;
    if (!n->events_new || !n->events_register || !n->events_wait || !n->events_free ||
        n->events_new(&w->events) != NVML_SUCCESS) {
        w->events = NULL;
        log_warn("the NVIDIA driver does not tell of faults", "slots=%zu", w->slots->count);
        return;
    }
    for (size_t i = 0; i < w->slots->count; i++) {
        void *board = w->slots->items[i].gpu.board;
        bool again = i > 0 && board == w->slots->items[i - 1].gpu.board; // another instance of it
        if (!board || again)
            continue;
        if (n->events_register(board, both, w->events) != NVML_SUCCESS && // without ECC memory
            n->events_register(board, NVML_EVENT_XID_CRITICAL, w->events) != NVML_SUCCESS)
            log_warn("the NVIDIA driver does not tell of faults", "slot=%zu", i);
    }
}

static void free_watch(struct watch *w)
{
    if (w->events)
        w->driver->events_free(w->events);
    free(w->lost);
    free(w);
}

int watch_start(const struct slots *slots, struct notes *notes, struct watch **out, struct error *e)
{
    struct watch *w = xcalloc(1, sizeof *w);
    w->slots = slots;
    w->driver = slots->driver;
    w->notes = notes;
    w->lost = xcalloc(slots->count, sizeof *w->lost);
    listen_for_events(w);
    int err = pthread_create(&w->thread, NULL, run, w);
    if (err) {
        free_watch(w);
        return error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
    }
    *out = w;
    return 0;
}

void watch_stop(struct watch *w)
{
    if (!w)
        return;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    free_watch(w);
}
