// Tests which caller may put which job before which others: every role with every call that sets a
// priority, a weight, a maximum or a place in the queue, and detours over pools and batches.
#include "tests/unit/master/support/core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ED and MATE are editors of workspace A, ANN is its admin, VERA its viewer. OTTO is an editor of
// workspace B and has no role in A. Everybody may look into B.
enum { ADMIN = 1, ED = 3, MATE, ANN, VERA, OTTO, USERS };
enum { OTHERS_JOB = 1, MATES_JOB, FIRST_JOB, JOB, COMMAND }; // in the order of submission

static int64_t projects[2]; // of workspaces A and B

static struct principal user(int id)
{
    return as_user(id, id == ADMIN);
}

static void make_user(const char *name)
{
    struct db_batch *b = db_batch_new();
    struct error e = {0};
    DB_ADD(b, USER_INSERT, name, name, 0, 1, "", 1);
    if (db_commit_wait(cl.db, b, &e))
        fail_msg("%s", e.text);
}

static void make_team(const char *name, const char *others, int64_t *project)
{
    char body[64];
    snprintf(body, sizeof body, "{\"name\":\"%s\",\"defaultRole\":\"%s\"}", name, others);
    call_ok(core_workspace_create, user(ADMIN), NULL, body);
    int64_t workspace = last_id;
    call_ok(core_project_create, user(ADMIN), decimal(workspace), "{\"name\":\"p\"}");
    *project = last_id;
}

static void add_member(int64_t workspace, int id, const char *role)
{
    char body[64];
    snprintf(body, sizeof body, "{\"role\":\"%s\"}", role);
    json_decref(ask(core_member_set, user(ADMIN), decimal(workspace), decimal(id), body));
    assert_int_equal(last_status, 200);
}

// The status of a submission into the team's project.
static int submit_to(int who, int team, const char *resources, const char *more)
{
    char body[1024];
    snprintf(body, sizeof body,
             "{\"config\":\"name: t\\nentrypoint: x\\nresources: {slots_per_trial: 1%s}\\n"
             "searcher: {name: single, metric: loss}\\nmax_restarts: 0\\n\",\"activate\":true,"
             "\"projectId\":%lld%s}",
             resources, (long long)projects[team], more);
    return call_status(core_experiment_create, user(who), NULL, body);
}

static int run_command(int who, core_handler *handler, const char *resources)
{
    char body[512];
    const char *list = *resources == ',' ? resources + 1 : resources;
    if (handler == core_command_create)
        snprintf(body, sizeof body,
                 "{\"config\":{\"entrypoint\":[\"x\"],\"resources\":{%s}},\"workspaceId\":2}",
                 list);
    else
        snprintf(body, sizeof body,
                 "{\"config\":\"entrypoint: x\\nresources: {slots: 1%s}\\n\",\"projectId\":%lld}",
                 resources, (long long)projects[0]);
    return call_status(handler, user(who), NULL, body);
}

static void begin(enum sched_policy policy, int max_user_priority)
{
    static const char *const names[] = {"ed", "mate", "ann", "vera", "otto"};
    stop_core();
    cl.more.scheduler = policy;
    cl.more.max_user_priority = max_user_priority;
    start_core();
    for (int i = 0; i < USERS - ED; i++)
        make_user(names[i]);
    make_team("A", "none", &projects[0]);
    make_team("B", "viewer", &projects[1]);
    add_member(2, ED, "editor");
    add_member(2, MATE, "editor");
    add_member(2, ANN, "admin");
    add_member(2, VERA, "viewer");
    add_member(3, OTTO, "editor");
    assert_int_equal(submit_to(OTTO, 1, ", priority: 44", ""), 200);
    assert_int_equal(submit_to(MATE, 0, ", priority: 48", ""), 200);
    assert_int_equal(submit_to(ED, 0, ", priority: 60", ""), 200);
    assert_int_equal(submit_to(ED, 0, ", priority: 60", ""), 200);
    assert_int_equal(run_command(ED, core_command_create, "\"priority\":60"), 200);
}

