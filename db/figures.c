#include "db/figures.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "db/store.h"

static int64_t file_bytes(const char *path)
{
    struct stat s;
    return stat(path, &s) ? 0 : (int64_t)s.st_size;
}

void db_read_figures(const struct db *db, struct db_figures *out)
{
    *out = (struct db_figures){.commits = &db->commits,
                               .committing_since = atomic_load(&db->committing_since),
                               .queued = mailbox_length(db->queue)};
    if (!db->path)
        return;
    char *log = xasprintf("%s-wal", db->path);
    out->bytes = file_bytes(db->path);
    out->log_bytes = file_bytes(log);
    free(log);
}
