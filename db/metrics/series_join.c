// Joins blocks: sorts the reports, omits those that a restart hides or a later report replaces, and
// joins the columns by name.

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "db/metrics/series.h"

// --- cuts ----------------------------------------------------------------------------------------

static int compare_cuts(const void *a, const void *b)
{
    const struct series_cut *x = a, *y = b;
    return (x->run > y->run) - (x->run < y->run);
}

// Afterwards `from` of a cut is the lowest of its own and all later cuts.
void series_cuts_sort(struct series_cuts *c)
{
    if (c->count)
        qsort(c->list, c->count, sizeof *c->list, compare_cuts);
    for (size_t i = c->count; i-- > 1;)
        if (c->list[i].from < c->list[i - 1].from)
            c->list[i - 1].from = c->list[i].from;
}

int64_t series_cuts_limit(const struct series_cuts *c, int64_t run)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->list[middle].run <= run)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->count ? c->list[low].from : INT64_MAX;
}

// --- reports -------------------------------------------------------------------------------------

struct report_ref { // one report in one of the blocks
    int64_t steps, id, run;
    uint32_t block, at;
};

struct report_refs {
    struct report_ref *list;
    size_t count;
    size_t *starts, rows; // list[starts[i]] .. list[starts[i + 1]] make row i of the result
};

static int compare_refs(const void *a, const void *b)
{
    const struct report_ref *x = a, *y = b;
    if (x->steps != y->steps)
        return x->steps < y->steps ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void refs_gather(struct arena *a, const struct series_block *blocks, size_t count,
                        const struct series_cuts *cuts, struct report_refs *out)
{
    size_t total = 0;
    bool sorted = true;
    for (size_t i = 0; i < count; i++)
        total += blocks[i].count;
    *out = (struct report_refs){.list = arena_alloc(a, (total + 1) * sizeof *out->list)};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < blocks[i].count; k++) {
            const struct series_block *b = &blocks[i];
            if (cuts->count && b->steps[k] > series_cuts_limit(cuts, b->runs[k]))
                continue;
            struct report_ref *r = &out->list[out->count++];
            *r = (struct report_ref){b->steps[k], b->ids[k], b->runs[k], (uint32_t)i, (uint32_t)k};
            sorted = sorted && (r == out->list || compare_refs(r - 1, r) < 0);
        }
    if (!sorted)
        qsort(out->list, out->count, sizeof *out->list, compare_refs);
}

// Keeps the reports of the latest run among list[from] .. list[end], which have one step; moves
// them to `to` and returns their number.
static size_t keep_latest_run(struct report_ref *list, size_t from, size_t end, size_t to)
{
    int64_t run = list[from].run;
    size_t kept = 0;
    for (size_t i = from + 1; i < end; i++)
        run = list[i].run > run ? list[i].run : run;
    for (size_t i = from; i < end; i++)
        if (list[i].run == run)
            list[to + kept++] = list[i];
    return kept;
}

// Makes one row per step; every report without a step is a row of its own.
static void refs_make_rows(struct arena *a, struct report_refs *r)
{
    size_t count = 0;
    r->starts = arena_alloc(a, (r->count + 1) * sizeof *r->starts);
    for (size_t i = 0, end; i < r->count; i = end) {
        int64_t steps = r->list[i].steps;
        end = i + 1;
        while (steps >= 0 && end < r->count && r->list[end].steps == steps)
            end++;
        r->starts[r->rows++] = count;
        count += keep_latest_run(r->list, i, end, count);
    }
    r->starts[r->rows] = count;
    r->count = count;
}

static void fill_axis(struct arena *a, const struct series_block *blocks,
                      const struct report_refs *r, struct series_block *out)
{
    *out = (struct series_block){.count = r->rows};
    out->ids = arena_alloc(a, (r->rows + 1) * sizeof *out->ids);
    out->runs = arena_alloc(a, (r->rows + 1) * sizeof *out->runs);
    out->steps = arena_alloc(a, (r->rows + 1) * sizeof *out->steps);
    out->times = arena_alloc(a, (r->rows + 1) * sizeof *out->times);
    for (size_t i = 0; i < r->rows; i++) {
        const struct report_ref *first = &r->list[r->starts[i]];
        out->ids[i] = first->id;
        out->runs[i] = first->run;
        out->steps[i] = first->steps;
        out->times[i] = blocks[first->block].times[first->at];
    }
}

// --- columns -------------------------------------------------------------------------------------

struct joined_names { // names of the result's columns, with a hash table
    struct series_column *columns;
    size_t count, cap;
    uint32_t *slots; // number + 1; 0: free
    size_t slot_count;
};

