// Slots of a machine with and without GPUs; fake_nvml.c is the driver.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/gpu/gpu_monitor.h"
#include "agent/slots.h"
#include "base/clock.h"
#include "base/text/json.h"

static void cpu_slots(void **state)
{
    (void)state;
    struct slots s;
    assert_int_equal(slots_find(&s, 3, true, NULL), 0);
    assert_int_equal(s.count, 3);
    assert_false(s.cuda);
    assert_true(s.items[2].memory > 0);
    json_t *list = slots_json(&s);
    assert_int_equal(json_array_size(list), 3);
    const json_t *last = json_array_get(list, 2);
    assert_int_equal(jget_int(last, "id", -1), 2);
    assert_string_equal(jget_string(last, "type", ""), "CPU");
    assert_string_equal(jget_string(last, "uuid", ""), "cpu-2");
    assert_string_not_equal(jget_string(last, "name", ""), "");
    json_decref(list);
    slots_free(&s);
}

static void one_cpu_slot_per_core(void **state)
{
    (void)state;
    struct slots s;
    assert_int_equal(slots_find(&s, 0, false, NULL), 0);
    assert_true(s.count >= 1);
    slots_free(&s);
}

static void gpus(void **state)
{
    (void)state;
    struct slots s;
    setenv("FAKE_GPUS", "2", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), 0);
    assert_true(s.cuda);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.items[1].name, "Fake GPU");
    assert_string_equal(s.items[1].uuid, "GPU-0000-1");
    assert_true(s.items[1].memory == INT64_C(80) << 30);
    assert_int_equal(s.items[1].fault.grade, FAULT_NONE);
    json_t *list = slots_json(&s);
    const json_t *second = json_array_get(list, 1);
    assert_string_equal(jget_string(second, "type", ""), "CUDA");
    assert_string_equal(jget_string(second, "pciBusId", ""), "00000000:02:00.0");
    assert_string_equal(jget_string(second, "driver", ""), "550.54.15");
    assert_null(jget(second, "nvlinkGroup"));
    assert_null(jget(second, "fault"));
    json_decref(list);
    slots_free(&s);
}

static void who_is_near_whom(void **state)
{
    (void)state;
    struct slots s;
    setenv("FAKE_GPUS", "8", 1);
    setenv("FAKE_LINKED", "2", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), 0);
    unsetenv("FAKE_LINKED");
    for (int i = 0; i < 8; i++) {
        assert_int_equal(s.items[i].gpu.nvlink, i / 2);
        assert_int_equal(s.items[i].gpu.numa, i / 4);
    }
    json_t *list = slots_json(&s);
    assert_int_equal(jget_int(json_array_get(list, 7), "nvlinkGroup", -1), 3);
    assert_int_equal(jget_int(json_array_get(list, 7), "numaGroup", -1), 1);
    json_decref(list);
    slots_free(&s);
}

// 0 is near 4 through 2; 1 and 5 are near no other.
static void groups(void **state)
{
    (void)state;
    bool near[6][6] = {0};
    int group[6];
    near[0][2] = near[2][0] = near[2][4] = near[4][2] = true;
    slots_group(&near[0][0], 6, group);
    const int expect[6] = {0, -1, 0, -1, 0, -1};
    assert_memory_equal(group, expect, sizeof expect);
}

static void instances(void **state)
{
    (void)state;
    struct slots s;
    struct error e = {0};
    setenv("FAKE_GPUS", "2", 1);
    setenv("FAKE_INSTANCES", "3", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, &e), 0);
    assert_int_equal(s.count, 6);
    assert_string_equal(s.items[0].uuid, "MIG-0000-0-1");
    assert_string_equal(s.items[5].uuid, "MIG-0000-1-3");
    assert_string_equal(s.items[5].name, "Fake GPU MIG 1g.10gb");
    assert_string_equal(s.items[5].gpu.bus_id, "00000000:02:00.0");
    assert_true(s.items[5].memory == INT64_C(10) << 30);
    assert_int_equal(s.items[5].gpu.instance, 9);
    assert_int_equal(s.items[2].gpu.numa, s.items[0].gpu.numa); // the same GPU
    slots_free(&s);
    setenv("FAKE_INSTANCES", "0", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "nvidia-smi mig -cgi"));
    unsetenv("FAKE_INSTANCES");
}

// The other GPUs are used and keep their numbers.
static void a_gpu_is_lost_at_the_start(void **state)
{
    (void)state;
    struct slots s;
    static const char *const ways[] = {"FAKE_LOST_GPU", "FAKE_LATER_LOST"};
    setenv("FAKE_GPUS", "3", 1);
    for (int i = 0; i < 2; i++) {
        setenv(ways[i], "1", 1);
        assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), 0);
        unsetenv(ways[i]);
        assert_int_equal(s.count, 3);
        assert_string_equal(s.items[1].uuid, "lost-1");
        assert_int_equal(s.items[1].fault.grade, FAULT_ENDS);
        assert_string_equal(s.items[2].uuid, "GPU-0000-2");
        json_t *list = slots_json(&s);
        const json_t *fault = jget(json_array_get(list, 1), "fault");
        assert_string_equal(jget_string(fault, "grade", ""), "ends");
        assert_null(jget(fault, "time"));
        json_decref(list);
        slots_free(&s);
    }
}

