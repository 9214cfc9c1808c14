// Examples of the keys of the experiment file. Pure; any thread.
#ifndef MUSTER_API_CONFIG_EXAMPLE_H
#define MUSTER_API_CONFIG_EXAMPLE_H

#include "base/buf.h"
#include "base/text/schema.h"

// Appends YAML lines that set the key, indented by `indent` blanks: the keys around it, with the
// kinds that it belongs to, and a plausible value.
void config_example_write(const struct schema_row *row, int indent, struct buf *out);

#endif
