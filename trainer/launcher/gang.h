// A local gang: ranks as child processes of this process, to train on one machine without a
// cluster.
//
// The parent owns the children and serves them: it carries their all_gather, receives their
// messages and forwards a drain request to rank 0. It must have one thread only when it forks. When
// a rank fails, the parent ends the others. A child dies with its parent.
#ifndef MUSTER_TRAINER_LAUNCHER_GANG_H
#define MUSTER_TRAINER_LAUNCHER_GANG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "trainer/comm/comm.h"

enum { GANG_MESSAGE_MAX = 128 * 1024 }; // bytes of one message

// A child's end of the connection. Any thread of the child may send messages.
struct gang_member {
    int rank, world;
    int fd;           // socket to the parent
    bool drain;       // the parent requested a drain
    json_t *gathered; // the result of an all_gather that arrived while another message was awaited
};

// One all_gather of the ranks; `ctx` of struct rendezvous is the member.
int gang_all_gather(void *member, const json_t *mine, json_t **all, struct error *e);
int gang_send(struct gang_member *member, const json_t *message, struct error *e);
bool gang_drain_requested(struct gang_member *member); // never blocks; compute thread only

struct gang_spec {
    int world;
    // runs in the child and returns its exit code
    int (*rank)(struct gang_member *member, void *ctx);
    void (*message)(void *ctx, int rank, const json_t *message); // runs in the parent
    void (*signalled)(void *ctx, bool drain); // after SIGINT or SIGTERM; may be NULL
    void *ctx;
    int64_t grace_us; // how long the other ranks may continue after one has failed
};

struct gang_result {
    int failed_rank; // the first rank that failed; -1: none
    int status;      // wait status of that rank
    bool drain;      // requested by a first SIGINT or SIGTERM
    bool killed;     // ended by a second signal
};

// Returns when every child is gone. An error means that the gang could not be started.
int gang_run(const struct gang_spec *spec, struct gang_result *result, struct error *e);

#endif
