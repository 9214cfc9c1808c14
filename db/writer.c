// The writer thread. It takes all queued batches (at most WRITER_GROUP_MAX), runs them in one
// transaction, and notifies the senders after the commit. The next group gathers during a commit,
// so that many batches share one flush.
//
// There are two kinds of failure. A batch that the schema refuses (a constraint, a type) fails
// alone: the writer rolls the transaction back and runs it again, with a savepoint before each
// batch. The first attempt has no savepoints because they cost time: SQLite copies every page that
// changes after one, to a file if there are many. When the store itself fails (disk full, input or
// output error, damage), every batch of the group fails and so does every later one until the
// process starts again: batches commit in order, and a batch may depend on the one before it. After
// a failed flush nobody knows which pages are on the disk, either.
//
// Before each commit the writer indexes the texts of the experiments that triggers have put into
// experiments_unindexed.

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "db/statements/control.h"
#include "db/store.h"

static const char *const control_sql[CONTROL_COUNT] = {
    [CONTROL_BEGIN] = "BEGIN IMMEDIATE",     [CONTROL_COMMIT] = "COMMIT",
    [CONTROL_MARK] = "SAVEPOINT batch",      [CONTROL_KEEP] = "RELEASE batch",
    [CONTROL_INDEX_TEXTS] = SQL_INDEX_TEXTS, [CONTROL_INDEX_NAMES] = SQL_INDEX_NAMES,
    [CONTROL_INDEXED] = SQL_CLEAR_UNINDEXED, [CONTROL_UNINDEXED] = SQL_HAS_UNINDEXED,
};

// Returns 1 if the statement has a row, else 0.
static int run_control(struct db *db, enum control control, struct error *e)
{
    int rc = sqlite3_step(db->control[control]);
    int found = rc == SQLITE_DONE  ? 0
                : rc == SQLITE_ROW ? 1
                                   : connection_error(db->connection.sql, e, control_sql[control]);
    sqlite3_reset(db->control[control]);
    return found;
}

static int run_statement(struct db *db, enum stmt stmt, const struct db_value *values, size_t count,
                         struct error *e)
{
    sqlite3 *sql = db->connection.sql;
    sqlite3_stmt **prepared = &db->connection.prepared[stmt];
    if (!*prepared && sqlite3_prepare_v3(sql, stmt_sql(stmt), -1, SQLITE_PREPARE_PERSISTENT,
                                         prepared, NULL) != SQLITE_OK)
        return connection_error(sql, e, stmt_name(stmt));
    sqlite3_stmt *s = *prepared;
    int err = values_bind(s, values, count, SQLITE_STATIC, e);
    if (err)
        return error_prefix(e, "%s", stmt_name(stmt));
    int rc;
    do {
        rc = sqlite3_step(s);
    } while (rc == SQLITE_ROW);
    if (rc != SQLITE_DONE)
        err = connection_error(sql, e, stmt_name(stmt));
    sqlite3_reset(s);
    return err;
}

static int run_statements(struct db *db, const struct db_batch *b, struct error *e)
{
    int err = 0;
    struct db_value values[PARAMS_MAX];
    size_t count;
    for (size_t at = 0; !err && at < b->len;) {
        enum stmt stmt = batch_next(b, &at, values, &count);
        err = run_statement(db, stmt, values, count, e);
    }
    return err;
}

// Returns whether only the batch is at fault. Some failures of the store end the transaction.
static bool is_refusal(struct db *db, int err)
{
    bool by_code =
        err == ERR_CONFLICT || err == ERR_INVALID || err == ERR_TOO_LARGE || err == ERR_INTERNAL;
    return by_code && !sqlite3_get_autocommit(db->connection.sql);
}

static void fail_batch(struct db_batch *b, const struct error *why)
{
    b->err = why->code;
    if (b->error)
        *b->error = *why;
}

// Returns a negative error only if the store fails; a refused batch has b->err.
static int run_batch(struct db *db, struct db_batch *b, struct error *e)
{
    int err = run_control(db, CONTROL_MARK, e);
    if (err)
        return err;
    err = run_statements(db, b, e);
    if (err && !is_refusal(db, err))
        return err;
    if (err) {
        char text[ERROR_TEXT_MAX];
        log_warn("the store refused a batch", "err=%s", log_quote(text, sizeof text, e->text));
        fail_batch(b, e);
        err = connection_exec(db->connection.sql, "ROLLBACK TO batch", e);
        if (err)
            return err;
    }
    return run_control(db, CONTROL_KEEP, e);
}

static int index_texts(struct db *db, struct error *e)
{
    int err = run_control(db, CONTROL_UNINDEXED, e);
    if (err <= 0)
        return err;
    err = run_control(db, CONTROL_INDEX_TEXTS, e);
    if (!err)
        err = run_control(db, CONTROL_INDEX_NAMES, e);
    return err ? err : run_control(db, CONTROL_INDEXED, e);
}

