// The metric reports of trials as streams, for Determined's SDK and the CLI; and the reports of the
// trials that name a checkpoint or model version as their source.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "db/metrics/reports.h"
#include "db/metrics/series_json.h"
#include "master/views/lists/list.h"
#include "master/views/views.h"

struct report_stream {
    struct stream stream;
    const char *only_group; // group; NULL: all
    const int64_t *trials;
    size_t trial_count, at;     // index of the trial being read
    char group[LIMIT_NAME + 1]; // of that trial; "": not begun
    bool group_ended;
    int64_t after_steps, after_id; // the last report that was sent
};

static void start_group(struct report_stream *m, const char *name)
{
    snprintf(m->group, sizeof m->group, "%s", name);
    m->group_ended = false;
    m->after_steps = INT64_MIN;
    m->after_id = 0;
}

static void start_trial(struct report_stream *m)
{
    start_group(m, m->only_group ? m->only_group : "");
    m->group_ended = !m->only_group;
}

static void write_report(struct json_writer *w, const struct report_stream *m,
                         const struct series_block *b, size_t at)
{
    jw_object(w);
    jw_kv_int(w, "trialId", m->trials[m->at]);
    jw_kv_int(w, "trialRunId", b->runs[at]);
    jw_kv_int(w, "id", b->ids[at]);
    jw_kv_string(w, "group", m->group);
    jw_kv_int(w, "totalBatches", b->steps[at]);
    write_time(w, "endTime", b->times[at]);
    jw_kv_bool(w, "archived", false);
    jw_key(w, "metrics");
    jw_object(w);
    jw_key(w, "avg_metrics");
    series_write_values(w, b, at);
    if (!strcmp(m->group, "validation")) { // the SDK looks for this name
        jw_key(w, "validation_metrics");
        series_write_values(w, b, at);
    }
    jw_kv_raw(w, "batch_metrics", series_batches(b, at));
    jw_object_end(w);
    jw_object_end(w);
}

static void write_reports(struct report_stream *m, const struct reports_span *span, struct buf *out)
{
    for (size_t i = span->first; i < span->end && out->len < STREAM_CHUNK; i++) {
        struct json_writer w;
        buf_puts(out, out->len ? "," : "{\"result\":{\"metrics\":[");
        jw_init(&w, out);
        write_report(&w, m, span->block, i);
        m->after_steps = span->block->steps[i];
        m->after_id = span->block->ids[i];
    }
}

// Sends one line with reports of the group, if any are left.
static int fill_group(struct report_stream *m, struct db_reader *db, struct buf *out,
                      struct error *e)
{
    struct reports_query q = REPORTS_ALL(m->trials[m->at], m->group);
    struct reports *r = NULL;
    struct reports_span span;
    q.after_steps = m->after_steps;
    q.after_id = m->after_id;
    int more = reports_open(db, &q, &r, e);
    if (!more)
        more = 1;
    while (more == 1 && out->len < STREAM_CHUNK && (more = reports_next(r, &span, e)) == 1)
        write_reports(m, &span, out);
    reports_close(r);
    m->group_ended = more == 0;
    if (out->len)
        buf_puts(out, "]}}\n");
    return more < 0 ? more : 0;
}

// Moves to the next group of the trial, or to the next trial.
static int next_group_or_trial(struct report_stream *m, struct db_reader *db, struct error *e)
{
    struct arena arena = {0};
    const char *next = NULL;
    int err =
        m->only_group ? 0 : reports_next_group(db, m->trials[m->at], m->group, &arena, &next, e);
    if (next)
        start_group(m, next);
    else if (!err && ++m->at < m->trial_count)
        start_trial(m);
    arena_free(&arena);
    return err;
}

static enum stream_turn fill_reports(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct report_stream *m = (struct report_stream *)s;
    struct error e = {0};
    if (m->at == m->trial_count || atomic_load(&s->ending))
        return STREAM_END;
    int err = db_snapshot_begin(db, &e);
    if (!err) {
        err = m->group_ended ? next_group_or_trial(m, db, &e) : fill_group(m, db, out, &e);
        db_snapshot_end(db);
    }
    if (err) {
        char text[ERROR_TEXT_MAX];
        log_error("metrics cannot be read", "err=%s", log_quote(text, sizeof text, e.text));
        wire_write_stream_error(out, ERR_INTERNAL, "the store cannot be read");
        return STREAM_END;
    }
    return STREAM_MORE;
}

static int open_reports(struct view *v, const char *group, struct stream **out, struct error *e)
{
    const char *texts[QUERY_PAIRS_MAX];
    size_t count = query_all(v->query, "trialIds", texts, QUERY_PAIRS_MAX);
    int64_t *trials = arena_alloc(&v->rq->arena, (count + 1) * sizeof *trials);
    if (!count)
        return error_set(e, ERR_INVALID, "query parameter trialIds: give at least one trial");
    for (size_t i = 0; i < count; i++) {
        if (!request_number(texts[i], &trials[i]))
            return error_set(e, ERR_INVALID,
                             "query parameter trialIds: \"%.64s\" is not an integer of 64 bits",
                             texts[i]);
        int rc = view_authorize(v, AUTHZ_TRIAL, texts[i], e);
        if (rc)
            return rc;
    }
    struct report_stream *m = arena_alloc(&v->rq->arena, sizeof *m);
    m->stream.fill = fill_reports;
    m->only_group = group && *group ? group : NULL;
    m->trials = trials;
    m->trial_count = count;
    start_trial(m);
    *out = &m->stream;
    return 0;
}

