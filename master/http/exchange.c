#include "master/http/exchange.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json_reader.h"
#include "master/common/audit.h"
#include "master/common/free_space.h"
#include "master/http/auth/auth.h"
#include "master/http/auth/scrape.h"
#include "master/http/auth/session.h"
#include "master/http/limits/framing.h"
#include "master/http/routing/schemas.h"
#include "master/notify/hub.h"

enum {
    KEEP_BYTES = 64 * 1024, // of a buffer that is kept for the next request
    SPARES_MAX = 64,        // exchanges that a thread keeps for reuse
    RECHECK_US = 2 * 1000000,
    BODY_TRUST_US = 250 * 1000, // a body that takes longer: its caller is checked again
    REFUSALS_PER_MINUTE = 600,  // refusals that leave a row of the audit trail
};

static struct exchange *exchange_of(struct request *rq)
{
    return rq->http;
}

static const char *exchange_query(struct request *rq, const char *name)
{
    return query_get(&exchange_of(rq)->query, name);
}

static const char *exchange_header(struct request *rq, const char *name)
{
    return MHD_lookup_connection_value(exchange_of(rq)->parked.connection, MHD_HEADER_KIND, name);
}

static void exchange_complete(struct request *rq)
{
    struct exchange *x = exchange_of(rq);
    parking_wake(x->server->parking, &x->parked);
}

// Under the lock of the parking: the core cannot have completed the request yet, unless its answer
// waits for a reader.
static bool exchange_gone(struct parked *p)
{
    struct exchange *x = (struct exchange *)((char *)p - offsetof(struct exchange, parked));
    if (x->stream) {
        x->gone = true;
        return pump_gone(x->server->pump, &x->pumped);
    }
    if (x->route->kind == ROUTE_CORE && !x->deferred) {
        atomic_store(&x->rq.client_gone, true);
        core_client_gone(x->server->service.core, &x->rq);
    }
    return false;
}

struct exchange *exchange_new(struct http_thread *t)
{
    struct exchange *x = t->spare;
    if (x) {
        t->spare = x->spare;
        t->spares--;
        return x;
    }
    x = xcalloc(1, sizeof *x);
    x->thread = t;
    x->server = t->server;
    buf_init(&x->rq.answer, LIMIT_RESPONSE);
    buf_init(&x->body, LIMIT_BODY);
    return x;
}

void exchange_free(struct exchange *x)
{
    arena_free(&x->rq.arena);
    buf_free(&x->rq.answer);
    buf_free(&x->body);
    free(x);
}

static void recycle(struct buf *b)
{
    size_t limit = b->limit;
    if (b->cap > KEEP_BYTES) {
        buf_free(b);
        buf_init(b, limit);
    }
    buf_reset(b);
}

static void release_body(struct exchange *x)
{
    recycle(&x->body);
    account_lower(x->account, &x->held, 0);
}

// Returns the time.
static int64_t enter(struct exchange *x, enum connection_phase phase)
{
    int64_t now = clock_mono_us();
    connections_enter(x->server->connections, x->connection, phase, now);
    return now;
}

void exchange_end(struct exchange *x)
{
    enter(x, PHASE_IDLE);
    if (x->stream && x->stream->close)
        x->stream->close(x->stream);
    if (x->seated)
        seats_leave(&x->server->streams, x->pumped.turn.user);
    json_decref(x->json);
    if (x->rq.input)
        x->rq.input_free(x->rq.input);
    size_t held = x->held + x->answer_hold.bytes;
    release_body(x);
    answers_release(&x->server->answers, &x->answer_hold);
    x->rq.answer.limit = LIMIT_RESPONSE;
    recycle(&x->rq.answer);
    memory_used(&x->server->memory, x->server->offload, held);
    request_release(&x->rq);
    struct arena arena = x->rq.arena;
    if (arena.used > KEEP_BYTES)
        arena_free(&arena);
    else
        arena_reset(&arena);
    struct exchange kept = {.rq.arena = arena,
                            .rq.answer = x->rq.answer,
                            .body = x->body,
                            .server = x->server,
                            .thread = x->thread};
    *x = kept;
    if (x->thread->spares == SPARES_MAX) {
        exchange_free(x);
        return;
    }
    x->spare = x->thread->spare;
    x->thread->spare = x;
    x->thread->spares++;
}

