// POST webhooks/{id}/test: sends a test event. The core creates and changes webhooks
// (master/notify/webhooks.c).

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "master/notify/webhook_delivery.h"
#include "master/registry/registry.h"
#include "master/views/workspace_access.h"

struct webhook_target {
    const char *url;
    bool anywhere, slack;
};

static int find_webhook(struct view *v, struct webhook_target *out, struct error *e)
{
    int64_t id, workspace = 0;
    struct workspace_access s = {.role = v->rq->principal.admin ? ROLE_CLUSTER_ADMIN : ROLE_NONE};
    int rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, WEBHOOK_TARGET, id);
    int found = db_next(rows);
    if (found == 1) {
        out->url = arena_strdup(&v->rq->arena, DB_GET(rows, WEBHOOK_TARGET, url));
        out->anywhere = DB_GET(rows, WEBHOOK_TARGET, by_admin);
        out->slack = !strcmp(DB_GET(rows, WEBHOOK_TARGET, type), "SLACK");
        workspace = DB_GET(rows, WEBHOOK_TARGET, workspace_id);
    }
    db_rows_close(rows);
    if (found < 0)
        return store_failed(e);
    if (found == 1 && workspace)
        workspace_access_find(v, workspace, &s, NULL);
    if (found == 1 && role_may(s.role, ACT_MANAGE))
        return 0;
    return error_not_found(e, "webhook", "%lld", (long long)id);
}

static char *test_payload(bool slack)
{
    char event[UUID_TEXT];
    uuid_make(event);
    if (slack)
        return xasprintf("{\"blocks\":[{\"type\":\"section\",\"text\":{\"type\":\"plain_text\","
                         "\"text\":\"A test of Muster\"}}]}");
    return xasprintf("{\"event_id\":\"%s\",\"event_type\":\"EXPERIMENT_STATE_CHANGE\","
                     "\"timestamp\":%lld,\"condition\":{\"state\":\"COMPLETED\"},"
                     "\"event_data\":{\"data\":\"test\"}}",
                     event, (long long)(clock_wall_us() / 1000000));
}

// The call waits for the receiver, so only one test runs at a time and leaves the other worker
// free.
int webhook_test(struct view *v, struct error *e)
{
    struct webhook_target target;
    int rc = find_webhook(v, &target, e);
    if (rc)
        return rc;
    if (!v->service->delivery)
        return error_set(e, ERR_UNAVAILABLE, "this master sends no webhooks");
    if (atomic_exchange(&v->service->testing, true))
        return error_set(e, ERR_BUSY, "another webhook is being tested; try again in a moment");
    char *text = test_payload(target.slack);
    rc = delivery_try(v->service->delivery, target.url, target.anywhere, text, e);
    free(text);
    atomic_store(&v->service->testing, false);
    if (rc) // the caller gave the address and can correct it
        return error_set(e, ERR_INVALID, "the webhook cannot be reached: %s",
                         arena_strdup(&v->rq->arena, e->text));
    jw_object(&v->w);
    jw_kv_bool(&v->w, "completed", true);
    jw_object_end(&v->w);
    return 0;
}
