#include "api/config/expconf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf_parts.h"
#include "api/config/mounts.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

int expconf_fault(const struct yaml_doc *doc, const char *path, struct error *e, const char *fmt,
                  ...)
{
    char where[EXPCONF_WHERE_MAX], text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (!doc)
        return error_set(e, ERR_INVALID, "%s: %s", path, text);
    return error_set(e, ERR_INVALID, "%s: %s%s%s", yaml_where(doc, path, where, sizeof(where)),
                     path, *path ? ": " : "", text);
}

static const char *text_at(const json_t *config, const char *path)
{
    return json_string_value(jget_path(config, path));
}

// --- checks between fields -----------------------------------------------------------------------

static int check_texts(const struct yaml_doc *doc, struct error *e)
{
    static const struct {
        const char *path;
        size_t limit;
    } texts[] = {{"name", LIMIT_NAME},
                 {"workspace", LIMIT_NAME},
                 {"project", LIMIT_NAME},
                 {"searcher.metric", LIMIT_NAME},
                 {"resources.resource_pool", LIMIT_NAME},
                 {"description", LIMIT_DESCRIPTION}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        size_t length = json_string_length(jget_path(doc->root, texts[i].path));
        if (length > texts[i].limit)
            return expconf_fault(doc, texts[i].path, e, "has %zu bytes; at most %zu are allowed",
                                 length, texts[i].limit);
    }
    const char *metric = text_at(doc->root, "searcher.metric");
    if (!metric || !*metric)
        return expconf_fault(doc, "searcher.metric", e,
                             "is empty; name the validation metric that ranks trials");
    size_t i;
    json_t *label;
    json_array_foreach(json_object_get(doc->root, "labels"), i, label)
    {
        char path[32];
        snprintf(path, sizeof(path), "labels.%zu", i);
        if (json_string_length(label) > LIMIT_NAME)
            return expconf_fault(doc, path, e, "the label is too long; at most %d bytes",
                                 LIMIT_NAME);
    }
    return 0;
}

// Checks entrypoint or trainer and the keys that belong to each. `detached`: neither is required,
// because the programs run elsewhere.
static int check_program(const struct yaml_doc *doc, bool detached, struct error *e)
{
    static const char *const metrics[] = {"validation_loss",       "validation_accuracy",
                                          "validation_perplexity", "validation_bits_per_byte",
                                          "validation_rmse",       NULL};
    const json_t *entrypoint = jget(doc->root, "entrypoint");
    const json_t *trainer = jget(doc->root, "trainer");
    const char *launch = text_at(doc->root, "launch");

    if (entrypoint && trainer)
        return expconf_fault(doc, "entrypoint", e,
                             "cannot be combined with trainer; an experiment runs either its own "
                             "program (entrypoint) or the native trainer");
    if (!entrypoint && !trainer && detached)
        return 0;
    if (!entrypoint && !trainer)
        return expconf_fault(doc, "", e,
                             "there is nothing to run: add `entrypoint` (a program) or `trainer` "
                             "(the native trainer)");
    if (json_is_array(entrypoint) ? !json_array_size(entrypoint)
                                  : entrypoint && !json_string_length(entrypoint))
        return expconf_fault(doc, "entrypoint", e, "is empty; name the program to run");
    if (!trainer)
        return 0;
    if (launch && !strcmp(launch, "per_machine"))
        return expconf_fault(doc, "launch", e,
                             "the native trainer runs one process per slot; leave launch out");
    if (jget_int(jget(doc->root, "resources"), "slots_per_trial", 1) < 1)
        return expconf_fault(doc, "resources.slots_per_trial", e,
                             "the native trainer needs at least one slot");
    const char *metric = text_at(doc->root, "searcher.metric");
    for (int i = 0; metrics[i]; i++)
        if (!strcmp(metric, metrics[i]))
            return 0;
    const char *near = nearest_word(metric, metrics);
    if (near)
        return expconf_fault(doc, "searcher.metric", e,
                             "the native trainer does not report \"%.64s\"; did you mean \"%s\"?",
                             metric, near);
    return expconf_fault(
        doc, "searcher.metric", e,
        "the native trainer does not report \"%.64s\"; it reports validation_loss, "
        "validation_accuracy (classes, texts), validation_perplexity (texts), "
        "validation_bits_per_byte (bytes), validation_rmse (values)",
        metric);
}

