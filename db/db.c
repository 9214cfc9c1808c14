#include "db/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "db/statements/control.h"
#include "db/store.h"

// synchronous FULL flushes each commit; group commit makes that cheap. secure_delete is off,
// because it overwrites every freed page with zeros (Debian's SQLite has it on by default). wal.c
// copies the log into the file; journal_size_limit truncates a log that a slow reader or a large
// transaction made grow. temp_store keeps copies of changed pages in memory. The schema is trusted:
// its triggers write the text index, and no function that a schema can call reaches outside the
// store.
static const char *const pragmas[] = {
    SQL_SYNCHRONOUS_FULL, SQL_FOREIGN_KEYS_ON,  SQL_SECURE_DELETE_OFF,
    SQL_CACHE_8_MIB,      SQL_LOG_LIMIT_64_MIB, SQL_TEMPORARY_IN_MEMORY,
};

enum { LOG_PAGES = 2000 }; // 8 MiB

// Reads the first line of the lock file, which names the process that has the lock.
static long lock_holder(const char *path)
{
    char *text = NULL;
    size_t len;
    long pid = file_read(path, 64, &text, &len, NULL) ? 0 : strtol(text, NULL, 10);
    free(text);
    return pid;
}

int store_lock(const char *dir, int *lock, struct error *e)
{
    char *path = path_join(dir, "muster.lock");
    int err = 0;
    *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*lock < 0) {
        err = error_set_errno(e, ERR_IO, errno,
                              "%s cannot be created; check the owner of the folder", path);
    } else if (flock(*lock, LOCK_EX | LOCK_NB)) {
        err = errno == EWOULDBLOCK
                  ? error_set(e, ERR_CONFLICT,
                              "%s is in use by another master (pid %ld): stop that one, or name "
                              "another folder",
                              dir, lock_holder(path))
                  : error_set_errno(e, ERR_IO, errno, "%s cannot be locked", path);
    } else {
        char text[32];
        int len = snprintf(text, sizeof text, "%ld\n", (long)getpid());
        if (ftruncate(*lock, 0) || pwrite(*lock, text, (size_t)len, 0) != len)
            err = error_set_errno(e, ERR_IO, errno, "%s cannot be written", path);
    }
    free(path);
    return err;
}

// Creates the file before SQLite opens it, readable by its owner only, because it holds password
// hashes. SQLite gives the log the same mode.
static int create_file(const char *dir, const char *path, struct error *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s cannot be opened; check its owner", path);
    close(fd);
    return file_sync_dir(dir, e);
}

static int enable_wal(sqlite3 *sql, struct error *e)
{
    int64_t is_wal = 0;
    int err = connection_exec(sql, SQL_JOURNAL_WAL, e);
    if (!err)
        err = connection_ask_int(sql, SQL_JOURNAL_IS_WAL, &is_wal, e);
    if (!err && !is_wal)
        err = error_set(e, ERR_IO,
                        "a write-ahead log is not possible there; the folder must be on a local "
                        "disk");
    return err;
}

// Describes the remedy for an error of SQLite; `why` is its text.
static int explain_open_error(struct db *db, const struct error *why, struct error *e)
{
    switch (err_of_sqlite(sqlite3_extended_errcode(db->connection.sql))) {
    case 0: // not an error of SQLite: the text is complete
        return error_set(e, why->code, "%s", why->text);
    case ERR_CORRUPT:
        return damage_describe(db->path, why->text, e);
    case ERR_BUSY:
        return error_set(e, ERR_CONFLICT, "%s is locked by another program (%s): end that program",
                         db->path, why->text);
    default:
        return error_set(e, why->code,
                         "%s cannot be opened (%s): check that the disk has room and who owns the "
                         "folder",
                         db->path, why->text);
    }
}

static int set_pragmas(struct db *db, struct error *e)
{
    int err = 0;
    for (size_t i = 0; !err && i < sizeof pragmas / sizeof *pragmas; i++)
        err = connection_exec(db->connection.sql, pragmas[i], e);
    return err;
}

static int open_store(struct db *db, struct error *e)
{
    struct error why = {0};
    int err = connection_open(&db->connection, db->path, SQLITE_OPEN_READWRITE, e);
    if (err)
        return err;
    sqlite3 *sql = db->connection.sql;
    err = store_migrate(sql, db->path, migrations, migration_count, &why);
    if (!err)
        err = enable_wal(sql, &why);
    if (!err)
        err = set_pragmas(db, &why);
    if (!err)
        err = wal_start(db, &why);
    if (!err)
        err = writer_start(db, &why);
    return err ? explain_open_error(db, &why, e) : 0;
}

int db_open(const char *dir, struct db **out, struct error *e)
{
    struct db *db = xcalloc(1, sizeof *db);
    db->lock = -1;
    db->log_pages = LOG_PAGES;
    db->path = path_join(dir, "muster.db");
    int err = dir_make(dir, 0700, e);
    if (!err)
        err = store_lock(dir, &db->lock, e);
    if (!err)
        err = create_file(dir, db->path, e);
    if (!err)
        err = open_store(db, e);
    if (err)
        db_close(db);
    else
        *out = db;
    return err;
}

// Readers find the memory store by its name, which no other store of this process has. They belong
// to the thread that writes, so no query is open during a write and nobody waits for a lock.
int db_open_memory(struct db *from, struct db **out, struct error *e)
{
    static atomic_int stores;
    struct db *db = xcalloc(1, sizeof *db);
    db->lock = -1;
    db->by_hand = true;
    db->path = xasprintf("file:/muster-%d?vfs=memdb", atomic_fetch_add(&stores, 1));
    int err = connection_open(&db->connection, db->path,
                              SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, e);
    if (!err && from)
        err = connection_copy(db->connection.sql, from->connection.sql, e);
    if (!err)
        err = store_migrate(db->connection.sql, db->path, migrations, migration_count, e);
    if (!err)
        err = connection_exec(db->connection.sql, SQL_JOURNAL_MEMORY, e);
    if (!err)
        err = set_pragmas(db, e);
    if (!err)
        err = writer_start(db, e);
    if (err)
        db_close(db);
    else
        *out = db;
    return err;
}

const char *db_path(const struct db *db)
{
    return db->path;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    must(atomic_load(&db->readers) == 0);
    writer_stop(db);
    damage_stop(db);
    wal_stop(db);
    connection_close(&db->connection);
    if (db->lock >= 0)
        close(db->lock); // releases the lock
    free(db->path);
    free(db);
}
