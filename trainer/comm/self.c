// Backends `self` and `gpu`: a world of one rank, on the host or on a GPU. Every operation is done
// when it starts.
#include <stdatomic.h>
#include <stdlib.h>

#include "base/arena.h"
#include "trainer/comm/backend.h"
#include "trainer/ops/device.h"

struct self_comm {
    struct comm base;
    atomic_bool aborted;
};

static int open_single(const struct comm_config *config, void *arena, struct comm **out,
                       struct error *e)
{
    if (!arena)
        return error_set(e, ERR_NO_MEMORY, "no memory for %zu MiB of weights and gradients",
                         config->arena_bytes >> 20);
    struct self_comm *s = xcalloc(1, sizeof *s);
    s->base = (struct comm){.world = 1, .arena = arena, .arena_bytes = config->arena_bytes};
    *out = &s->base;
    return 0;
}

static int refuse_many(const struct comm_config *config, const char *name, struct error *e)
{
    if (config->world == 1)
        return 0;
    return error_set(e, ERR_INVALID, "the backend \"%s\" is for one rank, not for %d", name,
                     config->world);
}

static int self_open(const struct comm_config *config, const json_t *peers, struct comm **out,
                     struct error *e)
{
    (void)peers;
    int err = refuse_many(config, "self", e);
    return err ? err : open_single(config, block_alloc(config->arena_bytes), out, e);
}

static void self_close(struct comm *c)
{
    free(c->arena);
    free(c);
}

static int self_check(struct comm *c, struct error *e)
{
    if (atomic_load(&((struct self_comm *)c)->aborted))
        return error_set(e, ERR_PEER, "rank 0 gave up");
    return 0;
}

static int self_start(struct comm *c, const struct comm_work *work, uint32_t *ticket,
                      struct error *e)
{
    (void)work;
    *ticket = 0;
    return self_check(c, e);
}

static int self_wait(struct comm *c, uint32_t ticket, struct error *e)
{
    (void)ticket;
    return self_check(c, e);
}

static int self_broadcast(struct comm *c, void *data, size_t bytes, int root, struct error *e)
{
    (void)data, (void)bytes, (void)root;
    return self_check(c, e);
}

static void self_abort(struct comm *c, const char *why)
{
    (void)why;
    atomic_store(&((struct self_comm *)c)->aborted, true);
}

const struct comm_backend comm_self_backend = {
    .name = "self",
    .open = self_open,
    .close = self_close,
    .start = self_start,
    .wait = self_wait,
    .broadcast = self_broadcast,
    .abort = self_abort,
};

#ifdef MUSTER_CUDA
static int gpu_open(const struct comm_config *config, const json_t *peers, struct comm **out,
                    struct error *e)
{
    void *arena = NULL;
    (void)peers;
    int err = refuse_many(config, "gpu", e);
    if (!err)
        err = ops_alloc(config->arena_bytes, &arena, e);
    return err ? err : open_single(config, arena, out, e);
}

static void gpu_close(struct comm *c)
{
    ops_free(c->arena);
    free(c);
}

const struct comm_backend comm_gpu_backend = {
    .name = "gpu",
    .open = gpu_open,
    .close = gpu_close,
    .start = self_start,
    .wait = self_wait,
    .broadcast = self_broadcast,
    .abort = self_abort,
};
#endif
