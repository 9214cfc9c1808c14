#include "master/common/free_space.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"

enum { LOOK_EVERY_S = 1, END_MOST_S = 2 };

const struct disk_size free_space_floor_default = {.bytes = 1 << 30, .percent = 5};

struct watched {
    struct free_space *free_space;
    enum free_space_place place;
    char *path;
    bool same_disk; // as the place before
    atomic_bool low;
    atomic_int_least64_t since; // wall clock; of low
    atomic_uint_least64_t free, total;
    pthread_t thread;
    bool runs;
};

struct free_space {
    struct free_space_options o;
    struct watched places[FREE_SPACE_PLACES];
    pthread_mutex_t lock; // protects the following fields
    pthread_cond_t changed;
    bool stops;
};

// --- looking -------------------------------------------------------------------------------------

int free_space_look_statvfs(const char *path, uint64_t *free, uint64_t *total)
{
    struct statvfs s;
    if (statvfs(path, &s))
        return -1;
    *free = (uint64_t)s.f_bavail * s.f_frsize;
    *total = (uint64_t)s.f_blocks * s.f_frsize;
    return 0;
}

static void report_change(const struct free_space *r, enum free_space_place place, bool low)
{
    char text[FREE_SPACE_TEXT], quoted[2 * FREE_SPACE_TEXT];
    if (low)
        log_warn("the disk is nearly full", "what=%s",
                 log_quote(quoted, sizeof quoted, free_space_describe(r, place, text)));
    else
        log_info("the disk has space again", "path=%s",
                 log_quote(quoted, sizeof quoted, r->places[place].path));
    if (r->o.changed)
        r->o.changed(r->o.ctx);
}

void free_space_poll(struct free_space *r, enum free_space_place place)
{
    struct watched *w = &r->places[place];
    uint64_t free, total;
    if (r->o.look(w->path, &free, &total))
        return; // the state is unchanged
    uint64_t minimum = disk_size_of(&r->o.floor, total);
    uint64_t spare = place == FREE_SPACE_DATA && r->o.spare ? r->o.spare(r->o.spare_ctx) : 0;
    bool was = atomic_load(&w->low);
    free += spare < minimum / 4 * 3 ? spare : minimum / 4 * 3;
    bool low = free < (was ? minimum + minimum / 8 : minimum);
    atomic_store(&w->free, free);
    atomic_store(&w->total, total);
    if (low && !was)
        atomic_store(&w->since, clock_wall_us());
    atomic_store(&w->low, low);
    if (low != was)
        report_change(r, place, low);
}

