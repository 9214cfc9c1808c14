// The core's part of logs: numbers for the lines, repetitions (logs.c), and merging of small chunks
// (log_merge.c). Core thread.
#ifndef MUSTER_MASTER_INGEST_LOGS_H
#define MUSTER_MASTER_INGEST_LOGS_H

#include "db/logs/loglines.h"
#include "master/kernel/state.h"

enum {
    LOG_CHUNK_SMALL = LOG_CHUNK_BYTES / 4,          // bytes: a chunk below is merged
    LOG_MERGED_BYTES_MAX = LOG_CHUNK_BYTES / 4 * 3, // the numbers of origins may need more room
};

struct log_sender {
    char *allocation, *agent;
    int64_t last; // sequence of its newest stored line
};

struct log_task {        // a task whose log grows; forgotten after a quiet time
    int64_t trial, used; // used: the last use, monotonic
    char *id;
    int64_t newest; // number of its newest line
    struct log_sender *senders;
    size_t sender_count;
    int tail; // small chunks at its end that no merge has seen
    int64_t tail_bytes;
    bool merging;
    uint64_t merged_in;         // the commit that stores the last merge
    int64_t unmatched_reported; // when the log last reported unmatched lines; monotonic, 0: never
};

struct logs {
    struct id_map tasks; // struct log_task by trial
    struct timer quiet;  // the next look at quiet tasks
    struct log_matcher *matcher;
};

struct logs *logs_new(void);
void logs_free(struct logs *l); // NULL is fine

// Adds a line of the master to a trial's log. `allocation`: its allocation, or "".
void logs_add_message(struct core *c, const struct trial *t, const char *allocation,
                      const char *level, const char *text);

// Stores the new lines of a post.
struct log_post;
void log_post_store(struct core *c, struct log_post *post);

// log_merge.c: a worker merges the small chunks at the end of the task's log.
void log_merge_begin(struct core *c, struct log_task *t);

#endif
