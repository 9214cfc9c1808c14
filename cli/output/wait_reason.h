// Explains why an experiment waits: a sentence, facts, and possible actions, from answers of the
// API (codes in master/calls/wait_reason.c). Pure; the caller owns the results.
#ifndef MUSTER_CLI_WAIT_REASON_H
#define MUSTER_CLI_WAIT_REASON_H

#include <jansson.h>
#include <stdint.h>

#include "base/arena.h"

struct waiting {
    const json_t *experiment; // GET experiments/{id}
    const json_t *why;        // GET experiments/{id}/why
    const json_t *shares;     // array of GET shares, for its pool; NULL: unknown
    const json_t *agents;     // array of GET agents; NULL: unknown
    int64_t now;              // wall time, microseconds
};

// "Experiment 7 (poems) needs 4 slots; ..."; also if it runs, is paused or has ended.
const char *waiting_sentence(const struct waiting *w, struct arena *a);

// Groups the trials that wait for the same: each group is the answer's entry of its first trial,
// with the ids of all in "trials". In the order of the answer.
json_t *waiting_groups(const json_t *why);

// Texts by label ("reason", "waits_for", ...), in the order of display. `group` NULL: it does not
// wait.
json_t *waiting_facts(const struct waiting *w, const json_t *group, struct arena *a);

// The possible actions: [{"command", "effect"}].
json_t *waiting_remedies(const struct waiting *w, const json_t *group, struct arena *a);

// "first in the queue", "2 wait before it"; "" if the position does not matter. `entry` is one of
// the answer's.
const char *waiting_place(const json_t *entry, struct arena *a);

enum { WAITING_UNTIL_MAX = 40 };
// Writes "in 12m 30s" or "any moment" for an RFC 3339 time; "" if there is none or it has passed.
// Returns out.
const char *waiting_until(const char *time, int64_t now, char out[WAITING_UNTIL_MAX]);

#endif
