// Every flag of the muster command, once. A command's flags are the global ones and those it names:
// "name wait"; "name:new" is the flag --name with the help of the row that is `of` "new". A name
// means a value, or none, with every command, so that words can be told from values before the
// command is known.
#ifndef MUSTER_CLI_FLAGSET_H
#define MUSTER_CLI_FLAGSET_H

#include "cli/cli.h"

enum { FLAGSET_MAX = 192 };

// Fills `out` with the global flags and those named in `names` (blank-separated; NULL: none; "*":
// all), ended by name == NULL. Targets point into `options`.
void flagset_select(struct cli_options *options, const char *names, struct flag out[FLAGSET_MAX]);

// The same without the global flags, for help.
void flagset_own(struct cli_options *options, const char *names, struct flag out[FLAGSET_MAX]);

// All flags by name, once each, with their values put aside unread: to find the words of a command.
void flagset_probe(struct cli_options *options, struct flag out[FLAGSET_MAX]);

#endif
