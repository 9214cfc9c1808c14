// Streams that follow logs: wakes those of a task when the core has committed rows of its log. Any
// thread; nothing here blocks for long.
#ifndef MUSTER_MASTER_NOTIFY_LOG_FOLLOWERS_H
#define MUSTER_MASTER_NOTIFY_LOG_FOLLOWERS_H

#include "master/http/stream.h"

struct log_followers; // opaque

struct log_follower { // owned by the stream; registered between add and remove
    const char *task_id;
    struct stream *stream;
    struct log_follower *next, **link;
};

struct log_followers *log_followers_new(void);
void log_followers_free(struct log_followers *f); // there must be no followers

void log_followers_add(struct log_followers *f, struct log_follower *w);
void log_followers_remove(struct log_followers *f, struct log_follower *w);

// core_options.logs_committed: ctx is the struct log_followers.
void log_followers_notify(void *ctx, const char *task_id);

void log_followers_end_all(struct log_followers *f); // ends every stream when the server stops

#endif
