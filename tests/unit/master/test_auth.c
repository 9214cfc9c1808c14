// Passwords, tokens, users, and the first start.

#include "tests/unit/master/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"

static struct reply login(const char *name, const char *password, bool hashed)
{
    char body[1024];
    snprintf(body, sizeof body, "{\"username\":\"%s\",\"password\":\"%s\",\"is_hashed\":%s}", name,
             password, hashed ? "true" : "false");
    return call("POST", "/api/v1/auth/login", BY_NONE, body);
}

static int login_status(const char *name, const char *password, bool hashed)
{
    struct reply r = login(name, password, hashed);
    int status = r.status;
    reply_free(&r);
    return status;
}

// Logs in and makes the new token the user's token of the fixture; the old one is restored at the
// end.
static void become(const char *name, const char *password)
{
    struct reply r = login(name, password, false);
    if (r.status != 200)
        fail_msg("login as %s: %s", name, buf_str(&r.body));
    snprintf(fx.user, sizeof fx.user, "%s", at(r.json, "token"));
    reply_free(&r);
}

static void test_passwords(void **state)
{
    (void)state;
    char sent[SHA512_HEX], other[SHA512_HEX], hash[PASSWORD_HASH_MAX], again[PASSWORD_HASH_MAX];
    struct error e = {0};
    assert_true(auth_password_sent("secret", false, sent));
    assert_true(auth_password_sent("Secret", false, other));
    assert_int_equal(auth_password_hash(sent, hash, &e), 0);
    assert_int_equal(auth_password_hash(sent, again, &e), 0);
    assert_int_equal(strncmp(hash, "$y$", 3), 0);
    assert_string_not_equal(hash, again); // the salts differ
    assert_true(auth_password_matches(sent, hash));
    assert_true(auth_password_matches(sent, again));
    assert_false(auth_password_matches(other, hash));
    assert_false(auth_password_matches("", hash));
    assert_false(auth_password_matches(sent, ""));
    assert_false(auth_password_matches(sent, NULL));
    assert_false(auth_password_matches("", NULL));
    assert_false(auth_password_matches("-", NULL));
    assert_true(auth_password_matches("", "")); // an empty password is stored without a hash

    assert_int_equal(auth_password_hash("", hash, &e), 0);
    assert_string_equal(hash, "");
    assert_true(auth_password_sent("", true, other));
    assert_string_equal(other, "");
    assert_true(auth_password_sent(sent, true, other));
    assert_string_equal(other, sent);
    assert_false(auth_password_sent("secret", true, other));
    sent[5] = 'x';
    assert_false(auth_password_sent(sent, true, other));
}

static int64_t own_time_us(void) // of this thread only
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

// A login of an unknown user takes as long as one of a known user, so timing reveals no names.
static void test_constant_effort(void **state)
{
    (void)state;
    char sent[SHA512_HEX], hash[PASSWORD_HASH_MAX];
    struct error e = {0};
    auth_password_sent("secret", false, sent);
    assert_int_equal(auth_password_hash(sent, hash, &e), 0);
    const char *stored[] = {hash, NULL, ""};
    int64_t least[3];
    for (int i = 0; i < 3; i++) {
        least[i] = INT64_MAX;
        for (int round = 0; round < 5; round++) {
            int64_t start = own_time_us();
            auth_password_matches("0", stored[i]);
            int64_t took = own_time_us() - start;
            least[i] = took < least[i] ? took : least[i];
        }
    }
    assert_true(least[1] > least[0] / 2 && least[1] < least[0] * 2);
    assert_true(least[2] > least[0] / 2 && least[2] < least[0] * 2);
}

