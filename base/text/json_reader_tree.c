#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text/json_reader.h"

// The position of a value in an upload: {"...": [{"content": "..."}]}.
enum upload_level { LEVEL_OTHER, LEVEL_ROOT, LEVEL_FILES, LEVEL_FILE };

static json_t *read_value(struct json_reader *r, enum upload_level level);

// Leaves the content of a file in the text and returns its offset.
static json_t *read_content(struct json_reader *r)
{
    if (jr_peek(r) == '"') {
        const char *text = jr_string(r, NULL);
        return text ? json_integer(text - r->start) : NULL;
    }
    json_t *value = read_value(r, LEVEL_OTHER);
    if (json_is_integer(value))
        jr_fail(r, ERR_INVALID, "the content of a file is not a string");
    return value;
}

static bool take_room(struct json_reader *r, size_t len)
{
    if (len > r->room) {
        jr_fail(r, ERR_TOO_LARGE, "the strings, without the contents of files, are too long");
        return false;
    }
    r->room -= len;
    return true;
}

static json_t *read_member(struct json_reader *r, const char *key, enum upload_level level)
{
    if (!take_room(r, strlen(key)))
        return NULL;
    if (level == LEVEL_FILE && !strcmp(key, "content"))
        return read_content(r);
    return read_value(r, level == LEVEL_ROOT ? LEVEL_FILES : LEVEL_OTHER);
}

static json_t *read_object(struct json_reader *r, enum upload_level level)
{
    json_t *object = json_object();
    char *key;
    bool good = jr_enter(r, '{');
    while (good && jr_member(r, &key)) {
        bool known = json_object_get(object, key);
        json_t *value = known ? NULL : read_member(r, key, level);
        if (known)
            jr_fail(r, ERR_INVALID, "duplicate key; keep one of them");
        else if (value && json_object_set_new(object, key, value))
            jr_fail(r, ERR_INVALID, "a key is not UTF-8");
        good = !r->err;
    }
    return object;
}

static json_t *read_list(struct json_reader *r, enum upload_level level)
{
    json_t *list = json_array();
    bool good = jr_enter(r, '[');
    while (good && jr_element(r)) {
        json_t *value = read_value(r, level == LEVEL_FILES ? LEVEL_FILE : LEVEL_OTHER);
        if (value)
            must(!json_array_append_new(list, value));
        good = !r->err;
    }
    return list;
}

static json_t *read_string(struct json_reader *r)
{
    size_t len;
    const char *text = jr_string(r, &len);
    if (!text || !take_room(r, len))
        return NULL;
    json_t *value = json_stringn(text, len);
    if (!value)
        jr_fail(r, ERR_INVALID, "a string is not UTF-8");
    return value;
}

static json_t *read_number(struct json_reader *r)
{
    double value;
    bool whole;
    jr_peek(r);
    const char *text = r->at;
    if (!jr_number(r, &value, &whole))
        return NULL;
    if (!whole)
        return json_real(value);
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno)
        jr_fail(r, ERR_INVALID, "an integer has more than 64 bits");
    return errno ? NULL : json_integer(number);
}

// NULL: r->err is set. jr_enter() bounds the recursion.
static json_t *read_value(struct json_reader *r, enum upload_level level)
{
    char first = jr_peek(r);
    if (first == '{')
        return read_object(r, level == LEVEL_ROOT || level == LEVEL_FILE ? level : LEVEL_OTHER);
    if (first == '[')
        return read_list(r, level == LEVEL_FILES ? level : LEVEL_OTHER);
    if (first == '"')
        return read_string(r);
    if (first != 't' && first != 'f' && first != 'n')
        return read_number(r);
    jr_skip(r);
    return r->err ? NULL : first == 'n' ? json_null() : json_boolean(first == 't');
}

static int read_tree(struct json_reader *r, enum upload_level level, json_t **out)
{
    *out = read_value(r, level);
    int err = jr_end(r);
    if (err) {
        json_decref(*out);
        *out = NULL;
    }
    return err;
}

int json_parse_in_place(char *text, size_t len, const char *source, json_t **out, struct error *e)
{
    struct json_reader r;
    jr_init(&r, text, len, source, e);
    return read_tree(&r, LEVEL_OTHER, out);
}

int json_parse_upload(char *text, size_t len, const char *source, json_t **out, struct error *e)
{
    struct json_reader r;
    jr_init(&r, text, len, source, e);
    r.room = LIMIT_JSON_STRINGS;
    return read_tree(&r, LEVEL_ROOT, out);
}
