// GET /simulate: the effect of additional agents. Runs the simulator twice over the jobs of the
// last days: with the present agents, and with more. Simulations run on a worker, one at a time and
// only for seconds, because other calls wait for the worker; `muster simulate --from-store` has no
// such limits.

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "master/views/views.h"
#include "simulate/history.h"

enum { DAYS = 14, DAYS_MAX = 366, JOBS_MAX = 200000, SECONDS_MAX = 5 };

struct simulation_request {
    int64_t days, nodes, slots; // slots 0: as many as most agents have
    enum sched_policy policy;
};

static const int64_t preempt_cost = 60 * SIMULATE_SECOND; // the default of `muster simulate`

static int read_number(struct view *v, const char *name, int64_t usual, int64_t least, int64_t most,
                       int64_t *out, struct error *e)
{
    int err = request_query_int(v->rq, name, usual, out, e);
    if (!err && (*out < least || *out > most))
        err = error_set(e, ERR_INVALID, "query parameter %s: from %lld to %lld", name,
                        (long long)least, (long long)most);
    return err;
}

static int read_policy(struct view *v, enum sched_policy *out, struct error *e)
{
    const char *name = query_get(v->query, "scheduler");
    *out = SCHED_POLICY_FAIR_SHARE;
    for (int i = 0; name && *name && i < SCHED_POLICIES; i++)
        if (!strcmp(sched_policy_names[i], name)) {
            *out = (enum sched_policy)i;
            return 0;
        }
    return name && *name ? error_set(e, ERR_INVALID,
                                     "query parameter scheduler: fair_share, priority or fifo")
                         : 0;
}

static int read_request(struct view *v, struct simulation_request *out, struct error *e)
{
    int err = read_number(v, "days", DAYS, 1, DAYS_MAX, &out->days, e);
    if (!err)
        err = read_number(v, "addNodes", 1, 1, SIMULATE_NODES_MAX, &out->nodes, e);
    if (!err)
        err = read_number(v, "slotsPerNode", 0, 0, SIMULATE_NODE_SLOTS_MAX, &out->slots, e);
    return err ? err : read_policy(v, &out->policy, e);
}

// --- the runs ------------------------------------------------------------------------------------

static bool has_time(void *ctx, double share)
{
    (void)share;
    return clock_mono_us() < *(const int64_t *)ctx;
}

static int error_too_long(struct error *e)
{
    return error_set(e, ERR_TOO_LARGE,
                     "the simulation of these jobs takes more than %d s: choose fewer days, or "
                     "run muster simulate --from-store on the master's machine",
                     SECONDS_MAX);
}

// Returns the jobs that were submitted in the last days.
static struct simulate_trace recent_jobs(const struct cluster_history *h, int64_t days)
{
    struct simulate_trace trace = trace_view(&h->trace);
    int64_t from = clock_wall_us() - days * 86400 * SIMULATE_SECOND;
    while (trace.job_count && trace.jobs->submit < from) {
        trace.jobs++;
        trace.job_count--;
    }
    return trace;
}

static int run_simulation(const struct cluster_history *h, const struct simulate_trace *trace,
                          const struct simulation_request *request, int64_t *deadline,
                          struct simulate_figures *out, struct error *e)
{
    const struct simulate_options options = {.policy = request->policy,
                                             .preempt_cost = preempt_cost,
                                             .progress = has_time,
                                             .ctx = deadline};
    int err = simulate(trace, h->nodes, h->node_count, &options, out, e);
    return err == ERR_TIMEOUT ? error_too_long(e) : err;
}

// --- the figures ---------------------------------------------------------------------------------

static void write_figure(struct json_writer *w, const char *key, double value)
{
    jw_kv_double(w, key, isfinite(value) ? value : 0);
}

static void write_hours(struct json_writer *w, const char *key, const struct simulate_spread *s)
{
    jw_key(w, key);
    jw_object(w);
    jw_kv_int(w, "count", (int64_t)s->count);
    write_figure(w, "mean", s->mean / 3600);
    write_figure(w, "median", s->p50 / 3600);
    write_figure(w, "p99", s->p99 / 3600);
    write_figure(w, "max", s->max / 3600);
    jw_object_end(w);
}

static void write_figures(struct json_writer *w, const char *key, size_t nodes,
                          const struct simulate_figures *f)
{
    jw_key(w, key);
    jw_object(w);
    jw_kv_int(w, "nodes", (int64_t)nodes);
    jw_kv_int(w, "slots", f->slots);
    jw_kv_int(w, "jobs", (int64_t)f->jobs);
    jw_kv_int(w, "tooLarge", (int64_t)f->too_large);
    jw_kv_int(w, "neverStarted", (int64_t)f->stuck);
    write_hours(w, "completionHours", &f->completion);
    jw_key(w, "waits");
    jw_array(w);
    for (int i = 0; i < SIMULATE_CLASSES; i++) {
        jw_object(w);
        jw_kv_string(w, "slots", simulate_class_names[i]);
        write_hours(w, "hours", &f->wait[i]);
        jw_object_end(w);
    }
    jw_array_end(w);
    write_figure(w, "use", f->use_makespan);
    write_figure(w, "makespanHours", f->makespan / 3600);
    jw_kv_int(w, "preemptions", (int64_t)f->preemptions);
    jw_object_end(w);
}

static int answer_comparison(struct view *v, struct cluster_history *h,
                             const struct simulation_request *request, struct error *e)
{
    struct simulate_figures now = {0}, then = {0};
    struct simulate_trace trace = recent_jobs(h, request->days);
    int64_t deadline = clock_mono_us() + SECONDS_MAX * SIMULATE_SECOND;
    size_t nodes = h->node_count;
    int usual = history_usual_slots(h), slots = request->slots ? (int)request->slots : usual;
    if (!slots)
        return error_set(e, ERR_CONFLICT, "the pool has no enabled agent: give slotsPerNode");
    if (trace.job_count > JOBS_MAX)
        return error_too_long(e);
    int err = nodes ? run_simulation(h, &trace, request, &deadline, &now, e) : 0;
    history_add_nodes(h, (size_t)request->nodes, slots);
    err = err ? err : run_simulation(h, &trace, request, &deadline, &then, e);
    if (!err) {
        jw_object(&v->w);
        jw_kv_int(&v->w, "jobs", (int64_t)trace.job_count);
        jw_kv_int(&v->w, "unfinished", (int64_t)h->unfinished);
        jw_kv_int(&v->w, "unstarted", (int64_t)h->unstarted);
        jw_kv_int(&v->w, "slotsPerNode", slots);
        write_figures(&v->w, "now", nodes, &now);
        write_figures(&v->w, "then", h->node_count, &then);
        jw_object_end(&v->w);
    }
    simulate_figures_free(&now);
    simulate_figures_free(&then);
    return err;
}

int view_simulate(struct view *v, struct error *e)
{
    const char *pool = query_get(v->query, "resourcePool");
    struct cluster_history h;
    struct simulation_request request;
    int err = read_request(v, &request, e);
    if (err)
        return err;
    if (atomic_fetch_add(&v->service->simulations, 1) > 0)
        err = error_set(e, ERR_BUSY, "another simulation is running: try again in a few seconds");
    if (!err)
        err = history_of(v->db, pool && *pool ? pool : NULL, 0, INT64_MAX, &h, e);
    if (!err) {
        err = answer_comparison(v, &h, &request, e);
        history_free(&h);
    }
    atomic_fetch_sub(&v->service->simulations, 1);
    return err;
}