static void test_login(void **state)
{
    (void)state;
    char sent[SHA512_HEX];
    wire_password_hash(PASSWORD, sent);
    struct reply r = login("determined", PASSWORD, false);
    assert_int_equal(r.status, 200);
    assert_int_equal(strlen(at(r.json, "token")), TOKEN_TEXT - 1);
    assert_string_equal(at(r.json, "user.username"), "determined");
    assert_string_equal(at(r.json, "user.id"), "2");
    assert_string_equal(at(r.json, "user.admin"), "false");
    assert_string_equal(at(r.json, "user.active"), "true");
    reply_free(&r);
    assert_int_equal(login_status("DETERMINED", PASSWORD, false), 200);
    assert_int_equal(login_status("admin", sent, true), 200);

    r = login("determined", "wrong", false);
    assert_int_equal(r.status, 401);
    assert_string_equal(at(r.json, "error.error"), "wrong user name or password");
    reply_free(&r);
    assert_int_equal(login_status("determined", "", false), 401);
    assert_int_equal(login_status("determined", "", true), 401);
    assert_int_equal(login_status("determined", PASSWORD, true), 401);
    assert_int_equal(login_status("nobody", PASSWORD, false), 401);
    assert_int_equal(login_status("", PASSWORD, false), 400);
    assert_int_equal(login_status("a b", PASSWORD, false), 400);
    const char *const bodies[] = {"{}", "{\"username\":null}", "{\"username\":7}", NULL};
    for (int i = 0; bodies[i]; i++)
        assert_int_equal(status_of("POST", "/api/v1/auth/login", BY_NONE, bodies[i]), 400);
    // A password that is absent or null counts as empty.
    assert_int_equal(status_of("POST", "/api/v1/auth/login", BY_NONE,
                               "{\"username\":\"admin\",\"password\":null,\"extra\":null}"),
                     401);
}

static void test_logout(void **state)
{
    (void)state;
    char kept[TOKEN_TEXT];
    memcpy(kept, fx.user, sizeof kept);
    become("determined", PASSWORD);
    assert_int_equal(status_of("GET", "/api/v1/me", BY_USER, NULL), 200);
    assert_int_equal(status_of("POST", "/api/v1/auth/logout", BY_USER, NULL), 200);
    assert_int_equal(status_of("GET", "/api/v1/me", BY_USER, NULL), 401);
    memcpy(fx.user, kept, sizeof kept);
    assert_int_equal(status_of("GET", "/api/v1/me", BY_USER, NULL), 200);
}

static int enter(struct throttle *t, const char *user, const char *address)
{
    int retry = 0, rc = throttle_enter(t, user, address, &retry, NULL);
    assert_true(!rc || (retry > 0 && retry <= LOGIN_WINDOW_S));
    return rc;
}

static void test_too_many_failures(void **state)
{
    (void)state;
    for (int i = 0; i < LOGIN_FAILURES; i++)
        assert_int_equal(login_status("victim", "guess", false), 401);
    struct reply r = login("victim", "guess", false);
    assert_int_equal(r.status, 429);
    assert_non_null(header_of(&r, "Retry-After"));
    assert_string_equal(at(r.json, "error.reason"), "ResourceExhausted");
    reply_free(&r);
    assert_int_equal(login_status("determined", PASSWORD, false),
                     200); // other users are not delayed

    // A successful login clears the failures before it.
    struct throttle *t = throttle_new();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < LOGIN_FAILURES; i++)
            assert_int_equal(enter(t, "a", "192.0.2.1"), 0);
        throttle_passed(t, "a", "192.0.2.1"); // the last of them
    }
    for (int i = 0; i < LOGIN_FAILURES; i++)
        assert_int_equal(enter(t, "a", "192.0.2.1"), 0);
    assert_int_equal(enter(t, "a", "192.0.2.1"), ERR_BUSY);
    assert_int_equal(enter(t, "a", "192.0.2.2"), 0);
    assert_int_equal(enter(t, "b", "192.0.2.1"), 0);
    throttle_free(t);
}

// An address that tries many users locks out nobody else at this address, but its attempts are
// slowed down.
static void test_password_spraying_from_a_shared_address(void **state)
{
    (void)state;
    struct throttle *t = throttle_new();
    char name[32];
    for (int i = 0; i < 4 * LOGIN_FAILURES_ADDRESS; i++) {
        snprintf(name, sizeof name, "user-%d", i);
        assert_int_equal(enter(t, name, "192.0.2.1"), 0);
    }
    for (int i = 0; i < 20; i++) { // successful logins of another user at this address
        assert_int_equal(enter(t, "neighbour", "192.0.2.1"), 0);
        throttle_passed(t, "neighbour", "192.0.2.1");
    }
    for (int i = 0; i < LOGIN_FAILURES_SLOW; i++)
        assert_int_equal(enter(t, "victim", "192.0.2.1"), 0);
    assert_int_equal(enter(t, "victim", "192.0.2.1"), ERR_BUSY);
    for (int i = 0; i < LOGIN_FAILURES; i++) // other addresses are not affected
        assert_int_equal(enter(t, "victim", "192.0.2.2"), 0);
    throttle_free(t);
}