void exchange_begin(struct exchange *x, struct MHD_Connection *connection, const char *uri)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->parked = (struct parked){.connection = connection,
                                .fd = info ? info->connect_fd : -1,
                                .bell = x->thread->bell,
                                .gone = exchange_gone};
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    must(info && info->socket_context);
    x->connection = info->socket_context;
    enter(x, PHASE_HEADERS);
    x->path = arena_strdup(&x->rq.arena, uri);
    x->rq.http = x;
    x->rq.query = exchange_query;
    x->rq.header = exchange_header;
    x->rq.complete = exchange_complete;
    x->rq.address = x->address;
    x->account = &x->server->bodies.of[BODY_NONE];
    atomic_init(&x->rq.client_gone, false);
}

static const char *header(struct exchange *x, const char *name)
{
    return exchange_header(&x->rq, name);
}

// Refuses a large body before it arrives if there is no memory for its parsed form.
static int check_length(struct exchange *x, struct error *e)
{
    const struct body_limit *limit = body_limit_of(x->route);
    const char *text = header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    unsigned long long length = text ? strtoull(text, NULL, 10) : 0;
    x->body_limit = limit->bytes;
    x->account = bodies_account(&x->server->bodies, x->route, text ? (size_t)length : SIZE_MAX);
    if (length > x->body_limit)
        return error_set(e, ERR_TOO_LARGE, "the request body has %.20s bytes; this call takes %zu",
                         text, x->body_limit);
    x->busy = account_hold(x->account, &x->held, (size_t)length, e) != 0;
    return x->busy ? ERR_UNAVAILABLE : 0;
}

static void remember_address(struct exchange *x)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->parked.connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info ? info->client_addr : NULL;
    if (a && a->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, x->address,
                  sizeof x->address);
    else if (a && a->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, x->address,
                  sizeof x->address);
}

// Whether the call is GET /metrics by a monitoring system, which is no user.
static bool may_scrape(struct exchange *x, const struct auth_headers *given)
{
    if (!(x->route->auth & AUTH_SCRAPER))
        return false;
    remember_address(x);
    const struct scrape_caller who = {.address = x->address,
                                      .authorization = given->authorization,
                                      .has_other_token = given->allocation || given->cookie,
                                      .is_forwarded = header(x, "Forwarded") ||
                                                      header(x, "X-Forwarded-For") ||
                                                      header(x, "X-Real-IP") || header(x, "Via")};
    return scrape_may(&x->server->service.scrape, &who);
}

// Authenticates the caller and checks that the caller may see the object of the path.
static int prove_caller(struct exchange *x, struct error *e)
{
    struct request *rq = &x->rq;
    const struct auth_headers given = {.authorization = header(x, MHD_HTTP_HEADER_AUTHORIZATION),
                                       .allocation = header(x, "Grpc-Metadata-x-allocation-token"),
                                       .cookie = header(x, MHD_HTTP_HEADER_COOKIE)};
    if (may_scrape(x, &given))
        return 0;
    int rc = auth_check(x->thread->db, x->route->auth, &given, &rq->principal, e);
    if (!rc)
        rc = connections_sign_in(x->server->connections, x->connection,
                                 rq->principal.kind == PRINCIPAL_AGENT, rq->principal.user_id,
                                 clock_mono_us(), e);
    if (!rc && rq->principal.session && session_needs_origin(x->route->method))
        rc = session_check_origin(rq, x->server->service.tls, e);
    if (!rc)
        rc = auth_check_object(x->thread->db, x->route, rq, e);
    if (!rc && x->route->instead)
        rc = error_set(e, ERR_INVALID, "this master does not do that: %s", x->route->instead);
    return rc;
}

