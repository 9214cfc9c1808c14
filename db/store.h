// The internals of the store: only its sources and their tests include this header.
#ifndef MUSTER_DB_STORE_H
#define MUSTER_DB_STORE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "base/histogram.h"
#include "base/os/mailbox.h"
#include "db/db.h"

// connection.c: one SQLite connection and its prepared statements. One thread at a time.

struct db_connection {
    sqlite3 *sql;
    sqlite3_stmt *prepared[STMT_COUNT]; // prepared on first use
};

int connection_open(struct db_connection *c, const char *path, int flags, struct error *e);
void connection_close(struct db_connection *c);    // accepts a closed or zeroed one
void connection_keep_log(struct db_connection *c); // closing will not truncate the log
int connection_copy(sqlite3 *to, sqlite3 *from, struct error *e); // copies all pages
int connection_exec(sqlite3 *sql, const char *text, struct error *e);
// Returns the first column of the first row.
int connection_ask_int(sqlite3 *sql, const char *text, int64_t *out, struct error *e);
int err_of_sqlite(int rc); // 0 or a negative enum err
// Sets *e to the connection's last error, "WHAT: text", and returns its code.
int connection_error(sqlite3 *sql, struct error *e, const char *what);

// statements.c: the table of statements and their values

const char *stmt_name(enum stmt stmt);
const char *stmt_sql(enum stmt stmt);
bool stmt_is_write(enum stmt stmt);
const char *stmt_columns(enum stmt stmt); // "id,name,"; "" for a write
size_t stmt_value_count(enum stmt stmt);

enum { PARAMS_MAX = 64 };
// Reads the struct of a statement's values; returns their number. Texts and blobs are not copied.
size_t stmt_values(enum stmt stmt, const void *values, struct db_value out[PARAMS_MAX]);

// `lifetime`: SQLITE_STATIC or SQLITE_TRANSIENT. A wrong number of values is ERR_INTERNAL.
int values_bind(sqlite3_stmt *s, const struct db_value *values, size_t count,
                sqlite3_destructor_type lifetime, struct error *e);

// migrate.c: the versions of the schema

struct migration {
    const char *name; // "0001_store"
    const char *sql;
};

extern const struct migration migrations[]; // version N is at index N - 1
extern const int migration_count;

enum { STORE_APPLICATION_ID = 0x4d555354 }; // "MUST": SQLite's application id in the file's header

// Brings the store at `path` from its version to `count`, in one transaction.
int store_migrate(sqlite3 *sql, const char *path, const struct migration *list, int count,
                  struct error *e);

// batch.c: the records of a batch

struct db_batch {
    unsigned char *data; // records: see batch.c
    size_t len, cap;
    void (*done)(void *ctx, int err);
    void *ctx;
    int err;             // the result; set by the writer
    struct error *error; // NULL, or receives the text before done()
};

// Adds a statement with any values; for tests of refused batches.
void batch_add_values(struct db_batch *b, enum stmt stmt, const struct db_value *values,
                      size_t count);

// Reads the record at *offset and advances it. Texts point into the batch.
enum stmt batch_next(const struct db_batch *b, size_t *offset, struct db_value values[PARAMS_MAX],
                     size_t *count);

// writer.c: the writer thread and its store

enum { WRITER_GROUP_MAX = 1024 }; // batches in one transaction

enum control {
    CONTROL_BEGIN,
    CONTROL_COMMIT,
    CONTROL_MARK,
    CONTROL_KEEP,
    CONTROL_INDEX_TEXTS,
    CONTROL_INDEX_NAMES,
    CONTROL_INDEXED,
    CONTROL_UNINDEXED,
    CONTROL_COUNT,
};

struct db {
    char *path;
    int lock;     // descriptor of DIR/muster.lock, or -1
    bool by_hand; // in memory; the owner calls db_write()
    atomic_int readers;
    atomic_bool damaged; // a query found damage
    struct histogram commits;
    atomic_int_least64_t committing_since; // monotonic; 0: no transaction runs
    bool describes;                        // the thread of damage_note() was started
    pthread_t describer;
    struct mailbox *queue; // of struct db_batch; NULL: the writer does not run
    struct wal *wal;       // NULL: in memory

    // Owned by the writer thread:
    pthread_t thread;
    struct db_connection connection;
    sqlite3_stmt *control[CONTROL_COUNT];
    struct error broken; // once set, every batch fails
    int log_pages;       // pages in the log before they are copied into the file
};

// damage.c: the description of a damaged store

// Finds the damaged tables of the file at `path` and describes the remedy in *e. It reads the whole
// file. If no table is found, the text names `why`. Returns ERR_CORRUPT.
int damage_describe(const char *path, const char *why, struct error *e);
void damage_note(struct db *db); // starts a thread that describes the damage in the log, once
void damage_stop(struct db *db); // waits for that thread

// wal.c: the thread that copies the log into the file. It runs from before writer_start() until
// after writer_stop().

int wal_start(struct db *db, struct error *e);
void wal_stop(struct db *db);
int wal_check(struct db *db, struct error *e); // an error if copying failed; any thread

// db.c: locks the folder for this process until *lock is closed. *lock may be open also after an
// error. ERR_CONFLICT: another master has the lock.
int store_lock(const char *dir, int *lock, struct error *e);

int writer_start(struct db *db, struct error *e); // without a thread when by_hand
void writer_stop(
    struct db *db); // writes the queued batches first; may be called if the writer was not started

#endif