// Many addresses that guess the password of one user do not lock the user out, but each address has
// fewer attempts.
static void test_guessing_from_many_addresses(void **state)
{
    (void)state;
    struct throttle *t = throttle_new();
    char address[32];
    int guesses = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(address, sizeof address, "2001:db8::%d", i);
        while (!enter(t, "victim", address))
            guesses++;
    }
    assert_true(guesses >= 1000 * LOGIN_FAILURES_SLOW);
    assert_true(guesses <= 1000 * LOGIN_FAILURES_SLOW + LOGIN_FAILURES_USER);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(enter(t, "victim", "192.0.2.1"), 0);
        throttle_passed(t, "victim", "192.0.2.1");
    }
    throttle_free(t);
}

static int64_t create_user(const char *body, int status)
{
    struct reply r = call("POST", "/api/v1/users", BY_ADMIN, body);
    if (r.status != status)
        fail_msg("%s: %d %s", body, r.status, buf_str(&r.body));
    int64_t id = jget_int(jget(r.json, "user"), "id", 0);
    reply_free(&r);
    return id;
}

static void test_create_users(void **state)
{
    (void)state;
    int64_t id = create_user("{\"user\":{\"username\":\"Eve\",\"active\":true,\"displayName\":"
                             "\"Eve E.\",\"remote\":null},\"password\":\"pw-of-eve\"}",
                             200);
    assert_true(id > 2);
    assert_int_equal(login_status("eve", "pw-of-eve", false), 200);
    create_user("{\"user\":{\"username\":\"eve\"},\"password\":\"x\"}", 409);
    create_user("{\"user\":{\"username\":\"\"}}", 400);
    create_user("{\"user\":null}", 400);
    create_user("{}", 400);
    create_user("{\"user\":{\"username\":\"a/b\"}}", 400);
    create_user("{\"user\":{\"username\":\"h\"},\"password\":\"short\",\"isHashed\":true}", 400);

    char name[LIMIT_NAME + 2], body[2 * LIMIT_NAME];
    memset(name, 'n', sizeof name);
    name[LIMIT_NAME + 1] = '\0';
    snprintf(body, sizeof body, "{\"user\":{\"username\":\"%s\"}}", name);
    create_user(body, 400);
    snprintf(body, sizeof body, "{\"user\":{\"username\":\"%s\"}}", name + 1);
    create_user(body, 200);

    json_t *all = get_json("/api/v1/users?active=true&offset=0", BY_USER);
    assert_int_equal(json_array_size(jget(all, "users")), 4);
    assert_string_equal(at(all, "pagination.total"), "4");
    assert_string_equal(at(all, "pagination.endIndex"), "4");
    json_decref(all);
    all = get_json("/api/v1/users?limit=1&offset=1&order_by=ORDER_BY_DESC", BY_USER);
    assert_string_equal(at(all, "users.0.username"), "eve");
    assert_string_equal(at(all, "pagination.total"), "4");
    json_decref(all);
    json_t *eve = get_json("/api/v1/users/EVE/by-username", BY_USER);
    assert_string_equal(at(eve, "user.displayName"), "Eve E.");
    json_decref(eve);
    assert_int_equal(status_of("GET", "/api/v1/users/777", BY_USER, NULL), 404);
    assert_int_equal(status_of("GET", "/api/v1/users/nobody/by-username", BY_USER, NULL), 404);
    assert_int_equal(status_of("GET", "/api/v1/users/x", BY_USER, NULL), 400);
}

static int patch(int64_t id, int by, const char *body)
{
    char path[64];
    snprintf(path, sizeof path, "/api/v1/users/%lld", (long long)id);
    return status_of("PATCH", path, by, body);
}

