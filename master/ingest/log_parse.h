// Parses bodies of log lines where they arrive (on an http thread or a worker) and packs the lines,
// so that the core only checks whose lines they are. Pure; one owner at a time.
//
//     {"logs": [{"taskId", "allocationId", "agentId", "containerId", "rankId", "timestamp",
//                "level", "stdtype", "source", "log", "sequence"}, ..],
//      "taskId", "allocationId", "agentId", "containerId": defaults for the lines}
//
// The defaults are an extension that agents use; they stand before the list.
#ifndef MUSTER_MASTER_INGEST_LOG_PARSE_H
#define MUSTER_MASTER_INGEST_LOG_PARSE_H

#include "db/logs/loglines.h"
#include "master/common/request.h"

struct log_part { // the lines of one sender of one task, in order
    char *task, *allocation, *agent;
    int64_t *sequences; // one for each line; -1: none
    size_t count, cap;
    int64_t first_sequence, last_sequence; // of the lines that have one; -1: no line has one
    size_t first;                          // index of its first line in the body
    struct log_packer packer;
    struct log_packed *chunks; // all its lines
    size_t chunk_count;
    struct log_part *next;
};

struct log_post {
    struct log_part *parts, **end;
    size_t lines;
};

// Parse a body into rq->input (a struct log_post): log_post_read() an object, log_list_read() a
// bare list of lines. They change the text. ERR_INVALID, ERR_TOO_LARGE. A line without a time gets
// the current time.
int log_post_read(struct request *rq, char *text, size_t len, struct error *e);
int log_list_read(struct request *rq, char *text, size_t len, struct error *e);
void log_post_free(void *post); // NULL is fine

// Drops the lines whose sequence is at most `sequence`; lines without a sequence stay.
void log_part_drop(struct log_part *p, int64_t sequence);

#endif
