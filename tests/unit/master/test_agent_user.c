// The accounts of tasks: which ones may be linked, and which one counts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "master/teams/agent_user.h"

static int read_group(long long uid, const char *user, long long gid, const char *group,
                      struct error *e)
{
    struct arena arena = {0};
    const char *kept = NULL;
    json_t *json = json_pack("{s:I, s:s, s:I, s:s}", "agentUid", (json_int_t)uid, "agentUser", user,
                             "agentGid", (json_int_t)gid, "agentGroup", group);
    *e = (struct error){0};
    int err = agent_user_read(json, AGENT_USER_OF_USER, &arena, &kept, e);
    assert_int_equal(kept != NULL, !err);
    json_decref(json);
    arena_free(&arena);
    return err;
}

static void accounts_of_the_system_are_refused(void **state)
{
    (void)state;
    static const struct {
        long long uid, gid;
        bool good;
    } cases[] = {
        {1000, 1000, true},        {999, 1000, false}, {0, 1000, false},  {-1, 1000, false},
        {1000, 0, false},          {1000, 999, false}, {1000, 100, true}, {1000, 99, false},
        {4294967294, 1000, true},  {100, 1000, false}, {1000, -1, false}, {4294967295, 1000, false},
        {4294967296, 1000, false}, // 0 in 32 bits
    };
    struct error e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cases[i].good != !read_group(cases[i].uid, "ann", cases[i].gid, "staff", &e))
            fail_msg("%lld:%lld: %s", cases[i].uid, cases[i].gid, e.text);
    assert_int_equal(read_group(0, "root", 1000, "staff", &e), ERR_INVALID);
    assert_string_equal(e.text, "agentUserGroup.agentUid 0 (root): tasks cannot run as root or as "
                                "an account of the system; use a number from 1000 on");
}

static void names_are_names_of_accounts(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a b", "a:b", "a/b", "-a", "a\nb", "..//"};
    struct error e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_group(1000, bad[i], 1000, "staff", &e), ERR_INVALID);
        assert_int_equal(read_group(1000, "ann", 1000, bad[i], &e), ERR_INVALID);
    }
    assert_int_equal(read_group(1000, "ann.b@example.org", 1000, "CORP\\staff", &e), 0);
}

static void check_account(const char *user, const char *workspace, const char *expected)
{
    json_t *account = agent_user_account(user, workspace);
    char *text = account ? json_text(account) : NULL;
    json_t *wanted = *expected ? json_loads(expected, 0, NULL) : NULL;
    if (!account != !wanted || (account && !json_equal(account, wanted)))
        fail_msg("%s and %s: %s", user, workspace, text ? text : "none");
    json_decref(wanted);
    json_decref(account);
    free(text);
}

#define USER  "{\"agentUid\": 1001, \"agentUser\": \"a\", \"agentGid\": 2001, \"agentGroup\": \"b\"}"
#define OWNER "{\"agentUid\": 1007, \"agentUser\": \"seven\"}"
#define GROUP "{\"agentGid\": 2008, \"agentGroup\": \"eight\"}"

static void the_workspace_counts_first(void **state)
{
    (void)state;
    check_account("", "", "");
    check_account("{}", "", "");
    check_account(USER, "", "{\"uid\": 1001, \"user\": \"a\", \"gid\": 2001, \"group\": \"b\"}");
    check_account(USER, OWNER,
                  "{\"uid\": 1007, \"user\": \"seven\", \"gid\": 2001, \"group\": \"b\"}");
    check_account(USER, GROUP,
                  "{\"uid\": 1001, \"user\": \"a\", \"gid\": 2008, \"group\": \"eight\"}");
    check_account("", OWNER,
                  "{\"uid\": 1007, \"user\": \"seven\", \"gid\": 1007, \"group\": \"seven\"}");
    check_account("", GROUP, ""); // a group alone is no account
}

static void old_links_are_checked(void **state)
{
    (void)state;
    struct error e = {0};
    json_t *root =
        json_pack("{s:i, s:s, s:i, s:s}", "uid", 0, "user", "root", "gid", 1000, "group", "g");
    json_t *disk =
        json_pack("{s:i, s:s, s:i, s:s}", "uid", 1000, "user", "a", "gid", 6, "group", "disk");
    json_t *good =
        json_pack("{s:i, s:s, s:i, s:s}", "uid", 1000, "user", "a", "gid", 1000, "group", "a");
    assert_int_equal(agent_user_check_account(root, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "0 (root)"));
    assert_int_equal(agent_user_check_account(disk, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "6 (disk)"));
    assert_int_equal(agent_user_check_account(good, &e), 0);
    assert_int_equal(agent_user_check_account(NULL, &e), 0);
    json_decref(root);
    json_decref(disk);
    json_decref(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accounts_of_the_system_are_refused),
        cmocka_unit_test(names_are_names_of_accounts),
        cmocka_unit_test(the_workspace_counts_first),
        cmocka_unit_test(old_links_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
