// Slot usage: the allocations of a period one by one, or their slot-seconds by day or month; as CSV
// and as JSON. Callers see the allocations of their workspaces only.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/csv.h"
#include "master/common/kinds.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

enum { PAGE_ROWS = 500, RAW_JSON_MAX = 100000, PERIODS_MAX = 4000 };

// --- the allocations of a period
// -------------------------------------------------------------------

struct slot_use { // one allocation, as far as it lies within the period
    int64_t experiment, slots, start, end;
    int64_t began, ended; // of the whole allocation; ended 0: it has not
    const char *username, *pool, *kind, *allocation, *workspace;
    enum kind task;
    const json_t *labels;
};

struct slot_use_scan {
    int64_t after, before, now; // wall time
    int64_t last_end, last_row; // position in the list of ended allocations
    bool admin;
    int64_t user;
    bool over;
};

typedef void slot_use_fn(void *ctx, const struct slot_use *u);

static void scan_row(struct slot_use_scan *s, struct db_rows *rows, slot_use_fn *take, void *ctx)
{
    int64_t end = DB_GET(rows, SLOT_USE, ended_at) ? DB_GET(rows, SLOT_USE, ended_at) : s->now,
            start = DB_GET(rows, SLOT_USE, started_at);
    if (!start || !DB_GET(rows, SLOT_USE, visible))
        return;
    struct slot_use u = {.experiment = DB_GET(rows, SLOT_USE, experiment_id),
                         .slots = DB_GET(rows, SLOT_USE, slots),
                         .start = start > s->after ? start : s->after,
                         .end = end < s->before ? end : s->before,
                         .username = DB_GET(rows, SLOT_USE, username),
                         .pool = DB_GET(rows, SLOT_USE, pool),
                         .kind = DB_GET(rows, SLOT_USE, kind),
                         .began = start,
                         .ended = DB_GET(rows, SLOT_USE, ended_at),
                         .allocation = DB_GET(rows, SLOT_USE, allocation_id),
                         .workspace = DB_GET(rows, SLOT_USE, workspace),
                         .task = kind_of_word(DB_GET(rows, SLOT_USE, task_kind))};
    if (u.start >= u.end)
        return;
    json_t *labels = json_loads(DB_GET(rows, SLOT_USE, labels), 0, NULL);
    u.labels = labels;
    take(ctx, &u);
    json_decref(labels);
}

// Reads the next page; s->over is set after the last one.
static int scan_page(struct slot_use_scan *s, struct db_reader *db, slot_use_fn *take, void *ctx)
{
    bool more = s->last_row >= 0;
    struct db_rows *rows = more ? DB_QUERY(db, SLOT_USE_OF_ENDED, s->admin, s->user, s->last_end,
                                           s->last_end, s->last_row, PAGE_ROWS)
                                : DB_QUERY(db, SLOT_USE_OF_ACTIVE, s->admin, s->user);
    int rc, count = 0;
    for (; (rc = db_next(rows)) == 1; count++) {
        scan_row(s, rows, take, ctx);
        if (more) {
            s->last_end = DB_GET(rows, SLOT_USE, ended_at);
            s->last_row = DB_GET(rows, SLOT_USE, allocation_row);
        }
    }
    db_rows_close(rows);
    s->over = !more;
    if (more && count < PAGE_ROWS)
        s->last_row = -1; // active allocations come last
    return rc;
}

static int read_time(struct view *v, const char *name, int64_t *out, struct error *e)
{
    const char *text = query_get(v->query, name);
    if (text && !clock_parse(text, out))
        return 0;
    return error_set(e, ERR_INVALID, "query parameter %s: give a time like 2026-11-21T09:00:00Z",
                     name);
}

static void scan_begin(struct view *v, struct slot_use_scan *s, int64_t after, int64_t before)
{
    *s = (struct slot_use_scan){.after = after,
                                .before = before,
                                .now = clock_wall_us(),
                                .last_end = after,
                                .admin = v->rq->principal.admin,
                                .user = v->rq->principal.user_id};
}

