// The shared segment of backend `shm`. Internal to comm/: shm_join.c creates and maps it, shm.c
// works in it.
//
// Layout: a header, one status line per rank, the staging buffer of broadcasts, then every rank's
// shared arena. The shared arena contains the data that the rank has published from its private
// arena, at the same offsets. The segment is a memfd of rank 0 that peers open through /proc, so it
// leaves no name behind; it is sealed, so nobody can shrink it.
#ifndef MUSTER_TRAINER_COMM_SHM_H
#define MUSTER_TRAINER_COMM_SHM_H

#include <poll.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "trainer/comm/backend.h"

enum { SHM_STAGE = 1 << 20, SHM_WHY_MAX = 200 };

// Written by its own rank only. Both counters are operation numbers that may wrap; they are also
// futex words.
struct shm_rank {
    _Alignas(128) _Atomic uint32_t posted; // operations whose data this rank has published
    _Atomic uint32_t reduced;              // operations in which it has done its share
    char why[SHM_WHY_MAX];                 // reason of its abort, written before `failed` is set
};

enum shm_failure { SHM_DIED = 1, SHM_GAVE_UP, SHM_HANGS, SHM_FAILED, SHM_FAILURE_KINDS };

struct shm_segment {
    _Atomic uint32_t failed;   // the first: rank * SHM_FAILURE_KINDS + enum shm_failure; 0: none
    _Atomic uint32_t sleepers; // ranks that wait on a futex
    struct shm_rank ranks[];
};

struct shm {
    struct comm base;
    struct shm_segment *segment;
    size_t segment_bytes;
    char *stage;
    char **shared_arenas; // [world], arena_bytes each, as mapped in this process
    char **buffers;       // [world], inputs of a local reduction
    pid_t *pids;          // [world]
    struct pollfd *peers; // [world], pidfds; -1 for this rank
    int first_rank;       // the number of rank 0 in messages: its rank in the larger world
    int64_t timeout_us;
    int spins;                                // iterations of the waiting loop before it yields
    atomic_bool aborted;                      // by this rank; `why` is written once
    uint32_t posted, reduced;                 // this rank's counters
    struct comm_work works[COMM_PENDING_MAX]; // operation n is at n % COMM_PENDING_MAX
};

// Connects the peers and maps the segment. On success all fields but `posted`, `reduced` and
// `works` are set. After an error shm_leave() frees what exists so far.
int shm_join(struct shm *s, const struct comm_config *config, const json_t *peers, struct error *e);
void shm_leave(struct shm *s);

// For a backend that contains an shm communicator: replaces this rank's private arena by its shared
// arena, which all ranks may read at any time. Afterwards the only all-reduces are barriers.
void shm_share_arena(struct shm *s);

// Makes the calls of all ranks fail with this error message.
void shm_fail(struct shm *s, const char *text);
// Checks, without waiting, whether an operation has failed or a peer has died.
int shm_check(struct shm *s, struct error *e);

#endif
