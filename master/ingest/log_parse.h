// What a body of log lines says, read where it came in (an http thread or a worker) and
// packed there, so that the core only looks at whose lines they are. Pure; one owner at a time.
//
//     {"logs": [{"taskId", "allocationId", "agentId", "containerId", "rankId", "timestamp",
//                "level", "stdtype", "source", "log", "sequence"}, ..],
//      "taskId", "allocationId", "agentId", "containerId": of lines that do not say it}
//
// The names beside the list are ours, and stand before it: agents use them.
#ifndef MUSTER_MASTER_INGEST_LOG_PARSE_H
#define MUSTER_MASTER_INGEST_LOG_PARSE_H

#include "db/logs/loglines.h"
#include "master/common/request.h"

struct log_part { // lines of one sender of one task, in order
    char *task, *allocation, *agent;
    int64_t *sequences; // of each line; -1: it has none
    size_t count, cap;
    int64_t first_sequence, last_sequence; // of those that have one; -1: none has
    size_t first;                          // number of its first line in the body
    struct log_packer packer;
    struct log_packed *chunks; // of all its lines
    size_t chunk_count;
    struct log_part *next;
};

struct log_post {
    struct log_part *parts, **end;
    size_t lines;
};

// Read rq->input (a struct log_post) from a body, which is changed: such an object, and a list of
// lines alone. ERR_INVALID, ERR_TOO_LARGE. Lines without a time get that of now.
int log_post_read(struct request *rq, char *text, size_t len, struct error *e);
int log_list_read(struct request *rq, char *text, size_t len, struct error *e);
void log_post_free(void *post); // NULL is fine

// The lines of a part that are beyond `sequence`, or have none, instead of all.
void log_part_drop(struct log_part *p, int64_t sequence);

#endif
