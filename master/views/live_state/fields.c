// Small answers: a few fields, the outcome of a verb on many experiments, a preview of a
// submission.
#include "api/wire.h"
#include "base/clock.h"
#include "master/views/live_state/live_state.h"

int render_fields(struct view *v, struct error *e)
{
    struct json_writer *w = &v->w;
    (void)e;
    jw_object(w);
    for (const struct answer_field *field = v->rq->result; field && field->key; field++) {
        jw_key(w, field->key);
        switch (field->type) {
        case FIELD_INT:
            jw_int(w, field->integer);
            break;
        case FIELD_DOUBLE:
            jw_double(w, field->real);
            break;
        case FIELD_BOOL:
            jw_bool(w, field->boolean);
            break;
        case FIELD_STRING:
            jw_string(w, field->text);
            break;
        case FIELD_RAW:
            jw_raw(w, field->text);
            break;
        case FIELD_JSON:
            jw_json(w, field->json);
            break;
        }
    }
    jw_object_end(w);
    return 0;
}

int render_action_results(struct view *v, struct error *e)
{
    const struct action_results *results = v->rq->result;
    struct json_writer *w = &v->w;
    (void)e;
    jw_object(w);
    jw_key(w, "results");
    jw_array(w);
    for (size_t i = 0; i < results->count; i++) {
        jw_object(w);
        jw_kv_int(w, "id", results->items[i].id);
        jw_kv_string(w, "error", results->items[i].error);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
    return 0;
}

int render_preview(struct view *v, struct error *e)
{
    const struct experiment_preview *x = v->rq->result;
    struct json_writer *w = &v->w;
    char time[CLOCK_RFC3339_MAX];
    (void)e;
    jw_object(w);
    jw_key(w, "experiment");
    jw_object(w);
    jw_kv_int(w, "id", 0);
    jw_kv_string(w, "jobId", "");
    jw_kv_string(w, "name", jget_string(x->config, "name", ""));
    jw_kv_string(w, "originalConfig", x->config_text);
    jw_kv_int(w, "projectId", x->project_id);
    jw_kv_int(w, "projectOwnerId", x->user_id);
    jw_kv_string(w, "searcherType", jget_string(jget(x->config, "searcher"), "name", ""));
    jw_kv_string(w, "startTime", clock_format(x->submitted_at, time));
    jw_kv_string(w, "state", "STATE_UNSPECIFIED");
    jw_kv_string(w, "username", v->rq->principal.username);
    jw_kv_bool(w, "archived", false);
    jw_kv_int(w, "numTrials", 0);
    jw_key(w, "config");
    jw_json(w, x->config);
    jw_object_end(w);
    jw_key(w, "config");
    jw_json(w, x->config);
    request_write_warning(v->rq, w);
    jw_object_end(w);
    return 0;
}

int render_search_preview(struct view *v, struct error *e)
{
    const char *key;
    json_t *value;
    (void)e;
    jw_object(&v->w);
    json_object_foreach((json_t *)v->rq->result, key, value)
    {
        jw_key(&v->w, key);
        jw_json(&v->w, value);
    }
    request_write_warning(v->rq, &v->w);
    jw_object_end(&v->w);
    return 0;
}

void write_page(struct json_writer *w, const struct page_snapshot *page)
{
    wire_write_pagination(w, page->offset, page->limit, page->shown, page->total);
}
