// YAML by libyaml's event parser. Values are built with an explicit recursion over events (depth is
// limited), and the position of each is noted under its dotted path, in document order, so that
// later checks of the same tree can point into the file. An alias is a deep copy of its anchor's
// value.
#include "base/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"

enum { YAML_VALUES_MAX = 200000, YAML_ANCHORS_MAX = 1000, YAML_PATH_MAX = 4096 };

struct yaml_mark {
    char *path;
    size_t line, column; // from 1
};

struct anchor {
    char *name;
    json_t *value;
};

struct parse {
    yaml_parser_t parser;
    yaml_event_t event;
    bool have_event;
    struct yaml_doc *doc;
    size_t mark_cap, values;
    struct anchor anchors[YAML_ANCHORS_MAX];
    size_t anchor_count;
    struct buf path;
    int depth;
    struct error *e;
};

static int fail_at(struct parse *p, yaml_mark_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail_at(struct parse *p, yaml_mark_t at, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return error_set(p->e, ERR_INVALID, "%s:%zu:%zu: %s", p->doc->file, at.line + 1, at.column + 1,
                     text);
}

static int next_event(struct parse *p)
{
    if (p->have_event) {
        yaml_event_delete(&p->event);
        p->have_event = false;
    }
    if (!yaml_parser_parse(&p->parser, &p->event)) {
        yaml_mark_t at = p->parser.problem_mark;
        return fail_at(p, at, "%s%s%s",
                       p->parser.problem != NULL ? p->parser.problem : "cannot be read",
                       p->parser.context != NULL ? ", " : "",
                       p->parser.context != NULL ? p->parser.context : "");
    }
    p->have_event = true;
    return 0;
}

static int note_mark(struct parse *p, yaml_mark_t at)
{
    if (++p->values > YAML_VALUES_MAX) {
        return fail_at(p, at, "more than %d values", YAML_VALUES_MAX);
    }
    if (p->doc->mark_count == p->mark_cap) {
        p->mark_cap = p->mark_cap > 0 ? 2 * p->mark_cap : 64;
        p->doc->marks = xrealloc(p->doc->marks, p->mark_cap * sizeof(*p->doc->marks));
    }
    p->doc->marks[p->doc->mark_count++] = (struct yaml_mark){
        .path = xstrdup(buf_str(&p->path)), .line = at.line + 1, .column = at.column + 1};
    return 0;
}

// Appends ".part" to the path; returns the length to cut back to.
static size_t path_push(struct parse *p, const char *part)
{
    size_t before = p->path.len;
    buf_printf(&p->path, "%s%s", before > 0 ? "." : "", part);
    return before;
}

static void path_pop(struct parse *p, size_t before)
{
    p->path.len = before;
    p->path.err = 0;
    if (p->path.data != NULL) {
        p->path.data[before] = '\0';
    }
}

static bool word_is(const char *s, const char *a, const char *b, const char *c)
{
    return strcmp(s, a) == 0 || strcmp(s, b) == 0 || strcmp(s, c) == 0;
}

// Integers of the core schema: decimal with sign, 0x, 0o. 1: not an integer at all.
static int plain_integer(const char *s, json_t **out)
{
    const char *digits = s + (*s == '-' || *s == '+');
    int base = strncmp(s, "0x", 2) == 0 ? 16 : strncmp(s, "0o", 2) == 0 ? 8 : 10;
    digits = base == 10 ? digits : s + 2;
    const char *allowed = base == 16  ? "0123456789abcdefABCDEF"
                          : base == 8 ? "01234567"
                                      : "0123456789";
    if (*digits == '\0' || digits[strspn(digits, allowed)] != '\0') {
        return 1;
    }
    errno = 0;
    long long n = strtoll(base == 10 ? s : digits, NULL, base);
    if (errno != 0) {
        return ERR_INVALID;
    }
    *out = json_integer(n);
    return 0;
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
static bool looks_like_float(const char *s)
{
    s += *s == '-' || *s == '+';
    size_t whole = strspn(s, "0123456789");
    s += whole;
    if (*s == '.') {
        size_t fraction = strspn(++s, "0123456789");
        s += fraction;
        whole += fraction;
    }
    if (whole == 0) {
        return false;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '-' || *s == '+';
        size_t exponent = strspn(s, "0123456789");
        s += exponent;
        if (exponent == 0) {
            return false;
        }
    }
    return *s == '\0';
}

static json_t *infinite_or_nan(const char *s)
{
    const char *bare = s + (*s == '-' || *s == '+');
    if (word_is(bare, ".inf", ".Inf", ".INF")) {
        return json_string(*s == '-' ? "-Infinity" : "Infinity");
    }
    return word_is(s, ".nan", ".NaN", ".NAN") ? json_string("NaN") : NULL;
}

// A plain (unquoted) scalar by the core schema of YAML 1.2.
static int plain_scalar(struct parse *p, const char *s, json_t **out)
{
    if (*s == '\0' || strcmp(s, "~") == 0 || word_is(s, "null", "Null", "NULL")) {
        *out = json_null();
    } else if (word_is(s, "true", "True", "TRUE")) {
        *out = json_true();
    } else if (word_is(s, "false", "False", "FALSE")) {
        *out = json_false();
    } else {
        int err = plain_integer(s, out);
        if (err < 0) {
            return fail_at(p, p->event.start_mark, "%s does not fit a 64-bit integer", s);
        }
        *out = err == 0 ? *out : infinite_or_nan(s);
        double d = *out == NULL && looks_like_float(s) ? strtod(s, NULL) : NAN;
        if (*out == NULL && isinf(d)) {
            return fail_at(p, p->event.start_mark, "%s is too large a number", s);
        }
        *out = *out != NULL ? *out : isnan(d) ? json_string(s) : json_real(d);
    }
    return *out != NULL ? 0 : fail_at(p, p->event.start_mark, "not valid UTF-8");
}

static int scalar(struct parse *p, json_t **out)
{
    const char *text = (const char *)p->event.data.scalar.value;
    size_t len = p->event.data.scalar.length;
    if (strlen(text) != len) {
        return fail_at(p, p->event.start_mark, "a string holds a NUL byte");
    }
    if (p->event.data.scalar.tag != NULL &&
        strcmp((const char *)p->event.data.scalar.tag, "!") != 0) {
        return fail_at(p, p->event.start_mark, "tags (%s) are not supported; leave it out",
                       (const char *)p->event.data.scalar.tag);
    }
    if (p->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        return plain_scalar(p, text, out);
    }
    *out = json_stringn(text, len);
    return *out != NULL ? 0 : fail_at(p, p->event.start_mark, "not valid UTF-8");
}

static int keep_anchor(struct parse *p, char *name, json_t *value, yaml_mark_t at)
{
    if (p->anchor_count == YAML_ANCHORS_MAX) {
        free(name);
        return fail_at(p, at, "more than %d anchors", YAML_ANCHORS_MAX);
    }
    p->anchors[p->anchor_count++] = (struct anchor){name, json_deep_copy(value)};
    return 0;
}

static size_t count_values(const json_t *v)
{
    size_t n = 1, i;
    const char *key;
    json_t *child;
    json_object_foreach((json_t *)v, key, child)
    {
        n += count_values(child);
    }
    json_array_foreach(v, i, child)
    {
        n += count_values(child);
    }
    return n;
}

static int alias(struct parse *p, json_t **out)
{
    const char *name = (const char *)p->event.data.alias.anchor;
    for (size_t i = p->anchor_count; i-- > 0;) {
        if (strcmp(p->anchors[i].name, name) == 0) {
            p->values += count_values(p->anchors[i].value); // many aliases of aliases grow fast
            if (p->values > YAML_VALUES_MAX) {
                return fail_at(p, p->event.start_mark, "aliases expand to more than %d values",
                               YAML_VALUES_MAX);
            }
            *out = json_deep_copy(p->anchors[i].value);
            return 0;
        }
    }
    return fail_at(p, p->event.start_mark, "*%s names an anchor that is not above it", name);
}

static int node(struct parse *p, json_t **out);

static int sequence(struct parse *p, json_t **out)
{
    *out = json_array();
    for (size_t i = 0;; i++) {
        int err = next_event(p);
        if (err != 0 || p->event.type == YAML_SEQUENCE_END_EVENT) {
            return err;
        }
        char index[24];
        snprintf(index, sizeof(index), "%zu", i);
        size_t before = path_push(p, index);
        json_t *value = NULL;
        err = note_mark(p, p->event.start_mark);
        err = err != 0 ? err : node(p, &value);
        path_pop(p, before);
        if (err != 0) {
            json_decref(value);
            return err;
        }
        json_array_append_new(*out, value);
    }
}

static int mapping_key(struct parse *p, const json_t *object, char **key)
{
    yaml_mark_t at = p->event.start_mark;
    if (p->event.type != YAML_SCALAR_EVENT) {
        return fail_at(p, at, "a key must be a plain word or string");
    }
    const char *text = (const char *)p->event.data.scalar.value;
    if (strlen(text) != p->event.data.scalar.length) {
        return fail_at(p, at, "a key holds a NUL byte");
    }
    if (json_object_get(object, text) != NULL) {
        return fail_at(p, at, "the key \"%s\" is there twice", text);
    }
    *key = xstrdup(text);
    return 0;
}

static int mapping(struct parse *p, json_t **out)
{
    *out = json_object();
    for (;;) {
        int err = next_event(p);
        if (err != 0 || p->event.type == YAML_MAPPING_END_EVENT) {
            return err;
        }
        char *key = NULL;
        json_t *value = NULL;
        yaml_mark_t at = p->event.start_mark;
        err = mapping_key(p, *out, &key);
        size_t before = err == 0 ? path_push(p, key) : p->path.len;
        if (err == 0) {
            err = note_mark(p, at); // a fault of a member points at its key
        }
        if (err == 0) {
            err = next_event(p);
        }
        if (err == 0) {
            err = node(p, &value);
        }
        path_pop(p, before);
        if (err == 0 && json_object_set_new(*out, key, value) != 0) {
            err = fail_at(p, at, "the key is not valid UTF-8");
        } else if (err != 0) {
            json_decref(value);
        }
        free(key);
        if (err != 0) {
            return err;
        }
    }
}

static char *anchor_of(const yaml_event_t *event)
{
    const yaml_char_t *name = event->type == YAML_SCALAR_EVENT ? event->data.scalar.anchor
                              : event->type == YAML_SEQUENCE_START_EVENT
                                  ? event->data.sequence_start.anchor
                                  : event->data.mapping_start.anchor;
    return xstrdup((const char *)name);
}

// The value that begins with the current event.
static int node(struct parse *p, json_t **out)
{
    yaml_mark_t at = p->event.start_mark;
    if (p->event.type == YAML_ALIAS_EVENT) {
        return alias(p, out);
    }
    char *anchor = anchor_of(&p->event);
    int err = p->depth >= LIMIT_JSON_DEPTH
                  ? fail_at(p, at, "nested deeper than %d levels", LIMIT_JSON_DEPTH)
                  : 0;
    p->depth++;
    if (err == 0 && p->event.type == YAML_SCALAR_EVENT) {
        err = scalar(p, out);
    } else if (err == 0) {
        err = p->event.type == YAML_SEQUENCE_START_EVENT ? sequence(p, out) : mapping(p, out);
    }
    p->depth--;
    if (err == 0 && anchor != NULL) {
        return keep_anchor(p, anchor, *out, at);
    }
    free(anchor);
    return err;
}

static int document(struct parse *p)
{
    int err = next_event(p); // stream start
    err = err != 0 ? err : next_event(p);
    if (err != 0) {
        return err;
    }
    if (p->event.type == YAML_STREAM_END_EVENT) {
        return fail_at(p, p->event.start_mark, "the file is empty");
    }
    err = next_event(p); // past document start
    err = err != 0 ? err : note_mark(p, p->event.start_mark);
    err = err != 0 ? err : node(p, &p->doc->root);
    err = err != 0 ? err : next_event(p); // document end
    err = err != 0 ? err : next_event(p);
    if (err == 0 && p->event.type != YAML_STREAM_END_EVENT) {
        err = fail_at(p, p->event.start_mark, "a second document begins; one is expected");
    }
    return err;
}

int yaml_parse(const char *text, size_t len, const char *file, struct yaml_doc *out,
               struct error *e)
{
    *out = (struct yaml_doc){.file = xstrdup(file)};
    struct parse *p = xcalloc(1, sizeof(*p));
    p->doc = out;
    p->e = e;
    buf_init(&p->path, YAML_PATH_MAX);
    must(yaml_parser_initialize(&p->parser));
    yaml_parser_set_input_string(&p->parser, (const unsigned char *)text, len);

    int err = document(p);

    if (p->have_event) {
        yaml_event_delete(&p->event);
    }
    yaml_parser_delete(&p->parser);
    for (size_t i = 0; i < p->anchor_count; i++) {
        free(p->anchors[i].name);
        json_decref(p->anchors[i].value);
    }
    buf_free(&p->path);
    free(p);
    if (err != 0) {
        yaml_free(out);
    }
    return err;
}

void yaml_free(struct yaml_doc *doc)
{
    for (size_t i = 0; i < doc->mark_count; i++) {
        free(doc->marks[i].path);
    }
    free(doc->marks);
    free(doc->file);
    json_decref(doc->root);
    *doc = (struct yaml_doc){0};
}

static const struct yaml_mark *find_mark(const struct yaml_doc *doc, const char *path, size_t len)
{
    for (size_t i = 0; i < doc->mark_count; i++) {
        if (strlen(doc->marks[i].path) == len && memcmp(doc->marks[i].path, path, len) == 0) {
            return &doc->marks[i];
        }
    }
    return NULL;
}

const char *yaml_where(const struct yaml_doc *doc, const char *path, char *out, size_t cap)
{
    size_t len = strlen(path);
    const struct yaml_mark *mark = find_mark(doc, path, len);
    while (mark == NULL && len > 0) { // the nearest parent that the file does hold
        while (len > 0 && path[--len] != '.') {
        }
        mark = find_mark(doc, path, len);
    }
    const char *file = doc->file != NULL ? doc->file : "";
    if (mark != NULL) {
        snprintf(out, cap, "%s:%zu:%zu", file, mark->line, mark->column);
    } else {
        snprintf(out, cap, "%s", file);
    }
    return out;
}
