#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text/json_reader.h"

// The place of a value in the document. Only the path to the files of an upload matters.
enum place { ANYWHERE, UPLOAD, FILES, ONE_FILE };

static json_t *read_value(struct json_reader *s, enum place place);

// A file's content stays where it is.
static json_t *read_content(struct json_reader *s)
{
    if (jr_peek(s) == '"') {
        const char *text = jr_string(s, NULL);
        return text ? json_integer(text - s->start) : NULL;
    }
    json_t *value = read_value(s, ANYWHERE);
    if (json_is_integer(value))
        jr_fail(s, ERR_INVALID, "the content of a file is no string");
    return value;
}

static bool has_room(struct json_reader *s, size_t len)
{
    if (len > s->room) {
        jr_fail(s, ERR_TOO_LARGE, "the texts beside the contents of files are too long");
        return false;
    }
    s->room -= len;
    return true;
}

static json_t *read_member(struct json_reader *s, const char *key, enum place place)
{
    if (!has_room(s, strlen(key)))
        return NULL;
    if (place == ONE_FILE && !strcmp(key, "content"))
        return read_content(s);
    return read_value(s, place == UPLOAD ? FILES : ANYWHERE);
}

static json_t *read_object(struct json_reader *s, enum place place)
{
    json_t *object = json_object();
    char *key;
    bool good = jr_enter(s, '{');
    while (good && jr_member(s, &key)) {
        bool known = json_object_get(object, key);
        json_t *value = known ? NULL : read_member(s, key, place);
        if (known)
            jr_fail(s, ERR_INVALID, "this key was given before; keep one of them");
        else if (value && json_object_set_new(object, key, value))
            jr_fail(s, ERR_INVALID, "a key is not UTF-8");
        good = !s->err;
    }
    return object;
}

static json_t *read_list(struct json_reader *s, enum place place)
{
    json_t *list = json_array();
    bool good = jr_enter(s, '[');
    while (good && jr_element(s)) {
        json_t *value = read_value(s, place == FILES ? ONE_FILE : ANYWHERE);
        if (value)
            must(!json_array_append_new(list, value));
        good = !s->err;
    }
    return list;
}

static json_t *read_text(struct json_reader *s)
{
    size_t len;
    const char *text = jr_string(s, &len);
    if (!text || !has_room(s, len))
        return NULL;
    json_t *value = json_stringn(text, len);
    if (!value)
        jr_fail(s, ERR_INVALID, "a string is not UTF-8");
    return value;
}

static json_t *read_number(struct json_reader *s)
{
    double value;
    bool whole;
    jr_peek(s);
    const char *text = s->at;
    if (!jr_number(s, &value, &whole))
        return NULL;
    if (!whole)
        return json_real(value);
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno)
        jr_fail(s, ERR_INVALID, "an integer of more than 64 bits");
    return errno ? NULL : json_integer(number);
}

// NULL: s->err says why. The depth is bounded by jr_enter().
static json_t *read_value(struct json_reader *s, enum place place)
{
    char first = jr_peek(s);
    if (first == '{')
        return read_object(s, place == UPLOAD || place == ONE_FILE ? place : ANYWHERE);
    if (first == '[')
        return read_list(s, place == FILES ? place : ANYWHERE);
    if (first == '"')
        return read_text(s);
    if (first != 't' && first != 'f' && first != 'n')
        return read_number(s);
    jr_skip(s);
    return s->err ? NULL : first == 'n' ? json_null() : json_boolean(first == 't');
}

static int read_tree(struct json_reader *s, enum place place, json_t **out)
{
    *out = read_value(s, place);
    int err = jr_end(s);
    if (err) {
        json_decref(*out);
        *out = NULL;
    }
    return err;
}

int json_parse_in_place(char *text, size_t len, const char *what, json_t **out, struct error *e)
{
    struct json_reader s;
    jr_init(&s, text, len, what, e);
    return read_tree(&s, ANYWHERE, out);
}

int json_parse_upload(char *text, size_t len, const char *what, json_t **out, struct error *e)
{
    struct json_reader s;
    jr_init(&s, text, len, what, e);
    s.room = LIMIT_JSON_STRINGS;
    return read_tree(&s, UPLOAD, out);
}
