// The audit trail: a row of the store for every call of a user that changed something, and for
// every call that was refused because of its caller. Reads, and reports of tasks and agents, leave
// no row.
//
// Calls end in three places, and each adds the row: core_complete() and view_commit() add it to the
// batch of the change itself, so that neither exists without the other; exchange_answer() adds it
// for refusals. Any thread; the caller owns `rq`.
#ifndef MUSTER_MASTER_COMMON_AUDIT_H
#define MUSTER_MASTER_COMMON_AUDIT_H

#include "db/db.h"
#include "master/common/request.h"

// Returns whether a call with this status leaves a row; false once it has left one.
bool audit_wants(const struct request *rq, int status);

void audit_add(struct db_batch *b, struct request *rq, int status, int64_t wall_us);

// The kind of object that a call is about, for followers: "users" for /api/v1/users/3; ""
// otherwise.
enum { AUDIT_SUBJECT = 32 };
void audit_subject(const char *path, char out[AUDIT_SUBJECT]);

// The content of a call in words: "active=false, user.username=bob, config". Only texts that name
// objects are shown: others may hold a secret, such as passwords and webhook addresses.
void audit_describe(const json_t *body, struct buf *out);

#endif
