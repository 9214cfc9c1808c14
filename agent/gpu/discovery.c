// GPUs as slots. One that is lost when the agent starts is a slot out of use: the others keep their
// numbers, and nobody takes a GPU machine for one with CPU slots.
#include <stdio.h>
#include <stdlib.h>

#include "agent/gpu/nvml.h"
#include "agent/slots.h"
#include "base/arena.h"
#include "base/limits.h"

static struct slot *add_slot(struct slots *s)
{
    s->items = xrealloc(s->items, (s->count + 1) * sizeof *s->items);
    struct slot *slot = &s->items[s->count++];
    *slot =
        (struct slot){.gpu = {.nvlink = -1, .numa = -1, .instance = (unsigned)SLOT_NO_INSTANCE}};
    return slot;
}

static void add_lost(struct slots *s, unsigned index)
{
    struct slot *slot = add_slot(s);
    snprintf(slot->name, sizeof slot->name, "GPU %u, lost", index);
    snprintf(slot->uuid, sizeof slot->uuid, "lost-%u", index);
    slot_strike(slot,
                &(struct slot_fault){
                    .grade = FAULT_ENDS,
                    .reason = "the driver has lost the GPU; reset it, or restart the machine"});
}

static void read_health(const struct nvml *n, struct slot *slot)
{
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    if (!n->remapped || n->remapped(slot->gpu.board, &corrected, &uncorrected, &pending, &failed))
        return; // an older GPU, or one that is cut into instances
    if (failed)
        slot_strike(slot, &(struct slot_fault){
                              .grade = FAULT_DRAINS,
                              .reason = "a faulty memory row could not be replaced; have the GPU "
                                        "replaced"});
    else if (pending)
        slot_strike(slot, &(struct slot_fault){
                              .grade = FAULT_NOTED,
                              .reason = "a faulty memory row is to be replaced at the next reset "
                                        "of the GPU"});
}

static int describe(struct slots *s, void *board, void *device, struct slot **out)
{
    const struct nvml *n = s->driver;
    struct nvml_memory memory = {0};
    struct nvml_pci pci = {0};
    struct slot *slot = add_slot(s);
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
    read_health(n, slot);
    *out = slot;
    return code;
}

static bool is_cut(const struct nvml *n, void *board)
{
    unsigned current = 0, pending = 0;
    return n->mig_mode && n->mig_count && n->mig_by_index &&
           n->mig_mode(board, &current, &pending) == NVML_SUCCESS && current == 1;
}

// Numbers that no instance has answer NOT_FOUND.
static int add_instances(struct slots *s, void *board)
{
    const struct nvml *n = s->driver;
    unsigned most = 0;
    int code = n->mig_count(board, &most);
    for (unsigned i = 0; i < most && code == NVML_SUCCESS; i++) {
        void *instance = NULL;
        struct slot *slot;
        if (n->mig_by_index(board, i, &instance) != NVML_SUCCESS)
            continue;
        code = describe(s, board, instance, &slot);
        if (n->mig_gpu_instance)
            n->mig_gpu_instance(instance, &slot->gpu.instance);
    }
    return code;
}

static int add_gpu(struct slots *s, unsigned index, struct error *e)
{
    const struct nvml *n = s->driver;
    void *board = NULL;
    struct slot *slot;
    size_t before = s->count;
    int code = n->by_index(index, &board);
    if (code == NVML_SUCCESS)
        code = is_cut(n, board) ? add_instances(s, board) : describe(s, board, board, &slot);
    if (code == NVML_SUCCESS)
        return 0;
    if (!nvml_is_lost(code)) {
        char what[32];
        snprintf(what, sizeof what, "describe GPU %u", index);
        return nvml_explain(n, what, code, e);
    }
    s->count = before; // what it has said before its end is not worth a slot
    add_lost(s, index);
    return 0;
}

// --- which lie near each other -------------------------------------------------------------------

static bool linked(const struct nvml *n, void *one, void *other)
{
    int status = -1;
    return n->p2p && n->p2p(one, other, NVML_P2P_CAPS_INDEX_NVLINK, &status) == NVML_SUCCESS &&
           status == NVML_P2P_STATUS_OK;
}

static bool neighbours(const struct nvml *n, void *one, void *other)
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
            link[i * count + k] = apart && linked(s->driver, one, other);
            node[i * count + k] =
                one && (one == other || (apart && neighbours(s->driver, one, other)));
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

static int find(struct slots *s, struct error *e)
{
    unsigned count = 0;
    int rc = 0, code = s->driver->count(&count);
    if (code != NVML_SUCCESS)
        return nvml_explain(s->driver, "count the GPUs", code, e);
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the NVIDIA driver finds no GPU");
    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = add_gpu(s, i, e);
    if (rc != 0)
        return rc;
    if (s->count == 0)
        return error_set(e, ERR_INVALID,
                         "MIG mode is on and no GPU has an instance; make some with "
                         "nvidia-smi mig -cgi PROFILES -C, or switch MIG off");
    if (s->count > LIMIT_SLOTS_PER_AGENT)
        return error_set(e, ERR_TOO_LARGE, "%zu GPUs; an agent may have %d slots", s->count,
                         LIMIT_SLOTS_PER_AGENT);
    group_slots(s);
    return 0;
}

int slots_find_gpus(struct slots *s, const char *library, struct error *e)
{
    *s = (struct slots){.cuda = true};
    int rc = nvml_open(library, &s->driver, e);
    if (rc == 0)
        rc = find(s, e);
    if (rc != 0)
        slots_free(s);
    return rc;
}
