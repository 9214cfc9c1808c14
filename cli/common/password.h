// Passwords of people: from a file, standard input or the terminal, without echo.
#ifndef MUSTER_CLI_PASSWORD_H
#define MUSTER_CLI_PASSWORD_H

#include "cli/cli.h"

enum { PASSWORD_MAX = 1024, PASSWORD_LEAST = 8 }; // characters; least of a new one

// Of `user`, as the options say. `repeated`: a new one, which a person types twice. The caller
// wipes it.
int password_get(struct cli *c, const char *user, bool repeated, char out[PASSWORD_MAX],
                 struct error *e);

#endif
