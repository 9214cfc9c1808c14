// Signing in and out, and users.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "api/cli/output.h"
#include "api/cli/verbs.h"
#include "api/wire.h"
#include "base/file.h"
#include "base/json.h"

enum { PASSWORD_MAX = 1024 };

static int read_line(FILE *in, const char *what, char password[PASSWORD_MAX], struct error *e)
{
    if (fgets(password, PASSWORD_MAX, in) == NULL) {
        return error_set(e, ERR_INVALID, "%s holds no password", what);
    }
    password[strcspn(password, "\r\n")] = '\0';
    return 0;
}

// Asks on the terminal without echo.
static int ask_password(const char *user, char password[PASSWORD_MAX], struct error *e)
{
    struct termios saved, silent;
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &saved) != 0) {
        return error_set(e, ERR_INVALID,
                         "this is no terminal to ask on; use --password-file or --password-stdin");
    }
    fprintf(stderr, "Password of %s: ", user);
    silent = saved;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    int err = read_line(stdin, "the terminal", password, e);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    fputc('\n', stderr);
    return err;
}

static int get_password(struct cli *c, const char *user, char password[PASSWORD_MAX],
                        struct error *e)
{
    if (c->options.password_stdin) {
        return read_line(stdin, "standard input", password, e);
    }
    if (c->options.password_file == NULL) {
        return ask_password(user, password, e);
    }
    FILE *in = fopen(c->options.password_file, "re");
    if (in == NULL) {
        return error_set_errno(e, ERR_INVALID, errno, "%s: cannot read", c->options.password_file);
    }
    int err = read_line(in, c->options.password_file, password, e);
    fclose(in);
    return err;
}

int run_login(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *user = c->args[0];
    char password[PASSWORD_MAX], hashed[SHA512_HEX];
    c->options.token = NULL; // an old token must not stand in the way of a new one
    int err = session_open(c, false, e);
    err = err != 0 ? err : get_password(c, user, password, e);
    if (err != 0) {
        return err;
    }
    client_set_token(c->client, CLIENT_NO_AUTH, NULL);
    wire_password_hash(password, hashed);
    explicit_bzero(password, sizeof(password));
    json_t *body =
        json_pack("{s:s, s:s, s:b}", "username", user, "password", hashed, "isHashed", 1);
    json_t *answer = NULL;
    c->token = NULL;
    err = cli_call(c, "POST", body, &answer, e, "/api/v1/auth/login");
    if (err == 0) {
        err = session_save(c, jget_string(answer, "token", ""), e);
    }
    if (err == 0 && !c->options.quiet) {
        printf("Signed in at %s as %s\n", c->master, user);
    }
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_logout(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    struct error revoke = {0};
    int err = cli_call(c, "POST", NULL, NULL, &revoke, "/api/v1/auth/logout");
    int forgotten = session_forget(c, e);
    if (err != 0 && err != ERR_AUTH) { // the token is forgotten here, but still good there
        return error_set(e, err, "the token could not be revoked: %s", revoke.text);
    }
    if (forgotten == 0 && !c->options.quiet) {
        printf("Signed out of %s\n", c->master);
    }
    return forgotten;
}

int run_whoami(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/me");
    if (err == 0) {
        const json_t *user = jget(answer, "user");
        json_t *row = json_pack("{s:s, s:b, s:s}", "username", jget_string(user, "username", ""),
                                "admin", jget_bool(user, "admin", false), "master", c->master);
        err = output_object(c, row, "username,admin,master", e);
        json_decref(row);
    }
    json_decref(answer);
    return err;
}

static json_t *row_user(const json_t *user)
{
    return json_pack("{s:I, s:s, s:b, s:b, s:s}", "id", (json_int_t)jget_int(user, "id", 0),
                     "username", jget_string(user, "username", ""), "admin",
                     jget_bool(user, "admin", false), "active", jget_bool(user, "active", false),
                     "display_name", jget_string(user, "displayName", ""));
}

int run_user_list(struct cli *c, const struct command *self, struct error *e)
{
    json_t *list = NULL, *rows = json_array(), *user;
    size_t i;
    int err = cli_list(c, "users", 0, &list, e, "/api/v1/users");
    json_array_foreach(list, i, user)
    {
        json_array_append_new(rows, row_user(user));
    }
    err = err != 0 ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    json_decref(list);
    return err;
}

int run_user_create(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    char password[PASSWORD_MAX], hashed[SHA512_HEX];
    int err = get_password(c, c->args[0], password, e);
    if (err != 0) {
        return err;
    }
    wire_password_hash(password, hashed);
    explicit_bzero(password, sizeof(password));
    json_t *body =
        json_pack("{s:{s:s, s:b, s:b}, s:s, s:b}", "user", "username", c->args[0], "admin",
                  c->options.admin, "active", 1, "password", hashed, "isHashed", 1);
    err = cli_call(c, "POST", body, NULL, e, "/api/v1/users");
    if (err == 0 && !c->options.quiet) {
        printf("Created user %s\n", c->args[0]);
    }
    json_decref(body);
    return err;
}
