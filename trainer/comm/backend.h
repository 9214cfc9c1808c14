// The interface between comm.c and the backends. Internal to comm/.
#ifndef MUSTER_TRAINER_COMM_BACKEND_H
#define MUSTER_TRAINER_COMM_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "trainer/comm/comm.h"

struct comm {
    const struct comm_backend *backend;
    int rank, world;
    char *arena; // zeroed memory of arena_bytes, owned by the backend
    size_t arena_used, arena_bytes;
    _Atomic int64_t background_us; // comm_background_us(), updated by the backend
};

// `peers` is the result of comm_rendezvous(), NULL for a world of one.
// `close` frees the object; a backend extends struct comm as its first member. An all-reduce with a
// count of 0 is a barrier. `work` is borrowed for the call. `synchronize` waits until the results
// that were waited for exist in memory (NULL: they exist when `wait` returns).
struct comm_backend {
    const char *name;
    int (*open)(const struct comm_config *config, const json_t *peers, struct comm **out,
                struct error *e);
    void (*close)(struct comm *c);
    int (*start)(struct comm *c, const struct comm_work *work, uint32_t *ticket, struct error *e);
    int (*wait)(struct comm *c, uint32_t ticket, struct error *e);
    int (*synchronize)(struct comm *c, struct error *e);
    int (*broadcast)(struct comm *c, void *data, size_t bytes, int root, struct error *e);
    void (*abort)(struct comm *c, const char *why);
};

extern const struct comm_backend comm_self_backend;
extern const struct comm_backend comm_shm_backend;
extern const struct comm_backend comm_net_backend;
#ifdef MUSTER_CUDA
extern const struct comm_backend comm_gpu_backend;
extern const struct comm_backend comm_nccl_backend;
const char *comm_nccl_version(char *out, size_t cap);
#endif

// The backend for ranks whose buffers are in host memory.
const struct comm_backend *comm_host_backend(const json_t *peers);

// Collective. Exchanges the identities of the ranks: a new array of objects by rank with "rank",
// "host", "machine" (equal for ranks that can share memory), "pid", "start" (see comm_start_time).
// The caller frees the array, also after an error.
int comm_rendezvous(const struct comm_config *config, json_t **peers, struct error *e);
bool comm_same_machine(const json_t *peers, int a, int b);

// The time at which a process started, in clock ticks after boot (proc(5), stat, field 22); 0: no
// such process.
uint64_t comm_start_time(pid_t pid);

// Calls the configured rendezvous and checks the number of answers.
int comm_rendezvous_gather(const struct comm_config *config, const json_t *mine, json_t **all,
                           struct error *e);

size_t comm_type_bytes(enum comm_type type);

// Combines elements [first, last) of all buffers in `from`, in their order, into `into`, which may
// be one of them.
void comm_reduce_local(char *const *from, int count, char *into, size_t first, size_t last,
                       enum comm_type type, enum comm_op op);

// Copies large buffers with non-temporal stores, for memory that another core reads next. An
// ordinary store to a cache line that another core has read waits until that core gives the line
// up, one line after the other. Between cores without a common cache this takes ten times as long
// as the copy.
void comm_copy_nontemporal(char *to, const char *from, size_t bytes);

#endif
