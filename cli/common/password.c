#include "cli/common/password.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static int read_password(FILE *in, const char *what, char password[PASSWORD_MAX], struct error *e)
{
    if (!fgets(password, PASSWORD_MAX, in))
        return error_set(e, ERR_INVALID, "%s contains no password", what);
    password[strcspn(password, "\r\n")] = '\0';
    return 0;
}

// Asks on the terminal without echo.
static int ask_password(const char *what, const char *user, char password[PASSWORD_MAX],
                        struct error *e)
{
    struct termios saved, silent;
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &saved) != 0) {
        return error_set(e, ERR_INVALID,
                         "standard input is not a terminal, so the password cannot be asked for; "
                         "use --password-file or --password-stdin");
    }
    fprintf(stderr, "%s of %s: ", what, user);
    silent = saved;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    int err = read_password(stdin, "the terminal", password, e);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    fputc('\n', stderr);
    return err;
}

// A mistyped new password would lock the user out, so it is typed twice.
static int confirm_password(const char *user, const char *password, struct error *e)
{
    char again[PASSWORD_MAX];
    int err = ask_password("Again, password", user, again, e);
    if (!err && strcmp(password, again) != 0)
        err = error_set(e, ERR_INVALID, "the two passwords differ; nothing was changed");
    explicit_bzero(again, sizeof(again));
    return err;
}

int password_get(struct cli *c, const char *user, bool repeated, char password[PASSWORD_MAX],
                 struct error *e)
{
    if (c->options.password_stdin)
        return read_password(stdin, "standard input", password, e);
    if (!c->options.password_file) {
        int err = ask_password(repeated ? "New password" : "Password", user, password, e);
        return !err && repeated ? confirm_password(user, password, e) : err;
    }
    FILE *in = fopen(c->options.password_file, "re");
    if (!in)
        return error_set_errno(e, ERR_INVALID, errno, "%s: cannot read", c->options.password_file);
    int err = read_password(in, c->options.password_file, password, e);
    fclose(in);
    return err;
}
