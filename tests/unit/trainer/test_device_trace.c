// `bench --trace` writes the phases and layers of a CPU as a trace that viewers open.
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/text/json.h"
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/commands/device_trace.h"
#include "trainer/ops/trace.h"

static void spend_time(void)
{
    usleep(2000);
}

// Counts the events of a row with this name and adds their time.
static int events_of(const json_t *trace, const char *row, const char *name, double *us)
{
    int count = 0;
    size_t i;
    json_t *event;
    *us = 0;
    json_array_foreach(jget(trace, "traceEvents"), i, event)
    {
        if (strcmp(jget_string(event, "cat", ""), row) != 0 ||
            strcmp(jget_string(event, "name", ""), name) != 0)
            continue;
        assert_string_equal(jget_string(event, "ph", ""), "X");
        assert_true(jget_double(event, "ts", -1) >= 0);
        *us += jget_double(event, "dur", 0);
        count++;
    }
    return count;
}

static void test_phases_and_layers(void **state)
{
    (void)state;
    struct device_trace *trace;
    struct error e;
    double us;
    ops_phase(OPS_OPTIMIZER); // before the trace begins, so not part of it
    spend_time();
    ops_phase(OPS_OTHER);
    ops_trace_layer("unseen");
    assert_int_equal(device_trace_begin("trace.json", &trace, &e), 0);
    for (int i = 0; i < 2; i++) {
        ops_phase(OPS_FORWARD);
        ops_trace_layer("linear \"1\"");
        spend_time();
        ops_trace_layer(NULL);
        ops_phase(OPS_BACKWARD);
        spend_time();
    }
    ops_phase(OPS_OTHER);
    assert_int_equal(device_trace_end(trace, &e), 0);
    json_t *found = json_load_file("trace.json", 0, NULL);
    assert_non_null(found);
    assert_int_equal(events_of(found, "phases", "forward", &us), 2);
    assert_true(us >= 4000);
    assert_int_equal(events_of(found, "layers", "linear \"1\"", &us), 2);
    assert_true(us >= 4000);
    assert_int_equal(events_of(found, "phases", "backward", &us), 2);
    assert_int_equal(events_of(found, "phases", "optimizer", &us), 0);
    assert_int_equal(events_of(found, "layers", "unseen", &us), 0);
    json_decref(found);
    unlink("trace.json");
}

static void test_failures(void **state)
{
    (void)state;
    struct device_trace *trace;
    struct error e;
    assert_int_equal(device_trace_begin("no/such/folder/trace.json", &trace, &e), ERR_IO);
    assert_null(trace);
    assert_non_null(strstr(e.text, "no/such/folder/trace.json"));
    assert_int_equal(device_trace_end(NULL, &e), 0);
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(device_trace_begin("/dev/full", &trace, &e), 0);
        assert_int_equal(device_trace_end(trace, &e), ERR_IO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases_and_layers),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
