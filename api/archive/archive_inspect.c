// Reads archives: checks entries, and lists or reads single files without unpacking.
#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

#include "api/archive/archive.h"
#include "api/archive/archive_parts.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/os/file.h"

enum { BLOCK = 64 * 1024 }; // bytes read at a time

struct archive *archive_reader(void)
{
    struct archive *a = archive_read_new();
    must(a);
    archive_read_support_filter_gzip(a);
    archive_read_support_format_tar(a);
    return a;
}

int archive_failed(struct archive *a, struct error *e)
{
    return error_set(e, ERR_CORRUPT, "the archive is damaged or not a tar.gz: %s",
                     archive_error_string(a) ? archive_error_string(a) : "unknown reason");
}

int archive_step(struct archive *a, struct archive_entry **entry, int *more, struct error *e)
{
    int got = archive_read_next_header(a, entry);
    *more = got != ARCHIVE_EOF;
    if (*more && (got < ARCHIVE_WARN || got == ARCHIVE_RETRY))
        return archive_failed(a, e);
    return 0;
}

// Returns the name without leading "./" and trailing "/"; NULL: it leaves the folder.
static char *clean_name(const char *name)
{
    while (name && name[0] == '.' && name[1] == '/')
        name += 1 + strspn(name + 1, "/");
    if (!name)
        return NULL;
    char *clean = xstrdup(strcmp(name, ".") ? name : "");
    size_t len = strlen(clean);
    while (len > 1 && clean[len - 1] == '/')
        clean[--len] = '\0';
    return clean;
}

int archive_entry_check(struct archive_entry *entry, size_t *entries, char **name, struct error *e)
{
    unsigned type = archive_entry_filetype(entry);
    *name = clean_name(archive_entry_pathname(entry));
    if (*name && !**name)
        return 0;
    if (++*entries > ARCHIVE_FILES_MAX)
        return error_set(e, ERR_TOO_LARGE, "the archive has more than %d entries",
                         ARCHIVE_FILES_MAX);
    if (!*name || !path_is_inside(*name))
        return error_set(e, ERR_INVALID,
                         "the archive contains \"%.200s\", which is outside its folder",
                         *name ? *name : "?");
    if (archive_entry_hardlink(entry) || (type != AE_IFREG && type != AE_IFDIR))
        return error_set(e, ERR_INVALID,
                         "the archive contains \"%.200s\", a link or special file; only files and "
                         "folders are accepted",
                         *name);
    return 0;
}

// --- looking -------------------------------------------------------------------------------------

struct inspection {
    bool (*see)(void *ctx, const struct archive_item *item); // NULL: reads one file instead
    void *ctx;
    const char *path; // path of the file to read
    struct buf *data;
    bool found;
};

static int read_data(struct archive *a, struct buf *data, const char *path, struct error *e)
{
    char *block = xcalloc(1, BLOCK);
    la_ssize_t n;
    int rc = 0;
    while (!rc && (n = archive_read_data(a, block, BLOCK)) != 0) {
        if (n < 0)
            rc = archive_failed(a, e);
        else if (buf_append(data, block, (size_t)n))
            rc = error_set(e, ERR_TOO_LARGE,
                           "%.200s has more than %zu bytes; download all files instead", path,
                           data->limit);
    }
    free(block);
    return rc;
}

// *more: whether the caller wants another entry.
static int inspect_entry(struct archive *a, struct archive_entry *entry, struct inspection *l,
                         size_t *entries, int *more, struct error *e)
{
    char *name;
    bool folder = archive_entry_filetype(entry) == AE_IFDIR;
    int rc = archive_entry_check(entry, entries, &name, e);
    if (!rc && *name && l->see) {
        struct archive_item item = {.path = name,
                                    .folder = folder,
                                    .bytes = folder ? 0 : archive_entry_size(entry),
                                    .mtime = archive_entry_mtime(entry)};
        *more = l->see(l->ctx, &item);
    } else if (!rc && !folder && !l->see && !strcmp(name, l->path)) {
        l->found = true;
        *more = 0;
        rc = read_data(a, l->data, name, e);
    }
    free(name);
    return rc;
}

static int inspect_archive(const void *tgz, size_t len, struct inspection *l, struct error *e)
{
    struct archive_entry *entry;
    size_t entries = 0;
    int more = 1, rc = 0;
    struct archive *a = archive_reader();
    locale_t before = archive_locale_enter();
    if (archive_read_open_memory(a, tgz, len) < ARCHIVE_WARN)
        rc = archive_failed(a, e);
    while (!rc && more) {
        rc = archive_step(a, &entry, &more, e);
        if (!rc && more)
            rc = inspect_entry(a, entry, l, &entries, &more, e);
    }
    archive_read_free(a);
    archive_locale_leave(before);
    return rc;
}

int archive_look(const void *tgz, size_t len, bool (*see)(void *ctx, const struct archive_item *),
                 void *ctx, struct error *e)
{
    struct inspection l = {.see = see, .ctx = ctx};
    return inspect_archive(tgz, len, &l, e);
}

int archive_read_file(const void *tgz, size_t len, const char *path, size_t limit, void **out,
                      size_t *out_len, struct error *e)
{
    struct buf data;
    buf_init(&data, limit);
    struct inspection l = {.path = path, .data = &data};
    int rc = inspect_archive(tgz, len, &l, e);
    if (!rc && !l.found)
        rc = error_set(e, ERR_NOT_FOUND, "there is no file \"%.200s\"", path);
    if (!rc) {
        *out_len = data.len;
        *out = buf_take(&data);
    }
    buf_free(&data);
    return rc;
}
