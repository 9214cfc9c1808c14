// Errors: messages, the list of codes, and suggestions.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void text_and_code(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(error_set(&e, ERR_IO, "file %d", 7), ERR_IO);
    assert_int_equal(e.code, ERR_IO);
    assert_string_equal(e.text, "file 7");
    assert_int_equal(error_set_errno(&e, ERR_NOT_FOUND, ENOENT, "cannot open %s", "a"),
                     ERR_NOT_FOUND);
    assert_string_equal(e.text, "cannot open a: No such file or directory");
    assert_int_equal(error_not_found(&e, "task", "%d", 7), ERR_NOT_FOUND);
    assert_string_equal(e.text, "task '7' not found");
}

static void prefix_goes_before(void **state)
{
    (void)state;
    struct error e;
    error_set(&e, ERR_PEER, "no answer");
    assert_int_equal(error_prefix(&e, "agent %s", "a1"), ERR_PEER);
    assert_string_equal(e.text, "agent a1: no answer");
    error_set(&e, ERR_PEER, "again: %s", e.text); // formatted from its own text
    assert_string_equal(e.text, "again: agent a1: no answer");
}

static void nobody_listens(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, ERR_IO, "x"), ERR_IO);
    assert_int_equal(error_set_errno(NULL, ERR_BUSY, EAGAIN, "x"), ERR_BUSY);
    assert_true(error_prefix(NULL, "x") < 0);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    char text[2 * ERROR_TEXT_MAX];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    struct error e;
    error_set(&e, ERR_IO, "%s", text);
    assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
    error_prefix(&e, "before");
    assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
    assert_memory_equal(e.text, "before: xxx", 11);
    error_set_errno(&e, ERR_IO, ENOENT, "%s", text);
    assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
}

static void the_list(void **state)
{
    (void)state;
    assert_int_equal(err_http_status(0), 200);
    assert_int_equal(err_exit_code(0), 0);
    assert_int_equal(err_http_status(ERR_NOT_FOUND), 404);
    assert_int_equal(err_exit_code(ERR_NOT_FOUND), 3);
    assert_string_equal(err_name(ERR_NOT_FOUND), "not found");
    assert_int_equal(err_http_status(-999), 500);
    assert_string_equal(err_name(-999), "internal error");
}

static void from_http(void **state)
{
    (void)state;
    static const struct {
        int status, code;
    } rows[] = {
        {200, 0},
        {204, 0},
        {400, ERR_INVALID},
        {401, ERR_AUTH},
        {404, ERR_NOT_FOUND},
        {408, ERR_TIMEOUT},
        {413, ERR_TOO_LARGE},
        {418, ERR_INVALID},
        {429, ERR_BUSY},
        {500, ERR_INTERNAL},
        {502, ERR_PEER},
        {503, ERR_UNAVAILABLE},
        {504, ERR_TIMEOUT},
        {599, ERR_INTERNAL},
        {302, ERR_PEER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(err_from_http(rows[i].status), rows[i].code);
}

static void near_words(void **state)
{
    (void)state;
    static const char *const words[] = {"optimizer", "optimum", "learning_rate", "slots", NULL};
    assert_string_equal(nearest_word("optimiser", words), "optimizer");           // replaced
    assert_string_equal(nearest_word("slotss", words), "slots");                  // inserted
    assert_string_equal(nearest_word("slot", words), "slots");                    // missing
    assert_string_equal(nearest_word("stols", words) ? "found" : "none", "none"); // two swaps
    assert_string_equal(nearest_word("solts", words), "slots");                   // one swap
    assert_string_equal(nearest_word("Learning_Rate", words), "learning_rate");
    assert_string_equal(nearest_word("lerning_rat", words), "learning_rate");
    assert_null(nearest_word("batch", words));
    assert_string_equal(nearest_word("opt", words), "optimizer"); // a beginning
    assert_null(nearest_word("op", words));
    assert_null(nearest_word("", words));
    assert_null(nearest_word("lr", words));
    assert_null(nearest_word("anything", (const char *const[]){NULL}));
}

static void near_words_at_the_limits(void **state)
{
    (void)state;
    // A third of the letters: nine allow three edits, eight allow two.
    assert_string_equal(nearest_word("abcdefxyz", (const char *const[]){"abcdef", NULL}), "abcdef");
    assert_null(nearest_word("abcdefxy", (const char *const[]){"abcde", NULL}));
    // At most three edits, also in a long word.
    assert_null(nearest_word("abcdefghijklwxyz", (const char *const[]){"abcdefghijkl", NULL}));
    char word[65], candidate[65];
    for (size_t len = 63; len <= 64; len++) {
        memset(word, 'a', len);
        word[len] = '\0';
        memcpy(candidate, word, len + 1);
        candidate[0] = 'b';
        const char *const candidates[] = {candidate, NULL};
        const char *near = nearest_word(word, candidates);
        assert_true(len == 63 ? near == candidate : near == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_code),  cmocka_unit_test(prefix_goes_before),
        cmocka_unit_test(nobody_listens), cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(the_list),       cmocka_unit_test(from_http),
        cmocka_unit_test(near_words),     cmocka_unit_test(near_words_at_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
