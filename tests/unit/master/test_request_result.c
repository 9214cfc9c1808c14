// Results that core handlers leave in a request, and their answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/limits.h"
#include "master/views/live_state/live_state.h"

static const char *render(struct request *rq, view_handler *view)
{
    struct view v = {.rq = rq};
    struct error e = {0};
    buf_reset(&rq->answer);
    jw_init(&v.w, &rq->answer);
    assert_int_equal(view(&v, &e), 0);
    return buf_str(&rq->answer);
}

static void request_end(struct request *rq)
{
    request_release(rq);
    buf_free(&rq->answer);
    arena_free(&rq->arena);
}

static void test_fields_of_every_type(void **state)
{
    struct request rq = {0};
    json_t *list = json_pack("[i,s]", 1, "x");
    char text[] = "RUNNING", raw[] = "{\"a\":1}";
    (void)state;
    buf_init(&rq.answer, 1 << 16);
    request_answer(&rq, ANSWER_INT("id", INT64_MIN), ANSWER_DOUBLE("loss", 0.25),
                   ANSWER_BOOL("preempt", true), ANSWER_STRING("state", text),
                   ANSWER_STRING("uuid", NULL), ANSWER_RAW("metadata", raw),
                   ANSWER_JSON("labels", list));
    memset(text, 'x', sizeof text - 1); // the texts were copied
    memset(raw, 'x', sizeof raw - 1);
    json_decref(list);
    assert_string_equal(render(&rq, render_fields),
                        "{\"id\":-9223372036854775808,\"loss\":0.25,\"preempt\":true,"
                        "\"state\":\"RUNNING\",\"uuid\":null,\"metadata\":{\"a\":1},"
                        "\"labels\":[1,\"x\"]}");
    request_end(&rq);
}

static void test_json_is_copied(void **state)
{
    struct request rq = {0};
    json_t *value = json_pack("{s:[i]}", "a", 1);
    (void)state;
    assert_null(request_copy_json(&rq, NULL));
    const json_t *copy = request_copy_json(&rq, value);
    assert_ptr_not_equal(copy, value);
    assert_true(json_equal(copy, value));
    json_decref(value);
    assert_int_equal(json_array_size(json_object_get(copy, "a")), 1);
    request_release(&rq);
    request_release(&rq); // nothing is left to free
    request_end(&rq);
}

static void test_results_are_limited(void **state)
{
    struct request rq = {0};
    struct error e = {0};
    (void)state;
    rq.arena.used = LIMIT_RESPONSE;
    assert_int_equal(request_check_result(&rq, &e), 0);
    rq.arena.used++;
    assert_int_equal(request_check_result(&rq, &e), ERR_TOO_LARGE);
    assert_non_null(strstr(e.text, "ask for less with limit="));
}

static void test_outcomes_of_a_verb(void **state)
{
    struct request rq = {0};
    const struct action_result items[] = {{7, ""}, {9, "experiment '9' not found"}};
    const struct action_results results = {.items = items, .count = 2}, none = {0};
    (void)state;
    buf_init(&rq.answer, 1 << 16);
    rq.result = &results;
    assert_string_equal(render(&rq, render_action_results),
                        "{\"results\":[{\"id\":7,\"error\":\"\"},"
                        "{\"id\":9,\"error\":\"experiment '9' not found\"}]}");
    rq.result = &none;
    assert_string_equal(render(&rq, render_action_results), "{\"results\":[]}");
    request_end(&rq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_of_every_type),
        cmocka_unit_test(test_json_is_copied),
        cmocka_unit_test(test_results_are_limited),
        cmocka_unit_test(test_outcomes_of_a_verb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
