// Records of another cluster, also those that no source of the importer would send.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <string.h>

#include "master/imports/module.h"

#define EXPERIMENT(old)                                                                            \
    "{'kind': 'experiment', 'old': '" #old "', 'name': 'x', 'owner': '7', 'project': '4',"         \
    " 'state': 'COMPLETED', 'config': {'checkpoint_storage':"                                      \
    " {'type': 's3', 'prefix': null, 'bucket': 'there', 'save_trial_best': 1}}}"
#define TRIAL(old, experiment)                                                                     \
    "{'kind': 'trial', 'old': '" #old "', 'experiment': '" #experiment "', 'state': 'COMPLETED'}"
#define CHECKPOINT(digit, storage)                                                                 \
    "{'kind': 'checkpoint', 'old': '11111111-1111-4111-8111-11111111111" #digit "',"               \
    " 'trial': '5', 'state': 'COMPLETED'" storage "}"

// Sends records in one call, with ' for "; returns the answer's results as text.
static const char *outcomes(const char *records)
{
    static char text[1024];
    char body[2048];
    snprintf(body, sizeof body, "{\"records\": [%s]}", records);
    for (char *c = body; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *answer = ask(core_import_records, as_user(OWNER, true), "1", NULL, body), *one;
    size_t i;
    assert_int_equal(last_status, 200);
    *text = '\0';
    json_array_foreach(jget(answer, "results"), i, one)
    {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%s%s %lld%s%s", i ? ", " : "",
                 jget_string(one, "outcome", ""), (long long)jget_int(one, "id", 0),
                 jget(one, "reason") ? " " : "", jget_string(one, "reason", ""));
    }
    json_decref(answer);
    return text;
}

// An import that keeps its ids, with two experiments.
static void begin_import(void)
{
    call_ok(core_import_begin, as_user(OWNER, true), NULL,
            "{\"cluster\": \"other\", \"lastExperiment\": 2, \"lastTrial\": 5}");
    outcomes("{'kind': 'user', 'old': '7', 'username': 'owner'}"); // before what refers to it
    outcomes("{'kind': 'workspace', 'old': '3', 'name': 'w', 'owner': '7'}");
    outcomes("{'kind': 'project', 'old': '4', 'name': 'p', 'owner': '7', 'workspace': '3'}");
    assert_string_equal(outcomes(EXPERIMENT(1) "," EXPERIMENT(2)), "NEW 1, NEW 2");
}

// Two experiments name the same trial: the first one gets it, and its log has one line.
static void test_one_trial_of_two_experiments(void **state)
{
    (void)state;
    begin_import();
    assert_string_equal(outcomes(TRIAL(5, 1) "," TRIAL(5, 2) "," TRIAL(5, 1)),
                        "NEW 5, NEW 5, NEW 5");
    assert_stored("SELECT group_concat(id || ' of ' || experiment_id) FROM trials", "5 of 1");
    assert_stored("SELECT count(*) || ' ' || count(DISTINCT task_id) FROM log_chunks", "2 1");
    assert_string_equal(outcomes(TRIAL(5, 2)), "EXISTING 5");
}

// The record's storage, or that of its experiment, has one number, in any order and with nulls.
static void test_storage_is_stored_once(void **state)
{
    (void)state;
    begin_import();
    outcomes(TRIAL(5, 1));
    outcomes(CHECKPOINT(0, "") "," CHECKPOINT(1, ", 'storage': null"));
    outcomes(CHECKPOINT(2, ", 'storage': {'bucket': 'there', 'type': 's3'}"));
    outcomes(CHECKPOINT(3, ", 'storage': {'type': 's3', 'bucket': 'there', 'prefix': null}"));
    assert_stored("SELECT count(*) FROM checkpoints", "4");
    assert_stored("SELECT group_concat(storage, ' ') FROM storages",
                  "{\"bucket\":\"there\",\"type\":\"s3\"}");
    assert_stored("SELECT storage FROM checkpoints WHERE uuid LIKE '%0'",
                  "{\"bucket\":\"there\",\"save_trial_best\":1,\"type\":\"s3\"}");
    outcomes(CHECKPOINT(4, ", 'storage': 'nowhere'"));
    assert_stored("SELECT storage FROM checkpoints WHERE uuid LIKE '%4'", "{}");
}

// The reason of a skipped record is there, although a limit cuts a character of the name in it.
static void test_reason_with_a_cut_name(void **state)
{
    (void)state;
    begin_import();
    assert_string_equal(
        outcomes("{'kind': 'trial', 'old': '9', 'experiment': '1', 'state':"
                 " '12345678901234567890123456789012\xc3\xa4'}"),
        "SKIPPED 0 its state 12345678901234567890123456789012 is not COMPLETED, CANCELED or ERROR");
    assert_string_equal(
        outcomes("{'kind': 'trial', 'old': '9', 'experiment': '1', 'state':"
                 " '1234567890123456789012345678901\xc3\xa4'}"),
        "SKIPPED 0 its state 1234567890123456789012345678901 is not COMPLETED, CANCELED or ERROR");
}

// The client repeats a call whose answer it has not seen. The first one may not be committed yet.
static void test_a_repeated_call_waits_for_the_first(void **state)
{
    (void)state;
    begin_import();
    for (int i = 10; i < 30; i++) {
        struct core_call *calls[2];
        char body[400];
        snprintf(
            body, sizeof body,
            "{\"records\": [{\"kind\": \"experiment\", \"old\": \"%d\", \"name\": \"x\","
            " \"owner\": \"7\", \"project\": \"4\", \"state\": \"COMPLETED\", \"config\": {}}]}",
            i);
        for (int k = 0; k < 2; k++)
            calls[k] = call_start(core_import_records, as_user(OWNER, true), "1", NULL, body);
        for (int k = 0; k < 2; k++) {
            json_decref(call_end(calls[k]));
            assert_true(last_status == 200 || last_status == 503);
        }
        call_ok(core_import_records, as_user(OWNER, true), "1", body); // no wait after an answer
    }
    assert_stored("SELECT count(*) FROM experiments", "22");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_trial_of_two_experiments, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_a_repeated_call_waits_for_the_first, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_storage_is_stored_once, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_reason_with_a_cut_name, cluster_setup,
                                        cluster_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
