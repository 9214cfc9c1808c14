// The core's part of logs (logs.c): whose lines they are, their numbers, what was sent twice;
// and the merging of small chunks (log_merge.c). Core thread alone.
#ifndef MUSTER_MASTER_INGEST_LOGS_H
#define MUSTER_MASTER_INGEST_LOGS_H

#include "db/logs/loglines.h"
#include "master/kernel/state.h"

enum {
    LOG_CHUNK_SMALL = LOG_CHUNK_BYTES / 4,     // bytes: one that should be merged
    LOG_MERGED_MOST = LOG_CHUNK_BYTES / 4 * 3, // numbers of origins may take more room
};

struct log_sender {
    char *allocation, *agent;
    int64_t last; // sequence of its newest line that is stored
};

struct log_task {        // one whose log grows, until it has been quiet for a while
    int64_t trial, used; // used: when, monotonic
    char *id;
    int64_t newest; // number of its newest line
    struct log_sender *senders;
    size_t sender_count;
    int tail; // small chunks at its end that were not looked at for merging
    int64_t tail_bytes;
    bool merging;
    uint64_t merged;     // the commit that stores the last merging
    int64_t unseen_said; // when the log last said that lines were not matched; monotonic, 0: never
};

struct logs {
    struct id_map tasks; // struct log_task by trial
    struct timer quiet;  // of the next look at them
    struct log_watch_kit *kit;
};

struct logs *logs_new(void);
void logs_free(struct logs *l); // NULL is fine

// A line of the master's own in a trial's log. `allocation`: "" or the one it is about.
void logs_say(struct core *c, const struct trial *t, const char *allocation, const char *level,
              const char *text);

// Stores the new lines of a post.
struct log_post;
void log_post_store(struct core *c, struct log_post *post);

// logmerge.c: small chunks at the end of the task's log become one, soon.
void logs_merge(struct core *c, struct log_task *t);

#endif
