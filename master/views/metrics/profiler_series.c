// The series of Determined's profiler: values of machines while a trial runs, in the groups of
// metrics below. A report holds {name: value}, {agent: {name: value}}, or {agent: {device: {name:
// value}}}.

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/json.h"
#include "db/metrics/reports.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

static const char *const groups[] = {"gpu", "cpu", "memory", "disk", "network"};
enum {
    GROUPS = sizeof groups / sizeof *groups,
    SERIES_MAX = 1000,
    NEWEST_IDS = 100 * 1000, // reports of all trials in which the names of series are looked for
    PERIOD_US = 5 * 1000000, // of a stream that follows
};

struct profiled_value {
    const char *name, *agent, *device; // agent, device: "" if the report has none
    double value;
};

typedef void value_reader(void *ctx, const struct profiled_value *v);

struct profiler_stream {
    struct stream stream;
    int64_t trial;
    bool follow;
    struct profiled_value wanted; // name; agent and device "": any
    size_t group;                 // the one that is read
    int64_t after[GROUPS];        // the last report that was sent
};

// --- reports -------------------------------------------------------------------------------------

static void read_object(json_t *of, const char *agent, const char *device, value_reader *read,
                        void *ctx)
{
    const char *key;
    json_t *value;
    json_object_foreach(of, key, value)
    {
        const struct profiled_value v = {key, agent, device, json_number_value(value)};
        if (json_is_number(value))
            read(ctx, &v);
        else if (json_is_object(value) && !*device)
            read_object(value, agent, key, read, ctx);
    }
}

// Names are valid during the call of `read` alone.
static void read_report(const struct series_block *b, size_t at, value_reader *read, void *ctx)
{
    for (size_t i = 0; i < b->column_count; i++) {
        const struct series_column *col = &b->columns[i];
        struct profiled_value v = {col->name, "", "", 0};
        if (series_number_at(col, at, &v.value)) {
            read(ctx, &v);
        } else if (series_kind_at(col, at) == SERIES_JSON && *col->name != *SERIES_BATCHES) {
            json_t *of = json_loads(col->texts[at - col->first], 0, NULL);
            read_object(of, col->name, "", read, ctx);
            json_decref(of);
        }
    }
}

static void write_labels(struct json_writer *w, int64_t trial, const struct profiled_value *v)
{
    jw_object(w);
    jw_kv_int(w, "trialId", trial);
    jw_kv_string(w, "name", v->name);
    jw_kv_string(w, "agentId", v->agent);
    jw_kv_string(w, "gpuUuid", v->device);
    jw_kv_string(w, "metricType", "PROFILER_METRIC_TYPE_SYSTEM");
    jw_object_end(w);
}

// --- available series ----------------------------------------------------------------------------

struct series_list {
    struct arena arena;
    struct profiled_value items[SERIES_MAX];
    size_t count;
};

static bool is_same(const struct profiled_value *a, const struct profiled_value *b)
{
    return !strcmp(a->name, b->name) && !strcmp(a->agent, b->agent) &&
           !strcmp(a->device, b->device);
}

static void add_series(void *ctx, const struct profiled_value *v)
{
    struct series_list *l = ctx;
    for (size_t i = 0; i < l->count; i++)
        if (is_same(&l->items[i], v))
            return;
    if (l->count < SERIES_MAX)
        l->items[l->count++] = (struct profiled_value){arena_strdup(&l->arena, v->name),
                                                       arena_strdup(&l->arena, v->agent),
                                                       arena_strdup(&l->arena, v->device), 0};
}

static int list_series(struct db_reader *db, int64_t trial, const char *group,
                       struct series_list *l, struct error *e)
{
    struct reports_query q = REPORTS_ALL(trial, group);
    struct reports_version version;
    struct reports *r = NULL;
    struct reports_span span;
    int more = reports_version(db, trial, group, &version, e);
    q.after_steps = -1;
    q.after_id = more || version.newest < NEWEST_IDS ? 0 : version.newest - NEWEST_IDS;
    if (!more)
        more = reports_open(db, &q, &r, e);
    if (!more)
        while ((more = reports_next(r, &span, e)) == 1)
            for (size_t i = span.first; i < span.end; i++)
                read_report(span.block, i, add_series, l);
    reports_close(r);
    return more;
}

