// Teams over HTTP with the real core: permissions in each workspace, for every kind of caller and
// call; creation, changes and removal of workspaces, projects and members.

#include "tests/unit/master/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "master/http/routing/routes.h"
#include "master/teams/roles.h"

#define V1 "/api/v1"

// --- the cast ------------------------------------------------------------------------------------

enum { ANN = BY_OTHER, EDDY, VERA, NONO, SUE, PEOPLE_END };

static const struct person {
    const char *name, *role; // in every workspace of this test; NULL if not a member
} people[] = {
    {"ann", "admin"}, {"eddy", "editor"}, {"vera", "viewer"}, {"nono", "none"}, {"sue", NULL}};

static const int callers[] = {BY_ADMIN, ANN, EDDY, VERA, NONO, SUE, BY_TASK};
enum { CALLER_COUNT = sizeof callers / sizeof *callers };

static const struct person *person(int by)
{
    return by >= BY_OTHER ? &people[by - BY_OTHER] : NULL;
}

static int64_t user_id(int by)
{
    return by == BY_ADMIN ? 1 : 3 + by - BY_OTHER;
}

struct workspace_kind { // kinds of workspaces, by the rights of users who are not members
    const char *name, *default_role;
    int64_t id, project, trial;
    int64_t of_admin, of_eddy; // its experiments
    char task[64];
};
static struct workspace_kind kinds[] = {{.name = "open", .default_role = "editor"},
                                        {.name = "shown", .default_role = "viewer"},
                                        {.name = "closed", .default_role = "none"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static enum role role_in(const struct workspace_kind *k, int by)
{
    const struct person *p = person(by);
    return role_of(by == BY_ADMIN, false, p ? p->role : NULL, k->default_role);
}

// Expects a status and returns the answer, which the caller owns.
static json_t *request_json(const char *method, const char *path, int by, const char *body,
                            int status)
{
    struct reply r = call(method, path, by, body);
    if (r.status != status)
        fail_msg("%s %s by %d: %d, not %d: %s", method, path, by, r.status, status,
                 buf_str(&r.body));
    json_t *json = json_incref(r.json);
    reply_free(&r);
    return json;
}

static void expect_status(const char *method, const char *path, int by, const char *body,
                          int status)
{
    json_decref(request_json(method, path, by, body, status));
}

static const char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *format_text(const char *format, ...)
{
    static char out[4][1024];
    static int turn;
    va_list args;
    va_start(args, format);
    char *to = out[turn++ % 4];
    vsnprintf(to, sizeof out[0], format, args);
    va_end(args);
    return to;
}

#define CONFIG "name: x\\nentrypoint: x\\nsearcher: {name: single, metric: m}\\n"

static int64_t submit(int64_t project, int by)
{
    json_t *j = request_json(
        "POST", V1 "/experiments", by,
        format_text("{\"config\":\"" CONFIG "\",\"projectId\":%lld}", (long long)project), 200);
    int64_t id = json_integer_value(value_at(j, "experiment.id"));
    json_decref(j);
    return id;
}

static int64_t create_workspace(const char *name, int by)
{
    json_t *j =
        request_json("POST", V1 "/workspaces", by, format_text("{\"name\":\"%s\"}", name), 200);
    int64_t id = json_integer_value(value_at(j, "workspace.id"));
    assert_true(json_is_object(jget(j, "namespaceBindings")));
    json_decref(j);
    return id;
}

static int64_t create_project(int64_t workspace, const char *name, int by)
{
    json_t *j =
        request_json("POST", format_text(V1 "/workspaces/%lld/projects", (long long)workspace), by,
                     format_text("{\"name\":\"%s\"}", name), 200);
    int64_t id = json_integer_value(value_at(j, "project.id"));
    json_decref(j);
    return id;
}

static void create_kind(struct workspace_kind *k)
{
    k->id = create_workspace(k->name, BY_ADMIN);
    k->project = create_project(k->id, "p", BY_ADMIN);
    for (int by = BY_OTHER; by < PEOPLE_END; by++)
        if (person(by)->role)
            expect_status("PUT",
                          format_text(V1 "/workspaces/%lld/members/%lld", (long long)k->id,
                                      (long long)user_id(by)),
                          BY_ADMIN, format_text("{\"role\":\"%s\"}", person(by)->role), 200);
    k->of_admin = submit(k->project, BY_ADMIN);
    k->of_eddy = submit(k->project, EDDY);
    expect_status("PATCH", format_text(V1 "/workspaces/%lld", (long long)k->id), BY_ADMIN,
                  format_text("{\"defaultRole\":\"%s\"}", k->default_role), 200);
    json_t *j = get_json(format_text(V1 "/experiments/%lld", (long long)k->of_admin), BY_ADMIN);
    k->trial = json_integer_value(value_at(j, "experiment.trialIds.0"));
    json_decref(j);
    j = get_json(format_text(V1 "/trials/%lld", (long long)k->trial), BY_ADMIN);
    snprintf(k->task, sizeof k->task, "%s", at(j, "trial.taskId"));
    json_decref(j);
    STORE(CHECKPOINT_UPSERT, format_text("uuid-%s", k->name), k->task, "a", k->trial, k->of_admin,
          "COMPLETED", I(3), "{}", "{}", "{\"type\":\"directory\"}", NULL, AT);
}

static int teams_start(void **state)
{
    if (fixture_start(state))
        return -1;
    for (int by = BY_OTHER; by < PEOPLE_END; by++) {
        STORE(USER_INSERT, person(by)->name, "", I(0), I(1), "", AT);
        grant(fx.others[by - BY_OTHER], "user", user_id(by), NULL, 0);
    }
    for (int i = 0; i < KINDS; i++)
        create_kind(&kinds[i]);
    return 0;
}

// --- every caller, every call, every kind of workspace -------------------------------------------

// %w stands for a workspace, %p a project, %x an experiment of the administrator, %e one of eddy,
// %t a trial, %k a task, %c a checkpoint. `min_role` is the required role; `by_task` means that
// tasks may make the call, but the object is not the task's own.
static const struct {
    const char *method, *path, *body;
    enum role min_role;
    bool by_task;
} calls[] = {
    {"GET", "/workspaces/%w", NULL, ROLE_VIEWER, false},
    {"GET", "/workspaces/%w/projects", NULL, ROLE_VIEWER, false},
    {"GET", "/workspaces/%w/members", NULL, ROLE_VIEWER, false},
    {"GET", "/projects/%p", NULL, ROLE_VIEWER, false},
    {"GET", "/experiments/%x", NULL, ROLE_VIEWER, true},
    {"GET", "/experiments/%x/why", NULL, ROLE_VIEWER, false},
    {"GET", "/experiments/%x/search", NULL, ROLE_VIEWER, false},
    {"GET", "/experiments/%x/starts", NULL, ROLE_VIEWER, false},
    {"GET", "/experiments/%x/trials", NULL, ROLE_VIEWER, false},
    {"GET", "/experiments/%x/checkpoints", NULL, ROLE_VIEWER, false},
    {"GET", "/experiments/%x/model_def", NULL, ROLE_VIEWER, false},
    {"GET", "/trials/%t", NULL, ROLE_VIEWER, true},
    {"GET", "/trials/%t/workloads", NULL, ROLE_VIEWER, false},
    {"GET", "/trials/%t/starts", NULL, ROLE_VIEWER, false},
    {"GET", "/trials/%t/checkpoints", NULL, ROLE_VIEWER, true},
    {"GET", "/trials/%t/series?metric=loss", NULL, ROLE_VIEWER, true},
    {"GET", "/trials/%t/logs", NULL, ROLE_VIEWER, false},
    {"GET", "/trials/%t/logs/fields", NULL, ROLE_VIEWER, false},
    {"GET", "/tasks/%k/logs", NULL, ROLE_VIEWER, false},
    {"GET", "/tasks/%k/logs/fields", NULL, ROLE_VIEWER, false},
    {"GET", "/tasks/%k/context_directory", NULL, ROLE_VIEWER, true},
    {"GET", "/trials/metrics/training_metrics?trialIds=%t", NULL, ROLE_VIEWER, true},
    {"GET", "/trials/metrics/validation_metrics?trialIds=%t", NULL, ROLE_VIEWER, true},
    {"GET", "/trials/metrics/trial_metrics?trialIds=%t", NULL, ROLE_VIEWER, true},
    {"GET", "/checkpoints/%c", NULL, ROLE_VIEWER, true},

    {"POST", "/experiments", "{\"config\":\"" CONFIG "\",\"projectId\":%p,\"validateOnly\":true}",
     ROLE_EDITOR, false},
    {"POST", "/experiments",
     "{\"config\":\"" CONFIG
     "resources: {priority: 42}\\n\",\"projectId\":%p,\"validateOnly\":true}",
     ROLE_EDITOR, false},
    {"POST", "/experiments",
     "{\"config\":\"" CONFIG
     "resources: {priority: 41}\\n\",\"projectId\":%p,\"validateOnly\":true}",
     ROLE_CLUSTER_ADMIN, false},
    {"PATCH", "/experiments/%x", "{\"notes\":\"n\"}", ROLE_ADMIN, false},
    {"POST", "/experiments/%x/pause", NULL, ROLE_ADMIN, false},
    {"PATCH", "/workspaces/%w", "{}", ROLE_ADMIN, false},
    {"PATCH", "/workspaces/%w", "{\"weight\":1}", ROLE_CLUSTER_ADMIN, false},
    {"PATCH", "/workspaces/%w", "{\"guaranteedSlots\":0}", ROLE_CLUSTER_ADMIN, false},
    {"PATCH", "/workspaces/%w", "{\"maxSlots\":0}", ROLE_CLUSTER_ADMIN, false},
    {"POST", "/workspaces/%w/unarchive", NULL, ROLE_ADMIN, false},
    {"PATCH", "/projects/%p", "{\"description\":\"d\"}", ROLE_ADMIN, false},
    {"POST", "/projects/%p/unarchive", NULL, ROLE_ADMIN, false},
    {"POST", "/projects/%p/move", "{\"destinationWorkspaceId\":%w}", ROLE_ADMIN, false},
    {"PUT", "/workspaces/%w/members/4", "{\"weight\":1}", ROLE_ADMIN, false},
    {"PUT", "/workspaces/%w/members/4", "{\"role\":\"editor\"}", ROLE_ADMIN, false},
    {"PUT", "/workspaces/%w/members/4", "{\"maxSlots\":0}", ROLE_CLUSTER_ADMIN, false},
};

static const char *fill_path(const char *pattern, const struct workspace_kind *k)
{
    static char out[4][512];
    static int turn;
    char *to = out[turn++ % 4], *end = to + sizeof out[0];
    char *start = to;
    for (; *pattern; pattern++) {
        int64_t number = 0;
        if (*pattern != '%') {
            *to++ = *pattern;
            continue;
        }
        switch (*++pattern) {
        case 'w':
            number = k->id;
            break;
        case 'p':
            number = k->project;
            break;
        case 'x':
            number = k->of_admin;
            break;
        case 't':
            number = k->trial;
            break;
        case 'k':
            to += snprintf(to, (size_t)(end - to), "%s", k->task);
            continue;
        default:
            to += snprintf(to, (size_t)(end - to), "uuid-%s", k->name);
            continue;
        }
        to += snprintf(to, (size_t)(end - to), "%lld", (long long)number);
    }
    *to = '\0';
    return start;
}

static int expected_status(size_t i, const struct workspace_kind *k, int by)
{
    if (by == BY_TASK)
        return calls[i].by_task ? 404 : 403;
    enum role role = role_in(k, by);
    return role == ROLE_NONE ? 404 : role < calls[i].min_role ? 403 : 200;
}

static void test_roles_and_calls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int w = 0; w < KINDS; w++)
            for (int c = 0; c < CALLER_COUNT; c++) {
                const struct workspace_kind *k = &kinds[w];
                const char *body = calls[i].body ? fill_path(calls[i].body, k) : NULL;
                expect_status(calls[i].method, format_text(V1 "%s", fill_path(calls[i].path, k)),
                              callers[c], body, expected_status(i, k, callers[c]));
            }
    // The stream of a checkpoint's files: the checkpoint exists, but its files do not.
    expect_status("GET", "/checkpoints/uuid-closed", EDDY, NULL, 400);
    expect_status("GET", "/checkpoints/uuid-closed", SUE, NULL, 404);
}

