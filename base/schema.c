#include "base/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"

enum { SCHEMA_PATH_MAX = 1024, SCHEMA_WORDS_MAX = 256 };

struct check {
    const struct yaml_doc *doc; // positions; NULL: `what` stands in their place
    const char *what;
    char path[SCHEMA_PATH_MAX];
    struct error *e;
};

static int check_fields(struct check *c, const struct schema_field *fields, json_t *object,
                        const char *tag);
static int check_value(struct check *c, const struct schema_field *f, json_t **value);

static int fault(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int fault(struct check *c, const char *fmt, ...)
{
    char text[512], where[SCHEMA_PATH_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (c->doc != NULL) {
        yaml_where(c->doc, c->path, where, sizeof(where));
    } else {
        snprintf(where, sizeof(where), "%s", c->what);
    }
    return error_set(c->e, ERR_INVALID, "%s: %s%s%s", where, c->path,
                     c->path[0] != '\0' ? ": " : "", text);
}

static size_t path_push(struct check *c, const char *part)
{
    size_t before = strlen(c->path);
    snprintf(c->path + before, sizeof(c->path) - before, "%s%s", before > 0 ? "." : "", part);
    return before;
}

static const char *kind_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "a mapping";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "nothing";
    }
    return "?";
}

static const char *const type_names[] = {
    [SCHEMA_STRING] = "a string",
    [SCHEMA_INT] = "an integer",
    [SCHEMA_NUMBER] = "a number",
    [SCHEMA_BOOL] = "true or false",
    [SCHEMA_ENUM] = "a word",
    [SCHEMA_OBJECT] = "a mapping",
    [SCHEMA_UNION] = "a mapping",
    [SCHEMA_LIST] = "a list",
    [SCHEMA_MAP] = "a mapping",
    [SCHEMA_ANY] = "anything",
    [SCHEMA_ONE_OF] = "one of several types",
};

static bool type_fits(const struct schema_field *f, const json_t *v)
{
    switch (f->type) {
    case SCHEMA_STRING:
    case SCHEMA_ENUM:
        return json_is_string(v);
    case SCHEMA_INT:
        return json_is_integer(v);
    case SCHEMA_NUMBER:
        return json_is_number(v);
    case SCHEMA_BOOL:
        return json_is_boolean(v);
    case SCHEMA_OBJECT:
    case SCHEMA_UNION:
    case SCHEMA_MAP:
        return json_is_object(v);
    case SCHEMA_LIST:
        return json_is_array(v);
    case SCHEMA_ANY:
    case SCHEMA_ONE_OF:
        return true;
    }
    return false;
}

static int check_range(struct check *c, const struct schema_field *f, const json_t *v)
{
    double n = json_number_value(v);
    if ((f->min == 0 && f->max == 0) || (n >= f->min && n <= f->max)) {
        return 0;
    }
    return fault(c, "%.10g is out of range; it must lie between %.10g and %.10g", n, f->min,
                 f->max);
}

static int unknown_word(struct check *c, const char *word, const char *const *words,
                        const char *kind)
{
    const char *near = nearest_word(word, words);
    if (near != NULL) {
        return fault(c, "unknown %s%s%s; did you mean \"%s\"?", kind, *kind == 'w' ? " " : "",
                     *kind == 'w' ? word : "", near);
    }
    char all[384];
    size_t used = 0;
    all[0] = '\0';
    for (; *words != NULL && used < sizeof(all); words++) {
        int n = snprintf(all + used, sizeof(all) - used, "%s%s", used > 0 ? ", " : "", *words);
        used += (size_t)n;
    }
    return fault(c, "unknown %s%s%s; known here: %s", kind, *kind == 'w' ? " " : "",
                 *kind == 'w' ? word : "", all);
}

static int check_enum(struct check *c, const struct schema_field *f, const json_t *v)
{
    const char *word = json_string_value(v);
    for (const char *const *w = f->words; *w != NULL; w++) {
        if (strcmp(*w, word) == 0) {
            return 0;
        }
    }
    return unknown_word(c, word, f->words, "word");
}

static int check_union(struct check *c, const struct schema_field *f, json_t *object)
{
    size_t before = path_push(c, f->tag);
    const char *words[SCHEMA_WORDS_MAX] = {NULL};
    const char *word = jget_string(object, f->tag, NULL);
    const struct schema_variant *chosen = NULL;
    for (int i = 0; f->variants[i].word != NULL && i < SCHEMA_WORDS_MAX - 1; i++) {
        words[i] = f->variants[i].word;
        if (word != NULL && strcmp(words[i], word) == 0) {
            chosen = &f->variants[i];
        }
    }
    int err = 0;
    if (word == NULL && jget(object, f->tag) != NULL) {
        err = fault(c, "expected a word, found %s", kind_of(jget(object, f->tag)));
    } else if (word == NULL) {
        err = fault(c, "missing; it says which kind this is (%s, ..)", words[0]);
    } else if (chosen == NULL) {
        err = unknown_word(c, word, words, "word");
    }
    c->path[before] = '\0';
    return err != 0 ? err : check_fields(c, chosen->fields, object, f->tag);
}

