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

static void append(struct checkpoint_dir *f, const char *checkpoint)
{
    f->checkpoints = xrealloc(f->checkpoints, ((size_t)f->count + 1) * sizeof *f->checkpoints);
    f->checkpoints[f->count++] = xstrdup(checkpoint);
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

static int list(struct checkpoint_dir *f, struct error *e)
{
    struct dirent **entries = NULL;
    int count = scandir(f->path, &entries, is_step, by_step);
    if (count < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot read the folder %s", f->path);
    for (int i = 0; i < count; i++) {
        char *path = path_join(f->path, entries[i]->d_name);
        append(f, path);
        free(path);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

static bool is_one_of(const struct checkpoint_dir *f, const char *checkpoint)
{
    char *wanted = realpath(checkpoint, NULL);
    bool found = false;
    for (int i = 0; i < f->count && wanted && !found; i++) {
        char *path = realpath(f->checkpoints[i], NULL);
        found = path && strcmp(path, wanted) == 0;
        free(path);
    }
    free(wanted);
    return found;
}

static void forget(struct checkpoint_dir *f, int i)
{
    free(f->checkpoints[i]);
    memmove(f->checkpoints + i, f->checkpoints + i + 1,
            (size_t)(f->count - i - 1) * sizeof *f->checkpoints);
    f->count--;
}

static void forget_broken(struct checkpoint_dir *f)
{
    for (int i = f->count - 1; i >= 0; i--) {
        char *manifest = path_join(f->checkpoints[i], "manifest.json");
        if (!path_exists(manifest)) // its writer was killed
            forget(f, i);
        free(manifest);
    }
}

static char *best_link(const struct checkpoint_dir *f)
{
    return path_join(f->path, "best");
}

static int clear(struct checkpoint_dir *f, const char *from, struct error *e)
{
    if (from && is_one_of(f, from))
        return error_set(e, ERR_INVALID,
                         "--overwrite would remove %s, which is to be gone on from; give another "
                         "--checkpoint-dir",
                         from);
    char *best = best_link(f);
    unlink(best);
    free(best);
    int err = 0;
    while (f->count > 0 && !err) {
        err = dir_remove_tree(f->checkpoints[f->count - 1], e);
        forget(f, f->count - 1);
    }
    return err;
}

static int refuse(const struct checkpoint_dir *f, const struct checkpoint_dir_options *choice,
                  struct error *e)
{
    return error_set(e, ERR_CONFLICT,
                     "%s holds checkpoints of an earlier run (the last is %s): %s--overwrite "
                     "removes them, and another --checkpoint-dir leaves them alone",
                     f->path, checkpoint_dir_last(f),
                     choice->from ? "" : "--resume goes on from it, ");
}

int checkpoint_dir_open(const char *path, const struct checkpoint_dir_options *choice,
                        struct checkpoint_dir *out, struct error *e)
{
    *out = (struct checkpoint_dir){.path = path};
    if (choice->resume && (choice->overwrite || choice->from))
        return error_set(e, ERR_INVALID,
                         "--resume goes on from the last checkpoint of %s; it cannot be given "
                         "together with %s",
                         path, choice->from ? "--from" : "--overwrite");
    int err = dir_make(path, 0777, e);
    if (!err)
        err = list(out, e);
    if (!err && out->count > 0 && choice->overwrite)
        err = clear(out, choice->from, e);
    if (!err && out->count > 0 && !choice->resume)
        err = refuse(out, choice, e);
    if (choice->resume) {
        char *best = best_link(out);
        out->best = path_exists(best);
        free(best);
        forget_broken(out);
    }
    if (!err && choice->from)
        append(out, choice->from);
    return err;
}

void checkpoint_dir_close(struct checkpoint_dir *f)
{
    for (int i = 0; i < f->count; i++)
        free(f->checkpoints[i]);
    free(f->checkpoints);
    free(f->spare);
    *f = (struct checkpoint_dir){0};
}

// Replaces the link in one step, so that it always leads somewhere.
static int link_best(struct checkpoint_dir *f, const char *checkpoint, struct error *e)
{
    char *link = best_link(f), *aside = xasprintf("%s.tmp", link);
    const char *slash = strrchr(checkpoint, '/');
    unlink(aside);
    int err = 0;
    if (symlink(slash ? slash + 1 : checkpoint, aside) || rename(aside, link))
        err = error_set_errno(e, ERR_IO, errno, "cannot make the link %s", link);
    f->best |= !err;
    free(aside);
    free(link);
    return err;
}

static int drop_spare(struct checkpoint_dir *f, const char *checkpoint, struct error *e)
{
    int err = 0;
    if (f->spare && strcmp(f->spare, checkpoint) != 0) {
        for (int i = f->count - 1; i >= 0; i--)
            if (strcmp(f->checkpoints[i], f->spare) == 0)
                forget(f, i);
        err = dir_remove_tree(f->spare, e);
    }
    free(f->spare);
    f->spare = NULL;
    return err;
}

int checkpoint_dir_add(struct checkpoint_dir *f, const char *checkpoint, bool best, bool only_best,
                       struct error *e)
{
    append(f, checkpoint);
    if (!best)
        return 0;
    int err = link_best(f, checkpoint, e);
    if (!err)
        err = drop_spare(f, checkpoint, e);
    if (!err && only_best)
        f->spare = xstrdup(checkpoint);
    return err;
}

const char *checkpoint_dir_last(const struct checkpoint_dir *f)
{
    return f->count ? f->checkpoints[f->count - 1] : NULL;
}
