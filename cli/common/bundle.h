// An experiment as a file: `muster experiment export` writes it, `import` reads it. A tar of
//
//     manifest.json            {"format": "muster-experiment", "version": 1, "cluster", ..}
//     experiment.json          as the API has it
//     config.yaml              as it was submitted; config.json: complete, with all defaults
//     model_definition/        its files
//     trials.jsonl             a trial a line; checkpoints.jsonl: a checkpoint
//     trials/ID/metrics.jsonl  {"group", "run", "steps", "time", "metrics", "batch_metrics"}
//     trials/ID/GROUP.csv      the same as a table, a file a group
//     trials/ID/logs.jsonl     a line of its log
//     trials/ID/metadata.json  what was said of the run
//     checkpoints/UUID/..      files, with --checkpoints
//
// It is made in, and read from, a folder beside the file that goes when the command ends.
#ifndef MUSTER_CLI_BUNDLE_H
#define MUSTER_CLI_BUNDLE_H

#include <stdio.h>

#include "cli/cli.h"
#include "cli/output/meter.h"

enum { BUNDLE_VERSION = 1, BUNDLE_MAX_GIB = 1024, BUNDLE_LINE_MAX = 8 << 20 };

// A file NAME (printf) below `folder` for writing, with its folders; NULL: *e says why.
FILE *bundle_create(const char *folder, struct error *e, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
int bundle_close(FILE *f, const char *what, struct error *e); // that all was written
int bundle_put(const char *folder, const char *name, const char *text, size_t len, struct error *e);
// One JSON value a line.
int bundle_put_line(FILE *f, const json_t *value, struct error *e);

// Calls on_line() with each line's value until it fails. An absent file has no lines.
typedef int bundle_line(void *ctx, const json_t *value, struct error *e);
int bundle_lines(const char *folder, const char *name, bundle_line *on_line, void *ctx,
                 struct error *e);
int bundle_json(const char *folder, const char *name, json_t **out, struct error *e);

// metrics.jsonl of a trial as a CSV file for each group.
int bundle_tables(const char *folder, long long trial, struct error *e);

#endif
