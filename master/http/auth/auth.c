#include "master/http/auth/auth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "master/common/task_id.h"
#include "master/http/auth/session.h"
#include "master/http/routing/routes.h"
#include "master/teams/authz.h"

// Returns T of "Bearer T".
static const char *bearer(const char *header)
{
    if (!header || strncasecmp(header, "Bearer ", 7))
        return NULL;
    header += 7;
    header += strspn(header, " ");
    return *header ? header : NULL;
}

static int refuse_unknown(bool allocation, struct error *e)
{
    // An allocation's token ends with the allocation, so a stale task gets here; its trainer
    // recognizes these words.
    if (allocation)
        return error_set(e, ERR_FORBIDDEN,
                         "allocation has ended: its token is no longer known to this master");
    return error_set(e, ERR_AUTH,
                     "the token is not known here, or was revoked; log in again (muster login)");
}

static int read_principal(struct db_rows *rows, struct principal *out, struct error *e)
{
    const char *kind = DB_GET(rows, TOKEN_PRINCIPAL, kind);
    int64_t expires = DB_GET(rows, TOKEN_PRINCIPAL, expires_at);
    const char *allocation_state = DB_GET(rows, TOKEN_PRINCIPAL, allocation_state);
    if (expires && expires <= clock_wall_us())
        return error_set(e, ERR_AUTH, "the token has expired; log in again (muster login)");
    if (!strcmp(kind, "agent")) {
        out->kind = PRINCIPAL_AGENT;
        if (!DB_IS_NULL(rows, TOKEN_PRINCIPAL, agent_id))
            snprintf(out->agent_id, sizeof out->agent_id, "%s",
                     DB_GET(rows, TOKEN_PRINCIPAL, agent_id));
        return 0;
    }
    bool of_task = !DB_IS_NULL(rows, TOKEN_PRINCIPAL, allocation_id);
    // The programs of a user who is no longer active keep the rights of their task.
    bool task = !strcmp(kind, "allocation") || (of_task && !DB_GET(rows, TOKEN_PRINCIPAL, active));
    if (task && (!allocation_state || !strcmp(allocation_state, "TERMINATED")))
        return error_set(e, ERR_FORBIDDEN, "allocation has ended");
    if (DB_IS_NULL(rows, TOKEN_PRINCIPAL, user_id))
        return refuse_unknown(task, e);
    if (!task && !DB_GET(rows, TOKEN_PRINCIPAL, active))
        return error_set(e, ERR_FORBIDDEN, "user is not active; ask an administrator");
    out->kind = task ? PRINCIPAL_TASK : PRINCIPAL_USER;
    out->user_id = DB_GET(rows, TOKEN_PRINCIPAL, user_id);
    out->admin = !task && DB_GET(rows, TOKEN_PRINCIPAL, admin);
    snprintf(out->username, sizeof out->username, "%s", DB_GET(rows, TOKEN_PRINCIPAL, username));
    out->experiment_id = of_task ? DB_GET(rows, TOKEN_PRINCIPAL, experiment_id) : 0;
    if (of_task)
        snprintf(out->allocation_id, sizeof out->allocation_id, "%s",
                 DB_GET(rows, TOKEN_PRINCIPAL, allocation_id));
    return 0;
}

static int refuse_kind(unsigned allowed, const struct principal *p, struct error *e)
{
    static const struct {
        unsigned bit;
        const char *word;
    } words[] = {{AUTH_USER, "users"},
                 {AUTH_ADMIN, "administrators"},
                 {AUTH_AGENT, "agents"},
                 {AUTH_TASK, "running tasks"}};
    struct buf list;
    buf_init(&list, 128);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (allowed & words[i].bit)
            buf_printf(&list, "%s%s", list.len ? " and " : "", words[i].word);
    const char *who = p->kind == PRINCIPAL_AGENT ? "an agent's" : "a task's";
    if (p->kind == PRINCIPAL_USER)
        error_set(e, ERR_FORBIDDEN, "this call is for %s, and the user %s is not one of them",
                  buf_str(&list), p->username);
    else
        error_set(e, ERR_FORBIDDEN, "this call is for %s; the token is %s", buf_str(&list), who);
    buf_free(&list);
    return ERR_FORBIDDEN;
}

static bool is_allowed(unsigned allowed, const struct principal *p)
{
    switch (p->kind) {
    case PRINCIPAL_USER:
        return (allowed & AUTH_USER) || (p->admin && (allowed & AUTH_ADMIN));
    case PRINCIPAL_AGENT:
        return allowed & AUTH_AGENT;
    case PRINCIPAL_TASK:
        return allowed & AUTH_TASK;
    default:
        return false;
    }
}

// The token that a task has of its user stands for the task in the calls that users cannot make:
// Determined's library sends no other.
static void become_task(unsigned allowed, struct principal *p)
{
    if (p->kind != PRINCIPAL_USER || !*p->allocation_id || (allowed & AUTH_USER) ||
        !(allowed & AUTH_TASK))
        return;
    p->kind = PRINCIPAL_TASK;
    p->admin = false;
}

