// Gang: ranks as child processes of this one, for training on one machine without a cluster.
//
// The parent (one thread, no other threads yet: it forks) owns the children and serves them: it
// carries their all_gather, receives their messages, and passes a wish to drain on to rank 0. When
// a rank ends badly the others are ended too. A child dies with its parent.
#ifndef MUSTER_TRAINER_LAUNCHER_GANG_H
#define MUSTER_TRAINER_LAUNCHER_GANG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "trainer/comm/comm.h"

enum { GANG_MESSAGE_MAX = 128 * 1024 }; // bytes of a message as JSON

// A child's place in the gang. Messages may be sent by any thread of the child.
struct gang_member {
    int rank, world;
    int fd;           // socket to the parent
    bool drain;       // the parent asked to
    json_t *gathered; // answer that came while looking for something else
};

// Carries one all_gather; the ctx of its struct rendezvous is the member.
int gang_all_gather(void *member, const json_t *mine, json_t **all, struct error *e);
int gang_send(struct gang_member *member, const json_t *message, struct error *e);
bool gang_drain_requested(struct gang_member *member); // never blocks; the compute thread only

struct gang_spec {
    int world;
    int (*rank)(struct gang_member *member, void *ctx); // in the child; gives its exit code
    void (*message)(void *ctx, int rank, const json_t *message); // in the parent
    void (*signalled)(void *ctx, bool drain); // SIGINT or SIGTERM came; may be NULL
    void *ctx;
    int64_t grace_us; // how long the others may go on when one has ended badly
};

struct gang_result {
    int failed_rank; // the first that ended badly; -1: none
    int status;      // its wait status
    bool drain;      // was asked for by SIGINT or SIGTERM (a second one kills)
    bool killed;     // by a second signal
};

// Returns when every child is gone. An error means that the gang could not be started.
int gang_run(const struct gang_spec *spec, struct gang_result *result, struct error *e);

#endif
