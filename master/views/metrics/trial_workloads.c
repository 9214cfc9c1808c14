// Training reports, validations and checkpoints of a trial in one list, sorted by steps or time.
// The list is built without metric values; these are read for the requested page only.

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "db/metrics/reports.h"
#include "db/metrics/series_json.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

enum workload_kind { TRAINING, VALIDATION, CHECKPOINT, KINDS };

static const char *const words[KINDS] = {"training", "validation", "checkpoint"};

struct workload {
    enum workload_kind kind;
    int64_t steps, time, id; // id: of a report; index of a checkpoint
    const char *text;        // a checkpoint's uuid, or a report's JSON; NULL: not read yet
};

struct workload_list {
    struct view *v;
    struct arena *arena;
    int64_t trial;
    bool wanted[KINDS], batches, without_deleted;
    bool by_time, by_key, descends;
    struct workload *items;
    size_t count, cap;
};

// --- parameters --------------------------------------------------------------------------------

static void read_filter(struct workload_list *l)
{
    static const struct {
        const char *name;
        bool wanted[KINDS];
    } filters[] = {{"FILTER_OPTION_CHECKPOINT", {false, false, true}},
                   {"FILTER_OPTION_VALIDATION", {false, true, false}},
                   {"FILTER_OPTION_CHECKPOINT_OR_VALIDATION", {false, true, true}}};
    const char *asked = query_get(l->v->query, "filter");
    const char *group = query_get(l->v->query, "group");
    for (int k = 0; k < KINDS; k++)
        l->wanted[k] = true;
    for (size_t i = 0; asked && i < sizeof filters / sizeof *filters; i++)
        if (!strcmp(asked, filters[i].name))
            memcpy(l->wanted, filters[i].wanted, sizeof l->wanted);
    for (int k = TRAINING; k <= VALIDATION; k++)
        l->wanted[k] = l->wanted[k] && (!group || !*group || !strcmp(group, words[k]));
    l->batches = query_flag(l->v->query, "includeBatchMetrics");
    l->without_deleted = query_flag(l->v->query, "removeDeletedCheckpoints");
}

static int read_order(struct workload_list *l, struct error *e)
{
    const char *by = query_get(l->v->query, "sortKey");
    l->by_key = by && *by && strcmp(by, "SORT_BY_UNSPECIFIED");
    l->by_time = l->by_key && !strcmp(by, "endTime");
    if (l->by_key && !l->by_time && strcmp(by, "batches") && strcmp(by, "totalBatches"))
        return error_set(e, ERR_INVALID,
                         "query parameter sortKey: this list cannot be sorted by \"%.64s\"", by);
    return request_query_order(l->v->rq, &l->descends, e);
}

// --- the list without values ---------------------------------------------------------------------

static void add_workload(struct workload_list *l, struct workload item)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->items = xrealloc(l->items, l->cap * sizeof *l->items);
    }
    l->items[l->count++] = item;
}

static int collect_reports(struct workload_list *l, enum workload_kind kind, struct error *e)
{
    static const struct series_names none = {0};
    struct reports_query q = REPORTS_ALL(l->trial, words[kind]);
    struct reports *r = NULL;
    struct reports_span span;
    q.only = &none;
    int more = reports_open(l->v->db, &q, &r, e);
    if (!more)
        while ((more = reports_next(r, &span, e)) == 1)
            for (size_t i = span.first; i < span.end; i++)
                add_workload(l, (struct workload){.kind = kind,
                                                  .steps = span.block->steps[i],
                                                  .time = span.block->times[i],
                                                  .id = span.block->ids[i]});
    reports_close(r);
    return more;
}

static int collect_checkpoints(struct workload_list *l, struct error *e)
{
    int more;
    struct db_rows *rows = DB_QUERY(l->v->db, WORKLOAD_CHECKPOINTS, l->trial, l->without_deleted);
    for (int64_t place = 0; (more = db_next(rows)) == 1; place++)
        add_workload(l, (struct workload){.kind = CHECKPOINT,
                                          .steps = DB_GET(rows, WORKLOAD_CHECKPOINTS, steps),
                                          .time = DB_GET(rows, WORKLOAD_CHECKPOINTS, reported_at),
                                          .id = place,
                                          .text = arena_strdup(
                                              l->arena, DB_GET(rows, WORKLOAD_CHECKPOINTS, uuid))});
    db_rows_close(rows);
    return more ? store_failed(e) : 0;
}

static int compare_integers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_steps(const void *a, const void *b)
{
    const struct workload *x = a, *y = b;
    int order = compare_integers(x->steps, y->steps);
    if (!order)
        order = compare_integers(x->kind, y->kind);
    return order ? order : compare_integers(x->id, y->id);
}

static int by_time(const void *a, const void *b)
{
    int order =
        compare_integers(((const struct workload *)a)->time, ((const struct workload *)b)->time);
    return order ? order : by_steps(a, b);
}

static void sort_workloads(struct workload_list *l)
{
    if (l->count)
        qsort(l->items, l->count, sizeof *l->items, l->by_time ? by_time : by_steps);
    for (size_t i = 0; l->descends && i < l->count / 2; i++) {
        struct workload other = l->items[l->count - 1 - i];
        l->items[l->count - 1 - i] = l->items[i];
        l->items[i] = other;
    }
}

// --- the page ------------------------------------------------------------------------------------