static int scan_begin_raw(struct view *v, struct slot_use_scan *s, struct error *e)
{
    int64_t after = 0, before = 0;
    int rc = read_time(v, "timestampAfter", &after, e);
    if (!rc)
        rc = read_time(v, "timestampBefore", &before, e);
    if (!rc && after > before)
        rc = error_set(e, ERR_INVALID, "timestampAfter is later than timestampBefore");
    scan_begin(v, s, after, before);
    return rc;
}

static double seconds_of(int64_t start, int64_t end)
{
    return (double)(end - start) / 1e6;
}

// --- one by one, as CSV --------------------------------------------------------------------------

static void append_labels(struct buf *out, const json_t *labels)
{
    struct buf all;
    size_t i;
    json_t *label;
    buf_init(&all, 1 << 20);
    json_array_foreach(labels, i, label)
    {
        if (i)
            buf_puts(&all, ",");
        for (const char *c = json_string_value(label); c && *c; c++) {
            if (*c == ',' || *c == '\\')
                buf_puts(&all, "\\");
            buf_append(&all, c, 1);
        }
    }
    csv_append_cell(out, buf_str(&all));
    buf_free(&all);
}

static void append_use_csv(void *ctx, const struct slot_use *u)
{
    struct buf *out = ctx;
    char start[CLOCK_RFC3339_MAX], end[CLOCK_RFC3339_MAX];
    buf_printf(out, "%lld,%s,", (long long)u->experiment, u->kind);
    csv_append_cell(out, u->username);
    buf_puts(out, ",");
    append_labels(out, u->labels);
    buf_printf(out, ",%lld,%s,%s,%.6f\n", (long long)u->slots, clock_format(u->start, start),
               clock_format(u->end, end), seconds_of(u->start, u->end));
}

// The hours count within the period, the times are those of the whole allocation. Programs run
// without images, so no time goes into pulling them.
static void append_allocation_csv(void *ctx, const struct slot_use *u)
{
    struct buf *out = ctx;
    char start[CLOCK_RFC3339_MAX], end[CLOCK_RFC3339_MAX];
    double hours = seconds_of(u->start, u->end) * (double)u->slots / 3600;
    long long experiment = u->task == KIND_EXPERIMENT ? u->experiment : 0;
    buf_printf(out, "%s,%s,", u->allocation, kind_words[u->task].task);
    csv_append_cell(out, u->username);
    buf_puts(out, ",");
    csv_append_cell(out, u->workspace);
    buf_printf(out, ",%lld,%lld,%s,%s,0.0,%.6f\n", experiment, (long long)u->slots,
               clock_format(u->began, start), u->ended ? clock_format(u->ended, end) : "", hours);
}

struct slot_use_stream {
    struct stream stream;
    struct slot_use_scan scan;
    const char *head; // the first line
    slot_use_fn *append;
    bool begun;
};

static enum stream_turn fill_raw(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct slot_use_stream *r = (struct slot_use_stream *)s;
    if (!r->begun)
        buf_puts(out, r->head);
    r->begun = true;
    if (scan_page(&r->scan, db, r->append, out) < 0)
        return STREAM_BROKEN;
    return r->scan.over ? STREAM_END : STREAM_MORE;
}

static int begin_csv(struct view *v, const char *head, slot_use_fn *append, struct stream **out,
                     struct error *e)
{
    struct slot_use_stream *r = arena_alloc(&v->rq->arena, sizeof *r);
    r->head = head;
    r->append = append;
    r->stream.fill = fill_raw;
    r->stream.content_type = "text/csv";
    *out = &r->stream;
    return scan_begin_raw(v, &r->scan, e);
}

int stream_resources_raw(struct view *v, struct stream **out, struct error *e)
{
    return begin_csv(v, "experiment_id,kind,username,labels,slots,start_time,end_time,seconds\n",
                     append_use_csv, out, e);
}

int stream_allocations_csv(struct view *v, struct stream **out, struct error *e)
{
    return begin_csv(v,
                     "allocation_id,task_type,username,workspace_name,experiment_id,slots,"
                     "start_time,end_time,imagepulling_time,gpu_hours\n",
                     append_allocation_csv, out, e);
}

// --- one by one, as JSON -------------------------------------------------------------------------

