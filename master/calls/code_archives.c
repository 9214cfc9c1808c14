#include "master/calls/code_archives.h"

#include <stdlib.h>
#include <string.h>

#include "api/archive/archive.h"
#include "base/arena.h"
#include "base/limits.h"
#include "master/kernel/loop.h"
#include "master/kernel/workers.h"

enum {
    PART_BYTES = 3 << 18, // a multiple of 3: each but the last is base64 without padding
    PARTS_OF_A_BATCH = 8, // that one batch deletes
};

// --- packing -------------------------------------------------------------------------------------

struct archive_packing {
    struct code_archive *f;
    struct sha256 *hash;
    struct error *e;
    int err;
};

static int archive_write_part(struct archive_packing *p)
{
    struct code_archive *f = p->f;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MODEL_PART_INSERT, f->archive, f->parts++, DB_BLOB(f->rest.data, f->rest.len));
    buf_reset(&f->rest);
    return p->err = db_commit_wait(f->db, b, p->e);
}

static int pack_bytes(void *ctx, const void *data, size_t len)
{
    struct archive_packing *p = ctx;
    struct buf *rest = &p->f->rest;
    const char *bytes = data;
    sha256_update(p->hash, data, len);
    while (!p->err && len) {
        size_t room = PART_BYTES - rest->len, n = len < room ? len : room;
        if (!room) {
            archive_write_part(p);
            continue;
        }
        buf_append(rest, bytes, n);
        bytes += n;
        len -= n;
    }
    return p->err ? -1 : 0;
}

int code_archive_pack(struct code_archive *f, struct db *db, int64_t archive, const json_t *list,
                      const char *texts, struct error *e)
{
    struct error why;
    uint8_t digest[SHA256_BYTES];
    struct archive_packing p = {.f = f, .hash = sha256_new(), .e = e};
    *f = (struct code_archive){.db = db, .archive = archive};
    buf_init(&f->rest, PART_BYTES);
    int err = archive_pack_list_to(list, texts, pack_bytes, &p, &why);
    if (err && !p.err)
        *e = why;
    if (!err && f->parts)
        err = archive_write_part(&p);
    sha256_final(p.hash, digest);
    hex_encode(digest, sizeof digest, f->hash);
    return p.err ? p.err : err;
}

void code_archive_free(struct code_archive *f)
{
    buf_free(&f->rest);
}

void code_archive_store(struct core *c, const struct code_archive *f)
{
    if (!f->parts)
        STORE(c, MODEL_DEFINITION_INSERT, f->hash, DB_BLOB(f->rest.data, f->rest.len));
    else
        STORE(c, MODEL_DEFINITION_INSERT_PARTS, f->hash, f->archive);
}

// --- deleting parts without an owner -------------------------------------------------------------

struct parts_removal {
    struct work work; // first
    struct db *db;
    int64_t *archives;
    size_t count;
};

static void parts_removal_free(struct work *work)
{
    struct parts_removal *n = (struct parts_removal *)work;
    free(n->archives);
    free(n);
}

static int64_t count_parts(struct db_reader *db, int64_t archive)
{
    struct db_rows *rows = DB_QUERY(db, MODEL_PARTS_COUNT, archive);
    int64_t parts = db_next(rows) > 0 ? DB_GET(rows, MODEL_PARTS_COUNT, count) : 0;
    db_rows_close(rows);
    return parts;
}

// Parts that cannot be deleted now are deleted at the next start of the master.
static void remove_unowned_parts(struct work *work, struct db_reader *db)
{
    struct parts_removal *n = (struct parts_removal *)work;
    for (size_t i = 0; i < n->count; i++) {
        int64_t parts = count_parts(db, n->archives[i]);
        int err = 0;
        for (int64_t at = 0; !err && at < parts; at += PARTS_OF_A_BATCH) {
            struct error e;
            struct db_batch *b = db_batch_new();
            DB_ADD(b, MODEL_PARTS_DELETE_UNOWNED, n->archives[i], at, at + PARTS_OF_A_BATCH);
            err = db_commit_wait(n->db, b, &e);
        }
    }
}

static void parts_removal_done(struct core *c, struct work *work)
{
    (void)c;
    parts_removal_free(work);
}

struct unowned_archives {
    int64_t *ids; // of archives whose parts may have no owner
    size_t count;
    uint64_t commit; // the batch that must be committed before they are checked
};

void code_archives_init(struct core *c)
{
    c->unowned_archives = xcalloc(1, sizeof *c->unowned_archives);
}

void code_archives_free(struct core *c)
{
    free(c->unowned_archives->ids);
    free(c->unowned_archives);
}

void code_archives_check(struct core *c, int64_t archive)
{
    if (!archive)
        return;
    c->unowned_archives->ids =
        xrealloc(c->unowned_archives->ids,
                 (c->unowned_archives->count + 1) * sizeof *c->unowned_archives->ids);
    c->unowned_archives->ids[c->unowned_archives->count++] = archive;
    c->unowned_archives->commit = c->submitted + (c->batch && !db_batch_empty(c->batch));
}

void code_archives_sweep(struct core *c)
{
    if (!c->unowned_archives->count || atomic_load(&c->committed) < c->unowned_archives->commit)
        return;
    struct parts_removal *n = xcalloc(1, sizeof *n);
    n->work = (struct work){
        .run = remove_unowned_parts, .done = parts_removal_done, .drop = parts_removal_free};
    n->db = loop_db(c);
    n->archives = c->unowned_archives->ids;
    n->count = c->unowned_archives->count;
    if (workers_send(c->workers, &n->work, WORK_SLOW, NULL)) {
        free(n); // tried again at the end of the next turn
        return;
    }
    c->unowned_archives->ids = NULL;
    c->unowned_archives->count = 0;
}

int code_archives_load(struct core *c, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, MODEL_PARTS_UNOWNED);
    int more;
    while ((more = db_next(rows)) > 0)
        code_archives_check(c, DB_GET(rows, MODEL_PARTS_UNOWNED, archive));
    db_rows_close(rows);
    rows = more < 0 ? NULL : DB_QUERY(c->reader, MODEL_PARTS_LAST);
    if (rows && (more = db_next(rows)) > 0)
        c->next_archive = DB_GET(rows, MODEL_PARTS_LAST, archive) + 1;
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : 0;
}
