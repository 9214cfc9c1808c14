// Enrolments: an administrator lets machines become agents, and each machine exchanges the token of
// the enrolment for a credential of its own. The agent makes the credential itself and sends its
// hash alone, so the master never knows it, and a call whose answer was lost may be repeated: the
// same hash is the same credential, and counts once.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "master/common/audit.h"
#include "master/http/auth/auth.h"
#include "master/notify/hub.h"
#include "master/registry/registry.h"
#include "master/tls/serving.h"

#define DAY_US (86400LL * 1000000)

static int check_agent_name(const char *key, const char *name, struct error *e)
{
    // "." and ".." are no names in the path of a call: clients leave them out.
    bool good = *name && strlen(name) <= LIMIT_NAME && strcmp(name, ".") && strcmp(name, "..");
    for (const char *c = name; *c; c++)
        good = good && (unsigned char)*c > ' ' && *c != 0x7f && *c != '/';
    return good ? 0
                : error_set(
                      e, ERR_INVALID,
                      "%s: 1 to %d bytes without blanks and slashes, and neither \".\" nor \"..\"",
                      key, LIMIT_NAME);
}

// --- enrolments ----------------------------------------------------------------------------------

struct enrolment_terms {
    const char *agent, *pool; // agent NULL: any
    int64_t expires, uses;
};

static int read_terms(const json_t *body, int64_t now, struct enrolment_terms *out, struct error *e)
{
    const char *lifespan = jget_string(body, "lifespan", "1h");
    int64_t lasts = 0;
    out->agent = jget_string(body, "agentId", NULL);
    out->pool = jget_string(body, "pool", "");
    out->uses = jget_int(body, "uses", 1);
    int rc = out->agent ? check_agent_name("agentId", out->agent, e) : 0;
    if (!rc && *out->pool)
        rc = check_agent_name("pool", out->pool, e);
    if (rc)
        return rc;
    if (out->uses < 1 || out->uses > LIMIT_ENROLMENT_USES || (out->agent && out->uses > 1))
        return error_set(e, ERR_INVALID, "uses: 1 to %d; with an agentId: 1", LIMIT_ENROLMENT_USES);
    if (duration_parse(lifespan, &lasts) || lasts <= 0 || lasts > LIMIT_ENROLMENT_DAYS * DAY_US)
        return error_set(e, ERR_INVALID,
                         "lifespan: a length of time such as 90m or 72h, at most %d days",
                         LIMIT_ENROLMENT_DAYS);
    out->expires = now + lasts;
    return 0;
}

static void write_enrolment(struct json_writer *w, int64_t id, const char *username,
                            int64_t created, const struct enrolment_terms *terms)
{
    jw_object(w);
    jw_kv_int(w, "id", id);
    if (terms->agent)
        jw_kv_string(w, "agentId", terms->agent);
    jw_kv_string(w, "pool", terms->pool);
    jw_kv_string(w, "username", username);
    write_time(w, "createdAt", created);
    write_time(w, "expiresAt", terms->expires);
    jw_kv_int(w, "usesLeft", terms->uses);
    jw_object_end(w);
}

// How agents reach and recognize this master, as far as it knows.
static void write_master(struct view *v)
{
    char fingerprint[SHA256_HEX] = "", host[256] = "";
    if (v->service->serving)
        serving_fingerprint(v->service->serving, fingerprint);
    if (v->service->reachable && gethostname(host, sizeof host - 1))
        *host = '\0';
    jw_kv_bool(&v->w, "https", v->service->tls);
    jw_kv_string(&v->w, "fingerprint", fingerprint);
    jw_kv_string(&v->w, "masterUrl", v->service->master_url ? v->service->master_url : "");
    jw_kv_string(&v->w, "hostName", host);
}

static int64_t enrolment_id(struct view *v, const char *hash)
{
    struct db_rows *rows = DB_QUERY(v->db, ENROLMENT_BY_HASH, hash);
    int64_t id = db_next(rows) == 1 ? DB_GET(rows, ENROLMENT_BY_HASH, id) : 0;
    db_rows_close(rows);
    return id;
}

