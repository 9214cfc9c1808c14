// The parser and the getters; json_writer.c is the other part of json.h.
#include "base/text/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"

enum { KEY_MAX = 128 };

// --- getters -------------------------------------------------------------------------------------

// "slotsPerTrial" -> "slots_per_trial". False: it does not fit.
static bool snake_case(const char *key, char out[KEY_MAX])
{
    size_t len = 0;
    for (; *key; key++) {
        if (len + 3 > KEY_MAX)
            return false;
        if (isupper((unsigned char)*key))
            out[len++] = '_';
        out[len++] = (char)tolower((unsigned char)*key);
    }
    out[len] = '\0';
    return true;
}

json_t *jget(const json_t *obj, const char *key)
{
    char snake[KEY_MAX];
    json_t *value = json_object_get(obj, key);
    if ((!value || json_is_null(value)) && snake_case(key, snake))
        value = json_object_get(obj, snake);
    return json_is_null(value) ? NULL : value;
}

const char *jget_string(const json_t *obj, const char *key, const char *fallback)
{
    const json_t *value = jget(obj, key);
    return json_is_string(value) ? json_string_value(value) : fallback;
}

int64_t jget_int(const json_t *obj, const char *key, int64_t fallback)
{
    const json_t *value = jget(obj, key);
    if (json_is_integer(value))
        return json_integer_value(value);
    if (json_is_real(value)) { // 3.0 counts as 3, as in the JSON form of protocol buffers
        double real = json_real_value(value);
        return real >= -0x1p63 && real < 0x1p63 && real == floor(real) ? (int64_t)real : fallback;
    }
    const char *text = json_string_value(value);
    if (!text || !(isdigit((unsigned char)*text) || *text == '-'))
        return fallback;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' ? number : fallback;
}

double jget_double(const json_t *obj, const char *key, double fallback)
{
    const json_t *value = jget(obj, key);
    if (json_is_number(value))
        return json_number_value(value);
    const char *text = json_string_value(value);
    if (!text)
        return fallback;
    if (strcmp(text, "NaN") == 0)
        return NAN;
    if (strcmp(text, "Infinity") == 0)
        return INFINITY;
    return strcmp(text, "-Infinity") == 0 ? -INFINITY : fallback;
}

bool jget_bool(const json_t *obj, const char *key, bool fallback)
{
    const json_t *value = jget(obj, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

json_t *jget_path(const json_t *obj, const char *dotted)
{
    const json_t *value = obj;
    for (;;) {
        char part[KEY_MAX];
        size_t len = strcspn(dotted, ".");
        if (len >= sizeof part)
            return NULL;
        memcpy(part, dotted, len);
        part[len] = '\0';
        json_t *next = jget(value, part);
        if (!next || dotted[len] == '\0')
            return next;
        value = next;
        dotted += len + 1;
    }
}

// --- parser --------------------------------------------------------------------------------------

struct json_position {
    int line, column; // from 1; a column is a byte
};

static void position_advance(struct json_position *at, char c)
{
    at->column++;
    if (c == '\n') {
        at->line++;
        at->column = 1;
    }
}

// Finds the first bracket beyond LIMIT_RESPONSE_DEPTH levels, outside strings. The depth limit of
// jansson is 2,048 and cannot be changed.
static bool find_too_deep(const char *text, size_t len, struct json_position *at)
{
    int depth = 0;
    bool in_string = false;
    *at = (struct json_position){1, 1};
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string && c == '\\' && i + 1 < len)
            position_advance(at, text[i++]);
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{') && ++depth > LIMIT_RESPONSE_DEPTH)
            return true;
        else if (!in_string && (c == ']' || c == '}'))
            depth--;
        position_advance(at, text[i]);
    }
    return false;
}

int json_parse(const char *text, size_t len, const char *source, json_t **out, struct error *e)
{
    *out = NULL;
    if (len > LIMIT_BODY)
        return error_set(e, ERR_TOO_LARGE, "%s: %zu bytes of JSON, at most %d are allowed", source,
                         len, LIMIT_BODY);
    struct json_position at;
    if (find_too_deep(text, len, &at))
        return error_set(e, ERR_INVALID, "%s:%d:%d: the JSON has more than %d levels", source,
                         at.line, at.column, LIMIT_RESPONSE_DEPTH);
    json_error_t fault;
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &fault);
    if (!*out)
        return error_set(e, ERR_INVALID, "%s:%d:%d: not valid JSON: %s", source, fault.line,
                         fault.column, fault.text);
    return 0;
}

enum { // bytes of memory for each value: jansson, malloc and the free entries of its tables
    BYTES_OBJECT = 256,
    BYTES_LIST = 160,
    BYTES_STRING = 112, // and its length
    BYTES_MEMBER = 96,  // and its key
    BYTES_ELEMENT = 56,
};

// Returns the end of the string whose text begins at `at`. It searches for the next quote only
// after an escape has passed the last one, so that the time is linear.
static const char *end_of_string(const char *at, const char *end)
{
    const char *quote = NULL;
    while (at < end) {
        if (!quote || quote < at)
            quote = memchr(at, '"', (size_t)(end - at));
        if (!quote)
            quote = end;
        const char *escape = memchr(at, '\\', (size_t)(quote - at));
        if (!escape)
            return quote < end ? quote + 1 : end;
        at = escape + 2;
    }
    return end;
}

size_t json_tree_bytes(const char *text, size_t len)
{
    static const unsigned char costs[256] = {
        [','] = BYTES_ELEMENT, [':'] = BYTES_MEMBER, ['['] = BYTES_LIST, ['"'] = BYTES_STRING};
    const char *end = text + len;
    size_t bytes = BYTES_ELEMENT;
    while (text < end) {
        const char *start = text;
        unsigned char c = (unsigned char)*text++;
        bytes += c == '{' ? BYTES_OBJECT : costs[c];
        if (c == '"') {
            text = end_of_string(text, end);
            bytes += (size_t)(text - start);
        }
    }
    return bytes;
}

bool json_is_deeper_than(const json_t *v, int levels)
{
    const char *key;
    json_t *value;
    size_t i;
    if (!json_is_object(v) && !json_is_array(v))
        return false;
    if (!levels)
        return true;
    json_array_foreach((json_t *)v, i, value)
    {
        if (json_is_deeper_than(value, levels - 1))
            return true;
    }
    json_object_foreach((json_t *)v, key, value)
    {
        if (json_is_deeper_than(value, levels - 1))
            return true;
    }
    return false;
}

bool json_deep_merge(json_t *into, const json_t *over)
{
    bool changed = false;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)over, key, value)
    {
        json_t *old = json_object_get(into, key);
        if (json_is_object(old) && json_is_object(value)) {
            changed |= json_deep_merge(old, value);
        } else if (!old || !json_equal(old, value)) {
            must(json_object_set_new(into, key, json_deep_copy(value)) == 0);
            changed = true;
        }
    }
    return changed;
}
