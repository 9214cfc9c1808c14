// The master itself: its identity, its configuration, the message to all users.

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/common/free_space.h"
#include "master/views/views.h"

// `version` is compared by Determined's clients with their own.
static void write_versions(struct view *v)
{
    jw_kv_string(&v->w, "version", v->service->api_version);
    jw_kv_string(&v->w, "musterVersion", MUSTER_VERSION);
}

int view_info(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    write_versions(v);
    jw_kv_string(&v->w, "master_id", v->service->master_id);
    jw_kv_string(&v->w, "cluster_id", v->service->cluster_id);
    jw_kv_string(&v->w, "cluster_name", v->service->cluster_name);
    jw_object_end(&v->w);
    return 0;
}

// For probes. A store that cannot be read is a 500; a master that stops is a 503.
int view_health(struct view *v, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, CLUSTER_MESSAGE);
    int found = db_next(rows);
    db_rows_close(rows);
    if (found < 0)
        return store_failed(e);
    jw_object(&v->w);
    jw_kv_string(&v->w, "status", "up");
    jw_kv_string(&v->w, "database", "up");
    jw_key(&v->w, "resource_managers");
    jw_array(&v->w);
    jw_object(&v->w);
    jw_kv_string(&v->w, "cluster_name", v->service->cluster_name);
    jw_kv_string(&v->w, "status", "up");
    jw_object_end(&v->w);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}

int view_openapi(struct view *v, struct error *e)
{
    (void)e;
    v->text = v->service->openapi;
    return 0;
}

// --- the configuration ---------------------------------------------------------------------------

static json_t *config_now(struct view *v)
{
    json_t *config = json_loads(v->service->config, 0, NULL);
    json_t *log = json_pack("{s:s, s:b}", "level", log_level_name(log_get_level()), "color", 0);
    must(config && log && !json_object_set_new(config, "log", log));
    return config;
}

int view_master_config(struct view *v, struct error *e)
{
    (void)e;
    json_t *config = config_now(v);
    jw_object(&v->w);
    jw_key(&v->w, "config");
    jw_json(&v->w, config);
    jw_object_end(&v->w);
    json_decref(config);
    return 0;
}

// --- the message to all users --------------------------------------------------------------------

// In whole seconds: Determined's commands read the times of the message in this form alone.
static void write_second(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[CLOCK_RFC3339_MAX];
    if (!wall_us) {
        jw_kv_string(w, key, NULL);
        return;
    }
    memcpy(strchr(clock_format(wall_us, text), '.'), "Z", 2);
    jw_kv_string(w, key, text);
}

// Writes a warning if a disk is nearly full, and returns whether one is.
static bool write_disk_warning(struct view *v)
{
    const struct free_space *free_space = v->service->free_space;
    char text[FREE_SPACE_TEXT];
    enum free_space_place place =
        free_space_is_low(free_space, FREE_SPACE_DATA) ? FREE_SPACE_DATA : FREE_SPACE_CHECKPOINTS;
    if (!free_space_is_low(free_space, place))
        return false;
    int64_t since = free_space_low_since(free_space, place);
    jw_key(&v->w, "clusterMessage");
    jw_object(&v->w);
    jw_kv_string(&v->w, "message",
                 v->rq->principal.kind == PRINCIPAL_NONE
                     ? free_space_describe_public(place)
                     : free_space_describe(free_space, place, text));
    write_second(&v->w, "startTime", since);
    write_second(&v->w, "endTime", 0);
    write_second(&v->w, "createdTime", since);
    jw_object_end(&v->w);
    return true;
}

// `future`: also writes a message that does not show yet.
static void write_cluster_message(struct view *v, bool future)
{
    if (write_disk_warning(v))
        return; // the warning replaces the administrators' message
    struct db_rows *rows = DB_QUERY(v->db, CLUSTER_MESSAGE);
    int64_t now = clock_wall_us();
    bool there = db_next(rows) == 1 &&
                 (DB_IS_NULL(rows, CLUSTER_MESSAGE, end_at) ||
                  DB_GET(rows, CLUSTER_MESSAGE, end_at) > now) &&
                 (future || DB_GET(rows, CLUSTER_MESSAGE, start_at) <= now);
    jw_key(&v->w, "clusterMessage");
    if (!there) {
        jw_null(&v->w);
    } else {
        jw_object(&v->w);
        jw_kv_string(&v->w, "message", DB_GET(rows, CLUSTER_MESSAGE, message));
        write_second(&v->w, "startTime", DB_GET(rows, CLUSTER_MESSAGE, start_at));
        write_second(&v->w, "endTime", DB_GET(rows, CLUSTER_MESSAGE, end_at));
        write_second(&v->w, "createdTime", DB_GET(rows, CLUSTER_MESSAGE, created_at));
        jw_object_end(&v->w);
    }
    db_rows_close(rows);
}

// For administrators, who also see a message that does not show yet; view_master() has the message
// that everybody sees.
int view_cluster_message(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    write_cluster_message(v, true);
    jw_object_end(&v->w);
    return 0;
}

int view_master(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    write_versions(v);
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

int view_telemetry(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    jw_kv_bool(&v->w, "enabled", false);
    jw_kv_string(&v->w, "segmentKey", "");
    jw_object_end(&v->w);
    return 0;
}
