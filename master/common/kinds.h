// What an experiment row is: a search, or one task of another kind, which is an experiment of one
// trial that is no search. Pure; any thread.
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
    const char *word; // of the store, and of the wire's types of jobs
    const char *task; // of the wire's types of tasks
    const char *noun; // "command"
    const char *list; // "commands"
};
extern const struct kind_words kind_words[KINDS];

enum kind kind_of_word(const char *word); // KIND_EXPERIMENT where it is none

#endif
