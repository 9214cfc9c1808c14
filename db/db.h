// The experiment store: SQLite in WAL mode with synchronous=FULL, one writer thread, many readers.
//
// Writes are batches of statements from the table (statements.h). The writer takes every batch that
// is waiting and commits them in one transaction (group commit), then tells each sender. Batches
// commit in the order of db_commit(); each is all or nothing. Readers see committed data only; a
// reader belongs to one thread.
#ifndef MUSTER_DB_DB_H
#define MUSTER_DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "db/statements.h" // enum stmt

struct db_value {
    char type; // as in db_batch_add; s and b: `len` bytes at p
    int64_t i;
    double d;
    const void *p;
    size_t len;
};

struct db;        // the store: any thread
struct db_batch;  // being filled: one thread
struct db_reader; // one thread

// Opens (creates, migrates) DIR/muster.db. A schema newer than this program is ERR_VERSION, a
// damaged file ERR_CORRUPT, a file held by another master ERR_CONFLICT; each text says what to do.
// A migration of an existing store first keeps a copy beside it (muster.db.before-N).
int db_open(const char *dir, struct db **out, struct error *e);
void db_close(struct db *db); // waits for queued batches

const char *db_path(const struct db *db); // of its file; as long as it is open

// A store in memory and without a thread, for simulations: db_commit() queues, and its owner writes
// when it likes. It begins as a copy of what `from` has written, or empty (NULL).
int db_open_memory(struct db *from, struct db **out, struct error *e);
size_t db_write(struct db *db, size_t most); // the oldest so many batches, as one group; how many
void db_forget(struct db *db);               // batches not yet written: the end of the process

struct db_batch *db_batch_new(void);
void db_batch_free(struct db_batch *b); // of a batch that was not committed
bool db_batch_empty(const struct db_batch *b);

// Adds one statement. `types` has a letter for each parameter, in order: i int64_t, d double,
// s const char * (NULL binds null), b const void * and size_t, n nothing (null). Arguments are
// copied.
//   db_batch_add(b, STMT_TRIAL_SET_STATE, "si", "RUNNING", (int64_t)id);
void db_batch_add(struct db_batch *b, enum stmt stmt, const char *types, ...);

// Puts the statements of `more` behind those of `b`, and frees it.
void db_batch_join(struct db_batch *b, struct db_batch *more);

// Hands the batch to the writer, which owns it from here on. `done(ctx, err)` is called on the
// writer thread after the commit (err 0), or with the negative error of this batch, which then has
// no effect: ERR_CONFLICT a key that is there already, ERR_INVALID another constraint or a type.
// Once the store itself has failed (ERR_IO, ERR_CORRUPT, ..) every later batch fails as well. Waits
// while LIMIT_WRITER_QUEUE batches are queued; not to be called in done(). done may be NULL.
void db_commit(struct db *db, struct db_batch *b, void (*done)(void *ctx, int err), void *ctx);

// Commits and waits; for start-up and tests.
int db_commit_wait(struct db *db, struct db_batch *b, struct error *e);

int db_reader_open(struct db *db, struct db_reader **out, struct error *e);
// Of a store that this process has not opened: DIR/muster.db or such a file, which a master may be
// writing at the same time. ERR_NOT_FOUND, ERR_VERSION, ERR_CORRUPT (also: no store), ERR_IO.
int db_reader_open_path(const char *path, struct db_reader **out, struct error *e);
void db_reader_close(struct db_reader *r);

// Between the two, all queries of the reader see the store as it was at the first of them. They may
// be nested. Short: the log cannot be folded into the file meanwhile.
int db_snapshot_begin(struct db_reader *r, struct error *e);
void db_snapshot_end(struct db_reader *r);

// A query of the table, or of SQL built from constant fragments (never from outside text).
// Parameters as in db_batch_add. Then db_next() until it returns 0; a reader has one open query at
// a time per call depth: db_query returns a cursor that must be closed.
struct db_rows;
struct db_rows *db_query(struct db_reader *r, enum stmt stmt, const char *types, ...);
struct db_rows *db_query_sql(struct db_reader *r, const char *sql, const struct db_value *values,
                             size_t value_count);
int db_next(struct db_rows *rows);           // 1: a row, 0: no more, negative: error (logged)
int64_t db_spare_bytes(struct db_reader *r); // of the file, free to be filled again; 0: not known
// Describes a failed query while a program starts: names the damaged table and the remedy. It may
// take half a minute, so no call of a running master uses it. ERR_CORRUPT, ERR_IO.
int db_unreadable(struct db_reader *r, struct error *e);
void db_rows_close(struct db_rows *rows);
int64_t db_int(struct db_rows *rows, int column); // null -> 0
double db_double(struct db_rows *rows, int column);
const char *db_text(struct db_rows *rows, int column); // null -> NULL; until the next db_next()
const void *db_blob(struct db_rows *rows, int column, size_t *len);
bool db_is_null(struct db_rows *rows, int column);
char db_type(struct db_rows *rows, int column); // i d s b, as in db_batch_add; n: null
int db_columns(const struct db_rows *rows);

#endif
