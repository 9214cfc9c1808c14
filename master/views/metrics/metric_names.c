// GET metric names as a stream

#include <stdlib.h>

#include "base/clock.h"
#include "master/views/views.h"

enum { NAMES_EVERY_S = 30, NAMED_MAX = QUERY_PAIRS_MAX };

struct metric_names {
    struct stream stream;
    const int64_t *experiments;
    size_t count;
    int64_t every; // seconds
};

// Names of a group, of all experiments together: "validation.loss" without the group before it.
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

static int write_named(struct json_writer *w, struct db_reader *db, const char *ids)
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

static char *list_of_ids(const struct metric_names *m)
{
    struct buf text;
    buf_init(&text, 32 * NAMED_MAX);
    for (size_t i = 0; i < m->count; i++)
        buf_printf(&text, "%s%lld", i ? "," : "[", (long long)m->experiments[i]);
    buf_puts(&text, "]");
    char *ids = xstrdup(buf_str(&text));
    buf_free(&text);
    return ids;
}

// A line now, and another every so often while one of the experiments lives.
static enum stream_turn fill_names(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct metric_names *m = (struct metric_names *)s;
    struct json_writer w;
    bool live = false;
    if (atomic_load(&s->ending))
        return STREAM_END;
    if (clock_mono_us() < s->wait_until)
        return STREAM_WAIT;
    char *ids = list_of_ids(m);
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
        err = write_named(&w, db, ids);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(out, "\n");
    free(ids);
    if (err) {
        buf_reset(out);
        wire_write_stream_error(out, ERR_INTERNAL, "the store cannot be read");
        return STREAM_END;
    }
    s->wait_until = clock_mono_us() + m->every * 1000000;
    return live ? STREAM_WAIT : STREAM_END;
}

int stream_metric_names(struct view *v, struct stream **out, struct error *e)
{
    const char *texts[NAMED_MAX];
    struct metric_names *m = arena_alloc(&v->rq->arena, sizeof *m);
    m->count = query_all(v->query, "ids", texts, NAMED_MAX);
    int64_t *ids = arena_alloc(&v->rq->arena, (m->count + 1) * sizeof *ids);
    int err = request_query_int(v->rq, "periodSeconds", NAMES_EVERY_S, &m->every, e);
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
    m->every = m->every < 1 ? NAMES_EVERY_S : m->every > 3600 ? 3600 : m->every;
    m->experiments = ids;
    m->stream.fill = fill_names;
    *out = &m->stream;
    return err;
}
