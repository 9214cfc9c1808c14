// Access tokens: users create them for their programs, with a description and a lifetime;
// revocation takes effect at once. The text of a token is shown once, at its creation, and never
// stored.

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "db/statements/lists.h"
#include "master/http/auth/auth.h"
#include "master/registry/registry.h"
#include "master/views/lists/list.h"

#include <stdlib.h>
#include <string.h>

static void write_token(struct json_writer *w, struct db_rows *rows)
{
    jw_object(w);
    jw_kv_int(w, "id", DB_GET(rows, TOKEN, id));
    jw_kv_int(w, "userId", DB_GET(rows, TOKEN, user_id));
    write_time(w, "expiry", DB_GET(rows, TOKEN, expires_at)); // null: it never expires
    write_time(w, "createdAt", DB_GET(rows, TOKEN, created_at));
    jw_kv_string(w, "tokenType",
                 DB_GET(rows, TOKEN, access) ? "TOKEN_TYPE_ACCESS_TOKEN"
                                             : "TOKEN_TYPE_USER_SESSION");
    jw_kv_bool(w, "revoked", DB_GET(rows, TOKEN, revoked));
    jw_kv_string(w, "description", DB_GET(rows, TOKEN, description));
    jw_object_end(w);
}

// Lists valid access tokens; further ones with showInactive, tokenIds, and our own parameter
// sessions, which logins create.
int token_list(struct view *v, struct error *e)
{
    static const struct list_sort sorts[] = {{"SORT_BY_USER_ID", "k.user_id"},
                                             {"SORT_BY_EXPIRY", "k.expires_at"},
                                             {"SORT_BY_CREATED_AT", "k.created_at"},
                                             {"SORT_BY_TOKEN_TYPE", "k.access"},
                                             {"SORT_BY_REVOKED", "k.revoked"},
                                             {"SORT_BY_DESCRIPTION", "k.description"},
                                             {NULL, NULL}};
    const struct principal *me = &v->rq->principal;
    struct list l;
    list_init(&l, v);
    list_and(&l, "k.kind = 'user' AND k.id IS NOT NULL");
    if (!me->admin) {
        list_and(&l, "k.user_id = ?");
        list_bind_int(&l, me->user_id);
    }
    if (!query_flag(v->query, "showInactive") && !query_get(v->query, "tokenIds")) {
        list_and(&l, SQL_TOKEN_WORKS);
        list_bind_int(&l, clock_wall_us());
    }
    if (!query_flag(v->query, "sessions") && !query_get(v->query, "tokenIds"))
        list_and(&l, "k.access = 1");
    list_filter_ints(&l, "tokenIds", "k.id");
    list_filter_texts(&l, "username", SQL_TOKEN_USERNAME);
    list_sort(&l, "sortBy", sorts, "k.id", "k.id");
    list_page(&l);
    static const struct list_source source = {"tokenInfo", SQL_SELECT(TOKEN_ROW), SQL_TOKEN_FROM,
                                              NULL, write_token};
    return list_answer(&l, &source, e);
}

// --- made ----------------------------------------------------------------------------------------

// "72h" as in Go; "-1": forever. Default: 30 days.
static int read_lifespan(const json_t *body, int64_t now, int64_t *expires, struct error *e)
{
    const char *text = jget_string(body, "lifespan", NULL);
    int64_t lasts = LIMIT_TOKEN_DAYS * 86400LL * 1000000;
    *expires = 0;
    if (text && !strcmp(text, "-1"))
        return 0;
    if (text && (duration_parse(text, &lasts) || lasts <= 0 || lasts > INT64_MAX - now))
        return error_set(e, ERR_INVALID, "lifespan: not a length of time like 72h, or -1 for ever");
    *expires = now + lasts;
    return 0;
}

// Administrators may create tokens for other users, such as those of programs.
static int check_user(struct view *v, int64_t user, int64_t now, struct error *e)
{
    const struct principal *me = &v->rq->principal;
    if (user != me->user_id && !me->admin)
        return error_set(e, ERR_FORBIDDEN, "only an administrator makes tokens for other users");
    struct db_rows *rows = DB_QUERY(v->db, USER_BY_ID, user);
    bool active = db_next(rows) == 1 && DB_GET(rows, USER_BY_ID, active);
    db_rows_close(rows);
    if (!active)
        return error_not_found(e, "active user", "%lld", (long long)user);
    rows = DB_QUERY(v->db, TOKENS_ACTIVE, user, now);
    int64_t count = db_next(rows) == 1 ? DB_GET(rows, TOKENS_ACTIVE, count) : 0;
    db_rows_close(rows);
    if (count >= LIMIT_ACCESS_TOKENS)
        return error_set(e, ERR_CONFLICT, "the user has %d access tokens already; revoke one first",
                         LIMIT_ACCESS_TOKENS);
    return 0;
}

