#include "master/calls/code_archives.h"

#include <stdlib.h>
#include <string.h>

#include "api/archive.h"
#include "base/arena.h"
#include "base/limits.h"
#include "master/kernel/loop.h"
#include "master/kernel/workers.h"

enum {
    PART_BYTES = 3 << 18, // a multiple of 3: each but the last is base64 without padding
    PARTS_OF_A_BATCH = 8, // that one batch removes
};

// --- packing -------------------------------------------------------------------------------------

struct packing {
    struct files *f;
    struct sha256 *hash;
    struct error *e;
    int err;
};

static int write_part(struct packing *p)
{
    struct files *f = p->f;
    struct db_batch *b = db_batch_new();
    db_batch_add(b, STMT_MODEL_PART_INSERT, "iib", f->archive, f->parts++, f->rest.data,
                 f->rest.len);
    buf_reset(&f->rest);
    return p->err = db_commit_wait(f->db, b, p->e);
}

static int take(void *ctx, const void *data, size_t len)
{
    struct packing *p = ctx;
    struct buf *rest = &p->f->rest;
    const char *bytes = data;
    sha256_update(p->hash, data, len);
    while (!p->err && len) {
        size_t room = PART_BYTES - rest->len, n = len < room ? len : room;
        if (!room) {
            write_part(p);
            continue;
        }
        buf_append(rest, bytes, n);
        bytes += n;
        len -= n;
    }
    return p->err ? -1 : 0;
}

int files_pack(struct files *f, struct db *db, int64_t archive, const json_t *list,
               const char *texts, struct error *e)
{
    struct error why;
    uint8_t digest[SHA256_BYTES];
    struct packing p = {.f = f, .hash = sha256_new(), .e = e};
    *f = (struct files){.db = db, .archive = archive};
    buf_init(&f->rest, PART_BYTES);
    int err = archive_pack_list_to(list, texts, take, &p, &why);
    if (err && !p.err)
        *e = why;
    if (!err && f->parts)
        err = write_part(&p);
    sha256_final(p.hash, digest);
    hex_encode(digest, sizeof digest, f->hash);
    return p.err ? p.err : err;
}

void files_free(struct files *f)
{
    buf_free(&f->rest);
}

void files_store(struct core *c, const struct files *f)
{
    if (!f->parts)
        STORE(c, MODEL_DEFINITION_INSERT, "sb", f->hash, f->rest.data, f->rest.len);
    else
        STORE(c, MODEL_DEFINITION_INSERT_PARTS, "si", f->hash, f->archive);
}

// --- removing ------------------------------------------------------------------------------------

struct clearing {
    struct work work; // first
    struct db *db;
    int64_t *archives;
    size_t count;
};

static void clearing_free(struct work *work)
{
    struct clearing *n = (struct clearing *)work;
    free(n->archives);
    free(n);
}

static int64_t parts_of(struct db_reader *db, int64_t archive)
{
    struct db_rows *rows = db_query(db, STMT_MODEL_PARTS_COUNT, "i", archive);
    int64_t parts = db_next(rows) > 0 ? db_int(rows, 0) : 0;
    db_rows_close(rows);
    return parts;
}

// Parts that cannot be removed now are at the next start.
static void clear(struct work *work, struct db_reader *db)
{
    struct clearing *n = (struct clearing *)work;
    for (size_t i = 0; i < n->count; i++) {
        int64_t parts = parts_of(db, n->archives[i]);
        int err = 0;
        for (int64_t at = 0; !err && at < parts; at += PARTS_OF_A_BATCH) {
            struct error e;
            struct db_batch *b = db_batch_new();
            db_batch_add(b, STMT_MODEL_PARTS_DELETE_UNOWNED, "iii", n->archives[i], at,
                         at + PARTS_OF_A_BATCH);
            err = db_commit_wait(n->db, b, &e);
        }
    }
}

static void cleared(struct core *c, struct work *work)
{
    (void)c;
    clearing_free(work);
}

struct code_archives {
    int64_t *archives; // whose parts may have no owner
    size_t count;
    uint64_t commit; // not before this one
};

void files_init(struct core *c)
{
    c->archives = xcalloc(1, sizeof *c->archives);
}

void files_end(struct core *c)
{
    free(c->archives->archives);
    free(c->archives);
}

void files_check(struct core *c, int64_t archive)
{
    if (!archive)
        return;
    c->archives->archives =
        xrealloc(c->archives->archives, (c->archives->count + 1) * sizeof *c->archives->archives);
    c->archives->archives[c->archives->count++] = archive;
    c->archives->commit = c->submitted + (c->batch && !db_batch_empty(c->batch));
}

void files_pass(struct core *c)
{
    if (!c->archives->count || atomic_load(&c->committed) < c->archives->commit)
        return;
    struct clearing *n = xcalloc(1, sizeof *n);
    n->work = (struct work){.run = clear, .done = cleared, .drop = clearing_free};
    n->db = loop_db(c);
    n->archives = c->archives->archives;
    n->count = c->archives->count;
    if (workers_send(c->workers, &n->work, WORK_SLOW, NULL)) {
        free(n); // at the next turn
        return;
    }
    c->archives->archives = NULL;
    c->archives->count = 0;
}

int files_load(struct core *c, struct error *e)
{
    struct db_rows *rows = db_query(c->reader, STMT_MODEL_PARTS_UNOWNED, "");
    int more;
    while ((more = db_next(rows)) > 0)
        files_check(c, db_int(rows, 0));
    db_rows_close(rows);
    rows = more < 0 ? NULL : db_query(c->reader, STMT_MODEL_PARTS_LAST, "");
    if (rows && (more = db_next(rows)) > 0)
        c->next_archive = db_int(rows, 0) + 1;
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : 0;
}
