// Metrics, as single reports or as columns of many steps, progress and runner states that tasks
// report. Their rows join the batch at once; trial_metrics.c keeps what a trial shows of them.
//
// A report is identified by (trial, run, group, steps), and each of its values by the metric's
// name: a repeated report changes nothing that readers can see.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "db/metrics/compaction.h"
#include "db/metrics/series_json.h"
#include "master/ingest/metric_parse.h"
#include "master/ingest/module.h"
#include "master/ingest/reports.h"
#include "master/lifecycle/lifecycle.h"
#include "master/lifecycle/unmanaged.h"

enum { IDS_RESERVED = 1 << 20 }; // report ids reserved at a time

// --- storing reports -----------------------------------------------------------------------------

// Ids are never given twice: the store holds the end of the reserved range, and a restart goes on
// from there.
int64_t report_ids_take(struct core *c, size_t count)
{
    int64_t first = c->metrics->next_report;
    c->metrics->next_report += (int64_t)count;
    if (c->metrics->next_report > c->metrics->report_ids_reserved) {
        char text[24];
        c->metrics->report_ids_reserved = c->metrics->next_report + IDS_RESERVED;
        snprintf(text, sizeof text, "%lld", (long long)c->metrics->report_ids_reserved);
        STORE(c, META_SET, "metric_ids", text);
    }
    return first;
}

struct metric_ingest *metric_ingest_new(void)
{
    return xcalloc(1, sizeof(struct metric_ingest));
}

void metric_ingest_free(struct metric_ingest *m)
{
    free(m);
}

int report_ids_load(struct core *c, struct error *e)
{
    struct db_rows *rows = DB_QUERY(c->reader, META_GET, "metric_ids");
    int found = db_next(rows);
    c->metrics->next_report = found == 1 ? strtoll(DB_GET(rows, META_GET, value), NULL, 10) : 1;
    c->metrics->report_ids_reserved = c->metrics->next_report;
    db_rows_close(rows);
    return found < 0 ? db_unreadable(c->reader, e) : 0;
}

static bool steps_ascend(const struct series_block *b)
{
    for (size_t i = 1; i < b->count; i++)
        if (b->steps[i] <= b->steps[i - 1])
            return false;
    return true;
}

static void store_block(struct core *c, struct trial *t, const char *group, struct series_block *b)
{
    int64_t id = report_ids_take(c, b->count);
    meters_count(c->options.meters, METER_METRIC_REPORTS, (int64_t)b->count);
    for (size_t i = 0; i < b->count; i++) {
        b->ids[i] = id + (int64_t)i;
        b->runs[i] = t->run;
    }
    if (b->count >= COMPACTION_KEEP && steps_ascend(b)) {
        compaction_add_chunk(core_batch(c), t->id, group, b, 0, b->count);
        trial_metrics_add(c, t, group, b);
        trial_metrics_write(c, t);
    } else {
        size_t bytes = compaction_add_row(core_batch(c), t->id, group, b, 0, b->count);
        trial_metrics_add(c, t, group, b);
        compaction_count_reports(c, t, b->count, bytes);
    }
}

// The body was parsed where it arrived, or is still JSON.
static int handle_report(struct core *c, struct request *rq,
                         int (*parse)(struct request *rq, const json_t *body, struct error *e),
                         struct error *e)
{
    struct trial *t;
    int err = core_metric_reporter(c, rq, &t, e);
    if (!err && !rq->input)
        err = parse(rq, rq->body, e);
    if (err)
        return err;
    struct metric_post *p = rq->input;
    if (p->run != -1 && p->run != t->run)
        return rq->principal.kind == PRINCIPAL_TASK || t->active->unmanaged
                   ? error_set(e, ERR_FORBIDDEN, "allocation has ended")
                   : error_set(e, ERR_INVALID,
                               "trialRunId: the newest run of trial %lld is %d, not %lld",
                               (long long)t->id, (int)t->run, (long long)p->run);
    for (size_t i = 0; !p->timed && i < p->block.count; i++)
        p->block.times[i] = c->wall;
    store_block(c, t, p->group, &p->block);
    return 0;
}

int core_trial_metrics(struct core *c, struct request *rq, struct error *e)
{
    return handle_report(c, rq, metric_report_parse, e);
}

int core_trial_metric_columns(struct core *c, struct request *rq, struct error *e)
{
    return handle_report(c, rq, metric_columns_parse, e);
}

// Values that are not metrics are dropped: nobody waits for an answer.
void metrics_report_from_agent(struct core *c, struct trial *t, const char *group,
                               const json_t *values, int64_t time, struct arena *arena)
{
    struct series_block block;
    if (!*group || strlen(group) > LIMIT_NAME ||
        series_from_json(arena, values, NULL, &block, NULL) || !block.column_count)
        return;
    *block.times = time;
    *block.steps = -1;
    store_block(c, t, group, &block);
}

// --- progress and runner state -------------------------------------------------------------------

int core_trial_progress(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    int err = core_reporter_of_trial(c, rq, &t, e);
    if (err)
        return err;
    double progress = jget_double(rq->body, "progress", NAN);
    if (!(progress >= 0 && progress <= 1))
        return error_set(e, ERR_INVALID, "progress: not a number from 0 to 1");
    t->progress = progress;
    trial_metrics_mark_progress(c, t);
    change_mark(c, EVENT_TRIAL, t->active->experiment->id, t->id, NULL);
    if (t->allocation)
        usage_predict_end(c, t->allocation);
    struct search_event event = {
        .kind = SEARCH_PROGRESS, .request_id = t->request_id, .fraction = progress};
    experiment_search_event(c, t->active, &event);
    return 0;
}

int core_trial_runner_metadata(struct core *c, struct request *rq, struct error *e)
{
    struct trial *t;
    int err = core_reporter_of_trial(c, rq, &t, e);
    const char *state = jget_string(rq->body, "state", "");
    if (!err && strlen(state) > LIMIT_DESCRIPTION)
        err = error_set(e, ERR_TOO_LARGE, "state: more than %d bytes", LIMIT_DESCRIPTION);
    if (!err)
        STORE(c, TRIAL_SET_RUNNER_STATE, state, t->id);
    return err;
}
