// A round measures every task. It works for a tenth of the time and sleeps for the rest, so that a
// task with millions of files does not take the processors from others; only when the disk is
// nearly full does it go on without a pause, because then the present sizes decide.
#include "agent/quotas/disk_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"

enum {
    STEP_ENTRIES = 1000,       // of a folder, between two looks at the free space
    WORK_PART = 10,            // of the time
    LOOK_EVERY_MS = 250,       // at the free space
    ROUND_EVERY_MS = 5 * 1000, // at least, from the end of a round to the next
    URGENT_AGAIN_MS = 1000,    // while the files of a task that ends are removed
    HELPLESS_AGAIN_MS = 30 * 1000,
    TASKS_FIRST = 16,
};

struct measured_task {
    char *id;
    struct task_use use;
    bool seen; // in this round
};

struct disk_watch {
    char *folder;
    struct disk_rules rules;
    struct inbox *inbox;
    int tasks_fd, stop_fd;
    struct measured_task *tasks;
    size_t count, room;
    int64_t urgent_at; // monotonic: no urgent round before
    bool warned;       // that the disk is nearly full, and no task can help
    pthread_t thread;
};

// True: the thread must end.
static bool pause_ms(const struct disk_watch *w, int64_t ms)
{
    struct pollfd stop = {.fd = w->stop_fd, .events = POLLIN};
    return poll(&stop, 1, ms > 0 ? (int)ms : 0) > 0;
}

static bool read_disk(const struct disk_watch *w, struct disk_state *out)
{
    struct statvfs s;
    if (fstatvfs(w->tasks_fd, &s) != 0)
        return false;
    *out = (struct disk_state){
        .free = (uint64_t)s.f_bavail * s.f_frsize,
        .total = (uint64_t)s.f_blocks * s.f_frsize,
        .free_files = s.f_favail,
        .total_files = s.f_files,
    };
    return true;
}

static bool is_low(const struct disk_watch *w)
{
    struct disk_state disk;
    return read_disk(w, &disk) && disk_rules_is_low(&w->rules, &disk);
}

// --- the tasks -----------------------------------------------------------------------------------

static struct measured_task *find_task(struct disk_watch *w, const char *id)
{
    for (size_t i = 0; i < w->count; i++)
        if (!strcmp(w->tasks[i].id, id))
            return &w->tasks[i];
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : TASKS_FIRST;
        w->tasks = xrealloc(w->tasks, w->room * sizeof *w->tasks);
    }
    w->tasks[w->count] = (struct measured_task){.id = xstrdup(id)};
    return &w->tasks[w->count++];
}

// Forgets the tasks whose folders have gone.
static void drop_unseen(struct disk_watch *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (w->tasks[i].seen)
            w->tasks[kept++] = w->tasks[i];
        else
            free(w->tasks[i].id);
    }
    w->count = kept;
}

static void check_task(struct disk_watch *w, const char *id, const struct folder_use *use)
{
    struct error e = {0};
    struct disk_state disk;
    if (read_disk(w, &disk) && disk_rules_check_task(&w->rules, &disk, use, &e) != 0)
        inbox_send(w->inbox, INBOX_QUOTA, id, &e);
}

// True: the thread must end, or, unless `urgent`, the disk is low and an urgent round must begin.
static bool measure_task(struct disk_watch *w, const char *id, bool urgent)
{
    struct folder_walk *walk = folder_walk_open(w->tasks_fd, id);
    bool done = !walk, stop = false;
    while (!done && !stop) {
        int64_t began = clock_mono_us();
        done = folder_walk_step(walk, STEP_ENTRIES);
        int64_t took_us = clock_mono_us() - began;
        stop = pause_ms(w, urgent ? 0 : took_us * (WORK_PART - 1) / 1000) ||
               (!urgent && clock_mono_us() >= w->urgent_at && is_low(w));
        if (!done && !stop) // a quota that is exceeded already need not wait for the end
            check_task(w, id, folder_walk_use(walk));
    }
    if (walk && done) {
        struct measured_task *task = find_task(w, id);
        task->use.use = *folder_walk_use(walk);
        task->seen = true;
        check_task(w, id, &task->use.use);
    }
    folder_walk_close(walk);
    return stop;
}

