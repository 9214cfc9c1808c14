// The network between the models and the master. A call travels, is parked or answered there, and
// its answer travels back; each way may take long, fail or come twice. A caller is told exactly
// once: by done(), with status 0 when there was no answer in time or nobody listened. World's
// thread.
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

typedef void call_done(struct world *w, struct call *c, int status, const json_t *answer);

struct call {
    core_handler *handler;
    const char *name; // for the trace
    enum principal_kind kind;
    int64_t user;
    const char *allocation;  // of a task
    struct machine *machine; // it comes from; NULL: a person's own
    char p0[80], p1[80];
    json_t *body;      // taken
    const char *query; // value of any parameter; NULL: none
    int64_t timeout;   // from now, microseconds
    call_done *done;   // NULL: nobody cares
    void *owner;
    int64_t tag; // the caller's

    struct world *world; // from here on net.c's
    bool over;           // the caller has been told, or does not care any more
    struct request *rq;  // in the master
    int status;
    int64_t id; // of the answer
    char *text;
    struct call *next, *prev, *all_next;
};

struct call *call_send(struct world *w, const struct call *c);
void call_drop(struct world *w, struct call *c); // the caller closes its connection
void calls_fail(struct world *w);                // the master has died
void calls_cut(struct world *w);                 // every open connection breaks
void net_free(struct world *w);

#endif
