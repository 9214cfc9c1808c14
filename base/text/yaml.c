// libyaml gives events; they become jansson values directly, so that every value's position is at
// hand. What a hostile file could blow up is bounded: its size, its depth, and the bytes its
// aliases expand to. Positions form a tree beside the values (a parent's index and a name each), so
// they take memory in proportion to the file, whatever the length of its keys.
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
    EXPANDED_MAX = 16 << 20, // bytes that all aliases together may stand for
    NODE_COST = 256,         // bytes one value counts for, beside its text
    SHOWN_MAX = 60,          // letters of a word that a message shows
};

struct place {
    int line, column; // from 1
};

struct yaml_mark {
    size_t parent; // index; the root (index 0) is its own
    char *name;    // key or index in the parent; "" for the root
    struct place key, value;
};

struct anchor {
    char *name;
    json_t *value; // owned
};

struct reader {
    yaml_parser_t parser;
    const char *text; // what is parsed, to find the place of a byte
    struct yaml_doc *doc;
    size_t mark_cap;
    struct anchor *anchors;
    size_t anchor_count;
    size_t expanded; // bytes so far, of EXPANDED_MAX
    int depth;       // lists and maps that are open
    struct error *e;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct reader *r, struct place at,
                                                        const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(r->e, ERR_INVALID, fmt, args);
    va_end(args);
    error_prefix(r->e, "%s:%d:%d", r->doc->file, at.line, at.column);
    return ERR_INVALID;
}

static struct place place_of(yaml_mark_t mark)
{
    return (struct place){.line = (int)mark.line + 1, .column = (int)mark.column + 1};
}

static struct place place_of_byte(const char *text, size_t offset)
{
    struct place at = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        at.column++;
        if (text[i] == '\n') {
            at.line++;
            at.column = 1;
        }
    }
    return at;
}

// --- Events --------------------------------------------------------------------------------------

// Whether it is a tab that cannot begin anything, which the parser does not say.
static bool is_at_tab(const yaml_parser_t *p)
{
    return p->error == YAML_SCANNER_ERROR && strstr(p->problem, "cannot start any token") &&
           p->buffer.pointer < p->buffer.last && *p->buffer.pointer == '\t';
}

static int parser_fault(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    must(p->error != YAML_MEMORY_ERROR);
    if (is_at_tab(p))
        return refuse(r, place_of(p->problem_mark),
                      "a tab, where YAML wants blanks: indent with blanks");
    if (p->error == YAML_READER_ERROR)
        return refuse(r, place_of_byte(r->text, p->problem_offset), "%s", p->problem);
    struct place from = place_of(p->context_mark);
    if (p->context)
        return refuse(r, place_of(p->problem_mark), "%s (%s that began at %d:%d)", p->problem,
                      p->context, from.line, from.column);
    return refuse(r, place_of(p->problem_mark), "%s", p->problem);
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

// The caller deletes the event when this gives 0.
static int next_event(struct reader *r, yaml_event_t *event)
{
    if (!yaml_parser_parse(&r->parser, event))
        return parser_fault(r);
    const yaml_char_t *tag = tag_of(event);
    if (!tag)
        return 0;
    int err = refuse(r, place_of(event->start_mark),
                     "the tag \"%.*s\" is not supported; write the value without it", SHOWN_MAX,
                     (const char *)tag);
    yaml_event_delete(event);
    return err;
}

// --- Scalars -------------------------------------------------------------------------------------

static bool is_word_of(const char *text, const char *const *words)
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

// 8 for 0o17, 16 for 0xff, 10 for decimal digits, 0 when it is no integer.
static int integer_base(const char *text)
{
    if (text[0] == '0' && text[1] == 'o' && text[2])
        return strspn(text + 2, "01234567") == strlen(text + 2) ? 8 : 0;
    if (text[0] == '0' && text[1] == 'x' && text[2])
        return strspn(text + 2, "0123456789abcdefABCDEF") == strlen(text + 2) ? 16 : 0;
    return looks_decimal(text) ? 10 : 0;
}

static int read_number(struct reader *r, struct place at, const char *text, json_t **out)
{
    int base = integer_base(text);
    if (base == 0 && !looks_float(text))
        return 0;
    errno = 0;
    long long whole = base ? strtoll(base == 10 ? text : text + 2, NULL, base) : 0;
    double real = base ? 0 : strtod(text, NULL);
    if ((base && errno == ERANGE) || isinf(real))
        return refuse(r, at, "%.*s is too large a number (put it in quotes if it is text)",
                      SHOWN_MAX, text);
    *out = base ? json_integer(whole) : json_real(real);
    return 0;
}

// JSON has no such numbers; these are the words for them that the getters of base/text/json.h know.
static const char *word_for_infinite(const char *text)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    if (is_word_of(text, nans))
        return "NaN";
    if (is_word_of(text + (*text == '-' || *text == '+'), infinities))
        return *text == '-' ? "-Infinity" : "Infinity";
    return NULL;
}