int stream_training_metrics(struct view *v, struct stream **out, struct error *e)
{
    return open_reports(v, "training", out, e);
}

int stream_validation_metrics(struct view *v, struct stream **out, struct error *e)
{
    return open_reports(v, "validation", out, e);
}

int stream_trial_metrics(struct view *v, struct stream **out, struct error *e)
{
    return open_reports(v, query_get(v->query, "group"), out, e);
}

// --- reports of trials by their source
// ------------------------------------------------------------------

enum { SOURCE_REPORTS_MAX = 20 * 1000 }; // of one answer

static int write_group(struct view *v, struct report_stream *m, int64_t *count, struct error *e)
{
    struct reports_query q = REPORTS_ALL(m->trials[m->at], m->group);
    struct reports *r = NULL;
    struct reports_span span;
    int more = reports_open(v->db, &q, &r, e);
    if (!more)
        while ((more = reports_next(r, &span, e)) == 1 && *count <= SOURCE_REPORTS_MAX)
            for (size_t i = span.first; i < span.end && ++*count <= SOURCE_REPORTS_MAX; i++)
                write_report(&v->w, m, span.block, i);
    reports_close(r);
    if (more >= 0 && *count > SOURCE_REPORTS_MAX)
        return error_set(e, ERR_TOO_LARGE,
                         "there are more than %d reports; GET "
                         "/api/v1/trials/metrics/trial_metrics?trialIds=%lld streams those of a "
                         "trial",
                         SOURCE_REPORTS_MAX, (long long)m->trials[m->at]);
    return more < 0 ? more : 0;
}

static int write_trial_reports(struct view *v, struct report_stream *m, int64_t *count,
                               struct error *e)
{
    const char *group = m->only_group ? m->only_group : "";
    int err = 0;
    while (!err) {
        if (!m->only_group)
            err = reports_next_group(v->db, m->trials[m->at], m->group, &v->rq->arena, &group, e);
        if (err || !group)
            break;
        start_group(m, group);
        err = write_group(v, m, count, e);
        if (m->only_group)
            break;
    }
    return err;
}

// Reads the trials that the caller may see; closes rows.
static int read_visible_trials(struct view *v, struct db_rows *rows, struct report_stream *m,
                               struct error *e)
{
    int64_t *trials = NULL;
    int found;
    while ((found = db_next(rows)) == 1) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)DB_GET(rows, TRIALS_OF_VERSION, trial_id));
        if (view_authorize(v, AUTHZ_TRIAL, id, NULL))
            continue;
        trials = xrealloc(trials, (m->trial_count + 1) * sizeof *trials);
        trials[m->trial_count++] = DB_GET(rows, TRIALS_OF_VERSION, trial_id);
    }
    db_rows_close(rows);
    m->trials = trials;
    return found < 0 ? store_failed(e) : 0;
}

int write_source_metrics(struct view *v, struct db_rows *rows, struct error *e)
{
    const char *group = query_get(v->query, "metricGroup");
    struct report_stream m = {.only_group = group && *group ? group : NULL};
    int64_t count = 0;
    int err = read_visible_trials(v, rows, &m, e);
    if (!err)
        err = db_snapshot_begin(v->db, e);
    if (!err) {
        jw_object(&v->w);
        jw_key(&v->w, "metrics");
        jw_array(&v->w);
        for (m.at = 0; !err && m.at < m.trial_count; m.at++) {
            start_group(&m, "");
            err = write_trial_reports(v, &m, &count, e);
        }
        jw_array_end(&v->w);
        jw_object_end(&v->w);
        db_snapshot_end(v->db);
    }
    free((void *)m.trials);
    return err;
}

int read_source_type(struct view *v, const char **type, struct error *e)
{
    static const char prefix[] = "TRIAL_SOURCE_INFO_TYPE_";
    const char *sent = query_get(v->query, "trialSourceInfoType");
    *type = "";
    if (!sent || !*sent)
        return 0;
    *type = sent + (strncmp(sent, prefix, strlen(prefix)) ? 0 : strlen(prefix));
    if (!strcmp(*type, "UNSPECIFIED"))
        *type = "";
    if (**type && strcmp(*type, "INFERENCE") && strcmp(*type, "FINE_TUNING"))
        return error_set(e, ERR_INVALID,
                         "query parameter trialSourceInfoType: %sINFERENCE or %sFINE_TUNING",
                         prefix, prefix);
    return 0;
}

int view_checkpoint_metrics(struct view *v, struct error *e)
{
    const char *type;
    int rc = read_source_type(v, &type, e);
    return rc ? rc
              : write_source_metrics(
                    v, DB_QUERY(v->db, TRIALS_OF_CHECKPOINT, v->rq->params[0], type), e);
}
