// A thread that copies committed pages from the write-ahead log into the file (SQLite calls this a
// checkpoint). A copy takes two flushes and thousands of pages, and no commit should wait for it:
// the writer appends to the log in the meantime.
//
// SQLite reuses the log from its start only if a write finds all of it copied. Under continuous
// load some page is always left. Once the log is long, the writer therefore copies the last pages
// itself, and its next transaction starts the log again.
//
// A failed copy is a failure of the disk, and breaks the store like a failed commit (see writer.c).
// Nothing is copied afterwards, not even when the file is closed: a failed flush may have lost
// pages of an earlier copy, and then only the log holds them. The next start copies the whole log
// again.

#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "db/statements/control.h"
#include "db/store.h"

enum { LONG_LOG_FACTOR = 8 }; // the log is long at this multiple of LOG_PAGES

struct wal {
    pthread_t thread;
    struct db_connection connection; // used by the thread
    struct db *db;
    int seen; // pages in the log when the thread was last woken; only the writer uses it

    pthread_mutex_t copying; // held while pages are copied
    bool failed;             // protected by `copying`

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool due, stopping;
    struct error broken;
};

static int wal_copy_locked(struct wal *w, sqlite3 *sql)
{
    if (w->failed)
        return SQLITE_IOERR;
    int rc = sqlite3_wal_checkpoint_v2(sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) // a reader holds an older snapshot
        return SQLITE_OK;
    w->failed = rc != SQLITE_OK;
    return rc;
}

// Pages that are not copied now are copied later.
static int wal_copy(struct wal *w, sqlite3 *sql)
{
    if (pthread_mutex_trylock(&w->copying))
        return SQLITE_OK;
    int rc = wal_copy_locked(w, sql);
    pthread_mutex_unlock(&w->copying);
    return rc;
}

static void *wal_main(void *arg)
{
    struct wal *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        if (!w->due) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        w->due = false;
        pthread_mutex_unlock(&w->lock);
        struct error e = {0};
        if (wal_copy(w, w->connection.sql) != SQLITE_OK)
            connection_error(w->connection.sql, &e, "copying the write-ahead log");
        pthread_mutex_lock(&w->lock);
        if (e.code)
            w->broken = e;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

// The writer calls this after each commit; the result becomes that of the commit.
static int on_commit(void *arg, sqlite3 *sql, const char *schema, int pages)
{
    struct wal *w = arg;
    (void)schema;
    if (pages < w->seen) // the log was restarted
        w->seen = 0;
    if (pages >= LONG_LOG_FACTOR * w->db->log_pages)
        return wal_copy(w, sql);
    if (pages - w->seen < w->db->log_pages)
        return SQLITE_OK;
    w->seen = pages;
    pthread_mutex_lock(&w->lock);
    w->due = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return SQLITE_OK;
}

// A connection opens the log only at its first read.
static int open_connection(struct db_connection *c, const char *path, struct error *e)
{
    int64_t tables;
    int err = connection_open(c, path, SQLITE_OPEN_READWRITE, e);
    if (err)
        return err;
    err = connection_exec(c->sql, SQL_SYNCHRONOUS_FULL, e);
    if (!err)
        err = connection_ask_int(c->sql, SQL_COUNT_TABLES, &tables, e);
    if (err)
        connection_close(c);
    return err;
}

int wal_start(struct db *db, struct error *e)
{
    struct wal *w = xcalloc(1, sizeof *w);
    int err = open_connection(&w->connection, db->path, e);
    if (err) {
        free(w);
        return err;
    }
    w->db = db;
    pthread_mutex_init(&w->copying, NULL);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    must(!pthread_create(&w->thread, NULL, wal_main, w));
    sqlite3_wal_hook(db->connection.sql, on_commit, w);
    db->wal = w;
    return 0;
}

void wal_stop(struct db *db)
{
    struct wal *w = db->wal;
    if (!w)
        return;
    sqlite3_wal_hook(db->connection.sql, NULL, NULL);
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    must(!pthread_join(w->thread, NULL));
    if (w->failed) {
        connection_keep_log(&w->connection);
        connection_keep_log(&db->connection);
    }
    connection_close(&w->connection);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->copying);
    free(w);
    db->wal = NULL;
}

int wal_check(struct db *db, struct error *e)
{
    struct wal *w = db->wal;
    if (!w)
        return 0;
    pthread_mutex_lock(&w->lock);
    if (w->broken.code)
        *e = w->broken;
    int err = w->broken.code;
    pthread_mutex_unlock(&w->lock);
    return err;
}
