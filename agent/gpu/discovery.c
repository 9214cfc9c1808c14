// Finds the GPUs and makes slots of them. A GPU that is lost when the agent starts still becomes a
// slot, with a fault, so that the other slots keep their numbers and a GPU machine does not turn
// into one with CPU slots.
#include <stdio.h>
#include <stdlib.h>

#include "agent/gpu/nvml.h"
#include "agent/slots.h"
#include "base/arena.h"
#include "base/limits.h"

static struct agent_slot *add_slot(struct slots *s)
{
    s->items = xrealloc(s->items, (s->count + 1) * sizeof *s->items);
    struct agent_slot *slot = &s->items[s->count++];
    *slot = (struct agent_slot){
        .gpu = {.nvlink = -1, .numa = -1, .instance = (unsigned)SLOT_NO_INSTANCE}};
    return slot;
}

static void add_lost_gpu(struct slots *s, unsigned index)
{
    struct agent_slot *slot = add_slot(s);
    snprintf(slot->name, sizeof slot->name, "GPU %u, lost", index);
    snprintf(slot->uuid, sizeof slot->uuid, "lost-%u", index);
    slot_report_fault(
        slot, &(struct slot_fault){
                  .grade = FAULT_ENDS,
                  .reason = "the driver has lost the GPU; reset it, or restart the machine"});
}

static void read_row_remapping(const struct nvml *n, struct agent_slot *slot)
{
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    if (!n->remapped || n->remapped(slot->gpu.board, &corrected, &uncorrected, &pending, &failed))
        return; // an older GPU, or one in MIG mode
    if (failed)
        slot_report_fault(slot,
                          &(struct slot_fault){
                              .grade = FAULT_DRAINS,
                              .reason = "a faulty memory row could not be replaced; have the GPU "
                                        "replaced"});
    else if (pending)
        slot_report_fault(slot,
                          &(struct slot_fault){
                              .grade = FAULT_NOTED,
                              .reason = "the next reset of the GPU replaces a faulty memory row"});
}

static int add_device(struct slots *s, void *board, void *device, struct agent_slot **out)
{
    const struct nvml *n = s->driver;
    struct nvml_memory memory = {0};
    struct nvml_pci pci = {0};
    struct agent_slot *slot = add_slot(s);
    slot->gpu.device = device;
    slot->gpu.board = board;
    int code = n->name(device, slot->name, sizeof slot->name);
    if (code == NVML_SUCCESS)
        code = n->uuid(device, slot->uuid, sizeof slot->uuid);
    if (code == NVML_SUCCESS)
        code = n->memory(device, &memory);
    slot->memory = (int64_t)memory.total;
    if (n->pci && n->pci(board, &pci) == NVML_SUCCESS)
        snprintf(slot->gpu.bus_id, sizeof slot->gpu.bus_id, "%s", pci.bus_id);
    if (n->driver_version)
        n->driver_version(slot->gpu.driver, sizeof slot->gpu.driver);
    read_row_remapping(n, slot);
    *out = slot;
    return code;
}

static bool in_mig_mode(const struct nvml *n, void *board)
{
    unsigned current = 0, pending = 0;
    return n->mig_mode && n->mig_count && n->mig_by_index &&
           n->mig_mode(board, &current, &pending) == NVML_SUCCESS && current == 1;
}

// The instances may have any indexes below the limit; NVML reports NOT_FOUND for the others.
static int add_instances(struct slots *s, void *board)
{
    const struct nvml *n = s->driver;
    unsigned limit = 0;
    int code = n->mig_count(board, &limit);
    for (unsigned i = 0; i < limit && code == NVML_SUCCESS; i++) {
        void *instance = NULL;
        struct agent_slot *slot;
        if (n->mig_by_index(board, i, &instance) != NVML_SUCCESS)
            continue;
        code = add_device(s, board, instance, &slot);
        if (n->mig_gpu_instance)
            n->mig_gpu_instance(instance, &slot->gpu.instance);
    }
    return code;
}

static int add_gpu(struct slots *s, unsigned index, struct error *e)
{
    const struct nvml *n = s->driver;
    void *board = NULL;
    struct agent_slot *slot;
    size_t before = s->count;
    int code = n->by_index(index, &board);
    if (code == NVML_SUCCESS)
        code = in_mig_mode(n, board) ? add_instances(s, board) : add_device(s, board, board, &slot);
    if (code == NVML_SUCCESS)
        return 0;
    if (!nvml_is_lost(code)) {
        char what[32];
        snprintf(what, sizeof what, "query GPU %u", index);
        return nvml_explain(n, what, code, e);
    }
    s->count = before; // drops the slots of a GPU that was lost meanwhile
    add_lost_gpu(s, index);
    return 0;
}

// --- nearness ------------------------------------------------------------------------------------

static bool have_nvlink(const struct nvml *n, void *one, void *other)
{
    int status = -1;
    return n->p2p && n->p2p(one, other, NVML_P2P_CAPS_INDEX_NVLINK, &status) == NVML_SUCCESS &&
           status == NVML_P2P_STATUS_OK;
}

static bool share_numa_node(const struct nvml *n, void *one, void *other)
{
    int level = NVML_TOPOLOGY_NODE + 1;
    return n->ancestor && n->ancestor(one, other, &level) == NVML_SUCCESS &&
           level <= NVML_TOPOLOGY_NODE;
}

static void group_slots(struct slots *s)
{
    size_t count = s->count;
    bool *link = xcalloc(count * count, sizeof *link), *node = xcalloc(count * count, sizeof *node);
    int *links = xcalloc(count, sizeof *links), *nodes = xcalloc(count, sizeof *nodes);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            void *one = s->items[i].gpu.board, *other = s->items[k].gpu.board;
            bool apart = one && other && one != other;
            link[i * count + k] = apart && have_nvlink(s->driver, one, other);
            node[i * count + k] =
                one && (one == other || (apart && share_numa_node(s->driver, one, other)));
        }
    slots_group(link, count, links);
    slots_group(node, count, nodes);
    for (size_t i = 0; i < count; i++) {
        s->items[i].gpu.nvlink = links[i];
        s->items[i].gpu.numa = nodes[i];
    }
    free(nodes);
    free(links);
    free(node);
    free(link);
}

static int find_gpus(struct slots *s, struct error *e)
{
    unsigned count = 0;
    int err = 0, code = s->driver->count(&count);
    if (code != NVML_SUCCESS)
        return nvml_explain(s->driver, "count the GPUs", code, e);
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the NVIDIA driver finds no GPU");
    for (unsigned i = 0; i < count && !err; i++)
        err = add_gpu(s, i, e);
    if (err)
        return err;
    if (s->count == 0)
        return error_set(e, ERR_INVALID,
                         "MIG mode is on, but no GPU has an instance; create instances with "
                         "nvidia-smi mig -cgi PROFILES -C, or switch MIG mode off");
    if (s->count > LIMIT_SLOTS_PER_AGENT)
        return error_set(e, ERR_TOO_LARGE, "%zu GPUs; an agent may have %d slots", s->count,
                         LIMIT_SLOTS_PER_AGENT);
    group_slots(s);
    return 0;
}

int slots_find_gpus(struct slots *s, const char *library, struct error *e)
{
    *s = (struct slots){.cuda = true};
    int err = nvml_open(library, &s->driver, e);
    if (!err)
        err = find_gpus(s, e);
    if (err)
        slots_free(s);
    return err;
}