int expconf_check_slots(const struct yaml_doc *doc, const char *path, struct error *e)
{
    long long slots = json_integer_value(jget_path(doc->root, path));
    const json_t *resources = jget(doc->root, "resources");
    long long least = jget_int(resources, "min_slots", slots);
    if (slots > LIMIT_SLOTS_PER_TRIAL)
        return expconf_fault(doc, path, e, "request unfulfillable: %lld slots; the limit is %d",
                             slots, LIMIT_SLOTS_PER_TRIAL);
    if (jget_bool(resources, "is_single_node", false) && least > LIMIT_SLOTS_PER_AGENT)
        return expconf_fault(doc, path, e,
                             "request unfulfillable: %lld slots on one machine (is_single_node), "
                             "and a machine has at most %d",
                             least, LIMIT_SLOTS_PER_AGENT);
    return 0;
}

static int check_resources(const struct yaml_doc *doc, struct error *e)
{
    const json_t *resources = jget(doc->root, "resources");
    int err = expconf_check_slots(doc, "resources.slots_per_trial", e);
    if (err)
        return err;
    long long slots = jget_int(resources, "slots_per_trial", 1);
    long long min_slots = jget_int(resources, "min_slots", slots);
    if (min_slots > slots)
        return expconf_fault(doc, "resources.min_slots", e,
                             "%lld is more than slots_per_trial (%lld), the maximum of a trial",
                             min_slots, slots);
    return 0;
}

static int check_storage(const struct yaml_doc *doc, struct error *e)
{
    const json_t *storage = jget(doc->root, "checkpoint_storage");
    const char *type = jget_string(storage, "type", "directory");
    struct error why;
    if (strcmp(type, "directory") && strcmp(type, "shared_fs") && jget(doc->root, "trainer"))
        return expconf_fault(doc, "checkpoint_storage.type", e,
                             "the native trainer writes to folders; use directory or shared_fs");
    if (expconf_check_storage_folder(storage, &why))
        return expconf_fault(doc, "checkpoint_storage", e, "%s", why.text);
    return 0;
}

static int check_mounts(const struct yaml_doc *doc, struct error *e)
{
    struct error why;
    return bind_mounts_check(jget(doc->root, "bind_mounts"), &why)
               ? expconf_fault(doc, "bind_mounts", e, "%s", why.text)
               : 0;
}

// The native trainer counts steps itself and ends after this number.
static int check_native_rungs(const struct yaml_doc *doc, const json_t *searcher, struct error *e)
{
    const json_t *steps = jget_path(doc->root, "trainer.steps"); // integer or "${name}"
    const json_t *length = jget(searcher, "max_length"), *batches = jget(length, "batches");
    bool timed = jget(searcher, "max_time") != NULL;
    long long most = json_integer_value(steps), time = jget_int(searcher, "max_time", 0);
    const char *metric = jget_string(searcher, "time_metric", "batches");
    if (!timed && json_is_object(length) && !batches)
        return expconf_fault(doc, "searcher.max_length", e,
                             "the native trainer counts steps; give max_time, in steps, instead");
    if (!timed)
        time = json_integer_value(batches ? batches : length);
    if (strcmp(metric, "batches") != 0)
        return expconf_fault(doc, "searcher.time_metric", e,
                             "the native trainer does not report \"%.64s\"; leave time_metric out "
                             "and give max_time in steps",
                             metric);
    if (json_is_integer(steps) && time > most)
        return expconf_fault(doc, timed ? "searcher.max_time" : "searcher.max_length", e,
                             "%lld is more than trainer.steps (%lld), so no trial would reach the "
                             "top rung; make them equal",
                             time, most);
    return 0;
}

