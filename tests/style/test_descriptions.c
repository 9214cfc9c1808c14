// Every field, parameter, body, answer and schema of the OpenAPI document has a description; a
// field that a request may leave out has a default, or its description states it; and every row of
// the tables of descriptions belongs to a field.

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/http/routing/descriptions.h"
#include "master/http/routing/routes.h"

enum { TEXT_MIN = 12 };

static json_t *doc, *used; // `used`: the keys of the rows that describe a field
static int faults;

static int make(void **state)
{
    (void)state;
    char *text = routes_openapi(route_table, route_count);
    doc = json_loads(text, 0, NULL);
    used = json_object();
    free(text);
    return doc ? 0 : -1;
}

static int drop(void **state)
{
    (void)state;
    json_decref(doc);
    json_decref(used);
    return 0;
}

static void report(const char *key, const char *fault)
{
    print_error("%s: %s\n", key, fault);
    faults++;
}

static void note_use(enum described place, const char *owner, const char *field)
{
    const struct description *d = description_find(place, owner, field, strlen(field));
    if (d)
        json_object_set_new(used, d->key, json_true());
}

// "The resource pool." says no more than resourcePool.
static bool repeats_name(const char *text, const char *name)
{
    text += strncmp(text, "The ", 4) ? 0 : 4;
    for (; *text; text++) {
        if (!isalpha((unsigned char)*text))
            continue;
        if (tolower((unsigned char)*text) != tolower((unsigned char)*name))
            return false;
        name++;
    }
    return !*name;
}

static void check_text(const json_t *owner, const char *key, const char *name)
{
    const char *text = jget_string(owner, "description", "");
    if (!*text)
        report(key, "has no description");
    else if (strlen(text) < TEXT_MIN || repeats_name(text, name))
        report(key, "the description only repeats the name");
    else if (text[strlen(text) - 1] != '.')
        report(key, "the description is not a sentence that ends with a full stop");
}

static void check_default(const json_t *described, const json_t *schema, const char *key)
{
    if (!json_object_get(schema, "default") &&
        !strstr(jget_string(described, "description", ""), "Default: "))
        report(key, "a request may leave it out, and no default is stated");
}

// --- schemas -------------------------------------------------------------------------------------

static void check_fields(const json_t *schema, enum described place, const char *owner,
                         bool is_request)
{
    const char *name;
    json_t *field;
    json_object_foreach(jget(schema, "properties"), name, field)
    {
        char *key = xasprintf(place == IN_SCHEMA   ? "%s.%s"
                              : place == IN_ANSWER ? "%s -> %s"
                                                   : "%s %s",
                              owner, name);
        bool needed = false;
        const json_t *required;
        size_t i;
        json_array_foreach(jget(schema, "required"), i, required) needed =
            needed || !strcmp(json_string_value(required), name);
        check_text(field, key, name);
        if (is_request && !needed)
            check_default(field, field, key);
        note_use(place, owner, name);
        free(key);
    }
}

// The names of the schemas that a body is made of.
static void gather_schemas(const json_t *value, json_t *names)
{
    const char *key;
    json_t *item;
    size_t i;
    json_array_foreach(value, i, item) gather_schemas(item, names);
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        const char *name = strcmp(key, "$ref") ? NULL : strrchr(json_string_value(item), '/') + 1;
        if (name && !json_object_get(names, name)) {
            json_object_set_new(names, name, json_true());
            gather_schemas(
                json_object_get(json_object_get(json_object_get(doc, "components"), "schemas"),
                                name),
                names);
        } else if (!name) {
            gather_schemas(item, names);
        }
    }
}

static void check_schemas(void)
{
    const char *path, *method, *name;
    json_t *item, *operation, *schema, *in_bodies = json_object();
    json_object_foreach(json_object_get(doc, "paths"), path, item)
        json_object_foreach(item, method, operation)
            gather_schemas(json_object_get(operation, "requestBody"), in_bodies);
    json_object_foreach(jget(jget(doc, "components"), "schemas"), name, schema)
    {
        check_text(schema, name, name);
        note_use(IN_SCHEMA, name, "");
        check_fields(schema, IN_SCHEMA, name, json_object_get(in_bodies, name) != NULL);
    }
    json_decref(in_bodies);
}

