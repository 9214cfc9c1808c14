// An example nests the keys of the path and ends with a value: one of the table below, or one that
// follows from the type of the key. A test checks every example against the schema.
#include "api/config/config_example.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { DEPTH_MAX = 6, MEMBERS_MAX = 3 };

static const struct {
    const char *path, *value;
} samples[] = {
    {"name", "mnist-baseline"},
    {"description", "the baseline of the paper"},
    {"labels", "[baseline, paper]"},
    {"workspace", "vision"},
    {"project", "cats"},
    {"entrypoint", "python3 train.py"},
    {"launch", "per_slot"},
    {"data", "{folder: /data/imagenet, workers: 4}"},
    {"hyperparameters", "{learning_rate: {type: log, minval: -4, maxval: -1}, width: 64}"},
    {"hyperparameters.*.val", "0.01"},
    {"hyperparameters.*.vals", "[relu, gelu]"},
    {"hyperparameters.*.count", "5"},
    {"max_restarts", "2"},
    {"preemption_timeout", "120"},
    {"searcher", "{name: random, metric: validation_loss, max_trials: 16}"},
    {"searcher.metric", "validation_loss"},
    {"searcher.max_trials", "16"},
    {"searcher.max_time", "1000"},
    {"searcher.time_metric", "epochs"},
    {"searcher.max_length", "{batches: 10000}"},
    {"searcher.num_rungs", "3"},
    {"searcher.population_size", "10"},
    {"searcher.num_rounds", "20"},
    {"searcher.length_per_round", "{batches: 500}"},
    {"searcher.max_concurrent_trials", "4"},
    {"searcher.source_trial_id", "17"},
    {"searcher.source_checkpoint_uuid", "6fd6a1f5-5e1c-4f6d-9f0a-0d8f3a7f7f52"},
    {"resources.slots_per_trial", "4"},
    {"resources.min_slots", "2"},
    {"resources.max_slots", "16"},
    {"resources.priority", "50"},
    {"resources.weight", "0.5"},
    {"resources.resource_pool", "a100"},
    {"checkpoint_storage.type", "directory"},
    {"checkpoint_storage.container_path", "/data/checkpoints"},
    {"checkpoint_storage.host_path", "/data/checkpoints"},
    {"checkpoint_storage.storage_path", "vision"},
    {"checkpoint_storage.save_trial_best", "2"},
    {"environment.environment_variables", "[OMP_NUM_THREADS=4]"},
    {"log_policies[].name", "\"out of memory\""},
    {"log_policies[].pattern", "\".*CUDA out of memory.*\""},
    {"log_policies[].action", "cancel_retries"},
    {"reproducibility.experiment_seed", "7"},
    {"retention_policy.log_retention_days", "90"},
    {"bind_mounts[].host_path", "/data/imagenet"},
    {"bind_mounts[].container_path", "data"},
    {"trainer.global_batch_size", "256"},
    {"trainer.micro_batch_size", "8"},
    {"trainer.steps", "10000"},
    {"trainer.data.path", "input.txt"},
    {"trainer.model.hidden", "[256, 128]"},
    {"trainer.model.depth", "20"},
    {"trainer.optimizer.learning_rate", "1.0e-3"},
    {"trainer.model.layers[].out", "64"},
    {"trainer.model.layers[].kernel", "3"},
};

// A hyperparameter of each type: its name, and its bounds.
static const struct hparam_sample {
    const char *kind, *name, *minval, *maxval;
} hparam_samples[] = {
    {"int", "width", "16", "128"},
    {"double", "dropout", "0.1", "0.5"},
    {"log", "learning_rate", "-4", "-1"},
    {"categorical", "activation", NULL, NULL},
};

// The sample for the type of the hyperparameter that the row, or the key above it, describes. NULL:
// there is none.
static const struct hparam_sample *hparam_sample(const struct schema_row *row)
{
    const struct schema_choice *c = row->choices;
    const char *kind = !strcmp(row->path, "hyperparameters.*") && row->variant ? row->variant->word
                       : c && !strcmp(c->path, "hyperparameters.*")            ? c->word
                                                                               : NULL;
    for (size_t i = 0; kind && i < sizeof hparam_samples / sizeof *hparam_samples; i++)
        if (!strcmp(hparam_samples[i].kind, kind))
            return &hparam_samples[i];
    return NULL;
}

