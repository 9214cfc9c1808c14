// A checkpoint's folder as tar.gz, made while it is sent.
//
// Packing blocks on the disk and on its pipe, so it has two threads of its own for as long as it
// takes: one packs into the pipe, one moves what comes out to where the connection takes it.

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
#include "master/http/views.h"

enum { PIECE = 64 * 1024, AHEAD = 4 * PIECE };

struct download {
    struct stream stream;
    struct service *service;
    char *folder;
    int pipe[2];
    pthread_t packer, mover;
    bool packs, moves; // the threads that were started

    pthread_mutex_t lock; // for all below
    pthread_cond_t room;
    struct buf ready; // bytes for the connection
    bool over, failed, closed;
};

static void *packer_main(void *arg)
{
    struct download *d = arg;
    struct error e = {0};
    int rc = archive_pack_folder(d->folder, d->pipe[1], &e);
    pthread_mutex_lock(&d->lock);
    d->failed |= rc != 0;
    bool wanted = !d->closed;
    pthread_mutex_unlock(&d->lock);
    if (rc && wanted) {
        char quoted[ERROR_TEXT_MAX];
        log_warn("a checkpoint could not be sent", "err=%s",
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
    close(d->pipe[0]); // a packer that is not done yet ends at its next write
    free(piece);
    return NULL;
}

static int start_threads(struct download *d)
{
    if (pipe2(d->pipe, O_CLOEXEC))
        return -1;
    d->moves = !pthread_create(&d->mover, NULL, mover_main, d);
    d->packs = d->moves && !pthread_create(&d->packer, NULL, packer_main, d);
    if (!d->moves)
        close(d->pipe[0]);
    if (!d->packs)
        close(d->pipe[1]);
    return d->packs ? 0 : -1;
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
    if (d->packs)
        pthread_join(d->packer, NULL);
    pthread_cond_destroy(&d->room);
    pthread_mutex_destroy(&d->lock);
    buf_free(&d->ready);
    free(d->folder);
    atomic_fetch_sub(&d->service->downloads, 1);
}

// Where the files are, when they are there and the master sees them.
static int find_folder(struct view *v, const char *uuid, char **folder, struct error *e)
{
    struct db_rows *rows = db_query(v->db, STMT_CHECKPOINT_STORAGE, "s", uuid);
    int found = db_next(rows), rc = found < 0 ? store_failed(e) : 0;
    if (found == 0)
        rc = no_checkpoint(uuid, e);
    if (found == 1 && strcmp(db_text(rows, 1), "COMPLETED") &&
        strcmp(db_text(rows, 1), "PARTIALLY_DELETED"))
        rc = error_set(e, ERR_NOT_FOUND, "the files of checkpoint %.64s are not there (it is %s)",
                       uuid, wire_name(WIRE_CHECKPOINT_STATE, db_text(rows, 1)));
    json_t *storage = NULL;
    if (!rc)
        rc = json_parse(db_text(rows, 0), strlen(db_text(rows, 0)), "checkpoint_storage", &storage,
                        e);
    db_rows_close(rows);
    if (!rc)
        rc = checkpoint_folder(storage, uuid, folder, e);
    json_decref(storage);
    if (!rc && !path_exists(*folder)) {
        rc = error_set(e, ERR_NOT_FOUND,
                       "the master does not see %s, where the files of checkpoint %.64s are; copy "
                       "them from a machine that does",
                       *folder, uuid);
        free(*folder);
    }
    return rc;
}

int stream_checkpoint_archive(struct view *v, struct stream **out, struct error *e)
{
    const char *uuid = v->rq->params[0];
    struct service *service = v->service;
    char *folder = NULL;
    int rc = find_folder(v, uuid, &folder, e);
    if (rc)
        return rc;
    if (atomic_fetch_add(&service->downloads, 1) >= DOWNLOADS_MAX) {
        atomic_fetch_sub(&service->downloads, 1);
        free(folder);
        return error_set(e, ERR_BUSY, "%d checkpoints are being sent already; try again in a while",
                         DOWNLOADS_MAX);
    }
    struct download *d = arena_alloc(&v->rq->arena, sizeof *d);
    d->stream.fill = fill_download;
    d->stream.close = close_download;
    d->stream.content_type = "application/gzip";
    d->stream.file_name = arena_printf(&v->rq->arena, "%s.tar.gz", uuid);
    d->service = service;
    d->folder = folder;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->room, NULL);
    buf_init(&d->ready, AHEAD);
    *out = &d->stream;
    return 0;
}
