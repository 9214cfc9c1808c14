// Signing in and out.
#include <stdio.h>
#include <string.h>

#include "api/wire.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/password.h"
#include "cli/common/trust.h"
#include "cli/output/output.h"

// Makes sure that the password goes to the right master: trusts the authority with the fingerprint
// that was given, or asks the person at the terminal about one that is not known yet.
static int ensure_trust(struct cli *c, struct error *e)
{
    const char *fingerprint = c->options.fingerprint;
    if (strncmp(c->master, "https://", 8) != 0)
        return fingerprint
                   ? error_set(e, ERR_INVALID, "--fingerprint: %s does not speak https", c->master)
                   : 0;
    if (!fingerprint) {
        int err = client_call(c->client, "GET", "/info", NULL, NULL, e);
        if (!err || !client_is_untrusted(c->client))
            return err;
        if (c->pinned || c->options.ca_file)
            return trust_explain(c, err, e);
    }
    int err = trust_pin(c, fingerprint, e);
    client_close(c->client);
    c->client = NULL;
    return err ? err : session_open(c, false, e);
}

int sign_in(struct cli *c, const char *user, const char *password, struct error *e)
{
    char hashed[SHA512_HEX];
    client_set_token(c->client, CLIENT_NO_AUTH, NULL);
    wire_password_hash(password, hashed);
    json_t *body =
        json_pack("{s:s, s:s, s:b}", "username", user, "password", hashed, "isHashed", 1);
    json_t *answer = NULL;
    c->token = NULL;
    int err = cli_call(c, "POST", body, &answer, e, "/api/v1/auth/login");
    if (!err) {
        c->token = arena_strdup(&c->arena, jget_string(answer, "token", ""));
        client_set_token(c->client, CLIENT_BEARER, c->token);
        err = session_save(c, c->token, e);
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_login(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *user = c->args[0];
    char password[PASSWORD_MAX];
    c->options.token = NULL; // a sign-in must not depend on an old token
    int err = session_open(c, false, e);
    err = err ? err : ensure_trust(c, e);
    err = err ? err : password_get(c, user, false, password, e);
    if (err)
        return err;
    err = sign_in(c, user, password, e);
    explicit_bzero(password, sizeof(password));
    if (!err && !c->options.quiet)
        printf("Signed in at %s as %s\n", c->master, user);
    return err;
}

int run_logout(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    struct error revoke = {0};
    int err = cli_call(c, "POST", NULL, NULL, &revoke, "/api/v1/auth/logout");
    int forgotten = session_forget(c, e);
    if (err && err != ERR_AUTH) // deleted here, but still valid at the master
        return error_set(e, err,
                         "the saved token was deleted, but the master did not revoke it: %s",
                         revoke.text);
    if (forgotten == 0 && !c->options.quiet)
        printf("Signed out of %s\n", c->master);
    return forgotten;
}

int run_whoami(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/me");
    if (!err) {
        const json_t *user = jget(answer, "user");
        json_t *row = json_pack("{s:s, s:b, s:s}", "username", jget_string(user, "username", ""),
                                "admin", jget_bool(user, "admin", false), "master", c->master);
        err = output_object(c, row, "username,admin,master", e);
        json_decref(row);
    }
    json_decref(answer);
    return err;
}
