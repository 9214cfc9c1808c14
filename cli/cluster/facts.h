// The facts that check.sh prints about a machine, and what they mean for Muster. Pure.
#ifndef MUSTER_CLI_CLUSTER_FACTS_H
#define MUSTER_CLI_CLUSTER_FACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/cluster/hosts.h"

// Reads lines KEY=VALUE as an object of strings; other lines are passed over. Owned by the caller.
json_t *facts_parse(const char *text);
const char *fact_text(const json_t *facts, const char *key); // "" when absent
double fact_number(const json_t *facts, const char *key);    // 0 when absent or no number

enum finding_level { FINDING_ERROR, FINDING_WARNING };

// A list of findings: {"level": "error", "problem": .., "fix": ..}.
void finding_add(json_t *findings, enum finding_level level, const char *fix, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// The first error among the findings from index `from` on; NULL: there is none.
const json_t *finding_error(const json_t *findings, size_t from);

struct fact_context {
    const struct host *host;
    const struct hosts_file *file;
    int64_t install_bytes; // of the files that are copied
    const char *arch;      // of the release
};

// Add the findings about one machine: about its own facts; its clock, in seconds ahead of the
// master's, which may be wrong by unsure_s; what network.sh has found, with the neighbour to which
// it sent (NULL: none).
void facts_judge(const json_t *facts, const struct fact_context *x, json_t *findings);
void facts_judge_clock(double ahead_s, double unsure_s, json_t *findings);
void facts_judge_network(const json_t *facts, const struct fact_context *x, const char *neighbour,
                         json_t *findings);

// Compares dotted numbers, as "535.104.05" and "525.60": -1, 0, 1.
int version_compare(const char *a, const char *b);

#endif