static void memory_rows(void **state)
{
    (void)state;
    struct slots s;
    setenv("FAKE_GPUS", "2", 1);
    setenv("FAKE_REMAP_PENDING", "0", 1);
    setenv("FAKE_REMAP_FAILED", "1", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), 0);
    unsetenv("FAKE_REMAP_PENDING");
    unsetenv("FAKE_REMAP_FAILED");
    assert_int_equal(s.items[0].fault.grade, FAULT_NOTED);
    assert_int_equal(s.items[1].fault.grade, FAULT_DRAINS);
    slots_free(&s);
}

static void the_worst_fault_stays(void **state)
{
    (void)state;
    struct agent_slot slot = {0};
    int64_t minute = 60 * INT64_C(1000000), now = 1000 * minute;
    assert_true(slot_report_xid(&slot, 31, now));
    assert_int_equal(slot.fault.grade, FAULT_NOTED);
    assert_false(slot_report_xid(&slot, 31, now + minute - 1)); // a repetition
    assert_true(slot_report_xid(&slot, 31, now + minute));
    assert_true(slot_report_xid(&slot, 13, now + minute)); // another fault
    assert_true(slot_report_xid(&slot, 64, now + minute));
    assert_int_equal(slot.fault.grade, FAULT_DRAINS);
    assert_true(slot_report_xid(&slot, 79, now + minute));
    assert_string_equal(slot.fault.reason,
                        "Xid 79, the GPU has fallen off the bus; restart the machine");
    assert_false(slot_report_xid(&slot, 13, now + 9 * minute));
    assert_false(slot_report_xid(&slot, 64, now + 9 * minute));
    assert_int_equal(slot.fault.grade, FAULT_ENDS);
}

static void words_for_xids(void **state)
{
    (void)state;
    static const struct {
        int xid;
        enum fault_grade grade;
    } expect[] = {{13, FAULT_NOTED},  {43, FAULT_NOTED}, {48, FAULT_ENDS},  {63, FAULT_NOTED},
                  {64, FAULT_DRAINS}, {74, FAULT_ENDS},  {79, FAULT_ENDS},  {94, FAULT_NOTED},
                  {95, FAULT_ENDS},   {119, FAULT_ENDS}, {999, FAULT_NOTED}};
    for (size_t i = 0; i < sizeof expect / sizeof *expect; i++) {
        enum fault_grade grade = FAULT_NONE;
        assert_true(strlen(xid_describe(expect[i].xid, &grade)) > 10);
        assert_int_equal(grade, expect[i].grade);
    }
    enum fault_grade grade;
    assert_string_equal(xid_describe(1, &grade), "see NVIDIA's catalogue of Xid errors");
}

// --- the GPU monitor -----------------------------------------------------------------------------

static void never_woken(void *ctx)
{
    (void)ctx;
}

static struct inbox_message *next_note(struct inbox *n, enum inbox_message_kind kind)
{
    for (int i = 0; i < 1000; i++) {
        struct inbox_message *message = inbox_receive(n);
        if (message && message->kind == kind)
            return message;
        if (message)
            inbox_message_free(message);
        else
            clock_sleep_us(10 * 1000);
    }
    fail_msg("no message within 10 s");
    return NULL;
}

static void expect_fault(struct inbox *n, size_t slot, long long xid)
{
    struct inbox_message *message = next_note(n, INBOX_FAULT);
    assert_int_equal(message->slot, slot);
    assert_int_equal(message->xid, xid);
    inbox_message_free(message);
}

static void write_events(const char *lines)
{
    FILE *f = fopen(getenv("FAKE_NVML_EVENTS"), "w");
    assert_non_null(f);
    fputs(lines, f);
    fclose(f);
}

static void monitor_start(struct slots *s, struct inbox *inbox, struct gpu_monitor **out)
{
    *inbox = (struct inbox){.box = mailbox_new(100), .wake = never_woken};
    assert_int_equal(slots_find_gpus(s, FAKE_NVML, NULL), 0);
    assert_int_equal(gpu_monitor_start(s, inbox, out, NULL), 0);
}

static void stop_watching(struct slots *s, struct inbox *inbox, struct gpu_monitor *w)
{
    gpu_monitor_stop(w);
    mailbox_close(inbox->box);
    for (struct inbox_message *message; (message = inbox_receive(inbox));)
        inbox_message_free(message);
    mailbox_free(inbox->box);
    slots_free(s);
}

