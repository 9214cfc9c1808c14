#include "tests/unit/db/faulty_vfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"

enum { SECTOR = 512 }; // the unit that a disk writes as a whole

const char *const fault_names[FAULTS] = {"none",
                                         "a full disk",
                                         "a failing write",
                                         "a failing flush",
                                         "failing flushes",
                                         "a failing truncation",
                                         "a power cut"};

struct unflushed {                     // a write since the last flush of its medium
    sqlite3_int64 offset, size_before; // of the file
    int len;
    unsigned char *before, *after; // `before` is 0 beyond the end of the file
    struct unflushed *older;
};

// The contents of one file on the disk, shared by all who have it open: a flush covers the writes
// of every connection.
struct medium {
    char *path;
    struct unflushed *newest;
    struct medium *next;
};

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real;    // stored after this struct
    struct medium *medium; // the store or its log; NULL: writes are not remembered
    bool error_owed;       // a flush through another handle failed, and the next flush of this one
                           // reports it, too
    struct faulty_file *next;
};

// One lock protects everything: writer and readers are threads.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sqlite3_vfs *real_vfs, vfs;
static struct faulty_file *files;
static struct medium *media;
static enum fault fault;
static int countdown, failures;
static struct rng rng;

// --- lost writes ---------------------------------------------------------------------------------

static void write_sectors(const struct faulty_file *f, const unsigned char *data, int len,
                          sqlite3_int64 offset)
{
    f->real->pMethods->xWrite(f->real, data, len, offset);
}

// Restores the file after its last flush, then writes some sectors of later writes, oldest first.
static void lose_unflushed(struct faulty_file *f)
{
    struct medium *m = f->medium;
    struct unflushed *oldest = NULL, *w;
    for (w = m->newest; w; w = w->older)
        write_sectors(f, w->before, w->len, w->offset);
    while ((w = m->newest)) { // reverses the list
        m->newest = w->older;
        w->older = oldest;
        oldest = w;
    }
    if (oldest)
        f->real->pMethods->xTruncate(f->real, oldest->size_before);
    while ((w = oldest)) {
        for (int at = 0; at < w->len; at += SECTOR)
            if (rng_below(&rng, 2))
                write_sectors(f, w->after + at, w->len - at < SECTOR ? w->len - at : SECTOR,
                              w->offset + at);
        oldest = w->older;
        free(w->before);
        free(w->after);
        free(w);
    }
}

static void medium_forget(struct medium *m)
{
    while (m && m->newest) {
        struct unflushed *w = m->newest;
        m->newest = w->older;
        free(w->before);
        free(w->after);
        free(w);
    }
}

static void medium_remember(struct faulty_file *f, const void *data, int len, sqlite3_int64 offset)
{
    struct unflushed *w = xcalloc(1, sizeof *w);
    w->offset = offset;
    w->len = len;
    w->before = xcalloc((size_t)len, 1);
    w->after = xcalloc((size_t)len, 1);
    memcpy(w->after, data, (size_t)len);
    f->real->pMethods->xFileSize(f->real, &w->size_before);
    f->real->pMethods->xRead(f->real, w->before, len, offset); // bytes beyond the end are read as 0
    w->older = f->medium->newest;
    f->medium->newest = w;
}

static void cut_power(void)
{
    for (struct faulty_file *f = files; f; f = f->next)
        if (f->medium)
            lose_unflushed(f);
    _exit(FAULTY_POWER_CUT);
}

// Returns whether this operation, which `kinds` of faults concern, fails.
static bool should_fail(unsigned kinds)
{
    if (!(kinds & 1U << fault) || (countdown > 0 && --countdown > 0))
        return false;
    if (fault == FAULT_POWER)
        cut_power();
    bool lasts = fault == FAULT_FULL || fault == FAULT_SYNC_ALL;
    if (!lasts && failures)
        return false;
    failures++;
    return true;
}

// --- files ---------------------------------------------------------------------------------------

#define FILE_OF(file) ((struct faulty_file *)(void *)(file))
#define REAL(file)    (FILE_OF(file)->real)

static int faulty_close(sqlite3_file *file)
{
    pthread_mutex_lock(&lock);
    struct faulty_file *f = FILE_OF(file), **at = &files;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    int rc = f->real->pMethods->xClose(f->real);
    pthread_mutex_unlock(&lock);
    return rc;
}

static int faulty_read(sqlite3_file *file, void *data, int len, sqlite3_int64 offset)
{
    return REAL(file)->pMethods->xRead(REAL(file), data, len, offset);
}