static const char *hparam_name(const struct schema_row *row)
{
    const struct hparam_sample *sample = hparam_sample(row);
    return sample ? sample->name : "learning_rate";
}

static const char *hparam_bound(const struct schema_row *row, const struct schema_field *field)
{
    const struct hparam_sample *sample = hparam_sample(row);
    if (!sample || !field->name)
        return NULL;
    return !strcmp(field->name, "minval")   ? sample->minval
           : !strcmp(field->name, "maxval") ? sample->maxval
                                            : NULL;
}

static const char *sample_of(const char *path)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (!strcmp(samples[i].path, path))
            return samples[i].value;
    return NULL;
}

// --- values --------------------------------------------------------------------------------------

static void write_value(const struct schema_field *field, const char *path, int depth,
                        struct buf *out);

static double clamp(double value, const struct schema_field *field)
{
    if (field->min == 0 && field->max == 0)
        return value;
    value = value < field->min ? field->min : value;
    return value > field->max ? field->max : value;
}

static bool has_default(const struct schema_field *field)
{
    return field->fallback && strcmp(field->fallback, "null") != 0 &&
           strcmp(field->fallback, "\"\"") != 0;
}

static void write_word(const struct schema_field *field, struct buf *out)
{
    size_t len = strlen(field->words[0]);
    bool first_is_default = field->fallback && strlen(field->fallback) == len + 2 &&
                            !strncmp(field->fallback + 1, field->words[0], len);
    buf_puts(out, field->words[first_is_default && field->words[1] ? 1 : 0]);
}

static void write_scalar(const struct schema_field *field, struct buf *out)
{
    switch (field->type) {
    case SCHEMA_BOOL:
        buf_puts(out, field->fallback && !strcmp(field->fallback, "true") ? "false" : "true");
        break;
    case SCHEMA_ENUM:
        write_word(field, out);
        break;
    case SCHEMA_INT:
        buf_printf(out, "%.0f", clamp(8, field));
        break;
    case SCHEMA_NUMBER:
        buf_printf(out, "%g", clamp(0.1, field));
        break;
    case SCHEMA_STRING:
        buf_puts(out, field->name && strstr(field->name, "path") ? "data/train" : "text");
        break;
    default:
        buf_puts(out, "1");
    }
}

// Members of a map in one line: those that are required or have a sample, at most a few others.
static void write_members(const struct schema_field *fields, const char *path, int depth,
                          const char *skipped, struct buf *out)
{
    int members = 0;
    for (const struct schema_field *f = fields; f->name && depth < DEPTH_MAX; f++) {
        char *below = xasprintf("%s.%s", path, f->name);
        bool shown = f->required || (sample_of(below) && members < MEMBERS_MAX);
        if (shown && !(skipped && !strcmp(f->name, skipped))) {
            buf_printf(out, "%s%s: ", members++ || skipped ? ", " : "", f->name);
            write_value(f, below, depth + 1, out);
        }
        free(below);
    }
}

static void write_union(const struct schema_field *field, const char *path, int depth,
                        struct buf *out)
{
    const struct schema_variant *kind = field->variants;
    buf_printf(out, "{%s: %s", field->tag, kind->word);
    write_members(kind->fields, path, depth, field->tag, out);
    buf_puts(out, "}");
}

static void write_list(const struct schema_field *field, const char *path, int depth,
                       struct buf *out)
{
    char *inner = xasprintf("%s[]", path);
    buf_puts(out, "[");
    if (field->element && depth < DEPTH_MAX)
        write_value(field->element, inner, depth + 1, out);
    buf_puts(out, "]");
    free(inner);
}

