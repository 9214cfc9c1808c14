// Communicator: the ranks of one gang add, compare and copy numbers together.
//
// All calls are collective: every rank makes the same calls with the same sizes in the same order.
// One thread (the compute thread) drives a communicator; comm_abort() may be called by any thread.
// A peer that died or gave up makes every pending and later call fail with ERR_PEER, which names
// the rank, within about a second; one that hangs, after the configured time. After an error only
// comm_close() is left, and then a new communicator may be opened.
//
// Backends stand in a table (comm.c): `self` for a world of one, `shm` for the ranks of one
// machine. All-reduce works in place on memory of comm_alloc(), so a backend can place that memory
// where it needs it (shared segment, registered or device memory).
#ifndef MUSTER_TRAINER_COMM_COMM_H
#define MUSTER_TRAINER_COMM_COMM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum comm_type { COMM_INT32, COMM_INT64, COMM_FLOAT };
enum comm_op { COMM_SUM, COMM_MAX };

enum { COMM_PENDING_MAX = 64, COMM_ALIGN = 64 }; // all-reduces in flight; bytes

// How ranks find each other before there is a communicator. `mine` is borrowed; *all becomes a new
// array of the world's values by rank.
struct rendezvous {
    int (*all_gather)(void *ctx, const json_t *mine, json_t **all, struct error *e);
    void *ctx;
};

struct comm_config {
    const char *backend; // NULL: `self` for a world of one, else `shm`
    int rank, world;
    size_t arena_bytes;           // most that comm_alloc() will hand out; the same on every rank
    int64_t hang_us;              // patience with a peer that is alive but silent; 0: 600 s
    struct rendezvous rendezvous; // not used by `self`
};

struct comm; // opaque

int comm_open(const struct comm_config *config, struct comm **out, struct error *e);
void comm_close(struct comm *c); // NULL is fine
int comm_rank(const struct comm *c);
int comm_world(const struct comm *c);
const char *comm_backend_name(const struct comm *c);

// Zeroed, aligned to COMM_ALIGN, freed by comm_close(). Asking for more than arena_bytes in all is
// a programming error; comm_padded() is what a request takes of it.
void *comm_alloc(struct comm *c, size_t bytes);
size_t comm_padded(size_t bytes);

// Starts an all-reduce of `count` elements at `data` (of comm_alloc); the memory is the
// communicator's until comm_wait() of the ticket returns. COMM_FLOAT sums in the order of ranks.
// With COMM_PENDING_MAX in flight it waits for the oldest first.
int comm_start(struct comm *c, void *data, size_t count, enum comm_type type, enum comm_op op,
               uint32_t *ticket, struct error *e);
int comm_wait(struct comm *c, uint32_t ticket, struct error *e);
int comm_all_reduce(struct comm *c, void *data, size_t count, enum comm_type type, enum comm_op op,
                    struct error *e);

int comm_broadcast(struct comm *c, void *data, size_t bytes, int root,
                   struct error *e); // any memory
int comm_barrier(struct comm *c, struct error *e);

// Makes this rank's and all peers' calls fail from now on; returns at once. `why` is what the peers
// are told ("" is fine). The first abort counts.
void comm_abort(struct comm *c, const char *why);

#endif
