// The files of an experiment: the tree of their names, and single files. Runs on a worker, because
// it reads the whole archive.
#include <stdlib.h>
#include <string.h>

#include "api/archive/archive.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "master/views/views.h"

struct file_node { // one file or folder
    char *path;
    bool folder;
    int64_t bytes, mtime;
};

struct file_nodes {
    struct file_node *items;
    size_t count, cap;
};

static void add_node(struct file_nodes *n, struct file_node node)
{
    if (n->count == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 64;
        n->items = xrealloc(n->items, n->cap * sizeof *n->items);
    }
    n->items[n->count++] = node;
}

static bool add_item(void *ctx, const struct archive_item *item)
{
    add_node(ctx, (struct file_node){xstrdup(item->path), item->folder, item->bytes,
                                     item->mtime * 1000000});
    return true;
}

// Compares paths part by part, so that the files of a folder follow it.
static int by_path(const void *left, const void *right)
{
    const char *a = ((const struct file_node *)left)->path,
               *b = ((const struct file_node *)right)->path;
    while (*a && *a == *b)
        a++, b++;
    int x = *a == '/' ? 1 : (unsigned char)*a, y = *b == '/' ? 1 : (unsigned char)*b;
    return (x > y) - (x < y);
}

// Adds folders that have no entry of their own in the archive.
static void add_parents(struct file_nodes *n)
{
    size_t count = n->count;
    for (size_t i = 0; i < count; i++)
        for (const char *slash = strchr(n->items[i].path, '/'); slash;
             slash = strchr(slash + 1, '/'))
            add_node(n, (struct file_node){
                            xasprintf("%.*s", (int)(slash - n->items[i].path), n->items[i].path),
                            true, 0, 0});
}

// Sorts the nodes and merges those with the same path.
static void merge_duplicates(struct file_nodes *n)
{
    size_t kept = 0;
    if (n->count)
        qsort(n->items, n->count, sizeof *n->items, by_path);
    for (size_t i = 0; i < n->count; i++) {
        if (kept && !strcmp(n->items[kept - 1].path, n->items[i].path)) {
            if (n->items[i].mtime)
                n->items[kept - 1].mtime = n->items[i].mtime;
            free(n->items[i].path);
            continue;
        }
        n->items[kept++] = n->items[i];
    }
    n->count = kept;
}

static bool is_inside(const struct file_node *n, const char *folder, size_t len)
{
    return !len || (!strncmp(n->path, folder, len) && n->path[len] == '/');
}

static const char *content_type(const char *path)
{
    static const struct {
        const char *ending, *type;
    } types[] = {{".py", "text/x-python"},
                 {".yaml", "text/yaml"},
                 {".yml", "text/yaml"},
                 {".json", "application/json"},
                 {".md", "text/markdown"}};
    size_t len = strlen(path);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t ending = strlen(types[i].ending);
        if (len > ending && !strcmp(path + len - ending, types[i].ending))
            return types[i].type;
    }
    return "text/plain";
}

// Writes the nodes of a folder, beginning with items[at], and returns the index behind them. Leaves
// out levels that are deeper than the JSON writer can nest.
static size_t write_nodes(struct json_writer *w, const struct file_nodes *n, size_t at,
                          const char *folder)
{
    size_t len = strlen(folder);
    jw_array(w);
    while (at < n->count && is_inside(&n->items[at], folder, len)) {
        const struct file_node *node = &n->items[at++];
        const char *name = strrchr(node->path, '/');
        jw_object(w);
        jw_kv_string(w, "path", node->path);
        jw_kv_string(w, "name", name ? name + 1 : node->path);
        write_time(w, "modifiedTime", node->mtime);
        jw_kv_int(w, "contentLength", node->bytes);
        jw_kv_bool(w, "isDir", node->folder);
        jw_kv_string(w, "contentType", node->folder ? "" : content_type(node->path));
        jw_key(w, "files");
        if (node->folder && w->depth + 4 < JSON_DEPTH_MAX)
            at = write_nodes(w, n, at, node->path);
        else
            jw_raw(w, "[]");
        jw_object_end(w);
        while (at < n->count && is_inside(&n->items[at], node->path, strlen(node->path)))
            at++;
    }
    jw_array_end(w);
    return at;
}

// Reads the archive of the experiment in the path. It is empty if the experiment was submitted
// without files.
static int read_archive(struct view *v, struct buf *archive, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e), pieces = 0, more;
    buf_init(archive, LIMIT_BODY);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_ARCHIVE, id);
    for (; (more = db_next(rows)) > 0; pieces++) {
        struct db_blob piece = DB_GET(rows, EXPERIMENT_ARCHIVE, piece);
        buf_append(archive, piece.data, piece.len);
    }
    db_rows_close(rows);
    if (more < 0 || archive->err)
        return store_failed(e);
    return pieces ? 0 : error_not_found(e, "experiment", "%lld", (long long)id);
}

int view_file_tree(struct view *v, struct error *e)
{
    struct file_nodes n = {0};
    struct buf archive;
    int rc = read_archive(v, &archive, e);
    if (!rc && archive.len)
        rc = archive_look(archive.data, archive.len, add_item, &n, e);
    buf_free(&archive);
    if (!rc) {
        add_parents(&n);
        merge_duplicates(&n);
        jw_object(&v->w);
        jw_key(&v->w, "files");
        write_nodes(&v->w, &n, 0, "");
        jw_object_end(&v->w);
    }
    for (size_t i = 0; i < n.count; i++)
        free(n.items[i].path);
    free(n.items);
    return rc;
}

int view_file(struct view *v, struct error *e)
{
    const char *path = jget_string(v->rq->body, "path", "");
    void *data = NULL;
    size_t file_len = 0;
    struct buf archive;
    int rc = read_archive(v, &archive, e);
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    if (!rc)
        rc = archive.len
                 ? archive_read_file(archive.data, archive.len, path, LIMIT_MODEL_FILE, &data,
                                     &file_len, e)
                 : error_set(e, ERR_NOT_FOUND, "the experiment was submitted without files");
    buf_free(&archive);
    if (rc)
        return rc;
    char *text = base64_encode(data, file_len);
    buf_puts(&v->rq->answer, "{\"file\":\""); // base64 needs no escapes
    buf_puts(&v->rq->answer, text);
    buf_puts(&v->rq->answer, "\"}");
    free(text);
    free(data);
    return 0;
}
