// A walk over the value in document order, with the path in hand. Within a map the keys that are
// there are checked first and the missing ones told after them: a misspelt key is better told as
// the slip it is than as the absence of what was meant.
#include "base/text/schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

enum {
    WORDS_MAX = 512,      // names one suggestion is chosen from
    PATH_SHOWN_MAX = 300, // bytes of a path that a message shows
    WORD_SHOWN_MAX = 60,
    EXPECTED_MAX = 512, // bytes of "one of a, b, c"
    PLACE_MAX = 512,
};

struct checker {
    const struct yaml_doc *doc; // NULL: positions are paths
    const char *what;           // names the value when there is no doc
    bool partial;               // what is not there is not missed
    struct buf path;            // dotted, of the value in hand
    struct error *e;
};

// The keys a map may have: its fields and, in a union, the tag that chose them.
struct keys {
    const struct schema_field *fields;
    const char *tag;  // NULL outside unions
    const char *word; // the tag's value
};

// --- Paths and faults ----------------------------------------------------------------------------

// Returns the length to give to leave().
static size_t enter(struct checker *c, const char *name)
{
    size_t before = c->path.len;
    buf_printf(&c->path, "%s%s", before > 0 ? "." : "", name);
    return before;
}

static void leave(struct checker *c, size_t before)
{
    c->path.len = before;
    if (c->path.data)
        c->path.data[before] = '\0';
}

enum side { AT_VALUE, AT_KEY };

// A fault at the path in hand.
__attribute__((format(printf, 3, 4))) static int fault(struct checker *c, enum side side,
                                                       const char *fmt, ...)
{
    char place[PLACE_MAX];
    const char *path = buf_str(&c->path);
    va_list args;
    va_start(args, fmt);
    error_setv(c->e, ERR_INVALID, fmt, args);
    va_end(args);
    if (*path)
        error_prefix(c->e, "%.*s", PATH_SHOWN_MAX, path);
    if (!c->doc)
        error_prefix(c->e, "%s", c->what);
    else if (side == AT_KEY)
        error_prefix(c->e, "%s", yaml_where_key(c->doc, path, place, sizeof place));
    else
        error_prefix(c->e, "%s", yaml_where(c->doc, path, place, sizeof place));
    return ERR_INVALID;
}

// --- Words for people ----------------------------------------------------------------------------

// "from 1 to 8" with a leading blank, or nothing for a field without bounds.
static void put_range(struct buf *out, const struct schema_field *field)
{
    if (field->min == 0 && field->max == 0)
        return;
    buf_printf(out, isinf(field->max) ? " of at least %.15g" : " from %.15g to %.15g", field->min,
               field->max);
}

static void put_words(struct buf *out, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "", words[i]);
}

// What a value of `field` looks like: "a whole number from 1 to 8".
static void put_expected(struct buf *out, const struct schema_field *field)
{
    static const char *const names[] = {
        [SCHEMA_STRING] = "text",     [SCHEMA_INT] = "a whole number",
        [SCHEMA_NUMBER] = "a number", [SCHEMA_BOOL] = "true or false",
        [SCHEMA_ENUM] = "one of ",    [SCHEMA_OBJECT] = "a map",
        [SCHEMA_UNION] = "a map",     [SCHEMA_LIST] = "a list",
        [SCHEMA_MAP] = "a map",       [SCHEMA_ANY] = "any value",
        [SCHEMA_ONE_OF] = "",
    };
    buf_puts(out, names[field->type]);
    if (field->type == SCHEMA_INT || field->type == SCHEMA_NUMBER)
        put_range(out, field);
    if (field->type == SCHEMA_ENUM)
        put_words(out, field->words);
    if (field->type == SCHEMA_ONE_OF) {
        for (const struct schema_field *choice = field->fields; choice->name; choice++) {
            buf_puts(out, choice > field->fields ? " or " : "");
            put_expected(out, choice);
        }
    }
}

// What was found instead: "the text \"abc\"", "3.5", "a list".
static void put_found(struct buf *out, const json_t *value)
{
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        bool cut = strlen(text) > WORD_SHOWN_MAX;
        buf_printf(out, "the text \"%.*s%s\"", WORD_SHOWN_MAX, text, cut ? "..." : "");
    } else if (json_is_array(value) || json_is_object(value)) {
        buf_puts(out, json_is_array(value) ? "a list" : "a map");
    } else {
        char *text = json_text(value);
        buf_puts(out, text);
        free(text);
    }
}

static int wrong_value(struct checker *c, const struct schema_field *field, const json_t *value)
{
    struct buf expected, found;
    buf_init(&expected, EXPECTED_MAX);
    buf_init(&found, EXPECTED_MAX);
    put_expected(&expected, field);
    put_found(&found, value);
    bool unquoted =
        field->type == SCHEMA_STRING && (json_is_number(value) || json_is_boolean(value));
    int err = fault(c, AT_VALUE, "expected %s, found %s%s", buf_str(&expected), buf_str(&found),
                    unquoted ? "; put it in quotes" : "");
    buf_free(&found);
    buf_free(&expected);
    return err;
}

