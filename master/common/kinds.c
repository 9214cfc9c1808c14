#include "master/common/kinds.h"

#include <string.h>

const struct kind_words kind_words[KINDS] = {
    [KIND_EXPERIMENT] = {"EXPERIMENT", "TRIAL", "experiment", "experiments"},
    [KIND_COMMAND] = {"COMMAND", "COMMAND", "command", "commands"},
    [KIND_SHELL] = {"SHELL", "SHELL", "shell", "shells"},
    [KIND_NOTEBOOK] = {"NOTEBOOK", "NOTEBOOK", "notebook", "notebooks"},
    [KIND_TENSORBOARD] = {"TENSORBOARD", "TENSORBOARD", "tensorboard", "tensorboards"},
    [KIND_GENERIC] = {"GENERIC", "GENERIC", "task", "tasks"},
};

enum kind kind_of_word(const char *word)
{
    int kind = KINDS - 1;
    while (kind > KIND_EXPERIMENT && strcmp(kind_words[kind].word, word))
        kind--;
    return (enum kind)kind;
}