int enrolment_create(struct view *v, struct error *e)
{
    char token[TOKEN_TEXT], hash[SHA256_HEX];
    struct enrolment_terms terms = {0};
    int64_t now = clock_wall_us();
    int rc = read_terms(v->rq->body, now, &terms, e);
    if (rc)
        return rc;
    auth_token_make(token, hash);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, ENROLMENTS_DELETE_ENDED, now);
    DB_ADD(b, ENROLMENT_INSERT, hash, terms.agent, terms.pool, v->rq->principal.user_id, now,
           terms.expires, terms.uses, LIMIT_ENROLMENTS);
    rc = view_commit(v, b, e);
    int64_t id = rc ? 0 : enrolment_id(v, hash);
    if (!rc && !id)
        rc = error_set(e, ERR_CONFLICT,
                       "there are %d unused enrolments already; withdraw some (DELETE "
                       "/api/v1/agent-enrolments/{id})",
                       LIMIT_ENROLMENTS);
    if (rc)
        return rc;
    jw_object(&v->w);
    jw_key(&v->w, "enrolment"); // not from the store, which it may have left already
    write_enrolment(&v->w, id, v->rq->principal.username, now, &terms);
    jw_kv_string(&v->w, "token", token);
    write_master(v);
    jw_object_end(&v->w);
    explicit_bzero(token, sizeof token);
    return 0;
}

int enrolment_list(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "enrolments");
    jw_array(&v->w);
    struct db_rows *rows = DB_QUERY(v->db, ENROLMENTS_OPEN, clock_wall_us());
    while (db_next(rows) == 1) {
        bool named = !DB_IS_NULL(rows, ENROLMENTS_OPEN, agent_id);
        const struct enrolment_terms terms = {
            .agent = named ? DB_GET(rows, ENROLMENTS_OPEN, agent_id) : NULL,
            .pool = DB_GET(rows, ENROLMENTS_OPEN, pool),
            .expires = DB_GET(rows, ENROLMENTS_OPEN, expires_at),
            .uses = DB_GET(rows, ENROLMENTS_OPEN, uses_left)};
        write_enrolment(&v->w, DB_GET(rows, ENROLMENTS_OPEN, id),
                        DB_GET(rows, ENROLMENTS_OPEN, username),
                        DB_GET(rows, ENROLMENTS_OPEN, created_at), &terms);
    }
    db_rows_close(rows);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}

int enrolment_delete(struct view *v, struct error *e)
{
    int64_t id;
    int rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(v->db, ENROLMENT_EXISTS, id);
    bool found = db_next(rows) == 1;
    db_rows_close(rows);
    if (!found)
        return error_not_found(e, "enrolment", "%lld", (long long)id);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, ENROLMENT_DELETE, id);
    return view_commit(v, b, e);
}

// --- credentials ---------------------------------------------------------------------------------

struct offered { // the enrolment of a token
    int64_t id, expires, uses_left;
    char agent[LIMIT_NAME + 1], pool[LIMIT_NAME + 1]; // agent "": any
};

static int find_offer(struct view *v, const char *token, struct offered *out, struct error *e)
{
    char hash[SHA256_HEX];
    sha256_hex(token, strlen(token), hash);
    struct db_rows *rows = DB_QUERY(v->db, ENROLMENT_BY_HASH, hash);
    bool found = db_next(rows) == 1;
    *out = (struct offered){0};
    if (found) {
        out->id = DB_GET(rows, ENROLMENT_BY_HASH, id);
        out->expires = DB_GET(rows, ENROLMENT_BY_HASH, expires_at);
        out->uses_left = DB_GET(rows, ENROLMENT_BY_HASH, uses_left);
        if (!DB_IS_NULL(rows, ENROLMENT_BY_HASH, agent_id))
            snprintf(out->agent, sizeof out->agent, "%s",
                     DB_GET(rows, ENROLMENT_BY_HASH, agent_id));
        snprintf(out->pool, sizeof out->pool, "%s", DB_GET(rows, ENROLMENT_BY_HASH, pool));
    }
    db_rows_close(rows);
    return found ? 0
                 : error_set(e, ERR_AUTH,
                             "the enrolment is not known here: it was withdrawn, ended more than a "
                             "day ago, or is that of another master; ask an administrator for "
                             "another one (muster agent enroll)");
}

// Whether the agent has just this credential, by this enrolment. *other: it has another one.
static bool has_credential(struct view *v, const struct offered *o, const char *agent,
                           const char *hash, bool *other)
{
    struct db_rows *rows = DB_QUERY(v->db, CREDENTIAL_OF_AGENT, agent);
    bool any = db_next(rows) == 1;
    bool same = any && !strcmp(DB_GET(rows, CREDENTIAL_OF_AGENT, hash), hash) &&
                DB_GET(rows, CREDENTIAL_OF_AGENT, enrolment_id) == o->id;
    db_rows_close(rows);
    *other = any && !same;
    return same;
}