static void test_change_users(void **state)
{
    (void)state;
    char kept[TOKEN_TEXT], mine[TOKEN_TEXT];
    memcpy(kept, fx.user, sizeof kept);
    int64_t id = create_user("{\"user\":{\"username\":\"mallory\"},\"password\":\"one\"}", 200);
    become("mallory", "one");
    memcpy(mine, fx.user, sizeof mine);
    become("mallory", "one"); // a second session

    assert_int_equal(patch(id, BY_USER, "{\"displayName\":\"M\"}"), 200);
    assert_int_equal(patch(id, BY_USER, "{\"admin\":true}"), 403);
    assert_int_equal(patch(id, BY_USER, "{\"active\":false}"), 403);
    assert_int_equal(patch(id, BY_USER, "{\"username\":\"root\"}"), 403);
    assert_int_equal(patch(1, BY_USER, "{\"password\":\"mine-now\"}"), 403);
    assert_int_equal(patch(id, BY_USER, "{\"admin\":null,\"active\":null}"), 200);
    assert_int_equal(patch(id, BY_USER, NULL), 200);
    const char *group =
        "{\"agentUserGroup\":{\"agentUid\":1001,\"agentUser\":\"a\",\"agentGid\":1001,"
        "\"agentGroup\":\"a\"}}";
    assert_int_equal(patch(id, BY_USER, group), 403);
    assert_int_equal(patch(id, BY_ADMIN, "{\"agentUserGroup\":7}"), 400);
    assert_int_equal(patch(id, BY_ADMIN, "{\"agentUserGroup\":{\"agentUid\":1}}"), 400);
    assert_int_equal(patch(id, BY_ADMIN, group), 200);

    // A new password ends the other sessions, but not this one.
    assert_int_equal(patch(id, BY_USER, "{\"password\":\"two\"}"), 200);
    assert_int_equal(login_status("mallory", "one", false), 401);
    assert_int_equal(status_of("GET", "/api/v1/me", BY_USER, NULL), 200);
    memcpy(fx.user, mine, sizeof mine);
    assert_int_equal(status_of("GET", "/api/v1/me", BY_USER, NULL), 401);
    become("mallory", "two");

    assert_int_equal(patch(id, BY_ADMIN, "{\"active\":false}"), 200);
    assert_int_equal(status_of("GET", "/api/v1/me", BY_USER, NULL),
                     401); // ended by the new password
    assert_int_equal(login_status("mallory", "two", false), 401);
    assert_int_equal(patch(id, BY_ADMIN, "{\"active\":true,\"username\":\"Oscar\"}"), 200);
    assert_int_equal(login_status("oscar", "two", false), 200);
    assert_int_equal(patch(id, BY_ADMIN, "{\"username\":\"admin\"}"), 409);
    assert_int_equal(patch(777, BY_ADMIN, "{\"active\":false}"), 404);
    memcpy(fx.user, kept, sizeof kept);

    // One active administrator must remain.
    assert_int_equal(patch(1, BY_ADMIN, "{\"active\":false}"), 409);
    assert_int_equal(patch(1, BY_ADMIN, "{\"admin\":false}"), 409);
    assert_int_equal(patch(id, BY_ADMIN, "{\"admin\":true}"), 200);
    assert_int_equal(patch(id, BY_ADMIN, "{\"admin\":false}"), 200);
}

static void test_agent_token(void **state)
{
    (void)state;
    struct stat info;
    char *token = NULL, kept[TOKEN_TEXT];
    size_t len;
    struct error e = {0};
    assert_int_equal(stat("agent.token", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(file_read("agent.token", 100, &token, &len, &e), 0);
    assert_int_equal(len, TOKEN_TEXT); // and a newline
    memcpy(kept, fx.agent, sizeof kept);
    snprintf(fx.agent, sizeof fx.agent, "%.64s", token);
    free(token);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 200);

    // The next start keeps the token; another file holds another token, and the old one ends.
    const struct first_start again = {.data_dir = "."};
    struct cluster_identity id;
    assert_int_equal(first_start(fx.db, &again, &id, &e), 0);
    assert_string_equal(id.id, fx.cluster.id);
    assert_string_equal(id.name, "test");
    free(id.id);
    free(id.name);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 200);
    assert_int_equal(unlink("agent.token"), 0);
    assert_int_equal(first_start(fx.db, &again, &id, &e), 0);
    free(id.id);
    free(id.name);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 401);
    assert_int_equal(file_read("agent.token", 100, &token, &len, &e), 0);
    snprintf(fx.agent, sizeof fx.agent, "%.64s", token);
    free(token);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 200);
}

static void start_again(bool refuse_token, bool make_no_token)
{
    const struct first_start o = {
        .data_dir = ".", .refuse_token = refuse_token, .make_no_token = make_no_token};
    struct cluster_identity id;
    struct error e = {0};
    assert_int_equal(first_start(fx.db, &o, &id, &e), 0);
    free(id.id);
    free(id.name);
}

