// Explanations of the keys of the experiment file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/config_help.h"
#include "api/config/expconf.h"
#include "base/arena.h"

static char *explain(const char *key)
{
    struct buf out;
    struct error e = {0};
    buf_init(&out, 1 << 20);
    if (config_help_key(key, &out, &e))
        fail_msg("%s: %s", key, e.text);
    assert_int_equal(out.err, 0);
    return buf_take(&out);
}

static void check_text(const char *key, const char *part)
{
    char *text = explain(key);
    if (!strstr(text, part))
        fail_msg("no \"%s\" in:\n%s", part, text);
    free(text);
}

static void a_key_has_its_facts_and_an_example(void **state)
{
    (void)state;
    char *text = explain("resources.slots_per_trial");
    assert_string_equal(text, "resources.slots_per_trial\n"
                              "  slots that train one trial together, at most 8192\n"
                              "\n"
                              "  Value:    a whole number of at least 0\n"
                              "  Default:  1\n"
                              "\n"
                              "  Example:\n"
                              "    resources:\n"
                              "      slots_per_trial: 4\n");
    free(text);
    check_text("searcher.metric", "Default:  none; the key is required");
    check_text("searcher.max_trials", "searcher.max_trials (name: random");
    check_text("searcher.max_trials", "    searcher:\n      name: random\n      max_trials: 16\n");
    check_text("resources", "\n  Keys:\n  slots_per_trial");
    check_text("searcher", "\n  name: adaptive_asha");
    check_text("hyperparameters", "\n  type: log");
}

static void an_example_of_a_hyperparameter_fits_its_type(void **state)
{
    (void)state;
    check_text("hyperparameters.log", "      learning_rate:\n        type: log\n"
                                      "        minval: -4\n        maxval: -1\n");
    check_text("hyperparameters.double", "      dropout:\n        type: double\n"
                                         "        minval: 0.1\n        maxval: 0.5\n");
    check_text("hyperparameters.int", "      width:\n        type: int\n"
                                      "        minval: 16\n        maxval: 128\n");
    check_text("hyperparameters.const", "        type: const\n        val: 0.01\n");
    check_text("hyperparameters.categorical", "        type: categorical\n"
                                              "        vals: [relu, gelu]\n");
}

static void keys_are_found_by_a_part_of_their_path(void **state)
{
    (void)state;
    check_text("slots_per_trial", "resources.slots_per_trial\n");
    check_text("trainer.model.layers.kernel",
               "        layers:\n          - layer: conv2d\n            kernel: 3\n");
    check_text("trainer.model.layers[].kernel", "trainer.model.layers[].kernel (layer: conv2d");
    check_text("trainer.model.layers.0.kernel", "trainer.model.layers[].kernel (layer: conv2d");
    check_text("searcher.grid", "searcher, name: grid\n");
    check_text("conv2d", "trainer.model.layers[], layer: conv2d\n");
    check_text("hyperparameters.log", "hyperparameters.*, type: log\n");
    check_text("hyperparameters.lr.minval", "hyperparameters.*.minval (type: double)\n");
    check_text("searcher.pbt.length_per_round", "searcher.length_per_round (name: pbt)\n");
    check_text("adaptive_asha.max_rungs", "searcher.max_rungs (name: adaptive_asha)\n");
    check_text("trainer.model.layers.conv2d.kernel",
               "trainer.model.layers[].kernel (layer: conv2d");
    check_text("metric", "searcher.metric (name: single");
    check_text("host_path", "Several keys match \"host_path\":\n\n  checkpoint_storage.host_path");
}

static void check_unknown(const char *key, const char *expected)
{
    struct buf out;
    struct error e = {0};
    buf_init(&out, 1 << 20);
    assert_int_equal(config_help_key(key, &out, &e), ERR_INVALID);
    if (!strstr(e.text, expected))
        fail_msg("%s: %s", key, e.text);
    assert_int_equal(out.len, 0);
    buf_free(&out);
}

static void similar_keys_are_suggested(void **state)
{
    (void)state;
    check_unknown("slots_per_trail", "did you mean \"resources.slots_per_trial\"?");
    check_unknown("resources.slot", "did you mean \"resources.slots_per_trial\"?");
    check_unknown("resources.slot_per_trial", "did you mean \"resources.slots_per_trial\"?");
    check_unknown("trainer.optimiser.learning_rte",
                  "did you mean \"trainer.optimizer.learning_rate\"?");
    check_unknown("searcher.asha", "did you mean \"searcher.async_halving\"?");
    check_unknown("quaternion", "muster help config lists the keys");
    check_unknown("", "muster help config lists the keys");
}

static int examples;

static void check_example(const char *path, const char *yaml)
{
    struct yaml_doc doc;
    struct error e = {0};
    int err = yaml_parse(yaml, strlen(yaml), "example", &doc, &e);
    if (!err) {
        err = schema_check_part(expconf_fields, &doc, &e);
        yaml_doc_free(&doc);
    }
    if (err)
        fail_msg("%s: %s in\n%s", path, e.text, yaml);
    examples++;
}

static void every_example_is_valid(void **state)
{
    (void)state;
    config_help_examples(check_example);
    assert_in_range(examples, 200, 2000);
}

// An example of a searcher is complete: with a program to run, it can be submitted.
static void check_searcher(const char *path, const char *yaml)
{
    struct yaml_doc doc;
    struct error e = {0};
    bool kind = !strncmp(path, "searcher.", 9) && !strchr(path + 9, '.') &&
                strstr(yaml, "metric: validation_loss\n");
    if (!kind || !strcmp(path, "searcher.metric"))
        return;
    char *text = xasprintf("entrypoint: python3 train.py\n%s", yaml);
    if (expconf_parse(text, strlen(text), "example", &doc, &e))
        fail_msg("%s: %s in\n%s", path, e.text, yaml);
    yaml_doc_free(&doc);
    free(text);
    examples++;
}

static void every_example_of_a_searcher_is_complete(void **state)
{
    (void)state;
    examples = 0;
    config_help_examples(check_searcher);
    assert_int_equal(examples, 9);
    check_text("searcher.pbt", "      length_per_round: {batches: 500}\n");
    check_text("searcher.pbt", "  population_size           (required) number");
}

static void the_overview_is_a_page(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1 << 20);
    config_help_overview(&out);
    size_t lines = 0, width = 0;
    for (const char *at = buf_str(&out); *at; at += strcspn(at, "\n") + 1) {
        size_t len = strcspn(at, "\n");
        width = len > width ? len : width;
        lines++;
    }
    assert_in_range(lines, 60, 200);
    assert_in_range(width, 60, 100);
    assert_non_null(strstr(buf_str(&out), "\nresources: slots and other resources of a trial\n"));
    assert_non_null(strstr(buf_str(&out), "\n  min_slots "));
    assert_null(strstr(buf_str(&out), "| "));
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_its_facts_and_an_example),
        cmocka_unit_test(an_example_of_a_hyperparameter_fits_its_type),
        cmocka_unit_test(keys_are_found_by_a_part_of_their_path),
        cmocka_unit_test(similar_keys_are_suggested),
        cmocka_unit_test(every_example_is_valid),
        cmocka_unit_test(every_example_of_a_searcher_is_complete),
        cmocka_unit_test(the_overview_is_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
