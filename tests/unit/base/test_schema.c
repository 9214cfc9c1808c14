// Configuration schemas: defaults, and each fault with its position and path.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "base/text/schema.h"

// A small schema with every type.
static const struct schema_field a_text = {.name = "text", .type = SCHEMA_STRING};
static const struct schema_field a_count = {
    .name = "count", .type = SCHEMA_INT, .min = 1, .max = 100};
static const struct schema_field text_or_counts[] = {
    {.name = "text", .type = SCHEMA_STRING},
    {.name = "list", .type = SCHEMA_LIST, .element = &a_count},
    {.name = "count", .type = SCHEMA_INT, .min = 1, .max = 100},
    {.name = NULL},
};
static const struct schema_field layer[] = {
    {.name = "width", .type = SCHEMA_INT, .required = true, .min = 1, .max = 64, .doc = "units"},
    {.name = "bias", .type = SCHEMA_BOOL, .fallback = "true"},
    {.name = NULL},
};
static const struct schema_field a_layer = {
    .name = "layer", .type = SCHEMA_OBJECT, .fields = layer};
static const struct schema_field single[] = {
    {.name = "metric", .type = SCHEMA_STRING, .required = true},
    {.name = NULL},
};
static const struct schema_field random_search[] = {
    {.name = "metric", .type = SCHEMA_STRING, .required = true},
    {.name = "max_trials", .type = SCHEMA_INT, .min = 1, .max = 1000, .fallback = "10"},
    {.name = NULL},
};
static const struct schema_variant searchers[] = {
    {"single", single, "one trial"},
    {"random", random_search, "trials at random"},
    {NULL, NULL, NULL},
};
static const char *const optimizers[] = {"sgd", "adamw", "lamb", NULL};
static const struct schema_field trainer[] = {
    {.name = "optimizer", .type = SCHEMA_ENUM, .words = optimizers, .fallback = "\"sgd\""},
    {.name = "learning_rate", .type = SCHEMA_NUMBER, .min = 0, .max = 10, .fallback = "0.1"},
    {.name = "layers", .type = SCHEMA_LIST, .element = &a_layer, .fallback = "[]"},
    {.name = "warmup", .type = SCHEMA_INT, .nullable = true, .fallback = "null"},
    {.name = NULL},
};
static const struct schema_field top[] = {
    {.name = "name", .type = SCHEMA_STRING, .required = true, .doc = "shown in lists"},
    {.name = "searcher",
     .type = SCHEMA_UNION,
     .tag = "name",
     .variants = searchers,
     .fallback = "{\"name\": \"single\", \"metric\": \"loss\"}"},
    {.name = "trainer", .type = SCHEMA_OBJECT, .fields = trainer, .fallback = "{}"},
    {.name = "labels", .type = SCHEMA_LIST, .element = &a_text},
    {.name = "ports", .type = SCHEMA_MAP, .element = &a_count},
    {.name = "free", .type = SCHEMA_MAP},
    {.name = "any", .type = SCHEMA_ANY},
    {.name = "entrypoint", .type = SCHEMA_ONE_OF, .fields = text_or_counts, .doc = "a|b"},
    {.name = "at_least", .type = SCHEMA_NUMBER, .min = 1, .max = INFINITY},
    {.name = "very_far", .type = SCHEMA_INT, .min = 1, .max = 1e15},
    {.name = NULL},
};

static void completes(const char *text, const char *expected_json)
{
    struct yaml_doc doc;
    struct error e;
    if (yaml_parse(text, strlen(text), "exp.yaml", &doc, &e) != 0 ||
        schema_apply(top, &doc, &e) != 0)
        fail_msg("%s", e.text);
    char *json = json_text(doc.root);
    assert_string_equal(json, expected_json);
    free(json);
    yaml_doc_free(&doc);
}

static void refuses(const char *text, const char *expected)
{
    struct yaml_doc doc;
    struct error e;
    assert_int_equal(yaml_parse(text, strlen(text), "exp.yaml", &doc, &e), 0);
    assert_int_equal(schema_apply(top, &doc, &e), ERR_INVALID);
    assert_string_equal(e.text, expected);
    yaml_doc_free(&doc);
}

#define SEARCHER "\"searcher\":{\"name\":\"single\",\"metric\":\"loss\"}"
#define TRAINER                                                                                    \
    "\"trainer\":{\"optimizer\":\"sgd\",\"learning_rate\":0.1,\"layers\":[],\"warmup\":null}"