static int write_available(struct profiler_stream *p, struct db_reader *db, struct buf *out,
                           struct error *e)
{
    struct series_list *l = xcalloc(1, sizeof *l);
    struct json_writer w;
    int err = 0;
    for (size_t i = 0; !err && i < GROUPS; i++)
        err = list_series(db, p->trial, groups[i], l, e);
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "result");
    jw_object(&w);
    jw_key(&w, "labels");
    jw_array(&w);
    for (size_t i = 0; i < l->count; i++)
        write_labels(&w, p->trial, &l->items[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(out, "\n");
    arena_free(&l->arena);
    free(l);
    return err;
}

// --- the values of a series ----------------------------------------------------------------------

struct batch_writer { // one report
    const struct profiler_stream *p;
    struct buf *out;
    int64_t step, time;
};

// A line for each value: a report has few values of one name.
static void write_batch(void *ctx, const struct profiled_value *v)
{
    const struct batch_writer *b = ctx;
    const struct profiled_value *wanted = &b->p->wanted;
    struct json_writer w;
    if (strcmp(wanted->name, v->name) || (*wanted->agent && strcmp(wanted->agent, v->agent)) ||
        (*wanted->device && strcmp(wanted->device, v->device)))
        return;
    jw_init(&w, b->out);
    jw_object(&w);
    jw_key(&w, "result");
    jw_object(&w);
    jw_key(&w, "batch");
    jw_object(&w);
    jw_key(&w, "values");
    jw_array(&w);
    jw_double(&w, v->value);
    jw_array_end(&w);
    jw_key(&w, "batches");
    jw_array(&w);
    jw_int(&w, b->step < 0 ? 0 : b->step);
    jw_array_end(&w);
    jw_key(&w, "timestamps");
    jw_array(&w);
    char time[CLOCK_RFC3339_MAX];
    jw_string(&w, clock_format(b->time, time));
    jw_array_end(&w);
    jw_key(&w, "labels");
    write_labels(&w, b->p->trial, v);
    jw_object_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(b->out, "\n");
}

// Sends what is new in the group; *full: there may be more.
static int write_values(struct profiler_stream *p, struct db_reader *db, struct buf *out,
                        bool *full, struct error *e)
{
    struct reports_query q = REPORTS_ALL(p->trial, groups[p->group]);
    struct reports *r = NULL;
    struct reports_span span;
    q.after_steps = -1;
    q.after_id = p->after[p->group];
    int more = reports_open(db, &q, &r, e);
    if (!more)
        more = 1;
    while (more == 1 && out->len < STREAM_CHUNK && (more = reports_next(r, &span, e)) == 1)
        for (size_t i = span.first; i < span.end && out->len < STREAM_CHUNK; i++) {
            struct batch_writer b = {p, out, span.block->steps[i], span.block->times[i]};
            read_report(span.block, i, write_batch, &b);
            p->after[p->group] = span.block->ids[i];
        }
    reports_close(r);
    *full = more == 1;
    return more < 0 ? more : 0;
}

// --- the streams ---------------------------------------------------------------------------------

static bool trial_runs(struct db_reader *db, int64_t trial)
{
    struct db_rows *rows = DB_QUERY(db, TRIAL_IS_ACTIVE, trial);
    bool active = db_next(rows) == 1 && DB_GET(rows, TRIAL_IS_ACTIVE, active);
    db_rows_close(rows);
    return active;
}

static enum stream_turn fill(struct profiler_stream *p, struct db_reader *db, struct buf *out)
{
    struct error e = {0};
    bool full = false, last = !p->wanted.name || p->group + 1 == GROUPS;
    if (atomic_load(&p->stream.ending))
        return STREAM_END;
    if (clock_mono_us() < p->stream.wait_until)
        return STREAM_WAIT;
    bool more = p->follow && trial_runs(db, p->trial); // before the values, so that none is missed
    int err = db_snapshot_begin(db, &e);
    if (!err) {
        err =
            p->wanted.name ? write_values(p, db, out, &full, &e) : write_available(p, db, out, &e);
        db_snapshot_end(db);
    }
    if (err) {
        buf_reset(out);
        wire_write_stream_error(out, ERR_INTERNAL, "the store cannot be read");
        return STREAM_END;
    }
    if (full)
        return STREAM_MORE;
    p->group = last ? 0 : p->group + 1;
    if (!last)
        return STREAM_MORE;
    p->stream.wait_until = clock_mono_us() + PERIOD_US;
    return more ? STREAM_WAIT : STREAM_END;
}

static enum stream_turn fill_profiler(struct stream *s, struct db_reader *db, struct buf *out)
{
    return fill((struct profiler_stream *)s, db, out);
}

static int open_profiler(struct view *v, struct profiler_stream **out, struct error *e)
{
    const char *follow = query_get(v->query, "follow");
    struct profiler_stream *p = arena_alloc(&v->rq->arena, sizeof *p);
    *p = (struct profiler_stream){.follow = follow && !strcmp(follow, "true")};
    p->stream.fill = fill_profiler;
    *out = p;
    return request_param_int(v->rq, 0, &p->trial, e);
}

int stream_profiler_series(struct view *v, struct stream **out, struct error *e)
{
    struct profiler_stream *p;
    int err = open_profiler(v, &p, e);
    *out = &p->stream;
    return err;
}

static const char *label(struct view *v, const char *name)
{
    const char *value = query_get(v->query, name);
    return value ? value : "";
}

int stream_profiler_metrics(struct view *v, struct stream **out, struct error *e)
{
    struct profiler_stream *p;
    int err = open_profiler(v, &p, e);
    p->wanted = (struct profiled_value){label(v, "labels.name"), label(v, "labels.agentId"),
                                        label(v, "labels.gpuUuid"), 0};
    *out = &p->stream;
    if (!err && !*p->wanted.name)
        err = error_set(e, ERR_INVALID,
                        "query parameter labels.name: missing; GET "
                        "/api/v1/trials/%lld/profiler/available_series has the names",
                        (long long)p->trial);
    return err;
}
