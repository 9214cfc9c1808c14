// Suggestions for command lines that the tables of commands and flags do not allow. Each function
// completes the error that was found.
#ifndef MUSTER_CLI_SUGGESTIONS_H
#define MUSTER_CLI_SUGGESTIONS_H

#include "cli/cli.h"

// A word is one argument too many: names flags that may take it, as in "--to FOLDER". *e holds the
// usage of the command.
void suggest_for_argument(struct cli *c, const struct command *command, const char *word,
                          struct error *e);

// The command has not one of the flags in argv: names a flag with that meaning, or the argument
// that stands for it. Returns e->code; other errors stay as they are.
int suggest_for_flag(struct cli *c, const struct command *command, int argc, char **argv,
                     struct error *e);

// The table has no such noun, or the noun has no such verb (NULL: none was given).
int suggest_command(const char *noun, const char *verb, struct error *e);

#endif
