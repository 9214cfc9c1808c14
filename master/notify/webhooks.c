// The requests that create, list and change webhooks, and their memory in the core.

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "base/text/pattern.h"
#include "master/notify/module.h"
#include "master/notify/webhook_internal.h"
#include "master/teams/teams.h"

enum { TRIGGERS_MAX = 32, URL_MAX = 2048, WEBHOOKS_MAX = 1000 };

const char *const trigger_words[TRIGGER_KINDS] = {
    [TRIGGER_STATE] = "EXPERIMENT_STATE_CHANGE",
    [TRIGGER_METRIC] = "METRIC_THRESHOLD_EXCEEDED",
    [TRIGGER_LINE] = "TASK_LOG",
    [TRIGGER_CUSTOM] = "CUSTOM",
    [TRIGGER_ALERT] = "CLUSTER_ALERT",
};

// --- the list ------------------------------------------------------------------------------------

static void trigger_free(struct webhook_trigger *t)
{
    json_decref(t->condition);
    free(t->fired.items);
}

static void hook_free(struct webhook *w)
{
    for (size_t i = 0; i < w->trigger_count; i++)
        trigger_free(&w->triggers[i]);
    free(w->triggers);
    free(w->name);
    free(w->url);
    free(w);
}

static void add_hook(struct webhooks *all, struct webhook *w)
{
    *all->end = w;
    all->end = &w->next;
    all->count++;
    for (size_t i = 0; i < w->trigger_count; i++)
        all->of_kind[w->triggers[i].kind]++;
}

static void remove_hook(struct webhooks *all, struct webhook *w)
{
    struct webhook **link = &all->first;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    if (all->end == &w->next)
        all->end = link;
    all->count--;
    for (size_t i = 0; i < w->trigger_count; i++)
        all->of_kind[w->triggers[i].kind]--;
    hook_free(w);
}

void webhooks_workspace_removed(struct core *c, const struct workspace *ws)
{
    for (struct webhook *w = c->webhooks->first, *next; w; w = next) {
        next = w->next;
        if (w->workspace == ws->id)
            remove_hook(c->webhooks, w);
    }
}

void webhooks_free(struct core *c)
{
    while (c->webhooks && c->webhooks->first)
        remove_hook(c->webhooks, c->webhooks->first);
    free(c->webhooks);
    c->webhooks = NULL;
}

// --- triggers ------------------------------------------------------------------------------------

static int set_state(struct webhook_trigger *t, const char *where, struct error *e)
{
    int rc =
        wire_parse(WIRE_EXPERIMENT_STATE, jget_string(t->condition, "state", ""), &t->state, e);
    return rc ? error_prefix(e, "%s.condition.state", where) : 0;
}

static int set_line(struct webhook_trigger *t, const char *where, struct error *e)
{
    char path[64];
    struct pattern *compiled;
    t->pattern = jget_string(t->condition, "regex", "");
    snprintf(path, sizeof path, "%s.condition.regex", where);
    if (!*t->pattern)
        return error_set(e, ERR_INVALID, "%s: missing; give the pattern that a log line must match",
                         path);
    int rc = pattern_compile(t->pattern, path, &compiled, e);
    pattern_free(compiled);
    t->unusable = rc;
    return rc;
}

static int set_metric(struct webhook_trigger *t, const char *where, struct error *e)
{
    const json_t *above = jget(t->condition, "above"), *below = jget(t->condition, "below");
    t->metric = jget_string(t->condition, "metric", "");
    t->above = above;
    t->limit = json_number_value(above ? above : below);
    if (*t->metric && json_is_number(above ? above : below) && !(above && below))
        return 0;
    return error_set(e, ERR_INVALID,
                     "%s.condition: name a validation metric and its limit: {\"metric\": "
                     "\"validation_loss\", \"below\": 0.1}, or \"above\"",
                     where);
}

// Reads the fields of the condition that the kind needs. ERR_INVALID.
static int trigger_set(struct webhook_trigger *t, const char *where, struct error *e)
{
    switch (t->kind) {
    case TRIGGER_STATE:
        return set_state(t, where, e);
    case TRIGGER_LINE:
        return set_line(t, where, e);
    case TRIGGER_METRIC:
        return set_metric(t, where, e);
    default:
        return 0;
    }
}

