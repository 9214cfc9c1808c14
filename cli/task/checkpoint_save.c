// Saves a folder as a checkpoint of the trial in which the command runs, and finds the newest one.
//
// A survey refuses a folder that cannot become a checkpoint before anything is copied. The files
// are then copied into a temporary folder of the checkpoint storage, flushed to disk, renamed to
// the checkpoint's id, and reported last. A checkpoint that is not reported does not exist for the
// cluster.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/walk.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/values.h"
#include "cli/task/own_storage.h"
#include "cli/task/own_task.h"

enum { CHUNK = 1 << 20, NONE = 3 };

static const char METADATA[] = "metadata.json"; // as Determined's library names it

struct checkpoint_copy {
    const char *from, *to; // folders
    dev_t device;          // of `to`
    ino_t inode;
    const char *uuid;
    long long step;
    const json_t *metadata;
    char *metadata_text; // the file METADATA
    json_t *resources;   // {path: bytes}
    json_t *seen;        // {path: [bytes, time of the change]} of the source
    char *chunk;
};

static int changed_error(const struct checkpoint_copy *copy, const char *relative, struct error *e)
{
    return error_set(e, ERR_CONFLICT,
                     "%s/%s changes while it is copied; save the checkpoint after the program has "
                     "written its files",
                     copy->from, relative);
}

// --- survey --------------------------------------------------------------------------------------

