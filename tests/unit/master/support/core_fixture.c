#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "db/logs/logs.h"
#include "db/metrics/reports.h"
#include "master/ingest/log_parse.h"
#include "master/modules.h"
#include "tests/unit/master/support/render.h"

struct cluster cl;

static atomic_int_least64_t clock_ahead; // offset from the machine's clock, in microseconds

static int64_t test_clock(void)
{
    return clock_mono_us() + atomic_load(&clock_ahead);
}

static int64_t test_wall(void)
{
    return clock_wall_us() + atomic_load(&clock_ahead);
}

static void log_notice(void *ctx, const char *task_id)
{
    (void)ctx;
    (void)task_id;
    atomic_fetch_add(&cl.log_notices, 1);
}

// --- start and stop ------------------------------------------------------------------------------

void start_core(void)
{
    struct error e = {0};
    struct core_options options = {
        .modules = master_modules,
        .cluster_id = "cluster",
        .cluster_name = "test",
        .master_url = "http://master",
        .storage = cl.places,
        .agent_silence_us = 10 * SECOND,
        .agent_reconnect_us = 30 * SECOND,
        .kill_grace_us = 10 * SECOND,
        .preemption_timeout_us = 600LL * SECOND,
        .restart_backoff_us = cl.more.restart_backoff_us,
        .mono_us = test_clock,
        .wall_us = test_wall,
        .scheduler = cl.more.scheduler,
        .max_user_priority = cl.more.max_user_priority,
        .pools = cl.more.pools,
        .pool_count = cl.more.pool_count,
        .schedule_gap_us = cl.more.schedule_gap_us,
        .log_days = cl.more.log_days,
        .meters = cl.more.meters,
        .alert_calm_us = 60 * SECOND,
        .mail_alerts = cl.more.mail_alerts,
        .logs_committed = log_notice,
        .events_committed = cl.more.events_committed,
        .alive = cl.more.alive,
        .alive_us = cl.more.alive_us,
    };
    if (core_new(cl.db, &options, &cl.core, &e) || core_start(cl.core, &e))
        fail_msg("%s", e.text);
}

void stop_core(void)
{
    core_stop(cl.core);
    core_free(cl.core);
    cl.core = NULL;
}

void restart_core(void)
{
    stop_core();
    start_core();
}

static void seed_store(void)
{
    struct db_batch *b = db_batch_new();
    struct error e = {0};
    DB_ADD(b, USER_INSERT, "owner", "", 0, 1, "", 1);
    DB_ADD(b, USER_INSERT, "other", "", 0, 1, "", 1);
    DB_ADD(b, WORKSPACE_INSERT, DB_NOT_NULL(1), "w", 1, 1);
    DB_ADD(b, PROJECT_INSERT, 1, "p", 1, "", 1, 1, "P1");
    if (db_commit_wait(cl.db, b, &e))
        fail_msg("%s", e.text);
}

int cluster_setup(void **state)
{
    struct error e = {0};
    char here[128];
    (void)state;
    cl = (struct cluster){0};
    snprintf(cl.folder, sizeof cl.folder, "store.XXXXXX");
    assert_non_null(mkdtemp(cl.folder));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(cl.checkpoints, sizeof cl.checkpoints, "%s/%s/checkpoints", here, cl.folder);
    snprintf(cl.storage, sizeof cl.storage, "{\"type\":\"directory\",\"container_path\":\"%s\"}",
             cl.checkpoints);
    log_set_level(LOG_LEVEL_ERROR);
    if (storage_new(cl.storage, NULL, 0, &cl.places, &e))
        fail_msg("%s", e.text);
    if (db_open(cl.folder, &cl.db, &e) || db_reader_open(cl.db, &cl.reader, &e))
        fail_msg("%s", e.text);
    seed_store();
    start_core();
    return 0;
}

int cluster_teardown(void **state)
{
    (void)state;
    stop_core();
    db_reader_close(cl.reader);
    db_close(cl.db);
    storage_free(cl.places);
    return 0;
}

// --- requests ------------------------------------------------------------------------------------