static void test_every_call_is_guarded(void **state)
{
    (void)state;
    static const char *const hidden[][2] = {{"{workspaceId}", "%w"},  {"{projectId}", "%p"},
                                            {"{experimentId}", "%x"}, {"{trialId}", "%t"},
                                            {"{taskId}", "%k"},       {"{checkpointUuid}", "%c"}};
    int guarded = 0;
    for (size_t i = 0; i < route_count; i++)
        for (size_t h = 0; h < sizeof hidden / sizeof *hidden; h++) {
            const struct route *r = &route_table[i];
            const char *at_name = strstr(r->path, hidden[h][0]);
            if (!at_name || !(r->auth & AUTH_USER))
                continue;
            const char *rest = at_name + strlen(hidden[h][0]);
            const char *path = format_text("%.*s%s%s", (int)(at_name - r->path), r->path,
                                           fill_path(hidden[h][1], &kinds[2]),
                                           strchr(rest, '{') ? "/members/4" : rest);
            expect_status(r->method, path, SUE, NULL, 404);
            guarded++;
        }
    assert_true(guarded > 35);
}

// --- the caller's own objects --------------------------------------------------------------------

static void test_own_experiments(void **state)
{
    (void)state;
    for (int w = 0; w < KINDS; w++) {
        const char *path = format_text(V1 "/experiments/%lld", (long long)kinds[w].of_eddy);
        expect_status("PATCH", path, EDDY, "{\"notes\":\"mine\"}", 200);
        expect_status("PATCH", path, EDDY, "{\"resources\":{\"weight\":0.5}}", 200);
        expect_status("PATCH", path, ANN, "{\"notes\":\"of the workspace\"}", 200);
        expect_status("PATCH", path, VERA, "{\"notes\":\"n\"}", 403);
    }
    // A user who loses the role can neither continue nor see the user's own experiments.
    const char *member = format_text(V1 "/workspaces/%lld/members/4", (long long)kinds[2].id);
    const char *path = format_text(V1 "/experiments/%lld", (long long)kinds[2].of_eddy);
    expect_status("PUT", member, ANN, "{\"role\":\"viewer\"}", 200);
    json_t *j = request_json("PATCH", path, EDDY, "{\"notes\":\"n\"}", 403);
    assert_non_null(strstr(at(j, "error.error"), "takes the role editor in workspace \"closed\""));
    json_decref(j);
    expect_status("PUT", member, ANN, "{\"role\":\"\"}", 200);
    expect_status("GET", path, EDDY, NULL, 404);
    expect_status("PUT", member, ANN, "{\"role\":\"editor\"}", 200);
    expect_status("GET", path, EDDY, NULL, 200);
}

