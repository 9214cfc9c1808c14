// The experiment store: SQLite in WAL mode with synchronous=FULL, one writer thread, many readers.
//
// Writes are batches of statements from the table (statements.h). The writer takes every batch that
// is waiting, commits them in one transaction (group commit), and then notifies each sender.
// Batches commit in the order of db_commit(); each takes effect as a whole or not at all. Readers
// see committed data only; a reader belongs to one thread.
#ifndef MUSTER_DB_DB_H
#define MUSTER_DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "db/statements.h" // enum stmt

struct db;        // the store: any thread
struct db_batch;  // being filled: one thread
struct db_reader; // one thread

// Opens DIR/muster.db; creates or migrates it first if necessary. A schema newer than this program
// is ERR_VERSION, a damaged file ERR_CORRUPT, a file that another master uses ERR_CONFLICT; each
// text says what to do. A migration of an existing store first keeps a copy beside it
// (muster.db.before-N).
int db_open(const char *dir, struct db **out, struct error *e);
void db_close(struct db *db); // waits for queued batches

const char *db_path(const struct db *db); // path of the file; valid until db_close()

// A store in memory and without a thread, for simulations: db_commit() queues batches, and the
// owner writes them. It begins as a copy of the committed rows of `from`, or empty (NULL).
int db_open_memory(struct db *from, struct db **out, struct error *e);
// Writes the oldest batches, at most `max_batches`, as one group; returns their number.
size_t db_write(struct db *db, size_t max_batches);
void db_discard_queue(struct db *db); // drops queued batches, as a crash would

struct db_batch *db_batch_new(void);
void db_batch_free(struct db_batch *b); // only before db_commit()
bool db_batch_empty(const struct db_batch *b);

