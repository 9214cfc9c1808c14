// A walk over the files and folders below a folder, in order of name. Links and special files are
// not visited. For api and cli; any thread.
//
// The walk opens every folder relative to its parent's descriptor and follows no link, and visitors
// open files only by walk_open(). So a process that writes to the folder meanwhile cannot lead the
// walk elsewhere.
#ifndef MUSTER_API_WALK_H
#define MUSTER_API_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct walk_entry {
    const char *path;     // for messages only: do not open it
    const char *relative; // path below the folder
    bool is_folder;       // false: a regular file, and in walk_others() anything else
    bool is_link;
    unsigned mode;        // permission bits
    int64_t size;         // bytes; 0 for a folder
    int64_t mtime;        // seconds
    struct walk_place {   // argument of walk_open()
        int dir;          // descriptor of the containing folder
        const char *name; // name in that folder
        dev_t device;
        ino_t inode;
    } place;
};

// Returns 0 to continue, WALK_SKIP to skip the contents of this folder, or a negative error.
typedef int walk_visit(void *ctx, const struct walk_entry *entry, struct error *e);
enum { WALK_SKIP = 1 };

// Opens the visited file for reading; the caller closes *fd. ERR_IO: it was replaced meanwhile.
int walk_open(const struct walk_entry *entry, int *fd, struct error *e);

// Walks over a folder of the caller by a path, which may be a link. ERR_NOT_FOUND: no such folder.
// ERR_TOO_LARGE: more than LIMIT_JSON_DEPTH nested folders, or more than LIMIT_FOLDER_ENTRIES
// entries in one.
int walk_folder(const char *folder, walk_visit *visit, void *ctx, struct error *e);

// Walks over a folder that others write to, by a descriptor, which the caller keeps; `shown` is its
// name in messages. A file with several names (hard links) is skipped unless it belongs to the
// owner of the folder: where fs.protected_hardlinks is off, an unprivileged user can link to files
// of others.
int walk_foreign(int fd, const char *shown, walk_visit *visit, void *ctx, struct error *e);

// Like walk_folder(), but visits folders, symbolic links and special files instead of regular
// files: lists the entries that a walk over files skips.
int walk_others(const char *folder, walk_visit *visit, void *ctx, struct error *e);

#endif
