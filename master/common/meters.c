#include "master/common/meters.h"

#include <stdlib.h>

#include "base/arena.h"

struct meters {
    atomic_int_least64_t counts[METERS];
    atomic_int_least64_t statuses[METER_STATUSES];
    struct histogram decisions;
    size_t routes;
    struct histogram requests[][METER_CLASSES]; // by route; the last one: no route
};

static const struct histogram nothing;

struct meters *meters_new(size_t routes)
{
    struct meters *m = xcalloc(1, sizeof *m + (routes + 1) * sizeof m->requests[0]);
    m->routes = routes;
    return m;
}

void meters_free(struct meters *m)
{
    free(m);
}

void meters_count(struct meters *m, enum meter which, int64_t n)
{
    if (m)
        atomic_fetch_add_explicit(&m->counts[which], n, memory_order_relaxed);
}

void meters_decision(struct meters *m, int64_t us)
{
    if (m)
        histogram_add(&m->decisions, us);
}

void meters_request(struct meters *m, size_t route, int status, int64_t us)
{
    if (!m || status < 100 || status >= METER_STATUSES)
        return;
    atomic_fetch_add_explicit(&m->statuses[status], 1, memory_order_relaxed);
    histogram_add(&m->requests[route < m->routes ? route : m->routes][status / 100 - 1], us);
}

int64_t meters_counted(const struct meters *m, enum meter which)
{
    return m ? atomic_load_explicit(&m->counts[which], memory_order_relaxed) : 0;
}

int64_t meters_answered(const struct meters *m, int status)
{
    return m ? atomic_load_explicit(&m->statuses[status], memory_order_relaxed) : 0;
}

const struct histogram *meters_decisions(const struct meters *m)
{
    return m ? &m->decisions : &nothing;
}

const struct histogram *meters_of_route(const struct meters *m, size_t route, int status_class)
{
    struct histogram_figures f;
    if (!m || route > m->routes)
        return NULL;
    const struct histogram *h = &m->requests[route][status_class];
    histogram_read(h, &f);
    return f.count ? h : NULL;
}
