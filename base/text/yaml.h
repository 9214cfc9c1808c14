// YAML to JSON (libyaml), with positions: experiment files, master and agent configuration.
//
// Scalars follow the core schema of YAML 1.2: null and ~, true and false, integers (also 0x, 0o),
// floats (.inf and .nan become the strings "Infinity" and "NaN"); all others are strings. An empty
// file is null. Anchors and aliases are expanded within limits. Duplicate keys, several documents,
// tags and more than 32 levels are errors with line and column.
#ifndef MUSTER_BASE_TEXT_YAML_H
#define MUSTER_BASE_TEXT_YAML_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

struct yaml_doc {
    json_t *root;            // owned
    struct yaml_mark *marks; // the position of every value
    size_t mark_count;
    char *file; // for messages
};

// `file` only appears in messages ("exp.yaml:3:7: ...").
int yaml_parse(const char *text, size_t len, const char *file, struct yaml_doc *out,
               struct error *e);
// (libyaml already exports a yaml_free().)
void yaml_doc_free(struct yaml_doc *doc);

// Writes the position "exp.yaml:3:7" of the value at a dotted path such as "trainer.model.width" or
// "list.0.name" to out; returns out. An unknown path has the position of its nearest known parent,
// or only the file.
const char *yaml_where(const struct yaml_doc *doc, const char *path, char *out, size_t cap);
// The same for the key of the value. An element of a list has no key and gives its own position.
const char *yaml_where_key(const struct yaml_doc *doc, const char *path, char *out, size_t cap);

#endif