static void *watch_place(void *arg)
{
    struct watched *w = arg;
    struct free_space *r = w->free_space;
    pthread_mutex_lock(&r->lock);
    while (!r->stops) {
        struct timespec until;
        // A wall clock that is set back must not delay the check.
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += LOOK_EVERY_S;
        pthread_cond_clockwait(&r->changed, &r->lock, CLOCK_MONOTONIC, &until);
        if (r->stops)
            break;
        pthread_mutex_unlock(&r->lock);
        free_space_poll(r, w->place);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

// --- creation and release ------------------------------------------------------------------------

static bool on_one_disk(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev;
}

struct free_space *free_space_new(const struct free_space_options *options)
{
    struct free_space *r = xcalloc(1, sizeof *r);
    r->o = *options;
    if (!r->o.look)
        r->o.look = free_space_look_statvfs;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    for (int i = 0; i < FREE_SPACE_PLACES; i++) {
        r->places[i].free_space = r;
        r->places[i].place = (enum free_space_place)i;
        r->places[i].path = xstrdup(options->paths[i]);
        r->places[i].same_disk = i && on_one_disk(options->paths[i - 1], options->paths[i]);
        free_space_poll(r, (enum free_space_place)i);
    }
    return r;
}

int free_space_start(struct free_space *r, struct error *e)
{
    for (int i = 0; i < FREE_SPACE_PLACES; i++) {
        int err = pthread_create(&r->places[i].thread, NULL, watch_place, &r->places[i]);
        if (err)
            return error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
        r->places[i].runs = true;
    }
    return 0;
}

void free_space_free(struct free_space *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stops = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    struct timespec until;
    bool hangs = false;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_MOST_S;
    for (int i = 0; i < FREE_SPACE_PLACES; i++)
        hangs |= r->places[i].runs && pthread_timedjoin_np(r->places[i].thread, NULL, &until);
    if (hangs)
        return; // the file system does not answer; the process ends anyway
    for (int i = 0; i < FREE_SPACE_PLACES; i++)
        free(r->places[i].path);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

// --- asked ---------------------------------------------------------------------------------------

bool free_space_is_low(const struct free_space *r, enum free_space_place place)
{
    return r && atomic_load(&r->places[place].low);
}

int64_t free_space_low_since(const struct free_space *r, enum free_space_place place)
{
    return atomic_load(&r->places[place].since);
}

static const char *const place_names[FREE_SPACE_PLACES] = {"the disk of the master's data",
                                                           "the checkpoint storage"};

static void describe_shortage(const struct free_space *r, enum free_space_place place,
                              char text[FREE_SPACE_TEXT])
{
    const struct watched *w = &r->places[place];
    char free[SIZE_TEXT], total[SIZE_TEXT], minimum[SIZE_TEXT];
    uint64_t size = atomic_load(&w->total);
    snprintf(text, FREE_SPACE_TEXT,
             "%s (%.200s) is nearly full: %s of %s are free, but at least %s must be",
             place_names[place], w->path, size_text(atomic_load(&w->free), free),
             size_text(size, total), size_text(disk_size_of(&r->o.floor, size), minimum));
}

const char *free_space_describe(const struct free_space *r, enum free_space_place place,
                                char text[FREE_SPACE_TEXT])
{
    static const char *const remedy[FREE_SPACE_PLACES] = {
        "new submissions, metrics and logs wait until there is more; delete experiments or other "
        "files",
        "no trial starts until there is more; delete checkpoints or other files"};
    describe_shortage(r, place, text);
    size_t len = strlen(text);
    snprintf(text + len, FREE_SPACE_TEXT - len, "; %s", remedy[place]);
    return text;
}

const char *free_space_describe_public(enum free_space_place place)
{
    static const char *const texts[FREE_SPACE_PLACES] = {
        "the disk of the master's data is nearly full", "the checkpoint storage is nearly full"};
    return texts[place];
}

const char *const free_space_words[FREE_SPACE_PLACES] = {"data", "checkpoints"};

void free_space_read(const struct free_space *r, enum free_space_place place,
                     struct free_space_figures *out)
{
    *out = (struct free_space_figures){0};
    if (!r)
        return;
    out->free = atomic_load(&r->places[place].free);
    out->total = atomic_load(&r->places[place].total);
    out->minimum = disk_size_of(&r->o.floor, out->total);
}

bool free_space_is_filling(const struct free_space *r, enum free_space_place place,
                           char text[FREE_SPACE_TEXT])
{
    struct free_space_figures f;
    char free[SIZE_TEXT], total[SIZE_TEXT], minimum[SIZE_TEXT];
    free_space_read(r, place, &f);
    if (!f.total || f.free >= 2 * f.minimum || r->places[place].same_disk)
        return false;
    snprintf(text, FREE_SPACE_TEXT, "%s (%.200s) fills up: %s of %s are free; below %s %s",
             place_names[place], r->places[place].path, size_text(f.free, free),
             size_text(f.total, total), size_text(f.minimum, minimum),
             place == FREE_SPACE_DATA
                 ? "the master refuses submissions, metrics and logs; delete experiments or other "
                   "files"
                 : "no trial starts; delete checkpoints or other files");
    return true;
}

int free_space_refuse_submission(const struct free_space *r, struct error *e)
{
    char text[FREE_SPACE_TEXT];
    return free_space_is_low(r, FREE_SPACE_DATA)
               ? error_set(e, ERR_FULL, "%s", free_space_describe(r, FREE_SPACE_DATA, text))
               : 0;
}

int free_space_refuse_copy(const struct free_space *r, struct error *e)
{
    char text[FREE_SPACE_TEXT];
    if (!free_space_is_low(r, FREE_SPACE_DATA))
        return 0;
    describe_shortage(r, FREE_SPACE_DATA, text);
    return error_set(
        e, ERR_FULL,
        "there is not enough free space for a copy of the store: %s; delete experiments or other "
        "files",
        text);
}

int free_space_refuse_report(const struct free_space *r, struct error *e)
{
    char text[FREE_SPACE_TEXT];
    return free_space_is_low(r, FREE_SPACE_DATA)
               ? error_set(e, ERR_UNAVAILABLE, "send it again later: %s",
                           free_space_describe(r, FREE_SPACE_DATA, text))
               : 0;
}
