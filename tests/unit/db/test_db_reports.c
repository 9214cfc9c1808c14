// Random histories of reports with restarts, repetitions and late reports: the reader returns the
// same as a simple list of all reports, however many of them are compacted.
#include "tests/unit/db/store_test.h"

#include "base/rng.h"
#include "db/metrics/compaction.h"
#include "db/metrics/reports.h"

enum { POSTS = 4200, NAMES = 5, TRIAL = 7, HISTORIES = 12 };

struct sent_report { // a report as the trial sent it
    int64_t id, run, steps, time;
    bool has[NAMES];
    double value[NAMES];
};

struct read_report { // a report as the reader returns it
    int64_t id, run, steps, time;
    bool has[NAMES];
    double value[NAMES];
};

static const char *const names[NAMES] = {"loss", "accuracy", "lr", "epoch", "rare"};

struct report_history {
    struct sent_report list[POSTS];
    size_t count;
    struct series_cut cuts[64];
    size_t cut_count;
    int64_t run, step;
};

static struct rng rng;

// --- sent reports --------------------------------------------------------------------------------

static bool is_hidden(const struct report_history *h, const struct sent_report *s)
{
    for (size_t i = 0; i < h->cut_count; i++)
        if (h->cuts[i].run > s->run && s->steps > h->cuts[i].from)
            return true;
    return false;
}

