// Walks over the value in document order. In a map it checks the present keys before it reports the
// missing ones, so that a misspelt key is reported as misspelt and not as missing.
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
    WORDS_MAX = 512,      // candidates for a suggestion
    PATH_SHOWN_MAX = 300, // bytes of a path in a message
    WORD_SHOWN_MAX = 60,
    EXPECTED_MAX = 512, // bytes of "one of a, b, c"
    PLACE_MAX = 512,
};

struct checker {
    const struct yaml_doc *doc; // NULL: positions are paths
    const char *source;         // names the value if there is no doc
    bool partial;               // missing keys are allowed
    struct buf path;            // dotted path of the present value
    struct error *e;
};

// The allowed keys of a map: its fields and, in a union, the tag that selects them.
struct schema_keys {
    const struct schema_field *fields;
    const char *tag;  // NULL outside unions
    const char *word; // the tag's value
};

// --- paths and faults ----------------------------------------------------------------------------

// Appends `name` to the path. Returns the former length, which leave_path() needs.
static size_t enter_path(struct checker *c, const char *name)
{
    size_t before = c->path.len;
    buf_printf(&c->path, "%s%s", before > 0 ? "." : "", name);
    return before;
}

static void leave_path(struct checker *c, size_t before)
{
    c->path.len = before;
    if (c->path.data)
        c->path.data[before] = '\0';
}

enum fault_side { AT_VALUE, AT_KEY };

// Reports a fault of the present value, or of its key.
__attribute__((format(printf, 3, 4))) static int
report_fault(struct checker *c, enum fault_side side, const char *fmt, ...)
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
        error_prefix(c->e, "%s", c->source);
    else if (side == AT_KEY)
        error_prefix(c->e, "%s", yaml_where_key(c->doc, path, place, sizeof place));
    else
        error_prefix(c->e, "%s", yaml_where(c->doc, path, place, sizeof place));
    return ERR_INVALID;
}

// --- words for people ----------------------------------------------------------------------------

#define SCHEMA_MAX 1e15 // a bound that is no limit for people

// Writes " from 1 to 8", or nothing for a field without bounds.
static void write_range(struct buf *out, const struct schema_field *field)
{
    bool open = field->max >= SCHEMA_MAX;
    if ((field->min == 0 && field->max == 0) || (open && field->min <= -SCHEMA_MAX))
        return;
    buf_printf(out, open ? " of at least %.15g" : " from %.15g to %.15g", field->min, field->max);
}

// write_range() omits a bound that is too large to matter; an error about a larger value names it.
static void write_far_bound(struct buf *out, const struct schema_field *field, const json_t *value)
{
    if (json_is_number(value) && field->max >= SCHEMA_MAX && json_number_value(value) > field->max)
        buf_printf(out, " and at most %.0f", field->max);
}

static void write_words(struct buf *out, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "", words[i]);
}

// Describes the values of `field`: "a whole number from 1 to 8".
static void write_expected(struct buf *out, const struct schema_field *field)
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
        write_range(out, field);
    if (field->type == SCHEMA_ENUM)
        write_words(out, field->words);
    if (field->type == SCHEMA_ONE_OF) {
        for (const struct schema_field *choice = field->fields; choice->name; choice++) {
            buf_puts(out, choice > field->fields ? " or " : "");
            write_expected(out, choice);
        }
    }
}

// Describes the present value: "the text \"abc\"", "3.5", "a list".
static void write_found(struct buf *out, const json_t *value)
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

static int report_wrong_value(struct checker *c, const struct schema_field *field,
                              const json_t *value)
{
    struct buf expected, found;
    buf_init(&expected, EXPECTED_MAX);
    buf_init(&found, EXPECTED_MAX);
    write_expected(&expected, field);
    write_far_bound(&expected, field, value);
    write_found(&found, value);
    bool unquoted =
        field->type == SCHEMA_STRING && (json_is_number(value) || json_is_boolean(value));
    int err = report_fault(c, AT_VALUE, "expected %s, found %s%s", buf_str(&expected),
                           buf_str(&found), unquoted ? "; put it in quotes" : "");
    buf_free(&found);
    buf_free(&expected);
    return err;
}

bool schema_is_old(const struct schema_field *field)
{
    static const char words[] = "accepted for older files";
    return field->doc && strncmp(field->doc, words, sizeof words - 1) == 0;
}

