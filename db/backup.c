// VACUUM INTO makes the copy in one read transaction. The copy is therefore consistent, also while
// a master writes. SQLite does not flush the copy; this file flushes it before the copy gets its
// name.
//
// A restore first copies the log of the old store into its file and links the file under another
// name; then the new file takes its name in one step. There is a whole store at any moment.
#include "db/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "db/statements/control.h"
#include "db/store.h"

enum {
    WATCH_STEPS = 20000,  // steps of SQLite's virtual machine between two calls of show()
    COPY_BYTES = 1 << 20, // bytes of one write
    IDS_AHEAD = 10000,    // of experiments and trials
    STARTS_AHEAD = 1000,  // of a trial
};

// --- progress ------------------------------------------------------------------------------------

struct backup_progress {
    const struct backup_watch *watch;
    const char *what, *file; // the file whose size is shown; NULL: none
    int64_t total;
    bool ended;
};

static bool watch_show(const struct backup_watch *watch, const char *what, int64_t done,
                       int64_t total)
{
    return !watch || !watch->show || watch->show(watch->ctx, what, done, total);
}

static int set_abandoned(struct error *e)
{
    return error_set(e, ERR_TIMEOUT, "the caller no longer waits for the copy");
}

static int64_t file_size_of(const char *path)
{
    struct stat is;
    return path && !stat(path, &is) ? is.st_size : 0;
}

static int progress_show(void *arg)
{
    struct backup_progress *l = arg;
    l->ended |= !watch_show(l->watch, l->what, file_size_of(l->file), l->total);
    return l->ended;
}

static void progress_start(sqlite3 *sql, struct backup_progress *l)
{
    progress_show(l);
    if (l->watch && l->watch->show)
        sqlite3_progress_handler(sql, WATCH_STEPS, progress_show, l);
}

// --- contents ------------------------------------------------------------------------------------

static int check_identity(sqlite3 *sql, const char *path, int64_t *version, struct error *e)
{
    int64_t application = 0;
    int err = connection_ask_int(sql, SQL_APPLICATION_ID, &application, e);
    if (!err)
        err = connection_ask_int(sql, SQL_USER_VERSION, version, e);
    if (err)
        return error_set(e, ERR_CORRUPT, "%s is not a store of Muster, or is damaged", path);
    if (application != STORE_APPLICATION_ID)
        return error_set(e, ERR_CORRUPT, "%s is a SQLite file, but not a store of Muster", path);
    if (*version > migration_count)
        return error_set(e, ERR_VERSION,
                         "%s has version %lld of the schema, and this program (%s) knows versions "
                         "up to %d: use the program that wrote it, or a newer one",
                         path, (long long)*version, MUSTER_VERSION, migration_count);
    return 0;
}

static int count_rows(sqlite3 *sql, const char *table, int64_t *rows, struct error *e)
{
    char *text = sqlite3_mprintf(SQL_COUNT_TABLE, table);
    must(text);
    int err = connection_ask_int(sql, text, rows, e);
    sqlite3_free(text);
    return err;
}

static void report_add_table(struct backup_report *r, const char *table, int64_t rows)
{
    r->tables++;
    r->rows += rows;
    if (!strcmp(table, "experiments"))
        r->experiments = rows;
    else if (!strcmp(table, "trials"))
        r->trials = rows;
    else if (!strcmp(table, "checkpoints"))
        r->checkpoints = rows;
}

static int count_all(sqlite3 *sql, struct backup_report *r, struct error *e)
{
    static const char tables[] = SQL_TABLES_BY_NAME;
    sqlite3_stmt *s = NULL;
    int err = 0;
    r->tables = r->rows = 0;
    if (sqlite3_prepare_v2(sql, tables, -1, &s, NULL) != SQLITE_OK)
        return connection_error(sql, e, "counting");
    while (!err && sqlite3_step(s) == SQLITE_ROW) {
        const char *table = (const char *)sqlite3_column_text(s, 0);
        int64_t rows = 0;
        err = count_rows(sql, table, &rows, e);
        report_add_table(r, table, rows);
    }
    sqlite3_finalize(s);
    return err;
}

static int check_integrity(sqlite3 *sql, const char *path, struct error *e)
{
    int64_t faults = 0, broken = 0;
    int err = connection_ask_int(sql, SQL_INTEGRITY_FAULTS, &faults, e);
    if (!err)
        err = connection_ask_int(sql, SQL_BROKEN_REFERENCES, &broken, e);
    if (err || faults || broken)
        return error_set(e, ERR_CORRUPT,
                         "%s is damaged (%lld faults, %lld rows that refer to missing rows): use "
                         "another backup",
                         path, (long long)faults, (long long)broken);
    return 0;
}