static json_t *source_mark(const struct walk_entry *entry)
{
    struct stat st = {0};
    if (fstatat(entry->place.dir, entry->place.name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        st.st_size = -1;
    return json_pack("[I, I, I]", (json_int_t)st.st_size, (json_int_t)st.st_mtim.tv_sec,
                     (json_int_t)st.st_mtim.tv_nsec);
}

static int refuse_other(void *ctx, const struct walk_entry *entry, struct error *e)
{
    (void)ctx;
    if (entry->is_folder)
        return 0;
    if (entry->is_link)
        return error_set(e, ERR_INVALID, "%s is a link; copy the file itself into the folder",
                         entry->path);
    return error_set(
        e, ERR_INVALID,
        "%s is a pipe, a socket or a device; a checkpoint contains only files and folders",
        entry->path);
}

static int survey_entry(void *ctx, const struct walk_entry *entry, struct error *e)
{
    struct checkpoint_copy *copy = ctx;
    if (entry->place.device == copy->device && entry->place.inode == copy->inode)
        return error_set(e, ERR_INVALID,
                         "the checkpoint storage lies inside %s; save a folder that does not "
                         "contain the storage",
                         copy->from);
    if (strcmp(entry->relative, METADATA) == 0)
        return error_set(e, ERR_INVALID,
                         "%s is the name of a file that every checkpoint gets; use another name, "
                         "or --metadata KEY=VALUE",
                         METADATA);
    if (!json_is_utf8(entry->relative))
        return error_set(e, ERR_INVALID, "the name of %s is not UTF-8; use another name",
                         entry->path);
    if (entry->is_folder)
        return 0;
    if (json_object_size(copy->seen) == LIMIT_CHECKPOINT_FILES - 1) // one more is METADATA
        return error_set(e, ERR_TOO_LARGE,
                         "a checkpoint has at most %d files, one of them %s; pack them together",
                         LIMIT_CHECKPOINT_FILES, METADATA);
    json_t *mark = source_mark(entry);
    json_object_set(copy->resources, entry->relative, json_array_get(mark, 0));
    json_object_set_new(copy->seen, entry->relative, mark);
    return 0;
}

static void write_metadata_text(struct checkpoint_copy *copy)
{
    json_t *all = json_copy((json_t *)copy->metadata);
    json_object_set_new(all, "steps_completed", json_integer(copy->step));
    copy->metadata_text = json_text(all);
    json_object_set_new(copy->resources, METADATA,
                        json_integer((json_int_t)strlen(copy->metadata_text)));
    json_decref(all);
}

// The line that reports the checkpoint; `line` is initialized with its limit.
static int write_report(const struct checkpoint_copy *copy, struct buf *line, struct error *e)
{
    json_t *report =
        json_pack("{s:s, s:s, s:I, s:O, s:O, s:I}", "kind", "checkpoint", "uuid", copy->uuid,
                  "steps", (json_int_t)copy->step, "metadata", copy->metadata, "resources",
                  copy->resources, "time", (json_int_t)clock_wall_us());
    char *text = json_text(report);
    size_t len = strlen(text);
    int err = len > LIMIT_REPORT_LINE
                  ? error_set(e, ERR_TOO_LARGE,
                              "the names and sizes of the %zu files of %s and the metadata have "
                              "%zu bytes, and a report has at most %d; pack the files together",
                              json_object_size(copy->resources), copy->from, len, LIMIT_REPORT_LINE)
                  : 0;
    buf_append(line, text, len);
    buf_puts(line, "\n");
    free(text);
    json_decref(report);
    return err;
}

// Creates the folder before the survey, so that the survey notices if it lies in the source.
static int make_temporary(struct checkpoint_copy *copy, struct error *e)
{
    struct stat st;
    int err = dir_make(copy->to, 0777, e);
    if (!err && stat(copy->to, &st) != 0)
        err = error_set_errno(e, ERR_IO, errno, "%s", copy->to);
    if (err)
        return err;
    copy->device = st.st_dev;
    copy->inode = st.st_ino;
    return 0;
}

static int survey_folder(struct checkpoint_copy *copy, struct error *e)
{
    struct buf line;
    buf_init(&line, LIMIT_REPORT_LINE + 1);
    int err = walk_others(copy->from, refuse_other, NULL, e);
    err = err ? err : walk_folder(copy->from, survey_entry, copy, e);
    if (!err && json_object_size(copy->seen) == 0)
        err =
            error_set(e, ERR_INVALID,
                      "%s has no files; write the state of the program into it first", copy->from);
    write_metadata_text(copy);
    err = err ? err : write_report(copy, &line, e);
    buf_free(&line);
    return err;
}

// --- copy ----------------------------------------------------------------------------------------

static int copy_bytes(struct checkpoint_copy *copy, int from, int to, const char *path,
                      int64_t *bytes, struct error *e)
{
    ssize_t n;
    *bytes = 0;
    while ((n = read(from, copy->chunk, CHUNK)) > 0) {
        if (file_write_all(to, copy->chunk, (size_t)n) != 0)
            return error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
        *bytes += n;
    }
    if (n < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot read the source of %s", path);
    return fsync(to) == 0 ? 0 : error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
}

static int copy_file(struct checkpoint_copy *copy, const struct walk_entry *entry, struct error *e)
{
    int from = -1, to = -1;
    int64_t bytes = 0;
    char *path = path_join(copy->to, entry->relative);
    int err = walk_open(entry, &from, e);
    if (!err) {
        to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, entry->mode & 0777);
        err = to < 0 ? error_set_errno(e, ERR_IO, errno, "cannot create %s", path) : 0;
    }
    err = err ? err : copy_bytes(copy, from, to, path, &bytes, e);
    if (!err && bytes != json_integer_value(json_object_get(copy->resources, entry->relative)))
        err = changed_error(copy, entry->relative, e);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    free(path);
    return err;
}

static int copy_entry(void *ctx, const struct walk_entry *entry, struct error *e)
{
    struct checkpoint_copy *copy = ctx;
    if (!entry->is_folder && !json_object_get(copy->seen, entry->relative))
        return changed_error(copy, entry->relative, e);
    if (!entry->is_folder)
        return copy_file(copy, entry, e);
    char *path = path_join(copy->to, entry->relative);
    int err =
        mkdir(path, 0777) == 0 ? 0 : error_set_errno(e, ERR_IO, errno, "cannot create %s", path);
    free(path);
    return err;
}

// After the copy: every file is still as it was, and there is no other.
static int compare_entry(void *ctx, const struct walk_entry *entry, struct error *e)
{
    struct checkpoint_copy *copy = ctx;
    if (entry->is_folder)
        return 0;
    json_t *mark = source_mark(entry), *seen = json_object_get(copy->seen, entry->relative);
    bool same = json_equal(mark, seen);
    json_decref(mark);
    if (!same)
        return changed_error(copy, entry->relative, e);
    json_object_del(copy->seen, entry->relative);
    return 0;
}

static int check_unchanged(struct checkpoint_copy *copy, struct error *e)
{
    int err = walk_folder(copy->from, compare_entry, copy, e);
    const char *missing = json_object_iter_key(json_object_iter(copy->seen));
    return !err && missing ? changed_error(copy, missing, e) : err;
}

static int sync_entry(void *ctx, const struct walk_entry *entry, struct error *e)
{
    (void)ctx;
    return entry->is_folder ? file_sync_dir(entry->path, e) : 0;
}

static int write_metadata(const struct checkpoint_copy *copy, struct error *e)
{
    char *path = path_join(copy->to, METADATA);
    mode_t mask = umask(0);
    umask(mask);
    int err =
        file_write_durable(path, copy->metadata_text, strlen(copy->metadata_text), 0666 & ~mask, e);
    free(path);
    return err;
}

static int copy_checkpoint(struct checkpoint_copy *copy, struct error *e)
{
    int err = walk_folder(copy->from, copy_entry, copy, e);
    err = err ? err : check_unchanged(copy, e);
    err = err ? err : write_metadata(copy, e);
    err = err ? err : walk_folder(copy->to, sync_entry, copy, e);
    return err ? err : file_sync_dir(copy->to, e);
}

// --- publication ---------------------------------------------------------------------------------

static int report_checkpoint(const struct checkpoint_copy *copy, struct error *e)
{
    struct buf line;
    buf_init(&line, LIMIT_REPORT_LINE + 1);
    int err = write_report(copy, &line, e);
    err = err ? err : own_task_report(&line, 1, e);
    buf_free(&line);
    return err;
}

// After a lost answer the report may be stored, and then the cluster counts on the files.
static bool is_refusal(int err)
{
    return err == ERR_INVALID || err == ERR_STATE || err == ERR_TOO_LARGE || err == ERR_BUSY;
}

// Moves the complete folder to its name and reports it; if the report is refused, it is removed
// again.
static int publish_checkpoint(const struct checkpoint_copy *copy, const char *storage,
                              struct error *e)
{
    char *path = path_join(storage, copy->uuid);
    int err = rename(copy->to, path) == 0
                  ? file_sync_dir(storage, e)
                  : error_set_errno(e, ERR_IO, errno, "cannot rename %s to %s", copy->to, path);
    bool renamed = err == 0;
    err = err ? err : report_checkpoint(copy, e);
    if (err && (!renamed || is_refusal(err)))
        dir_remove_tree(path, NULL);
    free(path);
    return err ? err : own_task_set_latest(copy->uuid, e);
}

static int save_folder(struct cli *c, const char *storage, const json_t *metadata, const char *uuid,
                       struct error *e)
{
    struct checkpoint_copy copy = {
        .from = c->args[0],
        .uuid = uuid,
        .step = c->options.step,
        .metadata = metadata,
        .resources = json_object(),
        .seen = json_object(),
        .chunk = xcalloc(CHUNK, 1),
    };
    int err = own_task_temporary(c, storage, uuid, &copy.to, e);
    err = err ? err : make_temporary(&copy, e);
    err = err ? err : survey_folder(&copy, e);
    err = err ? err : copy_checkpoint(&copy, e);
    if (err == ERR_NOT_FOUND) {
        const char *why = arena_strdup(&c->arena, e->text);
        err = error_set(e, err, "%s; the folder must stay until it is saved", why);
    }
    err = err ? err : publish_checkpoint(&copy, storage, e);
    if (err && copy.to)
        dir_remove_tree(copy.to, NULL);
    free(copy.chunk);
    free(copy.metadata_text);
    json_decref(copy.seen);
    json_decref(copy.resources);
    return err;
}

int run_checkpoint_save(struct cli *c, const struct command *self, struct error *e)
{
    char uuid[UUID_TEXT];
    const char *trial, *storage;
    json_t *metadata = NULL;
    (void)self;
    int err = own_task_variable("DET_TRIAL_ID", &trial, e);
    err = err ? err : own_task_storage(c, &storage, e);
    if (!err && c->options.step < 0)
        err = error_set(e, ERR_INVALID,
                        "--step is missing: the number of training steps after which the trial "
                        "would continue");
    err = err ? err : cli_pairs("--metadata", &c->options.metadata, &metadata, e);
    uuid_make(uuid);
    err = err ? err : save_folder(c, storage, metadata, uuid, e);
    json_decref(metadata);
    if (!err && !c->options.quiet)
        puts(uuid);
    return err;
}

int run_checkpoint_latest(struct cli *c, const struct command *self, struct error *e)
{
    const char *trial, *storage, *uuid = own_task_latest(c);
    (void)self;
    int err = own_task_variable("DET_TRIAL_ID", &trial, e);
    if (!err && !uuid) {
        c->exit_code = NONE;
        return 0;
    }
    err = err ? err : own_task_storage(c, &storage, e);
    if (err)
        return err;
    char *path = path_join(storage, uuid);
    if (path_exists(path))
        puts(path);
    else
        err = error_set(e, ERR_UNAVAILABLE, // its exit code is not NONE
                        "checkpoint %s is not at %s; every machine needs the checkpoint storage at "
                        "the same path",
                        uuid, path);
    free(path);
    return err;
}
