// Downloads whose bytes are produced while they are sent: a checkpoint as an archive, the content
// of a media item, a copy of the store.
//
// Each download has a thread, because reading and compressing block. The thread is at most
// BUFFER_MAX bytes ahead of the connection and sleeps while the client does not read. The number of
// downloads is limited, in all and for one user; a client that reads nothing for PATIENCE_S seconds
// loses its download.

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "api/checkpoint/checkpoint.h"
#include "api/media.h"
#include "api/wire.h"
#include "base/limits.h"
#include "base/log.h"
#include "db/backup.h"
#include "master/common/free_space.h"
#include "master/common/media.h"
#include "master/common/storage.h"
#include "master/views/views.h"

enum {
    PIECE = 64 * 1024,
    BUFFER_MAX = 4 * PIECE,
    PATIENCE_S = 20,       // for STREAM_CHUNK bytes
    NICE = 10,             // compression gives way to everything else
    HASHED_HERE = 1 << 20, // bytes of an item that the http thread compares with its digest
};

struct download { // shared by its stream and its thread; the last of them frees it
    int (*produce)(struct download *d, struct error *e);
    struct seats *seats; // where the download holds a seat; given back at the end
    int64_t user;
    char *path; // of the checkpoint's folder, for messages; of the copy
    int dir;    // the checkpoint's folder, or the item's file; -1: none
    const char *store;
    enum archive_format format;
    bool unchecked; // the item's file may not have its digest

    pthread_mutex_t lock; // guards the members below
    pthread_cond_t capacity;
    struct stream *stream; // NULL: closed
    struct buf ready;      // bytes for the connection
    bool running;          // the thread runs
    bool done, failed;
};

struct download_stream {
    struct stream stream; // must be the first member
    struct download *d;
};

// --- common to all downloads ---------------------------------------------------------------------

// The caller holds the lock; `d` is freed.
static void download_free_locked(struct download *d)
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

// Appends bytes to the stream's buffer and waits while it is full. -1: the stream is closed.
static int download_append(void *ctx, const void *data, size_t len)
{
    struct download *d = ctx;
    pthread_mutex_lock(&d->lock);
    for (size_t done = 0; d->stream && done < len;) {
        size_t capacity = BUFFER_MAX - d->ready.len,
               n = len - done < capacity ? len - done : capacity;
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

static void *download_thread(void *arg)
{
    struct download *d = arg;
    struct error e = {0};
    setpriority(PRIO_PROCESS, 0, NICE); // of this thread only
    int rc = d->produce(d, &e);
    pthread_mutex_lock(&d->lock);
    bool wanted = d->stream;
    pthread_mutex_unlock(&d->lock);
    if (rc && wanted) {
        char quoted[ERROR_TEXT_MAX];
        log_warn("a download failed", "path=%s err=%s", d->path,
                 log_quote(quoted, sizeof quoted, e.text));
    }
    pthread_mutex_lock(&d->lock);
    d->running = false;
    d->failed = rc != 0;
    d->done = true;
    if (!d->stream) {
        download_free_locked(d);
        return NULL;
    }
    stream_wake(d->stream);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

// The caller holds the lock.
static int download_start_thread(struct download *d)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, download_thread, d))
        return -1;
    pthread_detach(thread);
    d->running = true;
    return 0;
}

static enum stream_turn fill_download(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct download *d = ((struct download_stream *)s)->d;
    (void)db;
    pthread_mutex_lock(&d->lock);
    if (!d->running && !d->done && download_start_thread(d))
        d->done = d->failed = true;
    buf_append(out, d->ready.data, d->ready.len);
    buf_reset(&d->ready);
    bool done = d->done, failed = d->failed;
    pthread_cond_signal(&d->capacity);
    pthread_mutex_unlock(&d->lock);
    if (atomic_load(&s->ending) || (done && failed))
        return STREAM_BROKEN;
    return done ? STREAM_END : out->len ? STREAM_MORE : STREAM_WAIT;
}

static void close_download(struct stream *s)
{
    struct download *d = ((struct download_stream *)s)->d;
    pthread_mutex_lock(&d->lock);
    d->stream = NULL;
    if (!d->running) {
        download_free_locked(d);
        return;
    }
    pthread_cond_signal(&d->capacity);
    pthread_mutex_unlock(&d->lock);
}

static struct download *open_download(struct view *v, struct seats *seats, struct stream **out)
{
    struct download_stream *s = arena_alloc(&v->rq->arena, sizeof *s);
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
    buf_init(&d->ready, BUFFER_MAX);
    return d;
}

// --- checkpoints --------------------------------------------------------------------------------

static int pack_folder(struct download *d, struct error *e)
{
    return archive_pack_foreign(d->dir, d->path, d->format, download_append, d, e);
}

static const struct archive_kind {
    const char *type, *suffix;
    enum archive_format format;
} kinds[] = {
    {"application/gzip", "tar.gz", ARCHIVE_TAR_GZ},
    {"application/x-tar", "tar", ARCHIVE_TAR},
    {"application/zip", "zip", ARCHIVE_ZIP},
};

// Returns the first known type of an Accept header; tar.gz if the header names none.
static const struct archive_kind *choose_archive_kind(const char *accept)
{
    for (const char *p = accept; p && *p; p += strcspn(p, ","), p += strspn(p, ", "))
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strcspn(p, ",; ") == strlen(kinds[i].type) &&
                !strncasecmp(p, kinds[i].type, strlen(kinds[i].type)))
                return &kinds[i];
    return kinds;
}

