// A reader has a connection of its own, which sees committed rows. A statement of the table uses
// the connection's prepared statement. A composed query uses a small cache, because lists have few
// shapes. If the statement is already open (a query within a query), the inner query prepares it
// again.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/os/file.h"
#include "db/statements/control.h"
#include "db/store.h"

enum { SQL_CACHE = 32 };

struct cached_statement {
    uint64_t hash; // of the SQL text
    char *text;    // NULL: free
    sqlite3_stmt *stmt;
    bool open;
    uint64_t used; // number of the last query that used it
};

struct db_reader {
    struct db *db;
    struct db_connection connection;
    bool open[STMT_COUNT];
    struct cached_statement cache[SQL_CACHE];
    uint64_t queries;
    int rows_open, snapshots;
    int failed; // the error of the last failed query; 0: none
};

struct db_rows {
    struct db_reader *reader;
    sqlite3_stmt *stmt; // NULL: it could not be prepared
    bool *open;         // flag of the shared statement; NULL: the query has its own
    int state;          // 1: rows may follow, 0: at the end, negative: error
};

int db_reader_open(struct db *db, struct db_reader **out, struct error *e)
{
    struct db_reader *r = xcalloc(1, sizeof *r);
    int flags = SQLITE_OPEN_READONLY | (db->by_hand ? SQLITE_OPEN_URI : 0);
    int err = connection_open(&r->connection, db->path, flags, e);
    if (err) {
        free(r);
        return err;
    }
    r->db = db;
    atomic_fetch_add(&db->readers, 1);
    *out = r;
    return 0;
}

static int check_identity(sqlite3 *sql, const char *path, struct error *e)
{
    int64_t application = 0, version = 0;
    int err = connection_ask_int(sql, SQL_APPLICATION_ID, &application, e);
    if (!err)
        err = connection_ask_int(sql, SQL_USER_VERSION, &version, e);
    if (err)
        return error_prefix(e, "%s", path);
    if (application != STORE_APPLICATION_ID)
        return error_set(e, ERR_CORRUPT, "%s is not a store of Muster", path);
    if (version != migration_count)
        return error_set(e, ERR_VERSION,
                         "%s has version %lld of the schema, and this program (%s) reads version "
                         "%d: %s",
                         path, (long long)version, MUSTER_VERSION, migration_count,
                         version > migration_count ? "use the program that wrote it"
                                                   : "start this program's master on it once");
    return 0;
}

int db_reader_open_path(const char *path, struct db_reader **out, struct error *e)
{
    struct stat is;
    if (stat(path, &is))
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "%s", path);
    char *file = S_ISDIR(is.st_mode) ? path_join(path, "muster.db") : xstrdup(path);
    struct db_reader *r = xcalloc(1, sizeof *r);
    int err = path_exists(file) ? connection_open(&r->connection, file, SQLITE_OPEN_READONLY, e)
                                : error_set(e, ERR_NOT_FOUND, "there is no %s", file);
    if (!err) {
        err = check_identity(r->connection.sql, file, e);
        if (err)
            connection_close(&r->connection);
    }
    free(file);
    if (err)
        free(r);
    else
        *out = r;
    return err;
}

static void cached_free(struct cached_statement *c)
{
    sqlite3_finalize(c->stmt);
    free(c->text);
    *c = (struct cached_statement){0};
}

void db_reader_close(struct db_reader *r)
{
    if (!r)
        return;
    must(r->rows_open == 0 && r->snapshots == 0);
    for (int i = 0; i < SQL_CACHE; i++)
        cached_free(&r->cache[i]);
    connection_close(&r->connection);
    if (r->db)
        atomic_fetch_sub(&r->db->readers, 1);
    free(r);
}

int db_snapshot_begin(struct db_reader *r, struct error *e)
{
    int err = r->snapshots ? 0 : connection_exec(r->connection.sql, "BEGIN", e);
    r->snapshots += !err;
    return err;
}

void db_snapshot_end(struct db_reader *r)
{
    must(r->snapshots > 0);
    if (--r->snapshots)
        return;
    struct error e;
    if (connection_exec(r->connection.sql, "END", &e))
        log_error("a snapshot of the store cannot be released", "err=\"%s\"", e.text);
}

static void rows_fail(struct db_rows *rows, const char *query, int err, const char *why)
{
    char what[512], text[512];
    log_error("a query failed", "query=%s err=%s", log_quote(what, sizeof what, query),
              log_quote(text, sizeof text, why));
    rows->state = err;
    rows->reader->failed = err;
    if (err == ERR_CORRUPT && rows->reader->db)
        damage_note(rows->reader->db);
}

int64_t db_spare_bytes(struct db_reader *r)
{
    struct db_rows *rows = DB_QUERY(r, SPARE_BYTES);
    int64_t bytes = db_next(rows) > 0 ? DB_GET(rows, SPARE_BYTES, bytes) : 0;
    db_rows_close(rows);
    return bytes;
}

int db_unreadable(struct db_reader *r, struct error *e)
{
    if (r->failed == ERR_CORRUPT && r->db && !r->db->by_hand)
        return damage_describe(r->db->path, "a query found a damaged page", e);
    return error_set(e, ERR_IO, "the store cannot be read; see the master's log");
}

static struct db_rows *rows_new(struct db_reader *r)
{
    struct db_rows *rows = xcalloc(1, sizeof *rows);
    rows->reader = r;
    rows->state = 1;
    r->rows_open++;
    return rows;
}

