// Flags: every kind, every form, and the error messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"

enum { WORDS_MAX = 128 };

// The targets of the flags.
struct parsed_flags {
    bool verbose, dry_run;
    const char *name;
    long long slots, seed;
    struct flag_list labels;
    const char *rest[WORDS_MAX];
    int rest_count;
    struct error e;
};

static int parse_words(struct parsed_flags *o, const char *const *words)
{
    const struct flag flags[] = {
        {"verbose", 'v', FLAG_BOOL, &o->verbose, NULL, "say more", 0, 0, "MUSTER_TEST_VERBOSE"},
        {"dry-run", 'd', FLAG_BOOL, &o->dry_run, NULL, "change nothing", 0, 0, NULL},
        {"name", 'n', FLAG_STRING, &o->name, "NAME", "its name", 0, 0, "MUSTER_TEST_NAME"},
        {"slots", 's', FLAG_INT, &o->slots, "N", "slots to use", 1, 8, "MUSTER_TEST_SLOTS"},
        {"seed", 0, FLAG_INT, &o->seed, "N", "seed", 0, 0, NULL},
        {"label", 'l', FLAG_LIST, &o->labels, "LABEL", "a label", 0, 0, "MUSTER_TEST_LABEL"},
        {.name = NULL},
    };
    int argc = 1;
    char *argv[WORDS_MAX + 1] = {"program"};
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    return flags_parse(flags, argc, argv, o->rest, &o->rest_count, &o->e);
}

#define PARSE(o, ...) parse_words(o, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void refuses(const char *word, const char *value, const char *expected)
{
    struct parsed_flags o = {0};
    assert_int_equal(PARSE(&o, word, value), ERR_INVALID);
    assert_string_equal(o.e.text, expected);
}

static void long_flags(void **state)
{
    (void)state;
    struct parsed_flags o = {0};
    assert_int_equal(PARSE(&o, "a", "--slots", "4", "--name=x=y", "b", "--verbose", "--seed", "-5",
                           "--label", "one", "--label=", "-"),
                     0);
    assert_int_equal(o.slots, 4);
    assert_string_equal(o.name, "x=y");
    assert_true(o.verbose);
    assert_false(o.dry_run);
    assert_int_equal(o.seed, -5);
    assert_int_equal(o.labels.count, 2);
    assert_string_equal(o.labels.items[0], "one");
    assert_string_equal(o.labels.items[1], "");
    assert_int_equal(o.rest_count, 3);
    assert_string_equal(o.rest[0], "a");
    assert_string_equal(o.rest[1], "b");
    assert_string_equal(o.rest[2], "-");
}

static void letters(void **state)
{
    (void)state;
    struct parsed_flags o = {0};
    assert_int_equal(PARSE(&o, "-vds3", "-n", "-x", "-lone"), 0);
    assert_true(o.verbose && o.dry_run);
    assert_int_equal(o.slots, 3);
    assert_string_equal(o.name, "-x"); // a value may begin with a dash
    assert_string_equal(o.labels.items[0], "one");
}

static void two_dashes_end_them(void **state)
{
    (void)state;
    struct parsed_flags o = {0};
    assert_int_equal(PARSE(&o, "--", "--slots", "-v", "--"), 0);
    assert_int_equal(o.rest_count, 3);
    assert_string_equal(o.rest[2], "--");
    assert_false(o.verbose);
}

static void booleans_with_a_value(void **state)
{
    (void)state;
    struct parsed_flags o = {.verbose = true};
    assert_int_equal(PARSE(&o, "--verbose=false", "--dry-run=yes"), 0);
    assert_false(o.verbose);
    assert_true(o.dry_run);
    refuses("--verbose=maybe", NULL, "--verbose: expected true or false, found \"maybe\"");
}

static void mistakes(void **state)
{
    (void)state;
    refuses("--slot", "4", "unknown flag --slot; did you mean --slots?");
    refuses("--solts=4", NULL, "unknown flag --solts; did you mean --slots?");
    refuses("--colour", NULL, "unknown flag --colour; --help lists the flags");
    refuses("-x", NULL, "unknown flag -x; --help lists the flags");
    refuses("-vx", NULL, "unknown flag -x; --help lists the flags");
    refuses("--name", NULL, "--name: the value is missing; write --name NAME");
    refuses("-s", NULL, "-s: the value is missing; write -s N");
}