static int check_list(struct check *c, const struct schema_field *f, json_t *list)
{
    for (size_t i = 0; f->element != NULL && i < json_array_size(list); i++) {
        char index[24];
        snprintf(index, sizeof(index), "%zu", i);
        size_t before = path_push(c, index);
        json_t *value = json_incref(json_array_get(list, i));
        int err = check_value(c, f->element, &value);
        json_array_set_new(list, i, value);
        if (err != 0) {
            return err;
        }
        c->path[before] = '\0';
    }
    return 0;
}

static int check_map(struct check *c, const struct schema_field *f, json_t *object)
{
    const char *key;
    json_t *member;
    json_object_foreach(object, key, member)
    {
        if (f->element == NULL) {
            break;
        }
        size_t before = path_push(c, key);
        json_t *value = json_incref(member);
        int err = check_value(c, f->element, &value);
        json_object_set_new(object, key, value); // an existing key: the walk stays valid
        if (err != 0) {
            return err;
        }
        c->path[before] = '\0';
    }
    return 0;
}

// The first alternative whose type fits decides; its own checks then hold.
static int check_one_of(struct check *c, const struct schema_field *f, json_t **value)
{
    char expected[256] = "";
    for (const struct schema_field *a = f->fields; a->name != NULL; a++) {
        if (type_fits(a, *value)) {
            return check_value(c, a, value);
        }
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof(expected) - used, "%s%s", used > 0 ? " or " : "",
                 type_names[a->type]);
    }
    return fault(c, "expected %s, found %s", expected, kind_of(*value));
}

static int check_value(struct check *c, const struct schema_field *f, json_t **value)
{
    if (f->type == SCHEMA_INT && json_is_real(*value) &&
        json_real_value(*value) == (double)(long long)json_real_value(*value)) {
        json_t *whole = json_integer((long long)json_real_value(*value)); // 1e3 is an integer
        json_decref(*value);
        *value = whole;
    }
    if (!type_fits(f, *value)) {
        return fault(c, "expected %s, found %s", type_names[f->type], kind_of(*value));
    }
    switch (f->type) {
    case SCHEMA_INT:
    case SCHEMA_NUMBER:
        return check_range(c, f, *value);
    case SCHEMA_ENUM:
        return check_enum(c, f, *value);
    case SCHEMA_OBJECT:
        return check_fields(c, f->fields, *value, NULL);
    case SCHEMA_UNION:
        return check_union(c, f, *value);
    case SCHEMA_LIST:
        return check_list(c, f, *value);
    case SCHEMA_MAP:
        return check_map(c, f, *value);
    case SCHEMA_ONE_OF:
        return check_one_of(c, f, value);
    case SCHEMA_STRING:
    case SCHEMA_BOOL:
    case SCHEMA_ANY:
        return 0;
    }
    return 0;
}

static const struct schema_field *find_field(const struct schema_field *fields, const char *name)
{
    for (const struct schema_field *f = fields; f->name != NULL; f++) {
        if (strcmp(f->name, name) == 0) {
            return f;
        }
    }
    return NULL;
}

static int unknown_key(struct check *c, const struct schema_field *fields, const char *tag)
{
    const char *names[SCHEMA_WORDS_MAX] = {NULL};
    int n = 0;
    for (const struct schema_field *f = fields; f->name != NULL && n < SCHEMA_WORDS_MAX - 2; f++) {
        names[n++] = f->name;
    }
    if (tag != NULL) {
        names[n] = tag;
    }
    const char *last = strrchr(c->path, '.');
    last = last != NULL ? last + 1 : c->path;
    const char *near = nearest_word(last, names);
    return near != NULL ? fault(c, "unknown key; did you mean \"%s\"?", near)
                        : unknown_word(c, last, names, "key");
}

static int check_member(struct check *c, const struct schema_field *fields, json_t *object,
                        const char *key, json_t *member, const char *tag)
{
    const struct schema_field *f = find_field(fields, key);
    size_t before = path_push(c, key);
    int err = 0;
    if (f == NULL && (tag == NULL || strcmp(tag, key) != 0)) {
        err = unknown_key(c, fields, tag);
    } else if (f != NULL && !json_is_null(member)) {
        json_t *value = json_incref(member);
        err = check_value(c, f, &value);
        json_object_set_new(object, key, value);
    }
    if (err == 0) {
        c->path[before] = '\0';
    }
    return err;
}