// Finds the call, or a view of the page that a browser requests.
static int find_route(struct exchange *x, struct error *e)
{
    struct request *rq = &x->rq;
    struct route_match match;
    int rc = routes_match(x->server->routes, &rq->arena, rq->method, x->path, &match, e);
    if (rc == ERR_NOT_FOUND &&
        page_shows(rq->method, rq->path, header(x, MHD_HTTP_HEADER_ACCEPT))) {
        char index[] = "/";
        rc = routes_match(x->server->routes, &rq->arena, rq->method, index, &match, e);
    }
    x->route = match.route;
    x->allow = match.allow;
    memcpy(rq->params, match.params, sizeof rq->params);
    return rc;
}

// Refuses calls that grow the store while its disk is nearly full.
static int check_room(struct exchange *x, struct error *e)
{
    const struct free_space *free_space = x->server->service.free_space;
    if (x->route->growth == GROWS_BY_SUBMISSION)
        return free_space_refuse_submission(free_space, e);
    int rc = x->route->growth == GROWS_BY_REPORTS ? free_space_refuse_report(free_space, e) : 0;
    if (rc)
        x->rq.retry_after = FREE_SPACE_RETRY_S;
    return rc;
}

// Everything that the headers decide. A refusal is kept in x->failed until the body has been read.
static int exchange_headers(struct exchange *x, const char *method, struct error *e)
{
    struct request *rq = &x->rq;
    rq->method = method;
    char *query = strchr(x->path, '?');
    if (query)
        *query++ = '\0';
    rq->path = arena_strdup(&rq->arena, x->path);
    if (atomic_load(&x->server->draining))
        return error_set(e, ERR_UNAVAILABLE, "the master is stopping; try again in a moment");

    int rc = find_route(x, e);
    if (rc)
        return rc;
    if (strcmp(method, "GET"))
        remember_address(x);
    if (x->route->auth != AUTH_NONE)
        rc = prove_caller(x, e);
    if (!rc && x->route->view != view_page) // the page parses its own query
        rc = query_parse(&rq->arena, query, &x->query, e);
    if (!rc)
        rc = check_room(x, e);
    return rc ? rc : check_length(x, e);
}

static int add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return value ? MHD_add_response_header(response, name, value) == MHD_YES : 1;
}

static enum MHD_Result send_response(struct exchange *x, int status, struct MHD_Response *response)
{
    x->stage = STAGE_ANSWERED;
    timing_answered(x, status, enter(x, x->stream ? PHASE_ANSWER : PHASE_REPLY));
    if (!response)
        return MHD_NO;
    if (status == 401)
        add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == 429 || status == 503)
        add_header(response, MHD_HTTP_HEADER_RETRY_AFTER,
                   arena_printf(&x->rq.arena, "%d", x->rq.retry_after ? x->rq.retry_after : 1));
    if (status == 405 || status == 204)
        add_header(response, MHD_HTTP_HEADER_ALLOW, x->allow);
    add_header(response, "X-Content-Type-Options", "nosniff");
    add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    if (atomic_load(&x->server->draining))
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result rc = MHD_queue_response(x->parked.connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return rc;
}

// Refusals cost their callers nothing, so only a limited number per minute is recorded: the length
// of the trail is limited.
static bool is_too_many(struct server *s)
{
    int64_t minute = clock_mono_us() / 60000000;
    if (atomic_exchange(&s->refusal_minute, minute) != minute)
        atomic_store(&s->refusals, 0);
    return atomic_fetch_add(&s->refusals, 1) >= REFUSALS_PER_MINUTE;
}

static void refusal_stored(void *hub, int err)
{
    if (!err)
        hub_add_audit_change(hub, "");
}

