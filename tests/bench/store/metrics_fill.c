// Fills the trials of a stopped master's store with metric points, as compaction leaves them: for
// each ended trial without metrics a block of training reports, and for one of them a long series
// as chunks.
//
//     metrics_fill FOLDER POINTS_PER_TRIAL LONG_SERIES
//
// Prints the trial of the long series and the numbers of rows as one line of JSON.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "db/metrics/compaction.h"

enum { METRICS = 4, BATCH_TRIALS = 2000, CHUNK = SERIES_CHUNK };

static const char *const names[METRICS] = {"loss", "accuracy", "grad_norm", "samples_per_second"};

struct metrics_filling {
    struct db *db;
    struct rng rng;
    struct arena arena;
    int64_t id, points, trials, long_trial;
};

static void commit(struct metrics_filling *f, struct db_batch *b)
{
    struct error e = {0};
    if (db_commit_wait(f->db, b, &e))
        log_die(__FILE__, __LINE__, e.text);
}

// Makes the values of a training with noise.
static void make_reports(struct metrics_filling *f, int64_t first, size_t count,
                         struct series_block *b)
{
    arena_reset(&f->arena);
    *b = (struct series_block){.count = count, .column_count = METRICS};
    b->ids = arena_alloc(&f->arena, count * sizeof *b->ids);
    b->runs = arena_alloc(&f->arena, count * sizeof *b->runs);
    b->steps = arena_alloc(&f->arena, count * sizeof *b->steps);
    b->times = arena_alloc(&f->arena, count * sizeof *b->times);
    b->columns = arena_alloc(&f->arena, METRICS * sizeof *b->columns);
    for (size_t k = 0; k < METRICS; k++) {
        struct series_column *c = &b->columns[k];
        c->name = names[k];
        c->end = count;
        c->kinds = arena_alloc(&f->arena, count);
        c->values = arena_alloc(&f->arena, count * sizeof *c->values);
        memset(c->kinds, SERIES_REAL, count);
        for (size_t i = 0; i < count; i++)
            c->values[i] = exp(-(double)(first + (int64_t)i) / 1e5) + rng_double(&f->rng) / 10;
    }
    for (size_t i = 0; i < count; i++) {
        b->ids[i] = f->id++;
        b->runs[i] = 1;
        b->steps[i] = (first + (int64_t)i) * 10;
        b->times[i] = 1700000000000000 + b->steps[i] * 20000 + rng_below(&f->rng, 1000);
    }
    f->points += (int64_t)count * METRICS;
}

static void fill_long(struct metrics_filling *f, int64_t points)
{
    struct series_block b;
    for (int64_t done = 0; done < points; done += CHUNK) {
        struct db_batch *batch = db_batch_new();
        make_reports(f, done, (size_t)(points - done < CHUNK ? points - done : CHUNK), &b);
        compaction_add_chunk(batch, f->long_trial, "training", &b, 0, b.count);
        commit(f, batch);
    }
}

static void fill_short(struct metrics_filling *f, const int64_t *trials, size_t count,
                       size_t reports)
{
    struct db_batch *batch = db_batch_new();
    struct series_block b;
    for (size_t i = 0; i < count; i++) {
        make_reports(f, 0, reports, &b);
        if (reports >= COMPACTION_KEEP)
            compaction_add_chunk(batch, trials[i], "training", &b, 0, reports);
        else
            compaction_add_row(batch, trials[i], "training", &b, 0, reports);
    }
    f->trials += (int64_t)count;
    commit(f, batch);
}

// Returns the ended trials without metrics. They are read first, so that no snapshot of the store
// is held while it grows.
static int64_t *find_trials(struct db_reader *r, size_t *count)
{
    int64_t *trials = NULL;
    struct db_rows *rows = db_query_sql(r,
                                        "SELECT id FROM trials WHERE ended_at IS NOT NULL AND id"
                                        " NOT IN (SELECT trial_id FROM metrics) ORDER BY id",
                                        NULL, 0);
    for (*count = 0; db_next(rows) == 1; ++*count) {
        if (!(*count & (*count - 1)))
            trials = xrealloc(trials, (*count ? 2 * *count : 1) * sizeof *trials);
        trials[*count] = db_get_integer(rows, 0);
    }
    db_rows_close(rows);
    must(*count > 0);
    return trials;
}

static void fill(struct metrics_filling *f, struct db_reader *r, size_t reports)
{
    size_t count;
    int64_t *trials = find_trials(r, &count);
    f->long_trial = trials[0];
    for (size_t i = 1; i < count; i += BATCH_TRIALS)
        fill_short(f, trials + i, count - i < BATCH_TRIALS ? count - i : BATCH_TRIALS, reports);
    free(trials);
}

int main(int argc, char **argv)
{
    struct metrics_filling f = {.id = 1};
    struct db_reader *r;
    struct error e = {0};
    char next[24];
    if (argc != 4) {
        fprintf(stderr, "metrics_fill FOLDER POINTS_PER_TRIAL LONG_SERIES\n");
        return 2;
    }
    if (db_open(argv[1], &f.db, &e) || db_reader_open(f.db, &r, &e))
        log_die(__FILE__, __LINE__, e.text);
    rng_seed(&f.rng, 1, 1);
    int64_t start = clock_mono_us();
    fill(&f, r, (size_t)(strtol(argv[2], NULL, 10) / METRICS));
    db_reader_close(r);
    fill_long(&f, strtoll(argv[3], NULL, 10));
    struct db_batch *batch = db_batch_new();
    snprintf(next, sizeof next, "%lld", (long long)f.id);
    DB_ADD(batch, META_SET, "metric_ids", next);
    commit(&f, batch);
    printf("{\"trial\": %lld, \"trials\": %lld, \"points\": %lld, \"seconds\": %.3f}\n",
           (long long)f.long_trial, (long long)f.trials, (long long)f.points,
           (double)(clock_mono_us() - start) / 1e6);
    db_close(f.db);
    arena_free(&f.arena);
    return 0;
}
