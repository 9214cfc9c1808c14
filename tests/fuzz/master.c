#include "tests/fuzz/master.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "base/text/pattern_cache.h"
#include "db/db.h"
#include "master/http/auth/auth.h"
#include "master/http/offload.h"
#include "master/http/routing/routes.h"
#include "master/http/routing/schemas.h"
#include "master/modules.h"
#include "master/notify/log_followers.h"
#include "master/registry/registry.h"
#include "master/views/metrics/series_cache.h"
#include "master/views/views.h"
#include "tests/unit/master/support/full_ids.h"

enum {
    SECOND = 1000 * 1000,
    TURNS_MAX = 64,
    FILLS_MAX = 64,
    WAITING_MAX = 32,
    ANSWER_MAX = 64 << 20
};

struct fuzz_call { // a call to the core, until it is completed
    struct request rq;
    struct query query;
    const struct route *route;
    json_t *body;
    bool done;
};

struct fuzz_master {
    struct db *db;
    struct db_reader *reader;
    struct core *core;
    struct routes *routes;
    struct service service;
    struct fuzz_call *waiting[WAITING_MAX];
    int waiting_count;
};

// --- the world outside, as far as it has to be the same at every run -----------------------------

static int64_t now; // clock of the only master

static int64_t mono(void)
{
    return now;
}

static int64_t wall(void)
{
    return now + 1700000000LL * SECOND;
}

ssize_t getrandom(void *out, size_t len, unsigned flags);
ssize_t getrandom(void *out, size_t len, unsigned flags)
{
    static uint8_t last;
    (void)flags;
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)out)[i] = last = (uint8_t)(last * 5 + 1);
    return (ssize_t)len;
}

// Hashing a password is slow on purpose.
struct crypt_data;
char *crypt_r(const char *phrase, const char *setting, struct crypt_data *data);
char *crypt_r(const char *phrase, const char *setting, struct crypt_data *data)
{
    static char out[384];
    (void)data;
    snprintf(out, sizeof out, "%.8s%.128s", setting, phrase);
    return out;
}

// The core ends like this when its store refuses a row: the store must accept everything that the
// core accepted.
_Noreturn void _exit(int status);
_Noreturn void _exit(int status)
{
    fprintf(stderr, "the master has ended with status %d\n", status);
    abort();
}

static const char *query(struct request *rq, const char *name)
{
    return query_get(&((struct fuzz_call *)rq->http)->query, name);
}

static const char *no_header(struct request *rq, const char *name)
{
    (void)rq, (void)name;
    return NULL;
}

static void complete(struct request *rq)
{
    ((struct fuzz_call *)rq->http)->done = true;
}

// --- its life ------------------------------------------------------------------------------------

static void start(struct fuzz_master *m)
{
    static struct core_options options = {
        .modules = master_modules,
        .cluster_id = "cluster",
        .cluster_name = "fuzz",
        .master_url = "http://master",
        .agent_silence_us = 10LL * SECOND,
        .agent_reconnect_us = 30LL * SECOND,
        .kill_grace_us = 10LL * SECOND,
        .preemption_timeout_us = 60LL * SECOND,
        .mono_us = mono,
        .wall_us = wall,
    };
    static const char own[] = "{\"type\":\"directory\",\"container_path\":\"/nowhere/fuzz\"}";
    static const char *const allowed[] = {"/nowhere"};
    static struct storage *storage;
    struct error e = {0};
    must(storage || !storage_new(own, allowed, 1, &storage, &e));
    options.storage = storage;
    if (core_new(m->db, &options, &m->core, &e)) {
        fprintf(stderr, "the master does not start: %s\n", e.text);
        abort();
    }
    m->service = (struct service){.db = m->db,
                                  .core = m->core,
                                  .storage = storage,
                                  .log_followers = m->service.log_followers,
                                  .logins = m->service.logins,
                                  .series = m->service.series,
                                  .searcher = m->service.searcher,
                                  .patterns = m->service.patterns,
                                  .search_us = 100000,
                                  .cluster_id = "cluster",
                                  .cluster_name = "fuzz",
                                  .api_version = "0.38.1",
                                  .master_id = "fuzz",
                                  .config = "{}",
                                  .openapi = "{}"};
}

