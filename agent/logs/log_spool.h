// The log spool: the output of a task's ranks and the messages of its supervisor as lines of a
// spool.
//
// An append never fails: lines for which there is no room are dropped and counted, and a line with
// their number precedes the next line that is written.
#ifndef MUSTER_AGENT_LOGS_LOG_SPOOL_H
#define MUSTER_AGENT_LOGS_LOG_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "agent/spool/spool.h"
#include "base/buf.h"
#include "base/error.h"

enum { LOG_SPOOL_DISK_MAX = 1 << 30 }; // bytes that are not sent yet; further lines are dropped

struct log_entry {
    int64_t wall_us;
    int rank;           // -1: none
    const char *level;  // word of WIRE_LOG_LEVEL
    const char *stream; // "stdout", "stderr"
    const char *source; // "task", "agent"
    const char *text;
    size_t len;
};

struct log_spool {
    struct spool file;
    int64_t dropped; // lines since the last one that was written
    const char *why_dropped;
    struct buf record;
};

// As spool_open(). The lines are {sequence, timestamp, rank (absent: none), level, stdtype, source,
// log}.
int log_spool_open(struct log_spool *s, const char *path, int64_t shipped, int64_t disk_max,
                   struct error *e);
void log_spool_append(struct log_spool *s, const struct log_entry *line);
// Appends a line of the agent or supervisor itself.
void log_spool_append_message(struct log_spool *s, const char *level, const char *text);
void log_spool_close(struct log_spool *s);

#endif