// Records a refused call; accepted calls leave their rows where they are executed.
static void audit_refusal(struct exchange *x)
{
    int status = err_http_status(x->failed.code);
    if (status < 400 || !audit_wants(&x->rq, status) || is_too_many(x->server))
        return;
    struct db_batch *b = db_batch_new();
    audit_add(b, &x->rq, status, clock_wall_us());
    db_commit(x->server->service.db, b, refusal_stored, x->server->service.hub);
}

void view_add_header(struct view *v, const char *name, const char *value)
{
    must(v->header_count < VIEW_HEADERS_MAX);
    v->headers[v->header_count].name = name;
    v->headers[v->header_count++].value = value;
}

static void add_view_headers(struct exchange *x, struct MHD_Response *response)
{
    const struct view *v = &x->view;
    const char *type = v->content_type ? v->content_type : "application/json";
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, v->cache ? v->cache : "no-store");
    for (int i = 0; i < v->header_count; i++)
        add_header(response, v->headers[i].name, v->headers[i].value);
}

// The call changes nothing, so it may be refused after its work is done.
static bool is_read(const struct exchange *x)
{
    return x->route && (x->route->kind == ROUTE_READ || !strcmp(x->rq.method, "GET"));
}

// Answers to agents do not count, because agents belong to the cluster.
static bool counts(const struct exchange *x)
{
    return x->rq.principal.kind != PRINCIPAL_AGENT;
}

// Accounts for the finished answer, or fails the call.
static void hold_answer(struct exchange *x)
{
    struct buf *b = &x->rq.answer;
    if (!x->failed.code && b->err && b->limit < LIMIT_RESPONSE)
        answers_refuse(&x->failed);
    if (!x->failed.code && b->err)
        error_set(
            &x->failed, ERR_TOO_LARGE,
            "the answer is larger than %d MB; ask for less with limit=", LIMIT_RESPONSE >> 20);
    if (!x->failed.code && counts(x))
        answers_hold(&x->server->answers, &x->answer_hold, x->rq.principal.user_id, b->len,
                     !is_read(x), &x->failed);
    if (x->failed.code) {
        recycle(b);
        request_fail(&x->rq, &x->failed);
        x->view = (struct view){0};
    }
}

// Sends a complete answer. It stays in the exchange until the connection has sent it, so it is not
// copied.
static enum MHD_Result exchange_answer(struct exchange *x)
{
    struct request *rq = &x->rq;
    audit_refusal(x);
    hold_answer(x);
    const char *text = x->view.text ? x->view.text : buf_str(&rq->answer);
    size_t len = !x->view.text      ? rq->answer.len
                 : x->view.text_len ? x->view.text_len
                                    : strlen(text);
    if (!len && rq->status != 304) {
        text = "{}";
        len = 2;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    if (response)
        add_view_headers(x, response);
    return send_response(x, rq->status ? rq->status : 200, response);
}

static enum MHD_Result answer_options(struct exchange *x)
{
    static char nothing[1];
    return send_response(x, 204,
                         MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT));
}

static void fill_view(struct exchange *x, struct db_reader *db)
{
    x->view = (struct view){.rq = &x->rq,
                            .service = &x->server->service,
                            .db = db,
                            .query = &x->query,
                            .address = x->address,
                            .token = x->rq.principal.token,
                            .authorized = x->route->kind == ROUTE_STREAM ? &x->authorized : NULL};
    jw_init(&x->view.w, &x->rq.answer);
}

// Returns how long it took, in microseconds.
static int64_t run_view(struct exchange *x, struct db_reader *db)
{
    if (is_read(x) && counts(x) && x->rq.principal.kind != PRINCIPAL_NONE)
        x->rq.answer.limit = answers_room(&x->server->answers, x->rq.principal.user_id);
    int64_t begun = clock_mono_us();
    fill_view(x, db);
    x->failed.code = x->route->view(&x->view, &x->failed);
    int64_t took = clock_mono_us() - begun;
    x->rq.worked_us += took;
    return took;
}

