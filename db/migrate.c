// Migrations: db/migrations/NNNN_name.sql, in order, each once. A released file never changes; the
// next change of the schema is a new file. The build lists and embeds them.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "db/store.h"

// CMakeLists.txt makes migrations.inc: MIGRATION(1, "0001_store", "/path/of/the/file.sql") ..
#define MIGRATION(number, name, path)                                                              \
    __asm__(".pushsection .rodata\n"                                                               \
            ".globl db_migration_" #number "\n"                                                    \
            "db_migration_" #number ":\n"                                                          \
            ".incbin \"" path "\"\n"                                                               \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char db_migration_##number[];
#include "migrations.inc"
#undef MIGRATION

const struct migration migrations[] = {
#define MIGRATION(number, name, path) {name, db_migration_##number},
#include "db/statements/control.h"
#include "migrations.inc"
#undef MIGRATION
};
const int migration_count = sizeof migrations / sizeof migrations[0];

struct store_identity {
    int64_t application, version, tables;
};

static int read_identity(sqlite3 *sql, struct store_identity *id, struct error *e)
{
    int err = connection_ask_int(sql, SQL_APPLICATION_ID, &id->application, e);
    if (!err)
        err = connection_ask_int(sql, SQL_USER_VERSION, &id->version, e);
    if (!err)
        err = connection_ask_int(sql, SQL_COUNT_TABLES, &id->tables, e);
    return err;
}

static int refuse_newer(const char *path, int64_t version, int known, struct error *e)
{
    char *copy = xasprintf("%s.before-%lld", path, (long long)version);
    char *way_back = path_exists(copy) ? xasprintf(", or go back by putting %s in its place", copy)
                                       : xstrdup("");
    error_set(e, ERR_VERSION,
              "%s has version %lld of the schema, and this program (%s) knows versions up to %d: "
              "start the newer program that wrote it%s",
              path, (long long)version, MUSTER_VERSION, known, way_back);
    free(way_back);
    free(copy);
    return ERR_VERSION;
}

// --- progress ------------------------------------------------------------------------------------

enum { PROGRESS_EVERY_S = 5, PAGES_AT_ONCE = 8192, STEPS_AT_ONCE = 1000 * 1000 };

struct migration_progress {
    const char *what;
    int64_t started_at, logged_at; // monotonic microseconds
};

static struct migration_progress progress_start(const char *what)
{
    int64_t now = clock_mono_us();
    return (struct migration_progress){what, now, now};
}

static bool progress_is_due(struct migration_progress *p)
{
    int64_t now = clock_mono_us();
    if (now - p->logged_at < PROGRESS_EVERY_S * 1000000LL)
        return false;
    p->logged_at = now;
    return true;
}

static int64_t progress_seconds(const struct migration_progress *p)
{
    return (clock_mono_us() - p->started_at) / 1000000;
}

static int log_progress(void *progress)
{
    struct migration_progress *p = progress;
    if (progress_is_due(p))
        log_info("the schema of the store is still being changed; wait", "at=%s seconds=%lld",
                 p->what, (long long)progress_seconds(p));
    return 0;
}

static int copy_pages(sqlite3 *from, const char *path, struct error *e)
{
    struct db_connection to;
    struct migration_progress p = progress_start("copy");
    int rc = SQLITE_OK, err = connection_open(&to, path, SQLITE_OPEN_READWRITE, e);
    if (err)
        return err;
    sqlite3_backup *copy = sqlite3_backup_init(to.sql, "main", from, "main");
    while (copy && (rc = sqlite3_backup_step(copy, PAGES_AT_ONCE)) == SQLITE_OK)
        if (progress_is_due(&p))
            log_info("the store is still being copied; wait", "pages_left=%d pages=%d seconds=%lld",
                     sqlite3_backup_remaining(copy), sqlite3_backup_pagecount(copy),
                     (long long)progress_seconds(&p));
    if (copy)
        sqlite3_backup_finish(copy);
    if (sqlite3_errcode(to.sql) != SQLITE_OK) {
        err = connection_error(to.sql, e, "copying");
        error_prefix(e, "%s", path);
    }
    connection_close(&to);
    return err;
}

// Makes PATH.before-N, which is either complete or absent.
static int copy_aside(sqlite3 *sql, const char *path, int version, struct error *e)
{
    char *copy = xasprintf("%s.before-%d", path, version);
    char *aside = xasprintf("%s.tmp", copy);
    char *dir = xasprintf("%.*s", (int)(strrchr(path, '/') - path), path);
    int err = file_write_durable(aside, "", 0, 0600, e);
    if (!err)
        err = copy_pages(sql, aside, e);
    if (!err && rename(aside, copy))
        err = error_set_errno(e, ERR_IO, errno, "%s cannot be renamed to %s", aside, copy);
    if (!err)
        err = file_sync_dir(dir, e);
    if (err) {
        unlink(aside);
        error_prefix(e, "keeping a copy of the store before its schema changes");
    } else {
        log_info("kept a copy of the store before its schema changes", "path=%s", copy);
    }
    free(dir);
    free(aside);
    free(copy);
    return err;
}

static int check_foreign_keys(sqlite3 *sql, struct error *e)
{
    int64_t broken = 0;
    int err = connection_ask_int(sql, SQL_BROKEN_REFERENCES, &broken, e);
    if (!err && broken)
        err = error_set(e, ERR_CORRUPT, "%lld rows would refer to missing rows", (long long)broken);
    return err;
}

static int apply_migrations(sqlite3 *sql, const struct migration *list, int from, int to,
                            struct error *e)
{
    char marks[128];
    snprintf(marks, sizeof marks, SQL_SET_IDENTITY, STORE_APPLICATION_ID, to);
    // References are checked once at the end: while a table is rebuilt, they do not hold.
    int err = connection_exec(sql, SQL_FOREIGN_KEYS_OFF, e);
    if (!err)
        err = connection_exec(sql, "BEGIN EXCLUSIVE", e);
    struct migration_progress p = progress_start("begin");
    sqlite3_progress_handler(sql, STEPS_AT_ONCE, log_progress, &p);
    for (int i = from; !err && i < to; i++) {
        p.what = list[i].name;
        err = connection_exec(sql, list[i].sql, e);
        if (err)
            error_prefix(e, "migration %s", list[i].name);
    }
    p.what = "check of references";
    if (!err)
        err = check_foreign_keys(sql, e);
    sqlite3_progress_handler(sql, 0, NULL, NULL);
    if (!err)
        err = connection_exec(sql, marks, e);
    if (!err)
        err = connection_exec(sql, "COMMIT", e);
    if (err && !sqlite3_get_autocommit(sql))
        connection_exec(sql, "ROLLBACK", NULL);
    return err;
}

int store_migrate(sqlite3 *sql, const char *path, const struct migration *list, int count,
                  struct error *e)
{
    struct store_identity id;
    int err = read_identity(sql, &id, e);
    if (err)
        return err;
    bool fresh = !id.application && !id.version && !id.tables;
    if (!fresh && id.application != STORE_APPLICATION_ID)
        return error_set(e, ERR_CORRUPT,
                         "%s is a SQLite file, but not a store of Muster; move it away, or name "
                         "another folder",
                         path);
    if (id.version > count)
        return refuse_newer(path, id.version, count, e);
    if (id.version == count)
        return 0;
    if (!fresh) {
        log_info("changing the store to a newer schema; a copy is made first",
                 "from=%lld to=%d path=%s", (long long)id.version, count, path);
        err = copy_aside(sql, path, count, e);
    }
    return err ? err : apply_migrations(sql, list, (int)id.version, count, e);
}