static int check_bracket_rungs(const struct yaml_doc *doc, const json_t *searcher, struct error *e)
{
    const json_t *rungs = jget(searcher, "bracket_rungs");
    for (size_t i = 0; i < json_array_size(rungs); i++) {
        char path[64];
        json_int_t value = json_integer_value(json_array_get(rungs, i));
        snprintf(path, sizeof(path), "searcher.bracket_rungs.%zu", i);
        if (value < 1 || value > 100)
            return expconf_fault(doc, path, e, "a bracket has 1 to 100 rungs, not %lld",
                                 (long long)value);
    }
    return 0;
}

// The native trainer counts steps itself and ends after trainer.steps.
static int check_native_rounds(const struct yaml_doc *doc, const json_t *searcher, struct error *e)
{
    const json_t *steps = jget_path(doc->root, "trainer.steps"); // integer or "${name}"
    const json_t *length = jget(searcher, "length_per_round"), *batches = jget(length, "batches");
    long long rounds = jget_int(searcher, "num_rounds", 1);
    long long per_round = json_integer_value(batches ? batches : length);
    if ((json_is_object(length) && !batches) ||
        strcmp(jget_string(searcher, "time_metric", "batches"), "batches") != 0)
        return expconf_fault(doc, "searcher.length_per_round", e,
                             "the native trainer counts steps; give {batches: N}, and no "
                             "time_metric");
    if (json_is_integer(steps) && per_round > json_integer_value(steps) / rounds)
        return expconf_fault(doc, "searcher.length_per_round", e,
                             "%lld rounds of %lld steps are more than trainer.steps (%lld); make "
                             "them equal",
                             rounds, per_round, (long long)json_integer_value(steps));
    return 0;
}

static int check_pbt(const struct yaml_doc *doc, const json_t *searcher, struct error *e)
{
    const json_t *length = jget(searcher, "length_per_round"), *value;
    const char *unit;
    if (!length)
        return expconf_fault(doc, "searcher", e,
                             "pbt needs length_per_round, the training time after which a member "
                             "is compared with the others, such as {batches: 1000}");
    long long rounds = jget_int(searcher, "num_rounds", 1);
    long long members = jget_int(searcher, "population_size", 1);
    if (rounds * members > LIMIT_PBT_SCORES)
        return expconf_fault(doc, "searcher.num_rounds", e,
                             "%lld rounds of %lld members are more than %d scores; use fewer and "
                             "longer rounds",
                             rounds, members, LIMIT_PBT_SCORES);
    if (json_is_object(length) && json_object_size(length) != 1)
        return expconf_fault(doc, "searcher.length_per_round", e,
                             "expected one unit and its number, such as {batches: 1000}");
    json_object_foreach((json_t *)length, unit, value)
    {
        if (!json_is_number(value) || json_number_value(value) <= 0)
            return expconf_fault(doc, "searcher.length_per_round", e,
                                 "the number of %.64s must be greater than 0", unit);
    }
    return jget(doc->root, "trainer") ? check_native_rounds(doc, searcher, e) : 0;
}

static int check_searcher(const struct yaml_doc *doc, struct error *e)
{
    const json_t *searcher = jget(doc->root, "searcher");
    const char *name = jget_string(searcher, "name", "");
    if (!strcmp(name, "pbt"))
        return check_pbt(doc, searcher, e);
    if (strcmp(name, "async_halving") && strcmp(name, "adaptive_asha") && strcmp(name, "hyperband"))
        return 0;
    if (!jget(searcher, "max_time") && !jget(searcher, "max_length"))
        return expconf_fault(doc, "searcher", e,
                             "%s needs max_time, the length of a whole training in units of "
                             "time_metric (default: steps)",
                             name);
    int rc = check_bracket_rungs(doc, searcher, e);
    if (!rc && jget(doc->root, "trainer"))
        rc = check_native_rungs(doc, searcher, e);
    return rc;
}

// --- complete validation -------------------------------------------------------------------------

