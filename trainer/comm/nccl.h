// Backend `nccl`: GPUs. Internal to comm/. nccl.c is the backend, nccl_watch.c the watcher.
//
// NCCL works on a stream of its own. The compute stream and this stream wait for each other by
// events; the host waits for neither. NCCL does not report which rank is missing. For this there is
// an inner communicator between the hosts (shm or net): on a thread of its own, the watcher, the
// ranks exchange their progress a few times per second. So a peer's death is noticed as quickly as
// by the inner backend, and the watcher then aborts NCCL, whose kernels would wait forever.
//
// `lock` is held only briefly. `calls` is held during calls of NCCL, which allows one thread at a
// time; the watcher waits at most ABORT_US for it before it aborts NCCL.
#ifndef MUSTER_TRAINER_COMM_NCCL_H
#define MUSTER_TRAINER_COMM_NCCL_H

#include <nccl.h>
#include <pthread.h>

#include "trainer/comm/backend.h"

// A row of the progress table: the numbers of the operations that the rank's host has entered, that
// its GPU has begun and that its GPU has ended; whether the rank wants to leave; and rank 0's clock
// in tenths of a second, so that all ranks judge lateness by the same clock.
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
    cudaEvent_t begin, end; // on `stream`; operation n uses slot n % COMM_PENDING_MAX
    bool barrier;
};

struct nccl_delay { // the rank that the others wait for
    int rank;
    uint32_t at;
    int32_t since; // in units of NCCL_CLOCK
};

struct nccl {
    struct comm base; // its arena is GPU memory and is followed by `stage`
    struct comm *inner;
    int32_t *rows; // [world][NCCL_COLUMNS] in the inner communicator's memory
    int device;
    cudaStream_t compute, stream;
    cudaEvent_t ready, compute_done;
    char *stage;
    void *registration; // of the arena; NULL: not registered
    int64_t timeout_us;
    uint32_t waited; // the last operation that the compute thread has waited for

    pthread_t watcher;
    bool watched; // the watcher has been started
    struct nccl_delay delays[NCCL_STAGES];

    pthread_mutex_t calls;
    ncclComm_t nccl; // NULL before it is opened and after it is aborted

    pthread_mutex_t lock;      // protects the fields below
    pthread_cond_t wake, news; // for the watcher; for waiters for `failed` or `watcher_ended`
    struct nccl_slot slots[COMM_PENDING_MAX];
    uint32_t entered, posted, begun, ended; // operation numbers; posted ones have their events
    bool leaving, left, watcher_ended; // this rank wants to leave; all do; the watcher has ended
    struct error suspicion;            // NCCL's complaint, until a better explanation is known
    int64_t suspected_at;
    struct error error; // the first failure; code 0: none
    bool own;           // the failure began on this rank, so it must notify the others
    atomic_bool failed;
};

enum { NCCL_STAGE = 1 << 20 };

int nccl_start_watcher(struct nccl *n, struct error *e);
// Ends the watcher and NCCL's communicator. Returns whether the GPU is done, so that all memory may
// be freed.
bool nccl_stop_watcher(struct nccl *n);

// Makes all calls fail from now on. Only the first failure counts.
void nccl_fail(struct nccl *n, const struct error *why, bool own);
int nccl_report_failure(struct nccl *n, struct error *e); // returns the recorded failure
// Handles an error of NCCL: waits until its cause is known and returns the recorded failure.
int nccl_suspect(struct nccl *n, ncclResult_t result, const char *at, struct error *e);
// Returns 0, or records and returns the failure of a CUDA call.
int nccl_cuda(struct nccl *n, cudaError_t result, const char *at, struct error *e);

// cudaErrorNotReady if the event has not happened yet.
cudaError_t nccl_query(cudaEvent_t event);

// Counts the operations that the GPU has begun and ended. The caller holds `lock`.
void nccl_update_progress(struct nccl *n);

#endif
