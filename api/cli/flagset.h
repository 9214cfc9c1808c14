// Every flag of the muster command, once. A command's flags are the global ones and those it names.
#ifndef MUSTER_CLI_FLAGSET_H
#define MUSTER_CLI_FLAGSET_H

#include "api/cli/cli.h"

enum { FLAGSET_MAX = 96 };

// Fills `out` with the global flags and those named in `names` (blank-separated; NULL: none; "*":
// all), ended by name == NULL. Targets point into `options`.
void flagset_select(struct cli_options *options, const char *names, struct flag out[FLAGSET_MAX]);

// The same without the global flags, for help.
void flagset_own(struct cli_options *options, const char *names, struct flag out[FLAGSET_MAX]);

#endif
