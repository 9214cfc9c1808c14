// A walk over the files and folders below a folder, in order of name. Links and special files are
// not visited. For the sources of api and its commands; any thread.
//
// The walk goes from descriptor to descriptor and follows no link, and a visitor opens files only
// by walk_open(). So a process that writes to the folder meanwhile cannot lead the walk elsewhere.
#ifndef MUSTER_API_WALK_H
#define MUSTER_API_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct walk_entry {
    const char *path;     // for messages: never to be opened
    const char *relative; // below the folder
    bool is_folder;       // else a regular file
    unsigned mode;        // permission bits
    int64_t size;         // bytes; 0 for a folder
    int64_t mtime;        // seconds
    struct walk_place {   // of walk_open()
        int dir;          // the folder that holds it
        const char *name; // in there
        dev_t device;
        ino_t inode;
    } place;
};

// Returns 0 to go on, WALK_SKIP to leave out what is below this folder, or a negative error.
typedef int walk_visit(void *ctx, const struct walk_entry *entry, struct error *e);
enum { WALK_SKIP = 1 };

// Opens the file that is visited, to read; *fd is the caller's. ERR_IO: it is another one by now.
int walk_open(const struct walk_entry *entry, int *fd, struct error *e);

// A folder of the caller's own, by a path that may be a link. ERR_NOT_FOUND: no such folder.
// ERR_TOO_LARGE: deeper than LIMIT_JSON_DEPTH folders, or more than LIMIT_FOLDER_ENTRIES in one.
int walk_folder(const char *folder, walk_visit *visit, void *ctx, struct error *e);

// A folder that others write to, by a descriptor, which stays the caller's; `shown` stands in
// messages. A file of several names (hard links) is left out unless it belongs to the owner of the
// folder: an unprivileged user may link to files of others where fs.protected_hardlinks is off, and
// the owner's own files are not worth a link.
int walk_foreign(int fd, const char *shown, walk_visit *visit, void *ctx, struct error *e);

// walk_folder() over folders and symbolic links, to say what a walk over the files leaves out.
int walk_links(const char *folder, walk_visit *visit, void *ctx, struct error *e);

#endif
