// The experiment configuration: every fault is reported with its position, every default is set.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/config/expconf.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "tests/unit/api/expconf_checks.h"

#define SINGLE "searcher: {name: single, metric: validation_loss}\n"

static const char program[] = "entrypoint: python3 train.py\n"
                              "searcher: {name: single, metric: loss}\n";

// --- bad input -----------------------------------------------------------------------------------

static void texts_that_are_no_configuration(void **state)
{
    (void)state;
    refused("", "e.yaml");
    refused("name: [1\n", "e.yaml:2");
    refused("- a\n- b\n", "e.yaml:1:1: an experiment file must be a list of keys and values");
    refused("12", "an experiment file must be a list of keys and values");
    refused("name: a\nname: b\n", "e.yaml:2:1");
    refused("{}", "searcher: missing");
}

static void slips_in_keys_are_told_with_what_is_near(void **state)
{
    (void)state;
    refused("name: x\nentrypoint: y\nsearcher: {name: asha, metric: m}\n",
            "e.yaml:3:18: searcher.name: unknown word \"asha\"; did you mean \"async_halving\" or "
            "\"adaptive_asha\"?");
    refused("name: x\nsercher: {}\n", "e.yaml:2:1: sercher: unknown key; did you mean "
                                      "\"searcher\"?");
    refused("entrypoint: x\nsearcher: {name: singel, metric: loss}\n",
            "e.yaml:2:18: searcher.name: unknown word \"singel\"; did you mean \"single\"?");
    refused(
        SINGLE "entrypoint: x\nresources: {slot: 2}\n",
        "resources.slot: unknown key; did you mean \"slots_per_trial\"?"); // not the older "slots"
    refused("entrypoint: x\nsearcher: {name: single}\n", "searcher.metric: missing");
    refused("entrypoint: x\nsearcher: {metric: loss}\n", "searcher.name: missing");
    refused(SINGLE "trainer:\n  modle: {}\n", "e.yaml:3:3: trainer.modle: unknown key; did you "
                                              "mean \"model\"?");
    refused(SINGLE "resources: {slots_per_tiral: 2}\n" GPT,
            "e.yaml:2:13: resources.slots_per_tiral: unknown key; did you mean "
            "\"slots_per_trial\"?");
    refused(SINGLE GPT "  optimiser: {}\n",
            "e.yaml:9:3: trainer.optimiser: unknown key; did you mean \"optimizer\"?");
    refused("entrypoint: x\nsearcher: {name: random, metric: loss}\n",
            "searcher.max_trials: missing");
    refused("entrypoint: x\nsearcher: {name: single, metric: loss, max_trials: 3}\n",
            "searcher.max_trials: unknown key");
    refused("entrypoint: x\nsearcher: {name: adaptive_asha, metric: loss, max_trials: 4}\n",
            "searcher: adaptive_asha needs max_time");
    refused(
        "entrypoint: x\nsearcher: {name: adaptive_asha, metric: loss, max_trials: 4, max_time: 9, "
        "bracket_rungs: [2, 0]}\n",
        "searcher.bracket_rungs.1: a bracket has 1 to 100 rungs, not 0");
    refused("searcher: {name: async_halving, metric: validation_loss, num_rungs: 2, max_trials: 4, "
            "max_time: 2001}\n" GPT,
            "searcher.max_time: 2001 is more than trainer.steps (2000)");
    refused("searcher: {name: async_halving, metric: validation_loss, num_rungs: 2, max_trials: 4, "
            "max_length: {epochs: 3}}\n" GPT,
            "searcher.max_length: the native trainer counts steps");
    refused("searcher: {name: async_halving, metric: validation_loss, num_rungs: 2, max_trials: 4, "
            "max_length: {batches: 3000}}\n" GPT,
            "searcher.max_length: 3000 is more than trainer.steps (2000)");
    refused("searcher: {name: async_halving, metric: validation_loss, num_rungs: 2, max_trials: 4, "
            "max_time: 9, time_metric: epochs}\n" GPT,
            "searcher.time_metric: the native trainer does not report \"epochs\"");
    refused("entrypoint: x\nsearcher: {name: adaptive_simple, metric: loss}\n",
            "searcher.name: expected ");
}

static void wrong_types_and_ranges(void **state)
{
    (void)state;
    refused(SINGLE GPT "resources: {slots_per_trial: two}\n",
            "e.yaml:9:30: resources.slots_per_trial: expected ");
    refused(SINGLE GPT "resources: {slots_per_trial: 9000}\n",
            "resources.slots_per_trial: request unfulfillable");
    refused(SINGLE GPT "resources: {slots_per_trial: -1}\n",
            "resources.slots_per_trial: expected ");
    refused(SINGLE GPT "resources: {priority: 100}\n", "resources.priority: expected ");
    refused(SINGLE GPT "max_restarts: -1\n", "e.yaml:9:15: max_restarts: expected ");
    refused(SINGLE GPT "labels: [a, 1]\n", "labels.1: expected ");
    refused(SINGLE GPT "checkpoint_policy: some\n", "checkpoint_policy: expected ");
    refused(SINGLE GPT "debug: 1\n", "debug: expected ");
    refused("searcher: {name: single, metric: a}\nentrypoint: 5\n", "entrypoint: expected ");
    refused("searcher: {name: single, metric: a}\nentrypoint: [ls, 5]\n",
            "entrypoint.1: expected ");
    refused(SINGLE "trainer: 5\n", "e.yaml:2:10: trainer: expected ");
    refused("entrypoint: a\nsearcher: {name: single, metric: a}\nhyperparameters: [1]\n",
            "hyperparameters: expected ");
    refused("entrypoint: a\nsearcher: {name: single, metric: a}\n"
            "retention_policy: {log_retention_days: 32768}\n",
            "retention_policy.log_retention_days: expected ");
}

static void texts_that_are_too_long(void **state)
{
    (void)state;
    char *name = xcalloc(1, LIMIT_NAME + 2);
    memset(name, 'n', LIMIT_NAME);
    char *yaml = xasprintf("%sname: %s\nlabels: [%s]\n", program, name, name);
    json_decref(accepted(yaml));
    free(yaml);
    name[LIMIT_NAME] = 'n';
    yaml = xasprintf("%sname: %s\n", program, name);
    refused(yaml, "e.yaml:3:7: name: has 256 bytes; at most 255");
    free(yaml);
    yaml = xasprintf("%slabels: [a, %s]\n", program, name);
    refused(yaml, "labels.1: the label is too long");
    free(yaml);
    free(name);

    struct yaml_doc doc;
    struct error e;
    char *huge = xcalloc(1, LIMIT_CONFIG + 2);
    memset(huge, '#', LIMIT_CONFIG + 1);
    assert_int_equal(expconf_parse(huge, LIMIT_CONFIG + 1, "e.yaml", &doc, &e), ERR_TOO_LARGE);
    memset(huge, ' ', LIMIT_CONFIG);
    memcpy(huge, program, strlen(program));
    assert_int_equal(expconf_parse(huge, LIMIT_CONFIG, "e.yaml", &doc, &e), 0);
    yaml_doc_free(&doc);
    free(huge);
}