static int unknown_key(struct checker *c, const struct keys *keys, const char *name)
{
    const char *known[WORDS_MAX + 2] = {NULL};
    int count = 0;
    for (const struct schema_field *field = keys->fields; field->name; field++) {
        must(count < WORDS_MAX);
        known[count++] = field->name;
    }
    if (keys->tag)
        known[count] = keys->tag;
    char context[2 * WORD_SHOWN_MAX] = "";
    if (keys->tag)
        snprintf(context, sizeof context, " with %.50s: %.50s", keys->tag, keys->word);
    const char *near = nearest_word(name, known);
    if (near)
        return fault(c, AT_KEY, "unknown key%s; did you mean \"%s\"?", context, near);
    struct buf list;
    buf_init(&list, EXPECTED_MAX);
    put_words(&list, known);
    int err = fault(c, AT_KEY, "unknown key%s; known here: %s", context, buf_str(&list));
    buf_free(&list);
    return err;
}

// --- Values --------------------------------------------------------------------------------------

static int check_value(struct checker *c, const struct schema_field *field, json_t **value);
static int check_members(struct checker *c, const struct keys *keys, json_t *map);

static bool in_range(const struct schema_field *field, double v)
{
    return (field->min == 0 && field->max == 0) || (v >= field->min && v <= field->max);
}

static int check_word(struct checker *c, const struct schema_field *field, const json_t *value)
{
    const char *text = json_string_value(value);
    if (!text)
        return wrong_value(c, field, value);
    for (int i = 0; field->words[i]; i++)
        if (strcmp(field->words[i], text) == 0)
            return 0;
    const char *near = nearest_word(text, field->words);
    if (near)
        return fault(c, AT_VALUE, "unknown word \"%.*s\"; did you mean \"%s\"?", WORD_SHOWN_MAX,
                     text, near);
    return wrong_value(c, field, value);
}

// The words of a union's tag; room for WORDS_MAX + 1.
static void list_variants(const struct schema_field *field, const char **words)
{
    int count = 0;
    for (const struct schema_variant *variant = field->variants; variant->word; variant++) {
        must(count < WORDS_MAX);
        words[count++] = variant->word;
    }
    words[count] = NULL;
}

static int check_union(struct checker *c, const struct schema_field *field, json_t *value)
{
    if (!json_is_object(value))
        return wrong_value(c, field, value);
    const char *words[WORDS_MAX + 1];
    list_variants(field, words);
    struct schema_field tag = {.name = field->tag, .type = SCHEMA_ENUM, .words = words};
    json_t *chosen = json_object_get(value, field->tag);
    if (c->partial && (!chosen || json_is_null(chosen)))
        return 0; // of which kind it is, is said elsewhere
    size_t before = enter(c, field->tag);
    int err = 0;
    if ((!chosen || json_is_null(chosen)) && field->tag_fallback) {
        chosen = json_string(field->tag_fallback);
        must(json_object_set_new(value, field->tag, chosen) == 0);
    }
    if (chosen && !json_is_null(chosen)) {
        err = check_word(c, &tag, chosen);
    } else {
        struct buf list;
        buf_init(&list, EXPECTED_MAX);
        put_words(&list, words);
        err = fault(c, AT_VALUE, "missing key; it is one of %s", buf_str(&list));
        buf_free(&list);
    }
    leave(c, before);
    if (err)
        return err;
    const struct schema_variant *variant = field->variants;
    while (strcmp(variant->word, json_string_value(chosen)) != 0)
        variant++;
    struct keys keys = {.fields = variant->fields, .tag = field->tag, .word = variant->word};
    return check_members(c, &keys, value);
}

static int check_list(struct checker *c, const struct schema_field *field, json_t *list)
{
    if (!json_is_array(list))
        return wrong_value(c, field, list);
    for (size_t i = 0; i < json_array_size(list) && field->element; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        size_t before = enter(c, name);
        json_t *element = json_incref(json_array_get(list, i));
        int err = check_value(c, field->element, &element);
        must(json_array_set_new(list, i, element) == 0);
        leave(c, before);
        if (err)
            return err;
    }
    return 0;
}

// Checks the member `name` of a map, which is there.
static int check_in_map(struct checker *c, const struct schema_field *field, json_t *map,
                        const char *name)
{
    json_t *value = json_incref(json_object_get(map, name));
    int err = check_value(c, field, &value);
    must(json_object_set_new(map, name, value) == 0);
    return err;
}

