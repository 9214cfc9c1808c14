// The audit trail: a row of the store for every call of a user that changed something, and for
// every one that was refused for who the caller is. Reads, and what tasks and agents report, leave
// none.
//
// There are three places where calls end, and each adds the row: core_complete() and view_commit()
// in the batch of the change itself, so that neither is there without the other, and
// exchange_answer() for refusals. Any thread; `rq` is the caller's.
#ifndef MUSTER_MASTER_COMMON_AUDIT_H
#define MUSTER_MASTER_COMMON_AUDIT_H

#include "db/db.h"
#include "master/common/request.h"

// Whether a call that ends with this status leaves a row; false once it has left one.
bool audit_wants(const struct request *rq, int status);

void audit_add(struct db_batch *b, struct request *rq, int status, int64_t wall_us);

// What a call is of, for those who follow: "users" of /api/v1/users/3; "" of any other path.
enum { AUDIT_SUBJECT = 32 };
void audit_subject(const char *path, char out[AUDIT_SUBJECT]);

// What a call asked for, in words: "active=false, user.username=bob, config". Of texts only those
// that name things are shown: others may hold a secret, as passwords and addresses of webhooks do.
void audit_describe(const json_t *body, struct buf *out);

#endif
