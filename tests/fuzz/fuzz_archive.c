// Archives, lists of files, and paths. The first letter selects the kind of input:
//
//   a a tar, packed here           z a tar.gz                 f a list of files as JSON
//   i a tar, imported as an experiment      g a pattern, "\n", a path    p a path
//
// Nothing may be created outside the folder, and all ways to read an archive must agree.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "api/archive/archive.h"
#include "api/walk.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "master/retention/path_patterns.h"
#include "tests/fuzz/support.h"

enum { ROOM = 1 << 20 };

static void *gzip(struct piece p, size_t *len)
{
    z_stream z = {0};
    must(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    uLong most = deflateBound(&z, p.len);
    unsigned char *out = xcalloc(1, most);
    z.next_in = (Bytef *)(uintptr_t)p.text;
    z.avail_in = (uInt)p.len;
    z.next_out = out;
    z.avail_out = (uInt)most;
    must(deflate(&z, Z_FINISH) == Z_STREAM_END);
    *len = z.total_out;
    deflateEnd(&z);
    return out;
}

// --- an archive ----------------------------------------------------------------------------------

struct looked {
    const void *tgz;
    size_t len;
    struct buf files; // their paths, each ended by a NUL
    int64_t bytes;
};

static bool see(void *ctx, const struct archive_item *item)
{
    struct looked *l = ctx;
    must(path_is_inside(item->path));
    if (!item->folder) {
        l->bytes += item->bytes;
        buf_append(&l->files, item->path, strlen(item->path) + 1);
    }
    return true;
}

static int count_file(void *ctx, const struct walk_entry *entry, struct error *e)
{
    (void)e;
    *(size_t *)ctx += !entry->is_folder;
    return 0;
}

// Every file that was seen exists, can be read by itself, and has the same contents.
static void compare(const struct looked *l, const char *folder)
{
    struct error e = {0};
    size_t count = 0, there = 0;
    for (size_t at = 0; at < l->files.len; at += strlen(l->files.data + at) + 1, count++) {
        const char *name = l->files.data + at;
        char *path = path_join(folder, name), *unpacked = NULL;
        void *read = NULL;
        size_t len, read_len;
        must(!file_read(path, ROOM, &unpacked, &len, &e));
        must(!archive_read_file(l->tgz, l->len, name, ROOM, &read, &read_len, &e));
        must(len == read_len && !memcmp(unpacked, read, len));
        free(unpacked);
        free(read);
        free(path);
    }
    int err = walk_folder(folder, count_file, &there, &e);
    must(err == ERR_TOO_LARGE || (!err && there == count));
}

static void take_archive(const void *tgz, size_t len)
{
    struct looked l = {.tgz = tgz, .len = len};
    struct error e = {0};
    char *folder = scratch_path("unpacked"), *aside = scratch_path("unpacked.tmp");
    size_t outside = 0;
    buf_init(&l.files, ROOM);
    int looked = archive_look(tgz, len, see, &l, &e);
    int err = archive_unpack(tgz, len, folder, ROOM, &e);
    must(!err == path_exists(folder) && !path_exists(aside));
    if (!err) {
        must(!looked && l.bytes <= ROOM);
        if (!l.files.err)
            compare(&l, folder);
        must(!dir_remove_tree(folder, &e));
    }
    must(!walk_folder(scratch_folder(), count_file, &outside, &e) && !outside);
    buf_free(&l.files);
    free(folder);
    free(aside);
}

static void take_tar(struct piece p)
{
    size_t len;
    void *tgz = gzip(p, &len);
    take_archive(tgz, len);
    free(tgz);
}

// --- an import -----------------------------------------------------------------------------------

// The simulated master accepts everything and keeps checkpoints in the folder "store".
int client_call(struct client *c, const char *method, const char *path, const json_t *body,
                json_t **answer, struct error *e)
{
    (void)c, (void)method, (void)path, (void)e;
    if (body) // as it would be sent
        free(json_text(body));
    if (!answer)
        return 0;
    char *store = scratch_path("store");
    *answer = json_pack("{s:{s:i, s:{s:{s:s, s:s}}}, s:{s:i}}", "experiment", "id", 7, "config",
                        "checkpoint_storage", "type", "directory", "container_path", store, "trial",
                        "id", 9);
    free(store);
    return 0;
}

static int see_imported(void *ctx, const struct walk_entry *entry, struct error *e)
{
    (void)ctx, (void)e;
    must(!strncmp(entry->relative, "store", 5) || !strcmp(entry->relative, "import.tar"));
    return 0;
}

static void take_import(struct piece p)
{
    struct error e = {0};
    char *path = scratch_path("import.tar"), *store = scratch_path("store");
    const char *args[] = {path};
    struct cli c = {.args = args, .arg_count = 1, .options.quiet = true};
    static bool silent;
    if (!silent)
        silent = freopen("/dev/null", "w", stdout) != NULL; // the command prints its result
    setenv("TMPDIR", scratch_folder(), 1);
    must(!dir_make(store, 0700, &e));
    scratch_write("import.tar", p.text, p.len);
    int err = run_experiment_import(&c, NULL, &e);
    must(!err || *e.text);
    must(!walk_folder(scratch_folder(), see_imported, NULL, &e));
    must(!dir_remove_tree(store, &e) && !dir_remove_tree(path, &e));
    arena_free(&c.arena);
    free(path);
    free(store);
}

// --- a list of files -----------------------------------------------------------------------------

static void take_list(struct piece p)
{
    json_t *list = NULL;
    void *tgz = NULL;
    size_t len = 0;
    struct error e = {0};
    if (!json_parse(p.text, p.len, "list", &list, &e) && !archive_pack_list(list, &tgz, &len, &e))
        take_archive(tgz, len);
    free(tgz);
    json_decref(list);
}

// --- paths and patterns --------------------------------------------------------------------------

static void take_path(struct piece p)
{
    char *path = piece_copy(p);
    int depth = 0, part = 0;
    bool inside = path_is_inside(path);
    for (const char *at = path; inside; at += part + 1) { // as the system reads the path
        part = (int)strcspn(at, "/");
        if (part == 2 && !memcmp(at, "..", 2))
            depth--;
        else if (part && !(part == 1 && *at == '.'))
            depth++;
        must(depth >= 0 && *path != '/');
        if (!at[part])
            break;
    }
    free(path);
}

static void take_pattern(struct piece p)
{
    struct piece first, second = {0};
    struct error e;
    piece_next(&p, "\n", &first);
    piece_next(&p, "\n", &second);
    char *pattern = piece_copy(first), *path = piece_copy(second);
    if (!path_pattern_check(pattern, "pattern", &e) && path_is_inside(path)) {
        bool matches = path_pattern_match(pattern, path);
        if (!strpbrk(pattern, "*?[\\"))
            must(matches == !strcmp(pattern, path));
        must(path_pattern_match("**", path));
    }
    free(pattern);
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct piece p = {(const char *)data + 1, size - 1};
    switch (size ? *data : 0) {
    case 'a':
        take_tar(p);
        break;
    case 'z':
        take_archive(p.text, p.len);
        break;
    case 'i':
        take_import(p);
        break;
    case 'f':
        take_list(p);
        break;
    case 'g':
        take_pattern(p);
        break;
    case 'p':
        take_path(p);
        break;
    default:
        return -1;
    }
    return 0;
}