static int report_unknown_key(struct checker *c, const struct schema_keys *keys, const char *name)
{
    const char *known[WORDS_MAX + 2] = {NULL};
    int count = 0;
    for (const struct schema_field *field = keys->fields; field->name; field++) {
        must(count < WORDS_MAX);
        if (!schema_is_old(field))
            known[count++] = field->name;
    }
    if (keys->tag)
        known[count] = keys->tag;
    char context[2 * WORD_SHOWN_MAX] = "";
    if (keys->tag)
        snprintf(context, sizeof context, " with %.50s: %.50s", keys->tag, keys->word);
    const char *near = nearest_word(name, known);
    if (near)
        return report_fault(c, AT_KEY, "unknown key%s; did you mean \"%s\"?", context, near);
    struct buf list;
    buf_init(&list, EXPECTED_MAX);
    write_words(&list, known);
    int err = report_fault(c, AT_KEY, "unknown key%s; known keys: %s", context, buf_str(&list));
    buf_free(&list);
    return err;
}

// --- values --------------------------------------------------------------------------------------

static int check_value(struct checker *c, const struct schema_field *field, json_t **value);
static int check_members(struct checker *c, const struct schema_keys *keys, json_t *map);

static bool in_range(const struct schema_field *field, double v)
{
    return (field->min == 0 && field->max == 0) || (v >= field->min && v <= field->max);
}

bool schema_variant_mentions(const struct schema_variant *variant, const char *word)
{
    enum { LETTERS_MIN = 4 }; // shorter words are in many sentences
    return strlen(word) >= LETTERS_MIN &&
           (strcasestr(variant->word, word) || (variant->doc && strcasestr(variant->doc, word)));
}

// Names the variants of a union whose names or explanations contain the word, else all words.
static int report_unlike_word(struct checker *c, const struct schema_field *field,
                              const json_t *value)
{
    struct buf list;
    int err = 0;
    buf_init(&list, EXPECTED_MAX);
    for (const struct schema_variant *v = field->variants; v && v->word; v++)
        if (schema_variant_mentions(v, json_string_value(value)))
            buf_printf(&list, "%s\"%s\"", list.len ? " or " : "", v->word);
    if (list.len && !list.err)
        err = report_fault(c, AT_VALUE, "unknown word \"%.*s\"; did you mean %s?", WORD_SHOWN_MAX,
                           json_string_value(value), buf_str(&list));
    else
        err = report_wrong_value(c, field, value);
    buf_free(&list);
    return err;
}

static int check_word(struct checker *c, const struct schema_field *field, const json_t *value)
{
    const char *text = json_string_value(value);
    if (!text)
        return report_wrong_value(c, field, value);
    for (int i = 0; field->words[i]; i++)
        if (strcmp(field->words[i], text) == 0)
            return 0;
    const char *near = nearest_word(text, field->words);
    if (near)
        return report_fault(c, AT_VALUE, "unknown word \"%.*s\"; did you mean \"%s\"?",
                            WORD_SHOWN_MAX, text, near);
    return report_unlike_word(c, field, value);
}

// Lists the values of a union's tag; `words` has room for WORDS_MAX + 1.
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
        return report_wrong_value(c, field, value);
    const char *words[WORDS_MAX + 1];
    list_variants(field, words);
    struct schema_field tag = {
        .name = field->tag, .type = SCHEMA_ENUM, .words = words, .variants = field->variants};
    json_t *chosen = json_object_get(value, field->tag);
    if (c->partial && (!chosen || json_is_null(chosen)))
        return 0; // another part of the document selects the variant
    size_t before = enter_path(c, field->tag);
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
        write_words(&list, words);
        err = report_fault(c, AT_VALUE, "missing key; write one of %s", buf_str(&list));
        buf_free(&list);
    }
    leave_path(c, before);
    if (err)
        return err;
    const struct schema_variant *variant = field->variants;
    while (strcmp(variant->word, json_string_value(chosen)) != 0)
        variant++;
    struct schema_keys keys = {.fields = variant->fields, .tag = field->tag, .word = variant->word};
    return check_members(c, &keys, value);
}

static int check_list(struct checker *c, const struct schema_field *field, json_t *list)
{
    if (!json_is_array(list))
        return report_wrong_value(c, field, list);
    for (size_t i = 0; i < json_array_size(list) && field->element; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        size_t before = enter_path(c, name);
        json_t *element = json_incref(json_array_get(list, i));
        int err = check_value(c, field->element, &element);
        must(json_array_set_new(list, i, element) == 0);
        leave_path(c, before);
        if (err)
            return err;
    }
    return 0;
}