static void defaults(void **state)
{
    (void)state;
    completes("name: a\n", "{\"name\":\"a\"," SEARCHER "," TRAINER "}");
    completes("name: a\ntrainer:\n  optimizer: lamb\n",
              "{\"name\":\"a\",\"trainer\":{\"optimizer\":\"lamb\",\"learning_rate\":0.1,"
              "\"layers\":[],\"warmup\":null}," SEARCHER "}");
    completes("name: a\nsearcher: {name: random, metric: loss}\n",
              "{\"name\":\"a\",\"searcher\":{\"name\":\"random\",\"metric\":\"loss\","
              "\"max_trials\":10}," TRAINER "}");
}

static void defaults_within_lists(void **state)
{
    (void)state;
    completes(
        "name: a\ntrainer: {layers: [{width: 1}, {width: 64, bias: false}]}\n",
        "{\"name\":\"a\",\"trainer\":{\"layers\":[{\"width\":1,\"bias\":true},{\"width\":64,"
        "\"bias\":false}],\"optimizer\":\"sgd\",\"learning_rate\":0.1,\"warmup\":null}," SEARCHER
        "}");
}

static void null_is_absent_or_kept(void **state)
{
    (void)state;
    completes("name: a\nlabels:\ntrainer: {optimizer: ~, warmup: ~}\nsearcher: ~\n",
              "{\"name\":\"a\",\"trainer\":{\"warmup\":null,\"optimizer\":\"sgd\","
              "\"learning_rate\":0.1,\"layers\":[]}," SEARCHER "}");
    refuses("name: ~\n", "exp.yaml:1:7: name: missing key (shown in lists)");
    refuses("name: a\nlabels: [x, ~]\n", "exp.yaml:2:13: labels.1: expected text, found null");
}

static void every_type(void **state)
{
    (void)state;
    completes("name: a\nlabels: [x]\nports: {http: 80}\nfree: {a: [1], b: x}\nany: [~]\n"
              "entrypoint: [1, 2]\nat_least: 1\ntrainer: {learning_rate: 1}\n",
              "{\"name\":\"a\",\"labels\":[\"x\"],\"ports\":{\"http\":80},\"free\":{\"a\":[1],"
              "\"b\":\"x\"},\"any\":[null],\"entrypoint\":[1,2],\"at_least\":1,\"trainer\":{"
              "\"learning_rate\":1,\"optimizer\":\"sgd\",\"layers\":[],\"warmup\":null}," SEARCHER
              "}");
}

static void whole_reals_are_integers(void **state)
{
    (void)state;
    completes("name: a\nports: {x: 1e2}\nentrypoint: 1e1\nsearcher: {name: random, metric: m, "
              "max_trials: 1e3}\n",
              "{\"name\":\"a\",\"ports\":{\"x\":100},\"entrypoint\":10,\"searcher\":{\"name\":"
              "\"random\",\"metric\":\"m\",\"max_trials\":1000}," TRAINER "}");
    refuses("name: a\nvery_far: 4611686018427387904\n",
            "exp.yaml:2:11: very_far: expected a whole number of at least 1 and at most "
            "1000000000000000, found 4611686018427387904");
    refuses("name: a\nports: {x: 1.5}\n",
            "exp.yaml:2:12: ports.x: expected a whole number from 1 to 100, found 1.5");
}

static void unknown_keys(void **state)
{
    (void)state;
    refuses("name: a\n\ntrainer:\n  optimiser: sgd\n",
            "exp.yaml:4:3: trainer.optimiser: unknown key; did you mean \"optimizer\"?");
    refuses("nmae: a\n", "exp.yaml:1:1: nmae: unknown key; did you mean \"name\"?");
    refuses("name: a\ntrainer: {colour: red}\n",
            "exp.yaml:2:11: trainer.colour: unknown key; known keys: optimizer, learning_rate, "
            "layers, warmup");
    refuses("name: a\ntrainer: {layers: [{width: 3, bais: true}]}\n",
            "exp.yaml:2:31: trainer.layers.0.bais: unknown key; did you mean \"bias\"?");
    refuses("name: a\ncolour: ~\n",
            "exp.yaml:2:1: colour: unknown key; known keys: name, searcher, trainer, labels, "
            "ports, free, any, entrypoint, at_least, very_far");
}

