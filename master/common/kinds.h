// The kind of an experiment row: a search, or a single task (command, shell, notebook, ...), which
// is an experiment with one trial. Pure; any thread.
#ifndef MUSTER_MASTER_COMMON_KINDS_H
#define MUSTER_MASTER_COMMON_KINDS_H

enum kind {
    KIND_EXPERIMENT,
    KIND_COMMAND,
    KIND_SHELL,
    KIND_NOTEBOOK,
    KIND_TENSORBOARD,
    KIND_GENERIC,
    KINDS
};

struct kind_words {
    const char *word; // in the store, and in the API's job types
    const char *task; // in the API's task types
    const char *noun; // "command"
    const char *list; // "commands"
};
extern const struct kind_words kind_words[KINDS];

enum kind kind_of_word(const char *word); // KIND_EXPERIMENT for an unknown word

#endif