// A store with users, a workspace and a project: the template of all others, never written again.
static struct db *first_store(void)
{
    static struct db *db;
    static const char *const users[] = {"admin", "una", "vic"};
    struct error e = {0};
    if (db)
        return db;
    must(!db_open_memory(NULL, &db, &e));
    struct db_batch *b = db_batch_new();
    for (int i = 0; i < 3; i++)
        DB_ADD(b, USER_INSERT, users[i], "", (int64_t)!i, 1, "", 1);
    DB_ADD(b, WORKSPACE_INSERT, DB_NOT_NULL(1), "Uncategorized", 1, 1);
    DB_ADD(b, PROJECT_INSERT, 1, "Uncategorized", 1, "", 1, 1, "UNCAT");
    must(!db_commit_wait(db, b, &e));
    return db;
}

struct fuzz_master *master_begin(void)
{
    struct fuzz_master *m = xcalloc(1, sizeof *m);
    struct error e = {0};
    now = SECOND;
    must(!db_open_memory(first_store(), &m->db, &e) && !db_reader_open(m->db, &m->reader, &e));
    m->routes = routes_new(route_table, route_count);
    m->service.log_followers = log_followers_new();
    m->service.logins = throttle_new();
    m->service.series = series_cache_new();
    m->service.patterns = pattern_cache_new();
    must(!offload_new(m->db, 1, &m->service.searcher, NULL));
    start(m);
    return m;
}

static void call_free(struct fuzz_call *c)
{
    json_decref(c->body);
    if (c->rq.input)
        c->rq.input_free(c->rq.input);
    buf_free(&c->rq.answer);
    request_release(&c->rq);
    arena_free(&c->rq.arena);
    free(c);
}

static void free_done(struct fuzz_master *m)
{
    int left = 0;
    for (int i = 0; i < m->waiting_count; i++)
        if (m->waiting[i]->done)
            call_free(m->waiting[i]);
        else
            m->waiting[left++] = m->waiting[i];
    m->waiting_count = left;
}

static void stop(struct fuzz_master *m)
{
    core_stop(m->core);
    core_free(m->core);
    free_done(m);
    must(!m->waiting_count); // every call got an answer
}

void master_end(struct fuzz_master *m)
{
    stop(m);
    log_followers_free(m->service.log_followers);
    throttle_free(m->service.logins);
    series_cache_free(m->service.series);
    offload_free(m->service.searcher);
    pattern_cache_free(m->service.patterns);
    routes_free(m->routes);
    db_reader_close(m->reader);
    db_close(m->db);
    free(m);
    be_quiet(); // a call can change the log level
}

void master_again(struct fuzz_master *m)
{
    stop(m);
    start(m);
}

// Runs turns until there is nothing left to do at this time.
static void turn(struct fuzz_master *m)
{
    for (int i = 0; i < TURNS_MAX; i++) {
        core_turn(m->core);
        if (!db_write(m->db, LIMIT_WRITER_QUEUE) && core_next_turn(m->core) > now)
            return;
    }
}

void master_wait(struct fuzz_master *m, int64_t seconds)
{
    now += seconds * SECOND;
    turn(m);
    free_done(m);
}

// --- a call --------------------------------------------------------------------------------------

static bool read_caller(const char *who, struct principal *p)
{
    *p = (struct principal){.kind = PRINCIPAL_USER, .user_id = *who == 'v' ? 3 : 2};
    long long experiment = 0;
    switch (*who) {
    case 'a':
        p->user_id = 1;
        p->admin = true;
        break;
    case 'u':
    case 'v':
        break;
    case 'g':
        *p = (struct principal){.kind = PRINCIPAL_AGENT};
        break;
    case 't':
        p->kind = PRINCIPAL_TASK;
        snprintf(p->allocation_id, sizeof p->allocation_id, "%s", full_id(who + 1));
        sscanf(who + 1, "%lld", &experiment);
        p->experiment_id = experiment;
        break;
    default:
        return false;
    }
    snprintf(p->username, sizeof p->username, "%s",
             p->user_id == 1   ? "admin"
             : p->user_id == 2 ? "una"
                               : "vic");
    return true;
}

static bool may_call(const struct route *route, const struct principal *p)
{
    unsigned is = p->kind == PRINCIPAL_AGENT  ? AUTH_AGENT
                  : p->kind == PRINCIPAL_TASK ? AUTH_TASK
                                              : AUTH_USER | (p->admin ? AUTH_ADMIN : 0);
    return route->auth == AUTH_NONE || (route->auth & is);
}