static void missing_keys(void **state)
{
    (void)state;
    refuses("labels: []\n", "exp.yaml:1:1: name: missing key (shown in lists)");
    refuses("", "exp.yaml: name: missing key (shown in lists)");
    refuses("name: a\ntrainer:\n  layers:\n    - bias: true\n",
            "exp.yaml:4:7: trainer.layers.0.width: missing key (units)");
    refuses("name: a\nsearcher: {name: single}\n", "exp.yaml:2:11: searcher.metric: missing key");
}

static void wrong_types(void **state)
{
    (void)state;
    refuses("name: 123\n", "exp.yaml:1:7: name: expected text, found 123; put it in quotes");
    refuses("name: true\n", "exp.yaml:1:7: name: expected text, found true; put it in quotes");
    refuses("name: [a]\n", "exp.yaml:1:7: name: expected text, found a list");
    refuses("name: a\ntrainer: fast\n",
            "exp.yaml:2:10: trainer: expected a map, found the text \"fast\"");
    refuses("name: a\nlabels: x\n", "exp.yaml:2:9: labels: expected a list, found the text \"x\"");
    refuses("name: a\nfree: [1]\n", "exp.yaml:2:7: free: expected a map, found a list");
    refuses("name: a\nsearcher: single\n",
            "exp.yaml:2:11: searcher: expected a map, found the text \"single\"");
    refuses("name: a\ntrainer: {layers: [{width: 1, bias: yes}]}\n",
            "exp.yaml:2:37: trainer.layers.0.bias: expected true or false, found the text \"yes\"");
    refuses("name: a\ntrainer: {learning_rate: .inf}\n",
            "exp.yaml:2:26: trainer.learning_rate: expected a number from 0 to 10, found the text "
            "\"Infinity\"");
    refuses("- a\n", "exp.yaml:1:1: expected a map, found a list");
}

static void part_of_a_document(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"trainer: {learning_rate: 1}\n", ""},
        {"searcher: {metric: x}\n", ""}, // without a tag
        {"{}\n", ""},
        {"trainer:\n  learning_rat: 1\n",
         "p:2:3: trainer.learning_rat: unknown key; did you mean \"learning_rate\"?"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct yaml_doc doc;
        struct error e = {0};
        assert_int_equal(yaml_parse(pairs[i][0], strlen(pairs[i][0]), "p", &doc, NULL), 0);
        char *before = json_text(doc.root);
        schema_check_part(top, &doc, &e);
        assert_string_equal(e.text, pairs[i][1]);
        char *after = json_text(doc.root);
        assert_string_equal(after, before); // no default was added
        free(after);
        free(before);
        yaml_doc_free(&doc);
    }
}

static void ranges_at_the_limit_and_past_it(void **state)
{
    (void)state;
    for (int width = 1; width <= 64; width += 63) {
        char text[80];
        snprintf(text, sizeof text, "name: a\ntrainer: {layers: [{width: %d}]}\n", width);
        struct yaml_doc doc;
        assert_int_equal(yaml_parse(text, strlen(text), "f", &doc, NULL), 0);
        assert_int_equal(schema_apply(top, &doc, NULL), 0);
        yaml_doc_free(&doc);
    }
    refuses("name: a\ntrainer: {layers: [{width: 0}]}\n",
            "exp.yaml:2:28: trainer.layers.0.width: expected a whole number from 1 to 64, found 0");
    refuses("name: a\ntrainer: {layers: [{width: 65}]}\n",
            "exp.yaml:2:28: trainer.layers.0.width: expected a whole number from 1 to 64, found "
            "65");
    refuses("name: a\ntrainer: {learning_rate: -1e-3}\n",
            "exp.yaml:2:26: trainer.learning_rate: expected a number from 0 to 10, found -0.001");
    refuses("name: a\nat_least: 0.5\n",
            "exp.yaml:2:11: at_least: expected a number of at least 1, found 0.5");
}

static void words(void **state)
{
    (void)state;
    refuses("name: a\ntrainer: {optimizer: adamv}\n",
            "exp.yaml:2:22: trainer.optimizer: unknown word \"adamv\"; did you mean \"adamw\"?");
    refuses("name: a\ntrainer: {optimizer: magic}\n",
            "exp.yaml:2:22: trainer.optimizer: expected one of sgd, adamw, lamb, found the text "
            "\"magic\"");
    refuses("name: a\ntrainer: {optimizer: 3}\n",
            "exp.yaml:2:22: trainer.optimizer: expected one of sgd, adamw, lamb, found 3");
}