static int check_map(struct checker *c, const struct schema_field *field, json_t *map)
{
    if (!json_is_object(map))
        return wrong_value(c, field, map);
    const char *name;
    json_t *member;
    json_object_foreach(map, name, member)
    {
        size_t before = enter(c, name);
        int err = field->element ? check_in_map(c, field->element, map, name) : 0;
        leave(c, before);
        if (err)
            return err;
    }
    return 0;
}

static int check_object(struct checker *c, const struct schema_field *field, json_t *value)
{
    struct keys keys = {.fields = field->fields};
    return json_is_object(value) ? check_members(c, &keys, value) : wrong_value(c, field, value);
}

// "1e6" reads as a real, and is the natural way to write such a count.
static bool is_whole_real(const json_t *value)
{
    double v = json_real_value(value); // 0 for what is no real
    return json_is_real(value) && v == floor(v) && fabs(v) <= 0x1p53;
}

// Whether the value is of the field's kind at all, whatever is wrong inside it.
static bool has_type(const struct schema_field *field, const json_t *value)
{
    switch (field->type) {
    case SCHEMA_STRING:
    case SCHEMA_ENUM:
        return json_is_string(value);
    case SCHEMA_INT:
        return json_is_integer(value) || is_whole_real(value);
    case SCHEMA_NUMBER:
        return json_is_number(value);
    case SCHEMA_BOOL:
        return json_is_boolean(value);
    case SCHEMA_OBJECT:
    case SCHEMA_UNION:
    case SCHEMA_MAP:
        return json_is_object(value);
    case SCHEMA_LIST:
        return json_is_array(value);
    case SCHEMA_ANY:
    case SCHEMA_ONE_OF:
        return true;
    }
    return false;
}

static int check_number(struct checker *c, const struct schema_field *field, json_t **value)
{
    if (!has_type(field, *value) || !in_range(field, json_number_value(*value)))
        return wrong_value(c, field, *value);
    if (field->type == SCHEMA_INT && json_is_real(*value)) {
        json_t *whole = json_integer((json_int_t)json_real_value(*value));
        json_decref(*value);
        *value = whole;
    }
    return 0;
}

// The first choice of the value's type takes it, with the bounds that choice has.
static int check_one_of(struct checker *c, const struct schema_field *field, json_t **value)
{
    for (const struct schema_field *choice = field->fields; choice->name; choice++)
        if (has_type(choice, *value))
            return check_value(c, choice, value);
    return wrong_value(c, field, *value);
}

// *value is owned by the caller and may be replaced.
static int check_value(struct checker *c, const struct schema_field *field, json_t **value)
{
    if (json_is_null(*value) && field->nullable)
        return 0;
    switch (field->type) {
    case SCHEMA_STRING:
    case SCHEMA_BOOL:
        return has_type(field, *value) ? 0 : wrong_value(c, field, *value);
    case SCHEMA_INT:
    case SCHEMA_NUMBER:
        return check_number(c, field, value);
    case SCHEMA_ENUM:
        return check_word(c, field, *value);
    case SCHEMA_OBJECT:
        return check_object(c, field, *value);
    case SCHEMA_UNION:
        return check_union(c, field, *value);
    case SCHEMA_LIST:
        return check_list(c, field, *value);
    case SCHEMA_MAP:
        return check_map(c, field, *value);
    case SCHEMA_ONE_OF:
        return check_one_of(c, field, value);
    case SCHEMA_ANY:
        return 0;
    }
    return 0;
}

// --- Members of a map ----------------------------------------------------------------------------

