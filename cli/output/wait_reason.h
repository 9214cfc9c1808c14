// Why an experiment waits, as a person reads it: a sentence, facts, and what can be done. Made of
// what the API answered (wire names, see master/calls/wait_reason.c); pure, results belong to the
// caller.
#ifndef MUSTER_CLI_WAITING_H
#define MUSTER_CLI_WAITING_H

#include <jansson.h>
#include <stdint.h>

#include "base/arena.h"

struct waiting {
    const json_t *experiment; // GET experiments/{id}
    const json_t *why;        // GET experiments/{id}/why
    const json_t *shares;     // GET shares of its pool, the array; NULL: not known
    const json_t *agents;     // GET agents, the array; NULL: not known
    int64_t now;              // wall time, microseconds
};

// "Experiment 7 (poems) needs 4 slots; ...": also of one that runs, is paused or has ended.
const char *waiting_sentence(const struct waiting *w, struct arena *a);

// Trials that wait for the same, together: the answer's entry for the first of them, with "trials",
// the ids of all of them. In the order of the answer.
json_t *waiting_groups(const json_t *why);

// Words by label ("reason", "waits_for", ...), in the order to show them in. `group` NULL: of one
// that does not wait.
json_t *waiting_facts(const struct waiting *w, const json_t *group, struct arena *a);

// [{"command", "effect"}]: what can be done about it, if anything.
json_t *waiting_remedies(const struct waiting *w, const json_t *group, struct arena *a);

// "first of those that wait", "2 wait before it"; "" where a place does not help: `entry` is one of
// the answer's.
const char *waiting_place(const json_t *entry, struct arena *a);

enum { WAITING_UNTIL_MAX = 40 };
// "in 12m 30s", "any moment" of an RFC 3339 time; "" when there is none or it is past. Returns out.
const char *waiting_until(const char *time, int64_t now, char out[WAITING_UNTIL_MAX]);

#endif