static void program_and_trainer_exclude_each_other(void **state)
{
    (void)state;
    refused(SINGLE, "e.yaml:1:1: there is nothing to run: add `entrypoint`");
    refused(SINGLE GPT "entrypoint: x\n",
            "e.yaml:9:13: entrypoint: cannot be combined with trainer");
    refused(SINGLE "entrypoint: ''\n", "entrypoint: is empty");
    refused(SINGLE "entrypoint: []\n", "entrypoint: is empty");
    refused(SINGLE GPT "launch: per_machine\n", "e.yaml:9:9: launch: the native trainer runs one");
    refused(SINGLE GPT "resources: {slots_per_trial: 0}\n",
            "resources.slots_per_trial: the native trainer needs at least one slot");
    refused(
        "searcher: {name: single, metric: validation_los}\n" GPT,
        "e.yaml:1:34: searcher.metric: the native trainer does not report \"validation_los\"; did "
        "you mean \"validation_loss\"?");
    refused("searcher: {name: single, metric: perplexity}\n" GPT,
            "it reports validation_loss, validation_accuracy");
    refused("searcher: {name: single, metric: ''}\nentrypoint: x\n", "searcher.metric: is empty");
}

static void checkpoint_storage_must_be_reachable(void **state)
{
    (void)state;
    refused(SINGLE GPT "checkpoint_storage: {type: directory}\n",
            "e.yaml:9:21: checkpoint_storage: type directory needs container_path");
    refused(SINGLE GPT "checkpoint_storage: {type: directory, container_path: a/b}\n",
            "container_path \"a/b\" is not an absolute path");
    refused(SINGLE GPT "checkpoint_storage: {type: shared_fs}\n", "type shared_fs needs host_path");
    refused(SINGLE GPT "checkpoint_storage: {type: shared_fs, host_path: /a, storage_path: ../b}\n",
            "is not below host_path");
    refused(SINGLE GPT "checkpoint_storage: {type: s3, bucket: b}\n",
            "checkpoint_storage.type: the native trainer writes to folders");
    refused(SINGLE GPT "checkpoint_storage: {type: hdfs}\n", "expected ");
    char *yaml = xasprintf("%scheckpoint_storage: {type: s3, bucket: b}\n", program);
    json_decref(accepted(yaml));
    free(yaml);
}

static void searchers_need_what_they_divide(void **state)
{
    (void)state;
    refused("entrypoint: x\nsearcher: {name: adaptive_asha, metric: a, max_trials: 4}\n",
            "searcher: adaptive_asha needs max_time");
    refused("entrypoint: x\nsearcher: {name: async_halving, metric: a, max_trials: 4, num_rungs: 2,"
            " divisor: 1, max_time: 9}\n",
            "searcher.divisor: expected ");
}

// --- hyperparameters -----------------------------------------------------------------------------

#define RANDOM "entrypoint: x\nsearcher: {name: random, metric: a, max_trials: 3}\n"
#define GRID   "entrypoint: x\nsearcher: {name: grid, metric: a}\n"

static void bad_hyperparameters(void **state)
{
    (void)state;
    refused(RANDOM "hyperparameters:\n  lr: {type: duoble, minval: 0, maxval: 1}\n",
            "e.yaml:4:7: hyperparameters.lr: unknown type \"duoble\"; did you mean \"double\"?");
    refused(RANDOM "hyperparameters: {a: {b: {type: gauss}}}\n",
            "hyperparameters.a.b: unknown type \"gauss\"; it is one of const, int");
    refused(RANDOM "hyperparameters:\n  lr: {type: int, minvl: 0, maxval: 1}\n",
            "e.yaml:4:7: hyperparameters.lr: minvl: unknown key; did you mean \"minval\"?");
    refused(RANDOM "hyperparameters: {n: {type: int, minval: 0.5, maxval: 1}}\n",
            "hyperparameters.n: minval: expected ");
    refused(RANDOM "hyperparameters: {n: {type: int, minval: 3, maxval: 2}}\n",
            "hyperparameters.n: minval is greater than maxval");
    refused(RANDOM "hyperparameters: {n: {type: log, minval: 2, maxval: 3, base: 1e200}}\n",
            "hyperparameters.n: base to the power of minval or maxval is not a finite number");
    refused(RANDOM "hyperparameters: {n: {type: categorical, vals: []}}\n",
            "hyperparameters.n: vals is empty");
    refused(RANDOM "hyperparameters: {n: {type: categorical}}\n",
            "hyperparameters.n: vals: missing");
    refused(RANDOM "hyperparameters: {n: {type: const}}\n",
            "hyperparameters.n: val (its value) is missing");
    refused(GRID "hyperparameters: {n: {type: double, minval: 0, maxval: 1}}\n",
            "hyperparameters.n: searcher grid needs count");
    refused(SINGLE "entrypoint: x\nhyperparameters:\n  n: {type: int, minval: 2, maxval: 1}\n",
            "e.yaml:4:6: hyperparameters.n: minval is greater than maxval");
    json_decref(accepted(
        "entrypoint: x\nhyperparameters: {n: {type: int, minval: 0, maxval: 1}}\n" SINGLE));
}

static void hyperparameters_come_out_typed(void **state)
{
    (void)state;
    json_t *config = accepted(RANDOM "hyperparameters:\n"
                                     "  lr: 0.1\n"
                                     "  sizes: [1, 2]\n"
                                     "  nothing: null\n"
                                     "  net: {width: {type: int, minval: 1, maxval: 9}, name: a}\n"
                                     "  decay: {type: log, minval: -4, maxval: -1}\n"
                                     "  fixed: {type: const, val: {a: 1}}\n");
    char *text = json_text(jget(config, "hyperparameters"));
    assert_string_equal(
        text, "{\"lr\":{\"type\":\"const\",\"val\":0.1},"
              "\"sizes\":{\"type\":\"const\",\"val\":[1,2]},"
              "\"nothing\":{\"type\":\"const\",\"val\":null},"
              "\"net\":{\"width\":{\"type\":\"int\",\"minval\":1,\"maxval\":9,\"count\":null},"
              "\"name\":{\"type\":\"const\",\"val\":\"a\"}},"
              "\"decay\":{\"type\":\"log\",\"minval\":-4,\"maxval\":-1,\"base\":10,\"count\":null},"
              "\"fixed\":{\"type\":\"const\",\"val\":{\"a\":1}}}");
    free(text);
    json_decref(config);
}

