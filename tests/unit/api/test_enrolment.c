// The enrolment string: parsing, writing, and the messages of damaged ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/enrolment.h"

#define HEX   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TOKEN "feedfacefeedfacefeedfacefeedfacefeedfacefeedfacefeedfacefeedface"

static void expect(const char *text, const char *url, enum enrolment_authority authority)
{
    struct enrolment s;
    struct error e;
    assert_int_equal(enrolment_parse(text, &s, &e), 0);
    char *found = enrolment_url(&s), *again = enrolment_format(&s);
    assert_string_equal(found, url);
    assert_int_equal(s.authority, authority);
    assert_string_equal(s.fingerprint, authority == ENROLMENT_PINNED ? HEX : "");
    assert_string_equal(s.token, TOKEN);
    assert_string_equal(again, text);
    free(found);
    free(again);
}

static void test_forms(void **state)
{
    (void)state;
    expect("muster1:head:8080:" HEX ":" TOKEN, "https://head:8080", ENROLMENT_PINNED);
    expect("muster1:10.0.0.7:1:public:" TOKEN, "https://10.0.0.7:1", ENROLMENT_PUBLIC);
    expect("muster1:a-b.example.org:65535:plain:" TOKEN, "http://a-b.example.org:65535",
           ENROLMENT_PLAIN);
    expect("muster1:[2001:db8::1]:443:" HEX ":" TOKEN, "https://[2001:db8::1]:443",
           ENROLMENT_PINNED);
}

// A file ends with a newline, and a terminal adds blanks; capital digits are the same digits.
static void test_blanks_and_case(void **state)
{
    struct enrolment s;
    struct error e;
    (void)state;
    assert_int_equal(
        enrolment_parse(" \tmuster1:h:8080:0123456789ABCDEF0123456789abcdef0123456789abcdef"
                        "0123456789abcdef:" TOKEN " \r\n",
                        &s, &e),
        0);
    assert_string_equal(s.fingerprint, HEX);
    assert_string_equal(s.host, "h");
}

static void test_damage(void **state)
{
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"", "begins with muster1:"},
        {"muster2:h:8080:" HEX ":" TOKEN, "begins with muster1:"},
        {"https://head:8080", "begins with muster1:"},
        {"muster1:h:8080:" HEX ":" TOKEN " more", "more than one word"},
        {"muster1::8080:" HEX ":" TOKEN, "the host"},
        {"muster1:h/../x:8080:" HEX ":" TOKEN, "the host"},
        {"muster1:[::1:8080:" HEX ":" TOKEN, "the host"},
        {"muster1:[]:8080:" HEX ":" TOKEN, "the host"},
        {"muster1:[head]:8080:" HEX ":" TOKEN, "the host"},
        {"muster1:2001:db8::1:8080:" HEX ":" TOKEN, "the port"},
        {"muster1:h:0:" HEX ":" TOKEN, "the port"},
        {"muster1:h:080:" HEX ":" TOKEN, "the port"},
        {"muster1:h:65536:" HEX ":" TOKEN, "the port"},
        {"muster1:h:-1:" HEX ":" TOKEN, "the port"},
        {"muster1:h::" HEX ":" TOKEN, "the port"},
        {"muster1:h:8080::" TOKEN, "the fingerprint"},
        {"muster1:h:8080:" HEX "0:" TOKEN, "the fingerprint"},
        {"muster1:h:8080:publicly:" TOKEN, "the fingerprint"},
        {"muster1:h:8080:" HEX, "the token"},
        {"muster1:h:8080:" HEX ":" TOKEN "0", "the token"},
        {"muster1:h:8080:" HEX ":" TOKEN ":", "the token"},
        {"muster1:h:8080:" HEX ":g" TOKEN, "the token"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct enrolment s;
        struct error e = {0};
        assert_int_equal(enrolment_parse(cases[i].text, &s, &e), ERR_INVALID);
        if (!strstr(e.text, cases[i].names))
            fail_msg("%s: %s", cases[i].text, e.text);
        assert_null(strstr(e.text, "feedface")); // a message may end in a log
    }
}

static void test_longest_host(void **state)
{
    struct enrolment s;
    struct error e;
    char text[ENROLMENT_TEXT_MAX + 8], host[ENROLMENT_HOST + 1];
    (void)state;
    memset(host, 'h', sizeof host);
    for (int len = ENROLMENT_HOST - 1; len <= ENROLMENT_HOST; len++) {
        snprintf(text, sizeof text, "muster1:%.*s:65535:" HEX ":" TOKEN, len, host);
        assert_int_equal(enrolment_parse(text, &s, &e), len < ENROLMENT_HOST ? 0 : ERR_INVALID);
    }
}

static void expect_url(const char *url, const char *fingerprint, const char *host, int port,
                       enum enrolment_authority authority)
{
    struct enrolment s = {0};
    struct error e;
    assert_int_equal(enrolment_set_url(&s, url, fingerprint, &e), 0);
    assert_string_equal(s.host, host);
    assert_int_equal(s.port, port);
    assert_int_equal(s.authority, authority);
    assert_string_equal(s.fingerprint, authority == ENROLMENT_PINNED ? HEX : "");
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {
        "",           "head:8080",      "ftp://head",     "https://",
        "https://:1", "http://h:8080x", "https://h/path", "http://h:"};
    (void)state;
    expect_url("https://head:8080", HEX, "head", 8080, ENROLMENT_PINNED);
    expect_url("https://head", "", "head", 443, ENROLMENT_PUBLIC);
    expect_url("http://head/", HEX, "head", 80, ENROLMENT_PLAIN);
    expect_url("HTTPS://[::1]:8080//", HEX, "::1", 8080, ENROLMENT_PINNED);
    expect_url("http://[2001:db8::1]", "", "2001:db8::1", 80, ENROLMENT_PLAIN);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct enrolment s = {0};
        struct error e;
        assert_int_equal(enrolment_set_url(&s, bad[i], HEX, &e), ERR_INVALID);
    }
}

static void test_loopback(void **state)
{
    static const struct {
        const char *host;
        bool expected;
    } cases[] = {{"localhost", true}, {"127.0.0.1", true}, {"127.8.9.1", true},
                 {"::1", true},       {"head", false},     {"127.example.org", false},
                 {"10.0.0.1", false}, {"::2", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct enrolment s = {0};
        snprintf(s.host, sizeof s.host, "%s", cases[i].host);
        assert_int_equal(enrolment_is_loopback(&s), cases[i].expected);
    }
}

static void test_fingerprints(void **state)
{
    char out[SHA256_HEX];
    struct error e;
    (void)state;
    assert_int_equal(fingerprint_parse(HEX, out, &e), 0);
    assert_string_equal(out, HEX);
    assert_int_equal(fingerprint_parse("SHA256:01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF:01:"
                                       "23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF",
                                       out, &e),
                     0);
    assert_string_equal(out, HEX);
    static const char *const bad[] = {"", "sha256:", ":" HEX, HEX "0", HEX " ", "0123", "x" HEX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(fingerprint_parse(bad[i], out, &e), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),        cmocka_unit_test(test_blanks_and_case),
        cmocka_unit_test(test_damage),       cmocka_unit_test(test_longest_host),
        cmocka_unit_test(test_fingerprints), cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
