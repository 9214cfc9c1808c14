// Communicator: collective operations among the ranks of one gang.
//
// All calls are collective: every rank makes the same calls with the same sizes in the same order.
// One thread (the compute thread) drives a communicator; any thread may call comm_abort(). When a
// peer is lost, every pending and later call fails with ERR_PEER, and the error names the rank:
// about a second after the peer died or aborted, about ten seconds after its machine became silent,
// and after the configured timeout (between machines up to twice that) if it hangs. After an error
// the caller can only call comm_close() and then open a new communicator.
//
// comm.c contains the table of backends: `self` for a world of one, `shm` for the ranks of one
// machine, `net` for several machines; with GPUs `gpu` for a world of one, and `nccl`. Operations
// work in place on memory from comm_alloc(), which is on the ranks' device. On a GPU an operation
// starts after the work that the compute stream already has, comm_wait() makes that stream wait and
// not the host, and comm_synchronize() returns the result.
//
// Where a buffer is divided among the ranks, rank r's part is comm_part(count, unit, world, r).
#ifndef MUSTER_TRAINER_COMM_COMM_H
#define MUSTER_TRAINER_COMM_COMM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum comm_kind {
    COMM_ALL_REDUCE,     // every rank receives the combined elements
    COMM_REDUCE_SCATTER, // every rank receives its part of them; the rest becomes undefined
    COMM_ALL_GATHER,     // every rank receives all ranks' parts
};
enum comm_type { COMM_INT32, COMM_INT64, COMM_FLOAT };
enum comm_op { COMM_SUM, COMM_MAX };

enum { COMM_PENDING_MAX = 64, COMM_ALIGN = 64 }; // operations in flight; bytes

struct comm_work {
    enum comm_kind kind;
    enum comm_type type;
    enum comm_op op; // ignored by an all-gather. Order of float sums: by rank; between machines the
                     // sums of the machines by machine; NCCL has its own. No NaN with COMM_MAX
    size_t unit;     // elements; parts consist of whole units; ignored by an all-reduce
    void *data;      // from comm_alloc()
    size_t count;    // elements of the whole buffer
};

struct comm_part {
    size_t first, last; // elements [first, last)
};

// The rank's part of `count` elements: whole units (the last one may be short), divided evenly; the
// first ranks take one more.
struct comm_part comm_part(size_t count, size_t unit, int world, int rank);

// The function by which ranks exchange values before a communicator exists. `mine` is borrowed;
// *all becomes a new array with the values of all ranks, by rank.
struct rendezvous {
    int (*all_gather)(void *ctx, const json_t *mine, json_t **all, struct error *e);
    void *ctx;
};

struct comm_config {
    const char *backend; // NULL: chosen by the machines of the ranks
    int rank, world;
    size_t arena_bytes;           // limit of all comm_alloc() calls; the same on every rank
    int64_t timeout_us;           // for a peer that is alive but makes no progress; 0: 600 s
    struct rendezvous rendezvous; // not used by `self` and `gpu`
    const char *address;          // where other machines reach this one; NULL: 127.0.0.1
    bool encrypt;                 // what travels between machines; not with `nccl`
    const char *allocation; // the start of the trial, the same on every rank; NULL: there is none
};

struct comm; // opaque

int comm_open(const struct comm_config *config, struct comm **out, struct error *e);
void comm_close(struct comm *c); // NULL is fine
int comm_rank(const struct comm *c);
int comm_world(const struct comm *c);
const char *comm_backend_name(const struct comm *c);

// The library that determines the bits of float sums: "NCCL 2.28.9", or "". Returns out.
const char *comm_library(char *out, size_t cap);

// Microseconds that the backend's own thread or stream has spent in operations so far; 0 without
// one.
int64_t comm_background_us(const struct comm *c);

// Zeroed memory, aligned to COMM_ALIGN, freed by comm_close(). The sum of all requests, each
// rounded up by comm_padded(), must not exceed arena_bytes.
void *comm_alloc(struct comm *c, size_t bytes);
size_t comm_padded(size_t bytes);

// Starts an operation. Its memory belongs to the communicator until comm_wait() of the ticket
// returns. The result of a reduce-scatter or an all-gather may then be read at once. It must not be
// overwritten until an all-reduce or barrier that was started later has been waited for, because
// peers may still read it; the rank's own part of a reduce-scatter is an exception. With
// COMM_PENDING_MAX operations in flight comm_start() first waits for the oldest.
int comm_start(struct comm *c, const struct comm_work *work, uint32_t *ticket, struct error *e);
int comm_wait(struct comm *c, uint32_t ticket, struct error *e);
int comm_run(struct comm *c, const struct comm_work *work, struct error *e); // starts and waits
int comm_all_reduce(struct comm *c, void *data, size_t count, enum comm_type type, enum comm_op op,
                    struct error *e);

// Like ops_synchronize(), and also reports a failure of the operations that were waited for. Call
// it before the host uses downloaded results or decides by them.
int comm_synchronize(struct comm *c, struct error *e);

int comm_broadcast(struct comm *c, void *data, size_t bytes, int root,
                   struct error *e); // any memory of the host or the device
int comm_barrier(struct comm *c, struct error *e);

// Makes all pending and later calls of this rank and its peers fail; returns at once. The peers'
// errors contain `why` ("" is fine). Only the first abort counts.
void comm_abort(struct comm *c, const char *why);

#endif