static void integers(void **state)
{
    (void)state;
    struct parsed_flags o = {0};
    assert_int_equal(PARSE(&o, "--slots", "1", "--seed", "9223372036854775807"), 0);
    assert_true(o.seed == INT64_MAX);
    assert_int_equal(PARSE(&o, "--slots", "8", "--seed", "-9223372036854775808"), 0);
    assert_true(o.seed == INT64_MIN);
    refuses("--slots", "0", "--slots: expected a number from 1 to 8, found 0");
    refuses("--slots", "9", "--slots: expected a number from 1 to 8, found 9");
    refuses("--slots", "99999999999999999999",
            "--slots: expected a number from 1 to 8, found 99999999999999999999");
    refuses("--seed", "9223372036854775808", "--seed: the number 9223372036854775808 is too large");
    static const char *const bad[] = {"", "x", "4x", "4.5", " 4", "+4", "0x4", "-", "1e3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char expected[80];
        snprintf(expected, sizeof expected, "--slots: expected a whole number, found \"%s\"",
                 bad[i]);
        refuses("--slots", bad[i], expected);
    }
}

static void lists_at_the_limit_and_past_it(void **state)
{
    (void)state;
    const char *words[FLAG_LIST_MAX + 2];
    for (int i = 0; i < FLAG_LIST_MAX; i++)
        words[i] = "-lx";
    words[FLAG_LIST_MAX] = NULL;
    struct parsed_flags o = {0};
    assert_int_equal(parse_words(&o, words), 0);
    assert_int_equal(o.labels.count, FLAG_LIST_MAX);
    words[FLAG_LIST_MAX] = "-lx";
    words[FLAG_LIST_MAX + 1] = NULL;
    o = (struct parsed_flags){0};
    assert_int_equal(parse_words(&o, words), ERR_INVALID);
    assert_string_equal(o.e.text, "-l: at most 64 values are allowed");
}

static void environment(void **state)
{
    (void)state;
    setenv("MUSTER_TEST_NAME", "env", 1);
    setenv("MUSTER_TEST_SLOTS", "2", 1);
    setenv("MUSTER_TEST_VERBOSE", "anything", 1);
    setenv("MUSTER_TEST_LABEL", "from-env", 1);
    struct parsed_flags o = {0};
    assert_int_equal(PARSE(&o), 0);
    assert_string_equal(o.name, "env");
    assert_int_equal(o.slots, 2);
    assert_true(o.verbose);
    assert_int_equal(o.labels.count, 1);

    o = (struct parsed_flags){0}; // the command line overrides the variable
    assert_int_equal(PARSE(&o, "--name", "arg", "-l", "arg", "--verbose=no"), 0);
    assert_string_equal(o.name, "arg");
    assert_int_equal(o.labels.count, 1);
    assert_string_equal(o.labels.items[0], "arg");
    assert_false(o.verbose);

    setenv("MUSTER_TEST_VERBOSE", "0", 1);
    setenv("MUSTER_TEST_NAME", "", 1); // counts as unset
    o = (struct parsed_flags){.verbose = true, .name = "before"};
    assert_int_equal(PARSE(&o), 0);
    assert_false(o.verbose);
    assert_string_equal(o.name, "before");

    setenv("MUSTER_TEST_SLOTS", "many", 1);
    assert_int_equal(PARSE(&o), ERR_INVALID);
    assert_string_equal(o.e.text, "in the environment: MUSTER_TEST_SLOTS: expected a whole number, "
                                  "found \"many\"");
    unsetenv("MUSTER_TEST_NAME");
    unsetenv("MUSTER_TEST_SLOTS");
    unsetenv("MUSTER_TEST_VERBOSE");
    unsetenv("MUSTER_TEST_LABEL");
}

static void help(void **state)
{
    (void)state;
    bool on;
    const char *text;
    const struct flag flags[] = {
        {"all", 'a', FLAG_BOOL, &on, NULL, "show all", 0, 0, NULL},
        {"output", 0, FLAG_STRING, &text, "FILE", "write to FILE", 0, 0, "OUTPUT"},
        {"hidden", 0, FLAG_BOOL, &on, NULL, NULL, 0, 0, NULL},
        {.name = NULL},
    };
    char *shown = NULL;
    size_t len;
    FILE *out = open_memstream(&shown, &len);
    flags_help(flags, out);
    fclose(out);
    assert_string_equal(shown, "  -a, --all          show all\n"
                               "      --output FILE  write to FILE [$OUTPUT]\n");
    free(shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_flags),
        cmocka_unit_test(letters),
        cmocka_unit_test(two_dashes_end_them),
        cmocka_unit_test(booleans_with_a_value),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(integers),
        cmocka_unit_test(lists_at_the_limit_and_past_it),
        cmocka_unit_test(environment),
        cmocka_unit_test(help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
