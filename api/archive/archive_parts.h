// Internal header of the archive sources.
#ifndef MUSTER_API_ARCHIVE_PARTS_H
#define MUSTER_API_ARCHIVE_PARTS_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { ARCHIVE_TYPE_FILE = '0', ARCHIVE_TYPE_FOLDER = '5' }; // values in tar and in the JSON list

// libarchive converts names to the encoding of the locale. Daemons run in locale C, where names
// outside ASCII would be lost. So between enter and leave (which gets the result of enter) this
// thread uses a UTF-8 locale.
locale_t archive_locale_enter(void);
void archive_locale_leave(locale_t before);

struct archive;
struct archive_entry;

struct archive *archive_reader(void); // a reader of tar.gz
int archive_failed(struct archive *a, struct error *e);

// Reads the next entry; *more 0: the archive ends.
int archive_step(struct archive *a, struct archive_entry **entry, int *more, struct error *e);

// Returns the entry's name without leading "./" and trailing "/" (the caller frees it; "": the
// folder itself). Refuses more than ARCHIVE_FILES_MAX entries (counted in *entries), names that
// leave the folder, links and special files.
int archive_entry_check(struct archive_entry *entry, size_t *entries, char **name, struct error *e);

// Files get mode 0644, or 0755 if their owner may run them; folders 0755.
unsigned archive_plain_mode(unsigned mode, bool is_folder);

#endif
