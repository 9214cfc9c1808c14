// Configuration schemas as tables: validation, defaults, suggestions for misspelt keys and the
// reference documentation come from the same table. Pure functions over jansson values; any thread.
#ifndef MUSTER_BASE_TEXT_SCHEMA_H
#define MUSTER_BASE_TEXT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text/yaml.h"

enum schema_type {
    SCHEMA_STRING,
    SCHEMA_INT,    // [min, max]; a whole real (1e6) becomes an integer
    SCHEMA_NUMBER, // [min, max]; integer or real
    SCHEMA_BOOL,
    SCHEMA_ENUM,   // one of `words`
    SCHEMA_OBJECT, // fields in `fields`
    SCHEMA_UNION,  // an object whose field `tag` selects one of `variants`
    SCHEMA_LIST,   // elements are of `element`
    SCHEMA_MAP,    // any keys; values are of `element` (NULL: anything)
    SCHEMA_ANY,
    SCHEMA_ONE_OF, // of any type in `fields`, such as string or list
};

struct schema_field {
    const char *name;
    enum schema_type type;
    bool required;
    bool nullable;                     // keeps an explicit null; otherwise null counts as absent
    const char *fallback;              // the default as JSON text; NULL: none
    double min, max;                   // inclusive, both 0: unbounded
    const char *const *words;          // SCHEMA_ENUM, NULL-terminated
    const struct schema_field *fields; // SCHEMA_OBJECT/ONE_OF, ends with name == NULL
    const char *tag;                   // SCHEMA_UNION
    const char *tag_fallback;          // SCHEMA_UNION: the default tag; NULL: none
    const struct schema_variant *variants; // SCHEMA_UNION, ends with word == NULL
    const struct schema_field *element;    // SCHEMA_LIST, SCHEMA_MAP
    const char *doc;                       // one sentence with units
};

// Whether the key is only accepted, for files of other systems: its `doc` begins with "accepted for
// older files". Errors neither suggest nor list it.
bool schema_is_old(const struct schema_field *field);

struct schema_variant {
    const char *word;
    const struct schema_field *fields; // without the tag
    const char *doc;
};
// Whether the variant's word or explanation contains `word`, of at least 4 letters in any case.
bool schema_variant_mentions(const struct schema_variant *variant, const char *word);

// Checks doc->root against `fields` and adds the defaults in place. An error names the first fault
// in document order, with position, path, the expected value and the nearest known word:
// "exp.yaml:4:3: trainer.optimiser: unknown key; did you mean \"optimizer\"?"
int schema_apply(const struct schema_field *fields, struct yaml_doc *doc, struct error *e);

// Checks a partial document: reports no missing keys and adds no defaults.
int schema_check_part(const struct schema_field *fields, struct yaml_doc *doc, struct error *e);

// As schema_apply(), for a JSON value. Positions are JSON paths after `source`.
int schema_apply_json(const struct schema_field *fields, json_t *value, const char *source,
                      struct error *e);

// A choice of a kind in a union: `path` is that of the union, as "trainer.layers[]".
struct schema_choice {
    const char *path, *tag, *word;
    const struct schema_choice *outer;
};

struct schema_row {
    const char *path; // "trainer.layers[].width", "ports.*"
    const struct schema_field *field;
    const struct schema_variant *variant; // the row is about a kind of the union `field`; or NULL
    const struct schema_choice *choices;  // around the key, innermost first; NULL: none
};
typedef void schema_visit(void *arg, const struct schema_row *row);

// Visits all keys in the order of the tables, a union's kinds each before its keys. A table that
// holds itself is visited once. The row is valid during the call.
void schema_walk(const struct schema_field *fields, schema_visit *visit, void *arg);

void schema_write_type(const struct schema_field *field, struct buf *out); // "a whole number"

// Writes the reference table in Markdown: key, type, default, meaning.
void schema_document(const struct schema_field *fields, struct buf *out);

#endif
