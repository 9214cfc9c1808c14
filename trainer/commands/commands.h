// The commands of muster-trainer. Each gets its own arguments (argv[0] is its name) and returns the
// exit code of the process.
#ifndef MUSTER_TRAINER_COMMANDS_COMMANDS_H
#define MUSTER_TRAINER_COMMANDS_COMMANDS_H

#include <jansson.h>

#include "base/error.h"
#include "base/flags.h"

int command_bench(int argc, char **argv);
int command_describe(int argc, char **argv);
int command_export(int argc, char **argv);
int command_pack(int argc, char **argv);
int command_worker(int argc, char **argv);
int command_run(int argc, char **argv);
int command_sample(int argc, char **argv);

// Prints "muster-trainer run: ..." to stderr; returns the exit code of the error.
int command_failed(const char *command, const struct error *e);

// Parses a command line. `flags` end with the row COMMAND_HELP_FLAG(&help). With --help the help
// text is printed (`head`, the flags, `tail`), *help becomes true and nothing else is checked.
// Otherwise there must be `count` arguments besides the flags, which are stored in `rest`;
// ERR_INVALID with the text `usage` if there are more or fewer.
struct command_syntax {
    const struct flag *flags;
    const char *head, *tail, *usage;
    int count;
};
#define COMMAND_HELP_FLAG(target)                                                                  \
    {                                                                                              \
        "help", 'h', FLAG_BOOL, target, NULL, "print this text", 0, 0, NULL                        \
    }
int command_parse(const struct command_syntax *syntax, int argc, char **argv, const bool *help,
                  const char **rest, struct error *e);

// The row `-o FORMAT` for commands that can also print JSON: "table" or "json".
#define COMMAND_OUTPUT_FLAG(target)                                                                \
    {                                                                                              \
        "output", 'o', FLAG_STRING, target, "FORMAT", "table or json (default table)", 0, 0, NULL  \
    }
int command_check_output(const char *format, struct error *e); // ERR_INVALID
void command_print_json(const json_t *answer);                 // on one line of stdout

#endif