// Runs on the http thread; its time counts against the caller's share.
static void run_view_here(struct exchange *x)
{
    int64_t took = run_view(x, x->thread->db);
    answers_took(&x->server->answers, x->rq.principal.user_id, clock_mono_us(), took);
}

static bool is_heavy(const struct exchange *x)
{
    return x->rq.principal.kind != PRINCIPAL_NONE && counts(x) &&
           answers_is_heavy(&x->server->answers, x->rq.principal.user_id, clock_mono_us());
}

static int read_body(struct exchange *x, struct error *e)
{
    x->parsed = true;
    if (x->route->read)
        return x->route->read(&x->rq, x->body.data, x->body.len, e);
    bool upload = x->route->body == BODY_FILES && x->body.len > PARSE_INLINE_MAX;
    size_t weight;
    int rc = body_weigh(x->route, x->body.data, x->body.len, &weight, e);
    // Contents of files count, and stay in the text.
    size_t most = weight > x->body.len ? weight : x->body.len;
    if (!rc)
        rc = account_hold(x->account, &x->held, upload ? most : x->body.len + weight, e);
    if (!rc && upload)
        rc = json_parse_upload(x->body.data, x->body.len, "the request body", &x->json, e);
    else if (!rc)
        rc = json_parse(buf_str(&x->body), x->body.len, "the request body", &x->json, e);
    if (upload && !rc) {
        x->rq.texts = x->body.data; // the files stay there until the answer has been sent
        x->rq.texts_len = x->body.len;
    } else {
        recycle(&x->body);
    }
    if (rc)
        return rc;
    account_lower(x->account, &x->held, upload ? most : weight);
    if (json_is_null(x->json)) {
        json_decref(x->json);
        x->json = NULL;
    } else if (!json_is_object(x->json)) {
        return error_set(e, ERR_INVALID, "the request body is not a JSON object");
    } else if (json_is_deeper_than(x->json, LIMIT_JSON_DEPTH)) {
        return error_set(e, ERR_INVALID, "the request body has more than %d levels of JSON",
                         LIMIT_JSON_DEPTH);
    }
    x->rq.body = x->json;
    return x->json && x->route->takes ? schema_check(x->route->takes, x->json, e) : 0;
}

static int parse_body(struct exchange *x, struct error *e)
{
    if (!x->body.len || x->parsed)
        return 0;
    int64_t begun = clock_mono_us();
    int rc = read_body(x, e);
    x->rq.worked_us += clock_mono_us() - begun;
    return rc;
}

static enum MHD_Result park(struct exchange *x);

static int to_core(struct exchange *x, struct error *e)
{
    return core_submit(x->server->service.core, x->route->core, &x->rq, e);
}

// On a worker: work that is too slow for the http thread.
static void exchange_work(struct offload_job *j, struct db_reader *db)
{
    struct exchange *x = (struct exchange *)((char *)j - offsetof(struct exchange, job));
    x->failed.code = parse_body(x, &x->failed);
    if (!x->failed.code && x->route->kind == ROUTE_CORE) {
        struct error e;
        if (!to_core(x, &e))
            return; // it belongs to the core now
        x->failed = e;
    } else if (!x->failed.code) {
        run_view(x, db);
    }
    exchange_complete(&x->rq);
}

static int to_worker(struct exchange *x, struct error *e)
{
    x->job.run = exchange_work;
    return offload_submit(x->server->offload, &x->job, e);
}

static struct exchange *exchange_of_pumped(struct pumped *p)
{
    return (struct exchange *)((char *)p - offsetof(struct exchange, pumped));
}

static void exchange_filled(struct pumped *p)
{
    struct exchange *x = exchange_of_pumped(p);
    parking_wake(x->server->parking, &x->parked);
}

// On a thread of the readers.
static enum pump_turn exchange_read(struct pumped *p, struct db_reader *db)
{
    run_view(exchange_of_pumped(p), db);
    return PUMP_READY;
}