static void test_tasks_see_their_own(void **state)
{
    (void)state;
    static const char *const own[] = {"/experiments/1", "/trials/1", "/trials/1/checkpoints",
                                      "/tasks/1.task/context_directory",
                                      "/trials/metrics/training_metrics?trialIds=1"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        expect_status("GET", format_text(V1 "%s", own[i]), BY_TASK, NULL, 200);
    // The same holds in a workspace that is closed to everybody, and for the checkpoint that they
    // start from.
    expect_status("PATCH", V1 "/workspaces/1", BY_ADMIN, "{\"defaultRole\":\"none\"}", 200);
    expect_status("GET", V1 "/trials/1", BY_TASK, NULL, 200);
    expect_status("GET", V1 "/trials/1", BY_USER, NULL, 404); // although it is the user's own
    expect_status("PATCH", V1 "/workspaces/1", BY_ADMIN, "{\"defaultRole\":\"editor\"}", 200);
    expect_status("GET", V1 "/checkpoints/uuid-closed", BY_TASK, NULL, 404);
    STORE(EXPERIMENT_PATCH, NULL, NULL, NULL, NULL, I(-1),
          "{\"searcher\":{\"source_checkpoint_uuid\":\"uuid-closed\"}}", I(1));
    expect_status("GET", V1 "/checkpoints/uuid-closed", BY_TASK, NULL, 200);
    expect_status("GET", V1 "/tasks/1.task/context_directory", BY_AGENT, NULL, 200);
    expect_status("GET", format_text(V1 "/tasks/%s/context_directory", kinds[2].task), BY_AGENT,
                  NULL, 200);
}

// --- lists ---------------------------------------------------------------------------------------

static int64_t list_total(const char *path, int by)
{
    json_t *j = get_json(format_text(V1 "%s", path), by);
    int64_t n = jget_int(jget(j, "pagination"), "total", -1);
    json_decref(j);
    return n;
}

static void test_lists_hide_other_workspaces(void **state)
{
    (void)state;
    for (int by = ANN; by < PEOPLE_END; by++) {
        int seen = 1; // workspace 1
        for (int w = 0; w < KINDS; w++)
            seen += role_may(role_in(&kinds[w], by), ACT_SEE);
        assert_int_equal(list_total("/workspaces", by), seen);
        assert_int_equal(list_total("/workspaces/0/projects", by), seen);
        assert_int_equal(list_total("/experiments", by), 1 + 2 * (seen - 1));
        assert_int_equal(list_total("/experiments?name=x&limit=1", by), 2 * (seen - 1));
    }
    assert_int_equal(list_total("/experiments", BY_ADMIN), 1 + 2 * KINDS);
    assert_int_equal(
        list_total(format_text("/experiments?projectId=%lld", (long long)kinds[2].project), SUE),
        0);
    json_t *j = get_json(format_text(V1 "/experiments/%lld", (long long)kinds[0].of_eddy), SUE);
    assert_string_equal(at(j, "experiment.workspaceName"), "open");
    json_decref(j);
}

// The role computed in C equals the role computed in SQL, for each role of a member, each default,
// the creator and a user without a role.
static void test_sql_and_c_agree(void **state)
{
    (void)state;
    static const char *const members[] = {NULL, "", "none", "viewer", "editor", "admin"};
    static const char *const defaults[] = {"none", "viewer", "editor"};
    int64_t id = create_workspace("ladder", BY_ADMIN);
    for (size_t d = 0; d < 3; d++)
        for (size_t m = 0; m < 6; m++) {
            STORE(WORKSPACE_SET_TEAM, 1.0, I(0), I(0), defaults[d], id);
            STORE(MEMBERS_DELETE, id);
            if (members[m])
                STORE(MEMBER_SET, id, user_id(SUE), members[m], 1.0, I(0));
            bool seen = role_may(role_of(false, false, members[m], defaults[d]), ACT_SEE);
            assert_int_equal(list_total("/workspaces?name=ladder", SUE), seen);
            expect_status("GET", format_text(V1 "/workspaces/%lld", (long long)id), SUE, NULL,
                          seen ? 200 : 404);
        }
    STORE(MEMBERS_DELETE, id);
    expect_status("DELETE", format_text(V1 "/workspaces/%lld", (long long)id), BY_ADMIN, NULL, 200);
    assert_int_equal(role_of(false, true, "none", "none"), ROLE_ADMIN);
    assert_int_equal(role_of(true, false, "none", "none"), ROLE_CLUSTER_ADMIN);
}

// --- made, changed, removed ----------------------------------------------------------------------

static void expect_refused(const char *method, const char *path, int by, const char *body,
                           int status, const char *words)
{
    json_t *j = request_json(method, path, by, body, status);
    if (!strstr(at(j, "error.error"), words))
        fail_msg("%s: \"%s\" without \"%s\"", path, at(j, "error.error"), words);
    json_decref(j);
}

// Deletes a workspace or project that holds experiments: the answer does not wait for the end.
static void delete_full(const char *path, int by)
{
    json_t *j = request_json("DELETE", path, by, NULL, 200);
    assert_true(json_is_false(jget(j, "completed")));
    json_decref(j);
    for (int i = 0; i < 500 && status_of("GET", path, by, NULL) != 404; i++)
        usleep(10000);
    expect_status("GET", path, by, NULL, 404);
}

static void test_own_workspace(void **state)
{
    (void)state;
    int64_t id = create_workspace("sues", SUE), project = create_project(id, "p", SUE);
    char path[64];
    snprintf(path, sizeof path, V1 "/workspaces/%lld", (long long)id);
    expect_refused("PATCH", path, SUE, "{\"weight\":9}", 403,
                   "takes an administrator of the cluster");
    expect_refused("POST", V1 "/workspaces", SUE, "{\"name\":\"y\",\"maxSlots\":4}", 403,
                   "administrator");
    expect_refused("POST", V1 "/workspaces", SUE, "{\"name\":\"sues\"}", 409, "already");
    json_t *j =
        request_json("PATCH", path, SUE, "{\"name\":\"hers\",\"defaultRole\":\"none\"}", 200);
    assert_string_equal(at(j, "workspace.name"), "hers");
    assert_string_equal(at(j, "workspace.defaultRole"), "none");
    assert_string_equal(at(j, "workspace.username"), "sue");
    assert_string_equal(at(j, "workspace.weight"),
                        "0.001"); // otherwise she could give herself shares
    json_decref(j);
    expect_status("PATCH", path, BY_ADMIN, "{\"weight\":2.5,\"guaranteedSlots\":4,\"maxSlots\":8}",
                  200);
    j = get_json(path, SUE);
    assert_string_equal(at(j, "workspace.weight"), "2.5");
    assert_string_equal(at(j, "workspace.guaranteedSlots"), "4");
    assert_string_equal(at(j, "workspace.maxSlots"), "8");
    assert_string_equal(at(j, "workspace.immutable"), "false");
    json_decref(j);

    int64_t experiment = submit(project, SUE);
    expect_status("POST", format_text("%s/archive", path), SUE, NULL, 200);
    expect_refused(
        "POST", V1 "/experiments", SUE,
        format_text("{\"config\":\"" CONFIG "\",\"projectId\":%lld}", (long long)project), 400,
        "archived");
    expect_refused("POST", format_text("%s/projects", path), SUE, "{\"name\":\"q\"}", 409,
                   "archived");
    assert_int_equal(list_total("/workspaces?archived=true", SUE), 1);
    expect_status("POST", format_text("%s/unarchive", path), SUE, NULL, 200);
    expect_refused("DELETE", path, SUE, NULL, 403,
                   "administrator"); // an administrator gave the workspace guaranteed slots
    expect_status("PATCH", path, BY_ADMIN, "{\"guaranteedSlots\":0}", 200);
    int64_t second = create_project(id, "second", SUE);
    int64_t other = submit(second, SUE);
    char second_path[64];
    snprintf(second_path, sizeof second_path, V1 "/projects/%lld", (long long)second);
    delete_full(second_path, SUE);
    expect_status("GET", format_text(V1 "/experiments/%lld", (long long)other), SUE, NULL, 404);
    delete_full(path, SUE);
    expect_status("GET", format_text(V1 "/experiments/%lld", (long long)experiment), SUE, NULL,
                  404);
    expect_status("GET", path, SUE, NULL, 404);
    expect_status("GET", format_text(V1 "/projects/%lld", (long long)project), BY_ADMIN, NULL, 404);
}

static void test_first_workspace_cannot_be_removed(void **state)
{
    (void)state;
    static const char *const what[] = {"workspaces", "projects"};
    for (int i = 0; i < 2; i++) {
        const char *path = format_text(V1 "/%s/1", what[i]);
        expect_refused("DELETE", path, BY_ADMIN, NULL, 409, "cannot be deleted");
        expect_refused("POST", format_text("%s/archive", path), BY_ADMIN, NULL, 409,
                       "cannot be archived");
        expect_refused("PATCH", path, BY_ADMIN, "{\"name\":\"x\"}", 409, "cannot be renamed");
    }
    expect_status("PATCH", V1 "/workspaces/1", BY_ADMIN, "{\"weight\":3}", 200);
    expect_status("PATCH", V1 "/workspaces/1", BY_ADMIN, "{\"weight\":1}", 200);
}

static void test_move_between_workspaces(void **state)
{
    (void)state;
    int64_t from = create_workspace("from", SUE), to = create_workspace("to", ANN);
    int64_t project = create_project(from, "p", SUE);
    char move[64], there[64], members[80];
    snprintf(move, sizeof move, V1 "/projects/%lld/move", (long long)project);
    snprintf(there, sizeof there, "{\"destinationWorkspaceId\":%lld}", (long long)to);
    snprintf(members, sizeof members, V1 "/workspaces/%lld/members/%lld", (long long)to,
             (long long)user_id(SUE));
    expect_status("PUT", members, ANN, "{\"role\":\"none\"}", 200);
    expect_refused("POST", move, SUE, there, 404, "workspace '");
    expect_refused("POST", move, SUE, "{\"destinationWorkspaceId\":99}", 404,
                   "workspace '99' not found");
    expect_refused("POST", move, SUE, "{}", 404, "destinationWorkspaceId");
    expect_status("PUT", members, ANN, "{\"role\":\"editor\"}", 200);
    expect_refused("POST", move, SUE, there, 403, "\"to\"");
    expect_refused("POST", move, ANN, there, 403, "\"from\""); // an editor of the source workspace
    expect_refused("POST", V1 "/projects/1/move", BY_ADMIN, there, 409, "cannot be moved");
    expect_status("PUT", members, ANN, "{\"role\":\"admin\"}", 200);

    const int64_t ids[] = {from, to, project};
    for (size_t i = 0; i < 3; i++) {
        const char *path =
            format_text(i < 2 ? V1 "/workspaces/%lld" : V1 "/projects/%lld", (long long)ids[i]);
        expect_status("POST", format_text("%s/archive", path), BY_ADMIN, NULL, 200);
        expect_refused("POST", move, SUE, there, 409, "archived");
        expect_status("POST", format_text("%s/unarchive", path), BY_ADMIN, NULL, 200);
    }
    int64_t twin = create_project(to, "p", ANN);
    expect_refused("POST", move, SUE, there, 409, "already");
    expect_status("DELETE", format_text(V1 "/projects/%lld", (long long)twin), ANN, NULL, 200);
    expect_status("POST", move, SUE, there, 200);
    json_t *j = get_json(format_text(V1 "/projects/%lld", (long long)project), ANN);
    assert_string_equal(at(j, "project.workspaceName"), "to");
    json_decref(j);
    j = get_json(V1 "/audit?limit=1", BY_ADMIN);
    assert_string_equal(at(j, "audit.0.path"), move);
    json_decref(j);
    expect_status("DELETE", format_text(V1 "/workspaces/%lld", (long long)from), SUE, NULL, 200);
    expect_status("DELETE", format_text(V1 "/workspaces/%lld", (long long)to), ANN, NULL, 200);
    expect_status("GET", format_text(V1 "/projects/%lld", (long long)project), BY_ADMIN, NULL, 404);
}

static void test_limits(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"{\"weight\":0}", "weight"},
        {"{\"weight\":-1}", "weight"},
        {"{\"weight\":1000001}", "weight"},
        {"{\"weight\":\"Infinity\"}", "weight"},
        {"{\"weight\":\"2\"}", "weight"},
        {"{\"guaranteedSlots\":-1}", "guaranteedSlots"},
        {"{\"maxSlots\":16777217}", "maxSlots"},
        {"{\"guaranteedSlots\":5,\"maxSlots\":4}", "guaranteedSlots"},
        {"{\"defaultRole\":\"admin\"}", "defaultRole"},
        {"{\"defaultRole\":\"\"}", "defaultRole"},
        {"{\"name\":\"  \"}", "name"},
        {"{\"name\":\"a\\tb\"}", "control"}};
    static const char *const right[] = {"{\"weight\":1000000}", "{\"weight\":0.001}",
                                        "{\"maxSlots\":16777216}", "{\"guaranteedSlots\":16777216}",
                                        "{\"weight\":1,\"guaranteedSlots\":0,\"maxSlots\":0}"};
    const char *path = format_text(V1 "/workspaces/%lld", (long long)kinds[0].id);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused("PATCH", path, BY_ADMIN, wrong[i][0], 400, wrong[i][1]);
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        expect_status("PATCH", path, BY_ADMIN, right[i], 200);
    char name[LIMIT_NAME + 2];
    for (int over = 0; over < 2; over++) {
        memset(name, 'n', sizeof name);
        name[LIMIT_NAME + over] = '\0';
        expect_status("PATCH", format_text(V1 "/projects/%lld", (long long)kinds[0].project),
                      BY_ADMIN, format_text("{\"name\":\"%s\"}", name), over ? 400 : 200);
    }
    expect_status("PATCH", format_text(V1 "/projects/%lld", (long long)kinds[0].project), BY_ADMIN,
                  "{\"name\":\"p\"}", 200);
    expect_refused("POST", V1 "/workspaces", BY_ADMIN, "{}", 400, "missing");
    expect_refused("POST", V1 "/experiments", BY_ADMIN,
                   "{\"config\":\"" CONFIG "workspace: open\\n\"}", 400, "belong together");
    expect_refused("POST", V1 "/experiments", SUE,
                   "{\"config\":\"" CONFIG "workspace: closed\\nproject: p\\n\"}", 404,
                   "project '");
}

