// The route table: matching, methods, parameters, and the OpenAPI document made from it.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "master/common/request.h"
#include "master/http/query.h"
#include "master/http/routing/routes.h"
#include "master/http/routing/schemas.h"

static struct routes *routes;

static int make(void **state)
{
    (void)state;
    routes = routes_new(route_table, route_count);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    routes_free(routes);
    return 0;
}

struct found_route {
    int rc;
    const char *path, *allow;
    const char *params[REQUEST_PARAMS_MAX];
};

static struct found_route find_route(struct arena *arena, const char *method, const char *path)
{
    struct route_match m;
    struct error e = {0};
    int rc = routes_match(routes, arena, method, arena_strdup(arena, path), &m, &e);
    struct found_route f = {rc, m.route ? m.route->path : NULL, m.allow, {0}};
    memcpy(f.params, m.params, sizeof f.params);
    if (rc)
        assert_true(e.text[0]);
    return f;
}

static void test_every_route_is_found(void **state)
{
    (void)state;
    struct arena arena = {0};
    for (size_t i = 0; i < route_count; i++) {
        const struct route *r = &route_table[i];
        // Each {..} becomes a value that no literal part has.
        char path[256], *to = path;
        int params = 0;
        for (const char *c = r->path; *c; c++) {
            if (*c != '{') {
                *to++ = *c;
                continue;
            }
            c += strcspn(c, "}");
            to += snprintf(to, 16, "7%d", params++);
        }
        *to = '\0';
        struct found_route f = find_route(&arena, r->method, path);
        assert_int_equal(f.rc, 0);
        assert_string_equal(f.path, r->path);
        for (int p = 0; p < REQUEST_PARAMS_MAX; p++) {
            char value[16];
            snprintf(value, sizeof value, "7%d", p);
            if (p < params)
                assert_string_equal(f.params[p], value);
            else
                assert_null(f.params[p]);
        }
        assert_true(r->summary && *r->summary);
        assert_true(r->kind == ROUTE_STREAM ? r->stream != NULL : true);
        assert_true(r->kind == ROUTE_CORE ? r->core != NULL : true);
        if (r->kind == ROUTE_READ || r->kind == ROUTE_WORKER)
            assert_true((r->view != NULL) != (r->instead != NULL));
    }
    arena_free(&arena);
}

static void test_not_found(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        int rc;
        const char *allow; // NULL if there is none
    } cases[] = {
        {"GET", "/nowhere", ERR_NOT_FOUND, NULL},
        {"GET", "/api/v1", ERR_NOT_FOUND, NULL},
        {"GET", "/api/v1/trials", ERR_METHOD, "POST, PUT, OPTIONS"},
        {"GET", "/api/v1/trials//logs", ERR_NOT_FOUND, NULL},
        {"GET", "/api/v1/trials/1/logs/fields/more", ERR_NOT_FOUND, NULL},
        {"GET", "/a/b/c/d/e/f/g/h/i/j/k/l/m/n", ERR_NOT_FOUND, NULL},
        {"GET", "/api/v1/EXPERIMENTS", ERR_NOT_FOUND, NULL},
        {"GET", "/api/v1/agents/%zz", ERR_INVALID, NULL},
        {"GET", "/api/v1/agents/%00", ERR_INVALID, NULL},
        {"GET", "/api/v1/agents/a%2", ERR_INVALID, NULL},
        {"PUT", "/api/v1/me", ERR_METHOD, "GET, HEAD, OPTIONS"},
        {"POST", "/api/v1/trials/metrics/training_metrics", ERR_METHOD, "GET, HEAD, OPTIONS"},
        {"GET", "/api/v1/auth/login", ERR_METHOD, "POST, OPTIONS"},
        {"BREW", "/api/v1/experiments/1", ERR_METHOD, "GET, HEAD, PATCH, DELETE, OPTIONS"},
        {"OPTIONS", "/api/v1/users", ERR_METHOD, "GET, HEAD, POST, PATCH, OPTIONS"},
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct found_route f = find_route(&arena, cases[i].method, cases[i].path);
        assert_int_equal(f.rc, cases[i].rc);
        assert_null(f.path);
        if (cases[i].allow)
            assert_string_equal(f.allow, cases[i].allow);
        else
            assert_null(f.allow);
    }
    arena_free(&arena);
}

static void test_literal_parts_win(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct found_route f = find_route(&arena, "GET", "/api/v1/trials/metrics/trial_metrics");
    assert_string_equal(f.path, "/api/v1/trials/metrics/trial_metrics");
    assert_null(f.params[0]);
    f = find_route(&arena, "GET",
                   "/api/v1/trials/metrics/logs"); // backtracks from the literal part
    assert_string_equal(f.path, "/api/v1/trials/{trialId}/logs");
    assert_string_equal(f.params[0], "metrics");
    assert_null(f.params[1]);
    f = find_route(&arena, "GET", "/api/v1/users/by%2Fname%20x/by-username");
    assert_string_equal(f.params[0], "by/name x");
    f = find_route(&arena, "HEAD", "/api/v1/me/");
    assert_string_equal(f.path, "/api/v1/me");
    arena_free(&arena);
}

