// Which hosts are this machine.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/host.h"

static void loopback_is_a_name_or_an_address(void **state)
{
    static const char *const mine[] = {"localhost", "LocalHost", "127.0.0.1",       "127.8.9.1",
                                       "::1",       "[::1]",     "::ffff:127.0.0.1"};
    static const char *const others[] = {"",
                                         "[",
                                         "[]",
                                         "head",
                                         "localhost.example.org",
                                         "127.example.org",
                                         "127.0.0.1.example.org",
                                         "10.0.0.1",
                                         "[127.0.0.1]",
                                         "::2",
                                         "[::1",
                                         "::ffff:10.0.0.1",
                                         "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb"};
    (void)state;
    for (size_t i = 0; i < sizeof(mine) / sizeof(*mine); i++)
        assert_true(host_is_loopback(mine[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_false(host_is_loopback(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loopback_is_a_name_or_an_address)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
