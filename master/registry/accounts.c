// Users and their sessions. Changes run on a worker and are answered after the commit.

#include "master/http/auth/auth.h"
#include "master/http/auth/session.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "db/statements/lists.h"
#include "master/registry/registry.h"
#include "master/teams/agent_user.h"
#include "master/views/lists/list.h"

static void write_user(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", DB_GET(rows, USER, id));
    jw_kv_string(w, "username", DB_GET(rows, USER, username));
    jw_kv_string(w, "displayName", DB_GET(rows, USER, display_name));
    jw_kv_bool(w, "admin", DB_GET(rows, USER, admin));
    jw_kv_bool(w, "active", DB_GET(rows, USER, active));
    write_time(w, "modifiedAt", DB_GET(rows, USER, modified_at));
    jw_kv_bool(w, "remote", false);
    jw_kv_raw(w, "agentUserGroup", DB_GET(rows, USER, agent_user_group));
    write_time(w, "lastAuthAt", DB_GET(rows, USER, last_auth_at));
    jw_object_end(w);
}

// Writes {"user": {..}}; if the object is open already, after its earlier members. `name`: the
// user's id or name, for the error.
static int write_user_row(struct view *v, struct db_rows *rows, const char *name, struct error *e)
{
    int found = db_next(rows);
    if (found == 1) {
        jw_key(&v->w, "user");
        write_user(&v->w, rows);
    }
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : found == 0 ? error_not_found(e, "user", "%s", name) : 0;
}

// Writes the user with this id in the same way.
static int write_user_of(struct view *v, int64_t id, struct error *e)
{
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)id);
    return write_user_row(v, DB_QUERY(v->db, USER_BY_ID, id), name, e);
}

static int answer_user(struct view *v, int64_t id, struct error *e)
{
    jw_object(&v->w);
    int rc = write_user_of(v, id, e);
    jw_object_end(&v->w);
    return rc;
}

int account_me(struct view *v, struct error *e)
{
    return answer_user(v, v->rq->principal.user_id, e);
}

int account_get(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    return rc ? rc : answer_user(v, id, e);
}

int account_get_by_name(struct view *v, struct error *e)
{
    char *name = arena_strdup(&v->rq->arena, v->rq->params[0]);
    for (char *c = name; *c; c++) // as user_name() stores it
        *c = (char)tolower((unsigned char)*c);
    jw_object(&v->w);
    int rc = write_user_row(v, DB_QUERY(v->db, USER_BY_NAME, name), name, e);
    jw_object_end(&v->w);
    return rc;
}

int account_list(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {{"SORT_BY_USER_NAME", "username"},
                                             {"SORT_BY_DISPLAY_NAME", "display_name"},
                                             {"SORT_BY_ADMIN", "admin"},
                                             {"SORT_BY_ACTIVE", "active"},
                                             {"SORT_BY_MODIFIED_TIME", "modified_at"},
                                             {"SORT_BY_NAME", "username"},
                                             {"SORT_BY_LAST_AUTH_TIME", "last_auth_at"},
                                             {"SORT_BY_REMOTE", "id"}, // nobody is remote
                                             {NULL, NULL}};
    struct list l;
    list_init(&l, v);
    list_filter_bool(&l, "active", "active");
    list_filter_bool(&l, "admin", "admin");
    list_filter_contains(&l, "name", "username || ' ' || display_name");
    list_sort(&l, "sortBy", sorts, "id", "id");
    list_page(&l);
    static const struct list_source source = {"users", SQL_SELECT(USER_ROW), SQL_USER_FROM, NULL,
                                              write_user};
    return list_answer(&l, &source, e);
}

