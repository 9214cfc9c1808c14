// Images, histograms, tables and texts of a trial: lists them, writes them to files.
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/media.h"
#include "base/hash.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/media_download.h"
#include "cli/output/output.h"

enum { KEPT_BYTES = 200 }; // of an encoded name that is too long for a folder

static json_t *row_media(const json_t *item)
{
    json_t *row = json_object();
    static const char *const copied[] = {"name", "step", "type", "size", "digest"};
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        json_object_set(row, copied[i], jget(item, copied[i]));
    json_object_set(row, "reported", jget(item, "time"));
    json_object_set(row, "run", jget(item, "trialRunId"));
    return row;
}

static bool is_file_name(const char *part, size_t len)
{
    static const char *const suffixes[] = {".png", ".json", ".txt"};
    size_t digits = strspn(part, "0123456789");
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (digits > 0 && len == digits + strlen(suffixes[i]) &&
            strncmp(part + digits, suffixes[i], len - digits) == 0)
            return true;
    return false;
}

// Returns whether each component of the name can be a folder, and none looks like the file of
// another name or like an encoded name.
static bool is_plain(const char *name)
{
    bool plain = path_is_inside(name) && !strchr(name, '%');
    for (const char *part = name; plain && *part;) {
        size_t len = strcspn(part, "/");
        plain = len <= NAME_MAX && !is_file_name(part, len);
        part += len + (part[len] == '/');
    }
    return plain;
}

// Another name becomes a single percent-encoded component; different names stay different. Dots
// stay as they are in percent-encoding, so the first one is encoded here: "." and ".." are folders.
static char *escape_name(const char *name)
{
    char *escaped = client_escape(name);
    char *out = *escaped == '.' ? xasprintf("%%2E%s", escaped + 1) : xstrdup(escaped);
    free(escaped);
    if (strlen(out) <= NAME_MAX && strchr(out, '%'))
        return out;
    char *marked = xasprintf("%.*s%%-%016" PRIx64, KEPT_BYTES, out, hash64(name, strlen(name)));
    free(out);
    return marked;
}

// FOLDER/NAME/STEP.png. A program has chosen the name.
static char *path_of(const char *folder, const json_t *item)
{
    const char *name = jget_string(item, "name", "");
    char *escaped = is_plain(name) ? NULL : escape_name(name);
    const struct media_type *type = media_type_find(jget_string(item, "type", ""));
    char *path = xasprintf("%s/%s/%lld%s", folder, escaped ? escaped : name,
                           (long long)jget_int(item, "step", 0), type ? type->suffix : "");
    free(escaped);
    return path;
}

static int make_parent(const char *path, struct error *e)
{
    char *parent = xasprintf("%.*s", (int)(strrchr(path, '/') - path), path);
    int err = dir_make(parent, 0777, e);
    free(parent);
    return err;
}

static int download_item(struct cli *c, long long trial, const json_t *item, const char *folder,
                         struct error *e)
{
    char *path = path_of(folder, item);
    int err = make_parent(path, e);
    err = err ? err : media_download(c, trial, jget_string(item, "digest", ""), path, e);
    free(path);
    return err;
}

// An item that cannot be downloaded does not stop the others; the first error is the result.
static int download_items(struct cli *c, long long trial, const json_t *items, struct error *e)
{
    size_t i, failed = 0, count = json_array_size(items);
    int err = 0;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        struct error why = {0};
        if (download_item(c, trial, item, c->options.to, &why) == 0)
            continue;
        error_prefix(&why, "%s at step %lld", jget_string(item, "name", ""),
                     (long long)jget_int(item, "step", 0));
        if (!failed++) {
            err = why.code;
            *e = why;
        }
    }
    if (!c->options.quiet)
        printf("%zu %s in %s\n", count - failed, count - failed == 1 ? "file is" : "files are",
               c->options.to);
    return failed > 1 ? error_prefix(e, "%zu of %zu files failed; the first", failed, count) : err;
}

int run_trial_media(struct cli *c, const struct command *self, struct error *e)
{
    long long id;
    json_t *items = NULL, *rows = json_array(), *item;
    size_t i;
    int err = cli_id(c, 0, "trial", &id, e);
    err = err ? err
              : cli_list(c, "media", c->options.limit, &items, e,
                         "/api/v1/trials/%lld/media?orderBy=ORDER_BY_ASC%s%s%s", id,
                         cli_query(c, "name", c->options.name),
                         cli_query(c, "type", c->options.media_type),
                         cli_query(c, "step", c->options.media_step));
    if (!err && c->options.to) {
        err = download_items(c, id, items, e);
    } else if (!err) {
        json_array_foreach(items, i, item)
        {
            json_array_append_new(rows, row_media(item));
        }
        err = output_rows(c, rows, self->columns, e);
    }
    json_decref(rows);
    json_decref(items);
    return err;
}