static void constants_are_given_as_plain_values(void **state)
{
    json_t *hparams;
    struct error e;
    (void)state;
    json_t *config = accepted(SINGLE "entrypoint: x\n"
                                     "hyperparameters: {lr: 0.1, net: {width: 3}, none: null}\n");
    assert_int_equal(expconf_const_hparams(config, &hparams, &e), 0);
    char *text = json_text(hparams);
    assert_string_equal(text, "{\"lr\":0.1,\"net\":{\"width\":3},\"none\":null}");
    free(text);
    json_decref(hparams);
    json_decref(config);

    config = accepted(RANDOM "hyperparameters: {a: {b: {type: int, minval: 1, maxval: 2}}}\n");
    assert_int_equal(expconf_const_hparams(config, &hparams, &e), ERR_INVALID);
    assert_null(hparams);
    assert_string_equal(e.text,
                        "hyperparameters.a.b: is a range, but a single value is needed here, "
                        "for example by --set hyperparameters.a.b=VALUE");
    json_decref(config);
}

// --- defaults ------------------------------------------------------------------------------------

static void defaults_are_filled_in(void **state)
{
    (void)state;
    json_t *config = accepted(program);
    assert_string_equal(jget_string(config, "name", ""), "unnamed experiment");
    assert_string_equal(jget_string(config, "launch", ""), "per_machine");
    assert_int_equal(jget_int(config, "max_restarts", -1), 5);
    assert_int_equal(json_integer_value(jget_path(config, "resources.slots_per_trial")), 1);
    assert_true(json_is_null(json_object_get(jget(config, "resources"), "priority")));
    assert_true(json_is_true(jget_path(config, "searcher.smaller_is_better")));
    assert_int_equal(jget_int(config, "scheduling_unit", 0), 100);
    assert_string_equal(jget_string(config, "checkpoint_policy", ""), "best");
    assert_true(json_is_array(jget(config, "labels")));
    assert_null(jget(config, "trainer"));
    json_decref(config);

    config = accepted(SINGLE GPT);
    const json_t *trainer = jget(config, "trainer");
    assert_string_equal(jget_string(config, "launch", ""), "per_slot");
    assert_int_equal(json_integer_value(jget_path(trainer, "model.vocabulary")), 256);
    assert_string_equal(json_string_value(jget_path(trainer, "schedule.name")), "constant");
    assert_int_equal(json_integer_value(jget_path(trainer, "schedule.warmup_steps")), 0);
    assert_string_equal(jget_string(trainer, "reduction", ""), "exact");
    assert_true(json_number_value(jget_path(trainer, "optimizer.beta2")) == 0.999);
    assert_true(json_number_value(jget_path(trainer, "data.validation_fraction")) == 0.1);
    assert_int_equal(jget_int(trainer, "report_every", 0), 10);
    json_decref(config);
}

static void elastic_trials_have_a_least_number_of_slots(void **state)
{
    (void)state;
    json_t *config = accepted("resources: {slots_per_trial: 8, min_slots: 2}\nentrypoint: x\n"
                              "searcher: {name: single, metric: loss}\n");
    assert_int_equal(json_integer_value(jget_path(config, "resources.min_slots")), 2);
    json_decref(config);
    refused("entrypoint: x\nsearcher: {name: single, metric: loss}\n"
            "resources: {slots_per_trial: 2, min_slots: 3}\n",
            "e.yaml:3:44: resources.min_slots: 3 is more than slots_per_trial (2)");
    refused(SINGLE "entrypoint: x\nresources: {slots_per_trial: 8193}\n",
            "resources.slots_per_trial: request unfulfillable: 8193 slots; the limit is 8192");
    refused(SINGLE "entrypoint: x\nresources: {slots_per_trial: 1025, is_single_node: true}\n",
            "resources.slots_per_trial: request unfulfillable: 1025 slots on one machine");
    json_decref(accepted(SINGLE "entrypoint: x\nresources: {slots_per_trial: 8192}\n"));
    json_decref(accepted(
        SINGLE "entrypoint: x\nresources: {slots_per_trial: 1024, is_single_node: true}\n"));
    json_decref(accepted(SINGLE "entrypoint: x\nresources: {slots_per_trial: 2000, min_slots: 1, "
                                "is_single_node: true}\n"));
    refused("entrypoint: x\nsearcher: {name: single, metric: loss}\nresources: {min_slots: 0}\n",
            "resources.min_slots: ");
}

static void every_key_of_older_files_is_taken(void **state)
{
    static const char old[] =
        "name: n\ndescription: d\nlabels: [a]\ndata: {url: x}\nworkspace: w\nproject: p\n"
        "debug: true\nentrypoint: [python3, -m, x]\nhyperparameters: {global_batch_size: 64}\n"
        "searcher: {name: single, metric: m, smaller_is_better: false, max_length: {batches: 9},\n"
        "  source_trial_id: null, source_checkpoint_uuid: null}\n"
        "resources: {slots_per_trial: 2, priority: 42, weight: 2.5, resource_pool: p, max_slots: "
        "4,\n"
        "  is_single_node: true, shm_size: 4 GB, devices: [], native_parallel: false}\n"
        "max_restarts: 0\ncheckpoint_policy: all\n"
        "checkpoint_storage: {save_experiment_best: 1, save_trial_best: 2, save_trial_latest: 3}\n"
        "min_validation_period: {epochs: 1}\nmin_checkpoint_period: {batches: 5}\n"
        "scheduling_unit: 10\nrecords_per_epoch: 100\nperform_initial_validation: true\n"
        "reproducibility: {experiment_seed: 7}\n"
        "environment: {image: {cpu: a, cuda: b}, environment_variables: [A=1], proxy_ports: [],\n"
        "  ports: {a: 1}, registry_auth: {username: u}, pod_spec: {spec: {}}, add_capabilities: "
        "[X],"
        "\n  drop_capabilities: [], force_pull_image: true}\n"
        "log_policies: [{name: n, pattern: 'x.*', action: cancel_retries},\n"
        "  {pattern: y, action: {type: exclude_node}}]\n"
        "profiling: {enabled: true, begin_on_batch: 1, end_after_batch: 2, sync_timings: false}\n"
        "preemption_timeout: 60\nretention_policy: {log_retention_days: -1}\n"
        "bind_mounts: [{host_path: /a, container_path: /b}]\noptimizations: {mixed_precision: O0}\n"
        "slurm: {slots_per_node: 1}\npbs: {}\nintegrations: {webhooks: {}}\nsecurity: {}\n"
        "data_layer: {type: shared_fs}\ninternal: null\ntensorboard_storage: null\n";
    (void)state;
    json_t *config = accepted(old);
    assert_string_equal(json_string_value(jget_path(config, "optimizations.mixed_precision")),
                        "O0");
    assert_int_equal(json_integer_value(jget_path(config, "slurm.slots_per_node")), 1);
    assert_int_equal(json_array_size(jget(config, "log_policies")), 2);
    assert_int_equal(json_integer_value(jget_path(config, "searcher.max_length.batches")), 9);
    json_decref(config);
    json_decref(accepted(
        "entrypoint: x\nsearcher: {name: adaptive_asha, metric: a, max_trials: 4, mode: aggressive,"
        " max_time: 100, time_metric: batches, bracket_rungs: [1, 2], stop_once: true}\n"));
    json_decref(accepted("entrypoint: x\nsearcher: {name: async_halving, metric: a, max_trials: 4,"
                         " num_rungs: 3, max_length: 100}\n"));
    json_decref(accepted("entrypoint: x\nsearcher: {name: grid, metric: a}\n"
                         "hyperparameters: {x: {type: int, minval: 1, maxval: 3, count: 3}}\n"));
}

