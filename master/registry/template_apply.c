#include "master/registry/template_apply.h"

#include <stdio.h>
#include <string.h>

#include "api/config/template.h"
#include "master/teams/authz.h"

// Prefers the visible template of the workspace; otherwise takes the only visible template of that
// name.
static int choose(struct db_reader *db, const struct principal *who, const char *name,
                  int64_t workspace, int64_t *id, struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, TEMPLATE_BY_NAME, name);
    size_t count = 0;
    bool here = false;
    while (!here && db_next(rows) == 1) {
        char home[24];
        snprintf(home, sizeof home, "%lld",
                 (long long)DB_GET(rows, TEMPLATE_BY_NAME, workspace_id));
        if (authz_check(db, who, AUTHZ_WORKSPACE, home, NULL))
            continue;
        here = DB_GET(rows, TEMPLATE_BY_NAME, workspace_id) == workspace;
        *id = DB_GET(rows, TEMPLATE_BY_NAME, id);
        count++;
    }
    db_rows_close(rows);
    if (!count)
        return error_set(e, ERR_NOT_FOUND, "template: template '%.128s' not found", name);
    if (count > 1 && !here)
        return error_set(e, ERR_CONFLICT,
                         "template: there are several of the name \"%.128s\", and none in the "
                         "workspace of this submission: submit to the workspace of the one that is "
                         "meant, or write what it says into the configuration",
                         name);
    return 0;
}

int template_merge(struct db_reader *db, const struct principal *who, const char *name,
                   int64_t workspace, json_t *config, struct error *e)
{
    int64_t id = 0;
    int rc = choose(db, who, name, workspace, &id, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(db, TEMPLATE_BY_ID, id);
    json_t *template =
        db_next(rows) == 1 ? json_loads(DB_GET(rows, TEMPLATE_BY_ID, config), 0, NULL) : NULL;
    db_rows_close(rows);
    if (template)
        template_apply(config, template);
    else
        rc = error_set(e, ERR_NOT_FOUND, "template: template '%.128s' not found", name);
    json_decref(template);
    return rc;
}
