// JSON: a direct writer into a capped buffer (lists and charts), and null-tolerant getters over
// jansson values (requests). Numbers NaN, inf, -inf are written as "NaN", "Infinity", "-Infinity".
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
    bool comma[JSON_DEPTH_MAX]; // a member was written at this depth
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
void jw_raw(struct json_writer *w, const char *json); // an already encoded value; NULL -> null
void jw_json(struct json_writer *w, const json_t *v);
// key + value in one call
void jw_kv_string(struct json_writer *w, const char *key, const char *s);
void jw_kv_int(struct json_writer *w, const char *key, int64_t v);
void jw_kv_double(struct json_writer *w, const char *key, double v);
void jw_kv_bool(struct json_writer *w, const char *key, bool v);
void jw_kv_raw(struct json_writer *w, const char *key, const char *json);

// Getters: absent, null and wrong type give the fallback. `key` may be given in camelCase; its
// snake_case form is tried too (wire rule: both are accepted). An int64 may come as a string.
json_t *jget(const json_t *obj, const char *key); // borrowed; NULL when absent or null
const char *jget_string(const json_t *obj, const char *key, const char *fallback);
int64_t jget_int(const json_t *obj, const char *key, int64_t fallback);
double jget_double(const json_t *obj, const char *key, double fallback); // "NaN", "Infinity" too
bool jget_bool(const json_t *obj, const char *key, bool fallback);
json_t *jget_path(const json_t *obj, const char *dotted); // "resources.slots_per_trial"

bool json_is_utf8(const char *s); // UTF-8, as all texts of JSON are

// Text to value with the position in the error. `what` names the text ("request body").
// Duplicate keys are refused; depth and size are limited.
int json_parse(const char *text, size_t len, const char *what, json_t **out, struct error *e);
// Bytes that the tree of such a text takes in memory, at most; nothing is checked. Fast: the texts
// in it are passed over.
size_t json_tree_bytes(const char *text, size_t len);
bool json_is_deeper_than(const json_t *v, int levels); // of lists and objects
// Compact, keys in the order they have, numbers as jw_double writes them; heap string.
char *json_text(const json_t *v);
// Objects merge, all else replaces; tells whether `into` has changed.
bool json_deep_merge(json_t *into, const json_t *over);

#endif
