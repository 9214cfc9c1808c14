// The subcommands of muster-trainer. Each gets its own words (argv[0] is its name) and gives the
// process's exit code.
#ifndef MUSTER_TRAINER_COMMANDS_H
#define MUSTER_TRAINER_COMMANDS_H

#include "base/error.h"

int command_worker(int argc, char **argv);
int command_run(int argc, char **argv);
int command_sample(int argc, char **argv);

// "muster-trainer run: ..." on stderr; gives the exit code of the error.
int command_failed(const char *command, const struct error *e);

#endif
