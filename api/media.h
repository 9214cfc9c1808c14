// The rules of media: images, histograms, tables and texts that programs report by step. Agents
// check them when a program reports an item, the master when it stores it. Pure; any thread.
#ifndef MUSTER_API_MEDIA_H
#define MUSTER_API_MEDIA_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { MEDIA_DIGEST = 64 }; // hexadecimal digits of a SHA-256

struct media_type {
    const char *name, *format, *content_type, *suffix; // "image", "png", "image/png", ".png"
};
const struct media_type *media_type_find(const char *name); // NULL: no such type
int media_type_check(const char *name, struct error *e);    // ERR_INVALID lists the types

bool media_is_digest(const char *text);

struct media_item {
    const char *name, *type, *digest; // of the JSON object
    int64_t step, size, time;         // size in bytes; time in microseconds since 1970
};

// Reads and checks an item, {step, name, type, format, digest, size, time}; the format may be
// absent. `now`: the time of an item without one; 0: the item must have it. ERR_TOO_LARGE: the
// content is larger than LIMIT_MEDIA_ITEM; ERR_INVALID: another field is missing or wrong.
int media_item_read(const json_t *from, int64_t now, struct media_item *out, struct error *e);

#endif