// Accepts "TRIGGER_TYPE_CUSTOM" and "CUSTOM"; false: neither.
static bool kind_of(const char *word, enum trigger_kind *out)
{
    static const char prefix[] = "TRIGGER_TYPE_";
    if (!strncmp(word, prefix, sizeof prefix - 1))
        word += sizeof prefix - 1;
    for (int i = 0; i < TRIGGER_KINDS; i++)
        if (!strcmp(trigger_words[i], word)) {
            *out = (enum trigger_kind)i;
            return true;
        }
    return false;
}

static int read_trigger(struct webhook *w, const json_t *body, size_t index, struct error *e)
{
    struct webhook_trigger *t = &w->triggers[w->trigger_count];
    const json_t *condition = jget(body, "condition");
    char where[32];
    snprintf(where, sizeof where, "triggers.%zu", index);
    if (!kind_of(jget_string(body, "triggerType", ""), &t->kind))
        return error_set(e, ERR_INVALID,
                         "%s.triggerType: not one of TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE, "
                         "_METRIC_THRESHOLD_EXCEEDED, _TASK_LOG, _CUSTOM, _CLUSTER_ALERT",
                         where);
    if (t->kind == TRIGGER_CUSTOM && !w->specific)
        return error_set(e, ERR_INVALID,
                         "%s.triggerType: TRIGGER_TYPE_CUSTOM needs mode WEBHOOK_MODE_SPECIFIC, "
                         "since experiments name the webhooks for their alerts",
                         where);
    if (t->kind == TRIGGER_ALERT && w->workspace)
        return error_set(e, ERR_INVALID,
                         "%s.triggerType: TRIGGER_TYPE_CLUSTER_ALERT needs a webhook of the "
                         "cluster; leave out workspaceId",
                         where);
    t->condition = json_is_object(condition) ? json_deep_copy(condition) : json_object();
    t->hook = w;
    w->trigger_count++;
    return trigger_set(t, where, e);
}

static int read_triggers(struct webhook *w, const json_t *list, struct error *e)
{
    size_t i, count = json_array_size(list);
    json_t *entry;
    if (!count || count > TRIGGERS_MAX)
        return error_set(e, ERR_INVALID, "triggers: not a list of 1 to %d triggers", TRIGGERS_MAX);
    w->triggers = xcalloc(count, sizeof *w->triggers);
    json_array_foreach(list, i, entry)
    {
        int rc = read_trigger(w, entry, i, e);
        if (rc)
            return rc;
    }
    return 0;
}

// --- from the store ------------------------------------------------------------------------------

static void load_hook(struct core *c, struct db_rows *rows)
{
    struct webhook *w = xcalloc(1, sizeof *w);
    w->id = DB_GET(rows, WEBHOOKS_ALL, id);
    w->name = xstrdup(DB_GET(rows, WEBHOOKS_ALL, name));
    w->url = xstrdup(DB_GET(rows, WEBHOOKS_ALL, url));
    w->slack = !strcmp(DB_GET(rows, WEBHOOKS_ALL, type), "SLACK");
    w->specific = !strcmp(DB_GET(rows, WEBHOOKS_ALL, mode), "SPECIFIC");
    w->workspace = DB_GET(rows, WEBHOOKS_ALL, workspace_id);
    w->triggers = xcalloc(TRIGGERS_MAX, sizeof *w->triggers);
    add_hook(c->webhooks, w);
}

static struct webhook *hook_of(struct core *c, int64_t id)
{
    struct webhook *w = c->webhooks->first;
    while (w && w->id != id)
        w = w->next;
    return w;
}