// Checks the present member `name` of a map.
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
        return report_wrong_value(c, field, map);
    const char *name;
    json_t *member;
    json_object_foreach(map, name, member)
    {
        size_t before = enter_path(c, name);
        int err = field->element ? check_in_map(c, field->element, map, name) : 0;
        leave_path(c, before);
        if (err)
            return err;
    }
    return 0;
}

static int check_object(struct checker *c, const struct schema_field *field, json_t *value)
{
    struct schema_keys keys = {.fields = field->fields};
    return json_is_object(value) ? check_members(c, &keys, value)
                                 : report_wrong_value(c, field, value);
}

// 1e6 is a natural way to write a count, but it is read as a real.
static bool is_whole_real(const json_t *value)
{
    double v = json_real_value(value); // 0 if it is not a real
    return json_is_real(value) && v == floor(v) && fabs(v) <= 0x1p53;
}

// Returns whether the value has the field's JSON type; does not look inside.
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
        return report_wrong_value(c, field, *value);
    if (field->type == SCHEMA_INT && json_is_real(*value)) {
        json_t *whole = json_integer((json_int_t)json_real_value(*value));
        json_decref(*value);
        *value = whole;
    }
    return 0;
}

static bool is_like_word(const struct schema_field *field, const json_t *value)
{
    const char *text = json_string_value(value);
    for (int i = 0; field->words[i]; i++)
        if (strcmp(field->words[i], text) == 0)
            return true;
    return nearest_word(text, field->words) != NULL;
}

// Checks the value against the first choice of its type, with the bounds of that choice. A text
// that is like none of the words is reported with all choices.
static int check_one_of(struct checker *c, const struct schema_field *field, json_t **value)
{
    for (const struct schema_field *choice = field->fields; choice->name; choice++)
        if (has_type(choice, *value) &&
            (choice->type != SCHEMA_ENUM || is_like_word(choice, *value)))
            return check_value(c, choice, value);
    return report_wrong_value(c, field, *value);
}

