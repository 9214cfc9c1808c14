// The arguments, environment and devices of a task's processes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "agent/tasks/task_spec.h"
#include "base/text/json.h"

static struct agent_slot items[] = {
    {.name = "A", .uuid = "GPU-a"},
    {.name = "A", .uuid = "GPU-b"},
    {.name = "A", .uuid = "GPU-c"},
};
static const struct slots cpus = {.items = items, .count = 3};
static const struct slots gpus = {.items = items, .count = 3, .cuda = true};

static const char two_ranks[] =
    "{\"version\": 1, \"tasks\": [{\"allocationId\": \"7.1\", \"taskId\": \"t7\", \"action\": "
    "\"RUN\", \"contextUrl\": \"/c\", \"graceSeconds\": 4, \"argv\": [\"muster-trainer\", "
    "\"worker\"], \"native\": true, \"env\": {\"A\": \"all\", \"PATH\": \"/mine\", "
    "\"DET_CONTAINER_ID\": \"c7\"}, \"ranks\": [{\"rank\": 5, \"localRank\": 1, \"slots\": [0], "
    "\"env\": {\"A\": \"own\"}}, {\"rank\": 4, \"localRank\": 0, \"slots\": [2]}]}]}";

static int build_spec(const char *answer, const struct slots *slots, json_t **spec, struct error *e)
{
    const struct task_host place = {
        .agent_id = "agent-9",
        .slots = slots,
        .dir = "/agent/tasks/7.1",
        .program_dir = "/opt/muster",
        .command_dir = "/opt/command",
        .python_dir = "/opt/python",
        .home = "/home/m",
        .path = "/bin",
        .lang = NULL,
    };
    struct desired_state d;
    *spec = NULL;
    if (desired_state_parse(json_loads(answer, 0, NULL), &d, e) != 0)
        fail_msg("%s", e->text);
    int rc = task_spec_build(&d.tasks[0], &place, spec, e);
    desired_state_free(&d);
    return rc;
}

static const char *env_of(const json_t *spec, size_t rank, const char *name)
{
    static json_t *env; // the returned string is valid until the next call
    json_decref(env);
    env = task_spec_environment(spec, json_array_get(jget(spec, "ranks"), rank));
    const char *value = jget_string(env, name, NULL);
    return value;
}

static void task(char *out, size_t cap, const char *env, const char *slots)
{
    snprintf(out, cap,
             "{\"version\": 1, \"tasks\": [{\"allocationId\": \"7.1\", \"action\": \"RUN\", "
             "\"argv\": [\"sh\"], \"env\": %s, \"ranks\": [{\"rank\": 0, \"localRank\": 0, "
             "\"slots\": %s}]}]}",
             env, slots);
}

static void complete(void **state)
{
    (void)state;
    json_t *spec;
    struct error e = {0};
    assert_int_equal(build_spec(two_ranks, &cpus, &spec, &e), 0);
    assert_string_equal(jget_string(spec, "allocationId", ""), "7.1");
    assert_string_equal(jget_string(spec, "containerId", ""), "c7");
    assert_string_equal(jget_string(spec, "contextUrl", ""), "/c");
    assert_int_equal(jget_int(spec, "graceSeconds", 0), 4);
    assert_string_equal(json_string_value(json_array_get(jget(spec, "argv"), 0)),
                        "/opt/muster/muster-trainer");
    assert_string_equal(json_string_value(json_array_get(jget(spec, "argv"), 1)), "worker");
    assert_string_equal(env_of(spec, 0, "A"), "own");
    assert_string_equal(env_of(spec, 1, "A"), "all");
    assert_string_equal(env_of(spec, 0, "RANK"), "5");
    assert_string_equal(env_of(spec, 0, "LOCAL_RANK"), "1");
    assert_string_equal(env_of(spec, 1, "RANK"), "4");
    assert_string_equal(env_of(spec, 1, "LOCAL_WORLD_SIZE"), "2");
    assert_string_equal(env_of(spec, 1, "HOME"), "/home/m");
    assert_string_equal(env_of(spec, 1, "PATH"), "/mine");
    assert_null(env_of(spec, 1, "LANG"));
    assert_string_equal(env_of(spec, 1, "DET_AGENT_ID"), "agent-9");
    assert_string_equal(env_of(spec, 1, "MUSTER_RUN_DIR"), "/agent/tasks/7.1");
    assert_string_equal(env_of(spec, 1, "DET_SLOT_IDS"), "[2,0]");
    assert_string_equal(env_of(spec, 1, "OMP_NUM_THREADS"), "1");
    assert_null(env_of(spec, 1, "CUDA_VISIBLE_DEVICES"));
    assert_null(jget(spec, "userHome"));
    json_decref(spec);
}

static void home_of_the_user(void **state)
{
    (void)state;
    char text[1024];
    json_t *spec;
    struct error e = {0};
    task(text, sizeof text, "{\"HOME\": \"/scratch\"}", "[0]");
    assert_int_equal(build_spec(text, &cpus, &spec, &e), 0);
    assert_string_equal(env_of(spec, 0, "HOME"), "/scratch");
    assert_true(jget_bool(spec, "userHome", false));
    json_decref(spec);
}