// A read that would occupy the http thread waits for its user's turn at the readers.
static enum MHD_Result defer(struct exchange *x)
{
    x->deferred = true;
    x->pumped = (struct pumped){
        .turn.user = x->rq.principal.user_id, .fill = exchange_read, .ready = exchange_filled};
    pump_queue(x->server->readers, &x->pumped);
    return park(x);
}

// Continues on the http thread after the core or a worker has completed the request.
static enum MHD_Result exchange_finish(struct exchange *x)
{
    bool rendered = x->route->kind == ROUTE_CORE && x->route->view;
    int status = x->rq.status;
    if (rendered && !x->deferred && !x->failed.code && (!status || status < 300) &&
        !x->rq.answer.len) {
        if (is_heavy(x) && x->rq.principal.kind != PRINCIPAL_TASK)
            return defer(x);
        run_view_here(x);
    }
    return exchange_answer(x);
}

static enum MHD_Result park(struct exchange *x)
{
    x->stage = STAGE_PARKED;
    enter(x, PHASE_WORK);
    return parking_wait(x->server->parking, &x->parked) ? MHD_YES : exchange_finish(x);
}

int view_authorize(struct view *v, enum authz_object what, const char *id, struct error *e)
{
    int rc = authz_check(v->db, &v->rq->principal, what, id, e);
    if (!rc && v->authorized) {
        struct authorized_object *s = arena_alloc(&v->rq->arena, sizeof *s);
        *s = (struct authorized_object){what, arena_strdup(&v->rq->arena, id), *v->authorized};
        *v->authorized = s;
    }
    return rc;
}

// A stream may stay open for days, and a body may take hours. Every RECHECK_US of a stream, and
// after a slow body, all permissions are checked again: the token, its user or allocation, the role
// that the route needs, the object of the path, and each object that the view checked.
static int check_again(struct exchange *x, struct db_reader *db, struct error *e)
{
    struct principal who = {.session = x->rq.principal.session};
    int64_t now = clock_mono_us();
    if (!*x->rq.principal.token || now < x->recheck)
        return 0;
    x->recheck = now + RECHECK_US;
    int rc = auth_check_hash(db, x->route->auth, x->rq.principal.kind == PRINCIPAL_TASK,
                             x->rq.principal.token, &who, e);
    if (!rc && x->rq.principal.admin && !who.admin) // what it shows was chosen for an administrator
        rc = error_set(e, ERR_FORBIDDEN, "you are no longer an administrator; send the call again");
    if (rc)
        return rc;
    x->rq.principal = who;
    rc = auth_check_object(db, x->route, &x->rq, e);
    for (const struct authorized_object *s = x->authorized; !rc && s; s = s->next)
        rc = authz_check(db, &who, s->what, s->id, e);
    return rc;
}

// Ends a stream whose caller has lost its permission, with a last line or event that says so.
// False: the stream is an archive, whose connection is cut.
static bool write_refusal(struct exchange *x, const struct error *e, struct buf *out)
{
    const char *type = x->stream->content_type;
    bool events = type && !strcmp(type, "text/event-stream");
    if (type && !events)
        return false;
    if (events)
        buf_puts(out, "event: end\ndata: ");
    wire_write_stream_error(out, e->code, e->text);
    if (events)
        buf_puts(out, "\n");
    x->stream_over = true;
    return true;
}

// Fills the empty answer with the next bytes of the stream.
static enum stream_turn refill(struct exchange *x, struct db_reader *db)
{
    struct buf *b = &x->rq.answer;
    struct error e = {0};
    recycle(b);
    x->sent = 0;
    enum stream_turn turn = !check_again(x, db, &e)   ? x->stream->fill(x->stream, db, b)
                            : write_refusal(x, &e, b) ? STREAM_END
                                                      : STREAM_BROKEN;
    x->stream_broken = turn == STREAM_BROKEN || b->err;
    x->stream_over = turn == STREAM_END;
    return turn;
}