static int run_transaction(struct db *db, void **group, size_t n, bool careful, struct error *e)
{
    int err = run_control(db, CONTROL_BEGIN, e);
    for (size_t i = 0; !err && i < n; i++)
        err = careful ? run_batch(db, group[i], e) : run_statements(db, group[i], e);
    if (!err)
        err = index_texts(db, e);
    return err ? err : run_control(db, CONTROL_COMMIT, e);
}

static int run_group(struct db *db, void **group, size_t n, struct error *e)
{
    int err = run_transaction(db, group, n, false, e);
    if (!err || !is_refusal(db, err))
        return err;
    err = connection_exec(db->connection.sql, "ROLLBACK", e);
    return err ? err : run_transaction(db, group, n, true, e);
}

static const char *advice_for(int err)
{
    switch (err) {
    case ERR_BUSY:
        return "another program holds the file's write lock; end that program";
    case ERR_CORRUPT:
        return "the file is damaged; go back to a backup with \"muster master restore\"";
    default:
        return "check that its disk has free space and works";
    }
}

static void break_store(struct db *db, const struct error *why)
{
    db->broken.code = why->code;
    error_set(&db->broken, why->code, "%s cannot be written (%s): %s, then start again", db->path,
              why->text, advice_for(why->code));
    char text[ERROR_TEXT_MAX];
    if (why->code == ERR_CORRUPT)
        damage_describe(db->path, why->text, &db->broken);
    log_error("the store has failed", "err=%s", log_quote(text, sizeof text, db->broken.text));
    connection_keep_log(&db->connection);
    if (!sqlite3_get_autocommit(db->connection.sql))
        connection_exec(db->connection.sql, "ROLLBACK", NULL);
}

static void commit_group(struct db *db, void **group, size_t n)
{
    struct error e = {0};
    int64_t begun = clock_mono_us();
    atomic_store(&db->committing_since, begun);
    if (!db->broken.code && (wal_check(db, &e) || run_group(db, group, n, &e)))
        break_store(db, &e);
    atomic_store(&db->committing_since, 0);
    histogram_add(&db->commits, clock_mono_us() - begun);
    for (size_t i = 0; i < n; i++) {
        struct db_batch *b = group[i];
        if (db->broken.code)
            fail_batch(b, &db->broken);
        if (b->done)
            b->done(b->ctx, b->err);
        db_batch_free(b);
    }
}

static void *writer_main(void *arg)
{
    struct db *db = arg;
    void *group[WRITER_GROUP_MAX];
    size_t n;
    while ((n = mailbox_receive(db->queue, group, WRITER_GROUP_MAX, INT64_MAX)) > 0)
        commit_group(db, group, n);
    return NULL;
}

static void free_control(struct db *db)
{
    for (int i = 0; i < CONTROL_COUNT; i++) {
        sqlite3_finalize(db->control[i]);
        db->control[i] = NULL;
    }
}

int writer_start(struct db *db, struct error *e)
{
    for (int i = 0; i < CONTROL_COUNT; i++)
        if (sqlite3_prepare_v3(db->connection.sql, control_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &db->control[i], NULL) != SQLITE_OK) {
            int err = connection_error(db->connection.sql, e, control_sql[i]);
            free_control(db);
            return err;
        }
    db->queue = mailbox_new(LIMIT_WRITER_QUEUE);
    must(db->by_hand || pthread_create(&db->thread, NULL, writer_main, db) == 0);
    return 0;
}

void writer_stop(struct db *db)
{
    if (!db->queue)
        return;
    mailbox_close(db->queue);
    if (db->by_hand)
        writer_main(db);
    else
        must(pthread_join(db->thread, NULL) == 0);
    mailbox_free(db->queue);
    db->queue = NULL;
    free_control(db);
}

void db_commit(struct db *db, struct db_batch *b, void (*done)(void *ctx, int err), void *ctx)
{
    // done() runs on the writer thread, which alone makes room in the queue: waiting would
    // deadlock.
    must(db->by_hand || !pthread_equal(pthread_self(), db->thread));
    b->done = done;
    b->ctx = ctx;
    must(mailbox_send_wait(db->queue, b) == 0);
}

size_t db_write(struct db *db, size_t max_batches)
{
    void *group[WRITER_GROUP_MAX];
    size_t waiting = mailbox_length(db->queue), n = 0;
    must(db->by_hand);
    if (waiting && max_batches)
        n = mailbox_receive(db->queue, group,
                            max_batches < WRITER_GROUP_MAX ? max_batches : WRITER_GROUP_MAX, 0);
    if (n)
        commit_group(db, group, n);
    return n;
}

void db_discard_queue(struct db *db)
{
    void *batch;
    must(db->by_hand);
    while (mailbox_length(db->queue) && mailbox_receive(db->queue, &batch, 1, 0))
        db_batch_free(batch);
}

struct commit_waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    int err;
};

static void wake_waiter(void *ctx, int err)
{
    struct commit_waiter *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    w->err = err;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

int db_commit_wait(struct db *db, struct db_batch *b, struct error *e)
{
    struct commit_waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    b->error = e;
    db_commit(db, b, wake_waiter, &w);
    while (db->by_hand && db_write(db, WRITER_GROUP_MAX))
        ;
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.changed, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    return w.err;
}
