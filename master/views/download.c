// What is made while it is sent: a checkpoint's folder as an archive, a copy of the store.
//
// Making it blocks on the disk and on its pipe, so it has two threads of its own for as long as it
// takes: one makes it into the pipe, one moves what comes out to where the connection takes it.

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/archive.h"
#include "api/checkpoint.h"
#include "api/wire.h"
#include "base/file.h"
#include "base/log.h"
#include "db/backup.h"
#include "master/room.h"
#include "master/storage.h"
#include "master/views/views.h"

enum { PIECE = 64 * 1024, AHEAD = 4 * PIECE };

struct download {
    struct stream stream;
    int (*make)(struct download *d, int fd, struct error *e);
    atomic_int *slot; // one of so many at a time; given back at the end
    char *path;       // of the folder, for messages; of the copy
    int dir;          // the folder; -1: none
    const char *store;
    enum archive_format format;
    int pipe[2];
    pthread_t maker, mover;
    bool makes, moves; // the threads that were started

    pthread_mutex_t lock; // for all below
    pthread_cond_t room;
    struct buf ready; // bytes for the connection
    bool over, failed, closed;
};

static void *maker_main(void *arg)
{
    struct download *d = arg;
    struct error e = {0};
    int rc = d->make(d, d->pipe[1], &e);
    pthread_mutex_lock(&d->lock);
    d->failed |= rc != 0;
    bool wanted = !d->closed;
    pthread_mutex_unlock(&d->lock);
    if (rc && wanted) {
        char quoted[ERROR_TEXT_MAX];
        log_warn("a download could not be made", "path=%s err=%s", d->path,
                 log_quote(quoted, sizeof quoted, e.text));
    }
    close(d->pipe[1]); // the mover sees the end, after `failed` is set
    return NULL;
}

// Hands a piece over; false: nobody wants more.
static bool hand_over(struct download *d, const char *piece, size_t len)
{
    pthread_mutex_lock(&d->lock);
    while (!d->closed && d->ready.len + len > AHEAD)
        pthread_cond_wait(&d->room, &d->lock);
    bool wanted = !d->closed;
    if (wanted) {
        if (len)
            buf_append(&d->ready, piece, len);
        else
            d->over = true;
        stream_wake(&d->stream);
    }
    pthread_mutex_unlock(&d->lock);
    return wanted;
}

static void *mover_main(void *arg)
{
    struct download *d = arg;
    char *piece = xcalloc(1, PIECE);
    ssize_t n;
    do {
        n = read(d->pipe[0], piece, PIECE);
    } while ((n < 0 && errno == EINTR) || (n > 0 && hand_over(d, piece, (size_t)n)));
    if (n <= 0)
        hand_over(d, NULL, 0);
    close(d->pipe[0]); // a maker that is not done yet ends at its next write
    free(piece);
    return NULL;
}

static int start_threads(struct download *d)
{
    if (pipe2(d->pipe, O_CLOEXEC))
        return -1;
    d->moves = !pthread_create(&d->mover, NULL, mover_main, d);
    d->makes = d->moves && !pthread_create(&d->maker, NULL, maker_main, d);
    if (!d->moves)
        close(d->pipe[0]);
    if (!d->makes)
        close(d->pipe[1]);
    return d->makes ? 0 : -1;
}

static enum stream_turn fill_download(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct download *d = (struct download *)s;
    (void)db;
    if (!d->moves && start_threads(d))
        return STREAM_BROKEN;
    pthread_mutex_lock(&d->lock);
    buf_append(out, d->ready.data, d->ready.len);
    buf_reset(&d->ready);
    bool over = d->over, failed = d->failed;
    pthread_cond_signal(&d->room);
    pthread_mutex_unlock(&d->lock);
    if (atomic_load(&s->ending) || (over && failed))
        return STREAM_BROKEN;
    return over ? STREAM_END : out->len ? STREAM_MORE : STREAM_WAIT;
}

static void close_download(struct stream *s)
{
    struct download *d = (struct download *)s;
    pthread_mutex_lock(&d->lock);
    d->closed = true;
    pthread_cond_signal(&d->room);
    pthread_mutex_unlock(&d->lock);
    if (d->moves)
        pthread_join(d->mover, NULL);
    if (d->makes)
        pthread_join(d->maker, NULL);
    pthread_cond_destroy(&d->room);
    pthread_mutex_destroy(&d->lock);
    buf_free(&d->ready);
    if (d->dir >= 0)
        close(d->dir);
    free(d->path);
    atomic_fetch_sub(d->slot, 1);
}

