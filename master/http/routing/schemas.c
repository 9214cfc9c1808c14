// Translates the shapes of schemas.h to JSON Schema. A mistake in a table is a bug of ours and ends
// the program at its start.

#include "master/http/routing/schemas.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"

// The words that are not names of schemas, with a second keyword that some have.
static const struct {
    const char *word, *type, *key, *value;
} words[] = {
    {"int", "integer", NULL, NULL},
    {"number", "number", NULL, NULL},
    {"bool", "boolean", NULL, NULL},
    {"string", "string", NULL, NULL},
    {"object", "object", NULL, NULL},
    {"time", "string", "format", "date-time"},
    {"digits", "string", "pattern", "^-?[0-9]+$"}, // the API sends a 64-bit number as a string
    {"base64", "string", "contentEncoding", "base64"},
};

static bool is(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && !memcmp(text, word, len);
}

static void write_type_word(struct json_writer *w, const char *type, bool optional)
{
    jw_key(w, "type");
    if (!optional) {
        jw_string(w, type);
        return;
    }
    jw_array(w);
    jw_string(w, type);
    jw_string(w, "null");
    jw_array_end(w);
}

static void write_reference(struct json_writer *w, const char *name, size_t len, bool optional)
{
    bool known = false;
    for (size_t i = 0; i < schema_count && !known; i++)
        known = is(name, len, schema_table[i].name);
    if (!known)
        log_error("a shape of the wire names a type that there is not", "type=%.*s", (int)len,
                  name);
    must(known);
    char reference[128];
    snprintf(reference, sizeof reference, "#/components/schemas/%.*s", (int)len, name);
    if (!optional) {
        jw_kv_string(w, "$ref", reference);
        return;
    }
    jw_key(w, "oneOf");
    jw_array(w);
    jw_object(w);
    jw_kv_string(w, "$ref", reference);
    jw_object_end(w);
    jw_raw(w, "{\"type\":\"null\"}");
    jw_array_end(w);
}

// A number, or a name of a value for which JSON has no digits.
static void write_float(struct json_writer *w, bool optional)
{
    jw_key(w, "oneOf");
    jw_array(w);
    jw_object(w);
    write_type_word(w, "number", optional);
    jw_object_end(w);
    jw_raw(w, "{\"enum\":[\"NaN\",\"Infinity\",\"-Infinity\"]}");
    jw_array_end(w);
}

// Writes the keywords of a type into the open object. `optional`: the same, or null.
static void write_keywords(struct json_writer *w, const char *type, size_t len, bool optional)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(type, len, words[i].word)) {
            write_type_word(w, words[i].type, optional);
            if (words[i].key)
                jw_kv_string(w, words[i].key, words[i].value);
            return;
        }
    bool list = *type == '[', map = *type == '{';
    if (is(type, len, "any"))
        return;
    if (is(type, len, "float")) {
        write_float(w, optional);
        return;
    }
    if (!list && !map) {
        write_reference(w, type, len, optional);
        return;
    }
    must(len > 2 && type[len - 1] == (list ? ']' : '}'));
    write_type_word(w, list ? "array" : "object", optional);
    jw_key(w, list ? "items" : "additionalProperties");
    jw_object(w);
    write_keywords(w, type + 1, len - 2, false);
    jw_object_end(w);
}

static void write_text(struct json_writer *w, const struct description *d)
{
    if (d)
        jw_kv_string(w, "description", d->text);
}

// A default of all fields of a name is not one of answers and schemas.
static void write_default(struct json_writer *w, const struct description *d, enum described place)
{
    if (d && d->value && (place != IN_ANSWER && (place != IN_SCHEMA || strchr(d->key, '.'))))
        jw_kv_raw(w, "default", d->value);
}

void schema_write_parameter(struct json_writer *w, const struct schema_parameter *p)
{
    const struct description *d = description_find(p->place, p->owner, p->name, p->name_len);
    write_text(w, d);
    jw_key(w, "schema");
    jw_object(w);
    write_keywords(w, p->type, p->type_len, false);
    write_default(w, d, p->place);
    jw_object_end(w);
}

// --- objects -------------------------------------------------------------------------------------

struct route_field {
    const char *name, *type;
    size_t name_len, type_len;
    bool optional, ours;
};

// Reads the field at *text and advances; false at the end.
static bool next_field(const char **text, struct route_field *f)
{
    const char *at = *text + strspn(*text, " ");
    if (!*at)
        return false;
    f->ours = *at == '+';
    f->name = at + f->ours;
    f->name_len = strcspn(f->name, "?: ");
    at = f->name + f->name_len;
    f->optional = *at == '?';
    at += f->optional;
    must(*at == ':' && f->name_len);
    f->type = at + 1;
    f->type_len = strcspn(f->type, " ");
    *text = f->type + f->type_len;
    return true;
}

static void write_field(struct json_writer *w, const struct route_field *f, enum described place,
                        const char *owner)
{
    char name[64];
    must(f->name_len < sizeof name);
    snprintf(name, sizeof name, "%.*s", (int)f->name_len, f->name);
    const struct description *d = description_find(place, owner, f->name, f->name_len);
    jw_key(w, name);
    jw_object(w);
    write_text(w, d);
    if (f->ours)
        jw_kv_string(w, "x-muster", "ours");
    write_keywords(w, f->type, f->type_len, f->optional);
    write_default(w, d, place);
    jw_object_end(w);
}

static void write_fields(struct json_writer *w, const char *fields, enum described place,
                         const char *owner)
{
    struct route_field f;
    jw_kv_string(w, "type", "object");
    jw_key(w, "properties");
    jw_object(w);
    for (const char *c = fields; next_field(&c, &f);)
        write_field(w, &f, place, owner);
    jw_object_end(w);
    jw_key(w, "required");
    jw_array(w);
    for (const char *c = fields; next_field(&c, &f);)
        if (!f.optional)
            jw_stringn(w, f.name, f.name_len);
    jw_array_end(w);
}