static void load_trigger(struct core *c, struct db_rows *rows)
{
    struct webhook *w = hook_of(c, DB_GET(rows, WEBHOOK_TRIGGERS_ALL, webhook_id));
    char name[600], quoted[ERROR_TEXT_MAX];
    must(w && w->trigger_count < TRIGGERS_MAX);
    struct webhook_trigger *t = &w->triggers[w->trigger_count];
    t->id = DB_GET(rows, WEBHOOK_TRIGGERS_ALL, id);
    t->condition = json_loads(DB_GET(rows, WEBHOOK_TRIGGERS_ALL, condition), 0, NULL);
    t->hook = w;
    struct error e = {0};
    bool known = kind_of(DB_GET(rows, WEBHOOK_TRIGGERS_ALL, type), &t->kind),
         usable = known && !trigger_set(t, "triggers", &e);
    if (known && !usable && t->kind == TRIGGER_LINE && *t->pattern) {
        log_warn("a webhook never fires: its pattern cannot be used; delete it and create it again",
                 "webhook=%s err=%s", log_quote(name, sizeof name, w->name),
                 log_quote(quoted, sizeof quoted, e.text));
        usable = true; // it stays in lists
    }
    if (usable) {
        w->trigger_count++;
        c->webhooks->of_kind[t->kind]++;
        return;
    }
    trigger_free(t); // from another version: it never fires
    memset(t, 0, sizeof *t);
}

static int load_rows(struct core *c, enum stmt query, void (*row)(struct core *, struct db_rows *),
                     struct error *e)
{
    struct db_rows *rows = db_query_all(c->reader, query);
    int more;
    while ((more = db_next(rows)) > 0)
        row(c, rows);
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : 0;
}

static void load_ids(struct core *c, struct db_rows *rows)
{
    c->webhooks->next_hook = DB_GET(rows, LAST_WEBHOOK_IDS, webhook_id) + 1;
    c->webhooks->next_trigger = DB_GET(rows, LAST_WEBHOOK_IDS, trigger_id) + 1;
}

int webhooks_load(struct core *c, struct error *e)
{
    c->webhooks = xcalloc(1, sizeof *c->webhooks);
    c->webhooks->end = &c->webhooks->first;
    int rc = load_rows(c, STMT_LAST_WEBHOOK_IDS, load_ids, e);
    if (!rc)
        rc = load_rows(c, STMT_WEBHOOKS_ALL, load_hook, e);
    return rc ? rc : load_rows(c, STMT_WEBHOOK_TRIGGERS_ALL, load_trigger, e);
}

// --- permissions ---------------------------------------------------------------------------------

// Webhooks of the cluster are visible to its administrators, those of a workspace to its managers:
// a URL can be a secret.
static enum role role_for(struct core *c, const struct request *rq, int64_t workspace)
{
    const struct workspace *ws = workspace ? core_workspace(c, workspace) : NULL;
    if (ws)
        return core_role(rq, ws);
    return rq->principal.admin && !workspace ? ROLE_CLUSTER_ADMIN : ROLE_NONE;
}

static bool may_manage(struct core *c, const struct request *rq, const struct webhook *w)
{
    return role_may(role_for(c, rq, w->workspace), ACT_MANAGE);
}

static int find_hook(struct core *c, struct request *rq, struct webhook **out, struct error *e)
{
    int64_t id;
    int rc = request_param_int(rq, 0, &id, e);
    if (rc)
        return rc;
    *out = hook_of(c, id);
    if (*out && may_manage(c, rq, *out))
        return 0;
    return error_not_found(e, "webhook", "%lld", (long long)id);
}

// --- results -------------------------------------------------------------------------------------

static void hook_snapshot(struct request *rq, const struct webhook *hook,
                          struct webhook_snapshot *out)
{
    struct webhook_trigger_snapshot *triggers =
        arena_alloc(&rq->arena, hook->trigger_count * sizeof *triggers);
    for (size_t i = 0; i < hook->trigger_count; i++) {
        const struct webhook_trigger *t = &hook->triggers[i];
        triggers[i] = (struct webhook_trigger_snapshot){
            .id = t->id, .kind = t->kind, .condition = request_copy_json(rq, t->condition)};
    }
    *out = (struct webhook_snapshot){.id = hook->id,
                                     .workspace = hook->workspace,
                                     .name = arena_strdup(&rq->arena, hook->name),
                                     .url = arena_strdup(&rq->arena, hook->url),
                                     .slack = hook->slack,
                                     .specific = hook->specific,
                                     .triggers = triggers,
                                     .trigger_count = hook->trigger_count};
}

