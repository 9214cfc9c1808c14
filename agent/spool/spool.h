// The spool of a task on this machine: a file of JSON lines with sequence numbers, for example its
// output or the reports of its program. The task's supervisor writes it (or the agent, if there is
// no supervisor), and a shipper reads it.
//
// The part that the master has received is released from the front of the file as a hole, so the
// spool only takes the disk space of the lines that are still to be sent. One thread writes a spool
// and one thread reads it. A write is not flushed to disk: it survives the end of any process, but
// not of the machine, which ends the task, too.
#ifndef MUSTER_AGENT_SPOOL_SPOOL_H
#define MUSTER_AGENT_SPOOL_SPOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    SPOOL_LINES_PER_BATCH = 1000,
    SPOOL_BYTES_PER_BATCH = 2 << 20, // larger than any line
};

struct spool {
    int fd;
    int64_t end;       // the offset after the last complete line
    int64_t sequence;  // of the last line that was written
    int64_t disk_max;  // bytes that may wait to be sent
    int64_t unchecked; // bytes written since disk_max was last checked
    bool full;         // the last line found no room
};

// Opens or creates the file and removes an incomplete last line. The sequence numbers continue
// after the last one in the file and after `shipped`, the last one that the master has received.
// ERR_IO: nothing is open, and spool_close() may be called.
int spool_open(struct spool *s, const char *path, int64_t shipped, int64_t disk_max,
               struct error *e);
// Appends a complete line, which has the sequence number s->sequence + 1 and ends with "\n".
// ERR_BUSY: disk_max bytes wait to be sent. ERR_FULL, ERR_IO: the file cannot grow.
int spool_write(struct spool *s, const char *line, size_t len, struct error *e);
void spool_close(struct spool *s);

struct spool_cursor {
    int64_t offset;   // bytes that the master has received
    int64_t sequence; // of the last of these lines
};

// A missing or damaged cursor loads as the start of the spool: the master ignores lines whose
// sequence numbers it knows.
void spool_cursor_load(const char *path, struct spool_cursor *c);
int spool_cursor_save(const char *path, const struct spool_cursor *c, struct error *e);

// Reads a batch of complete lines from the cursor into a new array of objects, each with its
// `sequence`. *next is the cursor after them; it equals *at if there are none yet. Skips damaged
// lines.
int spool_read(int fd, const struct spool_cursor *at, char scratch[SPOOL_BYTES_PER_BATCH],
               json_t **lines, struct spool_cursor *next, struct error *e);

// Releases the disk space before the cursor, if the file system supports holes.
void spool_release(int fd, const struct spool_cursor *shipped);

#endif
