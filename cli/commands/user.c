// Users of the cluster, and access tokens for their programs.
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/lookup.h"
#include "cli/common/password.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

static json_t *user_row(const json_t *user)
{
    return json_pack(
        "{s:I, s:s, s:b, s:b, s:s, s:s?, s:s?}", "id", (json_int_t)jget_int(user, "id", 0),
        "username", jget_string(user, "username", ""), "admin", jget_bool(user, "admin", false),
        "active", jget_bool(user, "active", false), "display_name",
        jget_string(user, "displayName", ""), "last_login", jget_string(user, "lastAuthAt", NULL),
        "modified", jget_string(user, "modifiedAt", NULL));
}

int run_user_list(struct cli *c, const struct command *self, struct error *e)
{
    return output_list(c, self, "users", user_row, e, "/api/v1/users");
}

// Puts the password into the body, hashed as the API expects it (docs/wire.md).
static int add_password(struct cli *c, const char *user, json_t *body, struct error *e)
{
    char password[PASSWORD_MAX], hashed[SHA512_HEX];
    int err = password_get(c, user, true, password, e);
    if (!err && strlen(password) < PASSWORD_LEAST) {
        err =
            error_set(e, ERR_INVALID,
                      "the password is too short: give at least %d characters; nothing was changed",
                      PASSWORD_LEAST);
    }
    if (!err) {
        wire_password_hash(password, hashed);
        json_object_set_new(body, "password", json_string(hashed));
        json_object_set_new(body, "isHashed", json_true());
    }
    explicit_bzero(password, sizeof(password));
    return err;
}

int run_user_create(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const struct cli_options *o = &c->options;
    json_t *answer = NULL;
    json_t *body = json_pack("{s:{s:s, s:b, s:b}}", "user", "username", c->args[0], "admin",
                             o->admin, "active", 1);
    cli_put(jget(body, "user"), "displayName", o->display_name);
    int err = add_password(c, c->args[0], body, e);
    err = err ? err : cli_call(c, "POST", body, &answer, e, "/api/v1/users");
    err =
        err ? err : cli_report(c, user_row(jget(answer, "user")), e, "Created user %s", c->args[0]);
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_user_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *answer = NULL;
    int err = lookup_user(c, NULL, c->args[0], &id, e);
    err = err ? err : cli_call(c, "GET", NULL, &answer, e, "/api/v1/users/%lld", id);
    if (!err) {
        json_t *row = user_row(jget(answer, "user"));
        err = output_object(c, row, "id,username,display_name,admin,active,last_login,modified", e);
        json_decref(row);
    }
    json_decref(answer);
    return err;
}

// Sends the changes; consumes the body.
static int patch_user(struct cli *c, const char *name, json_t *body, const char *done,
                      struct error *e)
{
    long long id;
    json_t *answer = NULL;
    int err = lookup_user(c, NULL, name, &id, e);
    err = err ? err : cli_call(c, "PATCH", body, &answer, e, "/api/v1/users/%lld", id);
    err = err ? err : cli_report(c, user_row(jget(answer, "user")), e, "User %s: %s", name, done);
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_user_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const struct cli_options *o = &c->options;
    if (o->admin && o->no_admin)
        return error_set(e, ERR_INVALID, "give either --admin or --no-admin, not both");
    json_t *body = json_object();
    cli_put(body, "displayName", o->display_name);
    cli_put(body, "username", o->name);
    if (o->admin || o->no_admin)
        json_object_set_new(body, "admin", json_boolean(o->admin));
    if (json_object_size(body) == 0) {
        json_decref(body);
        return error_set(e, ERR_INVALID,
                         "nothing to change: give --name, --display-name, --admin or --no-admin; "
                         "for the password: muster user change-password");
    }
    return patch_user(c, c->args[0], body, "changed", e);
}

int run_user_rename(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *done = arena_printf(&c->arena, "is now %s", c->args[1]);
    return patch_user(c, c->args[0], json_pack("{s:s}", "username", c->args[1]), done, e);
}

int run_user_activate(struct cli *c, const struct command *self, struct error *e)
{
    bool active = strcmp(self->verb, "activate") == 0;
    return patch_user(c, c->args[0], json_pack("{s:b}", "active", active),
                      active ? "can sign in again" : "can no longer sign in", e);
}

