// Turns the events of libyaml into jansson values and notes the position of every value. The size
// of the file, its depth and the expansion of its aliases are limited, so that a hostile file
// cannot exhaust memory. The positions form a tree of marks, each with the index of its parent and
// a name, so that their memory is proportional to the file.
#include "base/text/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"

enum {
    EXPANDED_MAX = 16 << 20, // bytes of all expanded aliases together
    NODE_COST = 256,         // bytes that a value counts for, without its text
    SHOWN_MAX = 60,          // characters of a word in a message
};

struct yaml_position {
    int line, column; // from 1
};

struct yaml_mark {
    size_t parent; // index; the root (index 0) is its own parent
    char *name;    // key or index in the parent; "" for the root
    struct yaml_position key, value;
};

struct anchor {
    char *name;
    json_t *value; // owned
};

struct yaml_reader {
    yaml_parser_t parser;
    const char *text; // the whole file
    struct yaml_doc *doc;
    size_t mark_cap;
    struct anchor *anchors;
    size_t anchor_count;
    size_t expanded; // bytes of aliases so far
    int depth;       // open lists and maps
    struct error *e;
};

__attribute__((format(printf, 3, 4))) static int
fail_at(struct yaml_reader *r, struct yaml_position at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(r->e, ERR_INVALID, fmt, args);
    va_end(args);
    error_prefix(r->e, "%s:%d:%d", r->doc->file, at.line, at.column);
    return ERR_INVALID;
}

static struct yaml_position position_of_mark(yaml_mark_t mark)
{
    return (struct yaml_position){.line = (int)mark.line + 1, .column = (int)mark.column + 1};
}

static struct yaml_position position_of_byte(const char *text, size_t offset)
{
    struct yaml_position at = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        at.column++;
        if (text[i] == '\n') {
            at.line++;
            at.column = 1;
        }
    }
    return at;
}

// --- events --------------------------------------------------------------------------------------

// Returns whether the fault is a tab, which libyaml does not name.
static bool is_at_tab(const yaml_parser_t *p)
{
    return p->error == YAML_SCANNER_ERROR && strstr(p->problem, "cannot start any token") &&
           p->buffer.pointer < p->buffer.last && *p->buffer.pointer == '\t';
}

static int parser_fault(struct yaml_reader *r)
{
    const yaml_parser_t *p = &r->parser;
    must(p->error != YAML_MEMORY_ERROR);
    if (is_at_tab(p))
        return fail_at(r, position_of_mark(p->problem_mark), "found a tab; indent with blanks");
    if (p->error == YAML_READER_ERROR)
        return fail_at(r, position_of_byte(r->text, p->problem_offset), "%s", p->problem);
    struct yaml_position from = position_of_mark(p->context_mark);
    if (p->context)
        return fail_at(r, position_of_mark(p->problem_mark), "%s (%s that began at %d:%d)",
                       p->problem, p->context, from.line, from.column);
    return fail_at(r, position_of_mark(p->problem_mark), "%s", p->problem);
}

static const yaml_char_t *tag_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag;
    default:
        return NULL;
    }
}

// Reads the next event. On success the caller deletes it.
static int next_event(struct yaml_reader *r, yaml_event_t *event)
{
    if (!yaml_parser_parse(&r->parser, event))
        return parser_fault(r);
    const yaml_char_t *tag = tag_of(event);
    if (!tag)
        return 0;
    int err = fail_at(r, position_of_mark(event->start_mark),
                      "the tag \"%.*s\" is not supported; write the value without it", SHOWN_MAX,
                      (const char *)tag);
    yaml_event_delete(event);
    return err;
}

// --- scalars -------------------------------------------------------------------------------------

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static const char *skip_digits(const char *s)
{
    while (isdigit((unsigned char)*s))
        s++;
    return s;
}

