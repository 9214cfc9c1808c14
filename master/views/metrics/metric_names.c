// The names of the metrics that experiments reported, as a stream that repeats while one of the
// experiments is active.

#include <stdlib.h>

#include "base/clock.h"
#include "master/views/views.h"

enum { NAMES_PERIOD_S = 30, NAMES_EXPERIMENTS_MAX = QUERY_PAIRS_MAX };

struct metric_names_stream {
    struct stream stream;
    const int64_t *experiments;
    size_t count;
    int64_t period_s; // seconds
};

// Writes the names of one group, of all experiments together, without the group.
static int write_names(struct json_writer *w, struct db_reader *db, const char *ids,
                       const char *group, const char *key)
{
    struct db_rows *rows = DB_QUERY(db, METRIC_NAMES, ids, group);
    int more;
    jw_key(w, key);
    jw_array(w);
    while ((more = db_next(rows)) == 1)
        jw_string(w, DB_GET(rows, METRIC_NAMES, name));
    jw_array_end(w);
    db_rows_close(rows);
    return more;
}

static int write_searcher_metrics(struct json_writer *w, struct db_reader *db, const char *ids,
                                  bool *live)
{
    struct db_rows *rows = DB_QUERY(db, SEARCHER_METRICS, ids);
    int more;
    *live = false;
    jw_key(w, "searcherMetrics");
    jw_array(w);
    while ((more = db_next(rows)) == 1) {
        jw_string(w, DB_GET(rows, SEARCHER_METRICS, metric));
        *live |= DB_GET(rows, SEARCHER_METRICS, active);
    }
    jw_array_end(w);
    db_rows_close(rows);
    return more;
}

static int write_grouped_names(struct json_writer *w, struct db_reader *db, const char *ids)
{
    static const char *const groups[] = {"training", "validation"};
    int more = 0;
    jw_key(w, "metricNames");
    jw_array(w);
    for (size_t i = 0; i < 2 && !more; i++) {
        struct db_rows *rows = DB_QUERY(db, METRIC_NAMES, ids, groups[i]);
        while ((more = db_next(rows)) == 1) {
            jw_object(w);
            jw_kv_string(w, "group", groups[i]);
            jw_kv_string(w, "name", DB_GET(rows, METRIC_NAMES, name));
            jw_object_end(w);
        }
        db_rows_close(rows);
    }
    jw_array_end(w);
    return more;
}

static char *ids_to_json(const struct metric_names_stream *m)
{
    struct buf text;
    buf_init(&text, 32 * NAMES_EXPERIMENTS_MAX);
    for (size_t i = 0; i < m->count; i++)
        buf_printf(&text, "%s%lld", i ? "," : "[", (long long)m->experiments[i]);
    buf_puts(&text, "]");
    char *ids = xstrdup(buf_str(&text));
    buf_free(&text);
    return ids;
}

// Sends one line now, and one in each period while an experiment is active.
static enum stream_turn fill_names(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct metric_names_stream *m = (struct metric_names_stream *)s;
    struct json_writer w;
    bool live = false;
    if (atomic_load(&s->ending))
        return STREAM_END;
    if (clock_mono_us() < s->wait_until)
        return STREAM_WAIT;
    char *ids = ids_to_json(m);
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "result");
    jw_object(&w);
    int err = write_searcher_metrics(&w, db, ids, &live);
    if (!err)
        err = write_names(&w, db, ids, "training", "trainingMetrics");
    if (!err)
        err = write_names(&w, db, ids, "validation", "validationMetrics");
    if (!err)
        err = write_grouped_names(&w, db, ids);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(out, "\n");
    free(ids);
    if (err) {
        buf_reset(out);
        wire_write_stream_error(out, ERR_INTERNAL, "the store cannot be read");
        return STREAM_END;
    }
    s->wait_until = clock_mono_us() + m->period_s * 1000000;
    return live ? STREAM_WAIT : STREAM_END;
}

int stream_metric_names(struct view *v, struct stream **out, struct error *e)
{
    const char *texts[NAMES_EXPERIMENTS_MAX];
    struct metric_names_stream *m = arena_alloc(&v->rq->arena, sizeof *m);
    m->count = query_all(v->query, "ids", texts, NAMES_EXPERIMENTS_MAX);
    int64_t *ids = arena_alloc(&v->rq->arena, (m->count + 1) * sizeof *ids);
    int err = request_query_int(v->rq, "periodSeconds", NAMES_PERIOD_S, &m->period_s, e);
    if (!err && !m->count)
        err = error_set(e, ERR_INVALID, "query parameter ids: give at least one experiment");
    for (size_t i = 0; !err && i < m->count; i++) {
        if (request_number(texts[i], &ids[i]))
            err = view_authorize(v, AUTHZ_EXPERIMENT, texts[i], e);
        else
            err =
                error_set(e, ERR_INVALID,
                          "query parameter ids: \"%.64s\" is not an integer of 64 bits", texts[i]);
    }
    m->period_s = m->period_s < 1 ? NAMES_PERIOD_S : m->period_s > 3600 ? 3600 : m->period_s;
    m->experiments = ids;
    m->stream.fill = fill_names;
    *out = &m->stream;
    return err;
}