// --- calls ---------------------------------------------------------------------------------------

static void check_parameters(const json_t *operation, const char *call)
{
    const json_t *parameter;
    size_t i;
    json_array_foreach(jget(operation, "parameters"), i, parameter)
    {
        const char *name = jget_string(parameter, "name", "");
        bool in_path = !strcmp(jget_string(parameter, "in", ""), "path");
        char *key = xasprintf(in_path ? "%s {%s}" : "%s %s", call, name);
        check_text(parameter, key, name);
        if (!in_path)
            check_default(parameter, jget(parameter, "schema"), key);
        note_use(in_path ? IN_PATH : IN_QUERY, call, name);
        free(key);
    }
}

// A body or an answer; one without fields and without a schema of its own is described itself.
static void check_content(const json_t *content, enum described place, const char *call)
{
    json_t *media;
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)content, name, media)
    {
        const json_t *schema = jget(media, "schema");
        char *key = xasprintf(place == IN_ANSWER ? "%s ->" : "%s", call);
        if (jget(media, "x-muster-stream")) {
            const json_t *line = json_array_get(jget(schema, "oneOf"), 0);
            schema = jget(jget(line, "properties"), "result");
            check_text(schema, key, "");
            note_use(place, call, "error");
        }
        if (!jget(schema, "properties") && !jget(schema, "$ref"))
            check_text(schema, key, "");
        note_use(place, call, "");
        check_fields(schema, place, call, place == IN_BODY);
        free(key);
    }
}

static void check_calls(void)
{
    for (size_t i = 0; i < route_count; i++) {
        const struct route *r = &route_table[i];
        char method[16] = "", *call = xasprintf("%s %s", r->method, r->path);
        for (size_t k = 0; r->method[k] && k + 1 < sizeof method; k++)
            method[k] = (char)(r->method[k] | 0x20);
        const json_t *operation =
            json_object_get(json_object_get(json_object_get(doc, "paths"), r->path), method);
        assert_non_null(operation);
        check_parameters(operation, call);
        check_content(jget(jget(operation, "requestBody"), "content"), IN_BODY, call);
        check_content(jget(jget(jget(operation, "responses"), "200"), "content"), IN_ANSWER, call);
        free(call);
    }
}

// --- tests ---------------------------------------------------------------------------------------

static void test_everything_is_described(void **state)
{
    (void)state;
    faults = 0;
    check_schemas();
    check_calls();
    if (faults)
        fail_msg("%d descriptions are missing or wrong: write each as a row with that key (or, if "
                 "the name means the same everywhere, with the name alone) into a fitting table "
                 "master/http/routing/descriptions_*.c; descriptions.h explains the keys",
                 faults);
}

static void test_every_row_is_used(void **state)
{
    (void)state;
    json_t *seen = json_object();
    faults = 0;
    for (size_t t = 0; t < description_table_count; t++)
        for (size_t i = 0; i < description_tables[t]->count; i++) {
            const struct description *d = &description_tables[t]->rows[i];
            char *key = xasprintf("%s: \"%s\"", description_tables[t]->file, d->key);
            if (json_object_get(seen, d->key))
                report(key, "another row has the same key");
            else if (!json_object_get(used, d->key))
                report(key, "no field has this description; remove the row");
            json_t *value = d->value ? json_loads(d->value, JSON_DECODE_ANY, NULL) : json_null();
            if (!value)
                report(key, "the default is not JSON");
            json_decref(value);
            json_object_set_new(seen, d->key, json_true());
            free(key);
        }
    json_decref(seen);
    if (faults)
        fail_msg("%d rows of master/http/routing/descriptions_*.c describe nothing", faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_described),
        cmocka_unit_test(test_every_row_is_used),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
