// The shapes of bodies, answers and parameters for the OpenAPI document. Each is one line of fields
// separated by blanks,
//
//   "id:int name:string labels?:[string] slots:{Slot} +weight:number"
//
// where `?` marks a field that may be absent or null, [T] is a list of T, {T} an object whose
// values are all T, and `+` marks a field that Determined's API does not have. T is a word of the
// table in schemas.c (int, string, time, ..) or the name of a schema. Read-only tables; any thread.
#ifndef MUSTER_MASTER_HTTP_ROUTING_SCHEMAS_H
#define MUSTER_MASTER_HTTP_ROUTING_SCHEMAS_H

#include "api/wire.h"
#include "base/text/json.h"
#include "master/http/routing/descriptions.h"

struct schema {
    const char *name;          // "Experiment"
    const char *fields;        // of an object; NULL: an enumeration
    const char *prefix;        // of an enumeration: "JOB_TYPE_", and its
    const char *words;         // words, separated by blanks; NULL: the words of
    enum wire_names wire_name; // this table of wire.h
    bool ours;                 // Determined's API does not have it
};

extern const struct schema schema_table[]; // schemas_table.c
extern const size_t schema_count;

// The type of a parameter that does not declare it: a name means the same in every call.
const char *schema_of_parameter(const char *name, size_t len);

// Checks that the values of a body have the types of `text`, in both spellings of keys; null counts
// as absent. The handler itself checks for missing values and unknown words. ERR_INVALID names the
// place.
int schema_check(const char *text, const json_t *body, struct error *e);

// Writes a JSON Schema as the next value. `text`: fields, or a type; `place` and `owner` lead to
// the descriptions, see description_find().
void schema_write(struct json_writer *w, const char *text, enum described place, const char *owner);

struct schema_parameter {
    const char *name, *type, *owner;
    size_t name_len, type_len;
    enum described place; // IN_PATH or IN_QUERY
};

// Writes "description" and "schema" into the open object of a parameter.
void schema_write_parameter(struct json_writer *w, const struct schema_parameter *p);
void schema_write_all(struct json_writer *w); // key and value of each schema of the table

#endif
