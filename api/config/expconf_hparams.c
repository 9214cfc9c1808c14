// Hyperparameters: types, constants, and their use as "${name}" in the trainer section.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "api/config/expconf_parts.h"
#include "base/arena.h"
#include "base/text/json.h"

// --- types ---------------------------------------------------------------------------------------

static const struct schema_variant *hparam_type(const char *word)
{
    for (const struct schema_variant *v = expconf_hyperparameter_types; v->word; v++)
        if (!strcmp(v->word, word))
            return v;
    return NULL;
}

static int unknown_type(const struct yaml_doc *doc, const char *path, const char *word,
                        struct error *e)
{
    const char *words[8] = {NULL};
    for (int i = 0; expconf_hyperparameter_types[i].word; i++)
        words[i] = expconf_hyperparameter_types[i].word;
    const char *near = nearest_word(word, words);
    if (near)
        return expconf_fault(doc, path, e, "unknown type \"%.64s\"; did you mean \"%s\"?", word,
                             near);
    return expconf_fault(doc, path, e,
                         "unknown type \"%.64s\"; it is one of const, int, double, log, "
                         "categorical",
                         word);
}

static double log_value(const json_t *hp, const char *exponent)
{
    return pow(jget_double(hp, "base", 10), jget_double(hp, exponent, 0));
}

// Checks rules that the table cannot express: the order of bounds, and the count for a grid.
static int check_range(const struct yaml_doc *doc, const char *path, const json_t *hp,
                       struct error *e)
{
    const char *type = jget_string(hp, "type", "");
    const char *searcher = json_string_value(jget_path(doc->root, "searcher.name"));
    if (!strcmp(type, "const"))
        return json_object_get(hp, "val")
                   ? 0
                   : expconf_fault(doc, path, e, "val (its value) is missing");
    if (!strcmp(type, "categorical") && !json_array_size(jget(hp, "vals")))
        return expconf_fault(doc, path, e, "vals is empty; there is nothing to choose from");
    if (!strcmp(type, "categorical"))
        return 0;
    if (jget_double(hp, "minval", 0) > jget_double(hp, "maxval", 0))
        return expconf_fault(doc, path, e, "minval is greater than maxval");
    if (!strcmp(type, "log") &&
        !(isnormal(log_value(hp, "minval")) && isnormal(log_value(hp, "maxval"))))
        return expconf_fault(doc, path, e,
                             "base to the power of minval or maxval is not a finite number; the "
                             "bounds of a log range are exponents");
    if (searcher && !strcmp(searcher, "grid") && !jget(hp, "count"))
        return expconf_fault(doc, path, e, "searcher grid needs count, the number of values");
    return 0;
}

// Walks over one value in hyperparameters: a nested group, a typed value, or a literal, which
// becomes a const. *hp is borrowed from `parent`.
static int type_value(const struct yaml_doc *doc, const char *path, json_t *parent, const char *key,
                      json_t *hp, struct error *e);

static int type_group(const struct yaml_doc *doc, const char *path, json_t *group, struct error *e)
{
    const char *key;
    json_t *value;
    int rc = 0;
    void *next;
    json_object_foreach_safe(group, next, key, value)
    {
        char *below = xasprintf("%s.%s", path, key);
        rc = type_value(doc, below, group, key, value, e);
        free(below);
        if (rc)
            break;
    }
    return rc;
}

static int type_value(const struct yaml_doc *doc, const char *path, json_t *parent, const char *key,
                      json_t *hp, struct error *e)
{
    char where[EXPCONF_WHERE_MAX];
    json_t *word = json_object_get(hp, "type");
    if (json_is_object(hp) && !json_is_string(word))
        return type_group(doc, path, hp, e);
    if (!json_is_object(hp)) {
        json_object_set_new(parent, key, json_pack("{s:s, s:O}", "type", "const", "val", hp));
        return 0;
    }
    const struct schema_variant *type = hparam_type(json_string_value(word));
    if (!type)
        return unknown_type(doc, path, json_string_value(word), e);
    char *what = xasprintf("%s: %s", yaml_where(doc, path, where, sizeof(where)), path);
    int rc = schema_apply_json(type->fields, hp, what, e);
    free(what);
    return rc ? rc : check_range(doc, path, hp, e);
}

