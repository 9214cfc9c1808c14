// What the sources of archive share among themselves; nobody else includes it.
#ifndef MUSTER_API_ARCHIVE_PARTS_H
#define MUSTER_API_ARCHIVE_PARTS_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { ARCHIVE_TYPE_FILE = '0', ARCHIVE_TYPE_FOLDER = '5' }; // as tar and the wire have it

// libarchive turns names into the locale's encoding; daemons run in locale C, where names beyond
// ASCII would be lost. Between enter and leave, which takes what enter gave, this thread speaks
// UTF-8.
locale_t archive_locale_enter(void);
void archive_locale_leave(locale_t before);

struct archive;
struct archive_entry;

struct archive *archive_reader(void); // of tar.gz
int archive_failed(struct archive *a, struct error *e);

// The next entry; *more 0: there is none.
int archive_step(struct archive *a, struct archive_entry **entry, int *more, struct error *e);

// Its name without "./" before and "/" behind, the caller's ("": the folder itself). Refused: more
// than ARCHIVE_FILES_MAX by *entries, names that leave the folder, links and special files.
int archive_entry_check(struct archive_entry *entry, size_t *entries, char **name, struct error *e);

// Files are 0644, or 0755 when their owner may run them; folders 0755.
unsigned archive_plain_mode(unsigned mode, bool is_folder);

#endif