// One value for every parameter but those of an order.
static const char *call_query(struct request *rq, const char *name)
{
    const struct core_call *call = rq->http;
    return strcmp(name, "sortBy") && strcmp(name, "orderBy") ? call->query_value : NULL;
}

static void call_complete(struct request *rq)
{
    struct core_call *call = rq->http;
    pthread_mutex_lock(&call->lock);
    call->done = true;
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
}

struct principal as_user(int64_t id, bool admin)
{
    struct principal p = {.kind = PRINCIPAL_USER, .user_id = id, .admin = admin};
    snprintf(p.username, sizeof p.username, "%s", id == OWNER ? "owner" : "other");
    return p;
}

struct principal as_task(const char *allocation)
{
    struct principal p = {.kind = PRINCIPAL_TASK};
    snprintf(p.allocation_id, sizeof p.allocation_id, "%s", full_id(allocation));
    return p;
}

struct principal as_agent(void)
{
    return (struct principal){.kind = PRINCIPAL_AGENT};
}

const char *next_query_value;

struct core_call *call_start(core_handler *handler, struct principal who, const char *p0,
                             const char *p1, const char *body)
{
    struct error e = {0};
    struct core_call *call = xcalloc(1, sizeof *call);
    char *full = body ? with_full_ids(body) : NULL;
    body = full;
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->changed, NULL);
    if (body && json_parse(body, strlen(body), "body", &call->body, &e))
        fail_msg("%s in %s", e.text, body);
    char *text = handler == core_task_logs && body ? xstrdup(body) : NULL;
    if (text) // parsed as the http layer does it
        (*text == '[' ? log_list_read : log_post_read)(&call->rq, text, strlen(text), NULL);
    free(text);
    free(full);
    call->rq.principal = who;
    call->rq.params[0] = p0 ? arena_strdup(&call->rq.arena, full_id(p0)) : NULL;
    call->rq.params[1] = p1 ? arena_strdup(&call->rq.arena, p1) : NULL;
    call->rq.body = call->body;
    call->rq.query = call_query;
    call->query_value = next_query_value;
    next_query_value = NULL;
    call->rq.complete = call_complete;
    call->rq.http = call;
    call->handler = handler;
    buf_init(&call->rq.answer, 64 << 20);
    if (core_submit(cl.core, handler, &call->rq, &e))
        fail_msg("%s", e.text);
    return call;
}

bool call_is_done(struct core_call *call)
{
    pthread_mutex_lock(&call->lock);
    bool done = call->done;
    pthread_mutex_unlock(&call->lock);
    return done;
}

int last_status;
char last_error[ERROR_TEXT_MAX];
static int last_code;
int64_t last_id;

json_t *call_end(struct core_call *call)
{
    struct timespec until;
    json_t *answer = NULL;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&call->lock);
    while (!call->done)
        if (pthread_cond_timedwait(&call->changed, &call->lock, &until))
            fail_msg("no answer within 30 s");
    pthread_mutex_unlock(&call->lock);
    last_status = call->rq.status ? call->rq.status : 200;
    last_id = call->rq.id;
    struct error e = {0};
    if (render_result(call->handler, &call->rq, cl.reader, &e))
        fail_msg("%s", e.text);
    const char *text = call->rq.answer.len ? buf_str(&call->rq.answer) : "{}";
    if (json_parse(text, strlen(text), "answer", &answer, &e))
        fail_msg("%s: %s", e.text, text);
    const json_t *failure = jget(answer, "error");
    snprintf(last_error, sizeof last_error, "%s", jget_string(failure, "error", ""));
    last_code = err_from_http(last_status);
    if (jget_int(failure, "code", 0) == WIRE_FAILED_PRECONDITION)
        last_code = ERR_STATE;
    json_decref(call->body);
    if (call->rq.input)
        call->rq.input_free(call->rq.input);
    buf_free(&call->rq.answer);
    request_release(&call->rq);
    arena_free(&call->rq.arena);
    pthread_mutex_destroy(&call->lock);
    pthread_cond_destroy(&call->changed);
    free(call);
    return answer;
}

