// An experiment's files on their way: a folder, the JSON list of the wire, and tar.gz. Pure
// functions of files; any thread.
//
// The JSON list: [{path, type: 48 file or 53 folder (ASCII of '0', '5'), content: base64, mode,
// mtime: "seconds", uid, gid}]. Archives are deterministic: the same files give the same bytes.
// What comes from outside may not leave its folder: names by path_is_inside(), no links, no
// devices, limits on bytes and count.
#ifndef MUSTER_API_ARCHIVE_H
#define MUSTER_API_ARCHIVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    ARCHIVE_FILES_MAX = 100000,
    ARCHIVE_UPLOAD_MAX = 95 * 1000 * 1000, // bytes of files in one submission
};

// JSON list to tar.gz (heap). A missing or empty list gives an archive of no files. ERR_INVALID
// names the entry ("modelDefinition.3: ..."), ERR_TOO_LARGE past LIMIT_MODEL_DEFINITION.
int archive_pack_list(const json_t *files, void **tgz, size_t *len, struct error *e);

// Takes an archive piece by piece; one that wants no more returns -1.
typedef int archive_sink(void *ctx, const void *data, size_t len);

// The same list, packed piece by piece, so that neither the archive nor a file is in memory once
// more. `texts`: from where offsets that stand for contents count (json_parse_upload()); NULL: none
// do.
int archive_pack_list_to(const json_t *files, const char *texts, archive_sink *take, void *ctx,
                         struct error *e);

// A folder to tar.gz, written to fd as it goes; links and special files are left out.
int archive_pack_folder(const char *folder, int fd, struct error *e);

enum archive_format { ARCHIVE_TAR_GZ, ARCHIVE_TAR, ARCHIVE_ZIP };
int archive_pack_folder_as(const char *folder, enum archive_format format, int fd, struct error *e);
// The same for a folder that others may write to, by its descriptor `dir` (walk_foreign()).
int archive_pack_foreign(int dir, const char *shown, enum archive_format format, archive_sink *take,
                         void *ctx, struct error *e);

// A folder to the JSON list, without what .detignore or .musterignore in it name (one fnmatch
// pattern a line, # comments, a trailing slash for folders) and without .git. ERR_TOO_LARGE over
// ARCHIVE_UPLOAD_MAX names the largest files.
int archive_list_folder(const char *folder, json_t **files, struct error *e);

// The names of the symbolic links in the folder, which the list is without.
int archive_list_links(const char *folder, json_t **links, struct error *e);

// One more file for such a list, under `path`, from the heap or elsewhere.
int archive_list_add(json_t *files, const char *path, const void *data, size_t len,
                     struct error *e);

// Unpacks a tar.gz into `folder`, which must be absent or empty: unpacked aside in FOLDER.tmp and
// renamed, so nothing half done is ever seen there. `limit` is the most bytes it may hold unpacked.
int archive_unpack(const void *tgz, size_t len, const char *folder, uint64_t limit,
                   struct error *e);
int archive_unpack_fd(int fd, const char *folder, uint64_t limit, struct error *e);

// --- looking into a tar.gz without unpacking it --------------------------------------------------

struct archive_item {
    const char *path; // without "./" before and "/" behind
    bool folder;
    int64_t bytes, mtime; // of a file; seconds since 1970
};

// Calls see() for every file and folder in the order of the archive, until it returns false.
// ERR_CORRUPT, ERR_INVALID: what archive_unpack() would not take either.
int archive_look(const void *tgz, size_t len, bool (*see)(void *ctx, const struct archive_item *),
                 void *ctx, struct error *e);

// The bytes of one file, on the heap. ERR_NOT_FOUND; ERR_TOO_LARGE past `limit`.
int archive_read_file(const void *tgz, size_t len, const char *path, size_t limit, void **out,
                      size_t *out_len, struct error *e);

#endif