// Only plain scalars have a type; what is quoted is text.
static int read_scalar(struct reader *r, const yaml_event_t *event, json_t **out)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    struct place at = place_of(event->start_mark);
    int err = 0;
    if (strlen(text) != len)
        return refuse(r, at, "text may not hold the character \\0");
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        if (is_word_of(text, nulls))
            *out = json_null();
        else if (is_word_of(text, trues) || is_word_of(text, falses))
            *out = json_boolean(is_word_of(text, trues));
        else if (word_for_infinite(text))
            *out = json_string(word_for_infinite(text));
        else
            err = read_number(r, at, text, out);
    }
    if (!err && !*out) {
        *out = json_stringn(text, len);
        must(*out); // libyaml has checked the UTF-8
    }
    return err;
}

// --- Anchors and aliases -------------------------------------------------------------------------

// Bytes that a copy of `value` counts for, and the lists and maps within each other in it.
static size_t measure(const json_t *value, int *depth)
{
    size_t cost = NODE_COST, index;
    int deepest = 0, inner;
    const char *key;
    json_t *member;
    if (json_is_string(value))
        cost += json_string_length(value);
    json_object_foreach((json_t *)value, key, member)
    {
        cost += strlen(key) + measure(member, &inner);
        deepest = inner > deepest ? inner : deepest;
    }
    json_array_foreach(value, index, member)
    {
        cost += measure(member, &inner);
        deepest = inner > deepest ? inner : deepest;
    }
    *depth = deepest + (json_is_object(value) || json_is_array(value));
    return cost;
}