// Normalizes a user name as it is stored: lower case, as in det. ERR_INVALID: empty, too long, or
// unusual characters.
static int user_name(const json_t *body, char out[LIMIT_NAME + 1], struct error *e)
{
    const char *name = jget_string(body, "username", "");
    size_t len = strlen(name);
    if (!len || len > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "username: give 1 to %d bytes", LIMIT_NAME);
    for (size_t i = 0; i <= len; i++) {
        out[i] = (char)tolower((unsigned char)name[i]);
        if (i < len && (iscntrl((unsigned char)name[i]) || strchr(" /\"\\<>", name[i])))
            return error_set(e, ERR_INVALID,
                             "username: no blanks, control characters, or any of / \" \\ < >");
    }
    return 0;
}

// The id and the stored password of a user who may log in; false: there is none.
static bool find_login(struct view *v, const char *name, int64_t *id, bool *active,
                       char stored[PASSWORD_HASH_MAX])
{
    struct db_rows *rows = DB_QUERY(v->db, USER_PASSWORD, name);
    bool found = db_next(rows) == 1;
    if (found) {
        *id = DB_GET(rows, USER_PASSWORD, id);
        *active = DB_GET(rows, USER_PASSWORD, active);
        snprintf(stored, PASSWORD_HASH_MAX, "%s", DB_GET(rows, USER_PASSWORD, password_hash));
    }
    db_rows_close(rows);
    return found;
}

// An imported password has a hash of another kind, which takes seconds to verify; the first login
// replaces it. `stored` becomes the hash that the user then has.
static int renew_password(const char *sent, char stored[PASSWORD_HASH_MAX], int64_t user_id,
                          struct db_batch *b, struct error *e)
{
    char hash[PASSWORD_HASH_MAX];
    if (!*stored || !strncmp(stored, "$y$", 3))
        return 0;
    int rc = auth_password_hash(sent, hash, e);
    if (rc)
        return rc;
    DB_ADD(b, USER_RENEW_PASSWORD, hash, clock_wall_us(), user_id, stored);
    snprintf(stored, PASSWORD_HASH_MAX, "%s", hash);
    return 0;
}

// Makes a token of the user and commits it with the batch `b`, which it takes. ERR_AUTH: the user
// no longer has the password `stored`, or is no longer active.
static int grant_token(struct view *v, struct db_batch *b, int64_t user_id, const char *stored,
                       char token[TOKEN_TEXT], struct error *e)
{
    char hash[SHA256_HEX];
    int64_t now = clock_wall_us();
    auth_token_make(token, hash);
    DB_ADD(b, TOKENS_DELETE_EXPIRED, now);
    DB_ADD(b, TOKEN_COUNT);
    DB_ADD(b, TOKEN_INSERT_SESSION, hash, user_id, now, now + LIMIT_TOKEN_DAYS * 86400LL * 1000000,
           stored);
    DB_ADD(b, TOKENS_KEEP_SESSIONS, user_id, LIMIT_SESSIONS);
    DB_ADD(b, USER_SET_LAST_AUTH, now, user_id);
    int rc = view_commit(v, b, e);
    if (!rc && !token_id(v, hash))
        rc = error_set(e, ERR_AUTH, "the password or the account changed meanwhile; log in again");
    return rc;
}

int account_login(struct view *v, struct error *e)
{
    char name[LIMIT_NAME + 1], sent[SHA512_HEX], stored[PASSWORD_HASH_MAX], token[TOKEN_TEXT];
    const json_t *body = v->rq->body;
    bool cookie = query_flag(v->query, "cookie");
    int rc = user_name(body, name, e);
    if (!rc && cookie)
        rc = session_check_origin(v->rq, v->service->tls, e);
    if (!rc)
        rc = throttle_enter(v->service->logins, name, v->address, &v->rq->retry_after, e);
    if (rc)
        return rc;
    struct principal *caller = &v->rq->principal; // for the audit trail
    snprintf(caller->username, sizeof caller->username, "%s", name);

    int64_t id = 0;
    bool active = false;
    bool known = find_login(v, name, &id, &active, stored);
    bool fits = auth_password_sent(jget_string(body, "password", ""),
                                   jget_bool(body, "isHashed", false), sent);
    bool right = auth_password_matches(fits ? sent : "-", known ? stored : NULL) && fits;
    struct db_batch *b = db_batch_new();
    if (right && active)
        rc = renew_password(sent, stored, id, b, e);
    else
        rc = error_set(e, ERR_AUTH,
                       right ? "user is not active; ask an administrator"
                             : "wrong user name or password");
    explicit_bzero(sent, sizeof sent);
    if (rc) {
        db_batch_free(b);
        return rc;
    }
    throttle_passed(v->service->logins, name, v->address);
    caller->kind = PRINCIPAL_USER;
    caller->user_id = id;
    rc = grant_token(v, b, id, stored, token, e);
    if (rc)
        return rc;
    if (cookie)
        view_add_header(v, "Set-Cookie", session_cookie(v->rq, token, v->service->tls));
    jw_object(&v->w);
    jw_kv_string(&v->w, "token", cookie ? "" : token); // scripts of the page cannot read the cookie
    rc = write_user_of(v, id, e);
    jw_object_end(&v->w);
    return rc;
}

