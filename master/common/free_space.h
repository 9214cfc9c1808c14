// Watches the free space on the disks of the data directory and of the checkpoint storage. Below a
// floor the master refuses calls that grow the store (submissions, uploads, metrics, logs), so that
// deletions, logins, pauses and ends still have space. Below the floor of the checkpoint storage no
// trial starts. The low state ends when the free space exceeds the floor by an eighth, so that it
// does not flicker.
//
// A thread checks each place every second, because a network file system may hang. Any thread may
// call free_space_is_low() and free_space_describe(); with NULL there is always space.
#ifndef MUSTER_MASTER_COMMON_FREE_SPACE_H
#define MUSTER_MASTER_COMMON_FREE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text/size.h"

struct free_space; // opaque

enum free_space_place { FREE_SPACE_DATA, FREE_SPACE_CHECKPOINTS, FREE_SPACE_PLACES };

extern const struct disk_size free_space_floor_default; // 1 GiB or 5 %, whichever is less

// The size of the file system of `path` in bytes. Returns 0, or -1 if it cannot be read.
typedef int free_space_look(const char *path, uint64_t *free, uint64_t *total);
free_space_look free_space_look_statvfs;

struct free_space_options {
    const char *paths[FREE_SPACE_PLACES];
    struct disk_size floor;
    free_space_look *look; // NULL: statvfs; tests pass their own
    // Bytes that the store can fill before its file grows (deleted rows). They count as free, up to
    // three quarters of the floor, because the write-ahead log grows all the same. NULL: none.
    uint64_t (*spare)(void *spare_ctx);
    void *spare_ctx; // used by the watching thread, except in free_space_new()
    // Called on the watching thread when a place becomes low or has space again. May be NULL.
    void (*changed)(void *ctx);
    void *ctx;
};

struct free_space *free_space_new(const struct free_space_options *options); // measures once
int free_space_start(struct free_space *r, struct error *e);                 // starts to watch
void free_space_free(struct free_space *r);                              // also stops; accepts NULL
void free_space_poll(struct free_space *r, enum free_space_place place); // measures now

bool free_space_is_low(const struct free_space *r, enum free_space_place place);
int64_t free_space_low_since(const struct free_space *r, enum free_space_place place); // wall clock
// A text for users: "the disk of the master's data (/var/lib/muster) is nearly full: 312 MiB of
// 40.0 GiB are free, but at least 1.0 GiB must be; new submissions, ..".
enum { FREE_SPACE_TEXT = 512 };
const char *free_space_describe(const struct free_space *r, enum free_space_place place,
                                char text[FREE_SPACE_TEXT]);
// The same without path and sizes, for callers who are not signed in.
const char *free_space_describe_public(enum free_space_place place);

// The name of a place, "data" or "checkpoints", and its size in bytes; `minimum` is the floor.
extern const char *const free_space_words[FREE_SPACE_PLACES];
struct free_space_figures {
    uint64_t free, total, minimum;
};
// `total` is 0 until the file system was queried.
void free_space_read(const struct free_space *r, enum free_space_place place,
                     struct free_space_figures *out);
// Whether less than twice the floor is free, so that people should act before work is refused;
// writes a text for administrators. When both places are on one disk, only the first one is
// filling.
bool free_space_is_filling(const struct free_space *r, enum free_space_place place,
                           char text[FREE_SPACE_TEXT]);

// The refusals: ERR_FULL for a submission and for a copy of the store, ERR_UNAVAILABLE for a report
// that the sender repeats later.
int free_space_refuse_submission(const struct free_space *r, struct error *e);
int free_space_refuse_copy(const struct free_space *r, struct error *e);
int free_space_refuse_report(const struct free_space *r, struct error *e);
enum { FREE_SPACE_RETRY_S = 10 }; // after which a refused report may be repeated

#endif
