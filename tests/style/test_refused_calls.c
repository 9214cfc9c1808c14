// docs/wire.md, "Refused calls", lists exactly the calls that the route table refuses.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/os/file.h"
#include "master/http/routing/routes.h"

static const char heading[] = "\n## Refused calls\n";
static const char *document; // its path
static char *section;

static int make(void **state)
{
    char *text = NULL;
    size_t len;
    struct error e = {0};
    (void)state;
    if (file_read(document, 1 << 20, &text, &len, &e))
        fail_msg("%s", e.text);
    char *at = strstr(text, heading);
    assert_non_null(at);
    section = xstrdup(at + sizeof heading - 1);
    char *next = strstr(section, "\n## ");
    if (next)
        *next = '\0';
    free(text);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    free(section);
    return 0;
}

static bool is_refused(const struct route *r)
{
    return !strncmp(r->summary, "Refused", strlen("Refused"));
}

// "`POST /groups`", as the document writes a call: without /api/v1.
static char *call_text(const struct route *r)
{
    static const char version[] = "/api/v1";
    bool versioned = !strncmp(r->path, version, sizeof version - 1);
    return xasprintf("`%s %s`", r->method, r->path + (versioned ? sizeof version - 1 : 0));
}

static void test_every_refusal_is_listed(void **state)
{
    int missing = 0;
    (void)state;
    for (size_t i = 0; i < route_count; i++) {
        char *call = is_refused(&route_table[i]) ? call_text(&route_table[i]) : xstrdup("");
        if (!strstr(section, call)) {
            print_error("%s is refused, and not in the list\n", call);
            missing++;
        }
        free(call);
    }
    if (missing)
        fail_msg("docs/wire.md, \"Refused calls\": add %d calls, with the reason", missing);
}

static bool names_refusal(const char *call, size_t len)
{
    bool found = false;
    for (size_t i = 0; i < route_count && !found; i++) {
        char *text = call_text(&route_table[i]);
        found = is_refused(&route_table[i]) && strlen(text) == len && !memcmp(text, call, len);
        free(text);
    }
    return found;
}

// The first cell of a row names the calls; the other cells may name any call.
static void test_nothing_else_is_listed(void **state)
{
    int wrong = 0;
    (void)state;
    for (const char *row = strstr(section, "\n| `"); row; row = strstr(row + 1, "\n| `")) {
        const char *end = strstr(row + 2, " |");
        assert_non_null(end);
        for (const char *call = strchr(row, '`'); call && call < end;) {
            const char *close = strchr(call + 1, '`');
            size_t len = (size_t)(close - call) + 1;
            if (!names_refusal(call, len)) {
                print_error("%.*s is in the list, and no refused call\n", (int)len, call);
                wrong++;
            }
            call = strchr(close + 1, '`');
        }
    }
    if (wrong)
        fail_msg("docs/wire.md, \"Refused calls\": remove %d calls", wrong);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_refusal_is_listed),
        cmocka_unit_test(test_nothing_else_is_listed),
    };
    document = argc > 1 ? argv[1] : "docs/wire.md";
    return cmocka_run_group_tests(tests, make, drop);
}