static void use_and_faults(void **state)
{
    (void)state;
    struct slots s;
    struct inbox inbox;
    struct gpu_monitor *w;
    setenv("FAKE_GPUS", "2", 1);
    setenv("FAKE_NVML_EVENTS", "test_slots.events", 1);
    write_events("1 79 -1\n0 0 -1\n");
    monitor_start(&s, &inbox, &w);
    struct inbox_message *message = next_note(&inbox, INBOX_USAGE);
    assert_string_equal(jget_string(message->usage, "group", ""), "gpu");
    const json_t *second = json_array_get(jget(message->usage, "slots"), 1);
    assert_int_equal(jget_int(second, "gpu_util", -1), 41);
    assert_true(jget_int(second, "gpu_free_memory", -1) == INT64_C(79) << 30);
    assert_int_equal(jget_int(second, "gpu_temperature", -1), 61);
    assert_true(jget_double(second, "gpu_power", 0) == 250.5);
    inbox_message_free(message);
    expect_fault(&inbox, 1, 79);
    expect_fault(&inbox, 0, XID_DOUBLE_BIT_ECC);
    stop_watching(&s, &inbox, w);
    remove("test_slots.events");
}

// A fault of an instance affects only that instance; a fault of the GPU affects all of them.
static void faults_of_instances(void **state)
{
    (void)state;
    struct slots s;
    struct inbox inbox;
    struct gpu_monitor *w;
    setenv("FAKE_GPUS", "1", 1);
    setenv("FAKE_INSTANCES", "2", 1);
    setenv("FAKE_NVML_EVENTS", "test_slots.events", 1);
    write_events("");
    monitor_start(&s, &inbox, &w);
    struct inbox_message *message = next_note(&inbox, INBOX_USAGE);
    const json_t *second = json_array_get(jget(message->usage, "slots"), 1);
    assert_null(jget(second, "gpu_util")); // the driver does not report it for instances
    assert_int_equal(jget_int(second, "gpu_temperature", -1), 61);
    inbox_message_free(message);
    // Unloading the fake library resets its position in the file of events.
    write_events("0 31 8\n0 64 -1\n");
    expect_fault(&inbox, 1, 31);
    expect_fault(&inbox, 0, 64);
    expect_fault(&inbox, 1, 64);
    stop_watching(&s, &inbox, w);
    unsetenv("FAKE_INSTANCES");
    remove("test_slots.events");
}

static void found_lost_by_a_sample(void **state)
{
    (void)state;
    struct slots s;
    struct inbox inbox;
    struct gpu_monitor *w;
    setenv("FAKE_GPUS", "2", 1);
    unsetenv("FAKE_NVML_EVENTS");
    inbox = (struct inbox){.box = mailbox_new(100), .wake = never_woken};
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), 0);
    setenv("FAKE_LATER_LOST", "1", 1);
    assert_int_equal(gpu_monitor_start(&s, &inbox, &w, NULL), 0);
    expect_fault(&inbox, 1, XID_OFF_THE_BUS);
    unsetenv("FAKE_LATER_LOST");
    struct inbox_message *message = next_note(&inbox, INBOX_USAGE);
    assert_true(json_is_null(json_array_get(jget(message->usage, "slots"), 1)));
    inbox_message_free(message);
    stop_watching(&s, &inbox, w);
}

static void machines_without_gpus(void **state)
{
    (void)state;
    struct slots s;
    assert_int_equal(slots_find_gpus(&s, "libno-such-library.so.1", NULL), ERR_NOT_FOUND);
    setenv("FAKE_GPUS", "0", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), ERR_NOT_FOUND);
    setenv("FAKE_NVML_ERROR", "9", 1); // the driver is not loaded
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, NULL), ERR_NOT_FOUND);
    unsetenv("FAKE_NVML_ERROR");
    assert_int_equal(s.count, 0);
}

// A failing GPU must not turn a GPU machine into one with CPU slots.
static void driver_in_trouble(void **state)
{
    (void)state;
    struct slots s;
    struct error e = {0};
    setenv("FAKE_NVML_ERROR", "999", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, &e), ERR_IO);
    assert_non_null(strstr(e.text, "Unknown Error"));
    unsetenv("FAKE_NVML_ERROR");
    setenv("FAKE_GPUS", "3", 1);
    setenv("FAKE_BROKEN_GPU", "2", 1);
    assert_int_equal(slots_find_gpus(&s, FAKE_NVML, &e), ERR_IO);
    assert_non_null(strstr(e.text, "query GPU 2: Unknown Error"));
    unsetenv("FAKE_BROKEN_GPU");
    assert_null(s.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_slots),
        cmocka_unit_test(one_cpu_slot_per_core),
        cmocka_unit_test(gpus),
        cmocka_unit_test(machines_without_gpus),
        cmocka_unit_test(driver_in_trouble),
        cmocka_unit_test(who_is_near_whom),
        cmocka_unit_test(groups),
        cmocka_unit_test(instances),
        cmocka_unit_test(a_gpu_is_lost_at_the_start),
        cmocka_unit_test(memory_rows),
        cmocka_unit_test(the_worst_fault_stays),
        cmocka_unit_test(words_for_xids),
        cmocka_unit_test(use_and_faults),
        cmocka_unit_test(faults_of_instances),
        cmocka_unit_test(found_lost_by_a_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