// The shared token may be refused, or not be made; the file decides otherwise.
static void test_no_shared_token(void **state)
{
    (void)state;
    char *token;
    size_t len;
    start_again(true, false);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 401);
    start_again(false, true);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 200);
    assert_int_equal(unlink("agent.token"), 0);
    start_again(false, true);
    assert_false(path_exists("agent.token"));
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 401);
    start_again(false, false);
    assert_int_equal(file_read("agent.token", 100, &token, &len, NULL), 0);
    snprintf(fx.agent, sizeof fx.agent, "%.64s", token);
    free(token);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 200);
}

// A credential speaks for its agent alone, and the shared token for every other agent.
static void test_credential_of_an_agent(void **state)
{
    (void)state;
    char own[TOKEN_TEXT], hash[SHA256_HEX], shared[TOKEN_TEXT];
    auth_token_make(own, hash);
    STORE(ENROLMENT_INSERT, "enrolment", NULL, "", 1, AT, INT64_MAX, 1, 10);
    STORE(CREDENTIAL_INSERT, hash, "a", 1, AT);
    STORE(CREDENTIAL_INSERT, "another", "b", 1, AT); // the only use is spent
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 403);
    assert_int_equal(status_of("POST", "/api/v1/agents/b/sync", BY_AGENT, "{}"), 200);
    assert_int_equal(status_of("GET", "/api/v1/tasks/1.task/context_directory", BY_AGENT, NULL),
                     200);
    memcpy(shared, fx.agent, sizeof shared);
    memcpy(fx.agent, own, sizeof own);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 200);
    assert_int_equal(status_of("POST", "/api/v1/agents/b/sync", BY_AGENT, "{}"), 403);
    assert_int_equal(status_of("GET", "/api/v1/tasks/1.task/context_directory", BY_AGENT, NULL),
                     403); // it has no part on agent a
    STORE(CREDENTIAL_DELETE, "a");
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 401);
    memcpy(fx.agent, shared, sizeof shared);
    assert_int_equal(status_of("POST", "/api/v1/agents/a/sync", BY_AGENT, "{}"), 200);
}

// The store is not created without a password.
static void test_empty_initial_password(void **state)
{
    (void)state;
    struct db *db;
    struct error e = {0};
    struct cluster_identity id;
    assert_int_equal(file_write_durable("blank", "\n", 1, 0600, &e), 0);
    assert_int_equal(db_open("second", &db, &e), 0);
    struct first_start first = {.data_dir = "second", .password_file = "blank"};
    assert_int_equal(first_start(db, &first, &id, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "blank"));
    assert_null(id.id);
    first.password_file = "missing/file";
    assert_int_equal(first_start(db, &first, &id, &e), ERR_IO);
    assert_non_null(strstr(e.text, "missing/file"));
    first.password_file = NULL;
    setenv("MUSTER_INITIAL_PASSWORD", "", 1);
    assert_int_equal(first_start(db, &first, &id, &e), ERR_INVALID);
    setenv("MUSTER_INITIAL_PASSWORD", PASSWORD, 1);
    assert_int_equal(first_start(db, &first, &id, &e), 0);
    free(id.id);
    free(id.name);
    db_close(db);
}

// A password file that does not exist is made once; the next start does not need it.
static void test_random_initial_password_file(void **state)
{
    (void)state;
    struct db *db;
    struct error e = {0};
    struct cluster_identity id;
    struct stat info;
    const struct first_start first = {.data_dir = "third", .password_file = "third/password"};
    assert_int_equal(db_open("third", &db, &e), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(first_start(db, &first, &id, &e), 0);
        free(id.id);
        free(id.name);
        assert_int_equal(stat("third/password", &info), i == 0 ? 0 : -1);
        if (i == 0) {
            assert_int_equal(info.st_mode & 0777, 0600);
            assert_true(info.st_size > 16); // and a newline
            unlink("third/password");
        }
    }
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passwords),
        cmocka_unit_test(test_constant_effort),
        cmocka_unit_test(test_login),
        cmocka_unit_test(test_logout),
        cmocka_unit_test(test_too_many_failures),
        cmocka_unit_test(test_password_spraying_from_a_shared_address),
        cmocka_unit_test(test_guessing_from_many_addresses),
        cmocka_unit_test(test_create_users),
        cmocka_unit_test(test_change_users),
        cmocka_unit_test(test_agent_token),
        cmocka_unit_test(test_no_shared_token),
        cmocka_unit_test(test_credential_of_an_agent),
        cmocka_unit_test(test_empty_initial_password),
        cmocka_unit_test(test_random_initial_password_file),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