int account_logout(struct view *v, struct error *e)
{
    struct db_batch *b = db_batch_new();
    DB_ADD(b, TOKEN_DELETE, v->token);
    if (v->rq->principal.session)
        view_add_header(v, "Set-Cookie", session_cookie(v->rq, "", v->service->tls));
    return view_commit(v, b, e);
}

// The hash to store for the password in a body; "" for a blank password.
static int new_password(const json_t *body, char hash[PASSWORD_HASH_MAX], struct error *e)
{
    char sent[SHA512_HEX];
    if (!auth_password_sent(jget_string(body, "password", ""), jget_bool(body, "isHashed", false),
                            sent))
        return error_set(e, ERR_INVALID,
                         "password: isHashed is true, but this is not a hex SHA-512");
    int rc = auth_password_hash(sent, hash, e);
    explicit_bzero(sent, sizeof sent);
    return rc;
}

// `id`: of the user who is to have the name; 0: a new one. A name by which others know another user
// is refused, because pages show it in place of the user name.
static int check_display_name(struct view *v, const char *name, int64_t id, struct error *e)
{
    int err = 0;
    if (strlen(name) > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "displayName: at most %d bytes", LIMIT_NAME);
    if (!*name)
        return 0;
    struct db_rows *rows = DB_QUERY(v->db, USER_CALLED, name, name, id);
    int found = db_next(rows);
    if (found < 0)
        err = store_failed(e);
    else if (found == 1)
        err = error_set(e, ERR_INVALID, "displayName: user %s has this name; choose another one",
                        DB_GET(rows, USER_CALLED, username));
    db_rows_close(rows);
    return err;
}

static int read_agent_user(struct view *v, const json_t *body, const char **out, struct error *e)
{
    const json_t *group = jget(body, "agentUserGroup");
    *out = NULL;
    return group ? agent_user_read(group, AGENT_USER_OF_USER, &v->rq->arena, out, e) : 0;
}

static int id_of(struct view *v, const char *name, int64_t *id, struct error *e)
{
    struct db_rows *rows = DB_QUERY(v->db, USER_BY_NAME, name);
    int found = db_next(rows);
    *id = found == 1 ? DB_GET(rows, USER_BY_NAME, id) : 0;
    db_rows_close(rows);
    return found < 0 ? store_failed(e) : 0;
}

int account_create(struct view *v, struct error *e)
{
    char name[LIMIT_NAME + 1], hash[PASSWORD_HASH_MAX];
    const json_t *user = jget(v->rq->body, "user");
    const char *display = jget_string(user, "displayName", ""), *agent;
    int64_t id = 0, now = clock_wall_us();
    int rc = user_name(user, name, e);
    if (!rc)
        rc = check_display_name(v, display, 0, e);
    if (!rc)
        rc = id_of(v, name, &id, e);
    if (!rc && id)
        rc = error_set(e, ERR_CONFLICT, "the user %s exists already", name);
    if (!rc)
        rc = read_agent_user(v, user, &agent, e);
    if (!rc)
        rc = new_password(v->rq->body, hash, e);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    DB_ADD(b, USER_INSERT, name, display, jget_bool(user, "admin", false),
           jget_bool(user, "active", true), hash, now);
    if (agent)
        DB_ADD(b, USER_SET_AGENT_OF_NAME, agent, name);
    rc = view_commit(v, b, e);
    if (!rc)
        rc = id_of(v, name, &id, e);
    return rc ? rc : answer_user(v, id, e);
}

