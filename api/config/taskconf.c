#include "api/config/taskconf.h"

#include <string.h>

#include "api/config/expconf.h"
#include "api/config/expconf_parts.h"
#include "api/config/expconf_rows.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

static const struct schema_field a_word = {
    .name = "word", .type = SCHEMA_STRING, .doc = "a word of the command line"};
static const struct schema_field anything = {
    .name = "value", .type = SCHEMA_ANY, .nullable = true, .doc = "anything"};
static const struct schema_field line_or_words[] = {
    STRING("line", NULL, "a shell line"),
    LIST("words", &a_word, NULL, "program and arguments"),
    END,
};

static const struct schema_field resources[] = {
    INT("slots", 0, BIG, "1", "number of slots, at most 8192; 0: it needs none and starts at once"),
    STRING("resource_pool", "\"default\"", "pool to run in"),
    INT_OR_NULL("priority", 1, 99,
                "priority in the queue, a smaller number goes first; null: the pool's default. "
                "Users may set the pool's max_user_priority (42 unless the master is configured "
                "otherwise) or a larger number"),
    NUMBER("weight", 0, 1e6, "1", "share of the cluster under fair share"),
    INT_OR_NULL("max_slots", 0, BIG,
                "accepted for older files; a task always holds the same slots"),
    {.name = "is_single_node",
     .type = SCHEMA_BOOL,
     .nullable = true,
     .fallback = "null",
     .doc = "whether all its slots must be on one machine; otherwise they may be on several"},
    ANYTHING("shm_size", "null", "accepted for older files; processes share /dev/shm"),
    LIST("devices", &anything, "[]", "accepted for older files; programs see the host's devices"),
    STRING_OR_NULL("agent_label", "accepted for older files"),
    BOOL("native_parallel", "false", "accepted for older files"),
    END,
};

const struct schema_field taskconf_fields[] = {
    STRING("description", "\"\"", "name shown in lists; empty: the command line"),
    {.name = "entrypoint",
     .type = SCHEMA_ONE_OF,
     .fields = line_or_words,
     .required = true,
     .doc = "program to run: a shell line or a list of words"},
    OBJECT("resources", resources, "{}", "slots and other resources"),
    ANYTHING("environment", "{}", "environment of the program, as in an experiment file"),
    STRING_OR_NULL("work_dir", "folder in which the program runs; null: the folder of its files"),
    INT_OR_NULL("preemption_timeout", 1, 1e9,
                "seconds between the order to leave and SIGTERM; null: it is ended at once"),
    {.name = "bind_mounts",
     .type = SCHEMA_LIST,
     .element = &expconf_bind_mount,
     .nullable = true,
     .fallback = "[]",
     .doc = "folders of the machine that the program sees under other names, as in an experiment "
            "file"},
    BOOL("debug", "false", "accepted for older files"),
    ANYTHING("notebook_idle_type", NULL, "accepted for older files"),
    ANYTHING("idle_timeout", NULL, "accepted for older files"),
    ANYTHING("tensorboard_args", NULL, "accepted for older files"),
    ANYTHING("proxy_ports", NULL, "accepted for older files"),
    ANYTHING("slurm", "{}", "accepted for older files"),
    ANYTHING("pbs", "{}", "accepted for older files"),
    END,
};

enum { NAME_BYTES = 80 };

static void add_word(struct buf *out, const char *word)
{
    for (const char *p = word; *p && out->len < 2 * NAME_BYTES; p++)
        buf_printf(out, "%c", (unsigned char)*p < ' ' ? ' ' : *p);
}

// The command line as one line, cut between characters.
static json_t *task_name(const json_t *config)
{
    const char *given = jget_string(config, "description", "");
    const json_t *entrypoint = jget(config, "entrypoint");
    struct buf name;
    size_t i;
    json_t *word;
    if (*given)
        return json_string(given);
    buf_init(&name, LIMIT_CONFIG);
    if (json_is_string(entrypoint))
        add_word(&name, json_string_value(entrypoint));
    json_array_foreach(entrypoint, i, word)
    {
        buf_puts(&name, i ? " " : "");
        add_word(&name, json_string_value(word));
    }
    json_t *text = json_stringn(buf_str(&name), json_utf8_fit(buf_str(&name), NAME_BYTES));
    buf_free(&name);
    return text;
}

static void copy_key(json_t *to, const char *key, const json_t *from, const char *name)
{
    json_t *value = jget(from, name);
    if (value)
        must(!json_object_set(to, key, value));
}

static json_t *experiment_of(const json_t *config)
{
    const json_t *given = jget(config, "resources");
    json_t *needs = json_object();
    json_t *experiment =
        json_pack("{s:o, s:O, s:o, s:{s:s, s:s}, s:i}", "name", task_name(config), "entrypoint",
                  jget(config, "entrypoint"), "resources", needs, "searcher", "name", "single",
                  "metric", "none", "max_restarts", 0);
    must(experiment);
    copy_key(needs, "slots_per_trial", given, "slots");
    copy_key(needs, "resource_pool", given, "resource_pool");
    copy_key(needs, "priority", given, "priority");
    copy_key(needs, "weight", given, "weight");
    copy_key(needs, "is_single_node", given, "is_single_node");
    copy_key(experiment, "environment", config, "environment");
    copy_key(experiment, "bind_mounts", config, "bind_mounts");
    copy_key(experiment, "preemption_timeout", config, "preemption_timeout");
    return experiment;
}

int taskconf_finish(struct yaml_doc *doc, json_t **experiment, struct error *e)
{
    *experiment = NULL;
    if (!json_is_object(doc->root))
        return error_set(
            e, ERR_INVALID,
            "config: a task file must be a list of keys and values (entrypoint:, resources: ..)");
    int err = schema_apply(taskconf_fields, doc, e);
    err = err ? err : expconf_check_slots(doc, "resources.slots", e);
    if (err)
        return err;
    struct yaml_doc whole = {.root = experiment_of(doc->root), .file = doc->file};
    err = expconf_finish(&whole, e);
    if (!err) {
        copy_key(whole.root, "work_dir", doc->root, "work_dir");
        *experiment = json_incref(whole.root);
    }
    json_decref(whole.root);
    return err;
}

void taskconf_document(struct buf *out)
{
    schema_document(taskconf_fields, out);
}
