// The cluster as a whole: who this is, what it was started with.

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/common/audit.h"
#include "master/notify/hub.h"
#include "master/views/views.h"

int store_failed(struct error *e)
{
    return error_set(e, ERR_INTERNAL, "the store cannot be read; the master's log says more");
}

int view_commit(struct view *v, struct db_batch *b, struct error *e)
{
    bool audited = audit_wants(v->rq, 200);
    if (audited)
        audit_add(b, v->rq, 200, clock_wall_us());
    int rc = db_commit_wait(v->service->db, b, e);
    if (!rc && audited)
        hub_add_audit_change(v->service->hub, v->rq->path);
    return rc;
}

void write_time(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[CLOCK_RFC3339_MAX];
    jw_kv_string(w, key, wall_us ? clock_format(wall_us, text) : NULL);
}

int write_one(struct view *v, const char *key, struct db_rows *rows, list_writer *write,
              struct error *e)
{
    int found = db_next(rows);
    if (found == 1) {
        jw_key(&v->w, key);
        write(&v->w, rows);
    }
    db_rows_close(rows);
    return found < 0 ? store_failed(e)
           : found == 0
               ? error_set(e, ERR_NOT_FOUND, "there is no %s %lld", key, (long long)v->rq->id)
               : 0;
}

int view_info(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    jw_kv_string(&v->w, "version", MUSTER_VERSION);
    jw_kv_string(&v->w, "master_id", v->service->master_id);
    jw_kv_string(&v->w, "cluster_id", v->service->cluster_id);
    jw_kv_string(&v->w, "cluster_name", v->service->cluster_name);
    jw_object_end(&v->w);
    return 0;
}

int view_openapi(struct view *v, struct error *e)
{
    (void)e;
    v->text = v->service->openapi;
    return 0;
}

int view_master(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    jw_kv_string(&v->w, "version", MUSTER_VERSION);
    jw_kv_string(&v->w, "masterId", v->service->master_id);
    jw_kv_string(&v->w, "clusterId", v->service->cluster_id);
    jw_kv_string(&v->w, "clusterName", v->service->cluster_name);
    jw_kv_bool(&v->w, "telemetryEnabled", false);
    jw_kv_raw(&v->w, "ssoProviders", "[]");
    jw_kv_string(&v->w, "externalLoginUri", "");
    jw_kv_string(&v->w, "externalLogoutUri", "");
    jw_kv_string(&v->w, "branding", "muster");
    jw_kv_bool(&v->w, "rbacEnabled", false);
    jw_kv_string(&v->w, "product", "PRODUCT_UNSPECIFIED");
    jw_kv_bool(&v->w, "userManagementEnabled", true);
    jw_kv_raw(&v->w, "featureSwitches", "[]");
    jw_kv_bool(&v->w, "strictJobQueueControl", false);
    jw_kv_bool(&v->w, "hasCustomLogo", false);
    write_cluster_message(v, false);
    jw_object_end(&v->w);
    return 0;
}