static uint32_t *names_slot(const struct joined_names *n, const char *name)
{
    size_t at = hash64(name, strlen(name)) & (n->slot_count - 1);
    while (n->slots[at] && strcmp(n->columns[n->slots[at] - 1].name, name))
        at = (at + 1) & (n->slot_count - 1);
    return &n->slots[at];
}

static void names_grow(struct arena *a, struct joined_names *n)
{
    size_t cap = n->cap ? 2 * n->cap : 32;
    struct series_column *columns = arena_alloc(a, cap * sizeof *columns);
    if (n->count)
        memcpy(columns, n->columns, n->count * sizeof *columns);
    n->columns = columns;
    n->cap = cap;
    n->slot_count = 2 * cap;
    n->slots = arena_alloc(a, n->slot_count * sizeof *n->slots);
    for (size_t i = 0; i < n->count; i++)
        *names_slot(n, columns[i].name) = (uint32_t)i + 1;
}

// Returns the number of a name, which is added if it is new. Reports mostly have the same metrics
// in the same order; then `guess` is right.
static uint32_t names_number(struct arena *a, struct joined_names *n, const char *name,
                             size_t guess)
{
    if (guess < n->count && !strcmp(n->columns[guess].name, name))
        return (uint32_t)guess;
    if (n->count == n->cap)
        names_grow(a, n);
    uint32_t *slot = names_slot(n, name);
    if (!*slot) {
        n->columns[n->count++] = (struct series_column){.name = name};
        *slot = (uint32_t)n->count;
    }
    return *slot - 1;
}

// Maps the columns of each block to columns of the result.
static uint32_t **map_columns(struct arena *a, const struct series_block *blocks, size_t count,
                              struct joined_names *n)
{
    uint32_t **maps = arena_alloc(a, (count + 1) * sizeof *maps);
    for (size_t i = 0; i < count; i++) {
        maps[i] = arena_alloc(a, (blocks[i].column_count + 1) * sizeof **maps);
        for (size_t k = 0; k < blocks[i].column_count; k++)
            maps[i][k] = names_number(a, n, blocks[i].columns[k].name, k);
    }
    return maps;
}

// Notes the range of rows of each column before the arrays are allocated.
static void column_widen(struct series_column *to, size_t row)
{
    if (to->end == to->first)
        to->first = row;
    to->end = row + 1; // rows come in ascending order
}

static void column_set(struct arena *a, struct series_column *to, size_t row,
                       const struct series_column *from, size_t at)
{
    size_t count = to->end - to->first;
    if (!to->kinds) {
        to->kinds = arena_alloc(a, count);
        to->values = arena_alloc(a, count * sizeof *to->values);
    }
    to->kinds[row - to->first] = from->kinds[at - from->first];
    to->values[row - to->first] = from->values[at - from->first];
    if (series_kind_at(from, at) != SERIES_JSON)
        return;
    if (!to->texts)
        to->texts = arena_alloc(a, count * sizeof *to->texts);
    to->texts[row - to->first] = from->texts[at - from->first];
}

// Visits every value twice: first to find the range of each column, then to store the values.
static void fill_columns(struct arena *a, const struct series_block *blocks,
                         const struct report_refs *r, uint32_t *const *maps, struct joined_names *n,
                         bool put)
{
    for (size_t row = 0; row < r->rows; row++)
        for (size_t i = r->starts[row]; i < r->starts[row + 1]; i++) {
            const struct series_block *b = &blocks[r->list[i].block];
            const uint32_t *map = maps[r->list[i].block];
            size_t at = r->list[i].at;
            for (size_t k = 0; k < b->column_count; k++) {
                if (series_kind_at(&b->columns[k], at) == SERIES_ABSENT)
                    continue;
                if (put)
                    column_set(a, &n->columns[map[k]], row, &b->columns[k], at);
                else
                    column_widen(&n->columns[map[k]], row);
            }
        }
}

void series_join(struct arena *a, const struct series_block *blocks, size_t count,
                 const struct series_cuts *cuts, struct series_block *out)
{
    struct report_refs refs;
    struct joined_names names = {0};
    must(count < UINT32_MAX);
    refs_gather(a, blocks, count, cuts, &refs);
    refs_make_rows(a, &refs);
    fill_axis(a, blocks, &refs, out);
    uint32_t **maps = map_columns(a, blocks, count, &names);
    fill_columns(a, blocks, &refs, maps, &names, false);
    fill_columns(a, blocks, &refs, maps, &names, true);
    out->columns = names.columns;
    out->column_count = names.count;
}