static void json_is_yaml(void **state)
{
    (void)state;
    json_t *first = accepted(SINGLE GPT);
    char *text = json_text(first);
    json_t *second = accepted(text);
    assert_true(json_equal(first, second));
    json_decref(first);
    json_decref(second);
    free(text);
}

// --- the trainer's own checks --------------------------------------------------------------------

struct config_change {
    const char *set; // key.path=value
    const char *expected;
};

static void check_changes(const char *yaml, const struct config_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct yaml_doc doc;
        struct error e;
        assert_int_equal(yaml_parse(yaml, strlen(yaml), "e.yaml", &doc, &e), 0);
        assert_int_equal(expconf_set(&doc, changes[i].set, &e), 0);
        int rc = expconf_finish(&doc, &e);
        if (!changes[i].expected && rc)
            fail_msg("%s: refused: %s", changes[i].set, e.text);
        if (changes[i].expected && !rc)
            fail_msg("%s: not refused", changes[i].set);
        if (changes[i].expected)
            assert_contains(e.text, changes[i].expected);
        yaml_doc_free(&doc);
    }
}

static void checks_between_fields_of_a_gpt(void **state)
{
    static const struct config_change changes[] = {
        {"trainer.micro_batch_size=5",
         "e.yaml:6:21: trainer.micro_batch_size: 5 does not divide global_batch_size 12"},
        {"trainer.global_batch_size=196608", NULL},
        {"trainer.global_batch_size=196611", "makes 65537 micro-batches per step; at most 65536"},
        {"trainer.micro_batch_size=0", NULL},
        {"trainer.micro_batch_size=-1", "trainer.micro_batch_size: expected "},
        {"trainer.micro_batch_size=1000001", "trainer.micro_batch_size: expected "},
        {"trainer.recompute=blocks", NULL},
        {"trainer.recompute=layers", "trainer.recompute: expected "},
        {"trainer.model.heads=3", "e.yaml:3:42: trainer.model.heads: 3 does not divide width 128"},
        {"trainer.model.heads=8", NULL},
        {"trainer.model.family=mlp", "trainer.model.layers: unknown key"},
        {"trainer.model.dropout=1", "trainer.model.dropout: expected "},
        {"trainer.data.validation_fraction=0",
         "trainer.data.validation_fraction: must be greater than 0 and less than 1"},
        {"trainer.data.validation_fraction=1",
         "trainer.data.validation_fraction: must be greater than 0 and less than 1"},
        {"trainer.data.validation_fraction=0.5", NULL},
        {"trainer.data={format: bytes, path: a, validation_path: b, validation_fraction: 0}", NULL},
        {"trainer.data={format: idx, images: a, labels: b}",
         "trainer.data.format: model gpt learns from tokens, not from idx"},
        {"trainer.data={format: synthetic, samples: 100, vocabulary: 256}", NULL},
        {"trainer.data={format: synthetic, samples: 100, vocabulary: 65537}",
         "trainer.data.vocabulary: expected "},
        {"trainer.data={format: synthetic, samples: 100, vocabulary: 256, classes: 2}",
         "trainer.data.classes: cannot be combined with vocabulary"},
        {"trainer.data={format: synthetic, samples: 100, shape: [8], classes: 2}",
         "trainer.data.format: model gpt learns from tokens, not from synthetic of this shape"},
        {"trainer.data={format: synthetic, vocabulary: 256}", "trainer.data.samples: missing"},
        {"trainer.steps=0", "trainer.steps: expected "},
        {"trainer.steps=1.5", "trainer.steps: expected "},
        {"trainer.schedule={name: constant, warmup_steps: 2001}",
         "trainer.schedule.warmup_steps: warm-up is longer than training (2000 steps)"},
        {"trainer.schedule={name: constant, warmup_steps: 2000}", NULL},
        {"trainer.schedule={name: warmup_cosine, min_learning_rate: 0.01}",
         "trainer.schedule.min_learning_rate: is greater than learning_rate 0.001"},
        {"trainer.schedule={name: cosinus}", "did you mean \"cosine\"?"},
        {"trainer.schedule={name: step}", "trainer.schedule.milestones: missing"},
        {"trainer.schedule={name: step, milestones: [10, 20]}", NULL},
        {"trainer.schedule={name: step, milestones: [20, 20]}",
         "trainer.schedule.milestones: 20 does not come after 20; the steps must increase"},
        {"trainer.schedule={name: polynomial, power: 0}", "trainer.schedule.power: expected "},
        {"trainer.schedule={name: polynomial, min_learning_rate: 0.01}",
         "trainer.schedule.min_learning_rate: is greater than learning_rate 0.001"},
        {"trainer.optimizer.name=lambda", "did you mean \"lamb\"?"},
        {"trainer.optimizer={name: lamb, learning_rate: 0.1, trust_coefficient: 1}",
         "trainer.optimizer.trust_coefficient: unknown key"},
        {"trainer.optimizer={name: lars, learning_rate: 0.1, base_batch_size: 256}", NULL},
        {"trainer.optimizer={name: sgd, learning_rate: 0.1, beta1: 0.9}",
         "trainer.optimizer.beta1: unknown key"},
        {"trainer.optimizer={name: sgd}", "trainer.optimizer.learning_rate: missing"},
        {"trainer.optimizer=", "trainer.optimizer: missing"},
        {"trainer.reduction=exakt", "did you mean \"exact\"?"},
        {"trainer.clip_norm=-1", "trainer.clip_norm: expected "},
        {"trainer.report_every=0", "trainer.report_every: expected "},
    };
    (void)state;
    check_changes(SINGLE GPT, changes, sizeof(changes) / sizeof(*changes));
}

