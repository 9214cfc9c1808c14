// The newest entries of the master's own log, for GET /api/v1/master/logs. The complete log goes to
// standard error. Any thread.
#ifndef MUSTER_MASTER_COMMON_MASTER_LOG_H
#define MUSTER_MASTER_COMMON_MASTER_LOG_H

#include "base/arena.h"
#include "base/log.h"

enum { MASTER_LOG_LINES = 8192, MASTER_LOG_BYTES = 4 << 20 }; // limits; the newest entries stay

struct master_log; // opaque

struct master_log_entry {
    int64_t id, time; // ids ascend from 1; wall-clock microseconds
    enum log_level level;
    const char *text;
};

struct master_log *
master_log_new(void); // starts to listen to the log; call it before other threads start
void master_log_free(struct master_log *j);

// Both accept NULL as a log without entries.

// Copies the oldest entries after `id`, at most `max`, into the arena; returns their number.
size_t master_log_read(struct master_log *j, int64_t id, struct arena *arena,
                       struct master_log_entry *out, size_t max);

// The id before the oldest entry, and the id of the newest.
void master_log_range(struct master_log *j, int64_t *before, int64_t *newest);

#endif