struct patch { // NULL or -1: no change
    char name[LIMIT_NAME + 1];
    const char *display, *agent;
    int admin, active;
    bool renames, has_password;
    char hash[PASSWORD_HASH_MAX];
};

static int flag_of(const json_t *body, const char *key)
{
    return jget(body, key) ? jget_bool(body, key, false) : -1;
}

static int read_patch(struct view *v, int64_t id, struct patch *p, struct error *e)
{
    const json_t *body = v->rq->body;
    int rc = read_agent_user(v, body, &p->agent, e);
    p->admin = flag_of(body, "admin");
    p->active = flag_of(body, "active");
    p->display = jget_string(body, "displayName", NULL);
    p->renames = jget(body, "username");
    p->has_password = jget(body, "password");
    if (!rc && p->display)
        rc = check_display_name(v, p->display, id, e);
    if (!rc && p->renames)
        rc = user_name(body, p->name, e);
    if (!rc && p->has_password)
        rc = new_password(body, p->hash, e);
    return rc;
}

// Users may change their own password and display name; administrators may change everything, but
// one active administrator must remain.
static int may_patch(struct view *v, const struct patch *p, int64_t id, struct error *e)
{
    const struct principal *me = &v->rq->principal;
    if (!me->admin &&
        (me->user_id != id || p->renames || p->agent || p->admin >= 0 || p->active >= 0))
        return error_set(e, ERR_FORBIDDEN,
                         "only an administrator may change other users, or whether a user is "
                         "active or an administrator");
    if (p->admin != 0 && p->active != 0)
        return 0;
    struct db_rows *rows = DB_QUERY(v->db, USER_OTHER_ADMINS, id);
    bool others = db_next(rows) == 1 && DB_GET(rows, USER_OTHER_ADMINS, count) > 0;
    db_rows_close(rows);
    return others ? 0
                  : error_set(e, ERR_CONFLICT,
                              "this would leave no active administrator; make another one first");
}

static struct db_batch *patch_batch(struct view *v, const struct patch *p, int64_t id)
{
    int64_t now = clock_wall_us();
    struct db_batch *b = db_batch_new();
    if (p->renames)
        DB_ADD(b, USER_SET_NAME, p->name, now, id);
    if (p->display)
        DB_ADD(b, USER_SET_DISPLAY_NAME, p->display, now, id);
    if (p->admin >= 0)
        DB_ADD(b, USER_SET_ADMIN, p->admin, now, id);
    if (p->active >= 0)
        DB_ADD(b, USER_SET_ACTIVE, p->active, now, id);
    if (!p->active || p->has_password) {
        DB_ADD(b, TOKENS_LEAVE_TO_TASKS, id);
        DB_ADD(b, USER_LIMIT_TASKS, id);
    }
    if (!p->active) { // and they stay revoked when the user becomes active again
        DB_ADD(b, TOKENS_DELETE_OTHERS, id, "");
        DB_ADD(b, TOKENS_REVOKE_OTHERS, id, "");
    }
    if (p->agent)
        DB_ADD(b, USER_SET_AGENT, p->agent, now, id);
    if (p->has_password) { // whoever knew the old password loses access
        DB_ADD(b, USER_SET_PASSWORD, p->hash, now, id);
        DB_ADD(b, TOKENS_DELETE_OTHERS, id, v->token);
        DB_ADD(b, TOKENS_REVOKE_OTHERS, id, v->token);
    }
    return b;
}

