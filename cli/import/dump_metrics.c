// The reports of trials in a dump: tables raw_steps, raw_validations and generic_metrics, which are
// partitions of Determined's table `metrics`. The first pass counts the valid reports of each
// trial, so that the second one knows when it has seen the last report of a trial, wherever it
// stands.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/text/json.h"
#include "cli/import/dump_source.h"
#include "cli/import/records.h"

const char *const dump_metric_tables[] = {"raw_steps", "raw_validations", "generic_metrics", NULL};

// --- counting ------------------------------------------------------------------------------------

static int find_columns(struct metric_columns *at, const struct copy_header *h, struct error *e)
{
    snprintf(at->table, sizeof(at->table), "%s", h->table);
    at->id = copy_find_column(h, "id");
    at->trial = copy_find_column(h, "trial_id");
    at->archived = copy_find_column(h, "archived");
    at->time = copy_find_column(h, "end_time");
    return at->id >= 0 && at->trial >= 0 && at->archived >= 0 && at->time >= 0
               ? 0
               : error_set(e, ERR_VERSION,
                           "table %s has no column id, trial_id, end_time or archived", h->table);
}

// The sum of hashes does not depend on the order of the rows, which differs from dump to dump.
static uint64_t mark_of(const char *table, int64_t id)
{
    char text[COPY_NAME_MAX + 24];
    int len = snprintf(text, sizeof(text), "%s %" PRId64, table, id);
    return hash64(text, (size_t)len);
}

// The end of a trial that had not ended is at or after its newest report.
static void note_report_time(struct source_run *run, const char *raw, size_t len)
{
    char text[SOURCE_TIME_MAX];
    if (!raw || len >= sizeof(text))
        return;
    memcpy(text, raw, len);
    text[len] = '\0';
    dump_note_activity(run, text);
}

int dump_count_report(struct dump_source *s, const struct copy_header *h, const char *row,
                      size_t len, struct error *e)
{
    struct metric_columns *at = &s->columns;
    size_t field;
    int err = strcmp(at->table, h->table) != 0 ? find_columns(at, h, e) : 0;
    const char *archived = err ? NULL : copy_raw_field(row, len, at->archived, &field);
    if (err || !archived || *archived == 't')
        return err;
    const char *trial = copy_raw_field(row, len, at->trial, &field);
    const char *id = copy_raw_field(row, len, at->id, &field);
    if (!trial || !id)
        return error_set(e, ERR_CORRUPT, "a row of too few fields");
    struct source_run *run = dump_run(s, strtoll(trial, NULL, 10));
    run->reports++;
    run->mark += mark_of(h->table, strtoll(id, NULL, 10));
    const char *time = copy_raw_field(row, len, at->time, &field);
    note_report_time(run, time, field);
    return 0;
}

// --- reading -------------------------------------------------------------------------------------

static const char *group_of(const struct dump_row *row)
{
    const char *table = row->header->table;
    if (strcmp(table, "raw_steps") == 0)
        return "training";
    if (strcmp(table, "raw_validations") == 0)
        return "validation";
    const char *group = dump_text(row, "metric_group");
    return group ? group : "generic";
}

// Keeps what the trial shows beside its series.
static void keep_report(struct source_run *run, const struct dump_row *row,
                        const struct import_report *r)
{
    int64_t id = dump_int(row, "id", 0);
    if (strcmp(r->group, "validation") == 0) {
        if (id == run->best)
            run->best_report = report_workload(r->values, r->steps, r->time);
        if (id == run->latest)
            run->latest_report = report_workload(r->values, r->steps, r->time);
    } else if (strcmp(r->group, "training") == 0 && r->steps >= run->training_steps) {
        json_decref(run->training);
        free(run->training_time);
        run->training = json_incref((json_t *)r->values);
        run->training_time = xstrdup(r->time);
        run->training_steps = r->steps;
    }
}

static int end_run(struct dump_source *s, struct source_run *run, const char *mark, struct error *e)
{
    char old[24];
    json_t *summary = NULL, *filtered;
    snprintf(old, sizeof(old), "%" PRId64, run->id);
    if (run->summary && json_parse(run->summary, strlen(run->summary), "summary", &summary, NULL))
        summary = NULL;
    filtered = summary_of(summary);
    json_t *record = record_new("metrics_end", old);
    record_text(record, "mark", mark);
    record_json(record, "summary", filtered);
    json_object_set_new(record, "steps", json_integer(run->steps));
    record_json(record, "latestValidation", run->latest_report);
    record_json(record, "bestValidation", run->best_report);
    if (run->training) {
        json_object_set_new(
            record, "latestTraining",
            report_workload(run->training, run->training_steps, run->training_time));
    }
    json_decref(filtered);
    json_decref(summary);
    json_decref(run->best_report);
    json_decref(run->latest_report);
    json_decref(run->training);
    run->best_report = run->latest_report = run->training = NULL;
    return importer_end_metrics(s->importer, run->id, record, e);
}

static void mark_text(const struct source_run *run, char out[64])
{
    snprintf(out, 64, "%" PRId64 ".%016" PRIx64, run->reports, run->mark);
}

static int add_report(struct dump_source *s, struct source_run *run, const struct dump_row *row,
                      struct error *e)
{
    char time[SOURCE_TIME_MAX];
    json_t *metrics = NULL;
    int err = dump_json(row, "metrics", &metrics, e);
    const json_t *values = report_values(metrics);
    const struct import_report r = {.trial = run->id,
                                    .steps = dump_int(row, "total_batches", -1),
                                    .group = group_of(row),
                                    .time = source_time(dump_text(row, "end_time"), time),
                                    .values = values};
    if (*time == '\0')
        source_time("1970-01-01 00:00:00", time);
    if (!err && values) {
        keep_report(run, row, &r);
        err = importer_add_report(s->importer, &r, e);
    }
    json_decref(metrics);
    return err;
}

static int on_report(void *ctx, const struct dump_row *row, struct error *e)
{
    struct dump_source *s = ctx;
    struct source_run *run = dump_run(s, dump_int(row, "trial_id", 0));
    char mark[64];
    int err = 0;
    dump_progress(s, "metrics", row->offset);
    if (dump_bool(row, "archived") || !importer_wants_metrics(s->importer, run->id))
        return 0;
    err = add_report(s, run, row, e);
    if (!err && ++run->seen == run->reports) {
        mark_text(run, mark);
        err = end_run(s, run, mark, e);
    }
    return err;
}

int dump_import_metrics(struct dump_source *s, struct error *e)
{
    char mark[64];
    int err = 0;
    for (size_t i = 0; i < s->runs.size && !err; i++) {
        const struct source_run *run = s->runs.slots[i].value;
        if (!run || !run->known || run->reports == 0)
            continue;
        mark_text(run, mark);
        err = importer_begin_metrics(s->importer, run->id, mark, e);
    }
    err = err ? err : importer_flush(s->importer, e);
    for (size_t i = 0; dump_metric_tables[i] && !err; i++)
        err = dump_read(s->file, dump_metric_tables[i], on_report, s, e);
    return err ? err : importer_flush(s->importer, e);
}
