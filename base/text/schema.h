// Configuration tables: a schema is data, and validation, defaults, near-miss suggestions and
// documentation come from it. Pure functions over jansson values; any thread.
#ifndef MUSTER_BASE_TEXT_SCHEMA_H
#define MUSTER_BASE_TEXT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text/yaml.h"

enum schema_type {
    SCHEMA_STRING,
    SCHEMA_INT,    // [min, max]; a whole real (1e6) is taken and made an integer
    SCHEMA_NUMBER, // [min, max]; an integer is a number
    SCHEMA_BOOL,
    SCHEMA_ENUM,   // one of `words`
    SCHEMA_OBJECT, // fields in `fields`
    SCHEMA_UNION,  // an object whose field `tag` chooses one of `variants`
    SCHEMA_LIST,   // of `element`
    SCHEMA_MAP,    // any keys, values by `element` (NULL: anything)
    SCHEMA_ANY,
    SCHEMA_ONE_OF, // any of the fields in `fields` (by type only), e.g. string or list
};

struct schema_field {
    const char *name;
    enum schema_type type;
    bool required;
    bool nullable;                         // explicit null is kept as null (else null = absent)
    const char *fallback;                  // default as JSON text; NULL: none
    double min, max;                       // inclusive, both 0: unbounded
    const char *const *words;              // SCHEMA_ENUM, NULL-terminated
    const struct schema_field *fields;     // SCHEMA_OBJECT/ONE_OF, ends with name == NULL
    const char *tag;                       // SCHEMA_UNION
    const char *tag_fallback;              // SCHEMA_UNION: the word of an absent tag; NULL: none
    const struct schema_variant *variants; // SCHEMA_UNION, ends with word == NULL
    const struct schema_field *element;    // SCHEMA_LIST, SCHEMA_MAP
    const char *doc;                       // one sentence with units
};

struct schema_variant {
    const char *word;
    const struct schema_field *fields; // beside the tag itself
    const char *doc;
};

// Checks doc->root against the object `fields` and completes it in place with the defaults.
// The first fault in document order is told with position, path, what was expected, and the nearest
// known word: "exp.yaml:4:3: trainer.optimiser: unknown key; did you mean \"optimizer\"?"
int schema_apply(const struct schema_field *fields, struct yaml_doc *doc, struct error *e);

// Checks what is there of a document that is a part of one: nothing is missing, and no default
// comes in.
int schema_check_part(const struct schema_field *fields, struct yaml_doc *doc, struct error *e);

// As schema_apply() for a bare JSON value; positions are JSON paths, prefixed with `what`.
int schema_apply_json(const struct schema_field *fields, json_t *value, const char *what,
                      struct error *e);

// A reference table in Markdown: key, type, default, meaning.
void schema_document(const struct schema_field *fields, struct buf *out);

#endif
