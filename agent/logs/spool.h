// The log spool of a task on this machine: a file of JSON lines with sequence numbers. The task's
// supervisor writes it (or the agent, if there is no supervisor), and the log shipper reads it.
//
// A write never fails: lines for which there is no room are dropped and counted, and a line with
// their number precedes the next line that is written. The part that the master has received is
// released from the front of the file as a hole, so the spool only takes the disk space of the
// lines that are still to be sent. One thread writes a spool and one thread reads it.
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
    SPOOL_BYTES_PER_BATCH = 1 << 20, // larger than any line
    SPOOL_DISK_MAX = 1 << 30,        // bytes that are not sent yet; further lines are dropped
};

struct spool_line {
    int64_t wall_us;
    int rank;           // -1: none
    const char *level;  // word of WIRE_LOG_LEVEL
    const char *stream; // "stdout", "stderr"
    const char *source; // "task", "agent"
    const char *text;
    size_t len;
};

struct spool {
    int fd;
    int64_t end;       // the offset after the last complete line
    int64_t sequence;  // of the last line that was written
    int64_t disk_max;  // bytes
    int64_t unchecked; // bytes written since disk_max was last checked
    int64_t dropped;   // lines since the last one that was written
    const char *why_dropped;
    struct buf record;
};

// Opens or creates the file and removes an incomplete last line. The sequence numbers continue
// after the last one in the file and after `shipped`, the last one that the master has received.
int spool_open(struct spool *s, const char *path, int64_t shipped, int64_t disk_max,
               struct error *e);
void spool_append(struct spool *s, const struct spool_line *line);
// Appends a line of the agent or supervisor itself.
void spool_append_message(struct spool *s, const char *level, const char *text);
void spool_close(struct spool *s);

struct spool_cursor {
    int64_t offset;   // bytes that the master has received
    int64_t sequence; // of the last of these lines
};

// A missing or damaged cursor loads as the start of the spool: the master ignores lines whose
// sequence numbers it knows.
void spool_cursor_load(const char *path, struct spool_cursor *c);
int spool_cursor_save(const char *path, const struct spool_cursor *c, struct error *e);

// Reads a batch of complete lines from the cursor into a new array of objects {sequence, timestamp,
// rank (absent: none), level, stdtype, source, log}. *next is the cursor after them; it equals *at
// if there are none yet. Skips damaged lines.
int spool_read(int fd, const struct spool_cursor *at, char scratch[SPOOL_BYTES_PER_BATCH],
               json_t **lines, struct spool_cursor *next, struct error *e);

// Releases the disk space before the cursor, if the file system supports holes.
void spool_release(int fd, const struct spool_cursor *shipped);

#endif
