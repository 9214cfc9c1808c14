// Lines of /proc/PID/stat: fields, names that look like fields, and damage.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "base/os/proc_stat.h"

static void fields_are_read(void **state)
{
    (void)state;
    struct proc_stat s;
    assert_true(
        proc_stat_parse("7 (a) Z 1 2) S 11 12 13 0 -1 4194308 5 6 7 8 300 200 9 9 20 0 3 0", &s));
    assert_int_equal(s.state, 'S');
    assert_false(s.dead);
    assert_int_equal(s.parent, 11);
    assert_int_equal(s.group, 12);
    assert_int_equal(s.session, 13);
    assert_int_equal(s.flags, 4194308);
    assert_int_equal(s.threads, 3);
    assert_int_equal(s.cpu, INT64_C(500) * 1000000 / sysconf(_SC_CLK_TCK));
}

static void zombies_are_dead(void **state)
{
    (void)state;
    struct proc_stat s;
    assert_true(proc_stat_parse("7 (a) Z 11 12 13 0 -1 4 5 6 7 8 3 2 9 9 20 0 1 0", &s));
    assert_true(s.dead);
}

static void damage_is_refused(void **state)
{
    (void)state;
    struct proc_stat s;
    assert_false(proc_stat_parse("", &s));
    assert_false(proc_stat_parse("7 (a", &s));
    assert_false(proc_stat_parse("7 (a) S 11 12 13 0 -1 4 5 6 7 8 300 200", &s));
}

static void own_process_is_read(void **state)
{
    (void)state;
    char text[1024] = "";
    struct proc_stat s;
    FILE *file = fopen("/proc/self/stat", "re");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_true(proc_stat_parse(text, &s));
    assert_int_equal(s.parent, getppid());
    assert_int_equal(s.group, getpgrp());
    assert_int_equal(s.session, getsid(0));
    assert_int_equal(s.threads, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_read),
        cmocka_unit_test(zombies_are_dead),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(own_process_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
