// The experiment configuration: values set from outside, and limits of depth and length.
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
#include "base/text/json.h"

static void set_refused(const char *assignment, const char *expected)
{
    static const char yaml[] = "name: x\nlabels: [a, b]\nresources: {priority: 3}\n";
    struct yaml_doc doc;
    struct error e;
    assert_int_equal(yaml_parse(yaml, strlen(yaml), "e.yaml", &doc, &e), 0);
    assert_int_equal(expconf_set(&doc, assignment, &e), ERR_INVALID);
    if (!strstr(e.text, expected))
        fail_msg("\"%s\" does not hold \"%s\"", e.text, expected);
    yaml_doc_free(&doc);
}

static void bad_overrides(void **state)
{
    (void)state;
    set_refused("name", "\"name\" has no value; write key.path=value");
    set_refused("=3", "has no value");
    set_refused("", "has no value");
    set_refused("name.first=3", "name.first=3: a single value has no members");
    set_refused("name.first.second=3", "a single value has no members");
    set_refused("labels.x=3", "\"x\" is not an index of a list with 2 elements");
    set_refused("labels.3=c", "\"3\" is not an index of a list with 2 elements");
    set_refused("labels.-1=c", "\"-1\" is not an index");
    set_refused("labels.2.a=c", "there is no element \"2\"; the list has 2");
    set_refused("a..b=1", "not a path");
    set_refused("a.\xff.b=1", "the path is not UTF-8 text");
    set_refused("a.\xff=1", "the path is not UTF-8 text");
    set_refused(".a=1", "not a path");
    set_refused("a.=1", "not a path");
    set_refused("name=[1", "name=[1");
    set_refused("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.1.2.3.4.5.6.7=1",
                "not a path");
}

static void overrides_set_values_of_any_type(void **state)
{
    static const char *const sets[] = {"name=second",
                                       "labels.0=c",
                                       "labels.2={a: [1, 2]}",
                                       "resources.slots_per_trial=3",
                                       "hyperparameters.net.lr=1e-3",
                                       "searcher=",
                                       "text='a=b'"};
    struct yaml_doc doc = {0};
    struct error e;
    (void)state;
    for (int round = 0; round < 2; round++) { // setting twice has the effect of setting once
        assert_int_equal(expconf_set(&doc, "labels=[a, b, z]", &e), 0);
        for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
            if (expconf_set(&doc, sets[i], &e))
                fail_msg("%s: %s", sets[i], e.text);
    }
    char *text = json_text(doc.root);
    assert_string_equal(text, "{\"labels\":[\"c\",\"b\",{\"a\":[1,2]}],\"name\":\"second\","
                              "\"resources\":{\"slots_per_trial\":3},\"hyperparameters\":{\"net\":"
                              "{\"lr\":0.001}},\"searcher\":null,\"text\":\"a=b\"}");
    free(text);
    yaml_doc_free(&doc);
}

// --- shape ---------------------------------------------------------------------------------------

// Returns 0 or the error of expconf_parse(); an accepted complete configuration must be accepted
// again.
static int parse_twice(const char *yaml, struct error *e)
{
    struct yaml_doc doc, again;
    int err = expconf_parse(yaml, strlen(yaml), "e.yaml", &doc, e);
    if (err)
        return err;
    char *complete = json_text(doc.root);
    assert_int_equal(expconf_parse(complete, strlen(complete), "e.yaml", &again, e), 0);
    assert_true(json_equal(doc.root, again.root));
    free(complete);
    yaml_doc_free(&again);
    yaml_doc_free(&doc);
    return 0;
}

static int parse_hparams(const char *hparams, struct error *e)
{
    char *yaml = xasprintf("name: x\nentrypoint: x\nsearcher: {name: single, metric: l}\n"
                           "hyperparameters: %s\n",
                           hparams);
    int err = parse_twice(yaml, e);
    free(yaml);
    return err;
}

static int parse_maps(int maps, struct error *e)
{
    struct buf text;
    buf_init(&text, 4096);
    for (int i = 0; i < 2 * maps; i++)
        buf_puts(&text, i < maps ? "{a: " : i == maps ? "1}" : "}");
    int err = parse_hparams(buf_str(&text), e);
    buf_free(&text);
    return err;
}

// The value of a hyperparameter counts one level more than written.
static void depth_at_the_limit_and_past_it(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(parse_maps(LIMIT_JSON_DEPTH - 2, &e), 0);
    assert_int_equal(parse_maps(LIMIT_JSON_DEPTH - 1, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "hyperparameters: more than 31 levels deep"));
}

static void keys_at_the_limit_and_past_it(void **state)
{
    (void)state;
    struct error e;
    char *text = xasprintf("{? %0*d : 1}", LIMIT_NAME, 7);
    assert_int_equal(parse_hparams(text, &e), 0);
    free(text);
    text = xasprintf("{? %0*d : 1}", LIMIT_NAME + 1, 7);
    assert_int_equal(parse_hparams(text, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "hyperparameters: a key of more than 255 characters"));
    free(text);
}

static void any_character_is_taken_again(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(
        parse_hparams("{a: \"\\x01\\x7f\\x85\\x9f\\u2028\\u2029\\ufffe\\U0001f600\"}", &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_overrides),
        cmocka_unit_test(overrides_set_values_of_any_type),
        cmocka_unit_test(depth_at_the_limit_and_past_it),
        cmocka_unit_test(keys_at_the_limit_and_past_it),
        cmocka_unit_test(any_character_is_taken_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
