// The shapes of the wire: what the OpenAPI document says of bodies, answers and parameters. They
// are written in one line each: fields are separated by blanks,
//
//   "id:int name:string labels?:[string] slots:{Slot} +weight:number"
//
// where `?` is a field that may be absent or null, [T] a list of T, {T} an object whose every value
// is a T, and `+` a field that Determined's API does not have. T is a word of the table in
// schemas.c (int, string, time, ..) or the name of a schema. Read-only tables; any thread.
#ifndef MUSTER_MASTER_HTTP_ROUTING_SCHEMAS_H
#define MUSTER_MASTER_HTTP_ROUTING_SCHEMAS_H

#include "api/wire.h"
#include "base/text/json.h"

struct schema {
    const char *name;          // "Experiment"
    const char *fields;        // of an object; NULL: an enumeration
    const char *prefix;        // of an enumeration: "JOB_TYPE_", and its
    const char *words;         // words, blank-separated; NULL: those of
    enum wire_names wire_name; // this table of wire.h
    bool ours;                 // Determined's API does not have it
};

extern const struct schema schema_table[]; // schemas_table.c
extern const size_t schema_count;

// The type of a parameter that does not say it: a name means the same in every call.
const char *schema_of_parameter(const char *name, size_t len);

// Whether what is in a body has the types of `text`, in both key cases; null is absent. What is
// missing, and which words there are, is its handler's to tell. ERR_INVALID names the place.
int schema_check(const char *text, const json_t *body, struct error *e);

// A JSON Schema as the next value. `text`: fields, or a type.
void schema_write(struct json_writer *w, const char *text);
void schema_write_type(struct json_writer *w, const char *type, size_t len);
void schema_write_all(struct json_writer *w); // key and value of each of the table

#endif
