#include "master/watch/module.h"

#include <stdlib.h>

#include "base/clock.h"
#include "master/lifecycle/lifecycle.h"
#include "master/notify/webhooks.h"

// --- from the store ------------------------------------------------------------------------------

static int load_open(struct core *c, struct error *e)
{
    struct db_rows *rows = db_query_all(c->reader, STMT_ALERTS_OPEN);
    enum alert_kind kind;
    int more;
    while ((more = db_next(rows)) == 1)
        if (alert_kind_of(DB_GET(rows, ALERTS_OPEN, kind), &kind))
            alerts_load(c->alerts, DB_GET(rows, ALERTS_OPEN, id), kind,
                        DB_GET(rows, ALERTS_OPEN, subject), DB_GET(rows, ALERTS_OPEN, text),
                        DB_GET(rows, ALERTS_OPEN, began_at), c->now);
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : 0;
}

static int alerts_read(struct core *c, struct error *e)
{
    struct db_rows *rows = db_query_all(c->reader, STMT_LAST_ALERT_ID);
    int found = db_next(rows);
    c->alerts = alerts_new(found == 1 ? DB_GET(rows, LAST_ALERT_ID, id) + 1 : 1);
    db_rows_close(rows);
    return found < 0 ? db_unreadable(c->reader, e) : load_open(c, e);
}

static void alerts_drop(struct core *c)
{
    alerts_free(c->alerts);
    c->alerts = NULL;
}

// --- messages ------------------------------------------------------------------------------------

static void mail_alert(struct core *c, const struct alert *a, bool ended)
{
    char began[CLOCK_RFC3339_MAX], now[CLOCK_RFC3339_MAX];
    char *subject = xasprintf("%s%s%s%s", ended ? "over: " : "", alert_words[a->kind],
                              *a->subject ? " " : "", a->subject);
    char *body = ended ? xasprintf("%s  OVER: %s (since %s)", clock_format(c->wall, now), a->text,
                                   clock_format(a->began_at, began))
                       : xasprintf("%s  %s", clock_format(a->began_at, began), a->text);
    STORE(c, MAIL_INSERT, subject, body, c->wall);
    free(body);
    free(subject);
}

// Stores the change and puts its messages into the outboxes, in one batch.
static void hear(void *ctx, const struct alert *a, bool ended)
{
    struct core *c = ctx;
    char quoted[ERROR_TEXT_MAX];
    log_quote(quoted, sizeof quoted, a->text);
    if (ended) {
        STORE(c, ALERT_END, c->wall, a->id);
        log_info("an alert is over", "kind=%s text=%s", alert_words[a->kind], quoted);
    } else {
        STORE(c, ALERT_INSERT, a->id, alert_words[a->kind], a->subject, a->text, a->began_at);
        log_warn("an alert begins", "kind=%s text=%s", alert_words[a->kind], quoted);
    }
    webhooks_alert(c, &(struct cluster_alert){.id = a->id,
                                              .kind = alert_words[a->kind],
                                              .subject = a->subject,
                                              .text = a->text,
                                              .began_at = a->began_at,
                                              .ended = ended});
    if (c->options.mail_alerts)
        mail_alert(c, a, ended);
}

// --- the request ---------------------------------------------------------------------------------

// An agent that was disabled, for example before its machine is switched off, is no trouble.
static bool is_missed(const struct agent *g)
{
    return g->state == AGENT_LOST && g->lost_at && g->version && g->enabled;
}

static struct trouble lost_agent(const struct agent *g, struct arena *arena)
{
    char when[CLOCK_RFC3339_MAX];
    return (struct trouble){
        .kind = ALERT_AGENT_LOST,
        .subject = arena_strdup(arena, g->id),
        .text = arena_printf(arena,
                             "agent %s (%d slots, pool %s) was lost at %s: it does not call any "
                             "more, and its tasks were given up; muster agent forget ends this "
                             "alert if the machine stays away",
                             g->id, g->slot_count, g->pool->name, clock_format(g->lost_at, when))};
}

int core_watch(struct core *c, struct request *rq, struct error *e)
{
    const struct watch_input *in = rq->input;
    size_t count = in->trouble_count;
    struct trouble *list =
        arena_alloc(&rq->arena, (in->trouble_count + c->agent_count) * sizeof *list);
    (void)e;
    for (size_t i = 0; i < count; i++)
        list[i] = in->troubles[i];
    for (size_t i = 0; i < c->agent_count; i++)
        if (is_missed(c->agents[i]))
            list[count++] = lost_agent(c->agents[i], &rq->arena);
    alerts_step(c->alerts, list, count, c->now, c->wall, c->options.alert_calm_us, hear, c);
    if (in->counts)
        rq->result = cluster_count(c, &rq->arena);
    char when[CLOCK_RFC3339_MAX];
    if (in->writes)
        STORE(c, META_SET, "alive_at", clock_format(c->wall, when));
    return 0;
}

const struct core_module watch_module = {
    .name = "watch",
    .load = alerts_read,
    .free = alerts_drop,
};
