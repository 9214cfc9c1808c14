#include "master/relocate.h"

#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

static const char key[] = "checkpoint_dir"; // in the table meta

static char *last_folder(struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, META_GET, key);
    char *value = db_next(rows) == 1 ? xstrdup(DB_GET(rows, META_GET, value)) : NULL;
    db_rows_close(rows);
    return value;
}

static int folder_of(const struct storage *storage, char **out, struct error *e)
{
    const char *text = storage_default(storage);
    json_t *at = NULL;
    int rc = json_parse(text, strlen(text), "the default checkpoint storage", &at, e);
    if (!rc)
        rc = checkpoint_root(at, out, e);
    json_decref(at);
    return rc;
}

// After a copy, the former folder still exists and contains the experiments of both stores.
static void adjust(struct db_batch *b, const char *from, const char *to)
{
    if (from && !path_exists(from)) {
        log_info("checkpoint storage was moved", "from=\"%s\" to=\"%s\"", from, to);
        DB_ADD(b, EXPERIMENTS_MOVE_STORAGE, to, from);
        DB_ADD(b, CHECKPOINTS_MOVE_STORAGE, to, from);
    }
    DB_ADD(b, META_SET, key, to);
}

int relocate_checkpoints(struct db *db, const struct storage *storage, struct error *e)
{
    struct db_reader *reader = NULL;
    char *from = NULL, *to = NULL;
    int rc = folder_of(storage, &to, e);
    if (!rc)
        rc = db_reader_open(db, &reader, e);
    if (!rc)
        from = last_folder(reader);
    if (!rc && (!from || strcmp(from, to))) {
        struct db_batch *b = db_batch_new();
        adjust(b, from, to);
        rc = db_commit_wait(db, b, e);
    }
    if (reader)
        db_reader_close(reader);
    free(from);
    free(to);
    return rc;
}