// [-+]? [0-9]+
static bool looks_decimal(const char *text)
{
    const char *digits = text + (*text == '-' || *text == '+');
    const char *end = skip_digits(digits);
    return end > digits && *end == '\0';
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
static bool looks_float(const char *text)
{
    const char *whole = text + (*text == '-' || *text == '+');
    const char *s = skip_digits(whole);
    size_t digits = (size_t)(s - whole);
    if (*s == '.') {
        const char *fraction = s + 1;
        s = skip_digits(fraction);
        digits += (size_t)(s - fraction);
    }
    if (digits == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        s += s[1] == '-' || s[1] == '+' ? 2 : 1;
        const char *exponent = s;
        s = skip_digits(exponent);
        if (s == exponent)
            return false;
    }
    return *s == '\0';
}

// Returns 8 for 0o17, 16 for 0xff, 10 for decimal digits, 0 if it is not an integer.
static int integer_base(const char *text)
{
    if (text[0] == '0' && text[1] == 'o' && text[2])
        return strspn(text + 2, "01234567") == strlen(text + 2) ? 8 : 0;
    if (text[0] == '0' && text[1] == 'x' && text[2])
        return strspn(text + 2, "0123456789abcdefABCDEF") == strlen(text + 2) ? 16 : 0;
    return looks_decimal(text) ? 10 : 0;
}

static int read_number(struct yaml_reader *r, struct yaml_position at, const char *text,
                       json_t **out)
{
    int base = integer_base(text);
    if (base == 0 && !looks_float(text))
        return 0;
    errno = 0;
    long long whole = base ? strtoll(base == 10 ? text : text + 2, NULL, base) : 0;
    double real = base ? 0 : strtod(text, NULL);
    if ((base && errno == ERANGE) || isinf(real))
        return fail_at(r, at, "the number %.*s is too large (put it in quotes if it is text)",
                       SHOWN_MAX, text);
    *out = base ? json_integer(whole) : json_real(real);
    return 0;
}

// Returns the string for an infinite number or NaN, as the getters of base/text/json.h expect it.
static const char *string_for_non_finite(const char *text)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    if (is_one_of(text, nans))
        return "NaN";
    if (is_one_of(text + (*text == '-' || *text == '+'), infinities))
        return *text == '-' ? "-Infinity" : "Infinity";
    return NULL;
}

// Only plain scalars have a type; quoted scalars are text.
static int read_scalar(struct yaml_reader *r, const yaml_event_t *event, json_t **out)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    struct yaml_position at = position_of_mark(event->start_mark);
    int err = 0;
    if (strlen(text) != len)
        return fail_at(r, at, "text may not contain the character \\0");
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        if (is_one_of(text, nulls))
            *out = json_null();
        else if (is_one_of(text, trues) || is_one_of(text, falses))
            *out = json_boolean(is_one_of(text, trues));
        else if (string_for_non_finite(text))
            *out = json_string(string_for_non_finite(text));
        else
            err = read_number(r, at, text, out);
    }
    if (!err && !*out) {
        *out = json_stringn(text, len);
        must(*out); // libyaml has checked the UTF-8
    }
    return err;
}

// --- anchors and aliases -------------------------------------------------------------------------

// Returns the bytes that a copy of `value` counts for. *depth: its levels of lists and maps.
static size_t copy_cost(const json_t *value, int *depth)
{
    size_t cost = NODE_COST, index;
    int deepest = 0, inner;
    const char *key;
    json_t *member;
    if (json_is_string(value))
        cost += json_string_length(value);
    json_object_foreach((json_t *)value, key, member)
    {
        cost += strlen(key) + copy_cost(member, &inner);
        deepest = inner > deepest ? inner : deepest;
    }
    json_array_foreach(value, index, member)
    {
        cost += copy_cost(member, &inner);
        deepest = inner > deepest ? inner : deepest;
    }
    *depth = deepest + (json_is_object(value) || json_is_array(value));
    return cost;
}

static int read_alias(struct yaml_reader *r, const yaml_event_t *event, json_t **out)
{
    const char *name = (const char *)event->data.alias.anchor;
    struct yaml_position at = position_of_mark(event->start_mark);
    const json_t *value = NULL;
    for (size_t i = 0; i < r->anchor_count; i++)
        if (strcmp(r->anchors[i].name, name) == 0)
            value = r->anchors[i].value; // YAML: the last one of a name counts
    if (!value)
        return fail_at(r, at, "there is no anchor &%.*s before this alias", SHOWN_MAX, name);
    int depth;
    r->expanded += copy_cost(value, &depth);
    if (r->expanded > EXPANDED_MAX)
        return fail_at(r, at, "the aliases expand to more than %d MiB", EXPANDED_MAX >> 20);
    if (r->depth + depth > LIMIT_JSON_DEPTH)
        return fail_at(r, at, "more than %d levels", LIMIT_JSON_DEPTH);
    // A deep copy, because each place of a configuration gets its own defaults.
    *out = json_deep_copy(value);
    return 0;
}

static const yaml_char_t *anchor_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor;
    default:
        return NULL;
    }
}

static void add_anchor(struct yaml_reader *r, const yaml_char_t *name, json_t *value)
{
    r->anchors = xrealloc(r->anchors, (r->anchor_count + 1) * sizeof *r->anchors);
    r->anchors[r->anchor_count++] =
        (struct anchor){.name = xstrdup((const char *)name), .value = json_incref(value)};
}

