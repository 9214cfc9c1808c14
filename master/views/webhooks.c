// Webhooks as JSON, from the results of core handlers (master/notify/webhooks.h).
#include "master/notify/webhooks.h"

#include "api/wire.h"
#include "master/views/views.h"

static void write_webhook(struct view *v, const struct webhook_snapshot *hook)
{
    struct json_writer *w = &v->w;
    jw_object(w);
    jw_kv_int(w, "id", hook->id);
    jw_kv_string(w, "name", hook->name);
    jw_kv_string(w, "url", hook->url);
    jw_kv_string(w, "webhookType", hook->slack ? "WEBHOOK_TYPE_SLACK" : "WEBHOOK_TYPE_DEFAULT");
    jw_kv_string(w, "mode", hook->specific ? "WEBHOOK_MODE_SPECIFIC" : "WEBHOOK_MODE_WORKSPACE");
    if (hook->workspace)
        jw_kv_int(w, "workspaceId", hook->workspace);
    jw_key(w, "triggers");
    jw_array(w);
    for (size_t i = 0; i < hook->trigger_count; i++) {
        const struct webhook_trigger_snapshot *t = &hook->triggers[i];
        jw_object(w);
        jw_kv_int(w, "id", t->id);
        jw_kv_string(w, "triggerType",
                     arena_printf(&v->rq->arena, "TRIGGER_TYPE_%s", trigger_words[t->kind]));
        jw_key(w, "condition");
        jw_json(w, t->condition);
        jw_kv_int(w, "webhookId", hook->id);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

int render_webhook(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "webhook");
    write_webhook(v, v->rq->result);
    jw_object_end(&v->w);
    return 0;
}

int render_webhooks(struct view *v, struct error *e)
{
    const struct webhooks_snapshot *all = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "webhooks");
    jw_array(&v->w);
    for (int64_t i = 0; i < all->shown; i++)
        write_webhook(v, &all->items[i]);
    jw_array_end(&v->w);
    wire_write_pagination(&v->w, all->offset, all->limit, all->shown, all->total);
    jw_object_end(&v->w);
    return 0;
}