static int compare_reports(const void *a, const void *b)
{
    const struct read_report *x = a, *y = b;
    if (x->steps != y->steps)
        return x->steps < y->steps ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void report_overlay(struct read_report *to, const struct sent_report *s)
{
    for (int i = 0; i < NAMES; i++)
        if (s->has[i]) {
            to->has[i] = true;
            to->value[i] = s->value[i];
        }
}

static struct read_report report_from_sent(const struct sent_report *s)
{
    struct read_report one = {.id = s->id, .run = s->run, .steps = s->steps, .time = s->time};
    report_overlay(&one, s);
    return one;
}

// Applies the rules without indexes: it compares every pair of reports.
static size_t expected(const struct report_history *h, struct read_report *out)
{
    size_t count = 0;
    for (size_t i = 0; i < h->count; i++) {
        const struct sent_report *s = &h->list[i];
        struct read_report *same = NULL;
        if (is_hidden(h, s))
            continue;
        for (size_t k = 0; s->steps >= 0 && k < count && !same; k++)
            same = out[k].steps == s->steps ? &out[k] : NULL;
        if (!same)
            out[count++] = report_from_sent(s);
        else if (same->run < s->run)
            *same = report_from_sent(s);
        else if (same->run == s->run)
            report_overlay(same, s);
    }
    qsort(out, count, sizeof *out, compare_reports);
    return count;
}

// --- read reports --------------------------------------------------------------------------------

static const struct series_column *column_named(const struct series_block *b, const char *name)
{
    for (size_t i = 0; i < b->column_count; i++)
        if (!strcmp(b->columns[i].name, name))
            return &b->columns[i];
    return NULL;
}

static struct read_report read_one(const struct series_block *b, size_t at)
{
    struct read_report one = {
        .id = b->ids[at], .run = b->runs[at], .steps = b->steps[at], .time = b->times[at]};
    for (int i = 0; i < NAMES; i++) {
        const struct series_column *c = column_named(b, names[i]);
        one.has[i] = c && series_number_at(c, at, &one.value[i]);
    }
    return one;
}

// Reads at most `max` of the reports of the query.
static size_t read_reports(struct db_reader *db, const struct reports_query *q,
                           struct read_report *out, size_t max)
{
    struct reports *r;
    struct reports_span span;
    struct error e = {0};
    size_t count = 0;
    assert_int_equal(db_snapshot_begin(db, &e), 0);
    int more = reports_open(db, q, &r, &e);
    while (!more && count < max && (more = reports_next(r, &span, &e)) == 1) {
        assert_true(span.first < span.end);
        for (size_t i = span.first; i < span.end && count < max; i++)
            out[count++] = read_one(span.block, i);
        more = 0;
    }
    if (more)
        fail_msg("%s", e.text);
    reports_close(r);
    db_snapshot_end(db);
    return count;
}

static void expect_same(const struct read_report *want, size_t want_count,
                        const struct read_report *got, size_t got_count)
{
    assert_int_equal(got_count, want_count);
    for (size_t i = 0; i < want_count; i++) {
        if (got[i].id != want[i].id || got[i].steps != want[i].steps)
            fail_msg("report %zu: id %lld of step %lld, not %lld of %lld", i, (long long)got[i].id,
                     (long long)got[i].steps, (long long)want[i].id, (long long)want[i].steps);
        assert_int_equal(got[i].run, want[i].run);
        assert_int_equal(got[i].time, want[i].time);
        for (int k = 0; k < NAMES; k++) {
            assert_int_equal(got[i].has[k], want[i].has[k]);
            assert_true(got[i].value[k] == want[i].value[k]);
        }
    }
}

static void expect_all(struct db_reader *db, const struct read_report *want, size_t count)
{
    struct read_report *got = calloc(POSTS + 1, sizeof *got);
    const struct reports_query q = REPORTS_ALL(TRIAL, "training");
    expect_same(want, count, got, read_reports(db, &q, got, POSTS + 1));
    free(got);
}

// Reads pages, each of which begins after the last report of the page before.
static void expect_pages(struct db_reader *db, const struct read_report *want, size_t count)
{
    struct read_report *got = calloc(POSTS + 1, sizeof *got);
    struct reports_query q = REPORTS_ALL(TRIAL, "training");
    size_t total = 0, n;
    while ((n = read_reports(db, &q, got + total, 1 + rng_below(&rng, 700))) > 0) {
        total += n;
        q.after_steps = got[total - 1].steps;
        q.after_id = got[total - 1].id;
    }
    expect_same(want, count, got, total);
    free(got);
}

// Reads a range of steps and two of the metrics.
static void expect_range(struct db_reader *db, const struct read_report *want, size_t count)
{
    static const char *const two[] = {"rare", "loss"};
    const struct series_names only = {two, 2};
    struct read_report *got = calloc(POSTS + 1, sizeof *got),
                       *part = calloc(POSTS + 1, sizeof *part);
    struct reports_query q = REPORTS_ALL(TRIAL, "training");
    size_t n = 0;
    q.from = rng_below(&rng, POSTS);
    q.to = q.from + rng_below(&rng, POSTS);
    q.only = &only;
    for (size_t i = 0; i < count; i++)
        if (want[i].steps >= q.from && want[i].steps <= q.to) {
            part[n] = want[i];
            for (int k = 1; k < 4; k++) {
                part[n].has[k] = false;
                part[n].value[k] = 0;
            }
            n++;
        }
    expect_same(part, n, got, read_reports(db, &q, got, POSTS + 1));
    free(got);
    free(part);
}

static void expect_everything(struct db_reader *db, const struct report_history *h)
{
    struct read_report *want = calloc(POSTS, sizeof *want);
    size_t count = expected(h, want);
    expect_all(db, want, count);
    expect_pages(db, want, count);
    expect_range(db, want, count);
    free(want);
}

// --- history -------------------------------------------------------------------------------------

static void store_reports(struct db_batch *b, const struct sent_report *s, size_t count)
{
    struct arena arena = {0};
    struct series_block block = {.count = count, .column_count = NAMES};
    int64_t *numbers = arena_alloc(&arena, 4 * count * sizeof *numbers);
    struct series_column columns[NAMES];
    block.ids = numbers;
    block.runs = numbers + count;
    block.steps = numbers + 2 * count;
    block.times = numbers + 3 * count;
    block.columns = columns;
    for (int k = 0; k < NAMES; k++)
        columns[k] = (struct series_column){.name = names[k],
                                            .end = count,
                                            .kinds = arena_alloc(&arena, count),
                                            .values = arena_alloc(&arena, count * sizeof(double))};
    for (size_t i = 0; i < count; i++) {
        block.ids[i] = s[i].id;
        block.runs[i] = s[i].run;
        block.steps[i] = s[i].steps;
        block.times[i] = s[i].time;
        for (int k = 0; k < NAMES; k++) {
            columns[k].kinds[i] = s[i].has[k] ? SERIES_REAL : SERIES_ABSENT;
            columns[k].values[i] = s[i].value[k];
        }
    }
    if (count >= COMPACTION_KEEP)
        compaction_add_chunk(b, TRIAL, "training", &block, 0, count);
    else
        compaction_add_row(b, TRIAL, "training", &block, 0, count);
    arena_free(&arena);
}

static void make_report(struct report_history *h, int64_t steps)
{
    struct sent_report *s = &h->list[h->count];
    *s = (struct sent_report){.id = (int64_t)h->count * 3 + 1, .run = h->run, .steps = steps};
    s->time = 1700000000000000 + s->id * 1000 + rng_below(&rng, 500);
    for (int k = 0; k < NAMES; k++) {
        s->has[k] = k == 4 ? !rng_below(&rng, 20) : rng_below(&rng, 8) > 0;
        s->value[k] = s->has[k] ? rng_double(&rng) : 0;
    }
    h->count++;
}

// Sends one post: a report, or columns of few or many reports.
static void post(struct report_history *h, struct db_batch *b)
{
    size_t first = h->count, room = POSTS - h->count;
    unsigned what = rng_below(&rng, 300);
    if (what == 0 && room > 700)
        for (int i = 0; i < 700; i++)
            make_report(h, ++h->step);
    else if (what < 4 && room > 20)
        for (int i = 0; i < 20; i++)
            make_report(h, ++h->step);
    else if (what < 20)
        make_report(h, h->step); // a repeated report
    else if (what < 30)
        make_report(h, rng_below(&rng, (uint32_t)h->step + 1)); // a late report
    else if (what < 36)
        make_report(h, -1);
    else
        make_report(h, h->step += 1 + !rng_below(&rng, 50) * 7);
    store_reports(b, h->list + first, h->count - first);
}

static void restart(struct report_history *h, struct db_batch *b)
{
    int64_t from = (int64_t)rng_below(&rng, (uint32_t)h->step + 2) - 1;
    h->run++;
    h->step = from < 0 ? 0 : from;
    h->cuts[h->cut_count++] = (struct series_cut){h->run, from};
    DB_ADD(b, METRIC_CUT_INSERT, TRIAL, h->run, from);
}

static void compact(struct store_fixture *f, bool ended)
{
    struct db_batch *b = db_batch_new();
    struct error e = {0};
    bool more;
    struct reports_version before, after;
    reports_version(f->db ? f->r : NULL, TRIAL, "training", &before, &e);
    if (compaction_run(f->r, TRIAL, ended, b, &more, &e))
        fail_msg("%s", e.text);
    assert_false(more);
    commit(f->db, b);
    reports_version(f->r, TRIAL, "training", &after, &e);
    assert_true(after.newest <= before.newest && after.cut == before.cut);
}

static void play_history(struct store_fixture *f, struct report_history *h, unsigned restarts)
{
    h->run = 1;
    while (h->count < POSTS) {
        struct db_batch *b = db_batch_new();
        for (unsigned i = 0; i < 100 && h->count < POSTS; i++)
            post(h, b);
        if (h->cut_count < restarts && !rng_below(&rng, 5))
            restart(h, b);
        commit(f->db, b);
        if (!rng_below(&rng, 3))
            compact(f, false);
    }
}

static void random_histories_are_read_completely(void **state)
{
    struct store_fixture *f = *state;
    static struct report_history h;
    for (unsigned i = 0; i < HISTORIES; i++) {
        h = (struct report_history){0};
        play_history(f, &h, i * 2);
        expect_everything(f->r, &h);
        compact(f, false);
        expect_everything(f->r, &h);
        compact(f, true);
        expect_everything(f->r, &h);
        assert_true(query_int(f->r, "SELECT count(*) FROM metrics") <= 1);
        assert_true(query_int(f->r, "SELECT count(*) FROM metric_chunks") > 0 || i > 2);
        compact(f, true); // nothing is left to compact
        expect_everything(f->r, &h);
        struct db_batch *b = db_batch_new();
        DB_ADD(b, METRICS_DELETE_COMPACTED, TRIAL, "training", INT64_MAX);
        commit(f->db, b);
        db_reader_close(f->r);
        db_close(f->db);
        char dir[32];
        f->db = store_open(store_folder(dir));
        f->r = reader_open(f->db);
    }
}

static void a_long_run_becomes_full_chunks(void **state)
{
    struct store_fixture *f = *state;
    static struct report_history h;
    h = (struct report_history){.run = 1};
    while (h.count < POSTS) {
        struct db_batch *b = db_batch_new();
        for (int i = 0; i < 100; i++, h.count++) {
            size_t at = h.count;
            make_report(&h, (int64_t)at + 1);
            h.count--;
            store_reports(b, &h.list[at], 1);
        }
        commit(f->db, b);
        compact(f, false);
    }
    assert_int_equal(query_int(f->r, "SELECT count(*) FROM metric_chunks"), 3);
    assert_int_equal(query_int(f->r, "SELECT min(reports) FROM metric_chunks"), SERIES_CHUNK);
    assert_int_equal(query_int(f->r, "SELECT max(reports) FROM metric_chunks"), SERIES_CHUNK);
    assert_int_equal(query_int(f->r, "SELECT sum(reports) FROM metrics"), POSTS - 3 * SERIES_CHUNK);
    expect_everything(f->r, &h);
    compact(f, true);
    assert_int_equal(query_int(f->r, "SELECT count(*) FROM metrics"), 0);
    expect_everything(f->r, &h);
}

// A reader in a snapshot keeps its view; a compaction in the meantime neither hides nor doubles
// reports.
static void a_snapshot_is_consistent(void **state)
{
    struct store_fixture *f = *state;
    static struct report_history h;
    struct error e = {0};
    struct read_report *want = calloc(POSTS, sizeof *want);
    h = (struct report_history){0};
    play_history(f, &h, 3);
    size_t count = expected(&h, want);
    struct db_reader *other = reader_open(f->db);
    assert_int_equal(db_snapshot_begin(f->r, &e), 0);
    expect_all(f->r, want, count);
    struct db_batch *b = db_batch_new();
    bool more;
    assert_int_equal(compaction_run(other, TRIAL, true, b, &more, &e), 0);
    commit(f->db, b);
    expect_all(f->r, want, count);
    assert_true(query_int(f->r, "SELECT count(*) FROM metrics") > 1);
    db_snapshot_end(f->r);
    assert_true(query_int(f->r, "SELECT count(*) FROM metrics") <= 1);
    db_reader_close(other);
    free(want);
}

// Metrics with names that occur once, as when a program writes the step into the name.
static void a_rare_name_takes_little_memory(void **state)
{
    enum { REPORTS = COMPACTION_AT, EACH = 20 };
    struct store_fixture *f = *state;
    struct arena arena = {0};
    struct db_batch *b = db_batch_new();
    uint8_t kind = SERIES_REAL;
    double value = 0.5;
    for (int64_t i = 0; i < REPORTS; i++) {
        int64_t id = i + 1, run = 1, step = i, time = i;
        struct series_column columns[EACH];
        for (int k = 0; k < EACH; k++)
            columns[k] =
                (struct series_column){.name = arena_printf(&arena, "%lld of %d", (long long)i, k),
                                       .end = 1,
                                       .kinds = &kind,
                                       .values = &value};
        const struct series_block one = {1, &id, &run, &step, &time, EACH, columns};
        compaction_add_row(b, TRIAL, "training", &one, 0, 1);
    }
    commit(f->db, b);
    for (int compacted = 0; compacted < 2; compacted++) {
        struct reports *r;
        struct reports_span span;
        struct error e = {0};
        const struct reports_query q = REPORTS_ALL(TRIAL, "training");
        size_t reports = 0, cells = 0;
        assert_int_equal(db_snapshot_begin(f->r, &e), 0);
        assert_int_equal(reports_open(f->r, &q, &r, &e), 0);
        while (reports_next(r, &span, &e) == 1) {
            reports += span.end - span.first;
            for (size_t i = 0; i < span.block->column_count; i++)
                cells += span.block->columns[i].end - span.block->columns[i].first;
        }
        assert_int_equal(reports, REPORTS);
        assert_int_equal(cells, REPORTS * EACH);
        reports_close(r);
        db_snapshot_end(f->r);
        compact(f, true);
    }
    assert_int_equal(query_int(f->r, "SELECT count(*) FROM metric_columns"), REPORTS * EACH);
    arena_free(&arena);
}

static void damage_is_reported(void **state)
{
    struct store_fixture *f = *state;
    struct error e = {0};
    struct reports *r;
    const struct reports_query q = REPORTS_ALL(TRIAL, "training");
    struct db_batch *b = db_batch_new();
    for (int i = 0; i < 2; i++)
        DB_ADD(b, METRIC_INSERT, NULL, TRIAL, "training", 1, DB_BLOB("nonsense", 8));
    commit(f->db, b);
    assert_int_equal(reports_open(f->r, &q, &r, &e), ERR_CORRUPT);
    reports_close(r);
    bool more;
    b = db_batch_new();
    assert_int_equal(compaction_run(f->r, TRIAL, true, b, &more, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "trial 7, group training"));
    db_batch_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(random_histories_are_read_completely),
        with_store(a_long_run_becomes_full_chunks),
        with_store(a_snapshot_is_consistent),
        with_store(a_rare_name_takes_little_memory),
        with_store(damage_is_reported),
    };
    rng_seed(&rng, 5, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