static int apply_patch(struct view *v, int64_t id, const struct patch *p, struct error *e)
{
    int64_t same = 0;
    int rc = may_patch(v, p, id, e);
    if (!rc && p->renames)
        rc = id_of(v, p->name, &same, e);
    if (!rc && same && same != id)
        rc = error_set(e, ERR_CONFLICT, "the user %s exists already", p->name);
    if (rc)
        return rc;
    struct db_batch *b = patch_batch(v, p, id);
    if (!db_batch_empty(b))
        return view_commit(v, b, e);
    db_batch_free(b);
    return 0;
}

// Reads the id of the path; ERR_NOT_FOUND: there is no such user.
static int param_user(struct view *v, int64_t *id, struct error *e)
{
    int rc = request_param_int(v->rq, 0, id, e);
    if (!rc)
        rc = answer_user(v, *id, e);
    buf_reset(&v->rq->answer);
    jw_init(&v->w, &v->rq->answer);
    return rc;
}

int account_patch(struct view *v, struct error *e)
{
    int64_t id;
    struct patch p = {0};
    int rc = param_user(v, &id, e);
    if (!rc)
        rc = read_patch(v, id, &p, e);
    if (!rc)
        rc = apply_patch(v, id, &p, e);
    return rc ? rc : answer_user(v, id, e);
}

static int set_active(struct view *v, int64_t id, bool active, struct error *e)
{
    const struct patch p = {.admin = -1, .active = active};
    struct db_rows *rows = DB_QUERY(v->db, USER_BY_ID, id);
    int found = db_next(rows);
    db_rows_close(rows);
    return found < 0    ? store_failed(e)
           : found == 0 ? error_not_found(e, "user", "%lld", (long long)id)
                        : apply_patch(v, id, &p, e);
}

// Tries each user; the answer contains each result.
int account_patch_many(struct view *v, struct error *e)
{
    const json_t *ids = jget(v->rq->body, "userIds"), *id;
    int active = flag_of(v->rq->body, "activate");
    size_t i;
    if (active < 0 || !json_array_size(ids) || json_array_size(ids) > LIMIT_BULK)
        return error_set(e, ERR_INVALID,
                         "activate and userIds: give true or false, and from 1 to %d users",
                         LIMIT_BULK);
    jw_object(&v->w);
    jw_key(&v->w, "results");
    jw_array(&v->w);
    json_array_foreach(ids, i, id)
    {
        struct error one = {0};
        int err = set_active(v, json_integer_value(id), active, &one);
        jw_object(&v->w);
        jw_kv_int(&v->w, "id", json_integer_value(id));
        jw_kv_string(&v->w, "error", err ? one.text : "");
        jw_object_end(&v->w);
    }
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}

static void wipe(void *password)
{
    explicit_bzero(password, strlen(password));
    free(password);
}

// The body is only a password, as a JSON string, for the following call.
int account_password_read(struct request *rq, char *text, size_t len, struct error *e)
{
    json_t *body = json_loadb(text, len, JSON_DECODE_ANY, NULL);
    rq->input = json_is_string(body) ? xstrdup(json_string_value(body)) : NULL;
    rq->input_free = wipe;
    json_decref(body);
    return rq->input ? 0
                     : error_set(e, ERR_INVALID,
                                 "the request body is not the new password as a JSON string");
}

// A text in the form of a client-side hash is taken as one, as at a login.
int account_set_password(struct view *v, struct error *e)
{
    const char *password = v->rq->input;
    char sent[SHA512_HEX] = "";
    int64_t id;
    struct patch p = {.admin = -1, .active = -1, .has_password = true};
    int rc = param_user(v, &id, e);
    if (!rc && !password)
        rc = error_set(e, ERR_INVALID, "the request body is missing: the new password, as JSON");
    if (!rc)
        rc = may_patch(v, &p, id, e);
    if (!rc && !auth_password_sent(password, true, sent))
        auth_password_sent(password, false, sent);
    if (!rc)
        rc = auth_password_hash(sent, p.hash, e);
    explicit_bzero(sent, sizeof sent);
    return rc ? rc : apply_patch(v, id, &p, e);
}
