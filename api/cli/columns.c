#include "api/cli/columns.h"

#include <stdio.h>
#include <string.h>

#include "api/cli/verbs.h"
#include "base/buf.h"
#include "base/json.h"

static const struct {
    const char *prefix, *key; // in --columns; of the trial's summary, NULL: hyperparameters
} kinds[] = {
    {"validation.", "validation_metrics"}, {"training.", "avg_metrics"}, {"hparams.", NULL}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), NAME_LEN = 256 };

static int kind_of(const char *name)
{
    for (int i = 0; i < KINDS; i++) {
        if (strncmp(name, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) {
            return i;
        }
    }
    return -1;
}

// The next name of a list with commas that is of such a kind; false: there is none.
static bool next_name(const char **at, char name[NAME_LEN])
{
    while (*at != NULL && **at != '\0') {
        size_t len = strcspn(*at, ",");
        snprintf(name, NAME_LEN, "%.*s", (int)len, *at);
        *at += len + ((*at)[len] == ',');
        if (kind_of(name) >= 0) {
            return true;
        }
    }
    return false;
}

// "loss" is the last value, "loss.min" the least; a metric may have dots in its name.
static const json_t *metric(const json_t *summary, const char *name)
{
    const json_t *last = json_object_get(json_object_get(summary, name), "last");
    const char *dot = strrchr(name, '.');
    char whole[NAME_LEN];
    if (last != NULL || dot == NULL) {
        return last;
    }
    snprintf(whole, sizeof(whole), "%.*s", (int)(dot - name), name);
    return json_object_get(json_object_get(summary, whole), dot + 1);
}

static const json_t *value_of(const json_t *trial, const char *name)
{
    int kind = kind_of(name);
    const char *rest = name + strlen(kinds[kind].prefix);
    if (kinds[kind].key != NULL) {
        return metric(jget(jget(trial, "summaryMetrics"), kinds[kind].key), rest);
    }
    const json_t *value = json_object_get(jget(trial, "hparams"), rest);
    return value != NULL ? value : jget_path(jget(trial, "hparams"), rest);
}

static void add_hparams(json_t *names, const char *prefix, const json_t *hparams)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)hparams, key, value)
    {
        char name[NAME_LEN];
        snprintf(name, sizeof(name), "%s%s", prefix, key);
        if (json_is_object(value)) {
            snprintf(name, sizeof(name), "%s%s.", prefix, key);
            add_hparams(names, name, value);
        } else {
            json_object_set_new(names, name, json_true());
        }
    }
}

json_t *columns_of(const json_t *trial)
{
    json_t *names = json_object(), *value;
    const char *key;
    for (int i = 0; i < KINDS; i++) {
        const json_t *summary =
            kinds[i].key != NULL ? jget(jget(trial, "summaryMetrics"), kinds[i].key) : NULL;
        json_object_foreach((json_t *)summary, key, value)
        {
            char name[NAME_LEN];
            snprintf(name, sizeof(name), "%s%s", kinds[i].prefix, key);
            json_object_set_new(names, name, json_true());
        }
    }
    add_hparams(names, "hparams.", jget(trial, "hparams"));
    return names;
}

static int not_there(const char *name, const json_t *trials, struct error *e)
{
    struct buf all;
    size_t i;
    json_t *trial, *known = json_object(), *value;
    const char *key, *glue = "";
    buf_init(&all, ERROR_TEXT_MAX / 2);
    json_array_foreach((json_t *)trials, i, trial)
    {
        json_t *names = columns_of(trial);
        json_object_update(known, names);
        json_decref(names);
    }
    json_object_foreach(known, key, value)
    {
        buf_printf(&all, "%s%s", glue, key);
        glue = ", ";
    }
    int err = error_set(e, ERR_NOT_FOUND, "nothing in this list has %s; there is: %s", name,
                        all.len > 0 ? buf_str(&all) : "no metric and no hyperparameter");
    buf_free(&all);
    json_decref(known);
    return err;
}

int columns_add(struct cli *c, json_t *rows, const json_t *trials, struct error *e)
{
    char name[NAME_LEN];
    int err = 0;
    for (const char *at = c->options.columns; err == 0 && next_name(&at, name);) {
        bool any = json_array_size(rows) == 0;
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *value = value_of(json_array_get(trials, i), name);
            any |= value != NULL;
            json_object_set_new(json_array_get(rows, i), name,
                                value != NULL ? json_deep_copy(value) : json_null());
        }
        err = any ? 0 : not_there(name, trials, e);
    }
    return err;
}

int columns_add_experiments(struct cli *c, json_t *rows, struct error *e)
{
    char name[NAME_LEN];
    const char *at = c->options.columns;
    json_t *row, *trials = json_array();
    size_t i;
    int err = 0;
    if (next_name(&at, name)) {
        json_array_foreach(rows, i, row)
        {
            json_t *trial = NULL;
            err = err != 0 ? err : columns_best_trial(c, jget_int(row, "id", 0), &trial, e);
            json_array_append_new(trials, trial != NULL ? trial : json_null());
        }
        err = err != 0 ? err : columns_add(c, rows, trials, e);
    }
    json_decref(trials);
    return err;
}

const char *columns_groups(const json_t *trial, struct arena *a)
{
    const char *groups = "", *key;
    json_t *value;
    json_object_foreach(jget(trial, "summaryMetrics"), key, value)
    {
        const char *group = strcmp(key, "avg_metrics") == 0          ? "training"
                            : strcmp(key, "validation_metrics") == 0 ? "validation"
                                                                     : key;
        groups = arena_printf(a, "%s%s%s", groups, *groups != '\0' ? ", " : "", group);
    }
    return groups;
}

int columns_best_trial(struct cli *c, long long experiment, json_t **trial, struct error *e)
{
    json_t *object = NULL, *answer = NULL;
    int err = fetch_experiment(c, experiment, &object, e);
    long long first = json_integer_value(json_array_get(jget(object, "trialIds"), 0));
    long long id = jget_int(object, "bestTrialId", first);
    if (err == 0 && id > 0) {
        err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/trials/%lld", id);
    }
    *trial = err == 0 ? json_incref(jget(answer, "trial")) : NULL;
    json_decref(answer);
    json_decref(object);
    return err;
}
