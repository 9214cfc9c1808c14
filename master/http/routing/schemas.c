// Translates the shapes of schemas.h to JSON Schema. A mistake in a table is a bug of ours and ends
// the program at its start.

#include "master/http/routing/schemas.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"

// The words that are not names of schemas. `optional`: the same, or null.
static const struct {
    const char *word, *schema, *optional;
} words[] = {
    {"int", "{\"type\":\"integer\"}", "{\"type\":[\"integer\",\"null\"]}"},
    {"number", "{\"type\":\"number\"}", "{\"type\":[\"number\",\"null\"]}"},
    {"bool", "{\"type\":\"boolean\"}", "{\"type\":[\"boolean\",\"null\"]}"},
    {"string", "{\"type\":\"string\"}", "{\"type\":[\"string\",\"null\"]}"},
    {"time", "{\"type\":\"string\",\"format\":\"date-time\"}",
     "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"},
    // The API sends a 64-bit number as a string of digits.
    {"digits", "{\"type\":\"string\",\"pattern\":\"^-?[0-9]+$\"}",
     "{\"type\":[\"string\",\"null\"],\"pattern\":\"^-?[0-9]+$\"}"},
    {"base64", "{\"type\":\"string\",\"contentEncoding\":\"base64\"}",
     "{\"type\":[\"string\",\"null\"],\"contentEncoding\":\"base64\"}"},
    // A number, or a name of a value for which JSON has no digits.
    {"float", "{\"oneOf\":[{\"type\":\"number\"},{\"enum\":[\"NaN\",\"Infinity\",\"-Infinity\"]}]}",
     "{\"oneOf\":[{\"type\":[\"number\",\"null\"]},{\"enum\":[\"NaN\",\"Infinity\","
     "\"-Infinity\"]}]}"},
    {"object", "{\"type\":\"object\"}", "{\"type\":[\"object\",\"null\"]}"},
    {"any", "{}", "{}"},
};

static bool is(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && !memcmp(text, word, len);
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
    jw_object(w);
    if (optional) {
        jw_key(w, "oneOf");
        jw_array(w);
        jw_object(w);
    }
    jw_kv_string(w, "$ref", reference);
    if (optional) {
        jw_object_end(w);
        jw_raw(w, "{\"type\":\"null\"}");
        jw_array_end(w);
    }
    jw_object_end(w);
}

static void write_type(struct json_writer *w, const char *type, size_t len, bool optional)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(type, len, words[i].word)) {
            jw_raw(w, optional ? words[i].optional : words[i].schema);
            return;
        }
    bool list = *type == '[', map = *type == '{';
    if (!list && !map) {
        write_reference(w, type, len, optional);
        return;
    }
    must(len > 2 && type[len - 1] == (list ? ']' : '}'));
    jw_object(w);
    jw_key(w, "type");
    if (optional)
        jw_raw(w, list ? "[\"array\",\"null\"]" : "[\"object\",\"null\"]");
    else
        jw_string(w, list ? "array" : "object");
    jw_key(w, list ? "items" : "additionalProperties");
    write_type(w, type + 1, len - 2, false);
    jw_object_end(w);
}

void schema_write_type(struct json_writer *w, const char *type, size_t len)
{
    write_type(w, type, len, false);
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

static void write_key(struct json_writer *w, const struct route_field *f)
{
    char name[64];
    must(f->name_len < sizeof name);
    snprintf(name, sizeof name, "%.*s", (int)f->name_len, f->name);
    jw_key(w, name);
}

// A field of ours says so in its description.
static void write_field(struct json_writer *w, const struct route_field *f)
{
    write_key(w, f);
    if (!f->ours) {
        write_type(w, f->type, f->type_len, f->optional);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "x-muster", "ours");
    jw_key(w, "allOf");
    jw_array(w);
    write_type(w, f->type, f->type_len, f->optional);
    jw_array_end(w);
    jw_object_end(w);
}

static void write_fields(struct json_writer *w, const char *fields)
{
    struct route_field f;
    jw_kv_string(w, "type", "object");
    jw_key(w, "properties");
    jw_object(w);
    for (const char *c = fields; next_field(&c, &f);)
        write_field(w, &f);
    jw_object_end(w);
    jw_key(w, "required");
    jw_array(w);
    for (const char *c = fields; next_field(&c, &f);)
        if (!f.optional)
            jw_stringn(w, f.name, f.name_len);
    jw_array_end(w);
}

void schema_write(struct json_writer *w, const char *text)
{
    if (!strchr(text, ':')) {
        write_type(w, text, strlen(text), false);
        return;
    }
    jw_object(w);
    write_fields(w, text);
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
        if (s->fields)
            write_fields(w, s->fields);
        else
            write_words(w, s);
        jw_object_end(w);
    }
}
