// The file names of a folder, sorted by their bytes. Any thread; the caller frees.
#ifndef MUSTER_TRAINER_DATA_DIR_LISTING_H
#define MUSTER_TRAINER_DATA_DIR_LISTING_H

#include <stddef.h>

#include "base/error.h"

struct dir_listing { // zero-initialised: empty
    char **names;
    size_t count;
};

// Reads the names that match `pattern` (fnmatch) and do not begin with a dot. The list may be
// empty. ERR_NOT_FOUND, ERR_IO.
int dir_listing_read(const char *folder, const char *pattern, struct dir_listing *out,
                     struct error *e);
void dir_listing_add(struct dir_listing *l,
                     char *name); // takes ownership of the name; does not sort
void dir_listing_free(struct dir_listing *l);

#endif
