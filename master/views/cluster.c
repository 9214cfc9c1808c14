// The cluster as a whole: who this is, what it was started with, the page at /.

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/audit.h"
#include "master/views/views.h"

int store_failed(struct error *e)
{
    return error_set(e, ERR_INTERNAL, "the store cannot be read; the master's log says more");
}

int view_commit(struct view *v, struct db_batch *b, struct error *e)
{
    if (audit_wants(v->rq, 200))
        audit_add(b, v->rq, 200, clock_wall_us());
    return db_commit_wait(v->service->db, b, e);
}

void write_time(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[CLOCK_RFC3339_MAX];
    jw_kv_string(w, key, wall_us ? clock_format(wall_us, text) : NULL);
}

int write_one(struct view *v, const char *key, const char *sql, list_writer *write, struct error *e)
{
    const struct db_value id = {.type = 'i', .i = v->rq->id};
    struct db_rows *rows = db_query_sql(v->db, sql, &id, 1);
    int found = db_next(rows);
    if (found == 1) {
        jw_key(&v->w, key);
        write(&v->w, rows);
    }
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_set(e, ERR_NOT_FOUND, "there is no %s %lld", key, (long long)id.i)
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

// Of what stands between <style> and </style>; a test tells when it no longer fits.
#define PAGE_STYLE_HASH "sha256-+uEkvFxmUPTGe6fTlNN3jWo3t1bvzWie1DSrXoEXgAo="

static const char page[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Muster</title>\n"
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;"
    "padding:0 1rem;color:#222;background:#fff}pre{background:#f3f3f3;padding:.75rem;"
    "overflow:auto}a{color:#0a58ca}@media(prefers-color-scheme:dark){body{color:#ddd;"
    "background:#181818}pre{background:#262626}a{color:#7db3ff}}</style>\n"
    "<h1>Muster</h1>\n"
    "<p>This is the muster-master, version " MUSTER_VERSION ": it runs training experiments on the "
    "slots of this cluster. There is no graphical page in this version; the command line and the "
    "API show everything.</p>\n"
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

int view_page(struct view *v, struct error *e)
{
    (void)e;
    v->content_type = "text/html; charset=utf-8";
    v->policy = "default-src 'none'; style-src '" PAGE_STYLE_HASH "'; base-uri 'none'; "
                "form-action 'none'; frame-ancestors 'none'";
    v->text = page;
    return 0;
}