static const struct schema_field *find_field(const struct schema_field *fields, const char *name)
{
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

// A key that is there. A null where null is no value is the same as no key: it is taken out, so
// that the default comes in.
static int check_member(struct checker *c, const struct keys *keys, json_t *map, const char *name,
                        json_t *value)
{
    if (keys->tag && strcmp(name, keys->tag) == 0)
        return 0;
    const struct schema_field *field = find_field(keys->fields, name);
    if (!field)
        return unknown_key(c, keys, name);
    if (!json_is_null(value) || field->nullable)
        return check_in_map(c, field, map, name);
    return json_object_del(map, name) == 0 ? 0 : ERR_INTERNAL;
}

// A key that is not there: its default, itself checked so that what it holds is completed too.
static int complete_member(struct checker *c, const struct schema_field *field, json_t *map)
{
    if (field->required)
        return fault(c, AT_VALUE, field->doc ? "missing key (%s)" : "missing key%s",
                     field->doc ? field->doc : "");
    if (!field->fallback)
        return 0;
    json_t *value = json_loads(field->fallback, JSON_DECODE_ANY, NULL);
    must(value); // the table is wrong
    must(json_object_set_new(map, field->name, value) == 0);
    return json_is_null(value) ? 0 : check_in_map(c, field, map, field->name);
}

static int check_members(struct checker *c, const struct keys *keys, json_t *map)
{
    const char *name;
    json_t *value;
    void *next;
    int err = 0;
    json_object_foreach_safe(map, next, name, value)
    {
        size_t before = enter(c, name);
        err = check_member(c, keys, map, name, value);
        leave(c, before);
        if (err)
            return err;
    }
    for (const struct schema_field *field = keys->fields; field->name && !err; field++) {
        if (c->partial || json_object_get(map, field->name))
            continue;
        size_t before = enter(c, field->name);
        err = complete_member(c, field, map);
        leave(c, before);
    }
    return err;
}

static int check_root(struct checker *c, const struct schema_field *fields, json_t *root)
{
    struct schema_field top = {.type = SCHEMA_OBJECT, .fields = fields};
    buf_init(&c->path, LIMIT_CONFIG * 2);
    int err = check_object(c, &top, root);
    buf_free(&c->path);
    return err;
}

int schema_apply(const struct schema_field *fields, struct yaml_doc *doc, struct error *e)
{
    if (json_is_null(doc->root)) // an empty file leaves everything to the defaults
        doc->root = json_object();
    struct checker c = {.doc = doc, .e = e};
    return check_root(&c, fields, doc->root);
}

int schema_check_part(const struct schema_field *fields, struct yaml_doc *doc, struct error *e)
{
    struct checker c = {.doc = doc, .e = e, .partial = true};
    return check_root(&c, fields, doc->root);
}

int schema_apply_json(const struct schema_field *fields, json_t *value, const char *what,
                      struct error *e)
{
    struct checker c = {.what = what, .e = e};
    return check_root(&c, fields, value);
}

// --- Reference table -----------------------------------------------------------------------------

// A cell of a Markdown table, in which a bar would end it.
static void put_cell(struct buf *out, const char *text)
{
    buf_puts(out, " ");
    for (; *text; text++)
        buf_printf(out, *text == '|' ? "\\%c" : "%c", *text);
    buf_puts(out, " |");
}

static void put_row(struct buf *out, const char *path, const struct schema_field *field)
{
    struct buf expected;
    buf_init(&expected, EXPECTED_MAX);
    put_expected(&expected, field);
    buf_printf(out, "| `%s` |", path);
    put_cell(out, buf_str(&expected));
    put_cell(out, field->required ? "required" : field->fallback ? field->fallback : "");
    put_cell(out, field->doc ? field->doc : "");
    buf_puts(out, "\n");
    buf_free(&expected);
}

// The tables that are being written, innermost first: one that holds itself is written once.
struct table {
    const void *rows; // fields or variants
    const struct table *outer;
};

static void put_fields(struct buf *out, const char *path, const struct schema_field *fields,
                       const struct table *outer);

static void put_variants(struct buf *out, const char *path, const struct schema_field *field,
                         const struct table *outer)
{
    for (const struct schema_variant *variant = field->variants; variant->word; variant++) {
        bool is_default = field->tag_fallback && strcmp(field->tag_fallback, variant->word) == 0;
        buf_printf(out, "| `%s.%s: %s` | |%s| %s |\n", path, field->tag, variant->word,
                   is_default ? " default " : " ", variant->doc ? variant->doc : "");
        put_fields(out, path, variant->fields, outer);
    }
}

// The rows below `field`, whose own path is `path`.
static void put_inside(struct buf *out, const char *path, const struct schema_field *field,
                       const struct table *outer)
{
    struct table table = {.outer = outer};
    if (field->type == SCHEMA_OBJECT)
        table.rows = field->fields;
    if (field->type == SCHEMA_UNION)
        table.rows = field->variants;
    for (; outer && table.rows; outer = outer->outer)
        if (outer->rows == table.rows)
            return;
    if (field->type == SCHEMA_OBJECT)
        put_fields(out, path, field->fields, &table);
    if (field->type == SCHEMA_UNION)
        put_variants(out, path, field, &table);
    if ((field->type == SCHEMA_LIST || field->type == SCHEMA_MAP) && field->element) {
        char *inner = xasprintf("%s%s", path, field->type == SCHEMA_LIST ? "[]" : ".*");
        put_inside(out, inner, field->element, outer);
        free(inner);
    }
}

static void put_fields(struct buf *out, const char *path, const struct schema_field *fields,
                       const struct table *outer)
{
    for (const struct schema_field *field = fields; field->name; field++) {
        char *inner = xasprintf("%s%s%s", path, *path ? "." : "", field->name);
        put_row(out, inner, field);
        put_inside(out, inner, field, outer);
        free(inner);
    }
}

void schema_document(const struct schema_field *fields, struct buf *out)
{
    buf_puts(out, "| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
    const struct table top = {.rows = fields};
    put_fields(out, "", fields, &top);
}
