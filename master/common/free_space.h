// Watches the free space of the disk of the data directory and of the checkpoint storage. Below a
// floor the master refuses calls that grow the store (submissions, uploads, metrics, logs), so that
// deletions, logins, pauses and ends still have room. Below the floor of the checkpoint storage no
// trial starts. The state ends when the free space exceeds the floor by an eighth, so that it does
// not flicker.
//
// A thread looks at each place every second, for a network file system may hang. room_is_low() and
// room_say() may be called by any thread, and with NULL: there is room.
#ifndef MUSTER_MASTER_COMMON_FREE_SPACE_H
#define MUSTER_MASTER_COMMON_FREE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct room; // opaque

enum room_place { ROOM_DATA, ROOM_CHECKPOINTS, ROOM_PLACES };

// "2GiB", "500M", "5%", "0" (no floor); a number alone counts bytes. ERR_INVALID.
struct room_floor {
    uint64_t bytes;
    double percent; // of the file system; with bytes, the smaller of the two
};
int room_floor_parse(const char *text, struct room_floor *out, struct error *e);
extern const struct room_floor room_floor_default; // 1 GiB or 5 %, whichever is less

// Bytes of the file system that `path` lies on. 0, or -1 where it cannot be asked.
typedef int room_look(const char *path, uint64_t *free, uint64_t *total);
room_look room_look_statvfs;

struct room_options {
    const char *paths[ROOM_PLACES];
    struct room_floor floor;
    room_look *look; // NULL: room_look_statvfs; tests say what there is
    // Bytes that the store would fill before its file grows: what was deleted there. They count as
    // free, up to three quarters of the floor, since its log grows all the same. NULL: none.
    uint64_t (*spare)(void *spare_ctx);
    void *spare_ctx; // of the thread that looks, room_new() aside
    // Told on the watching thread when a place runs low or has room again. NULL: nobody.
    void (*changed)(void *ctx);
    void *ctx;
};

struct room *room_new(const struct room_options *options); // it has measured once
int room_start(struct room *r, struct error *e);           // from here on it watches
void room_free(struct room *r);                            // also stops; NULL is fine
void room_poll(struct room *r, enum room_place place);     // looks now

bool room_is_low(const struct room *r, enum room_place place);
int64_t room_low_since(const struct room *r, enum room_place place); // wall clock
// "the disk of the master's data (/var/lib/muster) is nearly full: 312 MiB of 40.0 GiB are free,
// and 1.0 GiB have to be; new submissions, ..": for people.
enum { ROOM_TEXT = 512 };
const char *room_say(const struct room *r, enum room_place place, char text[ROOM_TEXT]);
// The same without the path and the sizes, for callers who are not signed in.
const char *room_say_to_strangers(enum room_place place);

// The refusals: ERR_FULL of a submission and of a copy of the store, ERR_UNAVAILABLE of a report
// that is to be sent again later.
int room_refuse_submission(const struct room *r, struct error *e);
int room_refuse_copy(const struct room *r, struct error *e);
int room_refuse_report(const struct room *r, struct error *e);
enum { ROOM_RETRY_S = 10 }; // when a refused report may come again

#endif