json_t *ask(core_handler *handler, struct principal who, const char *p0, const char *p1,
            const char *body)
{
    return call_end(call_start(handler, who, p0, p1, body));
}

int call_status(core_handler *handler, struct principal who, const char *p0, const char *body)
{
    json_decref(ask(handler, who, p0, NULL, body));
    return last_status;
}

int call_code(core_handler *handler, struct principal who, const char *p0, const char *body)
{
    call_status(handler, who, p0, body);
    return last_code;
}

void call_ok(core_handler *handler, struct principal who, const char *p0, const char *body)
{
    if (call_status(handler, who, p0, body) != 200)
        fail_msg("status %d: %s", last_status, last_error);
}

void poll_once(const char *allocation)
{
    next_query_value = "0";
    call_ok(core_allocation_preemption, as_task(allocation), allocation, NULL);
}

void settle(void)
{
    call_ok(core_tasks, as_user(OWNER, false), NULL, NULL);
    call_ok(core_tasks, as_user(OWNER, false), NULL, NULL);
}

void advance(int64_t us)
{
    settle(); // earlier calls use the earlier time
    atomic_fetch_add(&clock_ahead, us);
    settle();
}

// --- the store -----------------------------------------------------------------------------------

const char *logged(const char *task)
{
    static struct buf out;
    struct log_reader log;
    const struct log_line *line;
    const struct log_origin *from;
    struct error e = {0};
    int64_t id, last = 0;
    int step = LOG_MORE;
    if (!out.limit)
        buf_init(&out, 1 << 20);
    buf_reset(&out);
    log_reader_init(&log, full_id(task), false, &log_query_all);
    while (step > 0) {
        step = log_reader_next(&log, cl.reader, &line, &from, &id, &e);
        if (step != LOG_LINE)
            continue;
        assert_int_equal(id, ++last);
        buf_printf(&out, "%s %s %lld %lld: %s\n", from->text[LOG_SOURCE], from->text[LOG_LEVEL],
                   (long long)from->rank, (long long)line->time, line->text);
    }
    log_reader_free(&log);
    if (step)
        fail_msg("%s", e.text);
    return buf_str(&out);
}

const char *stored(const char *sql)
{
    static char text[8192];
    char *full = with_full_ids(sql);
    struct db_rows *rows = db_query_sql(cl.reader, full, NULL, 0);
    const char *value = db_next(rows) > 0 ? db_get_text(rows, 0) : "(none)";
    snprintf(text, sizeof text, "%s", value ? value : "(null)");
    db_rows_close(rows);
    free(full);
    return text;
}

const char *reports_seen(int64_t trial, const char *group)
{
    static char text[64 * 1024];
    const struct reports_query q = REPORTS_ALL(trial, group);
    struct reports *r = NULL;
    struct reports_span span;
    struct error e = {0};
    size_t len = 0;
    text[0] = '\0';
    assert_int_equal(db_snapshot_begin(cl.reader, &e), 0);
    int more = reports_open(cl.reader, &q, &r, &e);
    while (!more && (more = reports_next(r, &span, &e)) == 1) {
        for (size_t i = span.first; i < span.end && len < sizeof text - 48; i++)
            len +=
                (size_t)snprintf(text + len, sizeof text - len, "%s%lld:%lld", len ? " " : "",
                                 (long long)span.block->runs[i], (long long)span.block->steps[i]);
        more = 0;
    }
    if (more)
        fail_msg("%s", e.text);
    reports_close(r);
    db_snapshot_end(cl.reader);
    return text;
}

json_t *parse_json(const char *text)
{
    json_t *value = NULL;
    struct error e = {0};
    if (json_parse(text, strlen(text), "json", &value, &e))
        fail_msg("%s in %s", e.text, text);
    return value;
}

// --- experiments ---------------------------------------------------------------------------------

