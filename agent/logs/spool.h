// The log spool of a task on this machine: one file of JSON lines with sequence numbers, written by
// the task's supervisor (or by the agent while there is none), read by the agent's log shipper.
//
// Writing never fails to the caller: lines that find no room are dropped and counted, and the first
// line that is written again is preceded by one that says how many. What the shipper has brought to
// the master is cut out of the file's front as a hole, so the spool takes only the room of what is
// still to be sent. A spool writer belongs to one process and one thread, a reader to one thread.
#ifndef MUSTER_AGENT_LOGS_SPOOL_H
#define MUSTER_AGENT_LOGS_SPOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum {
    SPOOL_LINES_PER_BATCH = 1000,
    SPOOL_BYTES_PER_BATCH = 1 << 20, // more than one line can take
    SPOOL_DISK_MAX = 1 << 30,        // bytes waiting to be sent; further lines are dropped
};

struct spool_line {
    int64_t wall_us;
    int rank;           // -1: of no rank
    const char *level;  // word of WIRE_LOG_LEVEL
    const char *stream; // "stdout", "stderr"
    const char *source; // "task", "agent"
    const char *text;
    size_t len;
};

struct spool {
    int fd;
    int64_t end;       // the file's length: after the last whole line
    int64_t sequence;  // of the last line written
    int64_t disk_max;  // bytes
    int64_t unchecked; // bytes written since the last look at the file's room
    int64_t dropped;   // lines, since the last one that was written
    const char *why_dropped;
    struct buf record;
};

// Opens or makes the file; a torn last line is taken away. Sequence numbers go on after the last
// one in the file, and after `shipped`, the last one that the master has.
int spool_open(struct spool *s, const char *path, int64_t shipped, int64_t disk_max,
               struct error *e);
void spool_append(struct spool *s, const struct spool_line *line);
void spool_say(struct spool *s, const char *level, const char *text); // a line of our own
void spool_close(struct spool *s);

struct spool_cursor {
    int64_t offset;   // bytes that the master has
    int64_t sequence; // of the last line it has
};

// A cursor that is not there or damaged is the beginning: repeated lines do no harm, their sequence
// numbers are known to the master.
void spool_cursor_load(const char *path, struct spool_cursor *c);
int spool_cursor_save(const char *path, const struct spool_cursor *c, struct error *e);

// Reads whole lines from the cursor on, at most a batch, into a new array of objects {sequence,
// timestamp, rank (absent: none), level, stdtype, source, log}. *next is the cursor after them;
// equal to *at when there is nothing yet. Damaged lines are left out.
int spool_read(int fd, const struct spool_cursor *at, char scratch[SPOOL_BYTES_PER_BATCH],
               json_t **lines, struct spool_cursor *next, struct error *e);

// Gives the room before the cursor back to the file system, where it can do that.
void spool_release(int fd, const struct spool_cursor *shipped);

#endif