static int read_body(struct fuzz_call *c, struct piece text, struct error *e)
{
    if (!text.len || c->route->body == BODY_NONE)
        return 0;
    char *copy = piece_copy(text);
    int rc;
    if (c->route->read) {
        rc = c->route->read(&c->rq, copy, text.len, e);
        free(copy);
        return rc;
    }
    rc = json_parse(copy, text.len, "the request body", &c->body, e);
    free(copy);
    if (rc)
        return rc;
    if (json_is_null(c->body)) {
        json_decref(c->body);
        c->body = NULL;
    } else if (!json_is_object(c->body)) {
        return error_set(e, ERR_INVALID, "no object");
    } else if (json_is_deeper_than(c->body, LIMIT_JSON_DEPTH)) {
        return error_set(e, ERR_INVALID, "too deep");
    }
    c->rq.body = c->body;
    return c->body && c->route->takes ? schema_check(c->route->takes, c->body, e) : 0;
}

static struct view view_of(struct fuzz_master *m, struct fuzz_call *c)
{
    struct view v = {.rq = &c->rq,
                     .service = &m->service,
                     .db = m->reader,
                     .query = &c->query,
                     .address = "192.0.2.1",
                     .token = ""};
    jw_init(&v.w, &c->rq.answer);
    return v;
}

static int run_view(struct fuzz_master *m, struct fuzz_call *c, bool *is_json, struct error *e)
{
    struct view v = view_of(m, c);
    int rc = c->route->view(&v, e);
    *is_json = (!v.content_type || strstr(v.content_type, "json")) && !v.text;
    return rc;
}

static int run_core(struct fuzz_master *m, struct fuzz_call *c, bool *is_json, struct error *e)
{
    int rc = core_submit(m->core, c->route->core, &c->rq, e);
    if (rc)
        return rc;
    turn(m);
    if (c->done && c->route->view && (!c->rq.status || c->rq.status < 300) && !c->rq.answer.len)
        return run_view(m, c, is_json, e);
    return 0;
}

static void no_wake(struct stream *s)
{
    (void)s;
}

static void broken(const struct fuzz_call *c, int status, const char *why)
{
    fprintf(stderr, "%s %s: status %d: %s: %s\n", c->rq.method, c->route->path, status, why,
            buf_str(&c->rq.answer));
    abort();
}

static void check_lines(const struct fuzz_call *c)
{
    struct piece rest = {c->rq.answer.data, c->rq.answer.len}, line;
    while (c->rq.answer.len && piece_next(&rest, "\n", &line)) {
        json_t *value = NULL;
        struct error e = {0};
        if (line.len && json_parse(line.text, line.len, "a line", &value, &e))
            broken(c, 200, e.text);
        json_decref(value);
    }
}

// Each filling goes into an empty buffer, as in the http layer.
static enum stream_turn fill(struct fuzz_master *m, struct fuzz_call *c, struct stream *s)
{
    struct buf part;
    buf_init(&part, ANSWER_MAX);
    enum stream_turn next = s->fill(s, m->reader, &part);
    must(next != STREAM_BROKEN && !part.err);
    buf_append(&c->rq.answer, buf_str(&part), part.len);
    buf_free(&part);
    return next;
}

// Reads as much of the answer as exists now.
static int run_stream(struct fuzz_master *m, struct fuzz_call *c, bool *is_json, struct error *e)
{
    struct view v = view_of(m, c);
    struct stream *s = NULL;
    int rc = c->route->stream(&v, &s, e);
    *is_json = false;
    if (rc)
        return rc;
    s->wake = no_wake;
    enum stream_turn next = STREAM_MORE;
    for (int i = 0; i < FILLS_MAX && next == STREAM_MORE; i++)
        next = fill(m, c, s);
    s->ending = true;
    if (next != STREAM_END)
        fill(m, c, s);
    if (s->close)
        s->close(s);
    if (!s->content_type)
        check_lines(c);
    return 0;
}

// Calls that need threads or files of their own.
static bool is_left_out(const struct route *route)
{
    return route->stream == stream_events || route->stream == stream_backup ||
           route->stream == stream_checkpoint_archive || route->view == webhook_test;
}

static int run(struct fuzz_master *m, struct fuzz_call *c, struct piece body, bool *is_json,
               struct error *e)
{
    int rc = 0;
    if (!may_call(c->route, &c->rq.principal))
        return error_set(e, ERR_FORBIDDEN, "not for this caller");
    if (c->route->auth != AUTH_NONE)
        rc = auth_check_object(m->reader, c->route, &c->rq, e);
    if (!rc && c->route->instead)
        rc = error_set(e, ERR_INVALID, "%s", c->route->instead);
    rc = rc ? rc : read_body(c, body, e);
    if (rc)
        return rc;
    switch (c->route->kind) {
    case ROUTE_CORE:
        return run_core(m, c, is_json, e);
    case ROUTE_STREAM:
        return run_stream(m, c, is_json, e);
    default:
        rc = run_view(m, c, is_json, e);
        turn(m); // the committed turn
        return rc;
    }
}