// The latest time at which a waiting stream is checked again.
static int64_t wait_until(const struct exchange *x)
{
    int64_t own = x->stream->wait_until;
    bool sooner = *x->rq.principal.token && (!own || x->recheck < own);
    return sooner ? x->recheck : own;
}

// Runs on a thread of the pump.
static enum pump_turn exchange_fill(struct pumped *p, struct db_reader *db)
{
    struct exchange *x = exchange_of_pumped(p);
    enum stream_turn turn = refill(x, db);
    if (x->rq.answer.len || x->stream_over || x->stream_broken)
        return PUMP_READY;
    if (turn == STREAM_MORE)
        return PUMP_AGAIN;
    parking_set_until(x->server->parking, &x->parked, wait_until(x));
    return PUMP_WAIT;
}

static void exchange_asleep(struct parked *p)
{
    struct exchange *x = (struct exchange *)((char *)p - offsetof(struct exchange, parked));
    if (x->stream)
        pump_queue(x->server->pump, &x->pumped);
}

static void exchange_due(struct parked *p)
{
    struct exchange *x = (struct exchange *)((char *)p - offsetof(struct exchange, parked));
    pump_wake(x->server->pump, &x->pumped);
}

// Copies the next bytes of the stream to `out`. 0: none now; the connection waits until the pump
// has some.
static ssize_t stream_read(void *cls, uint64_t position, char *out, size_t max)
{
    struct exchange *x = cls;
    const struct buf *b = &x->rq.answer;
    size_t left = b->len - x->sent, n = left < max ? left : max;
    (void)position;
    if (x->gone || x->stream_broken)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (left) {
        enter(x, PHASE_ANSWER); // the caller has read the previous part
        memcpy(out, b->data + x->sent, n);
        x->sent += n;
        return (ssize_t)n;
    }
    if (x->stream_over)
        return MHD_CONTENT_READER_END_OF_STREAM;
    enter(x, PHASE_WORK);
    pump_take(x->server->pump, &x->pumped);
    return parking_wait(x->server->parking, &x->parked) ? 0 : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void exchange_wake_stream(struct stream *s)
{
    struct exchange *x = s->http;
    pump_wake(x->server->pump, &x->pumped);
}

static enum MHD_Result open_stream(struct exchange *x)
{
    struct stream *s = NULL;
    x->pumped.turn.user = x->rq.principal.user_id;
    x->failed.code = seats_take(&x->server->streams, x->pumped.turn.user, LIMIT_STREAMS,
                                LIMIT_STREAMS_USER, "streams", &x->failed);
    x->seated = !x->failed.code;
    fill_view(x, x->thread->db);
    if (!x->failed.code)
        x->failed.code = x->route->stream(&x->view, &s, &x->failed);
    if (x->failed.code)
        return exchange_answer(x);
    x->stream = s;
    x->recheck = clock_mono_us() + RECHECK_US;
    x->pumped = (struct pumped){
        .turn.user = x->rq.principal.user_id, .fill = exchange_fill, .ready = exchange_filled};
    x->parked.asleep = exchange_asleep;
    x->parked.due = exchange_due;
    s->wake = exchange_wake_stream;
    s->http = x;
    connections_set_patience(x->server->connections, x->connection, s->patience);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_CHUNK, stream_read, x, NULL);
    if (response) {
        add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                   s->content_type ? s->content_type : "application/json");
        add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL,
                   x->view.cache ? x->view.cache : "no-store");
        for (int i = 0; i < x->view.header_count; i++)
            add_header(response, x->view.headers[i].name, x->view.headers[i].value);
        if (s->file_name)
            add_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION,
                       arena_printf(&x->rq.arena, "attachment; filename=\"%s\"", s->file_name));
    }
    return send_response(x, 200, response);
}

