// What is made while it is sent: a checkpoint's folder as an archive, a copy of the store.
//
// Making it blocks on the disk, so it has a thread of its own, which is AHEAD bytes before its
// caller and sleeps while he does not read. There are so many seats for downloads, few of them for
// one user; who takes nothing for PATIENCE_S seconds loses his.

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "api/checkpoint/checkpoint.h"
#include "api/wire.h"
#include "base/limits.h"
#include "base/log.h"
#include "db/backup.h"
#include "master/common/free_space.h"
#include "master/common/storage.h"
#include "master/views/views.h"

enum {
    PIECE = 64 * 1024,
    AHEAD = 4 * PIECE,
    PATIENCE_S = 20, // for STREAM_CHUNK bytes
    NICE = 10,       // compressing gives way to everything else
};

struct download { // shared by its stream and its thread; the last of them frees it
    int (*make)(struct download *d, struct error *e);
    struct seats *seats; // one of them is taken; given back at the end
    int64_t user;
    char *path; // of the folder, for messages; of the copy
    int dir;    // the folder; -1: none
    const char *store;
    enum archive_format format;

    pthread_mutex_t lock; // for all below
    pthread_cond_t capacity;
    struct stream *stream; // NULL: closed
    struct buf ready;      // bytes for the connection
    bool makes;            // the thread is under way
    bool over, failed;
};

struct sending {
    struct stream stream; // the first
    struct download *d;
};

// --- common to all downloads ---------------------------------------------------------------------

// The caller holds the lock; `d` is freed.
static void free_download(struct download *d)
{
    pthread_mutex_unlock(&d->lock);
    pthread_cond_destroy(&d->capacity);
    pthread_mutex_destroy(&d->lock);
    buf_free(&d->ready);
    if (d->dir >= 0)
        close(d->dir);
    free(d->path);
    struct seats *seats = d->seats;
    int64_t user = d->user;
    free(d);
    seats_leave(seats, user);
}

// Hands bytes to the stream, in parts that fit. -1: the stream is closed.
static int hand_over(void *ctx, const void *data, size_t len)
{
    struct download *d = ctx;
    pthread_mutex_lock(&d->lock);
    for (size_t done = 0; d->stream && done < len;) {
        size_t capacity = AHEAD - d->ready.len, n = len - done < capacity ? len - done : capacity;
        if (!n) {
            pthread_cond_wait(&d->capacity, &d->lock);
            continue;
        }
        buf_append(&d->ready, (const char *)data + done, n);
        done += n;
        stream_wake(d->stream);
    }
    bool wanted = d->stream;
    pthread_mutex_unlock(&d->lock);
    return wanted ? 0 : -1;
}

static void *maker_main(void *arg)
{
    struct download *d = arg;
    struct error e = {0};
    setpriority(PRIO_PROCESS, 0, NICE); // of this thread only
    int rc = d->make(d, &e);
    pthread_mutex_lock(&d->lock);
    bool wanted = d->stream;
    pthread_mutex_unlock(&d->lock);
    if (rc && wanted) {
        char quoted[ERROR_TEXT_MAX];
        log_warn("a download could not be made", "path=%s err=%s", d->path,
                 log_quote(quoted, sizeof quoted, e.text));
    }
    pthread_mutex_lock(&d->lock);
    d->makes = false;
    d->failed = rc != 0;
    d->over = true;
    if (!d->stream) {
        free_download(d);
        return NULL;
    }
    stream_wake(d->stream);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

// The caller holds the lock.
static int start_maker(struct download *d)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, maker_main, d))
        return -1;
    pthread_detach(thread);
    d->makes = true;
    return 0;
}

static enum stream_turn fill_download(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct download *d = ((struct sending *)s)->d;
    (void)db;
    pthread_mutex_lock(&d->lock);
    if (!d->makes && !d->over && start_maker(d))
        d->over = d->failed = true;
    buf_append(out, d->ready.data, d->ready.len);
    buf_reset(&d->ready);
    bool over = d->over, failed = d->failed;
    pthread_cond_signal(&d->capacity);
    pthread_mutex_unlock(&d->lock);
    if (atomic_load(&s->ending) || (over && failed))
        return STREAM_BROKEN;
    return over ? STREAM_END : out->len ? STREAM_MORE : STREAM_WAIT;
}

static void close_download(struct stream *s)
{
    struct download *d = ((struct sending *)s)->d;
    pthread_mutex_lock(&d->lock);
    d->stream = NULL;
    if (!d->makes) {
        free_download(d);
        return;
    }
    pthread_cond_signal(&d->capacity);
    pthread_mutex_unlock(&d->lock);
}

static struct download *open_download(struct view *v, struct seats *seats, struct stream **out)
{
    struct sending *s = arena_alloc(&v->rq->arena, sizeof *s);
    struct download *d = xcalloc(1, sizeof *d);
    s->stream.fill = fill_download;
    s->stream.close = close_download;
    s->stream.patience = PATIENCE_S;
    s->d = d;
    d->seats = seats;
    d->user = v->rq->principal.user_id;
    d->dir = -1;
    d->stream = *out = &s->stream;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->capacity, NULL);
    buf_init(&d->ready, AHEAD);
    return d;
}

// --- a checkpoint --------------------------------------------------------------------------------

