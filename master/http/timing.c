#include "master/http/timing.h"

#include "base/log.h"
#include "master/http/exchange.h"

enum { PATH_SHOWN = 200 };

static const char *caller_name(const struct principal *who)
{
    static const char *const names[] = {"-", "-", "agent", "task"};
    return *who->username ? who->username : names[who->kind];
}

static void log_slow(const struct exchange *x, int status, int64_t took, int64_t body)
{
    const struct request *rq = &x->rq;
    char user[300], path[3 * PATH_SHOWN];
    int64_t waited = took > rq->worked_us ? took - rq->worked_us : 0;
    meters_count(x->server->service.meters, METER_SLOW_REQUESTS, 1);
    log_warn("slow request",
             "method=%s route=%s path=%s user=%s status=%d took_ms=%lld working_ms=%lld "
             "waiting_ms=%lld body_ms=%lld parked_ms=%lld",
             rq->method, x->route ? x->route->path : "none", log_quote(path, sizeof path, rq->path),
             log_quote(user, sizeof user, caller_name(&rq->principal)), status,
             (long long)took / 1000, (long long)rq->worked_us / 1000, (long long)waited / 1000,
             (long long)body / 1000, (long long)rq->parked_us / 1000);
}

void timing_answered(struct exchange *x, int status, int64_t now)
{
    const struct server *s = x->server;
    const struct timing *t = &x->timing;
    int64_t body = t->received ? t->received - t->checked : 0;
    int64_t took = now - t->begun - body - x->rq.parked_us;
    size_t route = x->route ? (size_t)(x->route - route_table) : route_count;
    meters_request(s->service.meters, route, status, took);
    if (s->slow_us && took >= s->slow_us)
        log_slow(x, status, took, body);
}