// --- values --------------------------------------------------------------------------------------

// Takes ownership of `name`; returns the index of the new mark.
static size_t add_mark(struct yaml_reader *r, size_t parent, char *name, struct yaml_position key,
                       struct yaml_position value)
{
    struct yaml_doc *doc = r->doc;
    if (doc->mark_count == r->mark_cap) {
        r->mark_cap = r->mark_cap ? r->mark_cap * 2 : 64;
        doc->marks = xrealloc(doc->marks, r->mark_cap * sizeof *doc->marks);
    }
    doc->marks[doc->mark_count] =
        (struct yaml_mark){.parent = parent, .name = name, .key = key, .value = value};
    return doc->mark_count++;
}

static int read_value(struct yaml_reader *r, const yaml_event_t *event, size_t mark, json_t **out);

static int read_list(struct yaml_reader *r, size_t mark, json_t *list)
{
    for (size_t i = 0;; i++) {
        yaml_event_t event;
        int err = next_event(r, &event);
        if (err)
            return err;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end) {
            struct yaml_position at = position_of_mark(event.start_mark);
            json_t *element = NULL;
            err = read_value(r, &event, add_mark(r, mark, xasprintf("%zu", i), at, at), &element);
            if (element)
                must(json_array_append_new(list, element) == 0);
        }
        yaml_event_delete(&event);
        if (end || err)
            return err;
    }
}

static int duplicate_key(struct yaml_reader *r, size_t parent, const char *key,
                         struct yaml_position at)
{
    struct yaml_position first = at;
    for (size_t i = r->doc->mark_count; i-- > 1;) {
        const struct yaml_mark *mark = &r->doc->marks[i];
        if (mark->parent == parent && strcmp(mark->name, key) == 0)
            first = mark->key;
    }
    return fail_at(r, at, "duplicate key \"%.*s\", first given at %d:%d; keep one of them",
                   SHOWN_MAX, key, first.line, first.column);
}

static int read_member(struct yaml_reader *r, size_t parent, const yaml_event_t *key_event,
                       json_t *map)
{
    struct yaml_position at = position_of_mark(key_event->start_mark);
    if (key_event->type != YAML_SCALAR_EVENT)
        return fail_at(r, at, "a key must be a scalar, not a list, a map or an alias");
    const char *key = (const char *)key_event->data.scalar.value;
    if (strlen(key) != key_event->data.scalar.length)
        return fail_at(r, at, "a key may not contain the character \\0");
    if (json_object_get(map, key))
        return duplicate_key(r, parent, key, at);
    yaml_event_t event;
    int err = next_event(r, &event);
    if (err)
        return err;
    json_t *value = NULL;
    size_t mark = add_mark(r, parent, xstrdup(key), at, position_of_mark(event.start_mark));
    err = read_value(r, &event, mark, &value);
    if (value)
        must(json_object_set_new(map, key, value) == 0);
    yaml_event_delete(&event);
    return err;
}

static int read_map(struct yaml_reader *r, size_t mark, json_t *map)
{
    for (;;) {
        yaml_event_t event;
        int err = next_event(r, &event);
        if (err)
            return err;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end)
            err = read_member(r, mark, &event, map);
        yaml_event_delete(&event);
        if (end || err)
            return err;
    }
}

static int read_collection(struct yaml_reader *r, const yaml_event_t *event, size_t mark,
                           json_t **out)
{
    if (r->depth == LIMIT_JSON_DEPTH)
        return fail_at(r, position_of_mark(event->start_mark), "more than %d levels",
                       LIMIT_JSON_DEPTH);
    r->depth++;
    bool is_list = event->type == YAML_SEQUENCE_START_EVENT;
    *out = is_list ? json_array() : json_object();
    int err = is_list ? read_list(r, mark, *out) : read_map(r, mark, *out);
    r->depth--;
    return err;
}

// Reads the value that begins with `event`. The caller owns *out, also on failure.
static int read_value(struct yaml_reader *r, const yaml_event_t *event, size_t mark, json_t **out)
{
    int err;
    if (r->doc->mark_count > LIMIT_YAML_VALUES) // a value can take 100 times the memory of its text
        err = fail_at(r, position_of_mark(event->start_mark), "more than %d values; use fewer",
                      LIMIT_YAML_VALUES);
    else if (event->type == YAML_ALIAS_EVENT)
        err = read_alias(r, event, out);
    else if (event->type == YAML_SCALAR_EVENT)
        err = read_scalar(r, event, out);
    else
        err = read_collection(r, event, mark, out);
    const yaml_char_t *anchor = anchor_of(event);
    if (!err && anchor)
        add_anchor(r, anchor, *out);
    return err;
}

