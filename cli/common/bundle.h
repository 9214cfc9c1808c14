// The file of an exported experiment: `muster experiment export` writes it, `import` reads it. It
// is a tar of
//
//     manifest.json            {"format": "muster-experiment", "version": 1, "cluster", ..}
//     experiment.json          the experiment object of the API
//     config.yaml              the submitted configuration
//     config.json              the complete configuration, with all defaults
//     model_definition/        the files submitted with it
//     trials.jsonl             one trial on each line
//     checkpoints.jsonl        one checkpoint on each line
//     trials/ID/metrics.jsonl  {"group", "run", "steps", "time", "metrics", "batch_metrics"}
//     trials/ID/GROUP.csv      the metrics of one group as a table
//     trials/ID/logs.jsonl     one line of the log on each line
//     trials/ID/metadata.json  the trial's metadata
//     trials/ID/media.jsonl    one image, histogram, table or text on each line
//     media/SHA-256            their contents
//     checkpoints/UUID/..      files of checkpoints, with --checkpoints
//
// The commands write and read these files in a temporary folder and remove it at the end.
#ifndef MUSTER_CLI_BUNDLE_H
#define MUSTER_CLI_BUNDLE_H

#include <stdio.h>

#include "cli/cli.h"
#include "cli/output/meter.h"

enum { BUNDLE_VERSION = 1, BUNDLE_MAX_GIB = 1024, BUNDLE_LINE_MAX = 8 << 20 };

// Opens the file `name` (printf) below `folder` for writing and creates its folders; NULL: see *e.
FILE *bundle_create(const char *folder, struct error *e, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
int bundle_close(FILE *f, const char *what, struct error *e); // fails if not everything was written
int bundle_put(const char *folder, const char *name, const char *text, size_t len, struct error *e);
// Appends one JSON value as a line.
int bundle_put_line(FILE *f, const json_t *value, struct error *e);

// Calls on_line() with the value of each line until it fails. A missing file has no lines.
typedef int bundle_line(void *ctx, const json_t *value, struct error *e);
int bundle_lines(const char *folder, const char *name, bundle_line *on_line, void *ctx,
                 struct error *e);
int bundle_json(const char *folder, const char *name, json_t **out, struct error *e);

// Writes a CSV file for each group in metrics.jsonl of a trial.
int bundle_tables(const char *folder, long long trial, struct error *e);

#endif
