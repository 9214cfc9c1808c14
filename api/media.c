#include "api/media.h"

#include <string.h>

#include "base/limits.h"
#include "base/text/json.h"

const struct media_type *media_type_find(const char *name)
{
    static const struct media_type types[] = {
        {"image", "png", "image/png", ".png"},
        {"histogram", "json", "application/json", ".json"},
        {"table", "json", "application/json", ".json"},
        {"text", "text", "text/plain; charset=utf-8", ".txt"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

int media_type_check(const char *name, struct error *e)
{
    return media_type_find(name)
               ? 0
               : error_set(e, ERR_INVALID, "\"%.64s\" is none of image, histogram, table and text",
                           name);
}

bool media_is_digest(const char *text)
{
    return strlen(text) == MEDIA_DIGEST && strspn(text, "0123456789abcdef") == MEDIA_DIGEST;
}

// --- items ---------------------------------------------------------------------------------------

static int check_name(const char *name, struct error *e)
{
    size_t len = strlen(name);
    if (!len || len > LIMIT_MEDIA_NAME)
        return error_set(e, ERR_INVALID, "name: %zu bytes, not 1 to %d", len, LIMIT_MEDIA_NAME);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return error_set(e, ERR_INVALID,
                             "name: byte %zu is a control character; use printable ones",
                             (size_t)(p - name));
    return 0;
}

static int check_type(const json_t *from, const char *name, struct error *e)
{
    const struct media_type *type = media_type_find(name);
    if (media_type_check(name, e))
        return error_prefix(e, "type");
    const char *format = jget(from, "format") ? jget_string(from, "format", "") : type->format;
    return strcmp(format, type->format) ? error_set(e, ERR_INVALID,
                                                    "format: \"%.64s\"; the format of type %s is "
                                                    "%s",
                                                    format, type->name, type->format)
                                        : 0;
}

static int check_numbers(const struct media_item *item, struct error *e)
{
    if (item->size < 0)
        return error_set(e, ERR_INVALID, "size: missing, or not a number of bytes");
    if (item->size > LIMIT_MEDIA_ITEM)
        return error_set(e, ERR_TOO_LARGE,
                         "size: %lld bytes, at most %d; make it smaller, or save it in a "
                         "checkpoint",
                         (long long)item->size, LIMIT_MEDIA_ITEM);
    if (item->time <= 0 || item->time > LIMIT_REPORTED_INTEGER)
        return error_set(e, ERR_INVALID, "time: not a number of microseconds since 1970");
    return 0;
}

int media_item_read(const json_t *from, int64_t now, struct media_item *out, struct error *e)
{
    *out = (struct media_item){
        .name = jget_string(from, "name", ""),
        .type = jget_string(from, "type", ""),
        .digest = jget_string(from, "digest", ""),
        .step = jget_int(from, "step", -1),
        .size = jget_int(from, "size", -1),
        .time = jget_int(from, "time", now),
    };
    int err = 0;
    if (out->step < 0 || out->step > LIMIT_REPORTED_INTEGER)
        err = error_set(e, ERR_INVALID, "step: missing, or not a number of steps from 0 to %lld",
                        LIMIT_REPORTED_INTEGER);
    err = err ? err : check_name(out->name, e);
    err = err ? err : check_type(from, out->type, e);
    if (!err && !media_is_digest(out->digest))
        err = error_set(e, ERR_INVALID,
                        "digest: \"%.80s\" is not the SHA-256 of the content as %d lower-case "
                        "hexadecimal digits",
                        out->digest, MEDIA_DIGEST);
    return err ? err : check_numbers(out, e);
}
