// Tests which callers may read GET /metrics.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os/file.h"
#include "master/http/auth/scrape.h"

static const struct scrape_caller here = {.address = "127.0.0.1"}, there = {.address = "192.0.2.7"};

static void test_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        bool is_here;
    } cases[] = {{"127.0.0.1", true},
                 {"127.8.9.1", true},
                 {"::1", true},
                 {"::ffff:127.0.0.1", true},
                 {"::ffff:10.0.0.1", false},
                 {"10.127.0.1", false},
                 {"::12", false},
                 {"", false}};
    const struct scrape_access local = {.from = SCRAPE_LOOPBACK};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(scrape_may(&local, &(struct scrape_caller){.address = cases[i].address}),
                         cases[i].is_here);
}

static void test_policies(void **state)
{
    (void)state;
    struct scrape_access a = {.from = SCRAPE_LOOPBACK};
    struct scrape_caller c = here;
    assert_true(scrape_may(&a, &here));
    assert_false(scrape_may(&a, &there));
    c.is_forwarded = true;
    assert_false(scrape_may(&a, &c));
    c = here;
    c.authorization = "Bearer wrong";
    assert_false(scrape_may(&a, &c));
    c = here;
    c.has_other_token = true;
    assert_false(scrape_may(&a, &c));
    a.from = SCRAPE_TOKEN;
    assert_false(scrape_may(&a, &here));
    a.from = SCRAPE_ALL;
    assert_true(scrape_may(&a, &there));
}

static void test_token(void **state)
{
    (void)state;
    struct scrape_access a = {.from = SCRAPE_TOKEN}, again = a;
    struct scrape_caller c = there;
    struct error e;
    struct stat s;
    char *text, header[256];
    size_t len;
    assert_int_equal(scrape_read_token("metrics.token", &a, &e), 0);
    assert_int_equal(scrape_read_token("metrics.token", &again, &e), 0);
    assert_string_equal(a.token, again.token);
    assert_int_equal(stat("metrics.token", &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(file_read("metrics.token", 256, &text, &len, &e), 0);
    assert_int_equal(len, 65);
    snprintf(header, sizeof header, "bearer %.64s", text);
    c.authorization = header;
    assert_true(scrape_may(&a, &c));
    header[20] = header[20] == '0' ? '1' : '0';
    assert_false(scrape_may(&a, &c));
    c.authorization = "Bearer ";
    assert_false(scrape_may(&a, &c));
    c.authorization = text; // without the word
    assert_false(scrape_may(&a, &c));
    free(text);
    assert_int_equal(file_write_durable("empty.token", "\n", 1, 0600, &e), 0);
    assert_int_equal(scrape_read_token("empty.token", &a, &e), ERR_INVALID);
}

static void test_words(void **state)
{
    (void)state;
    enum scrape_from from;
    struct error e;
    assert_int_equal(scrape_from_parse("all", &from, &e), 0);
    assert_int_equal(from, SCRAPE_ALL);
    assert_int_equal(scrape_from_parse("loopback", &from, &e), 0);
    assert_int_equal(from, SCRAPE_LOOPBACK);
    assert_int_equal(scrape_from_parse("none", &from, &e), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