static void write_value(const struct schema_field *field, const char *path, int depth,
                        struct buf *out)
{
    const char *sample = sample_of(path);
    if (sample) {
        buf_puts(out, sample);
    } else if (field->type == SCHEMA_OBJECT) {
        buf_puts(out, "{");
        write_members(field->fields, path, depth, NULL, out);
        buf_puts(out, "}");
    } else if (field->type == SCHEMA_UNION) {
        write_union(field, path, depth, out);
    } else if (field->type == SCHEMA_LIST) {
        write_list(field, path, depth, out);
    } else if (field->type == SCHEMA_MAP) {
        buf_puts(out, has_default(field) ? field->fallback : "{}");
    } else if (field->type == SCHEMA_ONE_OF) {
        write_value(field->fields, path, depth, out);
    } else if (has_default(field) && field->type != SCHEMA_BOOL && field->type != SCHEMA_ENUM) {
        buf_puts(out, field->fallback);
    } else {
        write_scalar(field, out);
    }
}

// --- the keys around a value ---------------------------------------------------------------------

struct nesting {
    const struct schema_row *row;
    struct buf *out;
    int indent;
    bool dash; // the next line begins an element of a list
};

static void begin_line(struct nesting *n)
{
    buf_printf(n->out, "%*s%s", n->indent - (n->dash ? 2 : 0), "", n->dash ? "- " : "");
    n->dash = false;
}

// Writes the tag of the union at `path`, if the key belongs to a kind of it.
static void write_tag(struct nesting *n, const char *path)
{
    for (const struct schema_choice *c = n->row->choices; c; c = c->outer)
        if (!strcmp(c->path, path)) {
            begin_line(n);
            buf_printf(n->out, "%s: %s\n", c->tag, c->word);
        }
}

// Whether a check between keys requires the key, of which the table alone cannot say so.
static bool is_needed(const char *path, const char *kind, const char *key)
{
    static const struct {
        const char *path, *kind, *key;
    } needed[] = {{"searcher", "async_halving", "max_time"},
                  {"hyperparameters.*", "const", "val"},
                  {"searcher", "adaptive_asha", "max_time"},
                  {"searcher", "hyperband", "max_time"},
                  {"searcher", "pbt", "length_per_round"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!strcmp(needed[i].path, path) && !strcmp(needed[i].kind, kind) &&
            !strcmp(needed[i].key, key))
            return true;
    return false;
}

// Writes the value of a key of the row.
static void write_key_value(struct nesting *n, const struct schema_field *field, const char *path,
                            int depth)
{
    const char *bound = hparam_bound(n->row, field);
    if (bound)
        buf_puts(n->out, bound);
    else
        write_value(field, path, depth, n->out);
    buf_puts(n->out, "\n");
}

// A kind shows its required keys, so that the example is complete.
static void write_kind(struct nesting *n)
{
    const struct schema_row *row = n->row;
    write_tag(n, row->path);
    for (const struct schema_field *f = row->variant->fields; f->name; f++) {
        bool shown = f->required || is_needed(row->path, row->variant->word, f->name);
        if (!shown || !strcmp(f->name, row->field->tag))
            continue;
        char *below = xasprintf("%s.%s", row->path, f->name);
        begin_line(n);
        buf_printf(n->out, "%s: ", f->name);
        write_key_value(n, f, below, 1);
        free(below);
    }
}

// Writes one name of the path; `end` follows it, and is the end of the path for the last name.
static void write_name(struct nesting *n, const char *name, size_t len, const char *end)
{
    char *path = xasprintf("%.*s", (int)(end - n->row->path), n->row->path);
    bool list = len > 2 && !strncmp(name + len - 2, "[]", 2), last = *end == '\0';
    begin_line(n);
    if (*name == '*') // of a map: any name
        buf_printf(n->out, "%s:", hparam_name(n->row));
    else
        buf_printf(n->out, "%.*s:", (int)(list ? len - 2 : len), name);
    if (last && !n->row->variant) {
        buf_puts(n->out, " ");
        write_key_value(n, n->row->field, path, 0);
    } else {
        buf_puts(n->out, "\n");
        n->indent += list ? 4 : 2;
        n->dash = list;
        if (!last)
            write_tag(n, path);
    }
    free(path);
}

void config_example_write(const struct schema_row *row, int indent, struct buf *out)
{
    struct nesting n = {.row = row, .out = out, .indent = indent};
    for (const char *name = row->path; *name;) {
        size_t len = strcspn(name, ".");
        const char *end = name + len;
        write_name(&n, name, len, end);
        name = *end ? end + 1 : end;
    }
    if (row->variant)
        write_kind(&n);
}
