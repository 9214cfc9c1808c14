// The network between the models and the master. A call travels, is parked or answered, and its
// answer travels back; each way may be slow, fail or deliver twice. done() tells the caller the
// result exactly once; status 0 means no answer in time, or no master. World's thread.
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/ingest/module.h"
#include "master/lifecycle/module.h"
#include "master/notify/module.h"
#include "master/retention/module.h"
#include "master/teams/module.h"
#include "tests/sim/world.h"

typedef void call_done(struct world *w, struct sim_call *c, int status, const json_t *answer);

struct sim_call {
    core_handler *handler;
    const char *name; // for the trace
    enum principal_kind kind;
    int64_t user;
    const char *allocation;  // of a task
    struct machine *machine; // the sender; NULL: a person
    char p0[80], p1[80];
    json_t *body;      // taken
    const char *query; // value of every parameter; NULL: none
    int64_t timeout;   // from now, in microseconds
    call_done *done;   // NULL: the result does not matter
    void *owner;
    int64_t tag; // for the caller's own use

    struct world *world; // from here on private to net.c
    bool over;           // the caller has its result, or has dropped the call
    struct request *rq;  // while it is in the master
    int status;
    int64_t id; // of the answer
    char *text;
    struct sim_call *next, *prev, *all_next;
};

struct sim_call *call_send(struct world *w, const struct sim_call *c);
void call_drop(struct world *w, struct sim_call *c); // the caller closes its connection
void calls_fail(struct world *w);                    // the master has died
void calls_cut(struct world *w);                     // every open connection breaks
void net_free(struct world *w);

#endif
