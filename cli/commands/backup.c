// muster master backup, restore.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os/file.h"
#include "cli/commands/commands.h"
#include "cli/output/meter.h"
#include "cli/output/output.h"
#include "db/backup.h"

static bool show_progress(void *ctx, const char *what, int64_t done, int64_t total)
{
    meter_show(ctx, what, done, total);
    return true;
}

static int report_backup(struct cli *c, const char *path, const struct backup_report *r,
                         const char *kept, struct error *e)
{
    char size[24];
    if (c->format == OUTPUT_TABLE && !c->options.columns) {
        if (!c->options.quiet) {
            printf("%s: %s, %lld experiments, %lld trials, %lld checkpoints, %lld rows in all; "
                   "verified\n",
                   path, meter_bytes(r->bytes, size, sizeof(size)), (long long)r->experiments,
                   (long long)r->trials, (long long)r->checkpoints, (long long)r->rows);
        }
        return 0;
    }
    json_t *row =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s?}", "path", path, "bytes",
                  (json_int_t)r->bytes, "schema", (json_int_t)r->version, "experiments",
                  (json_int_t)r->experiments, "trials", (json_int_t)r->trials, "checkpoints",
                  (json_int_t)r->checkpoints, "rows", (json_int_t)r->rows, "kept", kept);
    int err =
        output_object(c, row, "path,bytes,schema,experiments,trials,checkpoints,rows,kept", e);
    json_decref(row);
    return err;
}

// --- from the master -----------------------------------------------------------------------------

static int download_backup(struct cli *c, const char *temporary, struct error *e)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s", temporary);
    int err = client_download(c->client, "/api/v1/master/backup", NULL, fd, e);
    close(fd);
    return err;
}

static int backup_from_master(struct cli *c, const char *path, const struct backup_watch *watch,
                              struct backup_report *report, struct error *e)
{
    if (path_exists(path) && !c->options.force) {
        return error_set(e, ERR_CONFLICT,
                         "%s exists already: name another file, or overwrite it with --force",
                         path);
    }
    int err = session_open(c, true, e);
    if (err)
        return err;
    char *temporary = xasprintf("%s.tmp.%ld", path, (long)getpid());
    show_progress(watch->ctx, "fetching", 0, 0);
    err = download_backup(c, temporary, e);
    err = err ? err : backup_accept(temporary, path, watch, report, e);
    if (err)
        unlink(temporary);
    free(temporary);
    return err;
}

int run_master_backup(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    struct progress_meter meter;
    struct backup_report report = {0};
    const struct backup_watch watch = {show_progress, &meter};
    const char *path = c->args[0];
    meter_begin(&meter, c->options.quiet);
    int err = c->options.data_dir
                  ? backup_make(c->options.data_dir, path, c->options.force, &watch, &report, e)
                  : backup_from_master(c, path, &watch, &report, e);
    meter_end(&meter);
    return err ? err : report_backup(c, path, &report, NULL, e);
}

// --- restore ----------------------------------------------------------------------------------

int run_master_restore(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    struct progress_meter meter;
    struct backup_report report = {0};
    const struct backup_watch watch = {show_progress, &meter};
    const char *dir = c->options.data_dir;
    char *kept = NULL;
    if (!dir) {
        return error_set(e, ERR_INVALID,
                         "--data-dir is missing: give the master's folder, as in muster master "
                         "restore %s --data-dir /var/lib/muster",
                         c->args[0]);
    }
    meter_begin(&meter, c->options.quiet);
    int err = backup_restore(c->args[0], dir, &watch, &report, &kept, e);
    meter_end(&meter);
    err = err ? err : report_backup(c, c->args[0], &report, kept, e);
    if (!err && !c->options.quiet && c->format == OUTPUT_TABLE) {
        if (kept)
            printf("The previous store is kept as %s\n", kept);
        printf("Start the master on %s now. New experiments and trials get ids far above those of "
               "the backup, because the ids in between may be in use already.\n",
               dir);
    }
    free(kept);
    return err;
}
