// Matches a path with the route table: a tree with one level per part of a path.

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "master/http/routing/routes.h"

enum { PARTS_MAX = 12 };

struct route_node {
    const char *part; // of the route's path; not terminated
    size_t len;
    bool is_param;
    struct route_node *next, *children;
    const struct route **routes; // in the table's order, one per method
    size_t route_count;
};

struct routes {
    struct arena arena;
    struct route_node root;
};

static struct route_node *child_of(struct arena *arena, struct route_node *parent, const char *part,
                                   size_t len)
{
    bool is_param = part[0] == '{';
    struct route_node **link = &parent->children;
    for (; *link; link = &(*link)->next) {
        struct route_node *n = *link;
        if (n->is_param ? is_param : n->len == len && !memcmp(n->part, part, len))
            return n;
        if (n->is_param) // it stays the last of its level
            break;
    }
    struct route_node *n = arena_alloc(arena, sizeof *n);
    *n = (struct route_node){.part = part, .len = len, .is_param = is_param, .next = *link};
    *link = n;
    return n;
}

static void add_route(struct routes *r, const struct route *route)
{
    struct route_node *n = &r->root;
    const char *part = route->path + 1;
    while (*part) {
        size_t len = strcspn(part, "/");
        n = child_of(&r->arena, n, part, len);
        part += len;
        part += *part == '/';
    }
    const struct route **more = arena_alloc(&r->arena, (n->route_count + 1) * sizeof *more);
    for (size_t i = 0; i < n->route_count; i++) {
        must(strcmp(n->routes[i]->method, route->method));
        more[i] = n->routes[i];
    }
    more[n->route_count++] = route;
    n->routes = more;
}

struct routes *routes_new(const struct route *table, size_t count)
{
    struct routes *r = xcalloc(1, sizeof *r);
    for (size_t i = 0; i < count; i++)
        add_route(r, &table[i]);
    return r;
}

void routes_free(struct routes *r)
{
    if (!r)
        return;
    arena_free(&r->arena);
    free(r);
}

// Splits "/a/b" into parts; -1: there are more than in any route.
static int split(char *path, char *parts[PARTS_MAX])
{
    int n = 0;
    if (*path == '/')
        path++;
    while (*path) {
        if (n == PARTS_MAX)
            return -1;
        parts[n++] = path;
        path += strcspn(path, "/");
        if (*path)
            *path++ = '\0';
    }
    return n;
}

// Finds the node of parts[at..count) and collects params on the way. Tries {..} if the rest does
// not match below a literal part ("/trials/metrics" is also "/trials/{trialId}").
static const struct route_node *walk(const struct route_node *n, char *const *parts, int at,
                                     int count, char **params, int param_count)
{
    if (at == count)
        return n->route_count ? n : NULL;
    for (const struct route_node *c = n->children; c; c = c->next) {
        if (c->is_param) {
            if (!*parts[at] || param_count == REQUEST_PARAMS_MAX)
                continue;
            params[param_count] = parts[at];
        } else if (strncmp(c->part, parts[at], c->len) || parts[at][c->len]) {
            continue;
        }
        const struct route_node *found =
            walk(c, parts, at + 1, count, params, param_count + c->is_param);
        if (found)
            return found;
        if (c->is_param)
            params[param_count] = NULL;
    }
    return NULL;
}

static const char *allowed_methods(const struct route_node *n, struct arena *arena)
{
    struct buf text;
    buf_init(&text, 256);
    for (size_t i = 0; i < n->route_count; i++) {
        const char *method = n->routes[i]->method;
        buf_printf(&text, "%s, ", method);
        if (!strcmp(method, "GET"))
            buf_puts(&text, "HEAD, ");
    }
    buf_puts(&text, "OPTIONS");
    const char *copy = arena_strdup(arena, buf_str(&text));
    buf_free(&text);
    return copy;
}

static int decode_params(char **params, struct route_match *out, struct error *e)
{
    for (int i = 0; i < REQUEST_PARAMS_MAX && params[i]; i++) {
        if (query_decode(params[i], false))
            return error_set(e, ERR_INVALID,
                             "the path: a broken %%-escape, or no UTF-8 text, in \"%.64s\"",
                             params[i]);
        out->params[i] = params[i];
    }
    return 0;
}

int routes_match(const struct routes *r, struct arena *arena, const char *method, char *path,
                 struct route_match *out, struct error *e)
{
    char *parts[PARTS_MAX], *params[REQUEST_PARAMS_MAX] = {0};
    char *shown = arena_strndup(arena, path, 128); // split() modifies the path
    *out = (struct route_match){0};

    int count = split(path, parts);
    const struct route_node *n = count < 0 ? NULL : walk(&r->root, parts, 0, count, params, 0);
    if (!n)
        return error_set(e, ERR_NOT_FOUND,
                         "path '%s' not found; /api/v1/openapi.json lists all calls", shown);
    const char *wanted = strcmp(method, "HEAD") ? method : "GET";
    for (size_t i = 0; i < n->route_count; i++)
        if (!strcmp(n->routes[i]->method, wanted)) {
            int rc = decode_params(params, out, e);
            out->route = rc ? NULL : n->routes[i];
            return rc;
        }
    out->allow = allowed_methods(n, arena);
    return error_set(e, ERR_METHOD, "%s does not answer %.16s; it answers %s", shown, method,
                     out->allow);
}
