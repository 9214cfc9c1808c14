// Communicator: the ranks of one gang add, compare and copy numbers together.
//
// All calls are collective: every rank makes the same calls with the same sizes in the same order.
// One thread (the compute thread) drives a communicator; comm_abort() may be called by any thread.
// A peer that died or gave up makes every pending and later call fail with ERR_PEER, which names
// the rank, within about a second; one whose machine falls silent, after about ten; one that hangs,
// after the configured time, over machines up to twice that. After an error only comm_close() is
// left, and then a new communicator may be opened.
//
// Backends stand in a table (comm.c): `self` for a world of one, `shm` for the ranks of one
// machine, `net` for several machines; GPUs have `gpu` for a world of one, and `nccl`. Operations
// work in place on memory of comm_alloc(), which lies on the ranks' device. With a GPU they take
// their turn after what the device has to do so far, comm_wait() makes it wait and not the host,
// and comm_synchronize() tells whether all went well.
//
// Where a buffer is divided among the ranks, rank r's part is comm_part(count, unit, world, r).
#ifndef MUSTER_TRAINER_COMM_COMM_H
#define MUSTER_TRAINER_COMM_COMM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum comm_kind {
    COMM_ALL_REDUCE,     // the combined elements on every rank
    COMM_REDUCE_SCATTER, // the combined elements of its part on every rank; the rest is undefined
    COMM_ALL_GATHER,     // every rank's part on every rank
};
enum comm_type { COMM_INT32, COMM_INT64, COMM_FLOAT };
enum comm_op { COMM_SUM, COMM_MAX };

enum { COMM_PENDING_MAX = 64, COMM_ALIGN = 64 }; // operations in flight; bytes

struct comm_work {
    enum comm_kind kind;
    enum comm_type type;
    enum comm_op op; // not of an all-gather; floats are summed in the order of ranks, over
                     // machines: in the order of machines what each has summed up; by NCCL in its
                     // own order. A maximum wants no NaN
    size_t unit;     // elements; parts are whole units; not of an all-reduce
    void *data;      // of comm_alloc()
    size_t count;    // elements of the whole buffer
};

struct comm_part {
    size_t first, last; // elements [first, last)
};

// Rank's part of `count` elements: whole units (the last one may be short), as equal as can be, the
// first ranks take one more.
struct comm_part comm_part(size_t count, size_t unit, int world, int rank);

// How ranks find each other before there is a communicator. `mine` is borrowed; *all becomes a new
// array of the world's values by rank.
struct rendezvous {
    int (*all_gather)(void *ctx, const json_t *mine, json_t **all, struct error *e);
    void *ctx;
};

struct comm_config {
    const char *backend; // NULL: the one that fits
    int rank, world;
    size_t arena_bytes;           // most that comm_alloc() will hand out; the same on every rank
    int64_t timeout_us;           // patience with a peer that is alive but silent; 0: 600 s
    struct rendezvous rendezvous; // not used by `self`
    const char *address;          // how other machines reach this one; NULL: 127.0.0.1
};

struct comm; // opaque

int comm_open(const struct comm_config *config, struct comm **out, struct error *e);
void comm_close(struct comm *c); // NULL is fine
int comm_rank(const struct comm *c);
int comm_world(const struct comm *c);
const char *comm_backend_name(const struct comm *c);

// The library that sums of floats depend on, beside this program: "NCCL 2.28.9", or "". Returns
// out.
const char *comm_library(char *out, size_t cap);

// Microseconds that a thread or stream of the backend's own has been at operations so far; 0: it
// has none.
int64_t comm_background_us(const struct comm *c);

// Zeroed, aligned to COMM_ALIGN, freed by comm_close(). Asking for more than arena_bytes in all is
// a programming error; comm_padded() is what a request takes of it.
void *comm_alloc(struct comm *c, size_t bytes);
size_t comm_padded(size_t bytes);

// Starts an operation. The memory is the communicator's until comm_wait() of the ticket returns.
// What a reduce-scatter or an all-gather left in it may then be read at once; it may be written
// again (a reduce-scatter's own part excepted: that is this rank's) when an all-reduce or barrier
// that was started later has been waited for: peers may be reading it until then.
// With COMM_PENDING_MAX in flight it waits for the oldest first.
int comm_start(struct comm *c, const struct comm_work *work, uint32_t *ticket, struct error *e);
int comm_wait(struct comm *c, uint32_t ticket, struct error *e);
int comm_run(struct comm *c, const struct comm_work *work, struct error *e); // starts and waits
int comm_all_reduce(struct comm *c, void *data, size_t count, enum comm_type type, enum comm_op op,
                    struct error *e);

// Like ops_synchronize(), for who has downloaded what operations left, or goes on from it: also
// tells when one that was waited for has been given up meanwhile, and left anything.
int comm_synchronize(struct comm *c, struct error *e);

int comm_broadcast(struct comm *c, void *data, size_t bytes, int root,
                   struct error *e); // any memory, of the host or device
int comm_barrier(struct comm *c, struct error *e);

// Makes this rank's and all peers' calls fail from now on; returns at once. `why` is what the peers
// are told ("" is fine). The first abort counts.
void comm_abort(struct comm *c, const char *why);

#endif
