// muster-trainer: trains the models of experiment files, and helps with files and checkpoints of
// such trainings.
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "trainer/commands/commands.h"

static const struct trainer_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help, *example;
} commands[] = {
    {"run", command_run, "train an experiment file on this machine, without a cluster",
     "run examples/mnist.yaml --folder mnist --slots 2"},
    {"describe", command_describe,
     "print the layers of an experiment file's model, and the memory it needs",
     "describe examples/mnist.yaml --folder mnist"},
    {"bench", command_bench, "measure how fast an experiment file trains on this machine",
     "bench examples/mnist.yaml --folder mnist --slots 2"},
    {"sample", command_sample, "continue a text with a gpt checkpoint",
     "sample checkpoints/shakespeare/best --prompt 'ROMEO:'"},
    {"export", command_export, "write the weights of a checkpoint as one safetensors file",
     "export checkpoints/mnist/best mnist.safetensors"},
    {"pack", command_pack, "pack a folder of pictures into one file to train on",
     "pack flowers/ flowers.images --size 64x64"},
    {"worker", command_worker, "run one rank of a trial (an agent starts this)", NULL},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *out)
{
    fputs("muster-trainer trains a model described in an experiment file (its `trainer` section).\n"
          "The weights are the same to the last bit on any number of slots.\n\n"
          "usage: muster-trainer COMMAND [FLAGS]\n",
          out);
    for (size_t i = 0; i < COMMANDS; i++) {
        fprintf(out, "\n  %-8s  %s\n", commands[i].name, commands[i].help);
        if (commands[i].example)
            fprintf(out, "            muster-trainer %s\n", commands[i].example);
    }
    fputs("\n  muster-trainer COMMAND --help   the flags of a command, with an example\n"
          "  muster-trainer --version\n"
          "  muster help config [KEY]        the keys of an experiment file; one with an example\n",
          out);
}

static int fail_unknown(const char *word)
{
    const char *names[COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = nearest_word(word, names);
    fprintf(stderr, "muster-trainer: there is no command \"%s\"", word);
    if (*word == '-')
        fputs("; flags follow the command", stderr);
    else if (near)
        fprintf(stderr, "; did you mean \"%s\"?", near);
    fputs("\n`muster-trainer --help` lists the commands.\n", stderr);
    return err_exit_code(ERR_INVALID);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "--help";
    if (strcmp(word, "--version") == 0) {
        printf("muster-trainer %s\n", muster_version);
        return 0;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(argc > 1 ? stdout : stderr);
        return argc > 1 ? 0 : err_exit_code(ERR_INVALID);
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, word) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return fail_unknown(word);
}
