// Changed values replace the old ones in place; other changes are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "cli/common/overlay.h"

static void expect(const char *text, const char *path, const char *wanted, const char *expected)
{
    json_t *root = json_loads(wanted, 0, NULL);
    char *changed = overlay_text(text, &path, 1, root);
    if (!expected) {
        assert_null(changed);
    } else {
        assert_non_null(changed);
        assert_string_equal(changed, expected);
    }
    free(changed);
    json_decref(root);
}

static void values(void **state)
{
    (void)state;
    expect("# why\na: 1 # one\nb: x\n", "a", "{\"a\":2,\"b\":\"x\"}", "# why\na: 2 # one\nb: x\n");
    expect("a:\n  b: 1\n  c: 2\n", "a.c", "{\"a\":{\"b\":1,\"c\":4}}", "a:\n  b: 1\n  c: 4\n");
    expect("a: {b: 1, c: 2} # two\n", "a.b", "{\"a\":{\"b\":7,\"c\":2}}",
           "a: {b: 7, c: 2} # two\n");
    expect("a: \"x # y\" # z\n", "a", "{\"a\":\"w\"}", "a: \"w\" # z\n");
    expect("a: 1", "b", "{\"a\":1,\"b\":[2]}", "a: 1\nb: [2]\n");
}

// Numbers have the fewest digits that read back equal.
static void numbers(void **state)
{
    (void)state;
    expect("a: 0.2\n", "a", "{\"a\":0.05}", "a: 0.05\n");
    expect("a: 0.2\n", "a", "{\"a\":0.30000000000000004}", "a: 0.30000000000000004\n");
    expect("a: 0.2\n", "a", "{\"a\":1.0e-5}", "a: 1e-5\n");
    json_t *root = json_pack("{s:f, s:f}", "a", 0.1, "b", 1e-5);
    char *text = overlay_value(root, JSON_COMPACT);
    assert_string_equal(text, "{\"a\":0.1,\"b\":1e-5}");
    free(text);
    json_decref(root);
}

static void what_would_mean_something_else(void **state)
{
    (void)state;
    expect("a: [1, 2]\n", "a", "{\"a\":[3]}", NULL);
    expect("a: {}\n", "a.b", "{\"a\":{\"b\":1}}", NULL);
    expect("a: 'it''s'\n", "a", "{\"a\":\"w\"}", NULL);
    expect("a: &x 1\nb: *x\n", "b", "{\"a\":1,\"b\":3,\"c\":4}", NULL);
    expect("a: two\n  lines\n", "a", "{\"a\":\"w\"}", NULL);
    expect("a: 1\n", "a", "{\"a\":2,\"b\":3}", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(numbers),
        cmocka_unit_test(what_would_mean_something_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
