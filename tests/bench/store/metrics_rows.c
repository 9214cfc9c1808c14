// The peer of the metrics benchmark: SQLite alone, with one row per point in a table that is
// clustered by series. It inserts transactions of a thousand reports and reads a series back in
// order, without HTTP and JSON. A tracker that keeps points as rows cannot be faster.
//
//     metrics_rows FILE METRICS SECONDS LONG_SERIES
//
// Prints points per second and the milliseconds that reading the long series takes, as JSON.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

enum { TRIALS = 64, REPORTS = 1000 };

static void execute(sqlite3 *db, const char *sql)
{
    must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

static void insert(sqlite3_stmt *s, int64_t series, int64_t step, double value)
{
    sqlite3_bind_int64(s, 1, series);
    sqlite3_bind_int64(s, 2, step);
    sqlite3_bind_int64(s, 3, 1700000000000000 + step);
    sqlite3_bind_double(s, 4, value);
    must(sqlite3_step(s) == SQLITE_DONE);
    sqlite3_reset(s);
}

// All trials report in turn, as they do over the network.
static double ingest(sqlite3 *db, sqlite3_stmt *s, int metrics, double seconds)
{
    struct rng rng;
    int64_t start = clock_mono_us(), until = start + (int64_t)(seconds * 1e6), points = 0;
    rng_seed(&rng, 1, 1);
    for (int64_t report = 0; clock_mono_us() < until;) {
        execute(db, "BEGIN IMMEDIATE");
        for (int i = 0; i < REPORTS; i++, report++)
            for (int m = 0; m < metrics; m++, points++)
                insert(s, report % TRIALS * metrics + m, report / TRIALS, rng_double(&rng));
        execute(db, "COMMIT");
    }
    return (double)points / ((double)(clock_mono_us() - start) / 1e6);
}

static double read_series(sqlite3 *db, sqlite3_stmt *s, int64_t count)
{
    struct rng rng;
    sqlite3_stmt *all;
    rng_seed(&rng, 1, 2);
    execute(db, "BEGIN IMMEDIATE");
    for (int64_t i = 0; i < count; i++)
        insert(s, 1 << 30, i, rng_double(&rng));
    execute(db, "COMMIT");
    must(sqlite3_prepare_v2(db, "SELECT step, time, value FROM points WHERE series = 1073741824",
                            -1, &all, NULL) == SQLITE_OK);
    int64_t start = clock_mono_us(), seen = 0;
    for (; sqlite3_step(all) == SQLITE_ROW; seen++)
        must(sqlite3_column_int64(all, 0) == seen && sqlite3_column_double(all, 2) <= 1);
    must(seen == count);
    sqlite3_finalize(all);
    return (double)(clock_mono_us() - start) / 1e3;
}

int main(int argc, char **argv)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    if (argc != 5) {
        fprintf(stderr, "metrics_rows FILE METRICS SECONDS LONG_SERIES\n");
        return 2;
    }
    must(sqlite3_open(argv[1], &db) == SQLITE_OK);
    execute(db, "PRAGMA journal_mode = WAL");
    execute(db, "PRAGMA synchronous = FULL");
    execute(db, "CREATE TABLE points (series INTEGER, step INTEGER, time INTEGER, value REAL,"
                " PRIMARY KEY (series, step)) WITHOUT ROWID");
    must(sqlite3_prepare_v2(db, "INSERT INTO points VALUES (?, ?, ?, ?)", -1, &s, NULL) ==
         SQLITE_OK);
    double rate = ingest(db, s, (int)strtol(argv[2], NULL, 10), strtod(argv[3], NULL));
    double ms = read_series(db, s, strtoll(argv[4], NULL, 10));
    printf("{\"points_per_second\": %.0f, \"read_ms\": %.3f}\n", rate, ms);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return 0;
}
