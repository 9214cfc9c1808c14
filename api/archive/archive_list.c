// Reads a folder as the JSON list for a submission.
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "api/archive/archive_parts.h"
#include "api/walk.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum { LARGEST = 3, IGNORE_FILE_MAX = 64 * 1024 };

struct listing {
    char *ignore[2]; // text of the ignore files, cut into strings by NULs; NULL: no such file
    size_t ignore_len[2];
    json_t *files;
    int64_t total;
    struct {
        char *path;
        int64_t size;
    } largest[LARGEST];
};

// --- patterns ------------------------------------------------------------------------------------

// webui/src/lib/upload/ignore_rules.ts applies the same rules to folders chosen in the browser.

static bool pattern_matches(const char *pattern, const struct walk_entry *entry)
{
    char cut[1024];
    size_t len = strlen(pattern);
    if (!len || len >= sizeof(cut))
        return false;
    memcpy(cut, pattern, len + 1);
    if (cut[len - 1] == '/') {
        if (!entry->is_folder)
            return false;
        cut[len - 1] = '\0';
    }
    const char *slash = strrchr(entry->relative, '/');
    const char *base = slash ? slash + 1 : entry->relative;
    if (!strchr(cut, '/'))
        return !fnmatch(cut, base, 0);
    return !fnmatch(cut + (*cut == '/'), entry->relative, strstr(cut, "**") ? 0 : FNM_PATHNAME);
}

// The last matching pattern decides; a pattern that begins with ! includes the file again.
static bool is_ignored(const struct listing *l, const struct walk_entry *entry)
{
    bool ignored = !strcmp(entry->relative, ".git");
    for (int i = 0; i < 2; i++) {
        const char *line = l->ignore[i], *end = line ? line + l->ignore_len[i] : NULL;
        for (; line && line < end; line += strlen(line) + 1) {
            bool keep = *line == '!';
            if (*line != '#' && pattern_matches(line + keep, entry))
                ignored = !keep;
        }
    }
    return ignored;
}

static int read_ignore(const char *folder, const char *name, char **text, size_t *len,
                       struct error *e)
{
    char *path = path_join(folder, name);
    int rc = file_read(path, IGNORE_FILE_MAX, text, len, e);
    free(path);
    if (rc == ERR_NOT_FOUND)
        return 0;
    for (char *p = *text; !rc && p < *text + *len; p++)
        if (*p == '\n' || *p == '\r')
            *p = '\0';
    return rc;
}

// --- sizes ---------------------------------------------------------------------------------------

static void note_largest(struct listing *l, const struct walk_entry *entry)
{
    int at = LARGEST;
    while (at > 0 && l->largest[at - 1].size < entry->size)
        at--;
    if (at == LARGEST)
        return;
    free(l->largest[LARGEST - 1].path);
    memmove(&l->largest[at + 1], &l->largest[at],
            (size_t)(LARGEST - 1 - at) * sizeof(l->largest[0]));
    l->largest[at].path = xstrdup(entry->relative);
    l->largest[at].size = entry->size;
}

static int measure_entry(void *ctx, const struct walk_entry *entry, struct error *e)
{
    struct listing *l = ctx;
    (void)e;
    if (is_ignored(l, entry))
        return WALK_SKIP;
    l->total += entry->size;
    note_largest(l, entry);
    return 0;
}

static int too_large(const struct listing *l, const char *folder, struct error *e)
{
    struct buf names;
    buf_init(&names, ERROR_TEXT_MAX);
    for (int i = 0; i < LARGEST && l->largest[i].path; i++)
        buf_printf(&names, "%s %.200s (%.1f MB)", i ? "," : "", l->largest[i].path,
                   (double)l->largest[i].size / 1e6);
    error_set(
        e, ERR_TOO_LARGE,
        "%s: the files have %.1f MB, but at most %d MB can be uploaded; list unneeded files in "
        ".musterignore. The largest:%s",
        folder, (double)l->total / 1e6, ARCHIVE_UPLOAD_MAX / 1000000, buf_str(&names));
    buf_free(&names);
    return ERR_TOO_LARGE;
}