static const char *report_json(struct workload_list *l, const struct series_block *b, size_t at)
{
    struct buf out;
    struct json_writer w;
    const char *batches = l->batches ? series_batches(b, at) : NULL;
    buf_init(&out, SERIES_BLOB_MAX);
    jw_init(&w, &out);
    jw_object(&w);
    write_time(&w, "endTime", b->times[at]);
    jw_kv_int(&w, "totalBatches", b->steps[at]);
    jw_kv_int(&w, "numInputs", 0);
    jw_key(&w, "metrics");
    jw_object(&w);
    jw_key(&w, "avgMetrics");
    series_write_values(&w, b, at);
    if (batches)
        jw_kv_raw(&w, "batchMetrics", batches);
    jw_object_end(&w);
    jw_object_end(&w);
    const char *text = arena_strdup(l->arena, buf_str(&out));
    buf_free(&out);
    return text;
}

static int by_steps_indirect(const void *a, const void *b)
{
    return by_steps(*(struct workload *const *)a, *(struct workload *const *)b);
}

// Collects the reports of one kind among the workloads, sorted by steps, and returns their number.
static size_t reports_of_kind(struct workload_list *l, struct workload *items, size_t count,
                              enum workload_kind kind, struct workload ***out)
{
    size_t n = 0;
    struct workload **list = arena_alloc(l->arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++)
        if (items[i].kind == kind)
            list[n++] = &items[i];
    if (n)
        qsort(list, n, sizeof *list, by_steps_indirect);
    *out = list;
    return n;
}

// Both lists have the same order.
static void fill_matching(struct workload_list *l, const struct reports_span *span,
                          struct workload **list, size_t count, size_t *at)
{
    for (size_t i = span->first; i < span->end && *at < count; i++)
        if (span->block->ids[i] == list[*at]->id)
            list[(*at)++]->text = report_json(l, span->block, i);
}

static int read_reports(struct workload_list *l, struct workload *items, size_t count,
                        enum workload_kind kind, struct error *e)
{
    struct workload **list;
    struct reports *r = NULL;
    struct reports_span span;
    struct reports_query q = REPORTS_ALL(l->trial, words[kind]);
    size_t n = reports_of_kind(l, items, count, kind, &list), at = 0;
    if (!n)
        return 0;
    q.from = list[0]->steps;
    q.to = list[n - 1]->steps;
    int more = reports_open(l->v->db, &q, &r, e);
    if (!more)
        while (at < n && (more = reports_next(r, &span, e)) == 1)
            fill_matching(l, &span, list, n, &at);
    reports_close(r);
    return more < 0 ? more : 0;
}

static int write_item(struct workload_list *l, const struct workload *item, struct error *e)
{
    struct json_writer *w = &l->v->w;
    jw_object(w);
    jw_key(w, words[item->kind]);
    if (item->kind != CHECKPOINT) {
        jw_raw(w, item->text);
        jw_object_end(w);
        return 0;
    }
    struct db_rows *rows = DB_QUERY(l->v->db, WORKLOAD_CHECKPOINT_BY_UUID, item->text);
    int found = db_next(rows);
    if (found == 1)
        write_checkpoint_workload(w, rows);
    db_rows_close(rows);
    jw_object_end(w);
    return found == 1 ? 0 : store_failed(e);
}

static int write_page(struct workload_list *l, struct list *page, struct error *e)
{
    struct json_writer *w = &l->v->w;
    int64_t total = (int64_t)l->count;
    if (page->offset < 0)
        page->offset = page->offset + total > 0 ? page->offset + total : 0;
    int64_t left = page->offset < total ? total - page->offset : 0;
    int64_t count = page->limit >= 0 && page->limit < left ? page->limit : left;
    struct workload *items =
        left ? l->items + page->offset : l->items; // l->items is NULL if the list is empty
    int err = read_reports(l, items, (size_t)count, TRAINING, e);
    if (!err)
        err = read_reports(l, items, (size_t)count, VALIDATION, e);
    jw_object(w);
    jw_key(w, "workloads");
    jw_array(w);
    for (int64_t i = 0; i < count && !err; i++)
        err = write_item(l, &items[i], e);
    jw_array_end(w);
    wire_write_pagination(w, page->offset, page->limit < 0 ? 0 : page->limit, count, total);
    jw_object_end(w);
    return err;
}

static int answer_workloads(struct workload_list *l, struct list *page, struct error *e)
{
    int err = page->error.code ? error_set(e, page->error.code, "%s", page->error.text) : 0;
    for (int k = TRAINING; k <= VALIDATION; k++)
        if (!err && l->wanted[k])
            err = collect_reports(l, (enum workload_kind)k, e);
    if (!err && l->wanted[CHECKPOINT])
        err = collect_checkpoints(l, e);
    if (err)
        return err;
    sort_workloads(l);
    return write_page(l, page, e);
}

int view_trial_workloads(struct view *v, struct error *e)
{
    struct workload_list l = {.v = v, .arena = &v->rq->arena};
    struct list page;
    int err = request_param_int(v->rq, 0, &l.trial, e);
    if (!err)
        err = read_order(&l, e);
    if (!err)
        err = db_snapshot_begin(v->db, e);
    if (err)
        return err;
    read_filter(&l);
    list_init(&page, v);
    list_page(&page);
    err = answer_workloads(&l, &page, e);
    db_snapshot_end(v->db);
    buf_free(&page.where);
    buf_free(&page.order);
    free(l.items);
    return err;
}