static void checks_of_a_list_of_layers(void **state)
{
    static const char list[] =
        SINGLE "trainer:\n"
               "  model:\n"
               "    layers:\n"
               "      - {layer: conv2d, name: first, out: 8, kernel: 3, padding: 1}\n"
               "      - layer: residual\n"
               "        name: block\n"
               "        layers: [{layer: batch_norm, sync: true}, {layer: relu}]\n"
               "        shortcut: [{layer: conv2d, out: 8, kernel: 1}]\n"
               "      - {layer: global_pool}\n"
               "      - {layer: linear, out: 10}\n"
               "  data: {format: idx, images: a, labels: b}\n"
               "  global_batch_size: 64\n  micro_batch_size: 16\n"
               "  steps: 10\n"
               "  optimizer: {name: momentum, learning_rate: 0.1}\n";
    static const struct config_change changes[] = {
        {"trainer.model.family=layers", NULL},
        {"trainer.model.classes=10", NULL},
        {"trainer.model.layers=", "trainer.model.layers: missing key"},
        {"trainer.model.layers=[]", "trainer.model.layers: is empty"},
        {"trainer.model.layers=[5]", "trainer.model.layers.0: expected a map, found 5"},
        {"trainer.model.layers=[{out: 5}]", "trainer.model.layers.0.layer: missing key; write one"},
        {"trainer.model.layers.0.layer=conv3d", "did you mean \"conv2d\"?"},
        {"trainer.model.layers.0.out=65536", NULL},
        {"trainer.model.layers.0.out=65537", "trainer.model.layers.0.out: expected "},
        {"trainer.model.layers.0.kernel=1025", "trainer.model.layers.0.kernel: expected "},
        {"trainer.model.layers.0.padding=3",
         "trainer.model.layers.0.padding: conv2d takes at most 2 with a kernel of 3"},
        {"trainer.model.layers.0.groups=4", NULL},
        {"trainer.model.layers.0.groups=3",
         "trainer.model.layers.0: groups (3) does not divide out (8)"},
        {"trainer.model.layers.2={layer: max_pool, kernel: 3, padding: 1}", NULL},
        {"trainer.model.layers.2={layer: avg_pool, kernel: 3, padding: 2}",
         "trainer.model.layers.2.padding: avg_pool takes at most 1 with a kernel of 3"},
        {"trainer.model.layers.1.layers=[]", "trainer.model.layers.1.layers: is empty"},
        {"trainer.model.layers.1.layers.0.synk=1",
         "e.yaml:8:18: trainer.model.layers.1.layers.0.synk: unknown key with layer: batch_norm; "
         "did you mean \"sync\"?"},
        {"trainer.model.layers.1.layers.0.momentum=0",
         "trainer.model.layers.1.layers.0.momentum: expected "},
        {"trainer.model.layers.1.layers.0={layer: dropout}",
         "trainer.model.layers.1.layers.0.rate: missing key"},
        {"trainer.model.layers.1.name=first", "trainer.model.layers.1.name: layer 0 of this list"},
        {"trainer.model.layers.1.name=a.b", "trainer.model.layers.1.name: a layer's name is a"},
        {"trainer.model.layers.1.name='7'", "trainer.model.layers.1.name: a layer's name is a"},
        {"trainer.model.layers.1.name=shortcut", "trainer.model.layers.1.name: a layer's name is"},
        // The longest name in this block is NAME.shortcut.0, with 79 bytes.
        {"trainer.model.layers.1.layers.0.name="
         "a23456789012345678901234567890123456789012345678901234"
         "5678901234567890123",
         NULL},
        {"trainer.model.layers.1.layers.0.name="
         "a23456789012345678901234567890123456789012345678901234"
         "56789012345678901234",
         "trainer.model.layers.1.layers.0.name: with the names of the enclosing blocks it is "
         "longer than 79 bytes"},
        {"trainer.model.layers.0={layer: embedding, width: 8}",
         "trainer.data.format: model layers learns from tokens, not from idx"},
        {"trainer.data={format: bytes, path: x}",
         "trainer.data.format: model layers learns from images and features, not from bytes"},
    };
    (void)state;
    check_changes(list, changes, sizeof(changes) / sizeof(*changes));
}

static void checks_of_a_list_of_layers_of_tokens(void **state)
{
    static const char text[] =
        SINGLE "trainer:\n"
               "  model: {context: 8, layers: [{layer: embedding, width: 8},\n"
               "    {layer: linear, out: 24}, {layer: attention, heads: 2, rotary: true},\n"
               "    {layer: linear, out: 256}]}\n"
               "  data: {format: bytes, path: x}\n"
               "  global_batch_size: 64\n  micro_batch_size: 16\n"
               "  steps: 10\n"
               "  optimizer: {name: momentum, learning_rate: 0.1}\n";
    static const struct config_change changes[] = {
        {"trainer.model.context=",
         "trainer.model.context: missing key (number of tokens that the model sees)"},
        {"trainer.loss.name=mse", "trainer.loss.name: mse needs data with values to predict"},
        {"trainer.model.layers.2.rotary=500", NULL},
        {"trainer.model.layers.2.rotary=false", NULL},
        {"trainer.model.layers.2.rotary=0", "trainer.model.layers.2.rotary: expected "},
        {"trainer.model.layers.2.rotary=x", "trainer.model.layers.2.rotary: expected "},
        {"trainer.model.layers.2.heads=1025", "trainer.model.layers.2.heads: expected "},
    };
    (void)state;
    check_changes(text, changes, sizeof(changes) / sizeof(*changes));
}

static void checks_between_fields_of_an_mlp(void **state)
{
    static const char mlp[] = SINGLE "trainer:\n"
                                     "  model: {family: mlp, hidden: [512, 512]}\n"
                                     "  data: {format: idx, images: a, labels: b}\n"
                                     "  global_batch_size: 64\n  micro_batch_size: 16\n"
                                     "  steps: 10\n"
                                     "  optimizer: {name: momentum, learning_rate: 0.1}\n";
    static const struct config_change changes[] = {
        {"trainer.model.hidden=[]", "trainer.model.hidden: is empty"},
        {"trainer.model.hidden.1=0", "trainer.model.hidden.1: expected "},
        {"trainer.model.hidden.1=65537", "trainer.model.hidden.1: expected "},
        {"trainer.model.hidden.2=65536", NULL},
        {"trainer.model.hidden=512", "trainer.model.hidden: expected "},
        {"trainer.model.activation=relo", "did you mean \"relu\"?"},
        {"trainer.model.activation=silu", NULL},
        {"trainer.model.family=", "trainer.model.hidden: unknown key with family: layers"},
        {"trainer.loss={name: cross_entropy, label_smoothing: 0.1}", NULL},
        {"trainer.loss={name: mse}", NULL}, // the trainer checks the data itself
        {"trainer.loss={name: cross_entropy, label_smoothing: 1}",
         "trainer.loss.label_smoothing: expected "},
        {"trainer.loss={name: mse, label_smoothing: 0.1}",
         "trainer.loss.label_smoothing: unknown key"},
        {"trainer.loss={name: mae}",
         "trainer.loss.name: unknown word \"mae\"; did you mean \"mse\"?"},
        {"trainer.model={family: resnet, depth: 20}", NULL},
        {"trainer.model={family: resnet, depth: 50, sync: true, zero_init: true}", NULL},
        {"trainer.model={family: resnet, depth: 21}",
         "trainer.model.depth: expected 20, 32 or 56 (images of 32x32), 18, 34 or 50, found 21"},
        {"trainer.model={family: lenet}", NULL},
        {"trainer.model={family: lenet, hidden: [1]}", "trainer.model.hidden: unknown key"},
        {"trainer.model={family: lenet, classes: 1}", "trainer.model.classes: expected "},
        {"trainer.data={format: bytes, path: x}",
         "trainer.data.format: model mlp learns from images and features, not from bytes"},
        {"trainer.data.validation_images=c",
         "trainer.data.validation_images: is incomplete; validation_labels is needed too"},
        {"trainer.data.validation_labels=c", "trainer.data.validation_labels: is incomplete"},
        {"trainer.data={format: idx, images: a, labels: b, validation_images: c, "
         "validation_labels: d, validation_count: 5}",
         "trainer.data.validation_count: applies to data without validation files only"},
        {"trainer.data={format: idx, images: a, labels: b, validation_images: c, "
         "validation_labels: d}",
         NULL},
        {"trainer.data.validation_count=1000", NULL},
        {"trainer.data.deviation=0", "trainer.data.deviation: expected "},
        {"trainer.optimizer.nesterov=true", NULL},
        {"trainer.optimizer.momentum=1", "trainer.optimizer.momentum: expected "},
    };
    (void)state;
    check_changes(mlp, changes, sizeof(changes) / sizeof(*changes));
}