static int read_alias(struct reader *r, const yaml_event_t *event, json_t **out)
{
    const char *name = (const char *)event->data.alias.anchor;
    struct place at = place_of(event->start_mark);
    const json_t *value = NULL;
    for (size_t i = 0; i < r->anchor_count; i++)
        if (strcmp(r->anchors[i].name, name) == 0)
            value = r->anchors[i].value; // the last of that name, as YAML has it
    if (!value)
        return refuse(r, at, "no anchor &%.*s stands before this alias", SHOWN_MAX, name);
    int depth;
    r->expanded += measure(value, &depth);
    if (r->expanded > EXPANDED_MAX)
        return refuse(r, at, "the aliases expand to more than %d MiB", EXPANDED_MAX >> 20);
    if (r->depth + depth > LIMIT_JSON_DEPTH)
        return refuse(r, at, "more than %d levels deep", LIMIT_JSON_DEPTH);
    // A copy: two places of a configuration are completed with defaults of their own.
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

static void keep_anchor(struct reader *r, const yaml_char_t *name, json_t *value)
{
    r->anchors = xrealloc(r->anchors, (r->anchor_count + 1) * sizeof *r->anchors);
    r->anchors[r->anchor_count++] =
        (struct anchor){.name = xstrdup((const char *)name), .value = json_incref(value)};
}

// --- Values --------------------------------------------------------------------------------------

// Returns the index of the new mark; `name` becomes its own.
static size_t add_mark(struct reader *r, size_t parent, char *name, struct place key,
                       struct place value)
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

static int read_value(struct reader *r, const yaml_event_t *event, size_t mark, json_t **out);

static int read_list(struct reader *r, size_t mark, json_t *list)
{
    for (size_t i = 0;; i++) {
        yaml_event_t event;
        int err = next_event(r, &event);
        if (err)
            return err;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end) {
            struct place at = place_of(event.start_mark);
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

static int duplicate_key(struct reader *r, size_t parent, const char *key, struct place at)
{
    struct place first = at;
    for (size_t i = r->doc->mark_count; i-- > 1;) {
        const struct yaml_mark *mark = &r->doc->marks[i];
        if (mark->parent == parent && strcmp(mark->name, key) == 0)
            first = mark->key;
    }
    return refuse(r, at, "the key \"%.*s\" was given before, at %d:%d; keep one of them", SHOWN_MAX,
                  key, first.line, first.column);
}

static int read_member(struct reader *r, size_t parent, const yaml_event_t *key_event, json_t *map)
{
    struct place at = place_of(key_event->start_mark);
    if (key_event->type != YAML_SCALAR_EVENT)
        return refuse(r, at, "a key must be a word, not a list, a map or an alias");
    const char *key = (const char *)key_event->data.scalar.value;
    if (strlen(key) != key_event->data.scalar.length)
        return refuse(r, at, "a key may not hold the character \\0");
    if (json_object_get(map, key))
        return duplicate_key(r, parent, key, at);
    yaml_event_t event;
    int err = next_event(r, &event);
    if (err)
        return err;
    json_t *value = NULL;
    size_t mark = add_mark(r, parent, xstrdup(key), at, place_of(event.start_mark));
    err = read_value(r, &event, mark, &value);
    if (value)
        must(json_object_set_new(map, key, value) == 0);
    yaml_event_delete(&event);
    return err;
}

static int read_map(struct reader *r, size_t mark, json_t *map)
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

static int read_collection(struct reader *r, const yaml_event_t *event, size_t mark, json_t **out)
{
    if (r->depth == LIMIT_JSON_DEPTH)
        return refuse(r, place_of(event->start_mark), "more than %d levels deep", LIMIT_JSON_DEPTH);
    r->depth++;
    bool is_list = event->type == YAML_SEQUENCE_START_EVENT;
    *out = is_list ? json_array() : json_object();
    int err = is_list ? read_list(r, mark, *out) : read_map(r, mark, *out);
    r->depth--;
    return err;
}

// The value that `event` begins; *out may be set, for the caller to own, when this fails too.
static int read_value(struct reader *r, const yaml_event_t *event, size_t mark, json_t **out)
{
    int err;
    if (r->doc->mark_count > LIMIT_YAML_VALUES) // a small one takes a hundred times its text
        err = refuse(r, place_of(event->start_mark), "more than %d values; write fewer",
                     LIMIT_YAML_VALUES);
    else if (event->type == YAML_ALIAS_EVENT)
        err = read_alias(r, event, out);
    else if (event->type == YAML_SCALAR_EVENT)
        err = read_scalar(r, event, out);
    else
        err = read_collection(r, event, mark, out);
    const yaml_char_t *anchor = anchor_of(event);
    if (!err && anchor)
        keep_anchor(r, anchor, *out);
    return err;
}

// --- Documents -----------------------------------------------------------------------------------

// Takes an event that carries nothing (the start and end of the stream, and of the document).
// Returns its type, or a negative error.
static int skip_event(struct reader *r, struct place *at)
{
    yaml_event_t event;
    int err = next_event(r, &event);
    if (err)
        return err;
    int type = (int)event.type;
    *at = place_of(event.start_mark);
    yaml_event_delete(&event);
    return type;
}

static int read_document(struct reader *r)
{
    struct place at;
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
    at = place_of(event.start_mark);
    err = read_value(r, &event, add_mark(r, 0, xstrdup(""), at, at), &r->doc->root);
    yaml_event_delete(&event);
    if (err)
        return err;
    type = skip_event(r, &at); // document end
    if (type >= 0)
        type = skip_event(r, &at);
    if (type == YAML_DOCUMENT_START_EVENT)
        return refuse(r, at, "a second document begins here; one file holds one");
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
    struct reader r = {.text = text, .doc = out, .e = e};
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

// --- Positions -----------------------------------------------------------------------------------

// Whether mark `index` stands at the dotted path of `len` bytes: its name ends the path, and what
// is before it is the path of its parent.
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

// `path` without its last part.
static size_t parent_length(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '.')
        len--;
    return len > 0 ? len - 1 : 0;
}

static const char *write_place(const struct yaml_doc *doc, const char *path, bool of_key, char *out,
                               size_t cap)
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
    struct place at = of_key ? mark->key : mark->value;
    snprintf(out, cap, "%s:%d:%d", doc->file, at.line, at.column);
    return out;
}

const char *yaml_where(const struct yaml_doc *doc, const char *path, char *out, size_t cap)
{
    return write_place(doc, path, false, out, cap);
}

const char *yaml_where_key(const struct yaml_doc *doc, const char *path, char *out, size_t cap)
{
    return write_place(doc, path, true, out, cap);
}