static const char *queue_of(int64_t id)
{
    static char text[8][64];
    static int turn;
    char sql[96];
    turn = (turn + 1) % 8;
    snprintf(sql, sizeof sql, "SELECT job_id FROM experiments WHERE id = %lld", (long long)id);
    snprintf(text[turn], sizeof text[0], "%s", stored(sql));
    return text[turn];
}

static int update(int who, int64_t job, const char *change)
{
    char body[256];
    snprintf(body, sizeof body, "{\"updates\":[{\"jobId\":\"%s\",%s}]}", queue_of(job), change);
    return call_status(core_job_queue_update, user(who), NULL, body);
}

static int beside(int who, int64_t job, const char *where, int64_t anchor)
{
    char change[128];
    snprintf(change, sizeof change, "\"%s\":\"%s\"", where, queue_of(anchor));
    return update(who, job, change);
}

// --- calls ---------------------------------------------------------------------------------------

static int by_patch(int who, const char *change)
{
    char body[128];
    snprintf(body, sizeof body, "{\"resources\":{%s}}", change);
    return call_status(core_experiment_patch, user(who), decimal(JOB), body);
}

static int by_update(int who, const char *change)
{
    return update(who, JOB, change);
}

static int by_ahead(int who, const char *anchor)
{
    return beside(who, JOB, "aheadOf", *anchor - '0');
}

static int by_behind(int who, const char *anchor)
{
    return beside(who, JOB, "behindOf", *anchor - '0');
}

static int by_command(int who, const char *change)
{
    char body[64], task[64];
    snprintf(task, sizeof task, "%s", stored("SELECT task_id FROM trials WHERE experiment_id = 5"));
    snprintf(body, sizeof body, "{%s}", change);
    return call_status(core_command_set_priority, user(who), task, body);
}

static const struct {
    int (*by)(int who, const char *argument);
    const char *argument;
    char effect; // n: nobody loses, t: a teammate, o: another team, a: above the limits
} cases[] = {
    {by_patch, "\"priority\":70", 'n'},
    {by_patch, "\"priority\":59", 'n'},
    {by_patch, "\"priority\":47", 't'},
    {by_patch, "\"priority\":43", 'o'},
    {by_patch, "\"priority\":41", 'a'},
    {by_patch, "\"priority\":1", 'a'},
    {by_patch, "\"weight\":0.5", 'n'},
    {by_patch, "\"weight\":1.5", 'a'},
    {by_patch, "\"maxSlots\":1", 'n'},
    {by_patch, "\"maxSlots\":0", 'n'},
    {by_update, "\"priority\":59", 'n'},
    {by_update, "\"priority\":47", 't'},
    {by_update, "\"priority\":43", 'o'},
    {by_update, "\"priority\":41", 'a'},
    {by_update, "\"weight\":2", 'a'},
    {by_update, "\"weight\":1", 'n'},
    {by_update, "\"maxSlots\":3", 'n'},
    {by_ahead, "3", 'n'},
    {by_ahead, "2", 't'},
    {by_ahead, "1", 'o'},
    {by_behind, "3", 'n'},
    {by_behind, "2", 'n'},
    {by_behind, "1", 't'},
    {by_command, "\"priority\":61", 'n'},
    {by_command, "\"priority\":59", 'n'},
    {by_command, "\"priority\":47", 't'},
    {by_command, "\"priority\":43", 'o'},
    {by_command, "\"priority\":41", 'a'},
};

static bool is_granted(int who, char effect)
{
    switch (who) {
    case ADMIN:
        return true;
    case ANN:
        return effect == 'n' || effect == 't';
    case ED:
        return effect == 'n';
    default:
        return false;
    }
}