static void checks_between_keys_of_data(void **state)
{
    static const char mlp[] = SINGLE "trainer:\n"
                                     "  model: {family: mlp, hidden: [8]}\n"
                                     "  data: {format: idx, images: a, labels: b}\n"
                                     "  global_batch_size: 64\n  micro_batch_size: 16\n"
                                     "  steps: 10\n"
                                     "  optimizer: {name: momentum, learning_rate: 0.1}\n";
    static const struct config_change changes[] = {
        {"trainer.data={format: synthetic, samples: 9, shape: [8], classes: 2}", NULL},
        {"trainer.data={format: synthetic, samples: 9, shape: [8, 8, 3], classes: 2}", NULL},
        {"trainer.data={format: synthetic, samples: 9, shape: [8]}",
         "trainer.data.classes: missing key"},
        {"trainer.data={format: synthetic, samples: 9, shape: [], classes: 2}",
         "trainer.data.shape: has 0 numbers"},
        {"trainer.data={format: synthetic, samples: 9, shape: [1, 2, 3, 4], classes: 2}",
         "trainer.data.shape: has 4 numbers"},
        {"trainer.data={format: synthetic, samples: 9, shape: [0], classes: 2}",
         "trainer.data.shape.0: expected "},
        {"trainer.data={format: synthetic, samples: 9, classes: 2}",
         "trainer.data.vocabulary: give one of vocabulary and shape, not both"},
        {"trainer.data={format: synthetic, samples: 9, vocabulary: 2}",
         "trainer.data.format: model mlp learns from images and features, not from synthetic with "
         "a vocabulary"},
        {"trainer.data={format: csv, path: a, label: b}", NULL},
        {"trainer.data={format: csv, path: a, targets: [b, c], features: [d], header: false}",
         NULL},
        {"trainer.data={format: csv, path: a}",
         "trainer.data.label: give one of label and targets, not both"},
        {"trainer.data={format: csv, path: a, label: b, targets: [c]}",
         "trainer.data.label: give one of label and targets, not both"},
        {"trainer.data={format: csv, path: a, label: 5}", "put it in quotes"},
        {"trainer.data={format: csv, path: a, label: b, delimiter: ab}",
         "trainer.data.delimiter: must be one character"},
        {"trainer.data={format: csv, path: a, label: b, validation_path: c, validation_count: 1}",
         "trainer.data.validation_count: applies to data without validation files only"},
        {"trainer.data={format: csv, path: a, label: b, augment: {flip: true}}",
         "trainer.data.augment: unknown key"},
        {"trainer.data={format: npy, inputs: a, labels: b, mean: 0.5, deviation: [1, 2, 3]}", NULL},
        {"trainer.data={format: npy, inputs: a, labels: b, deviation: [1, 0]}",
         "trainer.data.deviation.1: expected a number from 1e-06 to 1000000"},
        {"trainer.data={format: npy, inputs: a, values: b, validation_inputs: c, "
         "validation_values: d}",
         NULL},
        {"trainer.data={format: npy, inputs: a, values: b, validation_inputs: c, "
         "validation_labels: d}",
         "trainer.data.validation_labels: cannot be combined with values"},
        {"trainer.data={format: npy, inputs: a, labels: b, validation_values: d}",
         "trainer.data.validation_values: cannot be combined with labels"},
        {"trainer.data={format: npy, inputs: a, labels: b, validation_labels: d}",
         "trainer.data.validation_labels: is incomplete; validation_inputs is needed too"},
        {"trainer.data={format: images, path: a, augment: {flip: true, crop: 4, cutout: 8}}", NULL},
        {"trainer.data={format: images, path: a, augment: {crop: -1}}",
         "trainer.data.augment.crop: expected "},
        {"trainer.data={format: images, path: a, augment: {flop: true}}",
         "trainer.data.augment.flop: unknown key; did you mean \"flip\"?"},
        {"trainer.data={format: tokens, path: a}", "not from tokens"},
    };
    (void)state;
    check_changes(mlp, changes, sizeof(changes) / sizeof(*changes));
    static const struct config_change of_tokens[] = {
        {"trainer.data={format: tokens, path: train_*.bin, validation_path: [a, b]}", NULL},
        {"trainer.data={format: tokens, path: [a, 5]}", "trainer.data.path.1: expected text"},
        {"trainer.data={format: tokens, path: a, type: uint8}", "trainer.data.type: "},
        {"trainer.data={format: tokens, path: a, validation_fraction: 1}",
         "trainer.data.validation_fraction: must be greater than 0 and less than 1"},
        {"trainer.data={format: tokens}", "trainer.data.path: missing"},
    };
    check_changes(SINGLE GPT, of_tokens, sizeof(of_tokens) / sizeof(*of_tokens));
}

// --- "${name}" -----------------------------------------------------------------------------------

