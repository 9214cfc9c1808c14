// YAML to JSON (libyaml), with positions: experiment files, master and agent configuration.
//
// YAML 1.2 core scalars: null ~, true/false, integers (also 0x, 0o), floats (.inf, .nan as
// the strings "Infinity", "NaN"), everything else a string. An empty file is null. Anchors and
// aliases are expanded within limits; duplicate keys, several documents, tags and depth > 32 are
// refused with line and column.
#ifndef MUSTER_BASE_TEXT_YAML_H
#define MUSTER_BASE_TEXT_YAML_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

struct yaml_doc {
    json_t *root;            // owned
    struct yaml_mark *marks; // position of every value, by its dotted path
    size_t mark_count;
    char *file; // as named by the caller, for messages
};

// `file` is only used in messages ("exp.yaml:3:7: ...").
int yaml_parse(const char *text, size_t len, const char *file, struct yaml_doc *out,
               struct error *e);
// (libyaml itself exports a function named yaml_free, hence the longer name.)
void yaml_doc_free(struct yaml_doc *doc);

// "exp.yaml:3:7" of the value at dotted path "trainer.model.width" ("a.0.b" for lists); the nearest
// known parent when the path itself is not there; `file` alone when nothing is. Into out, returns
// out.
const char *yaml_where(const struct yaml_doc *doc, const char *path, char *out, size_t cap);
// The same for the key before the value; a list's element has no key and gives its own position.
const char *yaml_where_key(const struct yaml_doc *doc, const char *path, char *out, size_t cap);

#endif
