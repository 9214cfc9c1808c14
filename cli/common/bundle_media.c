#include "cli/common/bundle_media.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/media.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/common/bundle.h"
#include "cli/common/media_download.h"

static const char *digest_of(const json_t *item)
{
    const char *digest = jget_string(item, "digest", "");
    return media_is_digest(digest) ? digest : NULL;
}

// --- export --------------------------------------------------------------------------------------

// *missing: the content is gone, damaged, or not readable for the master.
static int save_content(struct cli *c, const char *folder, long long trial, const json_t *item,
                        bool *missing, struct error *e)
{
    const char *digest = digest_of(item);
    char *path = xasprintf("%s/%s", folder, digest ? digest : "");
    int err = digest ? 0 : error_set(e, ERR_PEER, "the master sent an item without a digest");
    *missing = false;
    if (!err && !path_exists(path)) {
        err = media_download(c, trial, digest, path, e);
        *missing = err == ERR_NOT_FOUND || err == ERR_FORBIDDEN || err == ERR_INVALID;
    }
    free(path);
    return *missing ? 0 : err;
}

int bundle_media_save(struct cli *c, const char *folder, long long trial,
                      struct bundle_media_counts *counts, struct error *e)
{
    json_t *items = NULL, *item;
    size_t i;
    char *name = xasprintf("trials/%lld/media.jsonl", trial),
         *contents = path_join(folder, "media");
    int err =
        cli_list(c, "media", 0, &items, e, "/api/v1/trials/%lld/media?orderBy=ORDER_BY_ASC", trial);
    FILE *out = NULL;
    if (!err && json_array_size(items) > 0) {
        out = bundle_create(folder, e, "%s", name);
        err = out ? dir_make(contents, 0755, e) : ERR_IO;
    }
    json_array_foreach(items, i, item)
    {
        bool missing = false;
        err = err ? err : save_content(c, contents, trial, item, &missing, e);
        err = err || missing ? err : bundle_put_line(out, item, e);
        counts->missing += missing;
        counts->items += !missing;
    }
    struct error ignored;
    int closed = out ? bundle_close(out, name, err ? &ignored : e) : 0;
    json_decref(items);
    free(contents);
    free(name);
    return err ? err : closed;
}

// --- import --------------------------------------------------------------------------------------

struct media_import {
    struct cli *c;
    const struct bundle_media_target *to;
    struct bundle_media_counts *counts;
    char *from;          // the folder of the contents in the export
    char *folder;        // in the storage; NULL: this machine cannot write there
    json_t *batch;       // items that are not reported yet
    int64_t batch_bytes; // of their contents
};

static int report_batch(struct media_import *m, struct error *e)
{
    size_t count = json_array_size(m->batch);
    json_t *body = json_pack("{s:O}", "items", m->batch);
    int err = count
                  ? cli_call(m->c, "POST", body, NULL, e, "/api/v1/trials/%lld/media", m->to->trial)
                  : 0;
    json_decref(body);
    m->counts->items += err ? 0 : (long long)count;
    json_array_clear(m->batch);
    m->batch_bytes = 0;
    return err;
}

// Copies a content into the storage. *size: its bytes.
static int place_content(const struct media_import *m, const char *digest, int64_t *size,
                         struct error *e)
{
    char *from = path_join(m->from, digest), *to = path_join(m->folder, digest), *content = NULL;
    char found[SHA256_HEX] = "";
    size_t len = 0;
    int err = file_read(from, LIMIT_MEDIA_ITEM, &content, &len, e);
    if (!err)
        sha256_hex(content, len, found);
    if (!err && strcmp(found, digest) != 0)
        err = error_set(e, ERR_INVALID, "%s is damaged: its SHA-256 is %s", from, found);
    if (!err && !path_exists(to))
        err = file_write_durable(to, content, len, 0644, e);
    *size = (int64_t)len;
    free(content);
    free(to);
    free(from);
    return err;
}

// The master reads the contents within one call, so their bytes are limited, too.
static int append_item(struct media_import *m, json_t *item, int64_t size, struct error *e)
{
    bool full = json_array_size(m->batch) >= LIMIT_MEDIA_PER_POST ||
                m->batch_bytes + size > LIMIT_MEDIA_BYTES_PER_CALL;
    int err = full ? report_batch(m, e) : 0;
    json_array_append_new(m->batch, item);
    m->batch_bytes += size;
    return err;
}

static int on_item(void *ctx, const json_t *item, struct error *e)
{
    static const char *const kept[] = {"step", "name", "type", "format", "digest", "size"};
    struct media_import *m = ctx;
    int64_t time = 0, size = 0;
    const char *digest = digest_of(item);
    if (!m->folder) {
        m->counts->missing++;
        return 0;
    }
    if (!digest)
        return error_set(e, ERR_INVALID, "media.jsonl: an item has no digest");
    int err = place_content(m, digest, &size, e);
    if (err)
        return err;
    json_t *one = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(one, kept[i], jget(item, kept[i]));
    if (clock_parse(jget_string(item, "time", ""), &time) == 0)
        json_object_set_new(one, "time", json_integer(time));
    return append_item(m, one, size, e);
}

// The folder of the contents in the storage; NULL: this machine cannot write there.
static char *find_folder(const struct bundle_media_target *to)
{
    char *root = NULL, *folder = NULL;
    if (checkpoint_root(to->storage, &root, NULL) == 0 && access(root, W_OK) == 0)
        folder = xasprintf("%s/media/%s/%lld", root, to->cluster, to->experiment);
    free(root);
    return folder;
}

int bundle_media_load(struct cli *c, const char *folder, const struct bundle_media_target *to,
                      struct bundle_media_counts *counts, struct error *e)
{
    char *name = xasprintf("trials/%lld/media.jsonl", to->old_trial),
         *list = path_join(folder, name);
    struct media_import m = {.c = c,
                             .to = to,
                             .counts = counts,
                             .from = path_join(folder, "media"),
                             .folder = find_folder(to),
                             .batch = json_array()};
    int err = 0;
    if (m.folder && path_exists(list))
        err = dir_make(m.folder, 0755, e);
    err = err ? err : bundle_lines(folder, name, on_item, &m, e);
    err = err ? err : report_batch(&m, e);
    json_decref(m.batch);
    free(m.folder);
    free(m.from);
    free(list);
    free(name);
    return err;
}
