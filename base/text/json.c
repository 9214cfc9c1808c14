#include "base/text/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"

enum { NUMBER_TEXT_MAX = 32, KEY_MAX = 128 };

// --- encoding ------------------------------------------------------------------------------------

// Returns the bytes of the UTF-8 character at `s` (RFC 3629: shortest form, no surrogates, at most
// U+10FFFF), or 0 if it is not valid.
static size_t utf8_length(const unsigned char *s, size_t n)
{
    unsigned char c = s[0];
    if (c < 0x80)
        return 1;
    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (c == 0xe0 && s[1] < 0xa0) || (c == 0xf0 && s[1] < 0x90);
    bool outside = (c == 0xed && s[1] > 0x9f) || (c == 0xf4 && s[1] > 0x8f);
    return overlong || outside ? 0 : len;
}

bool json_is_utf8(const char *s)
{
    size_t left = strlen(s), len = 0;
    for (; left; s += len, left -= len)
        if (!(len = utf8_length((const unsigned char *)s, left)))
            return false;
    return true;
}

static bool is_plain_ascii(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

// Returns the code of a character that JSON allows unescaped and YAML does not, or 0 for any other:
// C1 controls, U+2028, U+2029, U+FFFE and U+FFFF. Configurations that are written as JSON are read
// again as YAML.
static unsigned yaml_forbidden_code(const unsigned char *s)
{
    if (s[0] == 0xc2 && s[1] < 0xa0)
        return s[1];
    if (s[0] == 0xe2 && s[1] == 0x80 && (s[2] | 1) == 0xa9)
        return 0x2000U | (s[2] & 0x3fU);
    if (s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe)
        return 0xffc0U | (s[2] & 0x3fU);
    return 0;
}

// Returns the bytes of the character at `s` if a string may hold it unescaped, else 0.
static size_t plain_length(const unsigned char *s, size_t n)
{
    if (*s < 0x80)
        return is_plain_ascii(*s);
    size_t len = utf8_length(s, n);
    return len && !yaml_forbidden_code(s) ? len : 0;
}

// Escapes an ASCII character.
static void write_escape(struct buf *out, unsigned char c)
{
    static const char named[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const char *name = c ? strchr(named, c) : NULL;
    if (name)
        buf_printf(out, "\\%c", letters[name - named]);
    else
        buf_printf(out, "\\u%04x", c);
}

static void write_string(struct buf *out, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + n;
    buf_append(out, "\"", 1);
    while (s < end) {
        const unsigned char *run = s;
        while (s < end && is_plain_ascii(*s)) // the common case
            s++;
        for (size_t len; s < end && (len = plain_length(s, (size_t)(end - s))) > 0; s += len)
            ;
        buf_append(out, run, (size_t)(s - run));
        if (s == end)
            break;
        size_t len = utf8_length(s, (size_t)(end - s));
        if (!len)
            buf_puts(out, "\xef\xbf\xbd"); // U+FFFD
        else if (len > 1)
            buf_printf(out, "\\u%04x", yaml_forbidden_code(s));
        else
            write_escape(out, *s);
        s += len ? len : 1;
    }
    buf_append(out, "\"", 1);
}

static void write_int(struct buf *out, int64_t v)
{
    char text[NUMBER_TEXT_MAX], *at = text + sizeof text;
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (v < 0)
        *--at = '-';
    buf_append(out, at, (size_t)(text + sizeof text - at));
}

// Writes the shortest form that reads back equal. 17 digits are always enough. A normal number with
// a form of at most 15 digits is found in the first round, because %g drops trailing zeros.
// Subnormal numbers may have fewer significant digits.
static void format_double(double v, char out[NUMBER_TEXT_MAX])
{
    for (int digits = isnormal(v) ? 15 : 1; digits <= 17; digits++) {
        snprintf(out, NUMBER_TEXT_MAX, "%.*g", digits, v);
        if (digits == 17 || strtod(out, NULL) == v)
            return;
    }
}

static void write_double(struct buf *out, double v)
{
    char text[NUMBER_TEXT_MAX];
    if (isnan(v)) {
        buf_puts(out, "\"NaN\"");
    } else if (isinf(v)) {
        buf_puts(out, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    } else if (v == trunc(v) && fabs(v) < 1e15 && !(v == 0 && signbit(v))) {
        write_int(out, (int64_t)v); // the same text as of %g, but faster
    } else {
        format_double(v, text);
        buf_puts(out, text);
    }
}

// Keeps a real a real when it is read again: 1.0, not 1.
static void write_real(struct buf *out, double v)
{
    char text[NUMBER_TEXT_MAX];
    format_double(v, text);
    buf_puts(out, text);
    if (!strpbrk(text, ".e"))
        buf_puts(out, ".0");
}

static void write_json(struct buf *out, const json_t *v);

static void write_array(struct buf *out, const json_t *v)
{
    buf_puts(out, "[");
    for (size_t i = 0; i < json_array_size(v); i++) {
        buf_puts(out, i > 0 ? "," : "");
        write_json(out, json_array_get(v, i));
    }
    buf_puts(out, "]");
}

static void write_object(struct buf *out, const json_t *v)
{
    const char *key;
    json_t *value;
    bool comma = false;
    buf_puts(out, "{");
    json_object_foreach((json_t *)v, key, value)
    {
        buf_puts(out, comma ? "," : "");
        write_string(out, key, strlen(key));
        buf_puts(out, ":");
        write_json(out, value);
        comma = true;
    }
    buf_puts(out, "}");
}

// Recursive; untrusted values were limited in depth when they were read.
static void write_json(struct buf *out, const json_t *v)
{
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT:
        write_object(out, v);
        break;
    case JSON_ARRAY:
        write_array(out, v);
        break;
    case JSON_STRING:
        write_string(out, json_string_value(v), json_string_length(v));
        break;
    case JSON_INTEGER:
        write_int(out, json_integer_value(v));
        break;
    case JSON_REAL:
        write_real(out, json_real_value(v));
        break;
    case JSON_TRUE:
        buf_puts(out, "true");
        break;
    case JSON_FALSE:
        buf_puts(out, "false");
        break;
    case JSON_NULL:
        buf_puts(out, "null");
        break;
    }
}

char *json_text(const json_t *v)
{
    struct buf out;
    buf_init(&out, SIZE_MAX / 8); // no limit: the value is in memory already
    write_json(&out, v);
    return buf_take(&out);
}

// --- writer --------------------------------------------------------------------------------------

void jw_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

// Writes the comma before a value or key, if one is needed.
static void begin_member(struct json_writer *w)
{
    if (w->key_pending) {
        w->key_pending = false;
        return;
    }
    if (w->depth == 0)
        return;
    if (w->comma[w->depth - 1])
        buf_append(w->out, ",", 1);
    w->comma[w->depth - 1] = true;
}

static void open_level(struct json_writer *w, const char *bracket)
{
    must(w->depth < JSON_DEPTH_MAX);
    begin_member(w);
    buf_puts(w->out, bracket);
    w->comma[w->depth++] = false;
}

static void close_level(struct json_writer *w, const char *bracket)
{
    must(w->depth > 0 && !w->key_pending);
    w->depth--;
    buf_puts(w->out, bracket);
}

void jw_object(struct json_writer *w)
{
    open_level(w, "{");
}

void jw_object_end(struct json_writer *w)
{
    close_level(w, "}");
}

void jw_array(struct json_writer *w)
{
    open_level(w, "[");
}

void jw_array_end(struct json_writer *w)
{
    close_level(w, "]");
}

void jw_key(struct json_writer *w, const char *key)
{
    must(!w->key_pending);
    begin_member(w);
    write_string(w->out, key, strlen(key));
    buf_append(w->out, ":", 1);
    w->key_pending = true;
}

void jw_stringn(struct json_writer *w, const char *s, size_t n)
{
    begin_member(w);
    if (s)
        write_string(w->out, s, n);
    else
        buf_puts(w->out, "null");
}

void jw_string(struct json_writer *w, const char *s)
{
    jw_stringn(w, s, s ? strlen(s) : 0);
}

void jw_int(struct json_writer *w, int64_t v)
{
    begin_member(w);
    write_int(w->out, v);
}

void jw_double(struct json_writer *w, double v)
{
    begin_member(w);
    write_double(w->out, v);
}

void jw_bool(struct json_writer *w, bool v)
{
    jw_raw(w, v ? "true" : "false");
}

void jw_null(struct json_writer *w)
{
    jw_raw(w, NULL);
}

void jw_raw(struct json_writer *w, const char *json)
{
    begin_member(w);
    buf_puts(w->out, json ? json : "null");
}

void jw_json(struct json_writer *w, const json_t *v)
{
    begin_member(w);
    write_json(w->out, v);
}

void jw_kv_string(struct json_writer *w, const char *key, const char *s)
{
    jw_key(w, key);
    jw_string(w, s);
}

void jw_kv_int(struct json_writer *w, const char *key, int64_t v)
{
    jw_key(w, key);
    jw_int(w, v);
}

void jw_kv_double(struct json_writer *w, const char *key, double v)
{
    jw_key(w, key);
    jw_double(w, v);
}

void jw_kv_bool(struct json_writer *w, const char *key, bool v)
{
    jw_key(w, key);
    jw_bool(w, v);
}

void jw_kv_raw(struct json_writer *w, const char *key, const char *json)
{
    jw_key(w, key);
    jw_raw(w, json);
}

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

static void advance(struct json_position *at, char c)
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
            advance(at, text[i++]);
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{') && ++depth > LIMIT_RESPONSE_DEPTH)
            return true;
        else if (!in_string && (c == ']' || c == '}'))
            depth--;
        advance(at, text[i]);
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