int backup_verify(const char *file, const struct backup_watch *watch, struct backup_report *out,
                  struct error *e)
{
    struct db_connection c;
    struct backup_progress progress = {
        .watch = watch, .what = "verifying", .total = file_size_of(file)};
    *out = (struct backup_report){.bytes = progress.total};
    if (!path_exists(file))
        return error_set(e, ERR_NOT_FOUND, "there is no %s", file);
    int err = connection_open(&c, file, SQLITE_OPEN_READONLY, e);
    if (err)
        return err;
    progress_start(c.sql, &progress);
    err = check_identity(c.sql, file, &out->version, e);
    if (!err)
        err = check_integrity(c.sql, file, e);
    if (!err)
        err = count_all(c.sql, out, e);
    connection_close(&c);
    return progress.ended ? set_abandoned(e) : err;
}

// --- backup --------------------------------------------------------------------------------------

static int sync_file(const char *path, struct error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 || fsync(fd) ? error_set_errno(e, ERR_IO, errno, "%s", path) : 0;
    if (fd >= 0)
        close(fd);
    return err;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path ? xstrdup("/")
           : slash       ? xasprintf("%.*s", (int)(slash - path), path)
                         : xstrdup(".");
}

static int rename_copy(const char *aside, const char *path, struct error *e)
{
    char *folder = folder_of(path);
    int err = sync_file(aside, e);
    if (!err && rename(aside, path))
        err = error_set_errno(e, ERR_IO, errno, "%s cannot be renamed to %s", aside, path);
    if (!err)
        err = file_sync_dir(folder, e);
    free(folder);
    return err;
}

int backup_accept(const char *aside, const char *path, const struct backup_watch *watch,
                  struct backup_report *out, struct error *e)
{
    int err = backup_verify(aside, watch, out, e);
    return err ? err : rename_copy(aside, path, e);
}

static int vacuum_into(sqlite3 *sql, const char *aside, const struct backup_watch *watch,
                       struct error *e)
{
    struct backup_progress progress = {.watch = watch, .what = "copying", .file = aside};
    int err = connection_ask_int(sql, SQL_BYTES_IN_USE, &progress.total, e);
    if (err)
        return err;
    char *text = sqlite3_mprintf("VACUUM INTO %Q", aside);
    must(text);
    progress_start(sql, &progress);
    err = connection_exec(sql, text, e);
    sqlite3_progress_handler(sql, 0, NULL, NULL);
    sqlite3_free(text);
    return progress.ended ? set_abandoned(e) : err;
}

// Compares the copy with the store, unless somebody has written in the meantime.
static int compare_with_store(sqlite3 *sql, int64_t data_version, const struct backup_report *copy,
                              struct error *e)
{
    struct backup_report store = {0};
    int64_t now = 0;
    int err = count_all(sql, &store, e);
    if (!err)
        err = connection_ask_int(sql, SQL_DATA_VERSION, &now, e);
    if (!err && now == data_version && (store.rows != copy->rows || store.tables != copy->tables))
        err = error_set(e, ERR_CORRUPT,
                        "the copy has %lld rows in %lld tables, the store %lld in %lld: is the "
                        "store damaged?",
                        (long long)copy->rows, (long long)copy->tables, (long long)store.rows,
                        (long long)store.tables);
    return err;
}

static int make_copy(const char *store, const char *aside, const struct backup_watch *watch,
                     struct backup_report *out, struct error *e)
{
    struct db_connection c;
    int64_t version = 0, data_version = 0;
    int err = connection_open(&c, store, SQLITE_OPEN_READONLY, e);
    if (err)
        return err;
    err = check_identity(c.sql, store, &version, e);
    if (!err)
        err = connection_ask_int(c.sql, SQL_DATA_VERSION, &data_version, e);
    if (!err)
        err = vacuum_into(c.sql, aside, watch, e);
    if (!err)
        err = backup_verify(aside, watch, out, e);
    if (!err)
        err = compare_with_store(c.sql, data_version, out, e);
    connection_close(&c);
    return err;
}

static char *store_path_of(const char *from)
{
    struct stat is;
    return !stat(from, &is) && S_ISDIR(is.st_mode) ? path_join(from, "muster.db") : xstrdup(from);
}

int backup_make(const char *from, const char *to, bool replace, const struct backup_watch *watch,
                struct backup_report *out, struct error *e)
{
    char *store = store_path_of(from), *aside = xasprintf("%s.tmp.%ld", to, (long)getpid());
    int err = 0;
    if (!path_exists(store))
        err = error_set(e, ERR_NOT_FOUND, "there is no %s", store);
    else if (path_exists(to) && !replace)
        err =
            error_set(e, ERR_CONFLICT, "%s already exists: name another file, or use --force", to);
    if (!err)
        err = file_write_durable(aside, "", 0, 0600, e); // the copy holds password hashes
    if (!err) {
        err = make_copy(store, aside, watch, out, e);
        if (!err)
            err = rename_copy(aside, to, e);
        if (err)
            unlink(aside);
    }
    free(aside);
    free(store);
    return err;
}

