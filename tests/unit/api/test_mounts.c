// bind_mounts and shared_fs as mounts of a task, and the keys that have no effect.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "api/config/ignored_keys.h"
#include "api/config/mounts.h"
#include "base/text/json.h"

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static void places_that_may_be_covered(void **state)
{
    (void)state;
    static const struct {
        const char *target, *fault; // NULL: accepted
    } cases[] = {
        {"/data", NULL},
        {"/data/a b", NULL},
        {"data", NULL},
        {"/procedure", NULL},
        {"/run/determined2", NULL},
        {"", "container_path"},
        {"/", "container_path"},
        {"/data/", "container_path"},
        {"/data/../proc", "container_path"},
        {"../x", "container_path"},
        {"/proc", "may not be covered"},
        {"/proc/self", "may not be covered"},
        {"/run", "may not be covered"},
        {"/run/determined", "may not be covered"},
        {"/run/determined/info", "may not be covered"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        json_t *list =
            json_pack("[{s:s, s:s}]", "host_path", "/a", "container_path", cases[i].target);
        int err = bind_mounts_check(list, &e);
        if (!cases[i].fault != !err || (err && !strstr(e.text, cases[i].fault)))
            fail_msg("%s: %s", cases[i].target, e.text);
        json_decref(list);
    }
    struct error e = {0};
    json_t *list = parse("[{\"host_path\": \"a\", \"container_path\": \"/b\"}]");
    assert_int_equal(bind_mounts_check(list, &e), ERR_INVALID);
    assert_string_equal(e.text, "bind_mounts.0.host_path: \"a\" is not an absolute path");
    json_decref(list);
}

static void check_mounts(const char *config_text, bool trial, const char *expected_text)
{
    json_t *config = parse(config_text), *expected = parse(expected_text);
    json_t *found = mounts_of_config(config, trial);
    if (!json_equal(found, expected))
        fail_msg("%s: %s", config_text, json_dumps(found, 0));
    json_decref(found);
    json_decref(expected);
    json_decref(config);
}

#define STORAGE                                                                                    \
    "\"checkpoint_storage\": {\"type\": \"shared_fs\", \"host_path\": \"/h\", \"storage_path\": "  \
    "\"s\"}"
#define SHARED                                                                                     \
    "{\"source\": \"/h\", \"target\": \"/determined_shared_fs\", \"readOnly\": false,"             \
    " \"propagation\": \"\", \"required\": true}"

static void mounts_of_a_task(void **state)
{
    (void)state;
    check_mounts("{}", true, "[]");
    check_mounts("{" STORAGE "}", true, "[" SHARED "]");
    check_mounts("{" STORAGE "}", false, "[]");
    check_mounts("{" STORAGE ", \"trainer\": {}}", true, "[]"); // it writes to /h/s
    check_mounts("{\"bind_mounts\": null}", true, "[]");
    // a task has a /tmp of its own, in which it sees this folder by a mount only
    check_mounts("{\"bind_mounts\": [{\"host_path\": \"/tmp/x\", \"container_path\": \"/tmp/x\"},"
                 "{\"host_path\": \"/tmpx\", \"container_path\": \"/tmpx\"}]}",
                 true,
                 "[{\"source\": \"/tmp/x\", \"target\": \"/tmp/x\", \"readOnly\": false,"
                 " \"propagation\": \"\", \"required\": false}]");
    check_mounts("{" STORAGE ", \"bind_mounts\": ["
                 "{\"host_path\": \"/same\", \"container_path\": \"/same\"},"
                 "{\"host_path\": \"/a\", \"container_path\": \"/a\", \"read_only\": true},"
                 "{\"host_path\": \"/b\", \"container_path\": \"c\", \"propagation\": \"slave\"}]}",
                 true,
                 "[{\"source\": \"/a\", \"target\": \"/a\", \"readOnly\": true,"
                 " \"propagation\": \"\", \"required\": false},"
                 "{\"source\": \"/b\", \"target\": \"c\", \"readOnly\": false,"
                 " \"propagation\": \"slave\", \"required\": false}," SHARED "]");
}

static void check_ignored(const char *config_text, const char *expected)
{
    struct buf text;
    buf_init(&text, 4096);
    json_t *config = parse(config_text);
    ignored_keys_list(config, &text);
    assert_string_equal(buf_str(&text), expected);
    json_decref(config);
    buf_free(&text);
}

static void keys_without_effect(void **state)
{
    (void)state;
    check_ignored("{}", "");
    check_ignored("{\"environment\": {\"image\": null, \"ports\": {}, \"add_capabilities\": [],"
                  " \"force_pull_image\": false, \"environment_variables\": [\"A=1\"]},"
                  " \"resources\": {\"agent_label\": \"\", \"slots_per_trial\": 2}, \"slurm\": {}}",
                  "");
    check_ignored("{\"resources\": {\"shm_size\": 4096, \"devices\": [{}]}, \"pbs\": {\"a\": 1},"
                  " \"environment\": {\"image\": \"x\", \"force_pull_image\": true}}",
                  "environment.image, environment.force_pull_image, resources.shm_size, "
                  "resources.devices, pbs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_that_may_be_covered),
        cmocka_unit_test(mounts_of_a_task),
        cmocka_unit_test(keys_without_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
