// Reads passwords from a file, standard input or the terminal, without echo.
#ifndef MUSTER_CLI_PASSWORD_H
#define MUSTER_CLI_PASSWORD_H

#include "cli/cli.h"

enum { PASSWORD_MAX = 1024, PASSWORD_LEAST = 8 }; // characters

// Reads the password of `user` from the source that the options name. `repeated`: a new password,
// which must be typed twice. The caller wipes it.
int password_get(struct cli *c, const char *user, bool repeated, char out[PASSWORD_MAX],
                 struct error *e);

#endif
