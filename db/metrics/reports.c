// Merges sorted sources. The few rows of the tail are joined into one source. A chunk is opened
// when the merge reaches its first step, so that mostly one chunk is open. Steps of one source only
// are returned as a span; a step of several sources is joined first.

#include "db/metrics/reports.h"

#include <stdlib.h>

#include "base/log.h"

struct report_source {
    struct arena arena;
    struct series_block block;
    size_t at, end; // not returned yet
    struct report_source *next;
};

struct reports {
    struct db_reader *db;
    struct reports_query q;
    struct arena arena; // memory of `cuts` and the group
    struct series_cuts cuts;
    struct db_rows *chunks; // chunks that are not open yet; NULL: not queried
    bool chunk_pending;     // the cursor is on a chunk that is not open
    struct report_source *open, *spare;
    struct report_source *joined; // a step of several sources
};

static int set_read_error(struct error *e)
{
    return error_set(e, ERR_IO, "the store cannot be read; see the master's log");
}

// --- order ---------------------------------------------------------------------------------------

// Reports with a step are ordered by it, the others by their arrival.
static bool comes_before(int64_t steps, int64_t id, int64_t other_steps, int64_t other_id)
{
    return steps < other_steps || (steps == other_steps && steps < 0 && id < other_id);
}

// Returns the first report from `low` on that does not come before (steps, id).
static size_t source_find(const struct report_source *s, size_t low, int64_t steps, int64_t id)
{
    size_t high = s->block.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (comes_before(s->block.steps[middle], s->block.ids[middle], steps, id))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// --- sources -------------------------------------------------------------------------------------

static struct report_source *source_new(struct reports *r)
{
    struct report_source *s = r->spare;
    if (!s)
        return xcalloc(1, sizeof *s);
    r->spare = s->next;
    arena_reset(&s->arena);
    return s;
}

static void source_drop(struct reports *r, struct report_source *s)
{
    s->next = r->spare;
    r->spare = s;
}

static void source_free(struct report_source *s)
{
    while (s) {
        struct report_source *next = s->next;
        arena_free(&s->arena);
        free(s);
        s = next;
    }
}

// Returns whether series_join() would leave the block unchanged.
static bool block_is_joined(const struct series_block *b, const struct series_cuts *cuts)
{
    for (size_t i = 1; i < b->count; i++)
        if (!comes_before(b->steps[i - 1], b->ids[i - 1], b->steps[i], b->ids[i]))
            return false;
    for (size_t i = 0; cuts->count && i < b->count; i++)
        if (b->steps[i] > series_cuts_limit(cuts, b->runs[i]))
            return false;
    return true;
}

static void source_begin(struct reports *r, struct report_source *s)
{
    const struct reports_query *q = &r->q;
    if (!block_is_joined(&s->block, &r->cuts)) {
        struct series_block untidy = s->block;
        series_join(&s->arena, &untidy, 1, &r->cuts, &s->block);
    }
    s->at = source_find(s, 0, q->from, INT64_MIN);
    if (q->after_steps != INT64_MIN)
        s->at = source_find(s, s->at, q->after_steps + (q->after_steps >= 0), q->after_id + 1);
    s->end = q->to == INT64_MAX ? s->block.count : source_find(s, s->at, q->to + 1, INT64_MIN);
    if (s->at >= s->end)
        return source_drop(r, s);
    s->next = r->open;
    r->open = s;
}

// --- the tail ------------------------------------------------------------------------------------

struct report_rows { // decoded
    struct series_block *list;
    size_t count, cap;
};

static int read_row(struct reports *r, struct report_source *s, struct db_rows *rows,
                    struct report_rows *out, struct error *e)
{
    struct db_blob block = DB_GET(rows, METRICS_OF_GROUP, data);
    if (out->count == out->cap) {
        out->cap = out->cap ? 2 * out->cap : 64;
        out->list = xrealloc(out->list, out->cap * sizeof *out->list);
    }
    return series_get_block(&s->arena, block.data, block.len, r->q.only, &out->list[out->count++],
                            e);
}

static int open_tail(struct reports *r, struct error *e)
{
    struct report_source *s = source_new(r);
    struct report_rows out = {0};
    int err = 0, more;
    struct db_rows *rows =
        DB_QUERY(r->db, METRICS_OF_GROUP, r->q.trial, r->q.group, INT64_MIN, INT64_MAX);
    while (!err && (more = db_next(rows)) != 0)
        err = more < 0 ? set_read_error(e) : read_row(r, s, rows, &out, e);
    db_rows_close(rows);
    series_join(&s->arena, out.list, err ? 0 : out.count, &r->cuts, &s->block);
    free(out.list);
    source_begin(r, s);
    return err;
}

// --- chunks --------------------------------------------------------------------------------------

static int read_column(struct report_source *s, struct db_blob data, struct series_column *out,
                       struct error *e)
{
    return series_get_column(&s->arena, data.data, data.len, s->block.count, out, e);
}

static int read_wanted_columns(struct reports *r, struct report_source *s, int64_t chunk,
                               struct error *e)
{
    const struct series_names *only = r->q.only;
    int err = 0;
    s->block.columns = arena_alloc(&s->arena, (only->count + 1) * sizeof *s->block.columns);
    s->block.column_count = only->count;
    for (size_t i = 0; i < only->count && !err; i++) {
        struct series_column *c = &s->block.columns[i];
        c->name = only->names[i];
        struct db_rows *rows = DB_QUERY(r->db, METRIC_COLUMN, chunk, c->name);
        int found = db_next(rows);
        if (found)
            err = found < 0 ? set_read_error(e)
                            : read_column(s, DB_GET(rows, METRIC_COLUMN, data), c, e);
        db_rows_close(rows);
    }
    return err;
}

static int read_all_columns(struct reports *r, struct report_source *s, int64_t chunk,
                            struct error *e)
{
    struct series_block *b = &s->block;
    size_t cap = 0;
    int err = 0, more;
    struct db_rows *rows = DB_QUERY(r->db, METRIC_COLUMNS, chunk);
    while (!err && (more = db_next(rows)) != 0) {
        if (b->column_count == cap) {
            struct series_column *old = b->columns;
            cap = cap ? 2 * cap : 32;
            b->columns = arena_alloc(&s->arena, cap * sizeof *b->columns);
            for (size_t i = 0; i < b->column_count; i++)
                b->columns[i] = old[i];
        }
        struct series_column *c = &b->columns[b->column_count++];
        c->name = more < 0 ? "" : arena_strdup(&s->arena, DB_GET(rows, METRIC_COLUMNS, metric));
        err =
            more < 0 ? set_read_error(e) : read_column(s, DB_GET(rows, METRIC_COLUMNS, data), c, e);
    }
    db_rows_close(rows);
    return err;
}

static int next_chunk(struct reports *r, struct error *e)
{
    int more = db_next(r->chunks);
    r->chunk_pending = more == 1;
    return more < 0 ? set_read_error(e) : 0;
}

static int open_chunk(struct reports *r, struct error *e)
{
    struct report_source *s = source_new(r);
    int64_t id = DB_GET(r->chunks, METRIC_CHUNKS_OF_GROUP, id);
    struct db_blob axis = DB_GET(r->chunks, METRIC_CHUNKS_OF_GROUP, axis);
    int err = series_get_axis(&s->arena, axis.data, axis.len, &s->block, e);
    if (!err)
        err = r->q.only ? read_wanted_columns(r, s, id, e) : read_all_columns(r, s, id, e);
    if (err) {
        source_drop(r, s);
        return error_prefix(e, "chunk %lld of trial %lld", (long long)id, (long long)r->q.trial);
    }
    source_begin(r, s);
    return next_chunk(r, e);
}

// --- merging -------------------------------------------------------------------------------------

// The source with the next report. `limit`: the position at which another source has a report;
// `shared`: another source has the same step.
struct merge_step {
    struct report_source *first;
    int64_t limit_steps, limit_id;
    bool shared;
};

static void merge_lower_limit(struct merge_step *t, int64_t steps, int64_t id)
{
    if (comes_before(steps, id, t->limit_steps, t->limit_id)) {
        t->limit_steps = steps;
        t->limit_id = id;
    }
}

static void merge_find_next(const struct reports *r, struct merge_step *t)
{
    *t = (struct merge_step){.limit_steps = INT64_MAX, .limit_id = INT64_MAX};
    for (struct report_source *s = r->open; s; s = s->next)
        if (!t->first ||
            comes_before(s->block.steps[s->at], s->block.ids[s->at],
                         t->first->block.steps[t->first->at], t->first->block.ids[t->first->at]))
            t->first = s;
    if (!t->first)
        return;
    int64_t steps = t->first->block.steps[t->first->at];
    for (struct report_source *s = r->open; s; s = s->next)
        if (s != t->first) {
            t->shared |= steps >= 0 && s->block.steps[s->at] == steps;
            merge_lower_limit(t, s->block.steps[s->at], s->block.ids[s->at]);
        }
    if (r->chunk_pending)
        merge_lower_limit(t, DB_GET(r->chunks, METRIC_CHUNKS_OF_GROUP, first_steps),
                          DB_GET(r->chunks, METRIC_CHUNKS_OF_GROUP, id));
}

// Returns whether the next chunk may have the next report, or a report of the same step.
static bool chunk_is_due(const struct reports *r, const struct merge_step *t)
{
    if (!r->chunk_pending || !t->first)
        return r->chunk_pending;
    const struct series_block *b = &t->first->block;
    int64_t steps = DB_GET(r->chunks, METRIC_CHUNKS_OF_GROUP, first_steps),
            id = DB_GET(r->chunks, METRIC_CHUNKS_OF_GROUP, id);
    return !comes_before(b->steps[t->first->at], b->ids[t->first->at], steps, id);
}

// Drops sources without further reports; one is kept for reuse.
static void drop_ended_sources(struct reports *r)
{
    for (struct report_source **link = &r->open; *link;) {
        struct report_source *s = *link;
        if (s->at < s->end) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        source_drop(r, s);
    }
}

// Returns a block with one report of `b`, without copying.
static struct series_block block_of_one(struct arena *a, const struct series_block *b, size_t at)
{
    struct series_block one = {.count = 1,
                               .ids = b->ids + at,
                               .runs = b->runs + at,
                               .steps = b->steps + at,
                               .times = b->times + at,
                               .column_count = b->column_count};
    one.columns = arena_alloc(a, (b->column_count + 1) * sizeof *one.columns);
    for (size_t i = 0; i < b->column_count; i++) {
        const struct series_column *c = &b->columns[i];
        one.columns[i] = (struct series_column){.name = c->name};
        if (series_kind_at(c, at) != SERIES_ABSENT) {
            one.columns[i].end = 1;
            one.columns[i].kinds = c->kinds + (at - c->first);
            one.columns[i].values = c->values + (at - c->first);
            one.columns[i].texts = c->texts ? c->texts + (at - c->first) : NULL;
        }
    }
    return one;
}

static void join_step(struct reports *r, int64_t steps, struct reports_span *out)
{
    struct report_source *j = r->joined;
    size_t count = 0;
    arena_reset(&j->arena);
    for (struct report_source *s = r->open; s; s = s->next)
        count++;
    struct series_block *blocks = arena_alloc(&j->arena, count * sizeof *blocks);
    count = 0;
    for (struct report_source *s = r->open; s; s = s->next)
        if (s->block.steps[s->at] == steps)
            blocks[count++] = block_of_one(&j->arena, &s->block, s->at++);
    series_join(&j->arena, blocks, count, &r->cuts, &j->block);
    *out = (struct reports_span){&j->block, 0, j->block.count};
}

int reports_next(struct reports *r, struct reports_span *out, struct error *e)
{
    struct merge_step t;
    int err = 0;
    drop_ended_sources(r);
    for (merge_find_next(r, &t); chunk_is_due(r, &t); merge_find_next(r, &t)) {
        err = open_chunk(r, e);
        if (err)
            return err;
    }
    if (!t.first)
        return 0;
    struct report_source *s = t.first;
    if (t.shared) {
        join_step(r, s->block.steps[s->at], out);
        return 1;
    }
    size_t end = source_find(s, s->at + 1, t.limit_steps, t.limit_id);
    *out = (struct reports_span){&s->block, s->at, end < s->end ? end : s->end};
    s->at = out->end;
    return 1;
}

// --- open and close ------------------------------------------------------------------------------

int reports_cuts(struct db_reader *db, int64_t trial, struct arena *a, struct series_cuts *out,
                 struct error *e)
{
    size_t cap = 0;
    int more;
    *out = (struct series_cuts){0};
    struct db_rows *rows = DB_QUERY(db, METRIC_CUTS, trial);
    while ((more = db_next(rows)) == 1) {
        if (out->count == cap) {
            struct series_cut *old = out->list;
            cap = cap ? 2 * cap : 8;
            out->list = arena_alloc(a, cap * sizeof *out->list);
            for (size_t i = 0; i < out->count; i++)
                out->list[i] = old[i];
        }
        out->list[out->count++] = (struct series_cut){DB_GET(rows, METRIC_CUTS, run_id),
                                                      DB_GET(rows, METRIC_CUTS, from_steps)};
    }
    db_rows_close(rows);
    series_cuts_sort(out);
    return more ? set_read_error(e) : 0;
}

int reports_open(struct db_reader *db, const struct reports_query *q, struct reports **out,
                 struct error *e)
{
    struct reports *r = xcalloc(1, sizeof *r);
    int64_t from = q->from > q->after_steps ? q->from : q->after_steps;
    *out = r;
    r->db = db;
    r->q = *q;
    r->q.group = arena_strdup(&r->arena, q->group);
    r->joined = xcalloc(1, sizeof *r->joined);
    int err = reports_cuts(db, q->trial, &r->arena, &r->cuts, e);
    if (!err)
        err = open_tail(r, e);
    if (err)
        return err;
    r->chunks = DB_QUERY(db, METRIC_CHUNKS_OF_GROUP, q->trial, r->q.group, from,
                         from == q->after_steps && from < 0 ? q->after_id : INT64_MIN, q->to);
    return next_chunk(r, e);
}

void reports_close(struct reports *r)
{
    if (!r)
        return;
    db_rows_close(r->chunks);
    source_free(r->open);
    source_free(r->spare);
    source_free(r->joined);
    arena_free(&r->arena);
    free(r);
}

int reports_version(struct db_reader *db, int64_t trial, const char *group,
                    struct reports_version *out, struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, METRICS_NEWEST, trial, group);
    int found = db_next(rows);
    if (found == 1) {
        int64_t row = DB_GET(rows, METRICS_NEWEST, row_id),
                chunk = DB_GET(rows, METRICS_NEWEST, chunk_id);
        *out = (struct reports_version){row > chunk ? row : chunk,
                                        DB_GET(rows, METRICS_NEWEST, cut_run_id)};
    }
    db_rows_close(rows);
    return found == 1 ? 0 : set_read_error(e);
}

int reports_next_group(struct db_reader *db, int64_t trial, const char *group, struct arena *a,
                       const char **out, struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, METRICS_NEXT_GROUP, trial, group);
    int found = db_next(rows);
    *out = found == 1 ? arena_strdup(a, DB_GET(rows, METRICS_NEXT_GROUP, grp)) : NULL;
    db_rows_close(rows);
    return found == 1 ? 0 : set_read_error(e);
}
