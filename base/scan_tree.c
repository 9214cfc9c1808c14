#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/scan.h"

static json_t *read_value(struct scan *s);

static json_t *read_object(struct scan *s)
{
    json_t *object = json_object();
    char *key;
    bool good = scan_enter(s, '{');
    while (good && scan_member(s, &key)) {
        bool known = json_object_get(object, key);
        json_t *value = known ? NULL : read_value(s);
        if (known)
            scan_fail(s, ERR_INVALID, "this key was given before; keep one of them");
        else if (value && json_object_set_new(object, key, value))
            scan_fail(s, ERR_INVALID, "a key is not UTF-8");
        good = !s->err;
    }
    return object;
}

static json_t *read_list(struct scan *s)
{
    json_t *list = json_array();
    bool good = scan_enter(s, '[');
    while (good && scan_element(s)) {
        json_t *value = read_value(s);
        if (value)
            must(!json_array_append_new(list, value));
        good = !s->err;
    }
    return list;
}

static json_t *read_text(struct scan *s)
{
    size_t len;
    const char *text = scan_string(s, &len);
    json_t *value = text ? json_stringn(text, len) : NULL;
    if (text && !value)
        scan_fail(s, ERR_INVALID, "a string is not UTF-8");
    return value;
}

static json_t *read_number(struct scan *s)
{
    double value;
    bool whole;
    scan_peek(s);
    const char *text = s->at;
    if (!scan_number(s, &value, &whole))
        return NULL;
    if (!whole)
        return json_real(value);
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno)
        scan_fail(s, ERR_INVALID, "an integer of more than 64 bits");
    return errno ? NULL : json_integer(number);
}

// NULL: s->err says why. The depth is bounded by scan_enter().
static json_t *read_value(struct scan *s)
{
    char first = scan_peek(s);
    if (first == '{')
        return read_object(s);
    if (first == '[')
        return read_list(s);
    if (first == '"')
        return read_text(s);
    if (first != 't' && first != 'f' && first != 'n')
        return read_number(s);
    scan_skip(s);
    return s->err ? NULL : first == 'n' ? json_null() : json_boolean(first == 't');
}

int scan_tree(char *text, size_t len, const char *what, json_t **out, struct error *e)
{
    struct scan s;
    scan_init(&s, text, len, what, e);
    *out = read_value(&s);
    int err = scan_end(&s);
    if (err) {
        json_decref(*out);
        *out = NULL;
    }
    return err;
}
