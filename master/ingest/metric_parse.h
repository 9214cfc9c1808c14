// Parses bodies of metrics where they arrive (on an http thread or a worker), so that the core only
// checks whose metrics they are. Pure; memory comes from the request's arena.
//
// One report, as Determined's clients send it:
//     {"group", "metrics": {"trialId", "trialRunId", "stepsCompleted", "reportTime",
//      "metrics": {"avgMetrics": {name: value}, "batchMetrics"}}}
// and the extension for many steps at once, with one list for each metric:
//     {"group", "trialRunId", "steps": [..], "times": [..], "metrics": {name: [..]}}
//
// Common bodies, with plain numbers only, are read in one pass. Any other body is parsed again as a
// JSON tree, which also finds the words for faults.
#ifndef MUSTER_MASTER_INGEST_METRIC_PARSE_H
#define MUSTER_MASTER_INGEST_METRIC_PARSE_H

#include "db/metrics/series.h"
#include "master/common/request.h"

struct metric_post {
    const char *group;
    int64_t run;               // -1: the current run of the trial
    bool timed;                // the body has times; else the time of arrival counts
    struct series_block block; // the core fills in ids and runs
};

// Parse a body into rq->input. ERR_INVALID, ERR_TOO_LARGE.
int metric_report_read(struct request *rq, char *text, size_t len, struct error *e);
int metric_columns_read(struct request *rq, char *text, size_t len, struct error *e);

// The same for a body that is already JSON.
int metric_report_parse(struct request *rq, const json_t *body, struct error *e);
int metric_columns_parse(struct request *rq, const json_t *body, struct error *e);

#endif