static void set_back(void)
{
    call_ok(core_experiment_patch, user(ADMIN), decimal(JOB),
            "{\"resources\":{\"weight\":1,\"maxSlots\":0}}");
    assert_int_equal(beside(ADMIN, JOB, "behindOf", FIRST_JOB), 200);
    by_command(ADMIN, "\"priority\":60");
    assert_int_equal(last_status, 200);
}

static void test_every_role_and_verb(void **state)
{
    (void)state;
    begin(SCHED_POLICY_PRIORITY, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int who = ADMIN; who < USERS; who++) {
            if (who == OTHER)
                continue;
            int status = cases[i].by(who, cases[i].argument);
            bool granted = is_granted(who, cases[i].effect);
            if ((status == 200) != granted)
                fail_msg("case %zu (%s) by user %d: %d %s", i, cases[i].argument, who, status,
                         last_error);
            int refused = who != OTTO                 ? 403
                          : cases[i].by == by_patch   ? 404
                          : cases[i].by == by_command ? 404
                                                      : 400; // there is no such job
            if (!granted && status != refused)
                fail_msg("case %zu by user %d: %d %s", i, who, status, last_error);
            if (!granted && who == ED && !strstr(last_error, "ask an administrator") &&
                !strstr(last_error, "or ask"))
                fail_msg("it does not say what to do: %s", last_error);
            if (granted)
                set_back();
        }
}

// A refusal names the job that would lose only to callers who may see it.
static void test_what_a_refusal_says(void **state)
{
    (void)state;
    begin(SCHED_POLICY_PRIORITY, 0);
    call_ok(core_workspace_patch, user(ADMIN), "3", "{\"defaultRole\":\"none\"}");
    assert_int_equal(by_patch(ED, "\"priority\":43"), 403);
    assert_non_null(strstr(last_error, "a job of another team"));
    assert_null(strstr(last_error, "experiment 1 "));
    assert_int_equal(by_patch(ED, "\"priority\":47"), 403);
    assert_non_null(strstr(last_error, "experiment 2 of another user"));
    assert_int_equal(by_patch(ED, "\"priority\":41"), 403);
    assert_non_null(strstr(last_error, "resources.priority: 41"));
    assert_non_null(strstr(last_error, "42 to 99"));
    // For callers who may not see it, a job does not exist under any name.
    char other[ERROR_TEXT_MAX], id[64];
    snprintf(id, sizeof id, "%s", queue_of(JOB));
    assert_int_equal(update(OTTO, JOB, "\"priority\":60"), 400);
    snprintf(other, sizeof other, "%s", last_error);
    assert_non_null(strstr(other, id));
    assert_non_null(strstr(other, "there is no job"));
}

// In a fair_share pool a priority only orders the jobs of its user.
static void test_shares_keep_priorities_apart(void **state)
{
    (void)state;
    begin(SCHED_POLICY_FAIR_SHARE, 0);
    assert_int_equal(by_patch(ED, "\"priority\":43"), 200);
    assert_int_equal(by_patch(ED, "\"priority\":41"), 403);
    assert_int_equal(by_ahead(ED, "3"), 200);
    assert_int_equal(by_ahead(ED, "2"), 403);
    assert_int_equal(by_ahead(ED, "1"), 403);
    assert_int_equal(by_ahead(ANN, "2"), 200);
    assert_int_equal(by_ahead(ANN, "1"), 403);
    assert_int_equal(by_ahead(ADMIN, "1"), 200);
}

static void test_a_pool_without_limits(void **state)
{
    (void)state;
    begin(SCHED_POLICY_PRIORITY, 1);
    assert_int_equal(by_patch(ED, "\"priority\":1"), 200);
    assert_int_equal(by_patch(ED, "\"weight\":9"), 200);
    assert_int_equal(by_ahead(ED, "1"), 200);
    assert_int_equal(submit_to(ED, 0, ", priority: 1, weight: 3", ""), 200);
    assert_int_equal(by_patch(MATE, "\"priority\":50"), 403);
}