int64_t submit(const char *yaml, bool activate)
{
    json_t *body = json_pack("{s:s, s:b, s:i, s:[{s:s, s:i, s:s, s:i}]}", "config", yaml,
                             "activate", activate, "projectId", 1, "modelDefinition", "path",
                             "x.sh", "type", 48, "content", "ZWNobyBoZWxsbwo=", "mode", 0644);
    char *text = json_text(body);
    json_decref(ask(core_experiment_create, as_user(OWNER, false), NULL, NULL, text));
    free(text);
    json_decref(body);
    return last_status == 200 ? last_id : 0;
}

int64_t submit_slots(int slots, const char *more)
{
    char yaml[1024];
    snprintf(yaml, sizeof yaml,
             "name: test\nentrypoint: sh x.sh\nlaunch: per_slot\n"
             "resources: {slots_per_trial: %d}\n"
             "searcher: {name: single, metric: loss}\nmax_restarts: 1\n%s",
             slots, more);
    int64_t id = submit(yaml, true);
    if (!id)
        fail_msg("status %d: %s", last_status, last_error);
    return id;
}

const char *decimal(int64_t value)
{
    static char text[4][24];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[0], "%lld", (long long)value);
    return text[turn];
}

// --- agents --------------------------------------------------------------------------------------

const char *next_agent_pool = "default", *next_agent_rack = "";
const char *next_slot_0 = "", *next_use = "null";
const char *next_instance = "";

struct core_call *sync_start(const char *agent, const char *session, int slots, int64_t seen,
                             const char *tasks)
{
    char *list = xstrdup("");
    for (int i = 0; i < slots; i++) {
        char *longer =
            xasprintf("%s%s{\"id\":%d,\"type\":\"CPU\",\"name\":\"cpu\",\"uuid\":\"u%d\"%s}", list,
                      i ? "," : "", i, i, i ? "" : next_slot_0);
        free(list);
        list = longer;
    }
    char *body = xasprintf(
        "{\"version\":\"1\",\"session\":\"%s\",\"pool\":\"%s\",\"rack\":\"%s\","
        "\"hostname\":\"%s\",\"instance\":\"%s\",\"address\":\"10.0.0.%d\",\"slots\":[%s],"
        "\"seen\":%lld,\"tasks\":[%s],\"use\":%s}",
        session, next_agent_pool, next_agent_rack, agent, next_instance,
        agent[strlen(agent) - 1] - '0', list, (long long)seen, tasks, next_use);
    struct core_call *call = call_start(core_agent_poll, as_agent(), agent, NULL, body);
    free(list);
    free(body);
    return call;
}

json_t *sync_agent(const char *agent, const char *session, int slots, const char *tasks)
{
    json_t *answer = call_end(sync_start(agent, session, slots, -1, tasks));
    if (last_status != 200)
        fail_msg("poll: status %d: %s", last_status, last_error);
    return answer;
}

json_t *desired_task(const json_t *answer, const char *allocation)
{
    size_t i;
    json_t *task;
    allocation = full_id(allocation);
    json_array_foreach(jget(answer, "tasks"), i, task)
    {
        if (!strcmp(jget_string(task, "allocationId", ""), allocation))
            return task;
    }
    return NULL;
}

const char *desired_action(const json_t *answer, const char *allocation)
{
    return jget_string(desired_task(answer, allocation), "action", "(none)");
}

bool forgotten(const json_t *answer, const char *allocation)
{
    size_t i;
    json_t *id;
    allocation = full_id(allocation);
    json_array_foreach(jget(answer, "forget"), i, id)
    {
        if (!strcmp(json_string_value(id), allocation))
            return true;
    }
    return false;
}

const char *task_in(const char *allocation, const char *state, const char *ranks)
{
    static char text[2][2048];
    static int turn;
    turn = !turn;
    snprintf(text[turn], sizeof text[0],
             "{\"allocationId\":\"%s\",\"state\":\"%s\",\"ranks\":[%s],\"reason\":\"\"}",
             full_id(allocation), state, ranks);
    return text[turn];
}

void report(const char *agent, int slots, const char *tasks)
{
    json_decref(sync_agent(agent, "session", slots, tasks));
}