// --- documents -----------------------------------------------------------------------------------

// Reads an event without a value (the start or end of the stream or of a document). Returns its
// type, or a negative error.
static int skip_event(struct yaml_reader *r, struct yaml_position *at)
{
    yaml_event_t event;
    int err = next_event(r, &event);
    if (err)
        return err;
    int type = (int)event.type;
    *at = position_of_mark(event.start_mark);
    yaml_event_delete(&event);
    return type;
}

static int read_document(struct yaml_reader *r)
{
    struct yaml_position at;
    int type = skip_event(r, &at); // stream start
    if (type >= 0)
        type = skip_event(r, &at);
    if (type == YAML_STREAM_END_EVENT) {
        r->doc->root = json_null();
        return 0;
    }
    if (type < 0)
        return type;
    yaml_event_t event;
    int err = next_event(r, &event);
    if (err)
        return err;
    at = position_of_mark(event.start_mark);
    err = read_value(r, &event, add_mark(r, 0, xstrdup(""), at, at), &r->doc->root);
    yaml_event_delete(&event);
    if (err)
        return err;
    type = skip_event(r, &at); // document end
    if (type >= 0)
        type = skip_event(r, &at);
    if (type == YAML_DOCUMENT_START_EVENT)
        return fail_at(r, at, "a second document begins here; a file must hold only one");
    return type < 0 ? type : 0;
}

int yaml_parse(const char *text, size_t len, const char *file, struct yaml_doc *out,
               struct error *e)
{
    *out = (struct yaml_doc){0};
    if (len > LIMIT_CONFIG)
        return error_set(e, ERR_TOO_LARGE, "%s: %zu bytes of YAML, at most %d are allowed", file,
                         len, LIMIT_CONFIG);
    out->file = xstrdup(file);
    struct yaml_reader r = {.text = text, .doc = out, .e = e};
    must(yaml_parser_initialize(&r.parser));
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    int err = read_document(&r);
    yaml_parser_delete(&r.parser);
    for (size_t i = 0; i < r.anchor_count; i++) {
        free(r.anchors[i].name);
        json_decref(r.anchors[i].value);
    }
    free(r.anchors);
    if (err)
        yaml_doc_free(out);
    return err;
}

void yaml_doc_free(struct yaml_doc *doc)
{
    json_decref(doc->root);
    for (size_t i = 0; i < doc->mark_count; i++)
        free(doc->marks[i].name);
    free(doc->marks);
    free(doc->file);
    *doc = (struct yaml_doc){0};
}

// --- positions -----------------------------------------------------------------------------------

// Returns whether `path` (`len` bytes) is the dotted path of mark `index`: compares the names from
// the last to the first.
static bool mark_is_at(const struct yaml_doc *doc, size_t index, const char *path, size_t len)
{
    for (;;) {
        const struct yaml_mark *mark = &doc->marks[index];
        if (index == 0)
            return len == 0;
        size_t name_len = strlen(mark->name);
        if (name_len > len || memcmp(path + len - name_len, mark->name, name_len) != 0)
            return false;
        len -= name_len;
        index = mark->parent;
        if (index != 0 && (len == 0 || path[--len] != '.'))
            return false;
    }
}

static const struct yaml_mark *find_mark(const struct yaml_doc *doc, const char *path, size_t len)
{
    for (size_t i = 0; i < doc->mark_count; i++)
        if (mark_is_at(doc, i, path, len))
            return &doc->marks[i];
    return NULL;
}

// Returns the length of `path` without its last component.
static size_t parent_length(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '.')
        len--;
    return len > 0 ? len - 1 : 0;
}

static const char *format_position(const struct yaml_doc *doc, const char *path, bool of_key,
                                   char *out, size_t cap)
{
    size_t len = strlen(path);
    const struct yaml_mark *mark = find_mark(doc, path, len);
    while (!mark && len > 0) {
        len = parent_length(path, len);
        mark = find_mark(doc, path, len);
    }
    if (!mark) {
        snprintf(out, cap, "%s", doc->file);
        return out;
    }
    struct yaml_position at = of_key ? mark->key : mark->value;
    snprintf(out, cap, "%s:%d:%d", doc->file, at.line, at.column);
    return out;
}

const char *yaml_where(const struct yaml_doc *doc, const char *path, char *out, size_t cap)
{
    return format_position(doc, path, false, out, cap);
}

const char *yaml_where_key(const struct yaml_doc *doc, const char *path, char *out, size_t cap)
{
    return format_position(doc, path, true, out, cap);
}
