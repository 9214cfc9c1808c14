#include "master/http/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/hash.h"
#include "master/http/view.h"

#define ASSETS "assets/"

enum {
    FILE_MAX = 16 << 20, // bytes of one file of the page
    GZIP = 16 + MAX_WBITS,
};

// The page loads and runs only its own files, and no other site may embed it.
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'";

// The hash of the text between <style> and </style>; a test compares it.
#define STYLE_HASH "sha256-+uEkvFxmUPTGe6fTlNN3jWo3t1bvzWie1DSrXoEXgAo="

static const char no_page[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Muster</title>\n"
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;"
    "padding:0 1rem;color:#222;background:#fff}pre{background:#f3f3f3;padding:.75rem;"
    "overflow:auto}a{color:#0a58ca}@media(prefers-color-scheme:dark){body{color:#ddd;"
    "background:#181818}pre{background:#262626}a{color:#7db3ff}}</style>\n"
    "<h1>Muster</h1>\n"
    "<p>This is the muster-master, version " MUSTER_VERSION ": it runs training experiments on the "
    "slots of this cluster. It was built without its web page, for which the build needs Node.js "
    "and npm:</p>\n"
    "<pre>packaging/setup                    installs both\n"
    "cmake --preset release\n"
    "cmake --build --preset release</pre>\n"
    "<p>Then start the new muster-master. The command line and the API show everything too.</p>\n"
    "<h2>Command line</h2>\n"
    "<pre>muster login USER                  sign in\n"
    "muster experiment create FILE      train\n"
    "muster experiment list             what runs, waits and is done\n"
    "muster experiment describe ID      one experiment, and why it waits\n"
    "muster experiment logs ID -f       its output as it comes\n"
    "muster agent list                  the machines\n"
    "muster --help                      all commands</pre>\n"
    "<p>Scripts for Determined AI and its command <code>det</code> work with the same address: "
    "the calls are Determined's REST API v1.</p>\n"
    "<h2>API</h2>\n"
    "<p><a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a> describes every call. "
    "<a href=\"/info\">/info</a> names this cluster.</p>\n</html>\n";

static const char no_page_policy[] =
    "default-src 'none'; style-src '" STYLE_HASH "'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

// --- headers -------------------------------------------------------------------------------------

// The next item of a list separated by commas, without surrounding blanks; false at the end.
static bool next_item(const char **list, const char **item, size_t *len)
{
    const char *p = *list;
    if (!p)
        return false;
    p += strspn(p, " \t,");
    *item = p;
    *len = strcspn(p, ",");
    *list = p + *len;
    while (*len && strchr(" \t", p[*len - 1]))
        (*len)--;
    return *p;
}

// "gzip;q=0" means that gzip is not accepted.
static bool is_refused(const char *item, size_t len)
{
    const char *end = item + len;
    const char *q = memchr(item, ';', len);
    if (!q)
        return false;
    q += 1 + strspn(q + 1, " \t");
    return q + 2 < end && !strncasecmp(q, "q=", 2) && strtod(q + 2, NULL) <= 0;
}

bool page_header_names(const char *header, const char *word)
{
    const char *item;
    size_t len;
    while (next_item(&header, &item, &len))
        if (strlen(word) <= len && !strncasecmp(item, word, strlen(word)) &&
            strcspn(item, "; \t,") == strlen(word))
            return !is_refused(item, len);
    return false;
}

// Returns whether If-None-Match contains the tag: the caller has the current content.
static bool holds_tag(const char *header, const char *tag)
{
    const char *item;
    size_t len, tag_len = strlen(tag);
    while (next_item(&header, &item, &len)) {
        if (len > 2 && !strncmp(item, "W/", 2))
            item += 2, len -= 2;
        if (len == tag_len && !memcmp(item, tag, len))
            return true;
    }
    return false;
}

static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return !strncmp(path, folder, len) && (!path[len] || path[len] == '/');
}

bool page_shows(const char *method, const char *path, const char *accept)
{
    return (!strcmp(method, "GET") || !strcmp(method, "HEAD")) && !is_below(path, "/api") &&
           !is_below(path, "/proxy") && !is_below(path, "/assets") &&
           page_header_names(accept, "text/html");
}

static const char *media_type(const char *name)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".json", "application/json"},
        {".woff2", "font/woff2"},
    };
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && i < sizeof types / sizeof *types; i++)
        if (!strcmp(end, types[i][0]))
            return types[i][1];
    return "application/octet-stream";
}

static void add_headers(struct view *v, const char *name, const char *tag)
{
    v->content_type = media_type(name);
    view_add_header(v, "Content-Security-Policy", policy);
    view_add_header(v, "Referrer-Policy", "no-referrer");
    view_add_header(v, "Cross-Origin-Opener-Policy", "same-origin");
    view_add_header(v, "ETag", arena_printf(&v->rq->arena, "W/%s", tag));
    view_add_header(v, "Vary", "Accept-Encoding");
}

// --- built-in files ------------------------------------------------------------------------------

