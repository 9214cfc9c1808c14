// JSON: a writer into a buffer, for responses, and a parser with getters over jansson values, for
// requests. NaN and infinite numbers are written as "NaN", "Infinity" and "-Infinity". Any thread.
#ifndef MUSTER_BASE_TEXT_JSON_H
#define MUSTER_BASE_TEXT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum { JSON_DEPTH_MAX = 32 };

struct json_writer {
    struct buf *out;
    int depth;
    bool comma[JSON_DEPTH_MAX]; // the level already has a member
    bool key_pending;
};

void jw_init(struct json_writer *w, struct buf *out);
void jw_object(struct json_writer *w);
void jw_object_end(struct json_writer *w);
void jw_array(struct json_writer *w);
void jw_array_end(struct json_writer *w);
void jw_key(struct json_writer *w, const char *key);
void jw_string(struct json_writer *w, const char *s); // NULL -> null; bad UTF-8 -> U+FFFD
void jw_stringn(struct json_writer *w, const char *s, size_t n);
void jw_int(struct json_writer *w, int64_t v);
void jw_double(struct json_writer *w, double v); // shortest form that reads back equal
void jw_bool(struct json_writer *w, bool v);
void jw_null(struct json_writer *w);
void jw_raw(struct json_writer *w, const char *json); // JSON text; NULL -> null
void jw_json(struct json_writer *w, const json_t *v);
// A key and its value.
void jw_kv_string(struct json_writer *w, const char *key, const char *s);
void jw_kv_int(struct json_writer *w, const char *key, int64_t v);
void jw_kv_double(struct json_writer *w, const char *key, double v);
void jw_kv_bool(struct json_writer *w, const char *key, bool v);
void jw_kv_raw(struct json_writer *w, const char *key, const char *json);

// Getters return the fallback for a value that is absent, null or of another type. For a `key` in
// camelCase they also try its snake_case form, since the API accepts both. An integer may be a
// string.
json_t *jget(const json_t *obj, const char *key); // borrowed; NULL when absent or null
const char *jget_string(const json_t *obj, const char *key, const char *fallback);
int64_t jget_int(const json_t *obj, const char *key, int64_t fallback);
double jget_double(const json_t *obj, const char *key, double fallback); // "NaN", "Infinity" too
bool jget_bool(const json_t *obj, const char *key, bool fallback);
json_t *jget_path(const json_t *obj, const char *dotted); // "resources.slots_per_trial"

bool json_is_utf8(const char *s);
// The bytes of `s`, at most `most`, without the beginning of a UTF-8 character that goes on there.
size_t json_utf8_fit(const char *s, size_t most);
// A string without the bytes of `s` that are not UTF-8, such as the rest of a character that a
// limit of printf() has cut.
json_t *json_string_cut(const char *s);

// Parses JSON. `source` names the text in messages ("request body"), which also give the position.
// Refuses duplicate keys and values beyond LIMIT_BODY and LIMIT_RESPONSE_DEPTH.
int json_parse(const char *text, size_t len, const char *source, json_t **out, struct error *e);
// An upper bound of the memory that the values of a JSON text take, in bytes. It only counts
// punctuation and strings, so it is fast and does not validate.
size_t json_tree_bytes(const char *text, size_t len);
bool json_is_deeper_than(const json_t *v, int levels); // levels of lists and objects
// The value as compact JSON: keys in their order, numbers as jw_double() writes them. Heap string.
char *json_text(const json_t *v);
// Merges objects recursively; other values of `over` replace those of `into`. True: `into` changed.
bool json_deep_merge(json_t *into, const json_t *over);

#endif