// --- submission and continuation -----------------------------------------------------------------

static int submits_fork(int who, const char *resources)
{
    return submit_to(who, 0, resources, ",\"parentId\":3");
}

static int submits(int who, const char *resources)
{
    return submit_to(who, 0, resources, "");
}

static int previews(int who, const char *resources)
{
    return submit_to(who, 0, resources, ",\"validateOnly\":true");
}

static int puts_external(int who, const char *resources)
{
    char body[512], name[32];
    static int number;
    snprintf(name, sizeof name, "name-%d", number++);
    snprintf(body, sizeof body,
             "{\"config\":\"name: t\\nentrypoint: x\\nresources: {slots_per_trial: 1%s}\\n"
             "searcher: {name: single, metric: loss}\\n\",\"projectId\":%lld}",
             resources, (long long)projects[0]);
    return call_status(core_experiment_put, user(who), name, body);
}

static int runs_generic(int who, const char *resources)
{
    return run_command(who, core_generic_create, resources);
}

static int uses_template(int who, const char *resources)
{
    struct db_batch *b = db_batch_new();
    struct error e = {0};
    static int number;
    char name[32], more[64], config[128], value[64] = "1";
    sscanf(resources, ", priority: %63[0-9]", value);
    snprintf(name, sizeof name, "template-%d", number++);
    snprintf(config, sizeof config, "{\"resources\":{\"priority\":%s}}", value);
    snprintf(more, sizeof more, ",\"template\":\"%s\"", name);
    DB_ADD(b, TEMPLATE_INSERT, name, config, 1, 1);
    if (db_commit_wait(cl.db, b, &e))
        fail_msg("%s", e.text);
    return submit_to(who, 0, "", more);
}

static int continues(int who, const char *resources)
{
    char body[256];
    if (submit_to(who, 0, "", "") != 200)
        return last_status;
    int64_t id = last_id;
    call_ok(core_experiment_kill, user(who), decimal(id), NULL);
    settle();
    snprintf(body, sizeof body, "{\"id\":%lld,\"overrideConfig\":\"resources: {%s}\"}",
             (long long)id, resources + 2);
    for (int i = 0; i < 100; i++) {
        if (call_status(core_experiment_continue, user(who), NULL, body) != 429)
            break;
        settle();
    }
    return last_status;
}

static void test_what_is_submitted(void **state)
{
    (void)state;
    begin(SCHED_POLICY_FAIR_SHARE, 0);
    static const struct {
        int (*by)(int who, const char *resources);
        bool weight;
    } ways[] = {{submits, true},       {submits_fork, true},  {previews, true},
                {puts_external, true}, {runs_generic, false}, {uses_template, false},
                {continues, true}};
    static const int users[] = {ADMIN, ED, ANN};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int k = 0; k < 3; k++) {
            int above = users[k] == ADMIN ? 200 : 403, got[4] = {200, above, 200, above};
            got[0] = ways[i].by(users[k], ", priority: 42");
            got[1] = ways[i].by(users[k], ", priority: 41");
            if (ways[i].weight) {
                got[2] = ways[i].by(users[k], ", weight: 1");
                got[3] = ways[i].by(users[k], ", weight: 1.5");
            }
            if (got[0] != 200 || got[1] != above || got[2] != 200 || got[3] != above)
                fail_msg("way %zu by user %d: %d %d %d %d: %s", i, users[k], got[0], got[1], got[2],
                         got[3], last_error);
        }
    assert_int_equal(run_command(ED, core_command_create, "\"priority\":41"), 403);
    assert_int_equal(run_command(ED, core_command_create, "\"priority\":42"), 200);
}