static const struct page_file *find_file(const struct page *page, const char *name)
{
    for (const struct page_file *f = page->files; f && f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

// For clients that do not accept gzip; all browsers do.
static int unpack(const struct page_file *f, struct buf *out, struct error *e)
{
    unsigned char part[16 * 1024];
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)f->data, .avail_in = (uInt)f->len};
    if (inflateInit2(&z, GZIP) != Z_OK)
        return error_set(e, ERR_NO_MEMORY, "no memory for %s", f->name);
    int rc;
    do {
        z.next_out = part;
        z.avail_out = sizeof part;
        rc = inflate(&z, Z_NO_FLUSH);
        buf_append(out, part, sizeof part - z.avail_out);
    } while (rc == Z_OK);
    inflateEnd(&z);
    return rc == Z_STREAM_END ? 0 : error_set(e, ERR_CORRUPT, "%s was not built whole", f->name);
}

static int answer_built(struct view *v, const struct page_file *f, struct error *e)
{
    bool asset = !strncmp(f->name, ASSETS, strlen(ASSETS)); // its name changes with its content
    struct request *rq = v->rq;
    const char *tag = arena_printf(&rq->arena, "\"%s\"", f->tag);
    add_headers(v, f->name, tag);
    v->cache = asset ? "public, max-age=31536000, immutable" : "no-cache";
    if (holds_tag(rq->header(rq, "If-None-Match"), tag)) {
        rq->status = 304;
        return 0;
    }
    if (!page_header_names(rq->header(rq, "Accept-Encoding"), "gzip"))
        return unpack(f, &rq->answer, e);
    view_add_header(v, "Content-Encoding", "gzip");
    v->text = (const char *)f->data;
    v->text_len = f->len;
    return 0;
}

// --- files of a folder ---------------------------------------------------------------------------

int page_check(const struct page *page, struct error *e)
{
    struct stat st;
    if (page->dir && (stat(page->dir, &st) || !S_ISDIR(st.st_mode)))
        return error_set(e, ERR_NOT_FOUND,
                         "--webui-dir: there is no folder %s; npm run build in webui/ makes "
                         "webui/dist",
                         page->dir);
    return 0;
}

static bool is_file_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

// Follows no link below the folder, so the file is inside it.
static int open_below(const char *dir, const char *name)
{
    int folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && !strncmp(name, ASSETS, strlen(ASSETS))) {
        int assets = openat(folder, "assets", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(folder);
        folder = assets;
        name += strlen(ASSETS);
    }
    if (folder < 0)
        return -1;
    int fd = is_file_name(name)
                 ? openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : -1;
    close(folder);
    return fd;
}

static bool read_whole(int fd, struct buf *out)
{
    char part[16 * 1024];
    struct stat st;
    ssize_t n;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
        return false;
    while ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            buf_append(out, part, (size_t)n);
    return n == 0;
}

static int answer_from_folder(struct view *v, const char *name, struct error *e)
{
    struct request *rq = v->rq;
    const char *dir = v->service->page.dir;
    int fd = open_below(dir, name);
    bool whole = fd >= 0 && read_whole(fd, &rq->answer);
    if (fd >= 0)
        close(fd);
    if (!whole) {
        buf_reset(&rq->answer);
        return error_set(e, ERR_NOT_FOUND, "%s has no file %.128s that can be shown", dir, name);
    }
    char hash[SHA256_HEX];
    sha256_hex(buf_str(&rq->answer), rq->answer.len, hash);
    const char *tag = arena_printf(&rq->arena, "\"%s\"", hash);
    add_headers(v, name, tag);
    v->cache = "no-cache"; // the file may be edited at any time
    if (holds_tag(rq->header(rq, "If-None-Match"), tag)) {
        buf_reset(&rq->answer);
        rq->status = 304;
    }
    return 0;
}

// --- the views -----------------------------------------------------------------------------------

static int answer_no_page(struct view *v)
{
    v->content_type = "text/html; charset=utf-8";
    v->text = no_page;
    view_add_header(v, "Content-Security-Policy", no_page_policy);
    view_add_header(v, "Referrer-Policy", "no-referrer");
    return 0;
}

int view_page(struct view *v, struct error *e)
{
    const struct page *page = &v->service->page;
    if (page->dir)
        return answer_from_folder(v, "index.html", e);
    const struct page_file *index = find_file(page, "index.html");
    return index ? answer_built(v, index, e) : answer_no_page(v);
}

int view_page_asset(struct view *v, struct error *e)
{
    const struct page *page = &v->service->page;
    const char *name = arena_printf(&v->rq->arena, ASSETS "%s", v->rq->params[0]);
    if (page->dir)
        return answer_from_folder(v, name, e);
    const struct page_file *f = find_file(page, name);
    return f ? answer_built(v, f, e)
             : error_set(
                   e, ERR_NOT_FOUND,
                   "file '%.128s' of the page not found; load the page anew, if this master was "
                   "replaced by a newer one",
                   name);
}
