// Describes a damaged store: the table, the page and the remedy. SQLite's check runs over one table
// at a time, so that each fault carries the name of its table.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "db/statements/control.h"
#include "db/store.h"

enum {
    FAULTS_SHOWN = 3,
    FAULT_BYTES = 200,
    CHECK_MAX_US = 30 * 1000 * 1000, // the check of a large store ends after this time
    CHECK_STEPS = 10000, // steps of SQLite's virtual machine between two readings of the clock
};

// Adds one line of SQLite's report, without the title that begins it.
static void add_fault(struct buf *out, const char *table, const char *text)
{
    const char *line = strchr(text, '\n');
    line = line && !strncmp(text, "***", 3) ? line + 1 : text;
    buf_printf(out, "%stable %.64s: %.*s", out->len ? "; " : "", table,
               (int)strcspn(line, "\n") < FAULT_BYTES ? (int)strcspn(line, "\n") : FAULT_BYTES,
               line);
}

static bool check_table(sqlite3 *sql, const char *table, struct buf *out)
{
    sqlite3_stmt *s = NULL;
    char *text = sqlite3_mprintf(SQL_QUICK_CHECK, table);
    must(text);
    bool bad = sqlite3_prepare_v2(sql, text, -1, &s, NULL) != SQLITE_OK;
    int rc = bad ? SQLITE_DONE : sqlite3_step(s);
    const char *found = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    if (found && !strcmp(found, "ok"))
        found = NULL;
    else if (rc != SQLITE_INTERRUPT && (bad || rc != SQLITE_ROW))
        found = sqlite3_errmsg(sql);
    if (found)
        add_fault(out, table, found);
    sqlite3_finalize(s);
    sqlite3_free(text);
    return found;
}

// Reads all names first, since a check would disturb the running query.
static size_t list_tables(sqlite3 *sql, char **names, size_t room)
{
    static const char list[] = SQL_TABLES;
    sqlite3_stmt *s = NULL;
    size_t count = 0;
    if (sqlite3_prepare_v2(sql, list, -1, &s, NULL) == SQLITE_OK)
        while (count < room && sqlite3_step(s) == SQLITE_ROW)
            names[count++] = xstrdup((const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return count;
}

static int deadline_passed(void *until)
{
    return clock_mono_us() > *(int64_t *)until;
}

static void find_faults(const char *path, struct buf *out)
{
    enum { TABLES = 256 };
    char *names[TABLES];
    struct db_connection c;
    struct error e;
    if (connection_open(&c, path, SQLITE_OPEN_READONLY, &e)) {
        buf_puts(out, e.text);
        return;
    }
    int64_t until = clock_mono_us() + CHECK_MAX_US;
    sqlite3_progress_handler(c.sql, CHECK_STEPS, deadline_passed, &until);
    size_t count = list_tables(c.sql, names, TABLES), faults = 0;
    for (size_t i = 0; i < count; i++) {
        if (faults < FAULTS_SHOWN)
            faults += check_table(c.sql, names[i], out);
        free(names[i]);
    }
    if (!count)
        buf_printf(out, "page 1, the list of tables: %s", sqlite3_errmsg(c.sql));
    connection_close(&c);
}

int damage_describe(const char *path, const char *why, struct error *e)
{
    struct buf faults;
    const char *slash = strrchr(path, '/');
    buf_init(&faults, ERROR_TEXT_MAX / 2);
    find_faults(path, &faults);
    error_set(e, ERR_CORRUPT,
              "%s is damaged (%s): stop the master and go back to a backup with \"muster master "
              "restore FILE -d %.*s\", which keeps the damaged store beside it",
              path, faults.len ? faults.data : why, slash ? (int)(slash - path) : 1,
              slash ? path : ".");
    buf_free(&faults);
    return ERR_CORRUPT;
}

static void *describer_main(void *arg)
{
    struct db *db = arg;
    struct error e;
    char quoted[2 * ERROR_TEXT_MAX];
    damage_describe(db->path, "see the query that failed", &e);
    log_error("the store is damaged", "err=%s", log_quote(quoted, sizeof quoted, e.text));
    return NULL;
}

void damage_note(struct db *db)
{
    if (!db->by_hand && !atomic_exchange(&db->damaged, true))
        db->describes = !pthread_create(&db->describer, NULL, describer_main, db);
}

void damage_stop(struct db *db)
{
    if (db->describes)
        pthread_join(db->describer, NULL);
}
