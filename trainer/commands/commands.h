// The subcommands of muster-trainer. Each gets its own words (argv[0] is its name) and gives the
// process's exit code.
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

// "muster-trainer run: ..." on stderr; gives the exit code of the error.
int command_failed(const char *command, const struct error *e);

// The words of a command line. `flags` (their help text between head and tail) end with a row
// COMMAND_HELP_FLAG(&help). With --help the text is printed and *help set, and nothing else
// counts. ERR_INVALID, told by `wanted`, when there are not `count` other words; they go to rest.
struct command_syntax {
    const struct flag *flags;
    const char *head, *tail, *wanted;
    int count;
};
#define COMMAND_HELP_FLAG(target)                                                                  \
    {                                                                                              \
        "help", 'h', FLAG_BOOL, target, NULL, "this text", 0, 0, NULL                              \
    }
int command_parse(const struct command_syntax *words, int argc, char **argv, const bool *help,
                  const char **rest, struct error *e);

// The row `-o FORMAT` of a command that can answer a program too: "table" or "json".
#define COMMAND_OUTPUT_FLAG(target)                                                                \
    {                                                                                              \
        "output", 'o', FLAG_STRING, target, "FORMAT", "table or json (default table)", 0, 0, NULL  \
    }
int command_check_output(const char *format, struct error *e); // ERR_INVALID
void command_print_json(const json_t *answer);                 // on one line of stdout

#endif