static void test_query(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct query q;
    struct error e = {0};
    char *text =
        arena_strdup(&arena, "a=1&rank_ids=3&rankIds=4&empty=&flag&name=x%20y+z%26&on=True");
    assert_int_equal(query_parse(&arena, text, &q, &e), 0);
    const char *all[4] = {0};
    assert_string_equal(query_get(&q, "a"), "1");
    assert_int_equal(query_all(&q, "rankIds", all, 4), 2);
    assert_string_equal(all[0], "3");
    assert_string_equal(all[1], "4");
    assert_int_equal(query_all(&q, "rank_ids", all, 1), 2);
    assert_string_equal(query_get(&q, "empty"), "");
    assert_string_equal(query_get(&q, "flag"), "");
    assert_string_equal(query_get(&q, "name"), "x y z&");
    assert_null(query_get(&q, "b"));
    assert_true(query_flag(&q, "on"));
    assert_true(query_flag(&q, "a"));
    assert_false(query_flag(&q, "flag"));

    assert_int_equal(query_parse(&arena, arena_strdup(&arena, "a=%4"), &q, &e), ERR_INVALID);
    assert_int_equal(query_parse(&arena, arena_strdup(&arena, "a=%c3%a9"), &q, &e), 0);
    assert_int_equal(query_parse(&arena, arena_strdup(&arena, "a=%c3"), &q, &e), ERR_INVALID);
    assert_int_equal(query_parse(&arena, arena_strdup(&arena, "\xff=1"), &q, &e), ERR_INVALID);
    assert_int_equal(query_parse(&arena, NULL, &q, &e), 0);
    assert_int_equal(q.count, 0);

    struct buf many;
    buf_init(&many, 1 << 16);
    for (int i = 0; i < QUERY_PAIRS_MAX; i++)
        buf_printf(&many, "%sa=1", i ? "&" : "");
    assert_int_equal(query_parse(&arena, arena_strdup(&arena, buf_str(&many)), &q, &e), 0);
    assert_int_equal(q.count, QUERY_PAIRS_MAX);
    buf_puts(&many, "&a=1");
    assert_int_equal(query_parse(&arena, arena_strdup(&arena, buf_str(&many)), &q, &e),
                     ERR_TOO_LARGE);
    buf_free(&many);
    arena_free(&arena);
}

static const struct route *route_of(const char *method, const char *path)
{
    for (size_t i = 0; i < route_count; i++)
        if (!strcasecmp(route_table[i].method, method) && !strcmp(route_table[i].path, path))
            return &route_table[i];
    fail_msg("%s %s is in the document, but no call", method, path);
    return NULL;
}

static void test_openapi(void **state)
{
    (void)state;
    char *text = routes_openapi(route_table, route_count);
    json_error_t why;
    json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!doc)
        fail_msg("%s at %d", why.text, why.position);
    assert_string_equal(jget_string(doc, "openapi", ""), "3.1.0");
    const json_t *paths = jget(doc, "paths");
    size_t operations = 0;
    const char *path, *method;
    json_t *item, *operation;
    json_t *ids = json_object();
    json_object_foreach((json_t *)(uintptr_t)paths, path, item)
        json_object_foreach(item, method, operation)
    {
        const char *id = jget_string(operation, "operationId", "");
        assert_true(*id && !json_object_get(ids, id));
        json_object_set_new(ids, id, json_true());
        assert_true(jget(operation, "responses") && jget(operation, "summary"));
        const struct route *r = route_of(method, path);
        assert_int_equal(jget(operation, "requestBody") != NULL, r->takes != NULL);
        assert_true(!r->takes || r->body != BODY_NONE);
        const json_t *parameter;
        size_t i, in_path = 0, braces = 0;
        json_array_foreach(jget(operation, "parameters"), i, parameter)
        {
            assert_true(*jget_string(parameter, "name", ""));
            in_path += !strcmp(jget_string(parameter, "in", ""), "path");
        }
        for (const char *c = path; *c; c++)
            braces += *c == '{';
        assert_int_equal(in_path, braces);
        operations++;
    }
    assert_int_equal(operations, route_count);
    const json_t *why_call =
        jget(jget(jget(doc, "paths"), "/api/v1/experiments/{experimentId}/why"), "get");
    assert_string_equal(jget_string(why_call, "x-muster", ""), "ours");
    json_decref(ids);
    json_decref(doc);
    free(text);
}

