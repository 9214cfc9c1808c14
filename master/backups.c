#include "master/backups.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "db/backup.h"

enum { RETRY_S = 600 }; // after a failed backup

struct backups {
    char *store, *folder;
    const struct free_space *free_space;
    int64_t every_us;
    int keep;
    pthread_t thread;
    pthread_mutex_t lock; // protects the following fields
    pthread_cond_t changed;
    bool stopping;
    int64_t newest; // seconds since 1970; 0: none
};

static const char form[] = "muster-%Y%m%dT%H%M%SZ.db";

static char *name_of(const char *folder, int64_t seconds)
{
    char name[64];
    time_t at = (time_t)seconds;
    struct tm utc;
    strftime(name, sizeof name, form, gmtime_r(&at, &utc));
    return path_join(folder, name);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

int64_t *backups_found(const char *folder, size_t *count)
{
    size_t cap = 0;
    int64_t *found = NULL;
    const struct dirent *entry;
    DIR *dir = opendir(folder);
    *count = 0;
    while (dir && (entry = readdir(dir))) {
        struct tm utc = {0};
        const char *end = strptime(entry->d_name, form, &utc);
        if (!end || *end)
            continue;
        if (*count == cap) {
            cap = cap ? 2 * cap : 16;
            found = xrealloc(found, cap * sizeof *found);
        }
        found[(*count)++] = timegm(&utc);
    }
    if (dir)
        closedir(dir);
    if (*count)
        qsort(found, *count, sizeof *found, newest_first);
    return found;
}

static bool is_wanted(void *ctx, const char *what, int64_t done, int64_t total)
{
    struct backups *b = ctx;
    (void)what, (void)done, (void)total;
    pthread_mutex_lock(&b->lock);
    bool wanted = !b->stopping;
    pthread_mutex_unlock(&b->lock);
    return wanted;
}

// Backups from the future, which were made while the clock was ahead, count as the oldest ones:
// otherwise they would take the place of the one that was just made.
static void remove_old(const struct backups *b, int64_t now)
{
    size_t count, future = 0;
    int64_t *found = backups_found(b->folder, &count);
    while (future < count && found[future] > now)
        future++;
    for (size_t i = (size_t)b->keep; i < count; i++) {
        char *path = name_of(b->folder, found[(future + i) % count]);
        if (!unlink(path))
            log_info("an old backup was removed", "path=%s", path);
        free(path);
    }
    free(found);
}

static void set_newest(struct backups *b, int64_t seconds)
{
    pthread_mutex_lock(&b->lock);
    b->newest = seconds;
    pthread_mutex_unlock(&b->lock);
}

int64_t backups_newest(void *backups)
{
    struct backups *b = backups;
    pthread_mutex_lock(&b->lock);
    int64_t newest = b->newest;
    pthread_mutex_unlock(&b->lock);
    return newest;
}

// Seconds until the next backup is due.
static int64_t make(struct backups *b)
{
    const struct backup_watch watch = {is_wanted, b};
    struct backup_report report;
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    int64_t now = clock_wall_us() / 1000000;
    char *path = name_of(b->folder, now);
    int err = free_space_refuse_copy(b->free_space, &e);
    if (!err)
        err = backup_make(b->store, path, true, &watch, &report, &e);
    if (!err) {
        log_info("the store was backed up", "path=%s bytes=%lld rows=%lld", path,
                 (long long)report.bytes, (long long)report.rows);
        set_newest(b, now);
        remove_old(b, now);
    } else if (err != ERR_TIMEOUT) {
        log_error("the store could not be backed up; it is tried again in ten minutes", "err=%s",
                  log_quote(quoted, sizeof quoted, e.text));
    }
    free(path);
    return err ? RETRY_S : b->every_us / 1000000;
}

static int64_t newest_in(const char *folder)
{
    size_t count;
    int64_t *found = backups_found(folder, &count);
    int64_t newest = count ? found[0] : 0;
    free(found);
    return newest;
}

static int64_t until_first(const struct backups *b)
{
    int64_t every = b->every_us / 1000000, next = b->newest + every - clock_wall_us() / 1000000;
    return next > 0 && next <= every ? next : 0; // longer: the clock was ahead at the newest one
}

static bool wait_for(struct backups *b, int64_t seconds)
{
    struct timespec until;
    // A wall clock that is set back must not delay backups.
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    pthread_mutex_lock(&b->lock);
    while (!b->stopping && !pthread_cond_clockwait(&b->changed, &b->lock, CLOCK_MONOTONIC, &until))
        ;
    bool goes_on = !b->stopping;
    pthread_mutex_unlock(&b->lock);
    return goes_on;
}

static void *run(void *arg)
{
    struct backups *b = arg;
    for (int64_t seconds = until_first(b); wait_for(b, seconds);)
        seconds = make(b);
    return NULL;
}

int backups_start(const char *store, const char *folder, const struct free_space *free_space,
                  int64_t every_us, int keep, struct backups **out, struct error *e)
{
    int err = dir_make(folder, 0700, e);
    if (err)
        return err;
    struct backups *b = xcalloc(1, sizeof *b);
    b->store = xstrdup(store);
    b->folder = xstrdup(folder);
    b->free_space = free_space;
    b->every_us = every_us;
    b->keep = keep;
    b->newest = newest_in(folder);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    must(pthread_create(&b->thread, NULL, run, b) == 0);
    *out = b;
    return 0;
}

void backups_stop(struct backups *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->stopping = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b->store);
    free(b->folder);
    free(b);
}
