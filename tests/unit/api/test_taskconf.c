// The configuration of commands and tasks: the resulting experiment configuration, and faults with
// their position.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/config/taskconf.h"
#include "base/arena.h"
#include "base/text/json.h"

static int finish(const char *text, struct yaml_doc *doc, json_t **experiment, struct error *e)
{
    *doc = (struct yaml_doc){0};
    assert_int_equal(yaml_parse(text, strlen(text), "config", doc, e), 0);
    return taskconf_finish(doc, experiment, e);
}

static void refused(const char *text, const char *part)
{
    struct yaml_doc doc;
    struct error e;
    json_t *experiment;
    assert_int_equal(finish(text, &doc, &experiment, &e), ERR_INVALID);
    assert_null(experiment);
    if (!strstr(e.text, part))
        fail_msg("\"%s\" does not hold \"%s\"", e.text, part);
    yaml_doc_free(&doc);
}

static json_t *accepted(const char *text)
{
    struct yaml_doc doc;
    struct error e;
    json_t *experiment;
    if (finish(text, &doc, &experiment, &e))
        fail_msg("%s", e.text);
    yaml_doc_free(&doc);
    return experiment;
}

static void test_becomes_an_experiment(void **state)
{
    (void)state;
    json_t *config = accepted("{\"entrypoint\": [\"python3\", \"a b.py\"], \"resources\": "
                              "{\"slots\": 3, \"priority\": 50, \"resource_pool\": \"gpu\"}, "
                              "\"work_dir\": \"/data\", \"environment\": "
                              "{\"environment_variables\": [\"A=1\"]}}");
    const json_t *resources = jget(config, "resources");
    assert_int_equal(jget_int(resources, "slots_per_trial", -1), 3);
    assert_int_equal(jget_int(resources, "priority", -1), 50);
    assert_string_equal(jget_string(resources, "resource_pool", ""), "gpu");
    assert_int_equal(jget_int(config, "max_restarts", -1), 0);
    assert_string_equal(jget_string(config, "name", ""), "python3 a b.py");
    assert_string_equal(jget_string(config, "work_dir", ""), "/data");
    assert_string_equal(json_string_value(jget_path(config, "searcher.name")), "single");
    const json_t *variables = jget_path(config, "environment.environment_variables");
    assert_string_equal(json_string_value(json_array_get(variables, 0)), "A=1");
    json_decref(config);
}

static void test_defaults(void **state)
{
    (void)state;
    json_t *config = accepted("entrypoint: sleep 1\n");
    assert_int_equal(jget_int(jget(config, "resources"), "slots_per_trial", -1), 1);
    assert_null(jget(config, "work_dir"));
    assert_null(jget(config, "preemption_timeout"));
    json_decref(config);
    config = accepted("entrypoint: sleep 1\nresources: {slots: 0}\ndescription: nap\n");
    assert_int_equal(jget_int(jget(config, "resources"), "slots_per_trial", -1), 0);
    assert_string_equal(jget_string(config, "name", ""), "nap");
    json_decref(config);
}

// A name is one line of at most 80 bytes, cut between characters.
static void test_long_names(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_puts(&text, "entrypoint: \"a\\n");
    for (int i = 0; i < 200; i++)
        buf_puts(&text, "\xc3\xa4");
    buf_puts(&text, "\"\n");
    json_t *config = accepted(buf_str(&text));
    const char *name = jget_string(config, "name", "");
    assert_int_equal(strlen(name), 80);
    assert_memory_equal(name, "a \xc3\xa4", 4);
    json_decref(config);
    buf_free(&text);
}

static void test_faults(void **state)
{
    (void)state;
    refused("[1]", "list of keys and values");
    refused("description: x\n", "entrypoint");
    refused("entrypoint: []\n", "entrypoint");
    refused("entrypoint: x\nresources: {slots: -1}\n", "config:2");
    refused("entrypoint: x\nresources: {slots_per_trial: 1}\n", "known keys: slots");
    refused("entrypoint: x\nentry: y\n", "entry");
    refused("entrypoint: x\nenvironment: {environment_variable: [A=1]}\n", "environment");
    refused("entrypoint: x\nresources: {priority: 100}\n", "priority");
    refused("entrypoint: x\nresources: {slots: 8193}\n",
            "resources.slots: request unfulfillable: 8193 slots; the limit is 8192");
    refused("entrypoint: x\nresources: {slots: 1025, is_single_node: true}\n",
            "resources.slots: request unfulfillable: 1025 slots on one machine");
}

static void test_document(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1 << 20);
    taskconf_document(&text);
    assert_non_null(strstr(buf_str(&text), "`resources.slots`"));
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_becomes_an_experiment),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
