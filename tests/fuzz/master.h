// A whole master in one thread: routes, bodies, the core and the views over a store in memory, with
// a manual clock. This file replaces the part of the http layer between a socket and a handler.
//
// Calls are lines: caller, method, address, and an optional body. Callers are a (the
// administrator), u and v (users), g (an agent), and t1.1.1 (a task, by its allocation).
//
//   u POST /api/v1/experiments {"config": "..", "activate": true}
//
// The process ends if an answer does not match its route: an unknown status, an internal error,
// invalid JSON.
#ifndef TESTS_FUZZ_MASTER_H
#define TESTS_FUZZ_MASTER_H

#include "tests/fuzz/support.h"

struct fuzz_master;

struct fuzz_master *master_begin(void);
void master_end(struct fuzz_master *m);
void master_again(struct fuzz_master *m); // restarts the master over the committed store
void master_wait(struct fuzz_master *m, int64_t seconds);

struct fuzz_answer {
    int status;   // 0: the call waits (or was not a call), and its answer is lost
    json_t *body; // NULL: not JSON
};

// The caller owns the answer's body.
struct fuzz_answer master_call(struct fuzz_master *m, struct piece line);
void master_tell(struct fuzz_master *m, const char *lines); // each call must be answered with 200

#endif
