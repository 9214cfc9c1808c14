// The import that POST /imports began or continues.
#include "base/text/json.h"
#include "master/views/views.h"

int render_import(struct view *v, struct error *e)
{
    struct db_rows *rows =
        DB_QUERY(v->db, IMPORT_BY_CLUSTER, jget_string(v->rq->body, "cluster", ""));
    int found = db_next(rows);
    jw_object(&v->w);
    jw_key(&v->w, "import");
    jw_object(&v->w);
    jw_kv_int(&v->w, "id", found == 1 ? DB_GET(rows, IMPORT_BY_CLUSTER, id) : 0);
    jw_kv_bool(&v->w, "keepsIds",
               found == 1 && DB_GET(rows, IMPORT_BY_CLUSTER, last_experiment) > 0);
    jw_kv_int(&v->w, "lastExperiment",
              found == 1 ? DB_GET(rows, IMPORT_BY_CLUSTER, last_experiment) : 0);
    jw_object_end(&v->w);
    jw_object_end(&v->w);
    db_rows_close(rows);
    return found == 1 ? 0 : store_failed(e);
}