static enum MHD_Result dispatch(struct exchange *x)
{
    enum route_kind kind = x->route ? x->route->kind : ROUTE_READ;
    if (!x->failed.code)
        x->failed.code = check_again(x, x->thread->db, &x->failed);
    if (x->failed.code || x->route->body == BODY_NONE)
        release_body(x);
    if (!x->failed.code && kind != ROUTE_WORKER && x->body.len <= PARSE_INLINE_MAX)
        x->failed.code = parse_body(x, &x->failed);
    if (x->failed.code)
        return exchange_answer(x);
    if (kind == ROUTE_STREAM)
        return open_stream(x);
    if (is_read(x) && (kind == ROUTE_WORKER || (kind == ROUTE_READ && is_heavy(x))))
        return defer(x);
    if (kind == ROUTE_READ) {
        run_view_here(x);
        return exchange_answer(x);
    }
    x->failed.code = connections_may_work(x->server->connections, x->connection, &x->failed);
    // The small answers of the core to a user's tasks do not wait for what the user has not read.
    bool of_task = kind == ROUTE_CORE && x->rq.principal.kind == PRINCIPAL_TASK;
    if (!x->failed.code && x->route->view && counts(x) && !is_read(x) && !of_task)
        x->failed.code = answers_check(&x->server->answers, x->rq.principal.user_id, &x->failed);
    if (x->failed.code)
        return exchange_answer(x);
    bool worker = kind == ROUTE_WORKER || (x->body.len && !x->parsed);
    struct error e; // after the hand-over the exchange must not be modified
    if (worker ? to_worker(x, &e) : to_core(x, &e)) {
        x->failed = e;
        return exchange_answer(x);
    }
    return park(x);
}

// Receives a part of the body. MHD_NO cuts the connection of a client that keeps sending a refused
// body.
static enum MHD_Result add_body(struct exchange *x, const char *data, size_t len)
{
    struct server *s = x->server;
    size_t need = x->body.len + len;
    connections_received(s->connections, x->connection, len, clock_mono_us());
    if (!x->failed.code && len > x->body_limit - x->body.len)
        error_set(&x->failed, ERR_TOO_LARGE, "the request body is longer than %zu bytes",
                  x->body_limit);
    if (!x->failed.code && account_hold(x->account, &x->held, need, &x->failed))
        x->busy = true;
    if (!x->failed.code) {
        buf_append(&x->body, data, len);
        return MHD_YES;
    }
    release_body(x);
    x->drained += len;
    // A caller refused for lack of memory gets the 503 even if the client sends the whole body
    // first.
    return x->drained > (x->busy ? x->body_limit : DRAIN_MAX) ? MHD_NO : MHD_YES;
}

enum MHD_Result exchange_step(struct exchange *x, const char *method, const char *data,
                              size_t *data_len)
{
    switch (x->stage) {
    case STAGE_HEADERS: {
        x->stage = STAGE_BODY;
        x->timing.begun = enter(x, PHASE_BODY);
        x->failed.code = framing_check(x->parked.connection, &x->failed);
        if (x->failed.code)
            return exchange_answer(x); // before its body: the connection ends with it
        x->failed.code = exchange_headers(x, method, &x->failed);
        x->timing.checked = clock_mono_us();
        x->recheck = x->timing.checked + BODY_TRUST_US;
        const char *expect = header(x, MHD_HTTP_HEADER_EXPECT);
        return x->failed.code && expect ? exchange_answer(x) : MHD_YES;
    }
    case STAGE_BODY:
        if (*data_len) {
            enum MHD_Result rc = add_body(x, data, *data_len);
            *data_len = 0;
            return rc;
        }
        x->timing.received = clock_mono_us();
        if (x->failed.code == ERR_METHOD && !strcmp(method, "OPTIONS"))
            return answer_options(x);
        return dispatch(x);
    case STAGE_PARKED:
        return exchange_finish(x);
    default:
        return MHD_NO;
    }
}