// In a pool whose users may exceed the default priority, no submission passes jobs that a move
// could not pass.
static void test_a_submission_passes_nobody(void **state)
{
    (void)state;
    begin(SCHED_POLICY_PRIORITY, 30);
    int (*const ways[])(int who, const char *resources) = {
        submits, submits_fork, previews, puts_external, runs_generic, uses_template, continues};
    static const int users[] = {ED, ANN, ADMIN};
    for (int round = 0; round < 2; round++) { // behind a teammate's job, then behind another team's
        assert_int_equal(submit_to(round ? OTTO : MATE, round, "", ""), 200);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            for (int k = 0; k < 3; k++) {
                int expected = k > round ? 200 : 403;
                if (ways[i](users[k], ", priority: 41") != expected ||
                    (expected == 403 &&
                     !strstr(last_error, round ? "of another team" : "role admin")))
                    fail_msg("round %d, way %zu by user %d: %d %s", round, i, users[k], last_status,
                             last_error);
                if (ways[i](users[k], ", priority: 42") != 200 ||
                    ways[i](users[k], ", priority: 43") != 200)
                    fail_msg("way %zu by user %d: %s", i, users[k], last_error);
            }
    }
    assert_int_equal(run_command(ED, core_command_create, "\"priority\":41"), 403);
    assert_int_equal(run_command(ED, core_command_create, "\"priority\":42"), 200);
    assert_int_equal(submit_to(ADMIN, 0, ", priority: 29", ""), 200);
    assert_int_equal(submit_to(ED, 0, ", priority: 29", ""), 403);
    assert_non_null(strstr(last_error, "30 to 99"));
}

static void test_shares_let_submissions_choose(void **state)
{
    (void)state;
    begin(SCHED_POLICY_FAIR_SHARE, 30);
    assert_int_equal(submit_to(MATE, 0, "", ""), 200);
    assert_int_equal(submit_to(OTTO, 1, "", ""), 200);
    assert_int_equal(submit_to(ED, 0, ", priority: 30", ""), 200);
}

// A user whose highest priority is 50 may omit the priority.
static void test_the_default_of_a_low_pool(void **state)
{
    (void)state;
    begin(SCHED_POLICY_PRIORITY, 44);
    assert_int_equal(submit_to(ED, 0, ", priority: 43", ""), 403);
    assert_int_equal(submit_to(ED, 0, "", ""), 200);
    char sql[96];
    snprintf(sql, sizeof sql, "SELECT priority FROM experiments WHERE id = %lld",
             (long long)last_id);
    assert_stored(sql, "44");
}

// --- detours -------------------------------------------------------------------------------------

static const char *places(void) // of the waiting experiments, the next one first
{
    static char text[128];
    size_t i, len = 0;
    json_t *job, *answer = ask(core_job_queue, user(ADMIN), NULL, NULL, NULL);
    json_array_foreach(jget(answer, "jobs"), i, job)
    {
        const char *id = jget_string(jget(job, "full"), "entityId", "");
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", len ? " " : "",
                                (int)strcspn(id, "."), id);
    }
    json_decref(answer);
    return text;
}

// Each update of a call is judged after the updates before it, and all are undone together.
static void test_batches(void **state)
{
    (void)state;
    char body[1024];
    begin(SCHED_POLICY_PRIORITY, 0);
    assert_int_equal(beside(ADMIN, FIRST_JOB, "aheadOf", OTHERS_JOB), 200);
    assert_string_equal(places(), "3 1 2 4 5");
    // The first job leaves by itself, so it is no step for the second.
    snprintf(body, sizeof body,
             "{\"updates\":[{\"jobId\":\"%s\",\"priority\":60},"
             "{\"jobId\":\"%s\",\"behindOf\":\"%s\"}]}",
             queue_of(FIRST_JOB), queue_of(JOB), queue_of(FIRST_JOB));
    assert_int_equal(call_status(core_job_queue_update, user(ED), NULL, body), 200);
    snprintf(body, sizeof body,
             "{\"updates\":[{\"jobId\":\"%s\",\"behindOf\":\"%s\"},"
             "{\"jobId\":\"%s\",\"priority\":43}]}",
             queue_of(FIRST_JOB), queue_of(JOB), queue_of(JOB));
    char before[128];
    snprintf(before, sizeof before, "%s", places());
    assert_int_equal(call_status(core_job_queue_update, user(ED), NULL, body), 403);
    assert_non_null(strstr(last_error, "updates.1"));
    assert_string_equal(places(), before);
    restart_core();
    assert_string_equal(places(), before);
}

