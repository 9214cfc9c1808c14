#include "master/core/templates.h"

#include <stdio.h>
#include <string.h>

#include "api/template.h"
#include "master/sight.h"

int template_merge(struct db_reader *db, const struct principal *who, const char *name,
                   json_t *config, struct error *e)
{
    struct db_rows *rows = db_query(db, STMT_TEMPLATE_BY_NAME, "s", name);
    bool found = db_next(rows) == 1;
    json_t *template = NULL;
    char workspace[24];
    if (found) {
        snprintf(workspace, sizeof workspace, "%lld", (long long)db_int(rows, 2));
        template = json_loads(db_text(rows, 1), 0, NULL);
    }
    db_rows_close(rows);
    int rc = 0;
    if (!template || sight_check(db, who, THING_WORKSPACE, workspace, NULL))
        rc = error_set(e, ERR_NOT_FOUND, "template: there is no template \"%.128s\"", name);
    else
        template_apply(config, template);
    json_decref(template);
    return rc;
}