static void unions(void **state)
{
    (void)state;
    refuses("name: a\nsearcher: {metric: x}\n",
            "exp.yaml:2:11: searcher.name: missing key; write one of single, random");
    refuses("name: a\nsearcher: {name: ~}\n",
            "exp.yaml:2:18: searcher.name: missing key; write one of single, random");
    refuses("name: a\nsearcher: {name: randon}\n",
            "exp.yaml:2:18: searcher.name: unknown word \"randon\"; did you mean \"random\"?");
    refuses("name: a\nsearcher: {name: [1]}\n",
            "exp.yaml:2:18: searcher.name: expected one of single, random, found a list");
    refuses("name: a\nsearcher: {name: single, metric: x, max_trials: 3}\n",
            "exp.yaml:2:37: searcher.max_trials: unknown key with name: single; known keys: "
            "metric, name");
}

static void one_of(void **state)
{
    (void)state;
    refuses("name: a\nentrypoint: {a: 1}\n",
            "exp.yaml:2:13: entrypoint: expected text or a list or a whole number from 1 to 100, "
            "found a map");
    refuses("name: a\nentrypoint: [1, x]\n",
            "exp.yaml:2:17: entrypoint.1: expected a whole number from 1 to 100, found the text "
            "\"x\"");
    refuses("name: a\nentrypoint: 101\n",
            "exp.yaml:2:13: entrypoint: expected a whole number from 1 to 100, found 101");
}

static void the_first_fault_is_told(void **state)
{
    (void)state;
    refuses("labels: [1]\nname: 2\nfoo: 3\n",
            "exp.yaml:1:10: labels.0: expected text, found 1; put it in quotes");
}

static void long_values_are_cut(void **state)
{
    (void)state;
    char text[400] = "name: a\nlabels: ", *end = text + strlen(text);
    memset(end, 'x', 300);
    refuses(text, "exp.yaml:2:9: labels: expected a list, found the text "
                  "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"");
}

static void bare_json(void **state)
{
    (void)state;
    struct error e;
    json_t *v = json_pack("{s:s}", "name", "a");
    assert_int_equal(schema_apply_json(top, v, "request body", &e), 0);
    assert_string_equal(jget_string(jget_path(v, "trainer"), "optimizer", ""), "sgd");
    json_object_set_new(json_object_get(v, "trainer"), "optimzer", json_null());
    assert_int_equal(schema_apply_json(top, v, "request body", &e), ERR_INVALID);
    assert_string_equal(e.text, "request body: trainer.optimzer: unknown key; did you mean "
                                "\"optimizer\"?");
    json_decref(v);
    v = json_array();
    assert_int_equal(schema_apply_json(top, v, "request body", &e), ERR_INVALID);
    assert_string_equal(e.text, "request body: expected a map, found a list");
    assert_int_equal(schema_apply_json(top, v, "request body", NULL), ERR_INVALID);
    json_decref(v);
}

static void applying_twice_changes_nothing(void **state)
{
    (void)state;
    json_t *v = json_pack("{s:s, s:{s:s, s:s}}", "name", "a", "searcher", "name", "random",
                          "metric", "loss");
    assert_int_equal(schema_apply_json(top, v, "x", NULL), 0);
    char *once = json_text(v);
    assert_int_equal(schema_apply_json(top, v, "x", NULL), 0);
    char *twice = json_text(v);
    assert_string_equal(once, twice);
    free(twice);
    free(once);
    json_decref(v);
}

static void document(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "| key | type | default | meaning |\n| --- | --- | --- | --- |\n",
        "\n| `name` | text | required | shown in lists |\n",
        "\n| `trainer.optimizer` | one of sgd, adamw, lamb | \"sgd\" |  |\n",
        "\n| `trainer.layers` | a list | [] |  |\n",
        "\n| `trainer.layers[].width` | a whole number from 1 to 64 | required | units |\n",
        "\n| `searcher.name: random` | | | trials at random |\n",
        "\n| `searcher.max_trials` | a whole number from 1 to 1000 | 10 |  |\n",
        "\n| `entrypoint` | text or a list or a whole number from 1 to 100 |  | a\\|b |\n",
        "\n| `at_least` | a number of at least 1 |  |  |\n"
        "| `very_far` | a whole number of at least 1 |  |  |\n",
    };
    struct buf out;
    buf_init(&out, 1 << 16);
    schema_document(top, &out);
    assert_int_equal(out.err, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strstr(buf_str(&out), rows[i]))
            fail_msg("no row \"%s\" in:\n%s", rows[i], buf_str(&out));
    buf_free(&out);
}