// Parses `text` as JSON.
static json_t *parse_json(const char *text)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 1 << 16);
    jw_init(&w, &out);
    schema_write(&w, text, IN_ANSWER, "");
    json_t *value = json_loads(buf_str(&out), JSON_REJECT_DUPLICATES, NULL);
    buf_free(&out);
    assert_non_null(value);
    return value;
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"int", "{\"type\":\"integer\"}"},
        {"User", "{\"$ref\":\"#/components/schemas/User\"}"},
        {"[User]", "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/User\"}}"},
        {"a:int b?:[string] +c?:{digits}",
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
         "\"b\":{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\"}},"
         "\"c\":{\"x-muster\":\"ours\",\"type\":[\"object\",\"null\"],"
         "\"additionalProperties\":{\"type\":\"string\",\"pattern\":\"^-?[0-9]+$\"}}},"
         "\"required\":[\"a\"]}"},
        {"u?:User", "{\"type\":\"object\",\"properties\":{\"u\":{\"oneOf\":[{\"$ref\":"
                    "\"#/components/schemas/User\"},{\"type\":\"null\"}]}},\"required\":[]}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *made = parse_json(cases[i].text), *meant = json_loads(cases[i].json, 0, NULL);
        assert_non_null(meant);
        if (!json_equal(made, meant))
            fail_msg("%s: %s", cases[i].text, json_dumps(made, 0));
        json_decref(made);
        json_decref(meant);
    }
    assert_string_equal(schema_of_parameter("limit 5", 5), "int");
    assert_string_equal(schema_of_parameter("limits", 6), "string");
}

// The tables change with the API, so the cases use rows that will hardly change.
static void test_descriptions(void **state)
{
    (void)state;
    static const char call[] = "PATCH /api/v1/trials/{trialId}";
    static const struct {
        enum described place;
        const char *owner, *field, *key; // key NULL: no row
    } cases[] = {
        {IN_PATH, call, "trialId", "{trialId}"},
        {IN_BODY, call, "trialId", "{} repeated"},
        {IN_ANSWER, call, "trial", "trial"},
        {IN_BODY, call, "state", "PATCH /api/v1/trials/{trialId} state"},
        {IN_ANSWER, call, "state", NULL},
        {IN_ANSWER, "POST /api/v1/tokens", "token", "POST /api/v1/tokens -> token"},
        {IN_QUERY, "GET /api/v1/users", "offset", "offset"},
        {IN_SCHEMA, "Pagination", "offset", "Pagination.offset"},
        {IN_SCHEMA, "Pagination", "", "Pagination"},
        {IN_BODY, "PATCH /api/v1/templates/{templateName}", "",
         "PATCH /api/v1/templates/{templateName}"},
        {IN_ANSWER, "GET /resources/allocation/raw", "", "GET /resources/allocation/raw ->"},
        {IN_ANSWER, "GET /api/v1/users", "", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *field = cases[i].field;
        const struct description *d =
            description_find(cases[i].place, cases[i].owner, field, strlen(field));
        if (!d != !cases[i].key || (d && strcmp(d->key, cases[i].key)))
            fail_msg("%s, %s: %s", cases[i].owner, field, d ? d->key : "no row");
    }
}

static void test_bodies(void **state)
{
    (void)state;
    static const char shape[] = "id:int name?:string on?:bool at?:time size?:digits x?:float "
                                "labels?:[string] slots?:{int} patch?:PatchResources any?:any";
    static const struct {
        const char *body, *fault; // NULL if there is none
    } cases[] = {
        {"{}", NULL}, // the call itself reports missing fields
        {"{\"id\": 5, \"name\": null, \"on\": true, \"other\": [7]}", NULL},
        {"{\"id\": \"5\", \"size\": 7, \"x\": \"NaN\", \"any\": [{}]}", NULL},
        {"{\"id\": -5.0, \"at\": \"2026-11-21T09:00:00Z\", \"slots\": {\"a\": 1}}", NULL},
        {"{\"id\": 5.5}", "id: an integer is expected here"},
        {"{\"id\": \"5x\"}", "id: an integer"},
        {"{\"id\": \"-\"}", "id: an integer"},
        {"{\"id\": \"\"}", "id: an integer"},
        {"{\"name\": 5}", "name: a string"},
        {"{\"on\": \"true\"}", "on: true or false"},
        {"{\"at\": {}}", "at: a time"},
        {"{\"labels\": \"a\"}", "labels: a list"},
        {"{\"labels\": [\"a\", 5]}", "labels: item 1: a string"},
        {"{\"slots\": {\"a\": 1, \"b\": []}}", "slots: \"b\": an integer"},
        {"{\"patch\": []}", "patch: an object"},
        {"{\"patch\": {\"max_slots\": \"many\"}}", "patch: maxSlots: an integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        json_t *body = json_loads(cases[i].body, 0, NULL);
        assert_non_null(body);
        assert_int_equal(schema_check(shape, body, &e), cases[i].fault ? ERR_INVALID : 0);
        if (cases[i].fault && !strstr(e.text, cases[i].fault))
            fail_msg("%s: %s", cases[i].body, e.text);
        json_decref(body);
    }
}

static void test_numbers(void **state)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "0x10",
                                      "1.0",
                                      "1e3",
                                      "--1",
                                      "1-",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999999",
                                      "18446744073709551616"};
    int64_t number;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (request_number(bad[i], &number))
            fail_msg("\"%s\": %lld", bad[i], (long long)number);
    assert_true(request_number("9223372036854775807", &number));
    assert_int_equal(number, INT64_MAX);
    assert_true(request_number("-9223372036854775808", &number));
    assert_int_equal(number, INT64_MIN);
    assert_true(request_number("007", &number));
    assert_int_equal(number, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_is_found),
        cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_literal_parts_win),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_openapi),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
