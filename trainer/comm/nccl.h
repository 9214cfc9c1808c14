// Backend `nccl`: GPUs. Internal to comm/. nccl.c is the backend, nccl_watch.c the watcher.
//
// NCCL moves the numbers, from GPU to GPU, on a stream of its own; the compute stream and this one
// wait for each other by events, the host for neither. What NCCL does not tell, who is missing, an
// inner communicator of the hosts does (shm or net): on a thread of its own, the watcher, the ranks
// tell each other a few times a second how far they are. So a peer that dies is noticed as it is
// there, and the watcher then aborts NCCL, whose kernels would wait for ever.
//
// `lock` is held for moments only. `calls` is held while NCCL is at work with `nccl`, one thread at
// a time, as it demands; to abort, the watcher does not wait for that longer than ABORT_US.
#ifndef MUSTER_TRAINER_COMM_NCCL_H
#define MUSTER_TRAINER_COMM_NCCL_H

#include <nccl.h>
#include <pthread.h>

#include "trainer/comm/backend.h"

// How far a rank is, as all see it: operations that its host, then its GPU has come to, and that
// are done; whether it wants to leave; and rank 0's clock, in tenths of a second, by which all
// reach the same verdict over who is late.
enum nccl_column {
    NCCL_ENTERED,
    NCCL_BEGUN,
    NCCL_ENDED,
    NCCL_LEAVING,
    NCCL_CLOCK,
    NCCL_COLUMNS,
    NCCL_STAGES = NCCL_ENDED + 1,
};

struct nccl_slot {
    cudaEvent_t begin, end; // on `stream`, of operation n at n % COMM_PENDING_MAX
    bool barrier;
};

struct nccl_delay { // a rank that others wait for
    int rank;
    uint32_t at;
    int32_t since; // of NCCL_CLOCK
};

struct nccl {
    struct comm base; // the arena is the GPU's memory, with NCCL_STAGE bytes more
    struct comm *inner;
    int32_t *rows; // [world][NCCL_COLUMNS] of the inner
    int device;
    cudaStream_t compute, stream;
    cudaEvent_t ready, here;
    char *stage;
    void *registration; // of the arena; NULL: NCCL does without
    int64_t timeout_us;
    uint32_t waited; // the compute thread's: the last operation that was waited for

    pthread_t watcher;
    bool watched; // there is a watcher
    struct nccl_delay delays[NCCL_STAGES];

    pthread_mutex_t calls;
    ncclComm_t nccl; // NULL: not yet, or no more

    pthread_mutex_t lock;      // of what follows
    pthread_cond_t wake, told; // for the watcher; for who waits for `failed` or `gone`
    struct nccl_slot slots[COMM_PENDING_MAX];
    uint32_t entered, posted, begun, ended; // operations; of the posted ones there are events
    bool leaving, left, gone;               // this rank wants to; all do; the watcher has
    struct error suspicion;                 // what NCCL says, while somebody may know better
    int64_t suspected_at;
    struct error error; // the first; code 0: none
    bool own;           // it is this rank's: the others must be told
    atomic_bool failed;
};

enum { NCCL_STAGE = 1 << 20 };

int nccl_start_watcher(struct nccl *n, struct error *e);
// Ends the watcher and NCCL's communicator. Whether all memory may be freed: the GPU is done.
bool nccl_stop_watcher(struct nccl *n);

// Makes all calls fail from now on. The first failure counts.
void nccl_fail(struct nccl *n, const struct error *why, bool own);
int nccl_tell(struct nccl *n, struct error *e); // the failure
// NCCL complains. Returns when it is clear why, with the failure.
int nccl_suspect(struct nccl *n, ncclResult_t result, const char *at, struct error *e);
// 0, or the failure that a call of CUDA is.
int nccl_cuda(struct nccl *n, cudaError_t result, const char *at, struct error *e);

// Whether the event has come: cudaErrorNotReady if not.
cudaError_t nccl_query(cudaEvent_t event);

// Counts what the GPU has done meanwhile; the lock is held.
void nccl_count(struct nccl *n);

#endif