int backup_spool(const char *from, const char *to, const struct backup_watch *watch,
                 struct error *e)
{
    struct backup_report ignored;
    char *store = store_path_of(from);
    int err = file_write_durable(to, "", 0, 0600, e);
    if (!err)
        err = make_copy(store, to, watch, &ignored, e);
    if (err)
        unlink(to);
    free(store);
    return err;
}

// --- restore -------------------------------------------------------------------------------------

static int copy_bytes(int from, int to, int64_t total, const struct backup_watch *watch)
{
    char *piece = xcalloc(1, COPY_BYTES);
    int64_t done = 0;
    ssize_t n;
    int err = 0;
    while (!err && (n = read(from, piece, COPY_BYTES)) != 0) {
        err = n < 0 ? -1 : file_write_all(to, piece, (size_t)n);
        done += n;
        if (!err && !watch_show(watch, "copying", done, total))
            err = -1;
    }
    free(piece);
    return err;
}

static int copy_file(const char *from, const char *to, const struct backup_watch *watch,
                     struct error *e)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), err = 0;
    if (in < 0)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "%s", from);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0 || copy_bytes(in, out, file_size_of(from), watch) || fsync(out))
        err = error_set_errno(e, ERR_IO, errno, "copying %s to %s", from, to);
    if (out >= 0)
        close(out);
    close(in);
    return err;
}

// Agents may still run tasks that started after the copy was made, with ids that the copy has not
// given yet. An id or a start number of a trial must not be given twice.
static int advance_ids(const char *path, struct error *e)
{
    struct db_connection c;
    char text[256];
    int err = connection_open(&c, path, SQLITE_OPEN_READWRITE, e);
    if (err)
        return err;
    snprintf(text, sizeof text, SQL_ADVANCE_IDS, IDS_AHEAD, STARTS_AHEAD);
    err = connection_exec(c.sql, SQL_SYNCHRONOUS_FULL, e);
    if (!err)
        err = connection_exec(c.sql, text, e);
    connection_close(&c);
    return err;
}

static void move_if_present(const char *from, const char *to)
{
    if (path_exists(from) && rename(from, to))
        log_warn("a file could not be kept", "path=%s", from);
}

// Makes one file without a log. If the store is damaged, its log is kept.
static void log_truncate(const char *path)
{
    struct db_connection c;
    struct error ignored = {0};
    if (connection_open(&c, path, SQLITE_OPEN_READWRITE, &ignored))
        return;
    connection_exec(c.sql, SQL_CHECKPOINT_LOG, &ignored);
    connection_close(&c); // closing the last connection copies and removes the log
}

static int keep_old_store(const char *store, char **kept, struct error *e)
{
    char *log = xasprintf("%s-wal", store), *shared = xasprintf("%s-shm", store), *kept_log = NULL;
    char when[32];
    time_t now = time(NULL);
    struct tm utc;
    int err = 0;
    strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    *kept = xasprintf("%s.replaced-%s", store, when);
    kept_log = xasprintf("%s-wal", *kept);
    log_truncate(store);
    if (link(store, *kept))
        err = errno == EEXIST ? error_set(e, ERR_CONFLICT, "%s already exists", *kept)
                              : copy_file(store, *kept, NULL, e);
    if (!err) {
        move_if_present(log, kept_log);
        unlink(shared);
    }
    free(kept_log);
    free(shared);
    free(log);
    return err;
}

static int check_is_backup(const char *file, struct error *e)
{
    char *log = xasprintf("%s-wal", file);
    int err = file_size_of(log) > 0
                  ? error_set(e, ERR_INVALID,
                              "%s has a log beside it (%s): it is a store in use, not a backup; "
                              "make one of it with muster master backup",
                              file, log)
                  : 0;
    free(log);
    return err;
}

static int install_copy(const char *aside, const char *store, char **kept, struct error *e)
{
    int err = path_exists(store) ? keep_old_store(store, kept, e) : 0;
    return err ? err : rename_copy(aside, store, e);
}

int backup_restore(const char *file, const char *dir, const struct backup_watch *watch,
                   struct backup_report *out, char **kept, struct error *e)
{
    char *store = path_join(dir, "muster.db"), *aside = xasprintf("%s.restored", store);
    int lock = -1;
    *kept = NULL;
    int err = check_is_backup(file, e);
    if (!err)
        err = dir_make(dir, 0700, e);
    if (!err)
        err = store_lock(dir, &lock, e);
    if (!err)
        err = copy_file(file, aside, watch, e);
    if (!err)
        err = backup_verify(aside, watch, out, e);
    if (!err)
        err = advance_ids(aside, e);
    if (!err)
        err = install_copy(aside, store, kept, e);
    if (err) {
        unlink(aside);
        free(*kept);
        *kept = NULL;
    }
    if (lock >= 0)
        close(lock);
    free(aside);
    free(store);
    return err;
}