// Chooses the statement of the query: *shared, prepared on first use, or one of its own (NULL).
static void rows_prepare(struct db_rows *rows, const char *sql, sqlite3_stmt **shared, bool *open)
{
    sqlite3 *connection = rows->reader->connection.sql;
    sqlite3_stmt *own = NULL;
    sqlite3_stmt **stmt = shared ? shared : &own;
    unsigned flags = shared ? SQLITE_PREPARE_PERSISTENT : 0;
    if (!*stmt && sqlite3_prepare_v3(connection, sql, -1, flags, stmt, NULL) != SQLITE_OK) {
        struct error e;
        int err = connection_error(connection, &e, "preparing");
        rows_fail(rows, sql, err, e.text);
        return;
    }
    rows->stmt = *stmt;
    if (shared) {
        *open = true;
        rows->open = open;
    }
}

static void rows_bind(struct db_rows *rows, const struct db_value *values, size_t count)
{
    if (rows->state < 0)
        return;
    struct error e;
    int err = values_bind(rows->stmt, values, count, SQLITE_TRANSIENT, &e);
    if (err)
        rows_fail(rows, sqlite3_sql(rows->stmt), err, e.text);
}

struct db_rows *db_query(struct db_reader *r, enum stmt stmt, const void *values)
{
    must(stmt >= 0 && stmt < STMT_COUNT && !stmt_is_write(stmt));
    struct db_value list[PARAMS_MAX];
    size_t count = stmt_values(stmt, values, list);
    struct db_rows *rows = rows_new(r);
    sqlite3_stmt **shared = r->open[stmt] ? NULL : &r->connection.prepared[stmt];
    rows_prepare(rows, stmt_sql(stmt), shared, &r->open[stmt]);
    rows_bind(rows, list, count);
    return rows;
}

struct db_rows *db_query_all(struct db_reader *r, enum stmt stmt)
{
    must(stmt_value_count(stmt) == 0);
    return db_query(r, stmt, NULL);
}

// Returns the cache entry for this text; NULL: all entries are in use.
static struct cached_statement *cache_place(struct db_reader *r, const char *sql)
{
    uint64_t hash = hash64(sql, strlen(sql));
    struct cached_statement *oldest = NULL;
    for (struct cached_statement *c = r->cache; c < r->cache + SQL_CACHE; c++) {
        if (c->open)
            continue;
        if (c->text && c->hash == hash && !strcmp(c->text, sql))
            return c;
        if (!oldest || c->used < oldest->used)
            oldest = c;
    }
    if (oldest) {
        cached_free(oldest);
        *oldest = (struct cached_statement){.hash = hash, .text = xstrdup(sql)};
    }
    return oldest;
}

struct db_rows *db_query_sql(struct db_reader *r, const char *sql, const struct db_value *values,
                             size_t value_count)
{
    struct db_rows *rows = rows_new(r);
    struct cached_statement *c = cache_place(r, sql);
    if (c)
        c->used = ++r->queries;
    rows_prepare(rows, sql, c ? &c->stmt : NULL, c ? &c->open : NULL);
    rows_bind(rows, values, value_count);
    return rows;
}

int db_next(struct db_rows *rows)
{
    if (rows->state != 1)
        return rows->state;
    int rc = sqlite3_step(rows->stmt);
    if (rc == SQLITE_ROW)
        return 1;
    rows->state = 0;
    if (rc != SQLITE_DONE) {
        struct error e;
        int err = connection_error(rows->reader->connection.sql, &e, "reading");
        rows_fail(rows, sqlite3_sql(rows->stmt), err, e.text);
    }
    sqlite3_reset(rows->stmt); // ends its read transaction, which keeps the log from shrinking
    return rows->state;
}

void db_rows_close(struct db_rows *rows)
{
    if (!rows)
        return;
    if (rows->open) {
        sqlite3_reset(rows->stmt);
        sqlite3_clear_bindings(rows->stmt); // they may be large
        *rows->open = false;
    } else {
        sqlite3_finalize(rows->stmt);
    }
    rows->reader->rows_open--;
    free(rows);
}

int64_t db_get_integer(struct db_rows *rows, int column)
{
    return sqlite3_column_int64(rows->stmt, column);
}

double db_get_real(struct db_rows *rows, int column)
{
    return sqlite3_column_double(rows->stmt, column);
}

const char *db_get_text(struct db_rows *rows, int column)
{
    return (const char *)sqlite3_column_text(rows->stmt, column);
}

struct db_blob db_get_blob(struct db_rows *rows, int column)
{
    const void *data = sqlite3_column_blob(rows->stmt, column); // must be read before the length
    return (struct db_blob){data, (size_t)sqlite3_column_bytes(rows->stmt, column)};
}

enum db_type db_get_type(struct db_rows *rows, int column)
{
    static const enum db_type types[] = {[SQLITE_INTEGER] = DB_INTEGER,
                                         [SQLITE_FLOAT] = DB_REAL,
                                         [SQLITE_TEXT] = DB_TEXT,
                                         [SQLITE_BLOB] = DB_BLOB,
                                         [SQLITE_NULL] = DB_NULL};
    return types[sqlite3_column_type(rows->stmt, column)];
}

int db_columns(const struct db_rows *rows)
{
    return sqlite3_column_count(rows->stmt);
}
