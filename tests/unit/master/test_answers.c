// The account of unsent answers, and the time that the reads of a user may take.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/limits.h"
#include "master/http/limits/answers.h"

enum { MB = 1 << 20 };

static struct answer_account account;

static int setup(void **state)
{
    (void)state;
    memset(&account, 0, sizeof account);
    return 0;
}

static int hold(struct answer_hold *h, int64_t user, size_t bytes)
{
    return answers_hold(&account, h, user, bytes, false, NULL);
}

static void test_users_have_separate_shares(void **state)
{
    (void)state;
    struct answer_hold h[LIMIT_RESPONSES_USER / MB] = {0}, more = {0}, other = {0};
    for (int i = 0; i < LIMIT_RESPONSES_USER / MB; i++)
        assert_int_equal(hold(&h[i], 1, MB), 0);
    assert_int_equal(hold(&more, 1, ANSWER_SMALL + 1), ERR_UNAVAILABLE);
    assert_int_equal(hold(&more, 1, ANSWER_SMALL), 0); // free
    assert_int_equal(more.bytes, 0);
    assert_int_equal(answers_room(&account, 1), ANSWER_SMALL);
    assert_int_equal(answers_check(&account, 1, NULL), ERR_UNAVAILABLE);
    assert_int_equal(answers_check(&account, 2, NULL), 0);
    assert_int_equal(hold(&other, 2, MB), 0);
    answers_release(&account, &h[3]);
    assert_int_equal(hold(&more, 1, MB), 0);
    answers_release(&account, &more);
    answers_release(&account, &more); // holds nothing
    answers_release(&account, &other);
    for (int i = 0; i < LIMIT_RESPONSES_USER / MB; i++)
        answers_release(&account, &h[i]);
    assert_int_equal(account.held, 0);
    assert_null(account.first);
}

static void test_single_answer_may_be_larger(void **state)
{
    (void)state;
    struct answer_hold one = {0}, more = {0}, other = {0};
    assert_int_equal(answers_room(&account, 1), LIMIT_RESPONSE);
    assert_int_equal(hold(&one, 1, LIMIT_RESPONSE), 0);
    assert_int_equal(hold(&more, 1, MB), ERR_UNAVAILABLE);
    size_t left = LIMIT_RESPONSES - LIMIT_RESPONSE;
    assert_int_equal(answers_room(&account, 2), left);
    assert_int_equal(hold(&other, 2, left + 1), ERR_UNAVAILABLE);
    assert_int_equal(hold(&other, 2, left), 0);
    assert_int_equal(hold(&more, 3, MB), ERR_UNAVAILABLE); // the whole account is taken
    answers_release(&account, &one);
    assert_int_equal(hold(&more, 3, MB), 0);
}

static void test_answer_of_a_change_is_always_sent(void **state)
{
    (void)state;
    struct answer_hold one = {0}, more = {0};
    assert_int_equal(hold(&one, 1, LIMIT_RESPONSES_USER), 0);
    assert_int_equal(answers_hold(&account, &more, 1, MB, true, NULL), 0);
    assert_int_equal(account.held, LIMIT_RESPONSES_USER + MB);
    answers_release(&account, &one);
    answers_release(&account, &more);
    assert_int_equal(account.held, 0);
}

static void test_long_reads_cost_more(void **state)
{
    (void)state;
    int64_t now = 1000000000;
    assert_false(answers_is_heavy(&account, 1, now));
    answers_took(&account, 1, now, READS_BURST_US);
    assert_false(answers_is_heavy(&account, 1, now));
    answers_took(&account, 1, now, 1000);
    assert_true(answers_is_heavy(&account, 1, now));
    assert_false(answers_is_heavy(&account, 2, now));
    now += 1000 * READS_COST; // the debt is paid
    assert_false(answers_is_heavy(&account, 1, now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_users_have_separate_shares, setup),
        cmocka_unit_test_setup(test_single_answer_may_be_larger, setup),
        cmocka_unit_test_setup(test_answer_of_a_change_is_always_sent, setup),
        cmocka_unit_test_setup(test_long_reads_cost_more, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
