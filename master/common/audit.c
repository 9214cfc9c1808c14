#include "master/common/audit.h"

#include <stdio.h>
#include <string.h>

enum { DETAIL_MAX = 512, WORD_MAX = 64 };

static bool method_changes(const char *method)
{
    return method && strcmp(method, "GET") && strcmp(method, "HEAD") && strcmp(method, "OPTIONS");
}

bool audit_wants(const struct request *rq, int status)
{
    const struct principal *who = &rq->principal;
    // A login has no principal yet; its row names the user that the body names.
    bool login = who->kind == PRINCIPAL_NONE && *who->username;
    bool recorded = status < 400 || status == 403 || (login && status == 401);
    return (login || who->kind == PRINCIPAL_USER) && recorded && !rq->audited &&
           method_changes(rq->method);
}

static bool names_something(const char *key)
{
    static const char *const keys[] = {"name",        "username", "displayName", "role",
                                       "defaultRole", "state",    "template",    "level",
                                       "agentId",     "pool",     NULL};
    for (int i = 0; keys[i]; i++)
        if (!strcmp(key, keys[i]))
            return true;
    return false;
}

// `prefix`: "user." for objects within the body; objects within those are only named.
static void describe_object(const json_t *object, const char *prefix, struct buf *out)
{
    const char *key;
    json_t *value;
    char inner[WORD_MAX + 2];
    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_null(value))
            continue;
        if (json_is_object(value) && !*prefix) {
            snprintf(inner, sizeof inner, "%.*s.", WORD_MAX, key);
            describe_object(value, inner, out);
            continue;
        }
        buf_printf(out, "%s%s%.*s", out->len ? ", " : "", prefix, WORD_MAX, key);
        if (json_is_boolean(value))
            buf_puts(out, json_is_true(value) ? "=true" : "=false");
        else if (json_is_number(value))
            buf_printf(out, "=%g", json_number_value(value));
        else if (json_is_string(value) && names_something(key))
            buf_printf(out, "=%.*s", WORD_MAX, json_string_value(value));
    }
}

void audit_describe(const json_t *body, struct buf *out)
{
    if (json_is_object(body))
        describe_object(body, "", out);
}

void audit_subject(const char *path, char out[AUDIT_SUBJECT])
{
    static const char base[] = "/api/v1/";
    size_t len = path && !strncmp(path, base, sizeof base - 1) ? sizeof base - 1 : 0;
    size_t subject_len = len ? strcspn(path + len, "/") : 0;
    snprintf(out, AUDIT_SUBJECT, "%.*s", (int)(subject_len < AUDIT_SUBJECT ? subject_len : 0),
             path ? path + len : "");
}

void audit_add(struct db_batch *b, struct request *rq, int status, int64_t wall_us)
{
    const struct principal *who = &rq->principal;
    struct buf detail;
    buf_init(&detail, DETAIL_MAX);
    audit_describe(rq->body, &detail);
    const int64_t *user = who->kind == PRINCIPAL_USER ? &who->user_id : NULL;
    DB_ADD(b, AUDIT_INSERT, wall_us, user, who->username, rq->address ? rq->address : "",
           rq->method, rq->path ? rq->path : "", status, buf_str(&detail));
    buf_free(&detail);
    rq->audited = true;
}
