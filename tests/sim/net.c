#include "tests/sim/net.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/sim/machines.h"
#include "tests/unit/master/support/render.h"

enum { ANSWER_MAX = 64 << 20 };

static bool is_cut(const struct sim_call *c)
{
    return c->machine && machine_is_cut(c->world, c->machine);
}

// Some messages come late, and a few of these after the timeout of their sender.
static int64_t travel(struct world *w)
{
    if (w->calm || !chance(&w->net, w->late))
        return between(&w->net, 100, 3 * MS);
    return between(&w->net, 20 * MS, chance(&w->net, 2000) ? 30 * SECOND : 3 * SECOND);
}

static void call_deliver(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    if (c->over)
        return;
    c->over = true;
    note(w, "%s %s %s -> %d", c->machine ? c->machine->id : "person", c->name, c->p0, status);
    if (c->done)
        c->done(w, c, status, answer);
}

static void call_free(struct sim_call *c)
{
    json_decref(c->body);
    free(c->text);
    c->body = NULL;
    c->text = NULL;
}

// --- answers -------------------------------------------------------------------------------------

static void come_back(struct world *w, void *who, int64_t arg)
{
    struct sim_call *c = who;
    json_t *answer = NULL;
    struct error e = {0};
    (void)arg;
    if (!c->over && !(is_cut(c) && c->status)) {
        if (c->text && json_parse(c->text, strlen(c->text), "answer", &answer, &e))
            broken(w, "answers_are_json", "%s: %s: %s", c->name, e.text, c->text);
        call_deliver(w, c, c->status, answer);
        json_decref(answer);
    }
    if (!c->rq) // else only its connection broke
        call_free(c);
}

static void send_back(struct world *w, struct sim_call *c, int status)
{
    c->status = status;
    if (status && !w->calm && chance(&w->net, w->lost))
        note(w, "the answer to %s %s is lost", c->name, c->p0);
    else
        at(w, w->now + travel(w), come_back, c, 0);
}

static void unlink_call(struct world *w, struct sim_call *c)
{
    if (c->next)
        c->next->prev = c->prev;
    *(c->prev ? &c->prev->next : &w->calls) = c->next;
    c->next = c->prev = NULL;
}

static void free_request(struct sim_call *c)
{
    buf_free(&c->rq->answer);
    request_release(c->rq);
    arena_free(&c->rq->arena);
    free(c->rq);
    c->rq = NULL;
}

// The master releases an answer.
static void complete(struct request *rq)
{
    struct sim_call *c = rq->http;
    struct world *w = c->world;
    must(rq == c->rq);
    struct error e = {0};
    if (render_result(c->handler, rq, w->reader, &e))
        broken(w, "answers_can_be_rendered", "%s", e.text);
    check_answer(w, c, rq);
    c->id = rq->id;
    c->text = rq->answer.len ? buf_take(&rq->answer) : NULL;
    int status = rq->status ? rq->status : 200;
    unlink_call(w, c);
    free_request(c);
    send_back(w, c, status);
}

// --- calls ---------------------------------------------------------------------------------------

static const char *query(struct request *rq, const char *name)
{
    const struct sim_call *c = rq->http;
    (void)name;
    return c->query;
}

static struct request *request_of(struct sim_call *c)
{
    static const char *const users[USERS + 1] = {"", "ada", "ben", "cleo"};
    struct request *rq = xcalloc(1, sizeof *rq);
    rq->params[0] = arena_strdup(&rq->arena, c->p0);
    rq->params[1] = arena_strdup(&rq->arena, c->p1);
    rq->body = c->body;
    rq->query = query;
    rq->complete = complete;
    rq->http = c;
    rq->principal.kind = c->kind;
    rq->principal.user_id = c->user;
    rq->principal.admin = c->user == 1;
    snprintf(rq->principal.username, sizeof rq->principal.username, "%s", users[c->user]);
    snprintf(rq->principal.allocation_id, sizeof rq->principal.allocation_id, "%s",
             c->allocation ? c->allocation : "");
    buf_init(&rq->answer, ANSWER_MAX);
    return rq;
}

static void arrive(struct world *w, void *who, int64_t arg)
{
    struct sim_call *c = who;
    struct error e = {0};
    (void)arg;
    if (is_cut(c))
        return; // the call will time out
    if (!w->core) {
        send_back(w, c, 0); // refused
        return;
    }
    note(w, "master hears %s of %s %s", c->name, c->machine ? c->machine->id : "person", c->p0);
    c->rq = request_of(c);
    c->next = w->calls;
    if (c->next)
        c->next->prev = c;
    w->calls = c;
    if (core_submit(w->core, c->handler, c->rq, &e))
        broken(w, "core_takes_requests", "%s", e.text);
}

// The master learns of a closed connection a little later, or never if the machine is cut off.
static void hear_of_close(struct world *w, void *who, int64_t arg)
{
    struct sim_call *c = who;
    (void)arg;
    if (!c->rq || !w->core || is_cut(c))
        return;
    atomic_store(&c->rq->client_gone, true);
    core_client_gone(w->core, c->rq);
}

static void time_up(struct world *w, void *who, int64_t arg)
{
    struct sim_call *c = who;
    (void)arg;
    if (c->over)
        return;
    at(w, w->now + travel(w), hear_of_close, c, 0);
    call_deliver(w, c, 0, NULL);
}

static struct sim_call *call_new(struct world *w, const struct sim_call *like)
{
    struct sim_call *c = arena_alloc(&w->arena, sizeof *c);
    *c = *like;
    c->world = w;
    c->all_next = w->all_calls;
    w->all_calls = c;
    return c;
}

struct sim_call *call_send(struct world *w, const struct sim_call *like)
{
    struct sim_call *c = call_new(w, like);
    if (!w->calm && chance(&w->net, w->doubled)) {
        struct sim_call *twin = call_new(w, like);
        json_incref(c->body);
        twin->over = true;
        note(w, "%s %s is sent twice", c->name, c->p0);
        at(w, w->now + between(&w->net, MS, 20 * SECOND), arrive, twin, 0);
    }
    if (!w->calm && chance(&w->net, w->lost))
        note(w, "%s %s is lost", c->name, c->p0);
    else
        at(w, w->now + travel(w), arrive, c, 0);
    at(w, w->now + c->timeout, time_up, c, 0);
    return c;
}

void call_drop(struct world *w, struct sim_call *c)
{
    c->over = true;
    at(w, w->now + travel(w), hear_of_close, c, 0);
}

void calls_fail(struct world *w)
{
    while (w->calls) {
        struct sim_call *c = w->calls;
        unlink_call(w, c);
        free_request(c);
        send_back(w, c, 0);
    }
}

void calls_cut(struct world *w)
{
    for (struct sim_call *c = w->calls; c; c = c->next) {
        at(w, w->now + travel(w), hear_of_close, c, 0);
        if (!c->over)
            at(w, w->now + travel(w), come_back, c, 0); // with status 0
    }
}

void net_free(struct world *w)
{
    for (struct sim_call *c = w->all_calls; c; c = c->all_next) {
        if (c->rq)
            free_request(c);
        call_free(c);
    }
}
