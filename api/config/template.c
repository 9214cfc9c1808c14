#include "api/config/template.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text/json.h"

enum { PATH_MAX_BYTES = 128 };

static void list_append_all(json_t *list, const json_t *values)
{
    size_t i;
    json_t *value;
    json_array_foreach(values, i, value) must(!json_array_append_new(list, json_deep_copy(value)));
}

// --- rules: the value that two values become -----------------------------------------------------

// Whether an element of the list has the same member `key`, or is equal if it has no such member.
static bool has_alike(const json_t *list, const json_t *value, const char *key)
{
    size_t i;
    json_t *other;
    const json_t *name = *key ? jget(value, key) : NULL;
    json_array_foreach(list, i, other)
    {
        if (name ? json_equal(jget(other, key), name) : json_equal(other, value))
            return true;
    }
    return false;
}

// Own elements first, then the template's elements that are not alike.
static json_t *join_lists(const json_t *own, const json_t *from, const char *key)
{
    size_t i;
    json_t *value, *out = json_deep_copy(own);
    if (!json_is_array(own))
        return out;
    json_array_foreach(from, i, value)
    {
        if (!has_alike(own, value, key))
            must(!json_array_append_new(out, json_deep_copy(value)));
    }
    return out;
}

static const json_t *variables_of(const json_t *variables, const char *device)
{
    if (json_is_array(variables))
        return variables;
    const json_t *list = jget(variables, device);
    return list || strcmp(device, "cuda") ? list
                                          : jget(variables, "gpu"); // the former name of cuda
}

// Environment variables are a list, or a list for each type of device; a later variable wins.
static json_t *join_variables(const json_t *own, const json_t *from, const char *key)
{
    static const char *const devices[] = {"cpu", "cuda", "rocm", NULL};
    (void)key;
    json_t *out = json_array();
    if (json_is_array(own) && json_is_array(from)) {
        list_append_all(out, from);
        list_append_all(out, own);
        return out;
    }
    json_decref(out);
    out = json_object();
    for (int i = 0; devices[i]; i++) {
        json_t *list = json_array();
        list_append_all(list, variables_of(from, devices[i]));
        list_append_all(list, variables_of(own, devices[i]));
        must(!json_object_set_new(out, devices[i], list));
    }
    return out;
}

// Own members, then the template's other members.
static json_t *join_members(const json_t *own, const json_t *from, const char *key)
{
    const char *name;
    json_t *value, *out = json_deep_copy(own);
    (void)key;
    if (!json_is_object(own))
        return out;
    json_object_foreach((json_t *)from, name, value)
    {
        if (!jget(own, name))
            must(!json_object_set_new(out, name, json_deep_copy(value)));
    }
    return out;
}

static bool is_common(const char *name)
{
    static const char *const common[] = {"save_experiment_best",
                                         "save_trial_best",
                                         "save_trial_latest", // of storages
                                         "metric",
                                         "smaller_is_better",
                                         "source_trial_id", // of searchers
                                         "source_experiment_id",
                                         "source_checkpoint_uuid",
                                         NULL};
    for (int i = 0; common[i]; i++)
        if (!strcmp(common[i], name))
            return true;
    return false;
}

// Objects whose kind is the member `key`.
static json_t *join_kinds(const json_t *own, const json_t *from, const char *key)
{
    const char *name;
    json_t *value;
    const json_t *kind = jget(own, key), *other = jget(from, key);
    if (!kind || !other || json_equal(kind, other))
        return join_members(own, from, "");
    json_t *shared = json_object();
    json_object_foreach((json_t *)from, name, value)
    {
        if (is_common(name))
            must(!json_object_set_new(shared, name, json_deep_copy(value)));
    }
    json_t *out = join_members(own, shared, "");
    json_decref(shared);
    return out;
}

static const struct rule {
    const char *path;
    json_t *(*join)(const json_t *own, const json_t *from, const char *key);
    const char *key;
} rules[] = {
    {"labels", join_lists, ""},
    {"bind_mounts", join_lists, "container_path"},
    {"resources.devices", join_lists, "container_path"},
    {"environment.proxy_ports", join_lists, "proxy_port"},
    {"log_policies", join_lists, "name"},
    {"environment.environment_variables", join_variables, ""},
    {"hyperparameters", join_members, ""},
    {"data", join_members, ""},
    {"checkpoint_storage", join_kinds, "type"},
    {"searcher", join_kinds, "name"},
};

// --- complete validation -------------------------------------------------------------------------

static const struct rule *rule_of(const char *path)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].path, path))
            return &rules[i];
    return NULL;
}

static void merge_objects(json_t *into, const json_t *from, const char *parent)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)from, name, value)
    {
        char path[PATH_MAX_BYTES];
        snprintf(path, sizeof path, "%s%s%s", parent, *parent ? "." : "", name);
        json_t *own = jget(into, name);
        const struct rule *rule = rule_of(path);
        if (json_is_null(value))
            continue;
        if (!own)
            must(!json_object_set_new(into, name, json_deep_copy(value)));
        else if (rule)
            must(!json_object_set_new(into, name, rule->join(own, value, rule->key)));
        else if (json_is_object(own) && json_is_object(value))
            merge_objects(own, value, path);
    }
}

void template_apply(json_t *config, const json_t *template)
{
    merge_objects(config, template, "");
}
