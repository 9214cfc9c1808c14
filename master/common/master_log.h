// What the master itself has logged lately, for GET /api/v1/master/logs. Its whole log is on
// standard error. Any thread.
#ifndef MUSTER_MASTER_COMMON_MASTER_LOG_H
#define MUSTER_MASTER_COMMON_MASTER_LOG_H

#include "base/arena.h"
#include "base/log.h"

enum { JOURNAL_LINES = 8192, JOURNAL_BYTES = 4 << 20 }; // it keeps the newest

struct journal; // opaque

struct journal_entry {
    int64_t id, time; // ids go up from 1; wall microseconds
    enum log_level level;
    const char *text;
};

struct journal *journal_new(void); // and listens to the log: before other threads are started
void journal_free(struct journal *j);

// Both take NULL, a journal without entries.

// The oldest entries after `id`, at most `max`, copied into the arena; how many.
size_t journal_read(struct journal *j, int64_t id, struct arena *arena, struct journal_entry *out,
                    size_t max);

// The id before the oldest entry there is, and that of the newest.
void journal_range(struct journal *j, int64_t *before, int64_t *newest);

#endif