void schema_write(struct json_writer *w, const char *text, enum described place, const char *owner)
{
    jw_object(w);
    write_text(w, description_find(place, owner, "", 0));
    if (strchr(text, ':'))
        write_fields(w, text, place, owner);
    else
        write_keywords(w, text, strlen(text), false);
    jw_object_end(w);
}

// --- bodies --------------------------------------------------------------------------------------

static bool is_integer(const json_t *v)
{
    const char *text = json_is_string(v) ? json_string_value(v) : "";
    size_t sign = *text == '-';
    if (*text)
        return text[sign] && !text[sign + strspn(text + sign, "0123456789")];
    return json_is_integer(v) ||
           (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)));
}

static bool is_word(const json_t *v)
{
    return json_is_string(v);
}

// An integer stands for a file's content in another place (json_parse_upload()).
static bool is_content(const json_t *v)
{
    return json_is_string(v) || json_is_integer(v);
}

static bool is_number(const json_t *v)
{
    return json_is_number(v) || json_is_string(v); // "NaN"
}

static bool is_bool(const json_t *v)
{
    return json_is_boolean(v);
}

static bool is_object(const json_t *v)
{
    return json_is_object(v);
}

// Accepts slightly more than the master itself writes.
static const struct {
    const char *word;
    bool (*fits)(const json_t *v);
    const char *what;
} fits[] = {
    {"int", is_integer, "an integer"},  {"number", is_number, "a number"},
    {"float", is_number, "a number"},   {"bool", is_bool, "true or false"},
    {"string", is_word, "a string"},    {"time", is_number, "a time"},
    {"digits", is_integer, "a number"}, {"base64", is_content, "text in base64"},
    {"object", is_object, "an object"},
};

static int check_fields(const char *fields, const json_t *object, struct error *e);

static int refuse(const char *what, struct error *e)
{
    return error_set(e, ERR_INVALID, "%s is expected here", what);
}

static int check_named(const char *type, size_t len, const json_t *v, struct error *e)
{
    for (size_t i = 0; i < schema_count; i++) {
        const struct schema *s = &schema_table[i];
        if (!is(type, len, s->name))
            continue;
        if (!s->fields)
            return json_is_string(v) ? 0 : refuse("a word", e);
        return json_is_object(v) ? check_fields(s->fields, v, e) : refuse("an object", e);
    }
    return 0;
}

static int check_type(const char *type, size_t len, const json_t *v, struct error *e)
{
    const char *key;
    json_t *item;
    size_t i;
    int err = 0;
    for (size_t k = 0; k < sizeof fits / sizeof *fits; k++)
        if (is(type, len, fits[k].word))
            return fits[k].fits(v) ? 0 : refuse(fits[k].what, e);
    if (*type != '[' && *type != '{')
        return check_named(type, len, v, e);
    if (*type == '[' ? !json_is_array(v) : !json_is_object(v))
        return refuse(*type == '[' ? "a list" : "an object", e);
    json_array_foreach(v, i, item)
    {
        if (!err && (err = check_type(type + 1, len - 2, item, e)) != 0)
            error_prefix(e, "item %zu", i);
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        if (!err && (err = check_type(type + 1, len - 2, item, e)) != 0)
            error_prefix(e, "\"%.64s\"", key);
    }
    return err;
}

static int check_fields(const char *fields, const json_t *object, struct error *e)
{
    struct route_field f;
    char name[64];
    while (next_field(&fields, &f)) {
        snprintf(name, sizeof name, "%.*s", (int)f.name_len, f.name);
        const json_t *value = jget(object, name);
        int err = value ? check_type(f.type, f.type_len, value, e) : 0;
        if (err) {
            error_prefix(e, "%s", name);
            return err;
        }
    }
    return 0;
}

int schema_check(const char *text, const json_t *body, struct error *e)
{
    return strchr(text, ':') ? check_fields(text, body, e)
                             : check_type(text, strlen(text), body, e);
}

// --- the table -----------------------------------------------------------------------------------

static void write_word(struct json_writer *w, const char *prefix, const char *word, size_t len)
{
    char name[96];
    snprintf(name, sizeof name, "%s%.*s", prefix, (int)len, word);
    jw_string(w, name);
}

static void write_words(struct json_writer *w, const struct schema *s)
{
    const char *prefix = s->words ? s->prefix : wire_prefix(s->wire_name);
    jw_kv_string(w, "type", "string");
    jw_key(w, "enum");
    jw_array(w);
    for (const char *c = s->words; c && *(c += strspn(c, " ")); c += strcspn(c, " "))
        write_word(w, prefix, c, strcspn(c, " "));
    for (const char *const *c = s->words ? NULL : wire_words(s->wire_name); c && *c; c++)
        write_word(w, prefix, *c, strlen(*c));
    if (*prefix)
        write_word(w, prefix, "UNSPECIFIED", strlen("UNSPECIFIED"));
    jw_array_end(w);
}

void schema_write_all(struct json_writer *w)
{
    for (size_t i = 0; i < schema_count; i++) {
        const struct schema *s = &schema_table[i];
        jw_key(w, s->name);
        jw_object(w);
        if (s->ours)
            jw_kv_string(w, "x-muster", "ours");
        write_text(w, description_find(IN_SCHEMA, s->name, "", 0));
        if (s->fields)
            write_fields(w, s->fields, IN_SCHEMA, s->name);
        else
            write_words(w, s);
        jw_object_end(w);
    }
}