static void test_members(void **state)
{
    (void)state;
    char path[64], sue[80];
    snprintf(path, sizeof path, V1 "/workspaces/%lld/members", (long long)kinds[2].id);
    snprintf(sue, sizeof sue, "%s/%lld", path, (long long)user_id(SUE));
    json_t *j = get_json(path, VERA);
    assert_int_equal(json_array_size(jget(j, "members")), 5);
    assert_string_equal(at(j, "members.0.username"), "admin"); // the creator
    assert_string_equal(at(j, "members.0.role"), "admin");
    assert_string_equal(at(j, "members.1.username"), "ann");
    json_decref(j);

    expect_status("PUT", sue, BY_ADMIN, "{\"weight\":4,\"maxSlots\":6}", 200);
    expect_status("GET", path, SUE, NULL, 404); // has a share of it now, but no role
    expect_status("PUT", sue, ANN, "{\"role\":\"viewer\"}", 200);
    j = get_json(path, SUE);
    assert_string_equal(at(j, "members.5.role"), "viewer");
    assert_string_equal(at(j, "members.5.weight"), "4");
    assert_string_equal(at(j, "members.5.maxSlots"), "6");
    json_decref(j);
    expect_refused("DELETE", sue, ANN, NULL, 403,
                   "administrator of the cluster"); // this would remove her limit
    expect_status("DELETE", sue, BY_ADMIN, NULL, 200);
    expect_status("GET", path, SUE, NULL, 404);
    expect_refused("PUT", format_text("%s/1", path), ANN, "{\"role\":\"viewer\"}", 409,
                   "stays its administrator");
    expect_refused("PUT", sue, ANN, "{\"role\":\"owner\"}", 400, "role");
    expect_refused("PUT", format_text("%s/99", path), ANN, "{}", 404, "user '99' not found");
    expect_refused("DELETE", format_text("%s/2", path), ANN, NULL, 404, "no member");
}

