#include "cli/output/columns.h"

#include <string.h>

#include "base/buf.h"
#include "base/text/json.h"

static bool is_metric_or_hparam(const char *name)
{
    return strncmp(name, "validation.", 11) == 0 || strncmp(name, "training.", 9) == 0 ||
           strncmp(name, "hparams.", 8) == 0;
}

// Returns the next name in --columns that is a metric or hyperparameter, in the arena; NULL: none.
static const char *next_name(struct cli *c, const char **at)
{
    while (*at && **at != '\0') {
        size_t len = strcspn(*at, ",");
        const char *name = arena_printf(&c->arena, "%.*s", (int)len, *at);
        *at += len + ((*at)[len] == ',');
        if (is_metric_or_hparam(name))
            return name;
    }
    return NULL;
}

const char *columns_query(struct cli *c)
{
    const char *at = c->options.columns, *name, *query = "";
    while ((name = next_name(c, &at)))
        query = arena_printf(&c->arena, "%s%s", query, cli_query(c, "show", name));
    return query;
}

json_t *columns_known(const json_t *fields)
{
    json_t *known = json_array(), *field, *name;
    size_t i, n;
    json_array_foreach(jget(fields, "fields"), i, field)
    {
        json_array_foreach(jget(field, "names"), n, name)
        {
            json_array_append_new(known, json_sprintf("%s.%s", jget_string(field, "name", ""),
                                                      json_string_value(name)));
        }
    }
    return known;
}

// Sets `e` to the nearest of the known names, else to those of the same group, else to all.
static int suggest_name(struct cli *c, const json_t *known, const char *name, struct error *e)
{
    size_t count = json_array_size(known), group = strcspn(name, ".") + 1;
    const char **names = arena_alloc(&c->arena, (count + 1) * sizeof *names);
    bool grouped = false;
    struct buf all;
    for (size_t i = 0; i < count; i++) {
        names[i] = json_string_value(json_array_get(known, i));
        grouped |= strncmp(names[i], name, group) == 0;
    }
    names[count] = NULL;
    const char *near = nearest_word(name, names);
    if (near)
        return error_set(e, ERR_NOT_FOUND, "no row of this list has %s; did you mean %s?", name,
                         near);
    buf_init(&all, ERROR_TEXT_MAX / 2);
    for (size_t i = 0; i < count; i++)
        if (!grouped || strncmp(names[i], name, group) == 0)
            buf_printf(&all, "%s%s", all.len > 0 ? ", " : "", names[i]);
    int err = error_set(e, ERR_NOT_FOUND, "no row of this list has %s; available: %s", name,
                        all.len > 0 ? buf_str(&all) : "no metric and no hyperparameter");
    buf_free(&all);
    return err;
}

static int report_unknown_name(struct cli *c, const char *name, struct error *e)
{
    json_t *fields = NULL;
    int err = cli_call(c, "GET", NULL, &fields, e, COLUMNS_FIELDS);
    if (err)
        return err;
    json_t *known = columns_known(fields);
    err = suggest_name(c, known, name, e);
    json_decref(known);
    json_decref(fields);
    return err;
}

int columns_add(struct cli *c, const json_t *list, json_t *rows, struct error *e)
{
    const char *at = c->options.columns, *name;
    for (size_t n = 0; (name = next_name(c, &at)); n++) {
        bool any = json_array_size(rows) == 0;
        for (size_t i = 0; i < json_array_size(rows); i++) {
            json_t *value = json_array_get(jget(json_array_get(list, i), CLI_LIST_VALUES), n);
            any |= value && !json_is_null(value);
            json_object_set(json_array_get(rows, i), name, value);
        }
        if (!any)
            return report_unknown_name(c, name, e);
    }
    return 0;
}
