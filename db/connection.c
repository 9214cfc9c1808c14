#include <string.h>

#include "base/log.h"
#include "db/store.h"

enum {
    // Another program that reads the file may hold its lock for a while.
    BUSY_TIMEOUT_MS = 30 * 1000,
};

int err_of_sqlite(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_CONSTRAINT:
        return rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY ? ERR_CONFLICT
                                                                                    : ERR_INVALID;
    case SQLITE_MISMATCH:
        return ERR_INVALID;
    case SQLITE_TOOBIG:
        return ERR_TOO_LARGE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return ERR_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_CORRUPT;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return ERR_IO;
    case SQLITE_NOMEM:
        return ERR_NO_MEMORY;
    default:
        return ERR_INTERNAL;
    }
}

int connection_error(sqlite3 *sql, struct error *e, const char *what)
{
    int rc = sqlite3_extended_errcode(sql);
    int code = err_of_sqlite(rc);
    return error_set(e, code ? code : ERR_INTERNAL, "%s: %s (SQLite code %d)", what,
                     sqlite3_errmsg(sql), rc);
}

int connection_open(struct db_connection *c, const char *path, int flags, struct error *e)
{
    *c = (struct db_connection){0};
    flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int rc = sqlite3_open_v2(path, &c->sql, flags, NULL);
    must(c->sql);
    if (rc != SQLITE_OK) {
        int err = connection_error(c->sql, e, path);
        connection_close(c);
        return err;
    }
    sqlite3_busy_timeout(c->sql, BUSY_TIMEOUT_MS);
    return 0;
}

void connection_close(struct db_connection *c)
{
    for (int i = 0; i < STMT_COUNT; i++)
        sqlite3_finalize(c->prepared[i]);
    must(sqlite3_close(c->sql) == SQLITE_OK);
    *c = (struct db_connection){0};
}

void connection_keep_log(struct db_connection *c)
{
    sqlite3_db_config(c->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

int connection_copy(sqlite3 *to, sqlite3 *from, struct error *e)
{
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    if (backup) {
        sqlite3_backup_step(backup, -1);
        sqlite3_backup_finish(backup);
    }
    return sqlite3_errcode(to) == SQLITE_OK ? 0 : connection_error(to, e, "copying");
}

int connection_exec(sqlite3 *sql, const char *text, struct error *e)
{
    return sqlite3_exec(sql, text, NULL, NULL, NULL) == SQLITE_OK ? 0
                                                                  : connection_error(sql, e, text);
}

int connection_ask_int(sqlite3 *sql, const char *text, int64_t *out, struct error *e)
{
    sqlite3_stmt *s = NULL;
    int err = 0;
    if (sqlite3_prepare_v2(sql, text, -1, &s, NULL) != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW)
        err = connection_error(sql, e, text);
    else
        *out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return err;
}

static int bind_one(sqlite3_stmt *s, int index, const struct db_value *v,
                    sqlite3_destructor_type lifetime)
{
    switch (v->type) {
    case DB_INTEGER:
        return sqlite3_bind_int64(s, index, v->i);
    case DB_REAL:
        return sqlite3_bind_double(s, index, v->d);
    case DB_TEXT:
        return sqlite3_bind_text64(s, index, v->p, v->len, lifetime, SQLITE_UTF8);
    case DB_BLOB: // SQLite binds an empty blob without an address as null
        return sqlite3_bind_blob64(s, index, v->len ? v->p : "", v->len, lifetime);
    default:
        must(v->type == DB_NULL);
        return sqlite3_bind_null(s, index);
    }
}

int values_bind(sqlite3_stmt *s, const struct db_value *values, size_t count,
                sqlite3_destructor_type lifetime, struct error *e)
{
    int wanted = sqlite3_bind_parameter_count(s);
    if ((size_t)wanted != count)
        return error_set(e, ERR_INTERNAL, "the statement takes %d values and was given %zu", wanted,
                         count);
    for (int i = 0; i < wanted; i++)
        if (bind_one(s, i + 1, &values[i], lifetime) != SQLITE_OK)
            return connection_error(sqlite3_db_handle(s), e, "binding a value");
    return 0;
}