// Absent members: a default, or a fault when there must be one. Explicit null is absence.
static int complete_fields(struct check *c, const struct schema_field *fields, json_t *object)
{
    for (const struct schema_field *f = fields; f->name != NULL; f++) {
        json_t *member = json_object_get(object, f->name);
        if (member != NULL && !json_is_null(member)) {
            continue;
        }
        if (f->required) {
            path_push(c, f->name);
            return fault(c, "missing; %s", f->doc != NULL ? f->doc : "this key is required");
        }
        if (member != NULL && f->nullable) {
            continue;
        }
        json_object_del(object, f->name);
        if (f->fallback == NULL) {
            continue;
        }
        json_t *value = json_loads(f->fallback, JSON_DECODE_ANY, NULL);
        must(value != NULL);
        size_t before = path_push(c, f->name);
        int err = json_is_null(value) ? 0 : check_value(c, f, &value);
        json_object_set_new(object, f->name, value);
        if (err != 0) {
            return err;
        }
        c->path[before] = '\0';
    }
    return 0;
}

static int check_fields(struct check *c, const struct schema_field *fields, json_t *object,
                        const char *tag)
{
    const char *key;
    json_t *member;
    json_object_foreach(object, key, member)
    {
        int err = check_member(c, fields, object, key, member, tag);
        if (err != 0) {
            return err;
        }
    }
    return complete_fields(c, fields, object);
}

static int check_root(struct check *c, const struct schema_field *fields, json_t *root)
{
    if (!json_is_object(root)) {
        return fault(c, "expected a mapping, found %s", kind_of(root));
    }
    return check_fields(c, fields, root, NULL);
}

int schema_apply(const struct schema_field *fields, struct yaml_doc *doc, struct error *e)
{
    struct check c = {.doc = doc, .e = e};
    return check_root(&c, fields, doc->root);
}

int schema_apply_json(const struct schema_field *fields, json_t *value, const char *what,
                      struct error *e)
{
    struct check c = {.what = what, .e = e};
    return check_root(&c, fields, value);
}

// ---- reference ----

static void document_type(const struct schema_field *f, struct buf *out)
{
    if (f->type == SCHEMA_ENUM) {
        for (const char *const *w = f->words; *w != NULL; w++) {
            buf_printf(out, "%s`%s`", w != f->words ? ", " : "", *w);
        }
    } else if (f->type == SCHEMA_ONE_OF) {
        for (const struct schema_field *a = f->fields; a->name != NULL; a++) {
            buf_printf(out, "%s%s", a != f->fields ? " or " : "", type_names[a->type]);
        }
    } else {
        buf_puts(out, type_names[f->type]);
    }
    if ((f->type == SCHEMA_INT || f->type == SCHEMA_NUMBER) && (f->min != 0 || f->max != 0)) {
        buf_printf(out, " %.10g to %.10g", f->min, f->max);
    }
}

static void document_fields(const struct schema_field *fields, const char *prefix, struct buf *out);

static void document_field(const struct schema_field *f, const char *prefix, struct buf *out)
{
    char *path = xasprintf("%s%s%s", prefix, *prefix != '\0' ? "." : "", f->name);
    buf_printf(out, "| `%s` | ", path);
    document_type(f, out);
    buf_printf(out, " | %s%s%s | %s |\n", f->fallback != NULL ? "`" : "",
               f->required           ? "required"
               : f->fallback != NULL ? f->fallback
                                     : "",
               f->fallback != NULL ? "`" : "", f->doc != NULL ? f->doc : "");
    const struct schema_field *inner = f->type == SCHEMA_LIST ? f->element : f;
    if (inner != NULL && inner->type == SCHEMA_OBJECT) {
        document_fields(inner->fields, path, out);
    } else if (inner != NULL && inner->type == SCHEMA_UNION) {
        for (const struct schema_variant *v = inner->variants; v->word != NULL; v++) {
            buf_printf(out, "| `%s.%s: %s` | | | %s |\n", path, inner->tag, v->word,
                       v->doc != NULL ? v->doc : "");
            document_fields(v->fields, path, out);
        }
    }
    free(path);
}

static void document_fields(const struct schema_field *fields, const char *prefix, struct buf *out)
{
    for (const struct schema_field *f = fields; f->name != NULL; f++) {
        document_field(f, prefix, out);
    }
}

void schema_document(const struct schema_field *fields, struct buf *out)
{
    buf_puts(out, "| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
    document_fields(fields, "", out);
}