// YAML allows at most 1,024 characters for a key before its colon, including escapes.
static bool is_long_key(const char *key)
{
    size_t len = 0;
    for (; *key; key++)
        len += (unsigned char)*key < ' ' || *key == 0x7f ? 6 : 1;
    return len > LIMIT_NAME;
}

static bool has_long_key(const json_t *v)
{
    const char *key;
    json_t *value;
    size_t i;
    json_array_foreach((json_t *)v, i, value)
    {
        if (has_long_key(value))
            return true;
    }
    json_object_foreach((json_t *)v, key, value)
    {
        if (is_long_key(key) || has_long_key(value))
            return true;
    }
    return false;
}

// Checks the size with all defaults: a complete configuration must be accepted again.
static int check_shape(const struct yaml_doc *doc, struct error *e)
{
    const char *key;
    json_t *value;
    json_object_foreach(doc->root, key, value)
    {
        if (json_is_deeper_than(value, LIMIT_JSON_DEPTH - 1))
            return expconf_fault(doc, key, e,
                                 "more than %d levels deep; the value of a hyperparameter counts "
                                 "one level more than written",
                                 LIMIT_JSON_DEPTH - 1);
        if (has_long_key(value))
            return expconf_fault(doc, key, e, "a key of more than %d characters", LIMIT_NAME);
    }
    return 0;
}

static int check_fields(const struct yaml_doc *doc, bool detached, struct error *e)
{
    int rc = check_texts(doc, e);
    if (!rc)
        rc = check_shape(doc, e);
    if (!rc)
        rc = check_program(doc, detached, e);
    if (!rc)
        rc = check_resources(doc, e);
    if (!rc)
        rc = check_storage(doc, e);
    if (!rc)
        rc = check_mounts(doc, e);
    if (!rc)
        rc = check_searcher(doc, e);
    return rc;
}

// Sets the defaults that depend on other fields.
static void set_dependent_defaults(json_t *config)
{
    if (!jget(config, "launch"))
        json_object_set_new(config, "launch",
                            json_string(jget(config, "trainer") ? "per_slot" : "per_machine"));
}

// Checks the trainer section with every "${name}" replaced. If there was any, the section as
// written is restored afterwards.
static int apply_fields(struct yaml_doc *doc, bool *searched, struct error *e)
{
    json_t *written = json_incref(json_object_get(doc->root, "trainer"));
    json_t *sample = NULL;
    bool used = false;
    int rc = expconf_sample_trainer(doc, &sample, &used, searched, e);
    if (rc)
        goto out;
    if (used)
        json_object_set(doc->root, "trainer", sample);
    rc = schema_apply(expconf_fields, doc, e);
    if (!rc && jget(doc->root, "trainer") && !*searched)
        rc = expconf_check_trainer(doc, jget(doc->root, "trainer"), e);
    if (used)
        json_object_set(doc->root, "trainer", written);
out:
    json_decref(sample);
    json_decref(written);
    return rc;
}

static int check_and_complete(struct yaml_doc *doc, bool detached, struct error *e)
{
    bool searched = false;
    if (!json_is_object(doc->root))
        return expconf_fault(
            doc, "", e,
            "an experiment file must be a list of keys and values (name:, searcher:, trainer: ..)");
    int rc = expconf_type_hparams(doc, e);
    if (!rc)
        rc = apply_fields(doc, &searched, e);
    if (!rc)
        rc = check_fields(doc, detached, e);
    if (!rc)
        set_dependent_defaults(doc->root);
    return rc;
}

int expconf_finish(struct yaml_doc *doc, struct error *e)
{
    return check_and_complete(doc, false, e);
}

int expconf_finish_detached(struct yaml_doc *doc, struct error *e)
{
    return check_and_complete(doc, true, e);
}

