// A walk over the files and folders below a folder, in order of name. Links and special files are
// not visited. For the sources of api and its commands; any thread.
#ifndef MUSTER_API_WALK_H
#define MUSTER_API_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct walk_entry {
    const char *path;     // as it can be opened
    const char *relative; // below the folder
    bool is_folder;       // else a regular file
    unsigned mode;        // permission bits
    int64_t size;         // bytes; 0 for a folder
    int64_t mtime;        // seconds
};

// Returns 0 to go on, WALK_SKIP to leave out what is below this folder, or a negative error.
typedef int walk_visit(void *ctx, const struct walk_entry *entry, struct error *e);
enum { WALK_SKIP = 1 };

// ERR_NOT_FOUND: no such folder. ERR_TOO_LARGE: deeper than LIMIT_JSON_DEPTH folders.
int walk_folder(const char *folder, walk_visit *visit, void *ctx, struct error *e);

// The same over its folders and symbolic links, to say what a walk over the files leaves out.
int walk_links(const char *folder, walk_visit *visit, void *ctx, struct error *e);

#endif