static int pack_folder(struct download *d, struct error *e)
{
    return archive_pack_foreign(d->dir, d->path, d->format, hand_over, d, e);
}

static const struct kind {
    const char *type, *suffix;
    enum archive_format format;
} kinds[] = {
    {"application/gzip", "tar.gz", ARCHIVE_TAR_GZ},
    {"application/x-tar", "tar", ARCHIVE_TAR},
    {"application/zip", "zip", ARCHIVE_ZIP},
};

// The first of a header Accept that there is; tar.gz where it names none.
static const struct kind *choose_kind(const char *accept)
{
    for (const char *p = accept; p && *p; p += strcspn(p, ","), p += strspn(p, ", "))
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strcspn(p, ",; ") == strlen(kinds[i].type) &&
                !strncasecmp(p, kinds[i].type, strlen(kinds[i].type)))
                return &kinds[i];
    return kinds;
}

// Opens the folder of the checkpoint's files, if the master can reach it.
static int find_folder(struct view *v, const char *uuid, int *dir, char **folder, struct error *e)
{
    struct error why;
    struct db_rows *rows = DB_QUERY(v->db, CHECKPOINT_STORAGE, uuid);
    int found = db_next(rows), rc = found < 0 ? store_failed(e) : 0;
    if (found == 0)
        rc = no_checkpoint(uuid, e);
    if (found == 1 && strcmp(DB_GET(rows, CHECKPOINT_STORAGE, state), "COMPLETED") &&
        strcmp(DB_GET(rows, CHECKPOINT_STORAGE, state), "PARTIALLY_DELETED"))
        rc = error_set(e, ERR_NOT_FOUND, "the files of checkpoint %.64s are not there (it is %s)",
                       uuid,
                       wire_name(WIRE_CHECKPOINT_STATE, DB_GET(rows, CHECKPOINT_STORAGE, state)));
    if (!rc && (rc = storage_open(v->service->storage, DB_GET(rows, CHECKPOINT_STORAGE, storage),
                                  uuid, dir, folder, &why)))
        rc = error_set(e, rc == ERR_FORBIDDEN || rc == ERR_INVALID ? rc : ERR_NOT_FOUND,
                       "the files of checkpoint %.64s cannot be sent: %s", uuid, why.text);
    db_rows_close(rows);
    return rc;
}

int stream_checkpoint_archive(struct view *v, struct stream **out, struct error *e)
{
    const char *uuid = v->rq->params[0];
    const struct kind *kind = choose_kind(v->rq->header(v->rq, "Accept"));
    char *folder = NULL;
    int dir = -1, rc = find_folder(v, uuid, &dir, &folder, e);
    if (!rc)
        rc = seats_take(&v->service->downloads, v->rq->principal.user_id, LIMIT_DOWNLOADS,
                        LIMIT_DOWNLOADS_USER, "downloads", e);
    if (rc) {
        if (dir >= 0)
            close(dir);
        free(folder);
        return rc;
    }
    struct download *d = open_download(v, &v->service->downloads, out);
    d->make = pack_folder;
    d->format = kind->format;
    d->path = folder;
    d->dir = dir;
    (*out)->content_type = kind->type;
    (*out)->file_name = arena_printf(&v->rq->arena, "%s.%s", uuid, kind->suffix);
    return 0;
}

// --- a copy of the store -------------------------------------------------------------------------

static int send_file(struct download *d, int from, struct error *e)
{
    char *piece = xcalloc(1, PIECE);
    int rc = 0;
    ssize_t n;
    while (!rc && (n = read(from, piece, PIECE)) != 0)
        if (n < 0)
            rc = error_set_errno(e, ERR_IO, errno, "sending the copy");
        else if (hand_over(d, piece, (size_t)n))
            rc = error_set(e, ERR_PEER, "nobody wants the rest");
    free(piece);
    return rc;
}

static bool is_wanted(void *ctx, const char *what, int64_t done, int64_t total)
{
    struct download *d = ctx;
    (void)what, (void)done, (void)total;
    pthread_mutex_lock(&d->lock);
    bool wanted = d->stream;
    pthread_mutex_unlock(&d->lock);
    return wanted;
}

// The copy has a name only until it is open. One at a time, so the next one replaces what the end
// of a master had left.
static int copy_store(struct download *d, struct error *e)
{
    const struct backup_watch watch = {is_wanted, d};
    int rc = backup_spool(d->store, d->path, &watch, e);
    if (rc)
        return rc;
    int from = open(d->path, O_RDONLY | O_CLOEXEC);
    unlink(d->path);
    if (from < 0)
        return error_set_errno(e, ERR_IO, errno, "%s", d->path);
    rc = send_file(d, from, e);
    close(from);
    return rc;
}

int stream_backup(struct view *v, struct stream **out, struct error *e)
{
    int rc = free_space_refuse_copy(v->service->free_space, e);
    if (!rc)
        rc = seats_take(&v->service->backups, v->rq->principal.user_id, 1, 1, "backups", e);
    if (rc)
        return rc;
    struct download *d = open_download(v, &v->service->backups, out);
    d->make = copy_store;
    d->store = db_path(v->service->db);
    d->path = xasprintf("%s.sending", d->store);
    (*out)->content_type = "application/vnd.sqlite3";
    (*out)->file_name = "muster.db";
    return 0;
}
