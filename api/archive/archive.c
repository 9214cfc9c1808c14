// Packs the JSON list of files, or a folder, as tar.gz.
#include "api/archive/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/archive/archive_parts.h"
#include "api/walk.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

static locale_t utf8;

static void load_locale(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    must(utf8);
}

locale_t archive_locale_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT; // the call may come from any thread
    pthread_once(&once, load_locale);
    return uselocale(utf8);
}

void archive_locale_leave(locale_t before)
{
    uselocale(before);
}

unsigned archive_plain_mode(unsigned mode, bool is_folder)
{
    return is_folder || (mode & 0100) ? 0755 : 0644;
}

// --- writing -------------------------------------------------------------------------------------

static la_ssize_t write_to_fd(struct archive *a, void *ctx, const void *data, size_t len)
{
    const int *fd = ctx;
    if (!file_write_all(*fd, data, len))
        return (la_ssize_t)len;
    archive_set_error(a, errno, "%s", strerror(errno));
    return -1;
}

struct sink {
    archive_sink *take;
    void *ctx;
};

static la_ssize_t write_to_sink(struct archive *a, void *ctx, const void *data, size_t len)
{
    const struct sink *sink = ctx;
    if (!sink->take(sink->ctx, data, len))
        return (la_ssize_t)len;
    archive_set_error(a, ECANCELED, "the reader stopped");
    return -1;
}

static int write_failed(struct archive *a, struct error *e)
{
    return error_set(e, ERR_IO, "cannot write the archive: %s",
                     archive_error_string(a) ? archive_error_string(a) : "unknown reason");
}

static int set_format(struct archive *a, enum archive_format format)
{
    if (format == ARCHIVE_ZIP)
        return archive_write_set_format_zip(a);
    if (archive_write_set_format_pax_restricted(a))
        return -1;
    return format == ARCHIVE_TAR_GZ &&
           (archive_write_add_filter_gzip(a) ||
            archive_write_set_filter_option(a, "gzip", "timestamp", NULL));
}

// Sets no time stamp, no owner and no data of this machine, so that equal files give equal bytes.
static int write_open(archive_write_callback *write, void *ctx, enum archive_format format,
                      struct archive **out, struct error *e)
{
    struct archive *a = archive_write_new();
    must(a);
    *out = a;
    if (set_format(a, format) || archive_write_set_bytes_in_last_block(a, 1) ||
        archive_write_open2(a, ctx, NULL, write, NULL, NULL))
        return write_failed(a, e);
    return 0;
}

static int write_close(struct archive *a, int rc, struct error *e)
{
    if (!rc && archive_write_close(a))
        rc = write_failed(a, e);
    archive_write_free(a);
    return rc;
}

static int write_header(struct archive *a, const char *path, bool is_folder, unsigned mode,
                        int64_t mtime, int64_t size, struct error *e)
{
    struct archive_entry *entry = archive_entry_new();
    must(entry);
    archive_entry_copy_pathname(entry, path);
    archive_entry_set_filetype(entry, is_folder ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, archive_plain_mode(mode, is_folder));
    archive_entry_set_mtime(entry, (time_t)mtime, 0);
    archive_entry_set_size(entry, size);
    int rc = archive_write_header(a, entry) < ARCHIVE_WARN ? write_failed(a, e) : 0;
    archive_entry_free(entry);
    return rc;
}

static int archive_write_bytes(struct archive *a, const void *data, size_t len, struct error *e)
{
    if (len && archive_write_data(a, data, len) != (la_ssize_t)len)
        return write_failed(a, e);
    return 0;
}

// --- the JSON list -------------------------------------------------------------------------------

struct packed_item { // a checked entry of the list
    char *path;
    const json_t *entry;
    bool is_folder;
};

static int check_item(const json_t *entry, size_t i, struct packed_item *item, struct error *e)
{
    const char *path = jget_string(entry, "path", "");
    long long type = jget_int(entry, "type", ARCHIVE_TYPE_FILE);
    size_t len = strlen(path);
    if (type != ARCHIVE_TYPE_FILE && type != ARCHIVE_TYPE_FOLDER)
        return error_set(e, ERR_INVALID,
                         "modelDefinition.%zu: \"%.200s\" has type %lld; only files (48) and "
                         "folders (53) are accepted, not links or devices",
                         i, path, type);
    item->is_folder = type == ARCHIVE_TYPE_FOLDER;
    if (item->is_folder && len > 1 && path[len - 1] == '/')
        len--;
    item->path = xasprintf("%.*s", (int)len, path);
    item->entry = entry;
    if (!path_is_inside(item->path))
        return error_set(e, ERR_INVALID,
                         "modelDefinition.%zu: \"%.200s\" is not a path inside the folder", i,
                         path);
    return 0;
}

