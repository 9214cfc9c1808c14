// The encoder behind json_text() and the streaming writer jw_*().
#include "base/text/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { NUMBER_TEXT_MAX = 32 };

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

size_t json_utf8_fit(const char *s, size_t most)
{
    size_t len = strnlen(s, most + 1);
    if (len <= most)
        return len;
    for (len = most; len && (s[len] & 0xc0) == 0x80;)
        len--;
    return len;
}

json_t *json_string_cut(const char *s)
{
    size_t left = strlen(s), size = 0;
    char *text = xstrdup(s);
    while (left) {
        size_t len = utf8_length((const unsigned char *)s, left), read = len ? len : 1;
        memcpy(text + size, s, len);
        size += len;
        s += read;
        left -= read;
    }
    json_t *string = json_stringn(text, size);
    free(text);
    return string;
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