static int faulty_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 offset)
{
    struct faulty_file *f = FILE_OF(file);
    int rc;
    pthread_mutex_lock(&lock);
    if (f->medium && should_fail(1U << FAULT_FULL | 1U << FAULT_WRITE | 1U << FAULT_POWER)) {
        rc = fault == FAULT_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    } else {
        if (f->medium)
            medium_remember(f, data, len, offset);
        rc = f->real->pMethods->xWrite(f->real, data, len, offset);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct faulty_file *f = FILE_OF(file);
    pthread_mutex_lock(&lock);
    int rc = SQLITE_IOERR_TRUNCATE;
    if (!f->medium || !should_fail(1U << FAULT_TRUNCATE)) {
        medium_forget(f->medium); // a truncation is taken to last, with all writes before it
        rc = f->real->pMethods->xTruncate(f->real, size);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

// Linux reports a write-back error once to everybody who has the file open.
static void owe_error_to_others(const struct faulty_file *f)
{
    for (struct faulty_file *other = files; other; other = other->next)
        if (other != f && other->medium == f->medium)
            other->error_owed = true;
}

static int faulty_sync(sqlite3_file *file, int flags)
{
    struct faulty_file *f = FILE_OF(file);
    int rc;
    pthread_mutex_lock(&lock);
    if (f->medium && should_fail(1U << FAULT_SYNC | 1U << FAULT_SYNC_ALL | 1U << FAULT_POWER)) {
        lose_unflushed(f);
        owe_error_to_others(f);
        rc = SQLITE_IOERR_FSYNC;
    } else if (f->error_owed) {
        f->error_owed = false;
        rc = SQLITE_IOERR_FSYNC;
    } else {
        medium_forget(f->medium);
        rc = f->real->pMethods->xSync(f->real, flags);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return REAL(file)->pMethods->xFileSize(REAL(file), size);
}

static int faulty_lock(sqlite3_file *file, int level)
{
    return REAL(file)->pMethods->xLock(REAL(file), level);
}

static int faulty_unlock(sqlite3_file *file, int level)
{
    return REAL(file)->pMethods->xUnlock(REAL(file), level);
}

static int faulty_check_lock(sqlite3_file *file, int *out)
{
    return REAL(file)->pMethods->xCheckReservedLock(REAL(file), out);
}

static int faulty_control(sqlite3_file *file, int op, void *arg)
{
    return REAL(file)->pMethods->xFileControl(REAL(file), op, arg);
}

static int faulty_sector(sqlite3_file *file)
{
    return REAL(file)->pMethods->xSectorSize(REAL(file));
}

static int faulty_device(sqlite3_file *file)
{
    return REAL(file)->pMethods->xDeviceCharacteristics(REAL(file));
}

static int faulty_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    return REAL(file)->pMethods->xShmMap(REAL(file), page, size, extend, out);
}

static int faulty_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return REAL(file)->pMethods->xShmLock(REAL(file), offset, n, flags);
}

static void faulty_shm_barrier(sqlite3_file *file)
{
    REAL(file)->pMethods->xShmBarrier(REAL(file));
}

static int faulty_shm_unmap(sqlite3_file *file, int delete)
{
    return REAL(file)->pMethods->xShmUnmap(REAL(file), delete);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = faulty_close,
    .xRead = faulty_read,
    .xWrite = faulty_write,
    .xTruncate = faulty_truncate,
    .xSync = faulty_sync,
    .xFileSize = faulty_size,
    .xLock = faulty_lock,
    .xUnlock = faulty_unlock,
    .xCheckReservedLock = faulty_check_lock,
    .xFileControl = faulty_control,
    .xSectorSize = faulty_sector,
    .xDeviceCharacteristics = faulty_device,
    .xShmMap = faulty_shm_map,
    .xShmLock = faulty_shm_lock,
    .xShmBarrier = faulty_shm_barrier,
    .xShmUnmap = faulty_shm_unmap,
};

static struct medium *medium_of(const char *path)
{
    struct medium *m = media;
    while (m && strcmp(m->path, path) != 0)
        m = m->next;
    if (m)
        return m;
    m = xcalloc(1, sizeof *m);
    m->path = xstrdup(path);
    m->next = media;
    media = m;
    return m;
}

static int faulty_open(sqlite3_vfs *self, const char *path, sqlite3_file *file, int flags, int *out)
{
    struct faulty_file *f = FILE_OF(file);
    (void)self;
    *f = (struct faulty_file){.real = (sqlite3_file *)(void *)(f + 1)};
    int rc = real_vfs->xOpen(real_vfs, path, f->real, flags, out);
    if (rc != SQLITE_OK)
        return rc;
    pthread_mutex_lock(&lock);
    f->base.pMethods = &methods;
    if (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL))
        f->medium = medium_of(path);
    f->next = files;
    files = f;
    pthread_mutex_unlock(&lock);
    return SQLITE_OK;
}

void faulty_install(enum fault kind, int at, uint64_t seed)
{
    fault = kind;
    countdown = at;
    rng_seed(&rng, seed, 1);
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.zName = "faulty";
    vfs.szOsFile = (int)sizeof(struct faulty_file) + real_vfs->szOsFile;
    vfs.xOpen = faulty_open;
    must(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}

int faulty_failures(void)
{
    pthread_mutex_lock(&lock);
    int n = failures;
    pthread_mutex_unlock(&lock);
    return n;
}