static void names_of_hyperparameters_in_the_trainer(void **state)
{
    static const struct config_change changes[] = {
        {"trainer.steps=${stesp}", "trainer.steps: there is no hyperparameter \"stesp\"; did you "
                                   "mean \"steps\"?"},
        {"trainer.steps=${epochs}", "trainer.steps: there is no hyperparameter \"epochs\"; add it"},
        {"trainer.steps=${}", "trainer.steps: there is no hyperparameter \"\""},
        {"trainer.steps=${steps}", NULL},
        {"trainer.steps=${word}", "trainer.steps: expected "},
        {"trainer.steps=${none}", "trainer.steps: missing"},
        {"trainer.steps=1${steps}", "a hyperparameter replaces a whole value"},
        {"trainer.steps=${steps}0", "a hyperparameter replaces a whole value"},
        {"trainer.steps=${net}", "\"${net}\" is a group of hyperparameters"},
        {"trainer.model.width=${net.width}", NULL},
        {"trainer.model.width=${net.height}", "there is no hyperparameter \"net.height\""},
        {"trainer.model.width=${net.width.val}", "is a group of hyperparameters"},
        {"trainer.model.heads=${net.width}", "trainer.model.heads: 96 does not divide width 128"},
        {"trainer.optimizer.name=${optimizer}", NULL},
        {"trainer.data.path=${word}", NULL},
    };
    (void)state;
    check_changes(SINGLE "hyperparameters: {steps: 10, word: corpus, net: {width: 96},\n"
                         "  optimizer: adamw, none: null}\n" GPT,
                  changes, sizeof(changes) / sizeof(*changes));
}

static void a_section_with_names_stays_as_written(void **state)
{
    (void)state;
    json_t *config = accepted(SINGLE "hyperparameters: {steps: 2000}\n"
                                     "trainer:\n"
                                     "  model: {family: lenet}\n"
                                     "  data: {format: idx, images: a, labels: b}\n"
                                     "  global_batch_size: 4\n  micro_batch_size: 4\n"
                                     "  steps: ${steps}\n"
                                     "  optimizer: {name: sgd, learning_rate: 0.1}\n");
    const json_t *trainer = jget(config, "trainer");
    assert_string_equal(jget_string(trainer, "steps", ""), "${steps}");
    assert_null(jget(trainer, "schedule"));
    json_decref(config);
}

static void ranges_are_checked_by_their_first_value(void **state)
{
    static const char search[] =
        "searcher: {name: random, metric: validation_loss, max_trials: 9}\n"
        "hyperparameters:\n"
        "  lr: {type: log, minval: -3, maxval: -1}\n"
        "  heads: {type: categorical, vals: [3, 4]}\n"
        "  share: {type: double, minval: 0.1, maxval: 0.5}\n" GPT;
    static const struct config_change changes[] = {
        {"trainer.optimizer.learning_rate=${lr}", NULL},
        {"trainer.model.heads=${heads}",
         NULL}, // 3 does not divide the width, but a trial may draw 4
        {"trainer.model.heads=${share}", "trainer.model.heads: expected "},
        {"trainer.model.dropout=${heads}", "trainer.model.dropout: expected "},
    };
    (void)state;
    check_changes(search, changes, sizeof(changes) / sizeof(*changes));
}

// --- one trial -----------------------------------------------------------------------------------

static json_t *search_config(void)
{
    return accepted("searcher: {name: random, metric: validation_loss, max_trials: 9}\n"
                    "hyperparameters:\n"
                    "  lr: {type: log, minval: -3, maxval: -1}\n"
                    "  net: {heads: {type: categorical, vals: [3, 4]}, hidden: 64}\n"
                    "  optimizer: {type: categorical, vals: [adamw, sgd]}\n"
                    "trainer:\n"
                    "  model: {family: gpt, layers: 4, heads: '${net.heads}', width: 128, "
                    "context: '${net.hidden}'}\n"
                    "  data: {format: bytes, path: corpus.txt}\n"
                    "  global_batch_size: 12\n  micro_batch_size: 3\n  steps: 2000\n"
                    "  optimizer: {name: '${optimizer}', learning_rate: '${lr}'}\n");
}

static void check_trial(const char *hparams, const char *expected)
{
    struct error e;
    json_t *config = search_config(), *trainer;
    json_t *values = json_loads(hparams, 0, NULL);
    int rc = expconf_resolve_trainer(config, values, &trainer, &e);
    if (expected) {
        assert_int_equal(rc, ERR_INVALID);
        assert_null(trainer);
        assert_contains(e.text, expected);
    } else {
        if (rc)
            fail_msg("refused: %s", e.text);
        assert_int_equal(json_integer_value(jget_path(trainer, "model.heads")), 4);
        assert_int_equal(json_integer_value(jget_path(trainer, "model.context")), 64);
        assert_string_equal(json_string_value(jget_path(trainer, "schedule.name")), "constant");
    }
    json_decref(trainer);
    json_decref(values);
    json_decref(config);
}

static void a_trial_is_resolved_and_checked(void **state)
{
    (void)state;
    check_trial("{\"lr\":0.01,\"net\":{\"heads\":3,\"hidden\":64},\"optimizer\":\"sgd\"}",
                "trainer.model.heads: 3 does not divide width 128");
    check_trial("{\"lr\":\"x\",\"net\":{\"heads\":4,\"hidden\":64},\"optimizer\":\"sgd\"}",
                "trainer.optimizer.learning_rate: expected ");
    check_trial("{\"lr\":0.01,\"net\":{\"heads\":4,\"hidden\":64},\"optimizer\":\"sdg\"}",
                "trainer.optimizer.name: unknown word \"sdg\"; did you mean \"sgd\"?");
    check_trial("{\"lr\":0.01,\"net\":{\"heads\":4},\"optimizer\":\"sgd\"}",
                "trainer.model.context: there is no hyperparameter \"net.hidden\"");
    check_trial("{}", "there is no hyperparameter");
    check_trial("{\"lr\":0.01,\"net\":{\"heads\":4,\"hidden\":64},\"optimizer\":\"sgd\"}", NULL);
    check_trial("{\"lr\":1,\"net\":{\"heads\":4,\"hidden\":64},\"optimizer\":\"adamw\"}", NULL);
}

static void a_program_has_no_trainer_to_resolve(void **state)
{
    struct error e;
    json_t *config = accepted(program), *trainer;
    (void)state;
    assert_int_equal(expconf_resolve_trainer(config, NULL, &trainer, &e), ERR_INVALID);
    assert_contains(e.text, "trainer: the experiment has none");
    json_decref(config);
}

// --- the master's storage ------------------------------------------------------------------------

static void check_merge(const char *own, const char *defaults, const char *expected)
{
    struct error e;
    json_t *config = json_loads(own, 0, NULL);
    json_t *storage = defaults ? json_loads(defaults, 0, NULL) : NULL;
    int rc = expconf_merge_storage(config, storage, &e);
    if (!expected) {
        assert_int_equal(rc, ERR_INVALID);
        assert_contains(e.text, "checkpoint_storage: the experiment names no type");
    } else {
        json_t *want = json_loads(expected, 0, NULL);
        assert_int_equal(rc, 0);
        assert_true(json_equal(jget(config, "checkpoint_storage"), want));
        json_decref(want);
    }
    json_decref(storage);
    json_decref(config);
}

