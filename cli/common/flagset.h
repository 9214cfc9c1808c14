// The table of all flags of the muster command. A command has the global flags and those that its
// row names, such as "name wait"; "name:new" is the flag --name with the help of its variant "new".
// A flag takes a value with every command or with none, so values can be told from words before the
// command is known.
#ifndef MUSTER_CLI_FLAGSET_H
#define MUSTER_CLI_FLAGSET_H

#include "cli/cli.h"

enum { FLAGSET_MAX = 192 };

// Fills `out` with the global flags and those named in `names` (separated by blanks; NULL: none).
// The end has name == NULL. Targets point into `options`.
void flagset_select(struct cli_options *options, const char *names, struct flag out[FLAGSET_MAX]);

// The same without the global flags.
void flagset_own(struct cli_options *options, const char *names, struct flag out[FLAGSET_MAX]);

// All flags, once each, with their values ignored: finds the words of a command.
void flagset_probe(struct cli_options *options, struct flag out[FLAGSET_MAX]);

#endif