static void open_download(struct download *d)
{
    d->stream.fill = fill_download;
    d->stream.close = close_download;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->room, NULL);
    buf_init(&d->ready, AHEAD);
}

static int take_slot(atomic_int *slot, int most, const char *what, struct error *e)
{
    if (atomic_fetch_add(slot, 1) < most)
        return 0;
    atomic_fetch_sub(slot, 1);
    return error_set(e, ERR_BUSY, "%d %s being sent already; try again in a while", most, what);
}

// --- a checkpoint --------------------------------------------------------------------------------

static int pack_folder(struct download *d, int fd, struct error *e)
{
    return archive_pack_foreign(d->dir, d->path, d->format, fd, e);
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

// The folder of the files, when they are there and the master sees them.
static int find_folder(struct view *v, const char *uuid, int *dir, char **folder, struct error *e)
{
    struct error why;
    struct db_rows *rows = db_query(v->db, STMT_CHECKPOINT_STORAGE, "s", uuid);
    int found = db_next(rows), rc = found < 0 ? store_failed(e) : 0;
    if (found == 0)
        rc = no_checkpoint(uuid, e);
    if (found == 1 && strcmp(db_text(rows, 1), "COMPLETED") &&
        strcmp(db_text(rows, 1), "PARTIALLY_DELETED"))
        rc = error_set(e, ERR_NOT_FOUND, "the files of checkpoint %.64s are not there (it is %s)",
                       uuid, wire_name(WIRE_CHECKPOINT_STATE, db_text(rows, 1)));
    if (!rc && (rc = storage_open(v->service->storage, db_text(rows, 0), uuid, dir, folder, &why)))
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
        rc = take_slot(&v->service->downloads, DOWNLOADS_MAX, "checkpoints are", e);
    if (rc) {
        if (dir >= 0)
            close(dir);
        free(folder);
        return rc;
    }
    struct download *d = arena_alloc(&v->rq->arena, sizeof *d);
    d->make = pack_folder;
    d->format = kind->format;
    d->path = folder;
    d->dir = dir;
    d->slot = &v->service->downloads;
    d->stream.content_type = kind->type;
    d->stream.file_name = arena_printf(&v->rq->arena, "%s.%s", uuid, kind->suffix);
    open_download(d);
    *out = &d->stream;
    return 0;
}

// --- a copy of the store -------------------------------------------------------------------------

static int send_file(int from, int fd, struct error *e)
{
    char *piece = xcalloc(1, PIECE);
    int rc = 0;
    ssize_t n;
    while (!rc && (n = read(from, piece, PIECE)) != 0)
        if (n < 0 || file_write_all(fd, piece, (size_t)n))
            rc = error_set_errno(e, ERR_IO, errno, "sending the copy");
    free(piece);
    return rc;
}

static bool is_wanted(void *ctx, const char *what, int64_t done, int64_t total)
{
    struct download *d = ctx;
    (void)what, (void)done, (void)total;
    pthread_mutex_lock(&d->lock);
    bool wanted = !d->closed;
    pthread_mutex_unlock(&d->lock);
    return wanted;
}

// The copy has a name only until it is open. One at a time, so the next one replaces what the end
// of a master had left.
static int copy_store(struct download *d, int fd, struct error *e)
{
    const struct backup_watch watch = {is_wanted, d};
    int rc = backup_spool(d->store, d->path, &watch, e);
    if (rc)
        return rc;
    int from = open(d->path, O_RDONLY | O_CLOEXEC);
    unlink(d->path);
    if (from < 0)
        return error_set_errno(e, ERR_IO, errno, "%s", d->path);
    rc = send_file(from, fd, e);
    close(from);
    return rc;
}

int stream_backup(struct view *v, struct stream **out, struct error *e)
{
    int rc = room_refuse_submission(v->service->room, e); // the copy lies on the same disk
    if (!rc)
        rc = take_slot(&v->service->backups, 1, "backup is", e);
    if (rc)
        return rc;
    struct download *d = arena_alloc(&v->rq->arena, sizeof *d);
    d->make = copy_store;
    d->store = db_path(v->service->db);
    d->path = xasprintf("%s.sending", d->store);
    d->dir = -1;
    d->slot = &v->service->backups;
    d->stream.content_type = "application/vnd.sqlite3";
    d->stream.file_name = "muster.db";
    open_download(d);
    *out = &d->stream;
    return 0;
}
