// Compaction reads the rows of a group, joins them, and cuts the result into chunks of about
// SERIES_CHUNK reports, lowest step first; the rest becomes one row. A chunk has at least half as
// many reports, so that charts of long series read few blobs, and is never packed again.

#include "db/metrics/compaction.h"

#include "base/log.h"
#include "db/metrics/reports.h"

enum { CHUNK_BYTES = 2 << 20, CHUNK_MIN = 16 }; // reports of a chunk, if they are large

// --- writing -------------------------------------------------------------------------------------

static int64_t first_id(const struct series_block *b, size_t first, size_t count)
{
    int64_t lowest = b->ids[first];
    for (size_t i = first; i < first + count; i++)
        lowest = b->ids[i] < lowest ? b->ids[i] : lowest;
    return lowest;
}

static int64_t last_id(const struct series_block *b, size_t first, size_t count)
{
    int64_t last = b->ids[first];
    for (size_t i = first; i < first + count; i++)
        last = b->ids[i] > last ? b->ids[i] : last;
    return last;
}

size_t compaction_add_row(struct db_batch *batch, int64_t trial, const char *group,
                          const struct series_block *b, size_t first, size_t count)
{
    struct buf out;
    buf_init(&out, SERIES_BLOB_MAX);
    series_put_block(&out, b, first, count);
    must(!out.err);
    DB_ADD(batch, METRIC_INSERT, DB_NOT_NULL(first_id(b, first, count)), trial, group,
           (int64_t)count, DB_BLOB(out.data, out.len));
    size_t bytes = out.len;
    buf_free(&out);
    return bytes;
}

void compaction_add_chunk(struct db_batch *batch, int64_t trial, const char *group,
                          const struct series_block *b, size_t first, size_t count)
{
    int64_t id = first_id(b, first, count);
    struct buf out;
    buf_init(&out, SERIES_BLOB_MAX);
    series_put_axis(&out, b, first, count);
    DB_ADD(batch, METRIC_CHUNK_INSERT, id, trial, group, b->steps[first],
           b->steps[first + count - 1], last_id(b, first, count), (int64_t)count,
           DB_BLOB(out.data, out.len));
    for (size_t i = 0; i < b->column_count; i++) {
        if (!series_has(&b->columns[i], first, count))
            continue;
        buf_reset(&out);
        series_put_column(&out, &b->columns[i], first, count);
        must(!out.err);
        DB_ADD(batch, METRIC_COLUMN_INSERT, id, b->columns[i].name, DB_BLOB(out.data, out.len));
    }
    buf_free(&out);
}

// --- one group -----------------------------------------------------------------------------------

struct compaction_group {
    struct arena arena;
    struct series_block *rows; // decoded
    size_t count, reports, bytes;
    int64_t last; // id of the last row
};

static int group_add_row(struct compaction_group *g, struct db_rows *row, struct error *e)
{
    struct db_blob block = DB_GET(row, METRICS_OF_GROUP, data);
    g->last = DB_GET(row, METRICS_OF_GROUP, id);
    g->reports += (size_t)DB_GET(row, METRICS_OF_GROUP, reports);
    g->bytes += block.len;
    return series_get_block(&g->arena, block.data, block.len, NULL, &g->rows[g->count++], e);
}

static bool group_is_full(const struct compaction_group *g)
{
    return g->count == COMPACTION_ROWS_MAX || g->bytes >= COMPACTION_BYTES_MAX;
}

static int read_group(struct db_reader *db, int64_t trial, const char *name,
                      struct compaction_group *g, struct error *e)
{
    int err = 0, more;
    g->rows = arena_alloc(&g->arena, COMPACTION_ROWS_MAX * sizeof *g->rows);
    struct db_rows *rows =
        DB_QUERY(db, METRICS_OF_GROUP, trial, name, INT64_MIN, COMPACTION_ROWS_MAX);
    while (!err && !group_is_full(g) && (more = db_next(rows)) != 0)
        err =
            more < 0 ? error_set(e, ERR_IO, "the store cannot be read") : group_add_row(g, rows, e);
    db_rows_close(rows);
    return err ? error_prefix(e, "metrics of trial %lld, group %.64s", (long long)trial, name) : 0;
}

// The number of reports of a chunk; lower if they are large.
static size_t group_chunk_size(const struct compaction_group *g)
{
    size_t each = g->bytes / (g->reports + 1) + 1, fits = CHUNK_BYTES / each;
    return fits > SERIES_CHUNK ? SERIES_CHUNK : fits < CHUNK_MIN ? CHUNK_MIN : fits;
}

// The number of reports that go into chunks of about `size`, each at least half as large.
static size_t packed_count(size_t count, size_t size, bool all)
{
    size_t keep = size / 2;
    if (all)
        return count < keep ? 0 : count;
    return count < keep + size ? 0 : (count - keep) / size * size;
}

static void write_group(struct db_batch *batch, int64_t trial, const char *name,
                        const struct compaction_group *g, const struct series_block *b, bool all)
{
    size_t size = group_chunk_size(g), packed = packed_count(b->count, size, all), at = 0;
    DB_ADD(batch, METRICS_DELETE_COMPACTED, trial, name, g->last);
    for (size_t chunks = (packed + size / 2) / size; chunks > 0; chunks--) {
        size_t count = (packed - at) / chunks;
        compaction_add_chunk(batch, trial, name, b, at, count);
        at += count;
    }
    if (at < b->count)
        compaction_add_row(batch, trial, name, b, at, b->count - at);
}

static int group_is_due(struct db_reader *db, int64_t trial, const char *name, bool ended,
                        bool *due, struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, METRICS_WEIGHT, trial, name);
    int found = db_next(rows);
    if (found == 1)
        *due = ended ? DB_GET(rows, METRICS_WEIGHT, rows) > 1 ||
                           DB_GET(rows, METRICS_WEIGHT, reports) >= COMPACTION_KEEP
                     : DB_GET(rows, METRICS_WEIGHT, reports) >= COMPACTION_AT ||
                           DB_GET(rows, METRICS_WEIGHT, bytes) >= COMPACTION_AT_BYTES;
    db_rows_close(rows);
    return found == 1 ? 0 : error_set(e, ERR_IO, "the store cannot be read");
}

static int pack_group(struct db_reader *db, int64_t trial, const char *name, bool ended,
                      struct db_batch *batch, bool *more, struct error *e)
{
    struct compaction_group g = {0};
    struct series_cuts cuts;
    struct series_block joined;
    bool due = false;
    int err = group_is_due(db, trial, name, ended, &due, e);
    if (err || !due)
        return err;
    err = read_group(db, trial, name, &g, e);
    if (!err)
        err = reports_cuts(db, trial, &g.arena, &cuts, e);
    if (!err) {
        bool full = group_is_full(&g);
        series_join(&g.arena, g.rows, g.count, &cuts, &joined);
        write_group(batch, trial, name, &g, &joined, ended && !full);
        *more |= full;
    }
    arena_free(&g.arena);
    return err;
}

int compaction_run(struct db_reader *db, int64_t trial, bool ended, struct db_batch *batch,
                   bool *more, struct error *e)
{
    struct arena names = {0};
    const char *group = "";
    *more = false;
    int err = db_snapshot_begin(db, e);
    if (err)
        return err;
    while (!(err = reports_next_group(db, trial, group, &names, &group, e)) && group &&
           !(err = pack_group(db, trial, group, ended, batch, more, e)))
        ;
    db_snapshot_end(db);
    arena_free(&names);
    return err;
}
