#include "trainer/comm/comm.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "trainer/comm/backend.h"
#include "trainer/ops/device.h"

#ifdef MUSTER_CUDA
#define BACKEND_NAMES "gpu and nccl" // the other backends are for host memory
static const struct comm_backend *const backends[] = {&comm_gpu_backend, &comm_nccl_backend};
#else
#define BACKEND_NAMES "self, shm and net"
static const struct comm_backend *const backends[] = {&comm_self_backend, &comm_shm_backend,
                                                      &comm_net_backend};
#endif

const struct comm_backend *comm_host_backend(const json_t *peers)
{
    for (int i = 1; i < (int)json_array_size(peers); i++)
        if (!comm_same_machine(peers, 0, i))
            return &comm_net_backend;
    return peers ? &comm_shm_backend : &comm_self_backend;
}

static const char *fitting_backend(const json_t *peers)
{
#ifdef MUSTER_CUDA
    return peers ? "nccl" : "gpu";
#else
    return comm_host_backend(peers)->name;
#endif
}

static const struct comm_backend *find_backend(const struct comm_config *config,
                                               const json_t *peers, struct error *e)
{
    const char *name = config->backend ? config->backend : fitting_backend(peers);
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    error_set(e, ERR_INVALID, "no communication backend is called \"%s\"; there are " BACKEND_NAMES,
              name);
    return NULL;
}

int comm_open(const struct comm_config *config, struct comm **out, struct error *e)
{
    must(config->world > 0 && config->rank >= 0 && config->rank < config->world);
    struct comm_config copy = *config;
    copy.arena_bytes = comm_padded(config->arena_bytes);
    if (!copy.timeout_us)
        copy.timeout_us = 600 * INT64_C(1000000);
    json_t *peers = NULL;
    int err = config->world > 1 ? comm_rendezvous(&copy, &peers, e) : 0;
    const struct comm_backend *backend = err ? NULL : find_backend(&copy, peers, e);
    if (!backend)
        err = err ? err : ERR_INVALID;
    else
        err = backend->open(&copy, peers, out, e);
    json_decref(peers);
    if (err)
        return err;
    (*out)->backend = backend;
    return 0;
}

void comm_close(struct comm *c)
{
    if (c)
        c->backend->close(c);
}

int comm_rank(const struct comm *c)
{
    return c->rank;
}

int comm_world(const struct comm *c)
{
    return c->world;
}

const char *comm_backend_name(const struct comm *c)
{
    return c->backend->name;
}

const char *comm_library(char *out, size_t cap)
{
#ifdef MUSTER_CUDA
    return comm_nccl_version(out, cap);
#else
    snprintf(out, cap, "%s", "");
    return out;
#endif
}

int64_t comm_background_us(const struct comm *c)
{
    return atomic_load(&c->background_us);
}

size_t comm_padded(size_t bytes)
{
    return (bytes + COMM_ALIGN - 1) / COMM_ALIGN * COMM_ALIGN;
}

void *comm_alloc(struct comm *c, size_t bytes)
{
    size_t padded = comm_padded(bytes);
    must(padded <= c->arena_bytes - c->arena_used);
    void *p = c->arena + c->arena_used;
    c->arena_used += padded;
    return p;
}

size_t comm_type_bytes(enum comm_type type)
{
    return type == COMM_INT64 ? sizeof(int64_t) : sizeof(int32_t);
}

struct comm_part comm_part(size_t count, size_t unit, int world, int rank)
{
    must(unit > 0 && rank >= 0 && rank < world);
    size_t units = (count + unit - 1) / unit, r = (size_t)rank;
    size_t each = units / (size_t)world, more = units % (size_t)world;
    size_t first = (each * r + (r < more ? r : more)) * unit;
    size_t last = first + (each + (r < more)) * unit;
    return (struct comm_part){first < count ? first : count, last < count ? last : count};
}

int comm_start(struct comm *c, const struct comm_work *w, uint32_t *ticket, struct error *e)
{
    must(w->kind == COMM_ALL_REDUCE || w->unit > 0);
    if (w->count > 0) {
        size_t at = (size_t)((char *)w->data - c->arena);
        must((char *)w->data >= c->arena &&
             at + w->count * comm_type_bytes(w->type) <= c->arena_used);
    }
    return c->backend->start(c, w, ticket, e);
}

int comm_wait(struct comm *c, uint32_t ticket, struct error *e)
{
    return c->backend->wait(c, ticket, e);
}

int comm_run(struct comm *c, const struct comm_work *work, struct error *e)
{
    uint32_t ticket = 0;
    int err = comm_start(c, work, &ticket, e);
    return err ? err : comm_wait(c, ticket, e);
}

int comm_all_reduce(struct comm *c, void *data, size_t count, enum comm_type type, enum comm_op op,
                    struct error *e)
{
    const struct comm_work work = {
        .kind = COMM_ALL_REDUCE, .type = type, .op = op, .data = data, .count = count};
    return comm_run(c, &work, e);
}

int comm_barrier(struct comm *c, struct error *e)
{
    return comm_all_reduce(c, NULL, 0, COMM_INT32, COMM_SUM, e);
}

int comm_synchronize(struct comm *c, struct error *e)
{
    int err = c->backend->synchronize ? c->backend->synchronize(c, e) : 0;
    return err ? err : ops_synchronize(e);
}

int comm_broadcast(struct comm *c, void *data, size_t bytes, int root, struct error *e)
{
    must(root >= 0 && root < c->world);
    return c->backend->broadcast(c, data, bytes, root, e);
}

void comm_abort(struct comm *c, const char *why)
{
    c->backend->abort(c, why);
}
