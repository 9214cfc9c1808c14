// The cookie of the web page: reading it from the headers, and checking the origin of a call.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "master/http/auth/session.h"

#define T64   "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF"
#define OTHER "1123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF"
#define NAME  "muster_session="

static bool cookie_token(const char *cookies)
{
    char token[TOKEN_TEXT];
    memset(token, 'x', sizeof token);
    bool found = session_token(cookies, token);
    assert_true(!found || !strcmp(token, T64));
    return found;
}

static void test_cookies(void **state)
{
    (void)state;
    const char *good[] = {NAME T64,
                          "a=b; " NAME T64,
                          NAME T64 "; a=b",
                          "a=b;" NAME T64 ";c=d",
                          "  \t" NAME T64 " \t;",
                          NAME "\"" T64 "\"",
                          NAME T64 "; " NAME T64,
                          NAME T64 "; " NAME "\"" T64 "\"",
                          ";;; ; =; =x; a; " NAME T64 ";;",
                          "muster_sessions=1; " NAME T64,
                          "x\x01\xff\xfe=\x80; " NAME T64};
    const char *bad[] = {NULL,
                         "",
                         ";",
                         "=",
                         "a=b",
                         T64,
                         "muster_session",
                         NAME,
                         NAME "\"",
                         NAME "\"\"",
                         NAME "0",
                         NAME T64 "0",
                         NAME "\"" T64,
                         NAME T64 "\"",
                         NAME "'" T64 "'",
                         NAME " " T64,
                         "Muster_session=" T64,
                         "xmuster_session=" T64,
                         "muster_session =" T64,
                         NAME T64 "," NAME T64,
                         NAME T64 "; " NAME OTHER,
                         NAME OTHER "; " NAME T64,
                         NAME T64 "; " NAME,
                         NAME "g123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF",
                         NAME "\xff"
                              "123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDE"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!cookie_token(good[i]))
            fail_msg("not read: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (cookie_token(bad[i]))
            fail_msg("read: %s", bad[i]);
}

// As long as a header can be: far more cookies than a browser keeps.
static void test_many_cookies(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "cookie%d=%d; ", i, i);
    assert_false(cookie_token(buf_str(&text)));
    buf_puts(&text, NAME T64);
    assert_true(cookie_token(buf_str(&text)));
    buf_reset(&text);
    for (int i = 0; i < 100000; i++)
        buf_puts(&text, "0");
    assert_false(cookie_token(buf_str(&text)));
    buf_free(&text);
}

static const char *origin, *host, *site;

static const char *header(struct request *rq, const char *name)
{
    (void)rq;
    return !strcmp(name, "Origin") ? origin
           : !strcmp(name, "Host") ? host
                                   : (must(!strcmp(name, "Sec-Fetch-Site")), site);
}

static bool from_own_page(const char *from, const char *to, const char *fetch_site, bool tls)
{
    struct request rq = {.header = header};
    struct error e = {0};
    origin = from, host = to, site = fetch_site;
    int rc = session_check_origin(&rq, tls, &e);
    assert_true(!rc || rc == ERR_FORBIDDEN);
    assert_true(!rc || *e.text);
    return !rc;
}

static void test_origins(void **state)
{
    (void)state;
    assert_true(from_own_page("http://m:8080", "m:8080", NULL, false));
    assert_true(from_own_page("http://M.example", "m.Example", NULL, false));
    assert_true(from_own_page("http://[::1]:8080", "[::1]:8080", NULL, false));
    assert_true(from_own_page("https://m", "m", NULL, false)); // through a proxy
    assert_true(from_own_page("https://m", "m", NULL, true));
    assert_false(from_own_page("http://m", "m", NULL,
                               true)); // a page over plain HTTP may have been changed on its way
    assert_true(from_own_page(NULL, "m", "same-origin", true));

    assert_false(from_own_page("http://m:8081", "m:8080", NULL, false));
    assert_false(from_own_page("http://m", "m:8080", NULL, false));
    assert_false(from_own_page("http://m:8080.evil", "m:8080", NULL, false));
    assert_false(from_own_page("http://evil@m:8080", "m:8080", NULL, false));
    assert_false(from_own_page("http://m:8080/", "m:8080", NULL, false));
    assert_false(from_own_page("m:8080", "m:8080", NULL, false));
    assert_false(from_own_page("null", "null", NULL, false));
    assert_false(from_own_page("", "", NULL, false));
    assert_false(from_own_page("http://", NULL, NULL, false));
    assert_false(from_own_page("http://m", NULL, NULL, false));
    assert_false(from_own_page("http://m", "n", "same-origin", false)); // Origin takes precedence
    assert_false(from_own_page(NULL, "m", NULL, false));
    assert_false(from_own_page(NULL, "m", "none", false));
    assert_false(from_own_page(NULL, "m", "same-site", false));
    assert_false(from_own_page(NULL, "m", "same-origin, same-origin", false));
}

// Reads are free; every method that may change something needs the origin.
static void test_methods(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        bool needs;
    } methods[] = {{"GET", false},  {"HEAD", false},  {"POST", true},    {"PUT", true},
                   {"PATCH", true}, {"DELETE", true}, {"OPTIONS", true}, {"get", true}};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (session_needs_origin(methods[i].method) != methods[i].needs)
            fail_msg("%s", methods[i].method);
}

static void test_set_cookie(void **state)
{
    (void)state;
    struct request rq = {.header = header};
    origin = "http://m";
    assert_string_equal(session_cookie(&rq, T64, false),
                        NAME T64 "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict");
    assert_string_equal(session_cookie(&rq, T64, true),
                        NAME T64 "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure");
    origin = "https://m"; // through a proxy
    assert_string_equal(session_cookie(&rq, T64, false),
                        NAME T64 "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure");
    origin = NULL;
    assert_string_equal(session_cookie(&rq, "", true),
                        NAME "; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure");
    assert_null(strstr(session_cookie(&rq, "", false), "Secure"));
    arena_free(&rq.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cookies),    cmocka_unit_test(test_many_cookies),
        cmocka_unit_test(test_origins),    cmocka_unit_test(test_methods),
        cmocka_unit_test(test_set_cookie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