static void set_result(struct request *rq, const struct webhook *hook)
{
    struct webhook_snapshot *result = arena_alloc(&rq->arena, sizeof *result);
    hook_snapshot(rq, hook, result);
    rq->result = result;
}

int core_webhook(struct core *c, struct request *rq, struct error *e)
{
    struct webhook *w;
    int rc = find_hook(c, rq, &w, e);
    if (!rc)
        set_result(rq, w);
    return rc;
}

int core_webhooks(struct core *c, struct request *rq, struct error *e)
{
    int64_t offset, limit;
    int rc = request_query_int(rq, "offset", 0, &offset, e);
    if (!rc)
        rc = request_query_int(rq, "limit", 0, &limit, e);
    if (rc)
        return rc;
    struct webhooks_snapshot *result = arena_alloc(&rq->arena, sizeof *result);
    struct webhook_snapshot *items =
        arena_alloc(&rq->arena, (c->webhooks->count + 1) * sizeof *items);
    *result = (struct webhooks_snapshot){
        .offset = offset < 0 ? 0 : offset, .limit = limit < 0 ? 0 : limit, .items = items};
    for (const struct webhook *hook = c->webhooks->first; hook && !rc; hook = hook->next) {
        if (!may_manage(c, rq, hook))
            continue;
        if (result->total++ >= offset && (limit <= 0 || result->shown < limit)) {
            hook_snapshot(rq, hook, &items[result->shown++]);
            rc = request_check_result(rq, e);
        }
    }
    rq->result = result;
    return rc;
}

// --- creating and changing -----------------------------------------------------------------------

// Only http and https: a webhook must not reach files or other protocols of this machine.
static int check_url(const char *url, struct error *e)
{
    char *scheme = NULL, *host = NULL;
    CURLU *parts = curl_url();
    must(parts);
    bool good = strlen(url) <= URL_MAX && !curl_url_set(parts, CURLUPART_URL, url, 0) &&
                !curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) &&
                !curl_url_get(parts, CURLUPART_HOST, &host, 0) && *host &&
                (!strcmp(scheme, "http") || !strcmp(scheme, "https"));
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parts);
    return good ? 0
                : error_set(e, ERR_INVALID,
                            "url: not an address like https://example.com/hook of at most %d bytes",
                            URL_MAX);
}

static int check_place(struct core *c, const struct request *rq, int64_t workspace, struct error *e)
{
    const struct workspace *ws = workspace ? core_workspace(c, workspace) : NULL;
    if (!workspace)
        return rq->principal.admin
                   ? 0
                   : error_set(
                         e, ERR_FORBIDDEN,
                         "only an administrator may create webhooks of the whole cluster; name "
                         "a workspace (workspaceId)");
    if (!ws || !role_may(core_role(rq, ws), ACT_SEE))
        return error_not_found(e, "workspace", "%lld", (long long)workspace);
    return role_check(core_role(rq, ws), ACT_MANAGE, ws->name, e);
}

static int read_hook(struct core *c, const json_t *body, struct webhook *w, struct error *e)
{
    const char *name = jget_string(body, "name", ""), *url = jget_string(body, "url", "");
    const char *type = jget_string(body, "webhookType", "WEBHOOK_TYPE_DEFAULT");
    const char *mode = jget_string(body, "mode", "WEBHOOK_MODE_WORKSPACE");
    if (strlen(name) > LIMIT_NAME)
        return error_set(e, ERR_TOO_LARGE, "name: more than %d bytes", LIMIT_NAME);
    w->slack = !strcmp(type, "WEBHOOK_TYPE_SLACK");
    w->specific = !strcmp(mode, "WEBHOOK_MODE_SPECIFIC");
    if (!w->slack && strcmp(type, "WEBHOOK_TYPE_DEFAULT"))
        return error_set(e, ERR_INVALID,
                         "webhookType: must be WEBHOOK_TYPE_DEFAULT or WEBHOOK_TYPE_SLACK");
    if (!w->specific && strcmp(mode, "WEBHOOK_MODE_WORKSPACE") &&
        strcmp(mode, "WEBHOOK_MODE_UNSPECIFIED"))
        return error_set(e, ERR_INVALID,
                         "mode: must be WEBHOOK_MODE_WORKSPACE or WEBHOOK_MODE_SPECIFIC");
    w->name = *name ? xstrdup(name) : xasprintf("webhook-%lld", (long long)c->webhooks->next_hook);
    w->url = xstrdup(url);
    w->workspace = jget_int(body, "workspaceId", 0);
    int rc = check_url(url, e);
    return rc ? rc : read_triggers(w, jget(body, "triggers"), e);
}