// The core in memory equals the store: a new core loads the same state.
static void test_restart(void **state)
{
    (void)state;
    stop_server();
    stub_stop(fx.core);
    fx.core = stub_start();
    start_server();
    for (int w = 0; w < KINDS; w++)
        for (int by = ANN; by < PEOPLE_END; by++) {
            enum role role = role_in(&kinds[w], by);
            expect_status("PATCH", format_text(V1 "/workspaces/%lld", (long long)kinds[w].id), by,
                          "{}",
                          role == ROLE_NONE   ? 404
                          : role < ROLE_ADMIN ? 403
                                              : 200);
        }
    delete_full(format_text(V1 "/workspaces/%lld", (long long)kinds[0].id), ANN);
    expect_refused("POST", V1 "/workspaces", BY_ADMIN, "{\"name\":\"closed\"}", 409, "already");
    int64_t id = create_workspace("later", ANN);
    assert_true(id > kinds[2].id);
    expect_status("DELETE", format_text(V1 "/workspaces/%lld", (long long)id), ANN, NULL, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles_and_calls),
        cmocka_unit_test(test_every_call_is_guarded),
        cmocka_unit_test(test_own_experiments),
        cmocka_unit_test(test_tasks_see_their_own),
        cmocka_unit_test(test_lists_hide_other_workspaces),
        cmocka_unit_test(test_sql_and_c_agree),
        cmocka_unit_test(test_own_workspace),
        cmocka_unit_test(test_first_workspace_cannot_be_removed),
        cmocka_unit_test(test_move_between_workspaces),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_restart),
    };
    return cmocka_run_group_tests(tests, teams_start, fixture_stop);
}
