// The files of an experiment as a folder, as the JSON list of the API, and as tar.gz. Pure
// functions of files; any thread.
//
// The JSON list: [{path, type: 48 file or 53 folder (ASCII of '0', '5'), content: base64, mode,
// mtime: "seconds", uid, gid}]. Packing is deterministic: equal files give equal bytes. Unpacked
// data cannot leave its folder: names must pass path_is_inside(), links and devices are refused,
// bytes and entries are limited.
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

// Packs a JSON list as tar.gz (heap). A missing or empty list gives an archive without files.
// ERR_INVALID names the entry ("modelDefinition.3: ..."), ERR_TOO_LARGE: more than
// LIMIT_MODEL_DEFINITION.
int archive_pack_list(const json_t *files, void **tgz, size_t *len, struct error *e);

// Receives an archive piece by piece; returns -1 to stop.
typedef int archive_sink(void *ctx, const void *data, size_t len);

// Packs the list piece by piece, so that neither the archive nor a file is in memory twice.
// `texts`: the text to which integers that replace contents are offsets (json_parse_upload());
// NULL: there are no such integers.
int archive_pack_list_to(const json_t *files, const char *texts, archive_sink *take, void *ctx,
                         struct error *e);

// Packs a folder as tar.gz into fd; skips links and special files.
int archive_pack_folder(const char *folder, int fd, struct error *e);

enum archive_format { ARCHIVE_TAR_GZ, ARCHIVE_TAR, ARCHIVE_ZIP };
int archive_pack_folder_as(const char *folder, enum archive_format format, int fd, struct error *e);
// The same for a folder that others may write to, by its descriptor `dir` (walk_foreign()).
int archive_pack_foreign(int dir, const char *shown, enum archive_format format, archive_sink *take,
                         void *ctx, struct error *e);

// Reads a folder into a JSON list, without .git and the files that .detignore or .musterignore name
// (one fnmatch pattern on each line, # comments, a trailing slash for folders). ERR_TOO_LARGE: more
// than ARCHIVE_UPLOAD_MAX; the error names the largest files.
int archive_list_folder(const char *folder, json_t **files, struct error *e);

// The names of the symbolic links in the folder, which the list does not contain.
int archive_list_links(const char *folder, json_t **links, struct error *e);

// Adds a file to such a list, under `path`, with contents from memory.
int archive_list_add(json_t *files, const char *path, const void *data, size_t len,
                     struct error *e);

// Unpacks a tar.gz into `folder`, which must not exist or be empty. It unpacks into FOLDER.tmp and
// renames that, so `folder` is never incomplete. `limit`: largest number of unpacked bytes.
int archive_unpack(const void *tgz, size_t len, const char *folder, uint64_t limit,
                   struct error *e);
int archive_unpack_fd(int fd, const char *folder, uint64_t limit, struct error *e);

// --- looking into a tar.gz without unpacking it --------------------------------------------------

struct archive_item {
    const char *path; // without leading "./" and trailing "/"
    bool folder;
    int64_t bytes, mtime; // size of a file; seconds since 1970
};

// Calls see() for every file and folder in the order of the archive, until it returns false.
// ERR_CORRUPT, ERR_INVALID: archive_unpack() would refuse the archive too.
int archive_look(const void *tgz, size_t len, bool (*see)(void *ctx, const struct archive_item *),
                 void *ctx, struct error *e);

// Reads the bytes of one file (heap). ERR_NOT_FOUND; ERR_TOO_LARGE: more than `limit`.
int archive_read_file(const void *tgz, size_t len, const char *path, size_t limit, void **out,
                      size_t *out_len, struct error *e);

#endif