// Opens the folder with the checkpoint's files.
static int find_folder(struct view *v, const char *uuid, int *dir, char **folder, struct error *e)
{
    struct error why;
    struct db_rows *rows = DB_QUERY(v->db, CHECKPOINT_STORAGE, uuid);
    int found = db_next(rows), rc = found < 0 ? store_failed(e) : 0;
    if (found == 0)
        rc = no_checkpoint(uuid, e);
    if (found == 1 && strcmp(DB_GET(rows, CHECKPOINT_STORAGE, state), "COMPLETED") &&
        strcmp(DB_GET(rows, CHECKPOINT_STORAGE, state), "PARTIALLY_DELETED"))
        rc = error_set(e, ERR_NOT_FOUND, "checkpoint %.64s has no files; its state is %s", uuid,
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
    const struct archive_kind *kind = choose_archive_kind(v->rq->header(v->rq, "Accept"));
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
    d->produce = pack_folder;
    d->format = kind->format;
    d->path = folder;
    d->dir = dir;
    (*out)->content_type = kind->type;
    (*out)->file_name = arena_printf(&v->rq->arena, "%s.%s", uuid, kind->suffix);
    return 0;
}

// --- media ---------------------------------------------------------------------------------------

static int send_file(struct download *d, int from, struct error *e)
{
    char *piece = xcalloc(1, PIECE);
    int rc = 0;
    ssize_t n;
    while (!rc && (n = read(from, piece, PIECE)) != 0)
        if (n < 0)
            rc = error_set_errno(e, ERR_IO, errno, "reading %s", d->path);
        else if (download_append(d, piece, (size_t)n))
            rc = error_set(e, ERR_PEER, "the client closed the connection");
    free(piece);
    return rc;
}

// A large item with a wrong content breaks the connection: its headers are sent already.
static int send_content(struct download *d, struct error *e)
{
    int rc = d->unchecked ? media_check_digest(d->dir, d->path, e) : 0;
    return rc ? rc : send_file(d, d->dir, e);
}

// A task wrote the file: a browser must not take it for anything but its type.
static int check_magic(int fd, const struct media_type *type, struct error *e)
{
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    unsigned char start[sizeof png];
    if (strcmp(type->format, "png") ||
        (pread(fd, start, sizeof start, 0) == sizeof start && !memcmp(start, png, sizeof png)))
        return 0;
    return error_set(e, ERR_NOT_FOUND, "the content of this image is no PNG file");
}

static int open_content(struct view *v, const char *digest, int *fd, const struct media_type **type,
                        int64_t *size, struct error *e)
{
    int64_t trial;
    int rc = request_param_int(v->rq, 0, &trial, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, MEDIA_CONTENT, trial, digest);
    int found = db_next(rows);
    rc = found < 0    ? store_failed(e)
         : found == 0 ? error_set(e, ERR_NOT_FOUND, "trial %lld has no media with digest %.80s",
                                  (long long)trial, digest)
                      : 0;
    if (!rc) {
        const struct media_folder folder = {.storage = v->service->storage,
                                            .at = DB_GET(rows, MEDIA_CONTENT, storage),
                                            .cluster_id = v->service->cluster_id,
                                            .experiment =
                                                DB_GET(rows, MEDIA_CONTENT, experiment_id)};
        *type = media_type_find(DB_GET(rows, MEDIA_CONTENT, type));
        *size = DB_GET(rows, MEDIA_CONTENT, size);
        rc = media_open(&folder, digest, *size, fd, e);
    }
    db_rows_close(rows);
    if (!rc && *size <= HASHED_HERE)
        rc = media_check_digest(*fd, digest, e);
    return rc ? rc : check_magic(*fd, *type, e);
}

// The content never changes, but its reader may lose the right to see it.
int stream_media(struct view *v, struct stream **out, struct error *e)
{
    const char *digest = v->rq->params[1];
    const struct media_type *type = NULL;
    int64_t size = 0;
    int fd = -1, rc = open_content(v, digest, &fd, &type, &size, e);
    if (!rc)
        rc = seats_take(&v->service->media, v->rq->principal.user_id, LIMIT_MEDIA_DOWNLOADS,
                        LIMIT_MEDIA_DOWNLOADS_USER, "downloads of media", e);
    if (rc) {
        if (fd >= 0)
            close(fd);
        return rc;
    }
    struct download *d = open_download(v, &v->service->media, out);
    d->produce = send_content;
    d->path = xstrdup(digest);
    d->dir = fd;
    d->unchecked = size > HASHED_HERE;
    (*out)->content_type = type->content_type;
    v->cache = "private, max-age=600";
    view_add_header(v, "Content-Security-Policy", "default-src 'none'; sandbox");
    view_add_header(
        v, "Content-Disposition",
        arena_printf(&v->rq->arena, "inline; filename=\"%.12s%s\"", digest, type->suffix));
    return 0;
}

// --- copies of the store -------------------------------------------------------------------------

static bool is_wanted(void *ctx, const char *what, int64_t done, int64_t total)
{
    struct download *d = ctx;
    (void)what, (void)done, (void)total;
    pthread_mutex_lock(&d->lock);
    bool wanted = d->stream;
    pthread_mutex_unlock(&d->lock);
    return wanted;
}

// The copy keeps its name only until it is open. Backups run one at a time, so the next one
// replaces a file that a killed master left behind.
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
    d->produce = copy_store;
    d->store = db_path(v->service->db);
    d->path = xasprintf("%s.sending", d->store);
    (*out)->content_type = "application/vnd.sqlite3";
    (*out)->file_name = "muster.db";
    return 0;
}