// Without a name: changes the caller's own password.
int run_user_password(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *me = NULL, *body = json_object();
    int err = c->arg_count > 0 ? 0 : cli_call(c, "GET", NULL, &me, e, "/api/v1/me");
    const char *user =
        c->arg_count > 0 ? c->args[0] : jget_string(jget(me, "user"), "username", "");
    err = err ? err : add_password(c, user, body, e);
    if (!err)
        err = patch_user(c, user, json_incref(body), "password changed", e);
    json_decref(body);
    json_decref(me);
    return err;
}

// --- tokens --------------------------------------------------------------------------------------

static const char *token_state(const json_t *token)
{
    return jget_bool(token, "revoked", false) ? "revoked" : "good";
}

static json_t *token_row(struct cli *c, const json_t *token)
{
    long long user = jget_int(token, "userId", 0);
    const char *type = jget_string(token, "tokenType", "");
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:s?, s:s?, s:I}", "id",
                     (json_int_t)jget_int(token, "id", 0), "user", lookup_user_name(c, user),
                     "description", jget_string(token, "description", ""), "state",
                     token_state(token), "type", strstr(type, "SESSION") ? "login" : "access",
                     "created", jget_string(token, "createdAt", NULL), "expires",
                     jget_string(token, "expiry", NULL), "user_id", (json_int_t)user);
}

int run_token_list(struct cli *c, const struct command *self, struct error *e)
{
    json_t *list = NULL, *rows = json_array();
    int err = cli_list(c, "tokenInfo", c->options.limit, &list, e, "/api/v1/tokens?%s%s",
                       c->options.all ? "showInactive=true&sessions=true" : "",
                       cli_query(c, "username", c->options.user));
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append_new(rows, token_row(c, json_array_get(list, i)));
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    json_decref(list);
    return err;
}

static int token_body(struct cli *c, json_t *body, struct error *e)
{
    const struct cli_options *o = &c->options;
    const char *lasts = NULL;
    long long user = 0;
    bool never = o->expires && strcmp(o->expires, "never") == 0;
    int err = never ? 0 : cli_length(c, "--expires", o->expires, &lasts, e);
    if (!err && o->user) {
        err = lookup_user(c, "--user", o->user, &user, e);
        json_object_set_new(body, "userId", json_integer(user));
    }
    if (never || lasts)
        json_object_set_new(body, "lifespan", json_string(never ? "-1" : lasts));
    if (o->description)
        json_object_set_new(body, "description", json_string(o->description));
    return err;
}

// Prints only the token on standard output, for $(..).
int run_token_create(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL, *body = json_object();
    int err = token_body(c, body, e);
    err = err ? err : cli_call(c, "POST", body, &answer, e, "/api/v1/tokens");
    const char *token = jget_string(answer, "token", "");
    long long id = jget_int(answer, "tokenId", 0);
    if (!err && c->format != OUTPUT_TABLE) {
        json_t *row = json_pack("{s:I, s:s}", "id", (json_int_t)id, "token", token);
        err = output_object(c, row, "id,token", e);
        json_decref(row);
    } else if (!err) {
        puts(token);
        fflush(stdout);
        if (!c->options.quiet) {
            fprintf(stderr,
                    "Token %lld: it is not shown again. Programs take it as MUSTER_TOKEN; "
                    "muster token revoke %lld ends it.\n",
                    id, id);
        }
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

static int patch_token(struct cli *c, json_t *body, const char *done, struct error *e)
{
    long long id;
    json_t *answer = NULL;
    int err = cli_id(c, 0, "token", &id, e);
    err = err ? err : cli_call(c, "PATCH", body, &answer, e, "/api/v1/tokens/%lld", id);
    if (!err)
        err = cli_report(c, token_row(c, jget(answer, "tokenInfo")), e, "Token %lld: %s", id, done);
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_token_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    if (!c->options.description)
        return error_set(e, ERR_INVALID, "nothing to change: give --description");
    return patch_token(c, json_pack("{s:s}", "description", c->options.description), "changed", e);
}

int run_token_revoke(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    return patch_token(c, json_pack("{s:b}", "setRevoked", 1), "revoked", e);
}
