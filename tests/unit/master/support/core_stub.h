// A stand-in for the core in tests of the http layer: one thread that answers each request with a
// description of it, and parks preemption polls until a test releases them. It replaces the
// functions of master/kernel: link it before muster_master_lib.
#ifndef TESTS_MASTER_CORE_STUB_H
#define TESTS_MASTER_CORE_STUB_H

#include <pthread.h>
#include <stdatomic.h>

#include "master/calls/module.h"
#include "master/ingest/module.h"
#include "master/lifecycle/module.h"
#include "master/notify/module.h"
#include "master/retention/module.h"
#include "master/teams/module.h"

enum { STUB_PARKED_MAX = 256 };

struct core_stub {
    struct mailbox *inbox;
    pthread_t thread;
    struct request *parked[STUB_PARKED_MAX];
    atomic_int parked_count, gone_count;
};

// The stub behind the pointer that the http layer takes for a core.
static inline struct core_stub *stub_of(struct core *c)
{
    return (struct core_stub *)c;
}

struct core *stub_start(void);
void stub_stop(struct core *c); // no request may be parked any more

// Answers the parked requests with `status`, as core_stop() does with 503.
void stub_let_go(struct core *c, int status);

#endif