int expconf_parse(const char *text, size_t len, const char *file, struct yaml_doc *out,
                  struct error *e)
{
    *out = (struct yaml_doc){0};
    if (len > LIMIT_CONFIG)
        return error_set(
            e, ERR_TOO_LARGE,
            "%s: the configuration has %zu bytes; at most %d are allowed. Put data into files",
            file, len, LIMIT_CONFIG);
    int rc = yaml_parse(text, len, file, out, e);
    if (rc)
        return rc;
    rc = expconf_finish(out, e);
    if (rc)
        yaml_doc_free(out);
    return rc;
}

// --- overrides -----------------------------------------------------------------------------------

static int no_key(const char *assignment, struct error *e)
{
    return error_set(e, ERR_INVALID, "%.200s: the path is not UTF-8 text", assignment);
}

// The value of `part` in a container: a key of an object, or an index of a list (one past its end
// appends). Creates missing objects. NULL with *e if the path does not fit.
static json_t *container_member(json_t *at, const char *part, const char *assignment,
                                struct error *e)
{
    if (json_is_object(at)) {
        json_t *next = json_object_get(at, part);
        if (!next || json_is_null(next)) {
            next = json_object();
            if (json_object_set_new(at, part, next)) {
                no_key(assignment, e);
                return NULL;
            }
        }
        return next;
    }
    if (json_is_array(at)) {
        char *end;
        unsigned long i = strtoul(part, &end, 10);
        if (!*end && i < json_array_size(at))
            return json_array_get(at, i);
        error_set(e, ERR_INVALID, "%.200s: there is no element \"%.64s\"; the list has %zu",
                  assignment, part, json_array_size(at));
        return NULL;
    }
    error_set(e, ERR_INVALID, "%.200s: a single value has no members (at \"%.64s\")", assignment,
              part);
    return NULL;
}

static int container_set(json_t *at, const char *part, json_t *value, const char *assignment,
                         struct error *e)
{
    char *end;
    if (json_is_object(at))
        return json_object_set(at, part, value) ? no_key(assignment, e) : 0;
    unsigned long i = strtoul(part, &end, 10);
    if (json_is_array(at) && *part && !*end && i <= json_array_size(at)) {
        if (i < json_array_size(at))
            json_array_set(at, i, value);
        else
            json_array_append(at, value);
        return 0;
    }
    if (json_is_array(at))
        return error_set(e, ERR_INVALID,
                         "%.200s: \"%.64s\" is not an index of a list with %zu elements",
                         assignment, part, json_array_size(at));
    return error_set(e, ERR_INVALID, "%.200s: a single value has no members (at \"%.64s\")",
                     assignment, part);
}

static int set_path(json_t *root, char *path, json_t *value, const char *assignment,
                    struct error *e)
{
    json_t *at = root;
    int depth = 0;
    for (char *part = path, *dot; part; part = dot) {
        dot = strchr(part, '.');
        if (dot)
            *dot++ = '\0';
        if (!*part || ++depth > LIMIT_JSON_DEPTH)
            return error_set(e, ERR_INVALID,
                             "%.200s: not a path; write it as resources.slots_per_trial=2",
                             assignment);
        if (!dot)
            return container_set(at, part, value, assignment, e);
        at = container_member(at, part, assignment, e);
        if (!at)
            return ERR_INVALID;
    }
    return 0;
}

int expconf_set(struct yaml_doc *doc, const char *assignment, struct error *e)
{
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return error_set(e, ERR_INVALID,
                         "\"%.200s\" has no value; write key.path=value, for example "
                         "resources.slots_per_trial=2",
                         assignment);
    const char *text = equals[1 + strspn(equals + 1, " ")] ? equals + 1 : "null";
    char *path = xstrdup(assignment);
    path[equals - assignment] = '\0';
    struct yaml_doc value = {0};
    int rc = yaml_parse(text, strlen(text), assignment, &value, e);
    if (rc)
        goto out;
    if (!doc->root || json_is_null(doc->root)) {
        json_decref(doc->root);
        doc->root = json_object();
    }
    rc = set_path(doc->root, path, value.root, assignment, e);
out:
    yaml_doc_free(&value);
    free(path);
    return rc;
}

void expconf_document(struct buf *out)
{
    schema_document(expconf_fields, out);
}