struct slot_use_list {
    struct json_writer *w;
    int64_t count;
};

static void write_use(void *ctx, const struct slot_use *u)
{
    struct slot_use_list *l = ctx;
    if (l->count++ >= RAW_JSON_MAX)
        return;
    jw_object(l->w);
    jw_kv_string(l->w, "kind", u->kind);
    jw_kv_int(l->w, "experimentId", u->experiment);
    jw_kv_string(l->w, "username", u->username);
    jw_key(l->w, "labels");
    jw_json(l->w, u->labels);
    jw_kv_int(l->w, "slots", u->slots);
    write_time(l->w, "startTime", u->start);
    write_time(l->w, "endTime", u->end);
    jw_kv_double(l->w, "seconds", seconds_of(u->start, u->end));
    jw_object_end(l->w);
}

int view_resources_raw(struct view *v, struct error *e)
{
    struct slot_use_scan s;
    struct slot_use_list l = {.w = &v->w};
    int rc = scan_begin_raw(v, &s, e);
    if (rc)
        return rc;
    jw_object(&v->w);
    jw_key(&v->w, "resourceEntries");
    jw_array(&v->w);
    while (!s.over && !rc)
        rc = scan_page(&s, v->db, write_use, &l) < 0 ? store_failed(e) : 0;
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    if (!rc && l.count > RAW_JSON_MAX)
        rc = error_set(e, ERR_TOO_LARGE,
                       "more than %d allocations: choose a shorter time, or read CSV from "
                       "/resources/allocation/raw",
                       RAW_JSON_MAX);
    return rc;
}

// --- by day or month -----------------------------------------------------------------------------

enum { BY_LABEL, BY_USER, BY_POOL, SUMS };
static const struct {
    const char *csv, *json;
} sum_names[SUMS] = {[BY_LABEL] = {"experiment_label", "byExperimentLabel"},
                     [BY_USER] = {"username", "byUsername"},
                     [BY_POOL] = {"resource_pool", "byResourcePool"}};

struct usage_period {
    int64_t start, end;
    char name[16]; // "2026-11-21", "2026-11"
    double total;
    json_t *sums[SUMS]; // {key: slot-seconds}
};

struct usage_periods {
    struct usage_period *items;
    size_t count;
    bool monthly;
};

static void add_sum(json_t *sums, const char *key, double seconds)
{
    json_t *sum = json_object_get(sums, key);
    must(!json_object_set_new(sums, key, json_real(json_number_value(sum) + seconds)));
}

// Returns the index of the first period that ends after a moment.
static size_t period_at(const struct usage_periods *p, int64_t moment)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->items[middle].end <= moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_use(void *ctx, const struct slot_use *u)
{
    struct usage_periods *p = ctx;
    for (size_t i = period_at(p, u->start); i < p->count && p->items[i].start < u->end; i++) {
        struct usage_period *d = &p->items[i];
        int64_t start = u->start > d->start ? u->start : d->start;
        int64_t end = u->end < d->end ? u->end : d->end;
        double seconds = seconds_of(start, end) * (double)u->slots;
        size_t k;
        json_t *label;
        if (start >= end)
            continue;
        d->total += seconds;
        add_sum(d->sums[BY_USER], u->username, seconds);
        add_sum(d->sums[BY_POOL], u->pool, seconds);
        json_array_foreach(u->labels, k, label)
        {
            if (json_is_string(label))
                add_sum(d->sums[BY_LABEL], json_string_value(label), seconds);
        }
    }
}

// Parses a day or month; the result is its first moment.
static bool parse_date(const char *text, bool monthly, struct tm *out)
{
    *out = (struct tm){.tm_mday = 1};
    const char *end = text ? strptime(text, monthly ? "%Y-%m" : "%Y-%m-%d", out) : NULL;
    return end && !*end;
}

static int64_t moment_of(struct tm date)
{
    return (int64_t)timegm(&date) * 1000000;
}