static void tables_that_hold_themselves(void **state)
{
    (void)state;
    struct schema_field tree[2] = {{.name = "child", .type = SCHEMA_OBJECT, .doc = "more of it"},
                                   {.name = NULL}};
    tree[0].fields = tree;
    struct buf out;
    buf_init(&out, 1 << 16);
    schema_document(tree, &out); // terminates
    assert_int_equal(out.err, 0);
    assert_non_null(strstr(buf_str(&out), "\n| `child` | a map |  | more of it |\n"));
    assert_null(strstr(buf_str(&out), "child.child"));
    buf_free(&out);
    json_t *v = json_pack("{s:{s:{}}}", "child", "child");
    assert_int_equal(schema_apply_json(tree, v, "x", NULL), 0);
    json_decref(v);
}

// A list of layers in which a layer may contain a list of layers, and a union with a default tag.
static const struct schema_field a_part;
static const struct schema_field line[] = {
    {.name = "width", .type = SCHEMA_INT, .fallback = "1"},
    {.name = NULL},
};
static const struct schema_field block[] = {
    {.name = "parts", .type = SCHEMA_LIST, .element = &a_part, .required = true},
    {.name = NULL},
};
static const struct schema_variant parts[] = {
    {"line", line, "a line"}, {"block", block, "a block of parts"}, {NULL, NULL, NULL}};
static const struct schema_field a_part = {
    .name = "part", .type = SCHEMA_UNION, .tag = "kind", .tag_fallback = "line", .variants = parts};
static const struct schema_field drawing[] = {
    {.name = "parts", .type = SCHEMA_LIST, .element = &a_part, .required = true},
    {.name = NULL},
};

static void lists_within_lists(void **state)
{
    (void)state;
    json_t *v = json_pack("{s:[{s:i}, {s:s, s:[{s:s, s:[{}]}]}]}", "parts", "width", 3, "kind",
                          "block", "parts", "kind", "block", "parts");
    struct error e;
    assert_int_equal(schema_apply_json(drawing, v, "x", &e), 0);
    char *text = json_text(v);
    assert_string_equal(text,
                        "{\"parts\":[{\"width\":3,\"kind\":\"line\"},{\"kind\":\"block\",\"parts\":"
                        "[{\"kind\":\"block\",\"parts\":[{\"kind\":\"line\",\"width\":1}]}]}]}");
    free(text);
    json_decref(v);
    v = json_pack("{s:[{s:s, s:[{s:s}]}]}", "parts", "kind", "block", "parts", "kind", "lime");
    assert_int_equal(schema_apply_json(drawing, v, "x", &e), ERR_INVALID);
    assert_string_equal(e.text, "x: parts.0.parts.0.kind: unknown word \"lime\"; did you mean "
                                "\"line\"?");
    json_decref(v);
    struct buf out;
    buf_init(&out, 1 << 16);
    schema_document(drawing, &out);
    assert_string_equal(strstr(buf_str(&out), "| `parts`"),
                        "| `parts` | a list | required |  |\n"
                        "| `parts[].kind: line` | | default | a line |\n"
                        "| `parts[].width` | a whole number | 1 |  |\n"
                        "| `parts[].kind: block` | | | a block of parts |\n"
                        "| `parts[].parts` | a list | required |  |\n");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_within_lists),
        cmocka_unit_test(defaults),
        cmocka_unit_test(defaults_within_lists),
        cmocka_unit_test(null_is_absent_or_kept),
        cmocka_unit_test(every_type),
        cmocka_unit_test(whole_reals_are_integers),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(missing_keys),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(ranges_at_the_limit_and_past_it),
        cmocka_unit_test(words),
        cmocka_unit_test(unions),
        cmocka_unit_test(one_of),
        cmocka_unit_test(the_first_fault_is_told),
        cmocka_unit_test(long_values_are_cut),
        cmocka_unit_test(bare_json),
        cmocka_unit_test(part_of_a_document),
        cmocka_unit_test(applying_twice_changes_nothing),
        cmocka_unit_test(document),
        cmocka_unit_test(tables_that_hold_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
