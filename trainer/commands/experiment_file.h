// An experiment file on this machine: the common part of the commands run, bench and describe. One
// thread; experiment_file_close() frees everything.
#ifndef MUSTER_TRAINER_COMMANDS_EXPERIMENT_FILE_H
#define MUSTER_TRAINER_COMMANDS_EXPERIMENT_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/flags.h"
#include "base/text/yaml.h"

struct experiment_args { // the command line, borrowed; 0 or NULL: not given
    const char *file;
    struct flag_list set; // KEY=VALUE pairs
    const char *folder;   // base of relative data paths
    long long slots;
    bool help; // --help was given, and the text was printed
};

// The help text of a command around the table of its flags.
struct experiment_help {
    const char *head, *tail;
    const struct flag *flags; // flags of this command only, ending with name == NULL; may be NULL
};

// Parses the arguments of a command that takes one experiment file. ERR_INVALID.
int experiment_args_parse(int argc, char **argv, const struct experiment_help *help,
                          struct experiment_args *out, struct error *e);

struct experiment_file {
    const char *file; // borrowed
    struct yaml_doc doc;
    json_t *trainer; // the `trainer` section with all defaults and hyperparameters filled in
    const char *name;
    const char *metric; // ranks trials and checkpoints
    bool larger_is_better;
    char *folder; // base of relative data paths; NULL: the file's folder
    uint64_t seed;
    int slots;
};

// ERR_INVALID with file, line and column; ERR_NOT_FOUND, ERR_IO. Close it after an error, too.
int experiment_file_open(const struct experiment_args *args, struct experiment_file *out,
                         struct error *e);
void experiment_file_close(struct experiment_file *x);

// Samples of a step of a training that begins on x->slots.
int64_t experiment_file_batch(const struct experiment_file *x);

#endif
