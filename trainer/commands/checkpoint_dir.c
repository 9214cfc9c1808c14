#include "trainer/commands/checkpoint_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os/file.h"

static const char step_prefix[] = "step-";

static void append_checkpoint(struct checkpoint_dir *d, const char *checkpoint)
{
    d->checkpoints = xrealloc(d->checkpoints, ((size_t)d->count + 1) * sizeof *d->checkpoints);
    d->checkpoints[d->count++] = xstrdup(checkpoint);
}

static int is_step(const struct dirent *entry)
{
    return strncmp(entry->d_name, step_prefix, sizeof step_prefix - 1) == 0;
}

static int by_step(const struct dirent **a, const struct dirent **b)
{
    long long x = strtoll((*a)->d_name + sizeof step_prefix - 1, NULL, 10);
    long long y = strtoll((*b)->d_name + sizeof step_prefix - 1, NULL, 10);
    return x < y ? -1 : x > y;
}

static int list_checkpoints(struct checkpoint_dir *d, struct error *e)
{
    struct dirent **entries = NULL;
    int count = scandir(d->path, &entries, is_step, by_step);
    if (count < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot read the folder %s", d->path);
    for (int i = 0; i < count; i++) {
        char *path = path_join(d->path, entries[i]->d_name);
        append_checkpoint(d, path);
        free(path);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

static bool dir_contains(const struct checkpoint_dir *d, const char *checkpoint)
{
    char *wanted = realpath(checkpoint, NULL);
    bool found = false;
    for (int i = 0; i < d->count && wanted && !found; i++) {
        char *path = realpath(d->checkpoints[i], NULL);
        found = path && strcmp(path, wanted) == 0;
        free(path);
    }
    free(wanted);
    return found;
}

static void remove_entry(struct checkpoint_dir *d, int i)
{
    free(d->checkpoints[i]);
    memmove(d->checkpoints + i, d->checkpoints + i + 1,
            (size_t)(d->count - i - 1) * sizeof *d->checkpoints);
    d->count--;
}

static void remove_incomplete_entries(struct checkpoint_dir *d)
{
    for (int i = d->count - 1; i >= 0; i--) {
        char *manifest = path_join(d->checkpoints[i], "manifest.json");
        if (!path_exists(manifest)) // the process that wrote it was killed
            remove_entry(d, i);
        free(manifest);
    }
}

static char *best_link(const struct checkpoint_dir *d)
{
    return path_join(d->path, "best");
}

static int remove_all(struct checkpoint_dir *d, const char *from, struct error *e)
{
    if (from && dir_contains(d, from))
        return error_set(e, ERR_INVALID,
                         "--overwrite would remove %s, the checkpoint to resume from; give another "
                         "--checkpoint-dir",
                         from);
    char *best = best_link(d);
    unlink(best);
    free(best);
    int err = 0;
    while (d->count > 0 && !err) {
        err = dir_remove_tree(d->checkpoints[d->count - 1], e);
        remove_entry(d, d->count - 1);
    }
    return err;
}

static int refuse_existing(const struct checkpoint_dir *d,
                           const struct checkpoint_dir_options *options, struct error *e)
{
    return error_set(e, ERR_CONFLICT,
                     "%s holds checkpoints of an earlier run (the last is %s): %s--overwrite "
                     "removes them, and another --checkpoint-dir leaves them alone",
                     d->path, checkpoint_dir_last(d),
                     options->from ? "" : "--resume continues from it, ");
}

int checkpoint_dir_open(const char *path, const struct checkpoint_dir_options *options,
                        struct checkpoint_dir *out, struct error *e)
{
    *out = (struct checkpoint_dir){.path = path};
    if (options->resume && (options->overwrite || options->from))
        return error_set(e, ERR_INVALID,
                         "--resume continues from the last checkpoint of %s; it cannot be given "
                         "together with %s",
                         path, options->from ? "--from" : "--overwrite");
    int err = dir_make(path, 0777, e);
    if (!err)
        err = list_checkpoints(out, e);
    if (!err && out->count > 0 && options->overwrite)
        err = remove_all(out, options->from, e);
    if (!err && out->count > 0 && !options->resume)
        err = refuse_existing(out, options, e);
    if (options->resume) {
        char *best = best_link(out);
        out->has_best = path_exists(best);
        free(best);
        remove_incomplete_entries(out);
    }
    if (!err && options->from)
        append_checkpoint(out, options->from);
    return err;
}

void checkpoint_dir_close(struct checkpoint_dir *d)
{
    for (int i = 0; i < d->count; i++)
        free(d->checkpoints[i]);
    free(d->checkpoints);
    free(d->only_best);
    *d = (struct checkpoint_dir){0};
}

// Replaces the link atomically, so that it always points to a checkpoint.
static int link_best(struct checkpoint_dir *d, const char *checkpoint, struct error *e)
{
    char *link = best_link(d), *temporary = xasprintf("%s.tmp", link);
    const char *slash = strrchr(checkpoint, '/');
    unlink(temporary);
    int err = 0;
    if (symlink(slash ? slash + 1 : checkpoint, temporary) || rename(temporary, link))
        err = error_set_errno(e, ERR_IO, errno, "cannot create the link %s", link);
    d->has_best |= !err;
    free(temporary);
    free(link);
    return err;
}

static int remove_superseded(struct checkpoint_dir *d, const char *checkpoint, struct error *e)
{
    int err = 0;
    if (d->only_best && strcmp(d->only_best, checkpoint) != 0) {
        for (int i = d->count - 1; i >= 0; i--)
            if (strcmp(d->checkpoints[i], d->only_best) == 0)
                remove_entry(d, i);
        err = dir_remove_tree(d->only_best, e);
    }
    free(d->only_best);
    d->only_best = NULL;
    return err;
}

int checkpoint_dir_add(struct checkpoint_dir *d, const char *checkpoint, bool best, bool only_best,
                       struct error *e)
{
    append_checkpoint(d, checkpoint);
    if (!best)
        return 0;
    int err = link_best(d, checkpoint, e);
    if (!err)
        err = remove_superseded(d, checkpoint, e);
    if (!err && only_best)
        d->only_best = xstrdup(checkpoint);
    return err;
}

const char *checkpoint_dir_last(const struct checkpoint_dir *d)
{
    return d->count ? d->checkpoints[d->count - 1] : NULL;
}
