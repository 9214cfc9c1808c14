#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"

// ---- writer ----

void jw_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

static void before_value(struct json_writer *w)
{
    if (w->key_pending) {
        w->key_pending = false;
        return;
    }
    if (w->comma[w->depth]) {
        buf_append(w->out, ",", 1);
    }
    w->comma[w->depth] = true;
}

static void open_scope(struct json_writer *w, const char *bracket)
{
    before_value(w);
    buf_append(w->out, bracket, 1);
    must(w->depth + 1 < JSON_DEPTH_MAX);
    w->comma[++w->depth] = false;
}

static void close_scope(struct json_writer *w, const char *bracket)
{
    must(w->depth > 0 && !w->key_pending);
    w->depth--;
    buf_append(w->out, bracket, 1);
}

void jw_object(struct json_writer *w)
{
    open_scope(w, "{");
}

void jw_object_end(struct json_writer *w)
{
    close_scope(w, "}");
}

void jw_array(struct json_writer *w)
{
    open_scope(w, "[");
}

void jw_array_end(struct json_writer *w)
{
    close_scope(w, "]");
}

// Length of the UTF-8 sequence at p (n bytes left), 0 when it is none: overlong forms, surrogates
// and code points past U+10FFFF are none (RFC 3629).
static size_t utf8_length(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80) {
        return 1;
    }
    size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0xC2 || p[0] > 0xF4 || n < len) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool bad = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
               (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F);
    return bad ? 0 : len;
}

static void put_escaped(struct buf *out, unsigned char c)
{
    static const char *const names[] = {
        ['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n", ['\r'] = "\\r",
        ['\t'] = "\\t", ['"'] = "\\\"", ['\\'] = "\\\\"};
    if (c < sizeof(names) / sizeof(names[0]) && names[c] != NULL) {
        buf_puts(out, names[c]);
    } else {
        buf_printf(out, "\\u%04x", c);
    }
}

static void put_string(struct buf *out, const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s, *end = p + n, *plain = p;
    buf_append(out, "\"", 1);
    while (p < end) {
        size_t len = utf8_length(p, (size_t)(end - p));
        if (len > 1 || (len == 1 && *p >= 0x20 && *p != '"' && *p != '\\' && *p != 0x7F)) {
            p += len;
            continue;
        }
        buf_append(out, plain, (size_t)(p - plain));
        if (len == 0) {
            buf_puts(out, "\xEF\xBF\xBD");
        } else {
            put_escaped(out, *p);
        }
        plain = ++p;
    }
    buf_append(out, plain, (size_t)(p - plain));
    buf_append(out, "\"", 1);
}

void jw_key(struct json_writer *w, const char *key)
{
    must(!w->key_pending);
    before_value(w);
    put_string(w->out, key, strlen(key));
    buf_append(w->out, ":", 1);
    w->key_pending = true;
}

void jw_stringn(struct json_writer *w, const char *s, size_t n)
{
    before_value(w);
    put_string(w->out, s, n);
}

void jw_string(struct json_writer *w, const char *s)
{
    if (s == NULL) {
        jw_null(w);
    } else {
        jw_stringn(w, s, strlen(s));
    }
}

void jw_int(struct json_writer *w, int64_t v)
{
    before_value(w);
    buf_printf(w->out, "%lld", (long long)v);
}

void jw_double(struct json_writer *w, double v)
{
    if (!isfinite(v)) {
        jw_string(w, isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
        return;
    }
    before_value(w);
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v) {
            break;
        }
    }
    buf_puts(w->out, text);
}

void jw_bool(struct json_writer *w, bool v)
{
    before_value(w);
    buf_puts(w->out, v ? "true" : "false");
}

void jw_null(struct json_writer *w)
{
    before_value(w);
    buf_puts(w->out, "null");
}

void jw_raw(struct json_writer *w, const char *json)
{
    before_value(w);
    buf_puts(w->out, json != NULL ? json : "null");
}