static int compare_path(const void *a, const void *b)
{
    return strcmp(((const struct packed_item *)a)->path, ((const struct packed_item *)b)->path);
}

// Reads and checks all entries, in order of path. After an error the caller still calls
// free_items().
static int check_items(const json_t *files, struct packed_item *items, struct error *e)
{
    size_t i, count = json_array_size(files);
    json_t *entry;
    json_array_foreach(files, i, entry)
    {
        int rc = check_item(entry, i, &items[i], e);
        if (rc)
            return rc;
    }
    if (count)
        qsort(items, count, sizeof(*items), compare_path);
    for (i = 1; i < count; i++)
        if (!compare_path(&items[i - 1], &items[i]))
            return error_set(e, ERR_INVALID, "modelDefinition: \"%.200s\" occurs twice",
                             items[i].path);
    return 0;
}

static void free_items(struct packed_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(items[i].path);
    free(items);
}

// Decodes base64; fails if the text is not base64.
static size_t decoded_size(const char *text, size_t len)
{
    size_t padding = 0;
    while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
        padding++;
    return len / 4 * 3 - padding;
}

// Decodes and writes piece by piece. Padding is allowed at the end only.
static int write_content(struct archive *a, const char *text, size_t len, struct error *e)
{
    enum { PIECE = 256 * 1024 }; // bytes of text
    int rc = 0;
    for (size_t at = 0, n; !rc && at < len; at += n) {
        void *data = NULL;
        size_t size = 0;
        n = len - at < PIECE ? len - at : PIECE;
        rc = base64_decode(text + at, n, &data, &size);
        if (!rc && at + n < len && size < n / 4 * 3)
            rc = ERR_INVALID;
        if (!rc)
            rc = archive_write_bytes(a, data, size, e);
        free(data);
    }
    return rc;
}

static int content_of(const struct packed_item *item, const char *texts, const char **text,
                      size_t *len, struct error *e)
{
    const json_t *content = jget(item->entry, "content");
    bool is_offset = texts && json_is_integer(content);
    *text = is_offset ? texts + json_integer_value(content) : json_string_value(content);
    if (content && !*text)
        return error_set(e, ERR_INVALID, "modelDefinition: \"%.200s\": content is not a string",
                         item->path);
    *len = item->is_folder || !*text ? 0 : is_offset ? strlen(*text) : json_string_length(content);
    return 0;
}

static int pack_item(struct archive *a, const struct packed_item *item, const char *texts,
                     size_t *total, struct error *e)
{
    unsigned mode = (unsigned)jget_int(item->entry, "mode", 0644);
    int64_t mtime = jget_int(item->entry, "mtime", 0);
    const char *text = NULL;
    size_t len = 0;
    int rc = content_of(item, texts, &text, &len, e);
    if (rc)
        return rc;
    size_t size = len ? decoded_size(text, len) : 0;
    *total += size;
    if (*total > LIMIT_MODEL_DEFINITION)
        return error_set(e, ERR_TOO_LARGE,
                         "modelDefinition: the files have more than %d bytes; put data into a "
                         "folder that all machines can reach",
                         LIMIT_MODEL_DEFINITION);
    rc = write_header(a, item->path, item->is_folder, mode, mtime, (int64_t)size, e);
    if (!rc)
        rc = write_content(a, text, len, e);
    if (rc != ERR_INVALID)
        return rc;
    return error_set(e, rc, "modelDefinition: \"%.200s\": content is not base64", item->path);
}

static int pack_items(const json_t *files, const char *texts, struct sink *sink, struct error *e)
{
    struct archive *a = NULL;
    size_t total = 0, count = json_array_size(files);
    struct packed_item *items = xcalloc(count + 1, sizeof(*items));
    locale_t before = archive_locale_enter();
    int rc = check_items(files, items, e);
    if (!rc)
        rc = write_open(write_to_sink, sink, ARCHIVE_TAR_GZ, &a, e);
    for (size_t i = 0; !rc && i < count; i++)
        rc = pack_item(a, &items[i], texts, &total, e);
    if (a)
        rc = write_close(a, rc, e);
    archive_locale_leave(before);
    free_items(items, count);
    return rc;
}