static const struct core_pool_option pools[] = {
    {.name = "default", .policy = SCHED_POLICY_PRIORITY},
    {.name = "free", .policy = SCHED_POLICY_PRIORITY, .max_user_priority = 1}};

// A job does not keep the priority of a pool without limits, and passes nobody on its way back.
static void test_detour_over_another_pool(void **state)
{
    (void)state;
    char body[1024];
    cl.more.pools = pools;
    cl.more.pool_count = 2;
    begin(SCHED_POLICY_PRIORITY, 0);
    assert_int_equal(submit_to(ED, 0, ", priority: 60, resource_pool: free", ""), 200);
    int64_t job = last_id;
    assert_int_equal(update(ED, job, "\"priority\":2"), 200);
    assert_int_equal(update(ED, job, "\"resourcePool\":\"default\""), 403);
    assert_non_null(strstr(last_error, "42 to 99"));
    assert_int_equal(update(ED, job, "\"priority\":60,\"weight\":4"), 200);
    assert_int_equal(update(ED, job, "\"resourcePool\":\"default\""), 403);
    assert_int_equal(update(ED, job, "\"resourcePool\":\"default\",\"weight\":1"), 200);

    assert_int_equal(update(OTTO, OTHERS_JOB, "\"priority\":60"), 200);
    assert_string_equal(places(), "2 1 3 4 5 6");
    assert_int_equal(update(ED, FIRST_JOB, "\"resourcePool\":\"free\""), 200);
    assert_int_equal(submit_to(OTTO, 1, ", priority: 60", ""), 200);
    assert_int_equal(update(ED, FIRST_JOB, "\"resourcePool\":\"default\""), 200);
    assert_int_equal(strcmp(places() + strlen(places()) - 3, "7 3"), 0);

    // In one call: a job in another pool is no step either.
    snprintf(body, sizeof body,
             "{\"updates\":[{\"jobId\":\"%s\",\"resourcePool\":\"free\"},"
             "{\"jobId\":\"%s\",\"behindOf\":\"%s\"}]}",
             queue_of(FIRST_JOB), queue_of(JOB), queue_of(FIRST_JOB));
    assert_int_equal(call_status(core_job_queue_update, user(ED), NULL, body), 400);
    assert_non_null(strstr(last_error, "updates.1.behindOf"));
    cl.more.pools = NULL;
    cl.more.pool_count = 0;
}

// A job that continues after its end stands behind the jobs that came meanwhile.
static void test_continued_stands_last(void **state)
{
    (void)state;
    char body[64];
    begin(SCHED_POLICY_PRIORITY, 0);
    call_ok(core_experiment_kill, user(ED), decimal(FIRST_JOB), NULL);
    settle();
    snprintf(body, sizeof body, "{\"id\":%d}", FIRST_JOB);
    while (call_status(core_experiment_continue, user(ED), NULL, body) == 429)
        settle();
    assert_int_equal(last_status, 200);
    assert_string_equal(places(), "1 2 4 5 3");
    restart_core();
    assert_string_equal(places(), "1 2 4 5 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_role_and_verb, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_what_a_refusal_says, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_shares_keep_priorities_apart, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_a_pool_without_limits, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_submitted, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_a_submission_passes_nobody, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_shares_let_submissions_choose, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_the_default_of_a_low_pool, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_batches, cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(test_detour_over_another_pool, cluster_setup,
                                        cluster_teardown),
        cmocka_unit_test_setup_teardown(test_continued_stands_last, cluster_setup,
                                        cluster_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