int auth_check_hash(struct db_reader *db, unsigned allowed, bool of_task, const char *token_hash,
                    struct principal *out, struct error *e)
{
    struct db_rows *rows = DB_QUERY(db, TOKEN_PRINCIPAL, token_hash);
    int found = db_next(rows);
    int rc = found < 0    ? error_set(e, ERR_INTERNAL, "the store cannot be read")
             : found == 0 ? refuse_unknown(of_task, e)
                          : read_principal(rows, out, e);
    db_rows_close(rows);
    snprintf(out->token, sizeof out->token, "%s", token_hash);
    if (!rc)
        become_task(allowed, out);
    if (!rc && !is_allowed(allowed, out))
        rc = refuse_kind(allowed, out, e);
    return rc;
}

int auth_check(struct db_reader *db, unsigned allowed, const struct auth_headers *given,
               struct principal *out, struct error *e)
{
    char hash[SHA256_HEX];
    const char *token = (allowed & AUTH_TASK) ? bearer(given->allocation) : NULL;
    bool allocation = token;
    if (!token)
        token = bearer(given->authorization);
    if (!token) {
        token = bearer(given->allocation);
        allocation = token;
    }
    char cookie[TOKEN_TEXT];
    unsigned users = allowed & (AUTH_USER | AUTH_ADMIN);
    bool alone = !given->authorization && !given->allocation;
    out->session = alone && users && session_token(given->cookie, cookie);
    if (out->session) {
        token = cookie;
        allowed = users;
    }
    if (!token)
        return error_set(e, ERR_AUTH,
                         "this call needs a token (Authorization: Bearer ...); muster login "
                         "gets one");
    sha256_hex(token, strlen(token), hash);
    return auth_check_hash(db, allowed, allocation, hash, out, e);
}

// --- the object of the path ----------------------------------------------------------------------

static bool has_row(struct db_rows *rows)
{
    bool found = db_next(rows) == 1;
    db_rows_close(rows);
    return found;
}

// The shared token speaks for every agent that has no credential of its own.
static int check_agent_name(struct db_reader *db, const struct principal *who, const char *name,
                            struct error *e)
{
    if (*who->agent_id && strcmp(who->agent_id, name))
        return error_set(e, ERR_FORBIDDEN,
                         "the credential is that of agent %s, so it cannot speak for agent %.64s",
                         who->agent_id, name);
    if (!*who->agent_id && has_row(DB_QUERY(db, CREDENTIAL_OF_AGENT, name)))
        return error_set(e, ERR_FORBIDDEN,
                         "agent %.64s has a credential of its own, so the token that agents share "
                         "is not enough; start it with the work folder in which it was enrolled, "
                         "or end the credential: muster agent revoke %.64s",
                         name, name);
    return 0;
}

// An agent with a credential of its own sees the tasks that run on it.
static int check_agent(struct db_reader *db, const struct route *route, const struct request *rq,
                       struct error *e)
{
    char task[TASK_ID];
    const struct principal *who = &rq->principal;
    const char *first = strchr(route->path, '{');
    if (first && !strncmp(first, "{agentId}", 9))
        return check_agent_name(db, who, rq->params[0], e);
    if (!*who->agent_id || !first || strncmp(first, "{taskId}", 8))
        return 0;
    if (has_row(DB_QUERY(db, AGENT_HOLDS_TASK, task_id_first(rq->params[0], task), who->agent_id)))
        return 0;
    return error_set(e, ERR_FORBIDDEN, "task %.64s does not run on agent %s", rq->params[0],
                     who->agent_id);
}

static int check_visible(struct db_reader *db, const struct route *route, struct request *rq,
                         struct error *e)
{
    static const char *const names[AUTHZ_OBJECTS] = {[AUTHZ_WORKSPACE] = "{workspaceId}",
                                                     [AUTHZ_PROJECT] = "{projectId}",
                                                     [AUTHZ_EXPERIMENT] = "{experimentId}",
                                                     [AUTHZ_TRIAL] = "{trialId}",
                                                     [AUTHZ_TASK] = "{taskId}",
                                                     [AUTHZ_CHECKPOINT] = "{checkpointUuid}"};
    const char *first = strchr(route->path, '{');
    for (int i = 0; first && i < AUTHZ_OBJECTS; i++) {
        if (strncmp(first, names[i], strlen(names[i])))
            continue;
        if (i == AUTHZ_WORKSPACE && !strcmp(rq->params[0], "0"))
            return 0; // of every workspace that the caller may see
        if (i == AUTHZ_PROJECT && !strcmp(rq->params[0], "-1"))
            return 0; // the same for projects
        if (i == AUTHZ_TASK)
            rq->params[0] = task_id_resolve(db, &rq->arena, rq->params[0]);
        return authz_check(db, &rq->principal, (enum authz_object)i, rq->params[0], e);
    }
    return 0;
}

int auth_check_object(struct db_reader *db, const struct route *route, struct request *rq,
                      struct error *e)
{
    int rc = check_visible(db, route, rq, e);
    return rc || rq->principal.kind != PRINCIPAL_AGENT ? rc : check_agent(db, route, rq, e);
}

// --- making --------------------------------------------------------------------------------------

void auth_token_make(char token[TOKEN_TEXT], char hash[SHA256_HEX])
{
    uint8_t secret[(TOKEN_TEXT - 1) / 2];
    rng_secret(secret, sizeof secret);
    hex_encode(secret, sizeof secret, token);
    sha256_hex(token, strlen(token), hash);
    explicit_bzero(secret, sizeof secret);
}