// Every rank sees all devices of the task; its own has the index of its local rank.
static void devices(void **state)
{
    (void)state;
    json_t *spec;
    struct error e = {0};
    assert_int_equal(build_spec(two_ranks, &gpus, &spec, &e), 0);
    assert_string_equal(env_of(spec, 0, "CUDA_VISIBLE_DEVICES"), "GPU-c,GPU-a");
    assert_string_equal(env_of(spec, 1, "CUDA_VISIBLE_DEVICES"), "GPU-c,GPU-a");
    assert_null(env_of(spec, 1, "OMP_NUM_THREADS"));
    json_decref(spec);
}

// A process can use only one MIG instance, so each rank sees its own.
static void instances(void **state)
{
    (void)state;
    json_t *spec;
    struct error e = {0};
    static struct agent_slot cut[] = {{.uuid = "MIG-a"}, {.uuid = "MIG-b"}, {.uuid = "MIG-c"}};
    static const struct slots migs = {.items = cut, .count = 3, .cuda = true};
    assert_int_equal(build_spec(two_ranks, &migs, &spec, &e), 0);
    assert_string_equal(env_of(spec, 0, "CUDA_VISIBLE_DEVICES"), "MIG-a");
    assert_string_equal(env_of(spec, 1, "CUDA_VISIBLE_DEVICES"), "MIG-c");
    json_decref(spec);
}

static void threads_and_tasks_without_slots(void **state)
{
    (void)state;
    json_t *spec;
    struct error e = {0};
    char text[512];
    task(text, sizeof text, "{}", "[0, 1]"); // one process with two slots
    assert_int_equal(build_spec(text, &cpus, &spec, &e), 0);
    assert_string_equal(env_of(spec, 0, "OMP_NUM_THREADS"), "2");
    assert_string_equal(json_string_value(json_array_get(jget(spec, "argv"), 0)), "sh");
    assert_string_equal(jget_string(spec, "containerId", ""), "7.1");
    assert_null(jget(spec, "contextUrl"));
    json_decref(spec);
    task(text, sizeof text, "{\"OMP_NUM_THREADS\": \"8\"}", "null");
    assert_int_equal(build_spec(text, &gpus, &spec, &e), 0);
    assert_string_equal(env_of(spec, 0, "OMP_NUM_THREADS"), "8");
    assert_string_equal(env_of(spec, 0, "DET_SLOT_IDS"), "[]");
    assert_string_equal(env_of(spec, 0, "CUDA_VISIBLE_DEVICES"), ""); // no device
    json_decref(spec);
}

static void slots_that_are_not_here(void **state)
{
    (void)state;
    json_t *spec;
    struct error e = {0};
    char text[512];
    task(text, sizeof text, "{}", "[2]");
    assert_int_equal(build_spec(text, &cpus, &spec, &e), 0);
    json_decref(spec);
    task(text, sizeof text, "{}", "[3]");
    assert_int_equal(build_spec(text, &cpus, &spec, &e), ERR_PEER);
    assert_non_null(strstr(e.text, "slot 3 is not on this machine, which has slots 0 to 2"));
    task(text, sizeof text, "{}", "[-1]");
    assert_int_equal(build_spec(text, &cpus, &spec, &e), ERR_PEER);
}

// Programs find the command muster first, and Muster's other programs and its package behind their
// own; the native trainer needs none of them.
static void programs_find_muster(void **state)
{
    (void)state;
    static const struct {
        const char *env, *path, *python;
    } rows[] = {
        {"{}", "/opt/command:/bin:/opt/muster", "/opt/python"},
        {"{\"PATH\": \"\"}", "/opt/command:/opt/muster", "/opt/python"},
        {"{\"PATH\": \"/mine:/x\", \"PYTHONPATH\": \"/lib\"}", "/opt/command:/mine:/x:/opt/muster",
         "/lib:/opt/python"},
        {"{\"PATH\": \"/opt/muster:/x\", \"PYTHONPATH\": \"\"}", "/opt/command:/opt/muster:/x",
         "/opt/python"},
        {"{\"PATH\": \"/opt/muster2\", \"PYTHONPATH\": \"/a:/opt/python\"}",
         "/opt/command:/opt/muster2:/opt/muster", "/a:/opt/python"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char answer[512];
        json_t *spec;
        snprintf(answer, sizeof answer,
                 "{\"version\": 1, \"tasks\": [{\"allocationId\": \"7.1\", \"action\": \"RUN\", "
                 "\"argv\": [\"sh\"], \"env\": %s, \"ranks\": [{\"rank\": 0, \"localRank\": 0, "
                 "\"slots\": [0]}]}]}",
                 rows[i].env);
        struct error e = {0};
        if (build_spec(answer, &cpus, &spec, &e) != 0)
            fail_msg("%s", e.text);
        assert_string_equal(env_of(spec, 0, "PATH"), rows[i].path);
        assert_string_equal(env_of(spec, 0, "PYTHONPATH"), rows[i].python);
        assert_false(task_spec_reports(spec));
        json_decref(spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete),
        cmocka_unit_test(home_of_the_user),
        cmocka_unit_test(devices),
        cmocka_unit_test(instances),
        cmocka_unit_test(threads_and_tasks_without_slots),
        cmocka_unit_test(slots_that_are_not_here),
        cmocka_unit_test(programs_find_muster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
