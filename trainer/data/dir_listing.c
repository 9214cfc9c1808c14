#include "trainer/data/dir_listing.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int dir_listing_read(const char *folder, const char *pattern, struct dir_listing *out,
                     struct error *e)
{
    *out = (struct dir_listing){0};
    DIR *dir = opendir(folder);
    if (!dir)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno,
                               "cannot list folder %s", folder);
    for (struct dirent *d = readdir(dir); d; d = readdir(dir))
        if (d->d_name[0] != '.' && fnmatch(pattern, d->d_name, 0) == 0)
            dir_listing_add(out, xstrdup(d->d_name));
    closedir(dir);
    if (out->count)
        qsort(out->names, out->count, sizeof *out->names, by_name);
    return 0;
}

void dir_listing_add(struct dir_listing *l, char *name)
{
    if ((l->count & (l->count - 1)) == 0) // grow to the next power of two
        l->names = xrealloc(l->names, (l->count ? 2 * l->count : 1) * sizeof *l->names);
    l->names[l->count++] = name;
}

void dir_listing_free(struct dir_listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
    *l = (struct dir_listing){0};
}