void jw_json(struct json_writer *w, const json_t *v)
{
    char *text = v != NULL ? json_text(v) : NULL;
    jw_raw(w, text);
    free(text);
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

// ---- getters ----

enum { KEY_MAX = 128 };

static json_t *not_null(json_t *v)
{
    return json_is_null(v) ? NULL : v;
}

// "leastRecent" -> "least_recent"
static bool snake_case(const char *key, char out[KEY_MAX])
{
    size_t n = 0;
    bool changed = false;
    for (; *key != '\0' && n + 2 < KEY_MAX; key++) {
        if (isupper((unsigned char)*key)) {
            out[n++] = '_';
            changed = true;
        }
        out[n++] = (char)tolower((unsigned char)*key);
    }
    out[n] = '\0';
    return changed;
}

json_t *jget(const json_t *obj, const char *key)
{
    json_t *v = not_null(json_object_get(obj, key));
    char snake[KEY_MAX];
    if (v == NULL && snake_case(key, snake)) {
        v = not_null(json_object_get(obj, snake));
    }
    return v;
}

const char *jget_string(const json_t *obj, const char *key, const char *fallback)
{
    const char *s = json_string_value(jget(obj, key));
    return s != NULL ? s : fallback;
}

int64_t jget_int(const json_t *obj, const char *key, int64_t fallback)
{
    const json_t *v = jget(obj, key);
    if (json_is_integer(v)) {
        return json_integer_value(v);
    }
    if (json_is_string(v) && json_string_length(v) > 0) {
        char *end;
        errno = 0;
        long long n = strtoll(json_string_value(v), &end, 10);
        return *end == '\0' && errno == 0 ? n : fallback;
    }
    double d = json_is_real(v) ? json_real_value(v) : NAN;
    return d == rint(d) && fabs(d) < 9e15 ? (int64_t)d : fallback;
}

double jget_double(const json_t *obj, const char *key, double fallback)
{
    const json_t *v = jget(obj, key);
    const char *s = json_string_value(v);
    if (json_is_number(v)) {
        return json_number_value(v);
    }
    if (s == NULL) {
        return fallback;
    }
    return strcmp(s, "NaN") == 0         ? NAN
           : strcmp(s, "Infinity") == 0  ? INFINITY
           : strcmp(s, "-Infinity") == 0 ? -INFINITY
                                         : fallback;
}

bool jget_bool(const json_t *obj, const char *key, bool fallback)
{
    const json_t *v = jget(obj, key);
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

json_t *jget_path(const json_t *obj, const char *dotted)
{
    char part[KEY_MAX];
    while (obj != NULL) {
        size_t n = strcspn(dotted, ".");
        if (n >= sizeof(part)) {
            return NULL;
        }
        memcpy(part, dotted, n);
        part[n] = '\0';
        char *end;
        size_t index = strtoul(part, &end, 10);
        json_t *v = json_is_array(obj) && n > 0 && *end == '\0'
                        ? not_null(json_array_get(obj, index))
                        : jget(obj, part);
        if (dotted[n] == '\0') {
            return v;
        }
        obj = v;
        dotted += n + 1;
    }
    return NULL;
}

// ---- text ----

static int depth_of(const json_t *v, int most)
{
    if (most <= 0 || !(json_is_object(v) || json_is_array(v))) {
        return most <= 0 ? 1 : 0;
    }
    int deepest = 0;
    const char *key;
    size_t i;
    json_t *child;
    json_object_foreach((json_t *)v, key, child)
    {
        int d = depth_of(child, most - 1);
        deepest = d > deepest ? d : deepest;
    }
    json_array_foreach(v, i, child)
    {
        int d = depth_of(child, most - 1);
        deepest = d > deepest ? d : deepest;
    }
    return 1 + deepest;
}

int json_parse(const char *text, size_t len, const char *what, json_t **out, struct error *e)
{
    json_error_t at;
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
    if (*out == NULL) {
        return error_set(e, ERR_INVALID, "%s:%d:%d: %s", what, at.line, at.column, at.text);
    }
    if (depth_of(*out, LIMIT_JSON_DEPTH + 1) > LIMIT_JSON_DEPTH) {
        json_decref(*out);
        *out = NULL;
        return error_set(e, ERR_INVALID, "%s: nested deeper than %d levels", what,
                         LIMIT_JSON_DEPTH);
    }
    return 0;
}

char *json_text(const json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    must(text != NULL);
    return text;
}

bool json_deep_merge(json_t *into, const json_t *over)
{
    const char *key;
    json_t *value;
    bool changed = false;
    json_object_foreach((json_t *)over, key, value)
    {
        json_t *old = json_object_get(into, key);
        if (json_is_object(old) && json_is_object(value)) {
            changed = json_deep_merge(old, value) || changed;
        } else if (old == NULL || !json_equal(old, value)) {
            must(json_object_set_new(into, key, json_deep_copy(value)) == 0);
            changed = true;
        }
    }
    return changed;
}
