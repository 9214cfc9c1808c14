// Explanations of the keys of the experiment file, from their table: an overview, and single keys
// with an example. Pure; any thread.
#ifndef MUSTER_API_CONFIG_HELP_H
#define MUSTER_API_CONFIG_HELP_H

#include "base/buf.h"
#include "base/error.h"

// Appends one page: the keys of the file and of its sections, a line for each.
void config_help_overview(struct buf *out);

// Appends an explanation of `key`: "resources.min_slots", a part of it ("min_slots"), a kind
// ("searcher.grid"), or a key of a list's elements ("trainer.model.layers.kernel"). If several keys
// match a part, their names follow. ERR_INVALID: no key matches; the text suggests a similar one.
int config_help_key(const char *key, struct buf *out, struct error *e);

// Calls `check` with each key and the example that is shown for it; for tests.
void config_help_examples(void (*check)(const char *path, const char *yaml));

// Appends the paths of all keys and kinds, each followed by a line feed; for completion.
void config_help_paths(struct buf *out);

#endif