static void storage_is_completed_from_the_masters(void **state)
{
    static const char master[] = "{\"type\":\"directory\",\"container_path\":\"/c\","
                                 "\"save_trial_best\":4}";
    (void)state;
    check_merge("{}", NULL, NULL);
    check_merge("{\"checkpoint_storage\":{\"save_trial_best\":2}}", NULL, NULL);
    check_merge("{}", master,
                "{\"type\":\"directory\",\"container_path\":\"/c\",\"save_trial_best\":4,"
                "\"save_experiment_best\":0,\"save_trial_latest\":1}");
    check_merge("{\"checkpoint_storage\":{\"save_trial_best\":2}}", master,
                "{\"type\":\"directory\",\"container_path\":\"/c\",\"save_trial_best\":2,"
                "\"save_experiment_best\":0,\"save_trial_latest\":1}");
    check_merge("{\"checkpoint_storage\":{\"type\":\"shared_fs\",\"host_path\":\"/h\"}}", master,
                "{\"type\":\"shared_fs\",\"host_path\":\"/h\",\"save_trial_best\":4,"
                "\"save_experiment_best\":0,\"save_trial_latest\":1}");
}

static void check_storage(const char *text, const char *expected)
{
    struct error e;
    json_t *storage = json_loads(text, 0, NULL);
    int rc = expconf_check_storage(storage, "checkpointStorageConfig", &e);
    assert_int_equal(rc, expected ? ERR_INVALID : 0);
    if (expected)
        assert_contains(e.text, expected);
    json_decref(storage);
}

static void a_storage_alone_is_checked(void **state)
{
    (void)state;
    check_storage("{\"type\": \"directory\", \"container_path\": \"/c\"}", NULL);
    check_storage("{\"type\": \"s3\", \"bucket\": \"b\", \"secret_key\": \"s\"}", NULL);
    check_storage("{\"container_path\": \"/c\"}", "checkpointStorageConfig: type: missing");
    check_storage("{\"type\": \"s3\"}", "bucket: missing");
    check_storage("{\"type\": \"azure\"}", "container: missing");
    check_storage("{\"type\": \"directory\", \"container_path\": \"c\"}", "container_path");
    check_storage("{\"type\": \"directory\", \"path\": \"/c\"}", "unknown key");
    check_storage("{\"type\": \"s3\", \"bucket\": \"b\", \"secret_key\": \"********\"}",
                  "give the secret itself");
}

static void secrets_of_a_storage_are_masked(void **state)
{
    (void)state;
    json_t *storage = json_loads("{\"type\": \"s3\", \"bucket\": \"b\", \"access_key\": \"a\","
                                 " \"secret_key\": \"s\"}",
                                 0, NULL);
    expconf_mask_storage(storage);
    assert_string_equal(jget_string(storage, "access_key", ""), "********");
    assert_string_equal(jget_string(storage, "secret_key", ""), "********");
    assert_string_equal(jget_string(storage, "bucket", ""), "b");
    assert_int_equal(json_object_size(storage), 4);
    json_decref(storage);
}

// --- the rest ------------------------------------------------------------------------------------

static void the_reference_names_every_section(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 1 << 20);
    expconf_document(&out);
    assert_int_equal(out.err, 0);
    assert_contains(buf_str(&out), "`searcher.max_trials`");
    assert_contains(buf_str(&out), "`trainer.optimizer.beta1`");
    assert_contains(buf_str(&out), "`resources.slots_per_trial`");
    buf_free(&out);
}

// Any file is either accepted or refused with a text.
static void changed_bytes_never_crash(void **state)
{
    static const char yaml[] =
        "name: q\nresources: {slots_per_trial: 2, priority: 42}\n" SINGLE
        "hyperparameters: {a: &x {b: 1, c: [1, 2]}, d: *x, e: {type: const, val: 3}, steps: 5}\n"
        "checkpoint_storage: {type: directory, container_path: /a}\n"
        "trainer:\n  model: {family: mlp, hidden: [512, '${e}'], dropout: 0.5}\n"
        "  data: {format: idx, images: a, labels: b}\n  global_batch_size: 64\n"
        "  micro_batch_size: 16\n  steps: ${steps}\n"
        "  optimizer: {name: momentum, learning_rate: 0.1}\n";
    struct rng r;
    (void)state;
    rng_seed(&r, 7, 1);
    char copy[sizeof(yaml)];
    for (int round = 0; round < 4000; round++) {
        struct yaml_doc doc;
        struct error e = {0};
        memcpy(copy, yaml, sizeof(yaml));
        for (uint32_t n = 1 + rng_below(&r, 3); n; n--) {
            uint32_t at = rng_below(&r, sizeof(yaml) - 1);
            copy[at] =
                rng_below(&r, 2) ? (char)rng_below(&r, 256) : yaml[rng_below(&r, sizeof(yaml) - 1)];
        }
        int rc = expconf_parse(copy, sizeof(yaml) - 1, "e.yaml", &doc, &e);
        if (rc)
            assert_true(*e.text);
        else
            yaml_doc_free(&doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_are_no_configuration),
        cmocka_unit_test(slips_in_keys_are_told_with_what_is_near),
        cmocka_unit_test(wrong_types_and_ranges),
        cmocka_unit_test(texts_that_are_too_long),
        cmocka_unit_test(program_and_trainer_exclude_each_other),
        cmocka_unit_test(checkpoint_storage_must_be_reachable),
        cmocka_unit_test(searchers_need_what_they_divide),
        cmocka_unit_test(bad_hyperparameters),
        cmocka_unit_test(hyperparameters_come_out_typed),
        cmocka_unit_test(constants_are_given_as_plain_values),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(elastic_trials_have_a_least_number_of_slots),
        cmocka_unit_test(every_key_of_older_files_is_taken),
        cmocka_unit_test(json_is_yaml),
        cmocka_unit_test(checks_between_fields_of_a_gpt),
        cmocka_unit_test(checks_of_a_list_of_layers),
        cmocka_unit_test(checks_of_a_list_of_layers_of_tokens),
        cmocka_unit_test(checks_between_fields_of_an_mlp),
        cmocka_unit_test(checks_between_keys_of_data),
        cmocka_unit_test(names_of_hyperparameters_in_the_trainer),
        cmocka_unit_test(a_section_with_names_stays_as_written),
        cmocka_unit_test(ranges_are_checked_by_their_first_value),
        cmocka_unit_test(a_trial_is_resolved_and_checked),
        cmocka_unit_test(a_program_has_no_trainer_to_resolve),
        cmocka_unit_test(storage_is_completed_from_the_masters),
        cmocka_unit_test(a_storage_alone_is_checked),
        cmocka_unit_test(secrets_of_a_storage_are_masked),
        cmocka_unit_test(the_reference_names_every_section),
        cmocka_unit_test(changed_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
