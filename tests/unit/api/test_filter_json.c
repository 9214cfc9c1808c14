// Converts filters and sorts of Determined's web client: the result, that our parser accepts it,
// and refused input.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/filter/filter.h"
#include "api/filter/filter_json.h"

#define TEST(column, operator, value)                                                              \
    "{\"kind\":\"field\",\"columnName\":\"" column "\",\"operator\":\""                            \
    operator"\",\"value\":" value "}"
#define ALL(children)                                                                              \
    "{\"filterGroup\":{\"kind\":\"group\",\"conjunction\":\"and\",\"children\":[" children         \
    "]},\"showArchived\":true}"

static void expect_in(enum filter_list list, const char *json, const char *text)
{
    struct arena arena = {0};
    struct filter_node *tree;
    struct error e = {0};
    struct buf out;
    buf_init(&out, 1 << 16);
    if (filter_of_json(list, json, &out, &e))
        fail_msg("%s: %s", json, e.text);
    assert_string_equal(buf_str(&out), text);
    if (filter_parse(&arena, list, buf_str(&out), &tree, &e))
        fail_msg("%s: %s", text, e.text);
    buf_free(&out);
    arena_free(&arena);
}

static void expect(const char *json, const char *text)
{
    expect_in(FILTER_EXPERIMENTS, json, text);
}

static void refused(const char *json, const char *why)
{
    struct error e = {0};
    struct buf out;
    buf_init(&out, 1 << 16);
    assert_int_equal(filter_of_json(FILTER_EXPERIMENTS, json, &out, &e), ERR_INVALID);
    if (!strstr(e.text, why))
        fail_msg("%s: %s", json, e.text);
    buf_free(&out);
}

static void test_filters(void **state)
{
    (void)state;
    expect(ALL(TEST("name", "contains", "\"a \\\"b\\\\\"")), "((name ~ \"a \\\"b\\\\\"))");
    expect(ALL(TEST("id", "!=", "7") "," TEST("tags", "notContains", "\"x\"")),
           "((id != 7) and not (label ~ \"x\"))");
    expect(ALL(TEST("validation.loss.min", "<", "0.25")), "((validation.\"loss\".min < 0.25))");
    expect(ALL(TEST("training.a.b.last", ">=", "-1")), "((training.\"a.b\" >= -1))");
    expect(ALL(TEST("hp.optimizer.name", "=", "\"adam\"")),
           "((hparams.\"optimizer\".\"name\" = \"adam\"))");
    expect(ALL(TEST("endTime", "isEmpty", "null")), "(not (ended))");
    expect(ALL(TEST("description", "=", "null")), "(id > 0)");
    expect(ALL(""), "id > 0");
    expect("{\"filterGroup\":{\"kind\":\"group\",\"conjunction\":\"or\",\"children\":[" TEST(
               "archived", "=", "true") "," TEST("state", "=", "\"COMPLETED\"") "]}}",
           "((archived = true) or (state = \"COMPLETED\")) and not archived");
}

static void test_filters_of_runs(void **state)
{
    (void)state;
    expect_in(FILTER_RUNS, ALL(TEST("id", "=", "3") "," TEST("experimentId", "=", "4")),
              "((id = 3) and (experiment = 4))");
    expect_in(FILTER_RUNS, ALL(TEST("experimentName", "contains", "\"x\"")), "((name ~ \"x\"))");
    expect_in(FILTER_RUNS, ALL(TEST("hp.width", ">", "2")), "((hparams.\"width\" > 2))");
    refused(ALL(TEST("experimentName", "=", "\"x\"")), "lists have none of this name");
}

static void test_refused(void **state)
{
    (void)state;
    refused("", "filter");
    refused("7", "neither");
    refused("{\"filterGroup\":[]}", "neither");
    refused(ALL("7"), "neither");
    refused(ALL("{\"kind\":\"group\",\"conjunction\":\"xor\",\"children\":[]}"), "neither");
    refused(ALL("{\"kind\":\"group\",\"children\":{}}"), "neither");
    refused(ALL(TEST("no \\\" or 1", "=", "1")), "lists have none of this name");
    refused(ALL(TEST("name", "~", "1")), "not an operator");
    refused(ALL(TEST("name", "=", "{}")), "a value");
    refused(ALL(TEST("validation.loss.mean", "<", "1")), "means");
}

static void expect_sort(const char *sort, const char *text)
{
    struct error e = {0};
    struct buf out;
    buf_init(&out, 1 << 16);
    int err = filter_sort_of_columns(sort, &out, &e);
    if (!text)
        assert_int_equal(err, ERR_INVALID);
    else
        assert_string_equal(err ? e.text : buf_str(&out), text);
    buf_free(&out);
}

static void test_sorts(void **state)
{
    (void)state;
    expect_sort("", "");
    expect_sort("id=desc", "-id");
    expect_sort("validation.loss.min=asc,startTime=desc,", "validation.\"loss\".min,-started");
    expect_sort("id", NULL);
    expect_sort("id=", NULL);
    expect_sort("id=ascending", NULL);
    expect_sort("=asc", NULL);
    expect_sort("nothing=asc", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_filters_of_runs),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_sorts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
