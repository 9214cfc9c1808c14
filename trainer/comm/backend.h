// What a communication backend provides to comm.c. Internal to comm/.
#ifndef MUSTER_TRAINER_COMM_BACKEND_H
#define MUSTER_TRAINER_COMM_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "trainer/comm/comm.h"

struct comm {
    const struct comm_backend *backend;
    int rank, world;
    char *arena; // zeroed memory of arena_bytes, the backend's
    size_t arena_used, arena_bytes;
    _Atomic int64_t aside_us; // comm_background_us(), kept by the backend
};

// `everybody` is what comm_meet() gave, NULL for a world of one.
// `close` frees the object, which a backend extends (struct comm is its first member). `start` of
// an all-reduce with a count of 0 and its `wait` are a barrier. `work` is borrowed for the call.
// `settle` waits until there is what was waited for (NULL: it is there when `wait` returns).
struct comm_backend {
    const char *name;
    int (*open)(const struct comm_config *config, const json_t *everybody, struct comm **out,
                struct error *e);
    void (*close)(struct comm *c);
    int (*start)(struct comm *c, const struct comm_work *work, uint32_t *ticket, struct error *e);
    int (*wait)(struct comm *c, uint32_t ticket, struct error *e);
    int (*settle)(struct comm *c, struct error *e);
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

// The backend for the memory of the ranks' hosts.
const struct comm_backend *comm_host_backend(const json_t *everybody);

// Collective. A new array of objects by rank: "rank", "host", "machine" (equal for ranks that can
// share memory), "pid", "start" (as comm_start_time). The array may be there after an error.
int comm_meet(const struct comm_config *config, json_t **everybody, struct error *e);
bool comm_same_machine(const json_t *everybody, int a, int b);

// Clock ticks after boot at which the process started (proc(5), stat, field 22); 0: no process.
uint64_t comm_start_time(pid_t pid);

// The rendezvous, with the number of its answers looked at.
int comm_gather(const struct comm_config *config, const json_t *mine, json_t **all,
                struct error *e);

size_t comm_type_bytes(enum comm_type type);

// Combines elements [first, last) of all `from`, in their order, into `into`, which may be one of
// them.
void comm_fold(char *const *from, int count, char *into, size_t first, size_t last,
               enum comm_type type, enum comm_op op);

// Copies past the caches, where it is worth it: for memory that another core reads next. An
// ordinary store to a line that another core has read waits for that core to give it up, one line
// after the other: ten times as long as the copy where the two share no cache.
void comm_stream(char *to, const char *from, size_t bytes);

#endif