// Adds a statement with its values, which are copied. A wrong number or type does not compile:
//   DB_ADD(batch, TRIAL_SET_STATE, "RUNNING", id);
#define DB_ADD(batch, name, ...)                                                                   \
    db_batch_add(batch, STMT_##name, &(struct db_write_##name){1 DB_EACH(__VA_ARGS__)})
void db_batch_add(struct db_batch *b, enum stmt stmt, const void *values); // use DB_ADD()

// Appends the statements of `more` to `b` and frees `more`.
void db_batch_join(struct db_batch *b, struct db_batch *more);

// Hands the batch to the writer, which owns it from now on. The writer thread calls done(ctx, err)
// after the commit (err 0), or with the negative error of this batch, which then has no effect:
// ERR_CONFLICT for a duplicate key, ERR_INVALID for another constraint or a type. Once the store
// itself has failed (ERR_IO, ERR_CORRUPT, ..) every later batch fails as well. db_commit() waits
// while LIMIT_WRITER_QUEUE batches are queued, so done() must not call it. done may be NULL.
void db_commit(struct db *db, struct db_batch *b, void (*done)(void *ctx, int err), void *ctx);

// Commits and waits; for start-up and tests.
int db_commit_wait(struct db *db, struct db_batch *b, struct error *e);

int db_reader_open(struct db *db, struct db_reader **out, struct error *e);
// Opens a reader of a store that this process has not opened; `path` is a folder or a file. A
// master may write the store at the same time. Errors: ERR_NOT_FOUND, ERR_VERSION, ERR_CORRUPT
// (also: not a store), ERR_IO.
int db_reader_open_path(const char *path, struct db_reader **out, struct error *e);
void db_reader_close(struct db_reader *r);

// Between the two calls, all queries of the reader see the same state of the store. Calls nest.
// Keep a snapshot short: the write-ahead log cannot shrink while it is open.
int db_snapshot_begin(struct db_reader *r, struct error *e);
void db_snapshot_end(struct db_reader *r);

// Runs a query with its values. It always returns a cursor, which must be closed; db_next() reports
// errors.
//   struct db_rows *rows = DB_QUERY(reader, LOG_SENDERS, task_id);
//   while ((more = db_next(rows)) == 1)
//       add(DB_GET(rows, LOG_SENDERS, agent_id), DB_GET(rows, LOG_SENDERS, last_sequence));
//   db_rows_close(rows);
#define DB_QUERY(reader, name, ...)                                                                \
    db_query(reader, STMT_##name, &(struct db_read_##name){1 DB_EACH(__VA_ARGS__)})
struct db_rows;
struct db_rows *db_query(struct db_reader *r, enum stmt stmt, const void *values); // use DB_QUERY()
struct db_rows *db_query_all(struct db_reader *r,
                             enum stmt stmt); // for a query that takes no values

// Runs a query that is composed of constants of db/statements (never of outside text), with its
// values.
enum db_type { DB_NULL, DB_INTEGER, DB_REAL, DB_TEXT, DB_BLOB };
struct db_value {
    enum db_type type;
    int64_t i;
    double d;
    const void *p; // texts and blobs: `len` bytes
    size_t len;
};
struct db_value db_value_integer(int64_t value);
struct db_value db_value_real(double value);
struct db_value db_value_text(const char *value); // NULL: null
struct db_rows *db_query_sql(struct db_reader *r, const char *sql, const struct db_value *values,
                             size_t value_count);

int db_next(struct db_rows *rows); // 1: a row, 0: no more, negative: error (logged)
int64_t
db_spare_bytes(struct db_reader *r); // bytes of the file that are free for new data; 0: not known
// Describes a query that failed while a program starts: the damaged table and the remedy. The check
// may take half a minute, so no call of a running master uses it. ERR_CORRUPT, ERR_IO.
int db_unreadable(struct db_reader *r, struct error *e);
void db_rows_close(struct db_rows *rows);

// The value of a column of the current row: int64_t, double, const char * or struct db_blob, as the
// table declares it. `row` is a statement or a shared row. Texts and blobs live until the next
// db_next(). A null is 0, 0.0, NULL or an empty blob.
#define DB_GET(rows, row, column)     DB_GET_FROM(rows, 0, row, column)
#define DB_IS_NULL(rows, row, column) (db_get_type(rows, DB_COLUMN(row, column)) == DB_NULL)
#define DB_COLUMN(row, column)        ((int)(offsetof(struct db_columns_##row, column) / sizeof(void *)))
#define DB_COLUMNS(row)               ((int)(sizeof(struct db_columns_##row) / sizeof(void *)))

#define DB_BLOB(data, len)  ((struct db_blob){data, len})
#define DB_NOT_NULL(number) (&(int64_t){number}) // a value of type integer_or_null

// The same for a row that is a part of a wider row and begins at its column `first`.
#define DB_GET_FROM(rows, first, row, column)                                                      \
    _Generic(((struct db_columns_##row *)0)->column, int64_t *                                     \
             : db_get_integer, double *                                                            \
             : db_get_real, const char **                                                          \
             : db_get_text, struct db_blob *                                                       \
             : db_get_blob)(rows, (first) + DB_COLUMN(row, column))

// Read a column by its number, for rows whose columns the caller composed.
int64_t db_get_integer(struct db_rows *rows, int column);
double db_get_real(struct db_rows *rows, int column);
const char *db_get_text(struct db_rows *rows, int column);
struct db_blob db_get_blob(struct db_rows *rows, int column);
enum db_type db_get_type(struct db_rows *rows, int column);
int db_columns(const struct db_rows *rows);

// Expands to ", a, b, c" for the initialisers above. Each value goes through a comma operator, so
// that a constant 0 is not a null pointer: as a text it does not compile.
#define DB_EACH(...)        __VA_OPT__(DB_EXPAND(DB_EACH_1(__VA_ARGS__)))
#define DB_EACH_1(arg, ...) , ((void)0, arg)__VA_OPT__(DB_EACH_2 DB_PARENS(__VA_ARGS__))
#define DB_EACH_2()         DB_EACH_1
#define DB_PARENS           ()
#define DB_EXPAND(...)      DB_EXPAND_5(DB_EXPAND_5(DB_EXPAND_5(DB_EXPAND_5(DB_EXPAND_5(__VA_ARGS__)))))
#define DB_EXPAND_5(...)    DB_EXPAND_1(DB_EXPAND_1(DB_EXPAND_1(DB_EXPAND_1(__VA_ARGS__))))
#define DB_EXPAND_1(...)    __VA_ARGS__

#endif