int expconf_type_hparams(const struct yaml_doc *doc, struct error *e)
{
    json_t *all = jget(doc->root, "hyperparameters");
    if (!json_is_object(all))
        return 0; // absent or of a wrong type: the table reports it
    return type_group(doc, "hyperparameters", all, e);
}

// --- values --------------------------------------------------------------------------------------

// The first value that a search may draw: a new reference, never NULL.
static json_t *first_value(const json_t *hp)
{
    const char *type = jget_string(hp, "type", "");
    if (!strcmp(type, "const"))
        return json_incref(json_object_get(hp, "val"));
    if (!strcmp(type, "categorical"))
        return json_incref(json_array_get(jget(hp, "vals"), 0));
    if (!strcmp(type, "log"))
        return json_real(log_value(hp, "minval"));
    return json_incref(json_object_get(hp, "minval"));
}

static bool is_typed(const json_t *hp)
{
    return json_is_string(json_object_get(hp, "type"));
}

static int const_group(const char *path, const json_t *group, json_t **out, struct error *e)
{
    const char *key;
    json_t *hp;
    int rc = 0;
    *out = json_object();
    json_object_foreach((json_t *)group, key, hp)
    {
        char *below = xasprintf("%s.%s", path, key);
        json_t *value = NULL;
        if (!is_typed(hp))
            rc = const_group(below, hp, &value, e);
        else if (strcmp(jget_string(hp, "type", ""), "const"))
            rc = expconf_fault(
                NULL, below, e,
                "is a range, but a single value is needed here, for example by --set %s=VALUE",
                below);
        else
            value = first_value(hp);
        free(below);
        if (value)
            json_object_set_new(*out, key, value);
        if (rc)
            break;
    }
    if (rc) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

int expconf_const_hparams(const json_t *config, json_t **hparams, struct error *e)
{
    return const_group("hyperparameters", jget(config, "hyperparameters"), hparams, e);
}

// --- "${name}" -----------------------------------------------------------------------------------

struct replacement {
    const struct yaml_doc *doc; // for positions in messages; may be NULL
    const json_t *values;       // hyperparameters, typed or plain
    bool typed;
    bool used, searched;
};

// The hyperparameter at a dotted name, borrowed. Names must match exactly.
static json_t *value_at(const json_t *group, const char *name, size_t len)
{
    const char *dot = memchr(name, '.', len);
    size_t head = dot ? (size_t)(dot - name) : len;
    char *key = xasprintf("%.*s", (int)head, name);
    json_t *value = json_object_get(group, key);
    free(key);
    return dot && value ? value_at(value, dot + 1, len - head - 1) : value;
}

static int unknown_name(const struct replacement *r, const char *path, const char *name, size_t len,
                        struct error *e)
{
    char *word = xasprintf("%.*s", (int)len, name);
    size_t count = json_object_size(r->values), n = 0;
    const char **words = xcalloc(count + 1, sizeof(*words));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)r->values, key, value) words[n++] = key;
    const char *near = nearest_word(word, words);
    int rc = near ? expconf_fault(r->doc, path, e,
                                  "there is no hyperparameter \"%.64s\"; did you mean \"%s\"?",
                                  word, near)
                  : expconf_fault(r->doc, path, e,
                                  "there is no hyperparameter \"%.64s\"; add it under "
                                  "hyperparameters",
                                  word);
    free(words);
    free(word);
    return rc;
}

// `text` is "${name}": returns its value as a new reference.
static int replace_name(struct replacement *r, const char *path, const char *text, json_t **out,
                        struct error *e)
{
    const char *name = text + 2;
    size_t len = strlen(name) - 1;
    const json_t *hp = value_at(r->values, name, len);
    if (!hp)
        return unknown_name(r, path, name, len, e);
    if (r->typed && !is_typed(hp))
        return expconf_fault(r->doc, path, e,
                             "\"%.64s\" is a group of hyperparameters; name one of them, as "
                             "${group.name}",
                             text);
    if (r->typed && strcmp(jget_string(hp, "type", ""), "const"))
        r->searched = true;
    r->used = true;
    *out = r->typed ? first_value(hp) : json_deep_copy(hp);
    return 0;
}

