// The shared segment of backend `shm`. Internal to comm/: shm_join.c makes and maps it, shm.c works
// in it.
//
// Layout: header, one status line per rank, the stage of broadcasts, then every rank's box, in
// which lies for its peers to read what it shows of its arena, at the same place. The segment is a
// memfd of rank 0 that peers open through /proc, so it has no name that could be left behind, and
// it is sealed so that nobody can shrink it under the others.
#ifndef MUSTER_TRAINER_COMM_SHM_H
#define MUSTER_TRAINER_COMM_SHM_H

#include <poll.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "trainer/comm/backend.h"

enum { SHM_STAGE = 1 << 20, SHM_WHY_MAX = 200 };

// Written by its own rank alone. Both counters are numbers of operations and may wrap; they double
// as futex words.
struct shm_rank {
    _Alignas(128) _Atomic uint32_t posted; // operations whose data this rank has ready
    _Atomic uint32_t folded;               // operations of which it has folded its share
    char why[SHM_WHY_MAX];                 // why it gave up, written before `failed` says so
};

enum shm_failure { SHM_DIED = 1, SHM_GAVE_UP, SHM_HANGS, SHM_TOLD, SHM_FAILURE_KINDS };

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
    char **boxes;         // [world], of arena_bytes each, as mapped here
    char **buffers;       // [world], scratch of a fold
    pid_t *pids;          // [world]
    struct pollfd *peers; // [world], pidfds; -1 for this rank
    int first_rank;       // the number that its rank 0 has in messages: that of a larger world
    int64_t timeout_us;
    int spins;                                // turns of the waiting loop before it yields
    atomic_bool aborted;                      // by this rank; `why` is written once
    uint32_t posted, folded;                  // this rank's counters
    struct comm_work works[COMM_PENDING_MAX]; // of operation n at n % COMM_PENDING_MAX
};

// Meets the peers and maps the segment. On success everything but `posted`, `folded` and `works` is
// set. After an error shm_leave() frees what was made.
int shm_join(struct shm *s, const struct comm_config *config, const json_t *everybody,
             struct error *e);
void shm_leave(struct shm *s);

// For a backend that has an shm inside. Puts this rank's arena into its box, for all to read at any
// time; there are no all-reduces then but barriers.
void shm_share_arena(struct shm *s);

// Makes the calls of all ranks fail with this text.
void shm_tell(struct shm *s, const char *text);
// Looks, without waiting, whether anything has failed or anybody has died.
int shm_check(struct shm *s, struct error *e);

#endif