static int refuse_offer(const struct offered *o, const char *agent, bool other, int64_t now,
                        struct error *e)
{
    if (*o->agent && strcmp(o->agent, agent))
        return error_set(e, ERR_FORBIDDEN,
                         "the enrolment is for agent %s, and this one is %.64s; give it --id %s",
                         o->agent, agent, o->agent);
    if (o->uses_left <= 0)
        return error_set(e, ERR_FORBIDDEN,
                         "the enrolment was used already; ask an administrator for another one "
                         "(muster agent enroll)");
    if (o->expires <= now)
        return error_set(e, ERR_FORBIDDEN,
                         "the enrolment has expired; ask an administrator for another one (muster "
                         "agent enroll)");
    if (other)
        return error_set(e, ERR_CONFLICT,
                         "agent %.64s has a credential already: start it with the work folder in "
                         "which it was enrolled, or choose another --id, or ask an administrator "
                         "for an enrolment of this name (muster agent enroll --name %.64s), which "
                         "replaces the credential",
                         agent, agent);
    return error_set(e, ERR_CONFLICT, "another agent was enrolled meanwhile; try again");
}

static bool is_hash(const char *text)
{
    return strlen(text) == SHA256_HEX - 1 && strspn(text, "0123456789abcdef") == SHA256_HEX - 1;
}

int credential_create(struct view *v, struct error *e)
{
    struct offered offer;
    bool other = false;
    const json_t *body = v->rq->body;
    const char *agent = jget_string(body, "agentId", ""), *token = jget_string(body, "token", ""),
               *hash = jget_string(body, "credentialHash", "");
    int64_t now = clock_wall_us();
    int rc = check_agent_name("agentId", agent, e);
    if (!rc && !is_hash(hash))
        rc = error_set(e, ERR_INVALID, "credentialHash: expected 64 lower-case hex digits");
    if (!rc)
        rc = find_offer(v, token, &offer, e);
    if (!rc && !has_credential(v, &offer, agent, hash, &other)) {
        struct db_batch *b = db_batch_new();
        DB_ADD(b, CREDENTIAL_REPLACE, hash, agent, offer.id, now);
        DB_ADD(b, CREDENTIAL_INSERT, hash, agent, offer.id, now);
        audit_add(b, v->rq, 200, now); // view_commit() does so for users only
        rc = view_commit(v, b, e);
        if (!rc)
            hub_add_audit_change(v->service->hub, v->rq->path);
        if (!rc && !has_credential(v, &offer, agent, hash, &other))
            rc = refuse_offer(&offer, agent, other, now, e);
    }
    if (rc)
        return rc;
    log_info("agent enrolled", "agent=%s enrolment=%lld", agent, (long long)offer.id);
    jw_object(&v->w);
    jw_kv_string(&v->w, "agentId", agent);
    jw_kv_string(&v->w, "pool", offer.pool);
    jw_object_end(&v->w);
    return 0;
}

int credential_list(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "credentials");
    jw_array(&v->w);
    struct db_rows *rows = DB_QUERY(v->db, CREDENTIALS);
    while (db_next(rows) == 1) {
        int64_t seen = DB_GET(rows, CREDENTIALS, seen_at);
        jw_object(&v->w);
        jw_kv_string(&v->w, "agentId", DB_GET(rows, CREDENTIALS, agent_id));
        write_time(&v->w, "createdAt", DB_GET(rows, CREDENTIALS, created_at));
        if (seen)
            write_time(&v->w, "lastSeen", seen);
        jw_kv_int(&v->w, "enrolmentId", DB_GET(rows, CREDENTIALS, enrolment_id));
        jw_object_end(&v->w);
    }
    db_rows_close(rows);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}

int credential_delete(struct view *v, struct error *e)
{
    const char *agent = v->rq->params[0];
    struct db_rows *rows = DB_QUERY(v->db, CREDENTIAL_OF_AGENT, agent);
    bool found = db_next(rows) == 1;
    db_rows_close(rows);
    if (!found)
        return error_not_found(e, "credential of agent", "%.64s", agent);
    struct db_batch *b = db_batch_new();
    DB_ADD(b, CREDENTIAL_DELETE, agent);
    int rc = view_commit(v, b, e);
    if (!rc)
        log_info("the credential of an agent was revoked", "agent=%s user=%s", agent,
                 v->rq->principal.username);
    return rc;
}