// --- the list ------------------------------------------------------------------------------------

static int add_entry(json_t *files, const char *path, bool is_folder, unsigned mode, int64_t mtime,
                     const void *data, size_t len, struct error *e)
{
    if (json_array_size(files) >= ARCHIVE_FILES_MAX)
        return error_set(e, ERR_TOO_LARGE, "%s: more than %d files", path, ARCHIVE_FILES_MAX);
    char *content = base64_encode(data, len), *seconds = xasprintf("%lld", (long long)mtime);
    json_t *entry =
        json_pack("{s:s, s:i, s:s, s:i, s:s, s:i, s:i}", "path", path, "type",
                  is_folder ? ARCHIVE_TYPE_FOLDER : ARCHIVE_TYPE_FILE, "content", content, "mode",
                  (int)archive_plain_mode(mode, is_folder), "mtime", seconds, "uid", 0, "gid", 0);
    free(seconds);
    free(content);
    if (!entry)
        return error_set(e, ERR_INVALID, "\"%.200s\": the name is not UTF-8; rename the file",
                         path);
    json_array_append_new(files, entry);
    return 0;
}

static int read_walked(const struct walk_entry *entry, char **data, size_t *len, struct error *e)
{
    int fd, rc = walk_open(entry, &fd, e);
    if (rc)
        return rc;
    rc = file_read_fd(fd, entry->path, ARCHIVE_UPLOAD_MAX, data, len, e);
    close(fd);
    return rc;
}

static int add_walked(void *ctx, const struct walk_entry *entry, struct error *e)
{
    struct listing *l = ctx;
    char *data = NULL;
    size_t len = 0;
    if (is_ignored(l, entry))
        return WALK_SKIP;
    int rc = entry->is_folder ? 0 : read_walked(entry, &data, &len, e);
    if (!rc)
        rc = add_entry(l->files, entry->relative, entry->is_folder, entry->mode, entry->mtime, data,
                       len, e);
    free(data);
    return rc;
}

int archive_list_add(json_t *files, const char *path, const void *data, size_t len, struct error *e)
{
    if (!path_is_inside(path))
        return error_set(e, ERR_INVALID, "\"%.200s\" is not a path inside the folder", path);
    return add_entry(files, path, false, 0644, 0, data, len, e);
}

static int read_ignores(struct listing *l, const char *folder, struct error *e)
{
    int rc = read_ignore(folder, ".detignore", &l->ignore[0], &l->ignore_len[0], e);
    return rc ? rc : read_ignore(folder, ".musterignore", &l->ignore[1], &l->ignore_len[1], e);
}

// Returns the list, or frees it after an error.
static void list_finish(struct listing *l, int rc, json_t **files)
{
    *files = rc ? NULL : json_incref(l->files);
    json_decref(l->files);
    for (int i = 0; i < LARGEST; i++)
        free(l->largest[i].path);
    for (int i = 0; i < 2; i++)
        free(l->ignore[i]);
}

int archive_list_folder(const char *folder, json_t **files, struct error *e)
{
    struct listing l = {.files = json_array()};
    int rc = read_ignores(&l, folder, e);
    if (!rc)
        rc = walk_folder(folder, measure_entry, &l, e);
    if (!rc && l.total > ARCHIVE_UPLOAD_MAX)
        rc = too_large(&l, folder, e);
    if (!rc)
        rc = walk_folder(folder, add_walked, &l, e);
    list_finish(&l, rc, files);
    return rc;
}

static int add_link(void *ctx, const struct walk_entry *entry, struct error *e)
{
    struct listing *l = ctx;
    (void)e;
    if (is_ignored(l, entry))
        return WALK_SKIP;
    if (entry->is_link)
        json_array_append_new(l->files, json_string(entry->relative));
    return 0;
}

int archive_list_links(const char *folder, json_t **links, struct error *e)
{
    struct listing l = {.files = json_array()};
    int rc = read_ignores(&l, folder, e);
    if (!rc)
        rc = walk_others(folder, add_link, &l, e);
    list_finish(&l, rc, links);
    return rc;
}
