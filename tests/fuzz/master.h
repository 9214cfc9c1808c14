// A whole master in one thread: routes, bodies, the core and the views over a store in memory, its
// clock moved by hand. What the http layer does between a socket and a handler is done here.
//
// Calls are lines: who, method, address, and the body, if any. Who is a for the administrator, u, v
// for users, g for an agent, and t1.1.1 for a task by its allocation.
//
//   u POST /api/v1/experiments {"config": "..", "activate": true}
//
// An answer that is not what its route promises ends the process: a status that is none of the
// table, an internal error, JSON that is none.
#ifndef TESTS_FUZZ_MASTER_H
#define TESTS_FUZZ_MASTER_H

#include "tests/fuzz/support.h"

struct master;

struct master *master_begin(void);
void master_end(struct master *m);
void master_again(struct master *m); // stops it, and starts another over what is committed
void master_wait(struct master *m, int64_t seconds);

struct answer {
    int status;   // 0: the call waits for something (or was none), and its answer is lost
    json_t *body; // NULL: not JSON
};

// The answer's body is the caller's.
struct answer master_call(struct master *m, struct piece line);
void master_tell(struct master *m, const char *lines); // each must be answered with 200

#endif