static struct fuzz_answer read_answer(struct fuzz_call *c, bool is_json)
{
    struct fuzz_answer a = {.status = c->rq.status ? c->rq.status : 200};
    struct error e = {0};
    const char *text = c->rq.answer.len ? buf_str(&c->rq.answer) : "{}";
    if (a.status == 500 || a.status < 200 || a.status > 599)
        broken(c, a.status, "must not be");
    if (c->rq.answer.err)
        broken(c, a.status, "too large");
    if (is_json && json_parse(text, strlen(text), "answer", &a.body, &e))
        broken(c, a.status, e.text);
    if (is_json && a.status < 300 && c->route->answers &&
        schema_check(c->route->answers, a.body, &e))
        broken(c, a.status, e.text);
    return a;
}

static void dispatch(struct fuzz_master *m, struct fuzz_call *c, struct piece body,
                     struct fuzz_answer *out)
{
    struct error e = {0};
    bool is_json = true;
    int rc = run(m, c, body, &is_json, &e);
    if (rc) {
        must(e.code == rc && *e.text);
        request_fail(&c->rq, &e);
        is_json = true;
    } else if (c->route->kind == ROUTE_CORE && !c->done) {
        if (m->waiting_count == WAITING_MAX) { // its peer disconnects
            atomic_store(&m->waiting[0]->rq.client_gone, true);
            core_client_gone(m->core, &m->waiting[0]->rq);
            turn(m);
            free_done(m);
        }
        must(m->waiting_count < WAITING_MAX);
        m->waiting[m->waiting_count++] = c;
        return;
    }
    *out = read_answer(c, is_json);
    call_free(c);
}

// Splits "who METHOD address body"; false: not a call.
static bool cut_line(struct arena *arena, struct piece line, char *words[3], struct piece *body)
{
    for (int i = 0; i < 3; i++) {
        const char *blank = memchr(line.text, ' ', line.len);
        size_t len = blank ? (size_t)(blank - line.text) : line.len;
        words[i] = arena_strndup(arena, line.text, len);
        if (!len || (i < 2 && !blank))
            return false;
        line.text += len + (blank != NULL);
        line.len -= len + (blank != NULL);
    }
    *body = line;
    return true;
}

// A fuzzer can write the short ids of tasks, but does not find a UUID.
static struct piece fill_ids(struct arena *arena, struct piece line)
{
    char *text = piece_copy(line);
    char *full = strlen(text) == line.len ? with_full_ids(text) : NULL;
    if (full)
        line = (struct piece){arena_strdup(arena, full), strlen(full)};
    free(text);
    free(full);
    return line;
}

struct fuzz_answer master_call(struct fuzz_master *m, struct piece line)
{
    struct fuzz_call *c = xcalloc(1, sizeof *c);
    struct fuzz_answer out = {0};
    struct route_match match = {0};
    struct piece body;
    struct error e;
    char *words[3];
    line = fill_ids(&c->rq.arena, line);
    if (!cut_line(&c->rq.arena, line, words, &body) || !read_caller(words[0], &c->rq.principal) ||
        *words[2] != '/')
        goto out;
    char *asked = strchr(words[2], '?');
    if (asked)
        *asked++ = '\0';
    c->rq.method = words[1];
    c->rq.path = arena_strdup(&c->rq.arena, words[2]);
    if (routes_match(m->routes, &c->rq.arena, words[1], words[2], &match, &e) ||
        query_parse(&c->rq.arena, asked, &c->query, &e) || is_left_out(match.route))
        goto out;
    c->route = match.route;
    memcpy(c->rq.params, match.params, sizeof c->rq.params);
    c->rq.query = query;
    c->rq.header = no_header;
    c->rq.complete = complete;
    c->rq.http = c;
    c->rq.address = "192.0.2.1";
    buf_init(&c->rq.answer, ANSWER_MAX);
    dispatch(m, c, body, &out);
    free_done(m);
    return out;
out:
    call_free(c);
    return out;
}

void master_tell(struct fuzz_master *m, const char *lines)
{
    struct piece rest = {lines, strlen(lines)}, line;
    while (piece_next(&rest, "\n", &line)) {
        struct fuzz_answer a = master_call(m, line);
        if (line.len && a.status && a.status != 200) {
            char *text = json_text(a.body);
            fprintf(stderr, "%.*s: %d %s\n", (int)line.len, line.text, a.status, text);
            abort();
        }
        json_decref(a.body);
    }
}