// Within the workspace only: names in other workspaces are not visible.
static const struct webhook *hook_named(const struct core *c, int64_t workspace, const char *name)
{
    const struct webhook *w = c->webhooks->first;
    while (w && (w->workspace != workspace || strcmp(w->name, name)))
        w = w->next;
    return w;
}

// Whether a repeated call finds its webhook already there.
static bool same_hook(const struct webhook *a, const struct webhook *b)
{
    bool same = !strcmp(a->url, b->url) && a->slack == b->slack && a->specific == b->specific &&
                a->workspace == b->workspace && a->trigger_count == b->trigger_count;
    for (size_t i = 0; same && i < a->trigger_count; i++)
        same = a->triggers[i].kind == b->triggers[i].kind &&
               json_equal(a->triggers[i].condition, b->triggers[i].condition);
    return same;
}

static void store_hook(struct core *c, struct request *rq, struct webhook *w)
{
    w->id = c->webhooks->next_hook++;
    STORE(c, WEBHOOK_INSERT, w->id, w->name, w->url, w->slack ? "SLACK" : "DEFAULT",
          w->specific ? "SPECIFIC" : "WORKSPACE", w->workspace, rq->principal.user_id, c->wall);
    for (size_t i = 0; i < w->trigger_count; i++) {
        struct webhook_trigger *t = &w->triggers[i];
        char *condition = json_text(t->condition);
        t->id = c->webhooks->next_trigger++;
        STORE(c, WEBHOOK_TRIGGER_INSERT, t->id, w->id, trigger_words[t->kind], condition);
        free(condition);
    }
}

int core_webhook_create(struct core *c, struct request *rq, struct error *e)
{
    struct webhook *w = xcalloc(1, sizeof *w);
    const struct webhook *other = NULL;
    int rc = read_hook(c, rq->body, w, e);
    if (!rc)
        rc = check_place(c, rq, w->workspace, e);
    if (!rc && (other = hook_named(c, w->workspace, w->name)) && !same_hook(other, w))
        rc = error_set(e, ERR_CONFLICT, "there already is a webhook \"%.128s\"", w->name);
    if (!rc && !other && c->webhooks->count >= WEBHOOKS_MAX)
        rc = error_set(e, ERR_CONFLICT, "there already are %d webhooks; delete one first",
                       WEBHOOKS_MAX);
    if (!rc && !other) {
        store_hook(c, rq, w);
        add_hook(c->webhooks, w);
        set_result(rq, w);
        return 0;
    }
    if (!rc)
        set_result(rq, other);
    hook_free(w);
    return rc;
}

int core_webhook_patch(struct core *c, struct request *rq, struct error *e)
{
    struct webhook *w;
    const char *url = jget_string(rq->body, "url", NULL);
    int rc = find_hook(c, rq, &w, e);
    if (!rc && !url)
        rc = error_set(e, ERR_INVALID, "url: missing; no other field of a webhook can be changed");
    if (!rc)
        rc = check_url(url, e);
    if (rc)
        return rc;
    free(w->url);
    w->url = xstrdup(url);
    STORE(c, WEBHOOK_SET_URL, url, rq->principal.user_id, w->id);
    set_result(rq, w);
    return 0;
}

int core_webhook_delete(struct core *c, struct request *rq, struct error *e)
{
    struct webhook *w;
    int rc = find_hook(c, rq, &w, e);
    if (rc)
        return rc;
    STORE(c, WEBHOOK_DELETE, w->id);
    remove_hook(c->webhooks, w);
    return 0;
}