// Returns whether all tasks were measured.
static bool measure_all(struct disk_watch *w, bool urgent)
{
    bool stop = false;
    for (size_t i = 0; i < w->count; i++)
        w->tasks[i].seen = false; // also after a round that was interrupted
    int fd = openat(w->tasks_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *entry; folder && !stop && (entry = readdir(folder));)
        if (taskdir_id_valid(entry->d_name))
            stop = measure_task(w, entry->d_name, urgent);
    if (folder)
        closedir(folder);
    else if (fd >= 0)
        close(fd);
    if (!stop)
        drop_unseen(w);
    return !stop;
}

// --- a full disk ---------------------------------------------------------------------------------

static void warn_full(struct disk_watch *w)
{
    if (!w->warned)
        log_warn("the disk of the work folder is nearly full, and no task has filled it",
                 "folder=%s advice=\"free some space\"", w->folder);
    w->warned = true;
}

// Chooses among the sizes of this round.
static void end_largest(struct disk_watch *w)
{
    struct error e = {0};
    struct disk_state disk;
    bool low = read_disk(w, &disk) && disk_rules_is_low(&w->rules, &disk), ending = false;
    if (!low)
        return;
    struct task_use *uses = xcalloc(w->count + 1, sizeof *uses);
    for (size_t i = 0; i < w->count; i++) {
        uses[i] = w->tasks[i].use;
        ending |= uses[i].ending;
    }
    int chosen = disk_rules_choose(&w->rules, &disk, uses, w->count, &e);
    if (chosen >= 0) {
        w->tasks[chosen].use.ending = true;
        inbox_send(w->inbox, INBOX_QUOTA, w->tasks[chosen].id, &e);
    } else if (!ending) {
        warn_full(w);
    }
    bool helpless = chosen < 0 && !ending;
    w->urgent_at = clock_mono_us() + (helpless ? HELPLESS_AGAIN_MS : URGENT_AGAIN_MS) * 1000;
    free(uses);
}

// Waits for the next round. True: the thread must end.
static bool wait_for_round(struct disk_watch *w)
{
    bool stop = pause_ms(w, 0);
    for (int64_t ms = 0; ms < ROUND_EVERY_MS && !stop; ms += LOOK_EVERY_MS) {
        bool low = is_low(w);
        w->warned &= low;
        w->urgent_at = low ? w->urgent_at : 0;
        if (low && clock_mono_us() >= w->urgent_at)
            return false;
        stop = pause_ms(w, LOOK_EVERY_MS);
    }
    return stop;
}

static void *watch_thread(void *arg)
{
    struct disk_watch *w = arg;
    do {
        bool urgent = clock_mono_us() >= w->urgent_at && is_low(w);
        if (measure_all(w, urgent))
            end_largest(w);
    } while (!wait_for_round(w));
    return NULL;
}

// --- start and end -------------------------------------------------------------------------------

static void watch_free(struct disk_watch *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->tasks[i].id);
    if (w->tasks_fd >= 0)
        close(w->tasks_fd);
    if (w->stop_fd >= 0)
        close(w->stop_fd);
    free(w->tasks);
    free(w->folder);
    free(w);
}

int disk_watch_start(const char *folder, const struct disk_rules *rules, struct inbox *inbox,
                     struct disk_watch **out, struct error *e)
{
    struct disk_watch *w = xcalloc(1, sizeof *w);
    *w = (struct disk_watch){.folder = xstrdup(folder),
                             .rules = *rules,
                             .inbox = inbox,
                             .tasks_fd = -1,
                             .stop_fd = eventfd(0, EFD_CLOEXEC)};
    int err = w->stop_fd >= 0 ? dir_open(folder, &w->tasks_fd, e)
                              : error_set_errno(e, ERR_INTERNAL, errno, "cannot make an eventfd");
    if (!err) {
        int code = pthread_create(&w->thread, NULL, watch_thread, w);
        err = code ? error_set_errno(e, ERR_INTERNAL, code, "cannot start a thread") : 0;
    }
    if (err)
        watch_free(w);
    else
        *out = w;
    return err;
}

void disk_watch_stop(struct disk_watch *w)
{
    if (!w)
        return;
    must(eventfd_write(w->stop_fd, 1) == 0);
    pthread_join(w->thread, NULL);
    watch_free(w);
}
