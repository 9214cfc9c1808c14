// Who follows which log: wakes the streams of a task when the core has committed rows for it. Any
// thread; nothing here blocks for long.
#ifndef MUSTER_MASTER_NOTIFY_LOG_FOLLOWERS_H
#define MUSTER_MASTER_NOTIFY_LOG_FOLLOWERS_H

#include "master/http/stream.h"

struct follow; // opaque

struct follower { // the stream's own; registered between add and remove
    const char *task_id;
    struct stream *stream;
    struct follower *next, **link;
};

struct follow *follow_new(void);
void follow_free(struct follow *f); // nobody follows any more

void follow_add(struct follow *f, struct follower *w);
void follow_remove(struct follow *f, struct follower *w);

// core_options.logs_committed: ctx is the struct follow.
void follow_notify(void *ctx, const char *task_id);

void follow_end_all(struct follow *f); // every stream ends; for the stop of the server

#endif