static int read_periods(struct view *v, struct usage_periods *out, struct error *e)
{
    const char *period = query_get(v->query, "period");
    struct tm date, last;
    *out = (struct usage_periods){
        .monthly = period && !strcmp(period, "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_MONTHLY")};
    if (!out->monthly &&
        (!period || strcmp(period, "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY")))
        return error_set(e, ERR_INVALID,
                         "query parameter period: RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY or "
                         "_MONTHLY");
    if (!parse_date(query_get(v->query, "startDate"), out->monthly, &date) ||
        !parse_date(query_get(v->query, "endDate"), out->monthly, &last) ||
        moment_of(date) > moment_of(last))
        return error_set(e, ERR_INVALID,
                         "query parameters startDate, endDate: give dates like %s, in order",
                         out->monthly ? "2026-11" : "2026-11-21");
    out->items = arena_alloc(&v->rq->arena, PERIODS_MAX * sizeof *out->items);
    int64_t end = moment_of(last);
    for (int64_t at; (at = moment_of(date)) <= end; out->count++) {
        if (out->count == PERIODS_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d periods: choose a shorter time",
                             PERIODS_MAX);
        struct usage_period *d = &out->items[out->count];
        strftime(d->name, sizeof d->name, out->monthly ? "%Y-%m" : "%Y-%m-%d", &date);
        *(out->monthly ? &date.tm_mon : &date.tm_mday) += 1;
        d->start = at;
        d->end = moment_of(date);
        time_t next = (time_t)(d->end / 1000000);
        gmtime_r(&next, &date);
    }
    return 0;
}

static int sum_up(struct view *v, struct usage_periods *p, struct error *e)
{
    struct slot_use_scan s;
    int rc = 0;
    for (size_t i = 0; i < p->count; i++)
        for (int k = 0; k < SUMS; k++)
            p->items[i].sums[k] = json_object();
    scan_begin(v, &s, p->items[0].start, p->items[p->count - 1].end);
    while (!s.over && !rc)
        rc = scan_page(&s, v->db, add_use, p) < 0 ? store_failed(e) : 0;
    return rc;
}

static void periods_free(struct usage_periods *p)
{
    for (size_t i = 0; i < p->count; i++)
        for (int k = 0; k < SUMS; k++)
            json_decref(p->items[i].sums[k]);
}

int view_resources_aggregated(struct view *v, struct error *e)
{
    struct usage_periods p;
    int rc = read_periods(v, &p, e);
    if (!rc)
        rc = sum_up(v, &p, e);
    jw_object(&v->w);
    jw_key(&v->w, "resourceEntries");
    jw_array(&v->w);
    for (size_t i = 0; !rc && i < p.count; i++) {
        jw_object(&v->w);
        jw_kv_string(&v->w, "periodStart", p.items[i].name);
        jw_kv_string(&v->w, "period",
                     p.monthly ? "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_MONTHLY"
                               : "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY");
        jw_kv_double(&v->w, "seconds", p.items[i].total);
        jw_kv_raw(&v->w, "byAgentLabel", "{}");
        for (int k = 0; k < SUMS; k++) {
            jw_key(&v->w, sum_names[k].json);
            jw_json(&v->w, p.items[i].sums[k]);
        }
        jw_object_end(&v->w);
    }
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    periods_free(&p);
    return rc;
}

static void append_period_csv(struct buf *out, const struct usage_period *d)
{
    const char *key;
    json_t *sum;
    for (int k = 0; k < SUMS; k++)
        json_object_foreach(d->sums[k], key, sum)
        {
            buf_printf(out, "%s,", sum_names[k].csv);
            csv_append_cell(out, key);
            buf_printf(out, ",%s,%.6f\n", d->name, json_number_value(sum));
        }
    buf_printf(out, "total,total,%s,%.6f\n", d->name, d->total);
}

int view_resources_aggregated_csv(struct view *v, struct error *e)
{
    struct usage_periods p;
    int rc = read_periods(v, &p, e);
    if (!rc)
        rc = sum_up(v, &p, e);
    v->content_type = "text/csv";
    buf_puts(&v->rq->answer, "aggregation_type,aggregation_key,date,seconds\n");
    for (size_t i = 0; !rc && i < p.count; i++)
        append_period_csv(&v->rq->answer, &p.items[i]);
    periods_free(&p);
    return rc;
}