int64_t token_id(struct view *v, const char *hash)
{
    struct db_rows *rows = DB_QUERY(v->db, TOKEN_BY_HASH, hash);
    int64_t id = db_next(rows) == 1 ? DB_GET(rows, TOKEN_BY_HASH, id) : 0;
    db_rows_close(rows);
    return id;
}

int token_create(struct view *v, struct error *e)
{
    char token[TOKEN_TEXT], hash[SHA256_HEX];
    const json_t *body = v->rq->body;
    const char *description = jget_string(body, "description", "");
    int64_t now = clock_wall_us(), expires;
    int64_t user = jget_int(body, "userId", v->rq->principal.user_id);
    int rc = check_user(v, user, now, e);
    if (!rc)
        rc = read_lifespan(body, now, &expires, e);
    if (!rc && strlen(description) > LIMIT_NAME)
        rc = error_set(e, ERR_TOO_LARGE, "description: more than %d bytes", LIMIT_NAME);
    if (rc)
        return rc;
    auth_token_make(token, hash);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, TOKENS_DELETE_EXPIRED, now);
    DB_ADD(b, TOKEN_COUNT);
    DB_ADD(b, TOKEN_INSERT_ACCESS, hash, user, now, expires, description, v->token,
           LIMIT_ACCESS_TOKENS);
    rc = view_commit(v, b, e);
    int64_t id = rc ? 0 : token_id(v, hash);
    if (!rc && !id) // something changed since the checks
        rc = check_user(v, user, now, e);
    if (!rc && !id)
        rc = error_set(e, ERR_AUTH, "your access ended meanwhile; log in again (muster login)");
    if (rc)
        return rc;
    jw_object(&v->w);
    jw_kv_string(&v->w, "token", token);
    jw_kv_int(&v->w, "tokenId", id);
    jw_object_end(&v->w);
    return 0;
}

// --- changed -------------------------------------------------------------------------------------

// The token of the path, which the caller must be allowed to change.
static int find_token(struct view *v, int64_t *id, struct error *e)
{
    const struct principal *me = &v->rq->principal;
    int rc = request_param_int(v->rq, 0, id, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, TOKEN_BY_ID, *id);
    int found = db_next(rows);
    bool seen = found == 1 && (me->admin || DB_GET(rows, TOKEN_BY_ID, user_id) == me->user_id);
    bool ended = seen && (DB_GET(rows, TOKEN_BY_ID, revoked) ||
                          (DB_GET(rows, TOKEN_BY_ID, expires_at) &&
                           DB_GET(rows, TOKEN_BY_ID, expires_at) < clock_wall_us()));
    db_rows_close(rows);
    if (found < 0)
        return store_failed(e);
    if (!seen)
        return error_not_found(e, "token", "%lld", (long long)*id);
    return ended
               ? error_set(e, ERR_CONFLICT, "token %lld has expired or was revoked", (long long)*id)
               : 0;
}

int token_patch(struct view *v, struct error *e)
{
    int64_t id = 0;
    const char *description = jget_string(v->rq->body, "description", NULL);
    bool revoke = jget_bool(v->rq->body, "setRevoked", false);
    int rc = find_token(v, &id, e);
    if (!rc && description && strlen(description) > LIMIT_NAME)
        rc = error_set(e, ERR_TOO_LARGE, "description: more than %d bytes", LIMIT_NAME);
    if (rc)
        return rc;
    struct db_batch *b = db_batch_new();
    if (description)
        DB_ADD(b, TOKEN_SET_DESCRIPTION, description, id);
    if (revoke)
        DB_ADD(b, TOKEN_REVOKE, id);
    rc = view_commit(v, b, e);
    if (rc)
        return rc;
    v->rq->id = id;
    jw_object(&v->w);
    rc = write_object_of_row(v, "tokenInfo", DB_QUERY(v->db, TOKEN_VIEW_BY_ID, v->rq->id),
                             write_token, e);
    jw_object_end(&v->w);
    return rc;
}