static int buffer_append(void *ctx, const void *data, size_t len)
{
    return buf_append(ctx, data, len);
}

static struct buf nothing; // an archive without files

static void pack_nothing(void)
{
    struct sink sink = {buffer_append, &nothing};
    buf_init(&nothing, LIMIT_BODY);
    must(!pack_items(NULL, NULL, &sink, NULL));
}

int archive_pack_list_to(const json_t *files, const char *texts, archive_sink *take, void *ctx,
                         struct error *e)
{
    // Returns a prepared archive: submissions without files come in thousands, and a compressor is
    // expensive to set up.
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sink sink = {take, ctx};
    size_t count = json_array_size(files);
    if (files && !json_is_null(files) && !json_is_array(files))
        return error_set(e, ERR_INVALID, "modelDefinition is not a list of files");
    if (count > ARCHIVE_FILES_MAX)
        return error_set(e, ERR_TOO_LARGE, "modelDefinition: %zu files; at most %d", count,
                         ARCHIVE_FILES_MAX);
    pthread_once(&once, pack_nothing);
    if (count)
        return pack_items(files, texts, &sink, e);
    return take(ctx, nothing.data, nothing.len)
               ? error_set(e, ERR_IO, "the reader stopped before the archive was complete")
               : 0;
}

int archive_pack_list(const json_t *files, void **tgz, size_t *len, struct error *e)
{
    struct buf out;
    *tgz = NULL;
    *len = 0;
    buf_init(&out, LIMIT_BODY);
    int rc = archive_pack_list_to(files, NULL, buffer_append, &out, e);
    if (!rc) {
        *len = out.len;
        *tgz = buf_take(&out);
    }
    buf_free(&out);
    return rc;
}

// --- a folder ------------------------------------------------------------------------------------

static int copy_file(struct archive *a, int fd, const struct walk_entry *entry, struct error *e)
{
    enum { BLOCK = 1 << 20 };
    int64_t size = entry->size;
    int rc = 0;
    char *block = xcalloc(1, BLOCK);
    while (!rc && size > 0) {
        ssize_t n = read(fd, block, size < BLOCK ? (size_t)size : BLOCK);
        if (n < 0)
            rc = error_set_errno(e, ERR_IO, errno, "cannot read %s", entry->path);
        else if (n == 0)
            rc = error_set(e, ERR_IO, "%s became shorter while it was being read", entry->path);
        else
            rc = archive_write_bytes(a, block, (size_t)n, e);
        size -= n;
    }
    free(block);
    return rc;
}

static int pack_entry(void *ctx, const struct walk_entry *entry, struct error *e)
{
    struct archive *a = ctx;
    int fd = -1, rc = entry->is_folder ? 0 : walk_open(entry, &fd, e);
    if (!rc)
        rc = write_header(a, entry->relative, entry->is_folder, entry->mode, entry->mtime,
                          entry->size, e);
    if (!rc && !entry->is_folder)
        rc = copy_file(a, fd, entry, e);
    if (fd >= 0)
        close(fd);
    return rc;
}

int archive_pack_folder_as(const char *folder, enum archive_format format, int fd, struct error *e)
{
    struct archive *a = NULL;
    locale_t before = archive_locale_enter();
    int rc = write_open(write_to_fd, &fd, format, &a, e);
    if (!rc)
        rc = walk_folder(folder, pack_entry, a, e);
    rc = write_close(a, rc, e);
    archive_locale_leave(before);
    return rc;
}

int archive_pack_foreign(int dir, const char *shown, enum archive_format format, archive_sink *take,
                         void *ctx, struct error *e)
{
    struct sink sink = {take, ctx};
    struct archive *a = NULL;
    locale_t before = archive_locale_enter();
    int rc = write_open(write_to_sink, &sink, format, &a, e);
    if (!rc)
        rc = walk_foreign(dir, shown, pack_entry, a, e);
    rc = write_close(a, rc, e);
    archive_locale_leave(before);
    return rc;
}

int archive_pack_folder(const char *folder, int fd, struct error *e)
{
    return archive_pack_folder_as(folder, ARCHIVE_TAR_GZ, fd, e);
}
