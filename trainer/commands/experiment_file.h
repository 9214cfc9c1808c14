// An experiment file on this machine: what run, bench and describe make of `FILE [FLAGS]`.
// One thread; experiment_file_close() frees everything.
#ifndef MUSTER_TRAINER_COMMANDS_EXPERIMENT_FILE_H
#define MUSTER_TRAINER_COMMANDS_EXPERIMENT_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/flags.h"
#include "base/text/yaml.h"

struct experiment_args { // of the command line, borrowed; zero: as the file has it
    const char *file;
    struct flag_list set; // KEY=VALUE
    const char *folder;   // where relative data paths start; NULL: the file's folder
    long long slots;
    bool help; // was asked for, and printed
};

// A command's text around the table of its flags.
struct experiment_help {
    const char *head, *tail;
    const struct flag *flags; // of this command alone, ends with name == NULL; may be NULL
};

// Reads the words of a command that takes one experiment file. ERR_INVALID.
int experiment_args_parse(int argc, char **argv, const struct experiment_help *help,
                          struct experiment_args *out, struct error *e);

struct experiment_file {
    const char *file; // borrowed
    struct yaml_doc doc;
    json_t *trainer; // its section, complete, hyperparameters replaced
    const char *name;
    const char *metric; // that ranks trials and checkpoints
    bool larger_is_better;
    char *folder; // where relative data paths start
    uint64_t seed;
    int slots;
};

// ERR_INVALID with the place in the file, ERR_NOT_FOUND, ERR_IO. Close it after an error too.
int experiment_file_open(const struct experiment_args *words, struct experiment_file *out,
                         struct error *e);
void experiment_file_close(struct experiment_file *x);

#endif
