#include "api/walk.h"

#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int failed(const FTSENT *at, struct error *e)
{
    int code = at->fts_errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    return error_set_errno(e, code, at->fts_errno, "cannot read %s", at->fts_path);
}

static int visit_one(FTS *tree, FTSENT *at, size_t prefix, walk_visit *visit, void *ctx,
                     struct error *e)
{
    const struct stat *st = at->fts_statp;
    const char *relative = at->fts_path + prefix;
    struct walk_entry entry = {.path = at->fts_path,
                               .relative = relative + strspn(relative, "/"),
                               .is_folder = at->fts_info == FTS_D,
                               .mode = st->st_mode & 0777,
                               .size = at->fts_info == FTS_F ? st->st_size : 0,
                               .mtime = st->st_mtime};
    if (at->fts_level > LIMIT_JSON_DEPTH)
        return error_set(e, ERR_TOO_LARGE, "%s: folders are nested more than %d deep", at->fts_path,
                         LIMIT_JSON_DEPTH);
    int rc = visit(ctx, &entry, e);
    if (rc == WALK_SKIP && entry.is_folder)
        fts_set(tree, at, FTS_SKIP);
    return rc < 0 ? rc : 0;
}

static bool wanted(const FTSENT *at, bool links)
{
    bool link = at->fts_info == FTS_SL || at->fts_info == FTS_SLNONE;
    return at->fts_level > 0 && (at->fts_info == FTS_D || (links ? link : at->fts_info == FTS_F));
}

static int walk(const char *folder, bool links, walk_visit *visit, void *ctx, struct error *e)
{
    char *roots[] = {(char *)folder, NULL};
    int rc = 0;
    FTSENT *at;
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    if (!tree)
        return error_set_errno(e, ERR_IO, errno, "cannot read %s", folder);
    while (!rc && (at = fts_read(tree))) {
        if (at->fts_info == FTS_ERR || at->fts_info == FTS_DNR || at->fts_info == FTS_NS)
            rc = failed(at, e);
        else if (at->fts_level == FTS_ROOTLEVEL && at->fts_info == FTS_F)
            rc = error_set(e, ERR_INVALID, "%s is no folder", folder);
        else if (wanted(at, links))
            rc = visit_one(tree, at, strlen(folder), visit, ctx, e);
    }
    fts_close(tree);
    return rc;
}

int walk_folder(const char *folder, walk_visit *visit, void *ctx, struct error *e)
{
    return walk(folder, false, visit, ctx, e);
}

int walk_links(const char *folder, walk_visit *visit, void *ctx, struct error *e)
{
    return walk(folder, true, visit, ctx, e);
}