static int replace_text(struct replacement *r, const char *path, json_t *value, json_t **out,
                        struct error *e)
{
    const char *text = json_string_value(value);
    const char *mark = strstr(text, "${");
    if (!mark) {
        *out = json_incref(value);
        return 0;
    }
    if (mark != text || strchr(text, '}') != text + strlen(text) - 1)
        return expconf_fault(r->doc, path, e,
                             "a hyperparameter replaces a whole value, as in \"${name}\"; "
                             "\"%.200s\" holds more than that",
                             text);
    return replace_name(r, path, text, out, e);
}

static int replace_hparams(struct replacement *r, const char *path, json_t *value, json_t **out,
                           struct error *e);

// Copies one member or element, at `part` of `path`, into `into`.
static int replace_below(struct replacement *r, const char *path, const char *part, json_t *child,
                         json_t *into, struct error *e)
{
    char *below = xasprintf("%s.%s", path, part);
    json_t *copy = NULL;
    int rc = replace_hparams(r, below, child, &copy, e);
    free(below);
    if (!rc && json_is_object(into))
        json_object_set_new(into, part, copy);
    else if (!rc)
        json_array_append_new(into, copy);
    return rc;
}

static int replace_object(struct replacement *r, const char *path, json_t *value, json_t *into,
                          struct error *e)
{
    const char *key;
    json_t *child;
    int rc = 0;
    json_object_foreach(value, key, child)
    {
        rc = replace_below(r, path, key, child, into, e);
        if (rc)
            break;
    }
    return rc;
}

static int replace_list(struct replacement *r, const char *path, json_t *value, json_t *into,
                        struct error *e)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < json_array_size(value); i++) {
        char index[24];
        snprintf(index, sizeof(index), "%zu", i);
        rc = replace_below(r, path, index, json_array_get(value, i), into, e);
    }
    return rc;
}

// Copies `value` with every "${name}" replaced.
static int replace_hparams(struct replacement *r, const char *path, json_t *value, json_t **out,
                           struct error *e)
{
    int rc = 0;
    if (json_is_string(value))
        return replace_text(r, path, value, out, e);
    if (json_is_object(value))
        rc = replace_object(r, path, value, *out = json_object(), e);
    else if (json_is_array(value))
        rc = replace_list(r, path, value, *out = json_array(), e);
    else
        *out = json_incref(value);
    if (rc) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

int expconf_sample_trainer(const struct yaml_doc *doc, json_t **out, bool *used, bool *searched,
                           struct error *e)
{
    json_t *trainer = jget(doc->root, "trainer");
    struct replacement r = {
        .doc = doc, .values = jget(doc->root, "hyperparameters"), .typed = true};
    *out = NULL;
    int rc = trainer ? replace_hparams(&r, "trainer", trainer, out, e) : 0;
    *used = r.used;
    *searched = r.searched;
    return rc;
}

int expconf_resolve_trainer(const json_t *config, const json_t *hparams, json_t **out,
                            struct error *e)
{
    json_t *trainer = jget(config, "trainer"), *copy = NULL, *whole = NULL;
    struct replacement r = {.values = hparams};
    *out = NULL;
    if (!trainer)
        return expconf_fault(NULL, "trainer", e,
                             "the experiment has none; the native trainer cannot run it");
    int rc = replace_hparams(&r, "trainer", trainer, &copy, e);
    if (rc)
        return rc;
    whole = json_pack("{s:o}", "trainer", copy);
    rc = schema_apply_json(expconf_trainer_fields, whole, "configuration of the trial", e);
    if (!rc)
        rc = expconf_check_trainer(NULL, jget(whole, "trainer"), e);
    if (!rc)
        *out = json_deep_copy(jget(whole, "trainer"));
    json_decref(whole);
    return rc;
}