// The caller owns *value, which may be replaced.
static int check_value(struct checker *c, const struct schema_field *field, json_t **value)
{
    if (json_is_null(*value) && field->nullable)
        return 0;
    switch (field->type) {
    case SCHEMA_STRING:
    case SCHEMA_BOOL:
        return has_type(field, *value) ? 0 : report_wrong_value(c, field, *value);
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

// --- members of a map ----------------------------------------------------------------------------

static const struct schema_field *find_field(const struct schema_field *fields, const char *name)
{
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

// Checks a present key. Removes a null that is not allowed, so that the default replaces it.
static int check_member(struct checker *c, const struct schema_keys *keys, json_t *map,
                        const char *name, json_t *value)
{
    if (keys->tag && strcmp(name, keys->tag) == 0)
        return 0;
    const struct schema_field *field = find_field(keys->fields, name);
    if (!field)
        return report_unknown_key(c, keys, name);
    if (!json_is_null(value) || field->nullable)
        return check_in_map(c, field, map, name);
    return json_object_del(map, name) == 0 ? 0 : ERR_INTERNAL;
}

// Adds the default of an absent key, and the defaults inside it.
static int complete_member(struct checker *c, const struct schema_field *field, json_t *map)
{
    if (field->required)
        return report_fault(c, AT_VALUE, field->doc ? "missing key (%s)" : "missing key%s",
                            field->doc ? field->doc : "");
    if (!field->fallback)
        return 0;
    json_t *value = json_loads(field->fallback, JSON_DECODE_ANY, NULL);
    must(value); // else the table is wrong
    must(json_object_set_new(map, field->name, value) == 0);
    return json_is_null(value) ? 0 : check_in_map(c, field, map, field->name);
}

static int check_members(struct checker *c, const struct schema_keys *keys, json_t *map)
{
    const char *name;
    json_t *value;
    void *next;
    int err = 0;
    json_object_foreach_safe(map, next, name, value)
    {
        size_t before = enter_path(c, name);
        err = check_member(c, keys, map, name, value);
        leave_path(c, before);
        if (err)
            return err;
    }
    for (const struct schema_field *field = keys->fields; field->name && !err; field++) {
        if (c->partial || json_object_get(map, field->name))
            continue;
        size_t before = enter_path(c, field->name);
        err = complete_member(c, field, map);
        leave_path(c, before);
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
    if (json_is_null(doc->root)) // an empty file: all keys get their defaults
        doc->root = json_object();
    struct checker c = {.doc = doc, .e = e};
    return check_root(&c, fields, doc->root);
}

int schema_check_part(const struct schema_field *fields, struct yaml_doc *doc, struct error *e)
{
    struct checker c = {.doc = doc, .e = e, .partial = true};
    return check_root(&c, fields, doc->root);
}

int schema_apply_json(const struct schema_field *fields, json_t *value, const char *source,
                      struct error *e)
{
    struct checker c = {.source = source, .e = e};
    return check_root(&c, fields, value);
}

// --- walk ----------------------------------------------------------------------------------------

struct schema_walker {
    schema_visit *visit;
    void *arg;
};

// The tables that are being visited, innermost first. A recursive table is visited once.
struct schema_table {
    const void *rows; // fields or variants
    const struct schema_table *outer;
};

static void walk_fields(const struct schema_walker *w, const char *path,
                        const struct schema_field *fields, const struct schema_table *outer,
                        const struct schema_choice *choices);

static void walk_variants(const struct schema_walker *w, const char *path,
                          const struct schema_field *field, const struct schema_table *outer,
                          const struct schema_choice *choices)
{
    for (const struct schema_variant *variant = field->variants; variant->word; variant++) {
        const struct schema_choice choice = {path, field->tag, variant->word, choices};
        w->visit(w->arg, &(struct schema_row){
                             .path = path, .field = field, .variant = variant, .choices = &choice});
        walk_fields(w, path, variant->fields, outer, &choice);
    }
}

// Visits the rows below `field`, whose path is `path`.
static void walk_children(const struct schema_walker *w, const char *path,
                          const struct schema_field *field, const struct schema_table *outer,
                          const struct schema_choice *choices)
{
    struct schema_table table = {.outer = outer};
    if (field->type == SCHEMA_OBJECT)
        table.rows = field->fields;
    if (field->type == SCHEMA_UNION)
        table.rows = field->variants;
    for (const struct schema_table *t = outer; t && table.rows; t = t->outer)
        if (t->rows == table.rows)
            return;
    if (field->type == SCHEMA_OBJECT)
        walk_fields(w, path, field->fields, &table, choices);
    if (field->type == SCHEMA_UNION)
        walk_variants(w, path, field, &table, choices);
    if ((field->type == SCHEMA_LIST || field->type == SCHEMA_MAP) && field->element) {
        char *inner = xasprintf("%s%s", path, field->type == SCHEMA_LIST ? "[]" : ".*");
        walk_children(w, inner, field->element, outer, choices);
        free(inner);
    }
}

static void walk_fields(const struct schema_walker *w, const char *path,
                        const struct schema_field *fields, const struct schema_table *outer,
                        const struct schema_choice *choices)
{
    for (const struct schema_field *field = fields; field->name; field++) {
        char *inner = xasprintf("%s%s%s", path, *path ? "." : "", field->name);
        w->visit(w->arg, &(struct schema_row){.path = inner, .field = field, .choices = choices});
        walk_children(w, inner, field, outer, choices);
        free(inner);
    }
}

void schema_walk(const struct schema_field *fields, schema_visit *visit, void *arg)
{
    const struct schema_walker w = {visit, arg};
    const struct schema_table top = {.rows = fields};
    walk_fields(&w, "", fields, &top, NULL);
}

void schema_write_type(const struct schema_field *field, struct buf *out)
{
    write_expected(out, field);
}

// --- reference table -----------------------------------------------------------------------------

// Writes a cell of a Markdown table and escapes the bars in it.
static void write_cell(struct buf *out, const char *text)
{
    buf_puts(out, " ");
    for (; *text; text++)
        buf_printf(out, *text == '|' ? "\\%c" : "%c", *text);
    buf_puts(out, " |");
}

static void write_row(void *arg, const struct schema_row *row)
{
    struct buf *out = arg, expected;
    const struct schema_field *field = row->field;
    if (row->variant) {
        bool is_default =
            field->tag_fallback && strcmp(field->tag_fallback, row->variant->word) == 0;
        buf_printf(out, "| `%s.%s: %s` | |%s| %s |\n", row->path, field->tag, row->variant->word,
                   is_default ? " default " : " ", row->variant->doc ? row->variant->doc : "");
        return;
    }
    buf_init(&expected, EXPECTED_MAX);
    write_expected(&expected, field);
    buf_printf(out, "| `%s` |", row->path);
    write_cell(out, buf_str(&expected));
    write_cell(out, field->required ? "required" : field->fallback ? field->fallback : "");
    write_cell(out, field->doc ? field->doc : "");
    buf_puts(out, "\n");
    buf_free(&expected);
}

void schema_document(const struct schema_field *fields, struct buf *out)
{
    buf_puts(out, "| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
    schema_walk(fields, write_row, out);
}
