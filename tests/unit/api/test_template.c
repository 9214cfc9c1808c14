// Templates: which values of an experiment win, and which lists are joined.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "api/config/template.h"
#include "base/text/json.h"

static json_t *parse(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);
    assert_non_null(v);
    return v;
}

static void expect(const char *config, const char *template, const char *merged)
{
    json_t *c = parse(config), *t = parse(template), *m = parse(merged), *before = parse(template);
    template_apply(c, t);
    if (!json_equal(c, m)) {
        char *text = json_text(c);
        print_error("%s\n", text);
        free(text);
        fail_msg("%s by %s is not %s", config, template, merged);
    }
    assert_true(json_equal(t, before)); // the template is unchanged
    json_decref(c);
    json_decref(t);
    json_decref(m);
    json_decref(before);
}

static void test_values(void **state)
{
    (void)state;
    expect("{}", "{\"a\":1,\"b\":{\"c\":[1]}}", "{\"a\":1,\"b\":{\"c\":[1]}}");
    expect("{\"a\":2}", "{\"a\":1}", "{\"a\":2}");
    expect("{\"a\":null}", "{\"a\":1}", "{\"a\":1}");
    expect("{\"a\":0,\"b\":false,\"c\":\"\"}", "{\"a\":1,\"b\":true,\"c\":\"x\"}",
           "{\"a\":0,\"b\":false,\"c\":\"\"}");
    expect("{\"a\":1}", "{\"a\":null,\"b\":null}", "{\"a\":1}");
    expect("{\"r\":{\"x\":1,\"z\":{\"p\":1}}}", "{\"r\":{\"x\":2,\"y\":3,\"z\":{\"q\":2}}}",
           "{\"r\":{\"x\":1,\"y\":3,\"z\":{\"p\":1,\"q\":2}}}");
    expect("{\"list\":[1]}", "{\"list\":[2,3]}", "{\"list\":[1]}");
    expect("{\"entrypoint\":\"a\"}", "{\"entrypoint\":[\"b\"]}", "{\"entrypoint\":\"a\"}");
    expect("{\"r\":5}", "{\"r\":{\"x\":2}}", "{\"r\":5}");
}

static void test_lists(void **state)
{
    (void)state;
    expect("{\"labels\":[\"a\",\"b\"]}", "{\"labels\":[\"b\",\"c\"]}",
           "{\"labels\":[\"a\",\"b\",\"c\"]}");
    expect("{\"bind_mounts\":[{\"host_path\":\"/x\",\"container_path\":\"/d\"}]}",
           "{\"bind_mounts\":[{\"host_path\":\"/y\",\"container_path\":\"/d\"},"
           "{\"host_path\":\"/z\",\"container_path\":\"/e\"}]}",
           "{\"bind_mounts\":[{\"host_path\":\"/x\",\"container_path\":\"/d\"},"
           "{\"host_path\":\"/z\",\"container_path\":\"/e\"}]}");
    expect(
        "{\"resources\":{\"devices\":[{\"container_path\":\"/a\"}]}}",
        "{\"resources\":{\"devices\":[{\"container_path\":\"/b\"}]}}",
        "{\"resources\":{\"devices\":[{\"container_path\":\"/a\"},{\"container_path\":\"/b\"}]}}");
    expect("{\"log_policies\":[{\"name\":\"n\",\"pattern\":\"a\"}]}",
           "{\"log_policies\":[{\"name\":\"n\",\"pattern\":\"b\"},{\"pattern\":\"c\"}]}",
           "{\"log_policies\":[{\"name\":\"n\",\"pattern\":\"a\"},{\"pattern\":\"c\"}]}");
    expect("{\"labels\":\"no list\"}", "{\"labels\":[\"b\"]}", "{\"labels\":\"no list\"}");
    // Duplicates within the template itself are kept.
    expect("{\"labels\":[]}", "{\"labels\":[\"b\",\"b\"]}", "{\"labels\":[\"b\",\"b\"]}");
}

// The experiment's variables come last, so that they win.
static void test_variables(void **state)
{
    (void)state;
    expect("{\"environment\":{\"environment_variables\":[\"A=2\"]}}",
           "{\"environment\":{\"environment_variables\":[\"A=1\",\"B=1\"]}}",
           "{\"environment\":{\"environment_variables\":[\"A=1\",\"B=1\",\"A=2\"]}}");
    expect("{\"environment\":{\"environment_variables\":[\"A=2\"]}}",
           "{\"environment\":{\"environment_variables\":{\"cpu\":[\"C=1\"],\"gpu\":[\"G=1\"]}}}",
           "{\"environment\":{\"environment_variables\":{\"cpu\":[\"C=1\",\"A=2\"],"
           "\"cuda\":[\"G=1\",\"A=2\"],\"rocm\":[\"A=2\"]}}}");
}

static void test_kinds(void **state)
{
    (void)state;
    expect("{\"hyperparameters\":{\"a\":{\"type\":\"int\",\"minval\":1,\"maxval\":2}}}",
           "{\"hyperparameters\":{\"a\":{\"type\":\"int\",\"minval\":5,\"count\":3},\"b\":1}}",
           "{\"hyperparameters\":{\"a\":{\"type\":\"int\",\"minval\":1,\"maxval\":2},\"b\":1}}");
    expect("{\"checkpoint_storage\":{\"type\":\"directory\",\"container_path\":\"/a\"}}",
           "{\"checkpoint_storage\":{\"type\":\"s3\",\"bucket\":\"b\",\"save_trial_best\":4}}",
           "{\"checkpoint_storage\":{\"type\":\"directory\",\"container_path\":\"/a\","
           "\"save_trial_best\":4}}");
    expect("{\"checkpoint_storage\":{\"save_trial_best\":2}}",
           "{\"checkpoint_storage\":{\"type\":\"s3\",\"bucket\":\"b\",\"save_trial_best\":4}}",
           "{\"checkpoint_storage\":{\"type\":\"s3\",\"bucket\":\"b\",\"save_trial_best\":2}}");
    expect("{\"searcher\":{\"name\":\"single\"}}",
           "{\"searcher\":{\"name\":\"random\",\"max_trials\":9,\"metric\":\"m\"}}",
           "{\"searcher\":{\"name\":\"single\",\"metric\":\"m\"}}");
    expect("{\"searcher\":{\"name\":\"random\"}}",
           "{\"searcher\":{\"name\":\"random\",\"max_trials\":9}}",
           "{\"searcher\":{\"name\":\"random\",\"max_trials\":9}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
