// What a body of metrics says, read where it came in (an http thread or a worker), so that the core
// only looks at whose they are. Pure; memory is the request's arena.
//
// One report, as Determined's clients send it:
//     {"group", "metrics": {"trialId", "trialRunId", "stepsCompleted", "reportTime",
//      "metrics": {"avgMetrics": {name: value}, "batchMetrics"}}}
// and ours, many steps at once, a list for each metric:
//     {"group", "trialRunId", "steps": [..], "times": [..], "metrics": {name: [..]}}
//
// Bodies of the common kind, numbers without anything odd, are read in one pass; whatever is not as
// expected is read again through a tree of the JSON, which also finds the words for what is wrong.
#ifndef MUSTER_MASTER_INGEST_METRIC_PARSE_H
#define MUSTER_MASTER_INGEST_METRIC_PARSE_H

#include "db/metrics/series.h"
#include "master/common/request.h"

struct metric_post {
    const char *group;
    int64_t run;               // -1: of the trial as it runs now
    bool timed;                // else at the time it comes in
    struct series_block block; // ids and runs are the core's to fill in
};

// Into rq->input. ERR_INVALID, ERR_TOO_LARGE.
int metric_report_read(struct request *rq, char *text, size_t len, struct error *e);
int metric_columns_read(struct request *rq, char *text, size_t len, struct error *e);

// The same of a body that is JSON already.
int metric_report_parse(struct request *rq, const json_t *body, struct error *e);
int metric_columns_parse(struct request *rq, const json_t *body, struct error *e);

#endif
