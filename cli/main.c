// The muster command: finds the row in the table of commands, parses its flags and runs it. Help,
// suggestions and completion use the same table.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/common/flagset.h"
#include "cli/common/watch.h"
#include "cli/help/help.h"
#include "cli/output/terminal.h"
#include "cli/suggestions.h"

static int parse_format(struct cli *c, struct error *e)
{
    static const char *const words[] = {"table", "json", "jsonl", "csv", NULL};
    for (int i = 0; words[i] && c->options.format; i++) {
        if (strcmp(words[i], c->options.format) == 0) {
            c->format = (enum output_format)i;
            return 0;
        }
    }
    return !c->options.format
               ? 0
               : error_set(e, ERR_INVALID, "-o takes table, json, jsonl or csv, not \"%s\"",
                           c->options.format);
}

// Refuses empty arguments: they come from unset variables of a script. Arguments of programs may be
// empty.
static int check_empty(const struct cli *c, const struct command *command, struct error *e)
{
    const char *name = command->args;
    for (int i = 0; i < c->arg_count; i++) {
        size_t len = strcspn(name, " .]") - (*name == '[');
        const char *word = name + (*name == '[');
        if (*c->args[i] == '\0' && strncmp(word, "PROGRAM", 7) != 0 &&
            strncmp(word, "WORD", 4) != 0) {
            return error_set(e, ERR_INVALID, "%.*s of muster %s%s%s is empty", (int)len, word,
                             command->noun, command->verb ? " " : "",
                             command->verb ? command->verb : "");
        }
        const char *next = strchr(name, ' ');
        name = next ? next + 1 : name; // the last name repeats
    }
    return 0;
}

// Checks the number of positional arguments against "FILE [FOLDER]".
static int check_arguments(struct cli *c, const struct command *command, struct error *e)
{
    int min_count = 0, max_count = 0;
    for (const char *p = command->args; *p != '\0'; p += strcspn(p, " "), p += strspn(p, " ")) {
        min_count += *p != '[';
        max_count = strstr(p, "...") ? 1 << 20 : max_count + 1;
    }
    if (c->arg_count >= min_count && c->arg_count <= max_count)
        return check_empty(c, command, e);
    error_set(e, ERR_INVALID, "usage: muster %s%s%s%s%s", command->noun, command->verb ? " " : "",
              command->verb ? command->verb : "", *command->args ? " " : "", command->args);
    if (c->arg_count > max_count)
        suggest_for_argument(c, command, c->args[max_count], e);
    else if (command->example)
        error_set(e, ERR_INVALID, "%s; for example: %s", arena_strdup(&c->arena, e->text),
                  command->example);
    return ERR_INVALID;
}

static int run_command(struct cli *c, const struct command *command, struct error *e)
{
    int err = parse_format(c, e);
    err = err ? err : check_arguments(c, command, e);
    if (!err && !command->offline)
        err = session_open(c, true, e);
    if (err)
        return err;
    return c->options.watch ? watch_command(c, command, e) : command->run(c, command, e);
}

// No command has one of the flags. The error names one with that meaning, if the first two words
// name a command.
static int report_unknown_flag(struct cli *c, int argc, char **argv, struct error *e)
{
    const char *noun = argc > 1 ? command_noun(argv[1]) : NULL;
    const char *verb = argc > 2 ? command_verb(argv[2]) : NULL;
    struct error unused;
    const struct command *command = noun ? command_find(noun, verb, &unused) : NULL;
    if (!command)
        return e->code;
    struct error own; // suggests no flag of another command
    struct flag flags[FLAGSET_MAX];
    const char **words = arena_alloc(&c->arena, (size_t)(argc + 1) * sizeof(*words));
    int count = 0;
    flagset_select(&c->options, command->flags, flags);
    if (flags_parse(flags, argc, argv, words, &count, &own))
        *e = own;
    return suggest_for_flag(c, command, argc, argv, e);
}

// The first two words that are not flags name the command; only then are its flags known.
static int dispatch(struct cli *c, int argc, char **argv, struct error *e)
{
    struct cli_options probe_options = {0};
    struct flag flags[FLAGSET_MAX];
    flagset_probe(&probe_options, flags);
    const char **words = arena_alloc(&c->arena, (size_t)(argc + 1) * sizeof(*words));
    int count = 0;
    int err = flags_parse(flags, argc, argv, words, &count, e);
    if (err)
        return report_unknown_flag(c, argc, argv, e);
    const char *noun = command_noun(count > 0 ? words[0] : NULL);
    const char *verb = command_verb(count > 1 ? words[1] : NULL);
    if (!noun || (probe_options.help && help_is_topic(noun, verb))) {
        help_topic(noun, stdout);
        return 0;
    }
    const struct command *command = command_find(noun, verb, e);
    if (!command)
        return e->code;
    if (probe_options.help) {
        help_command(command, stdout);
        return 0;
    }
    flagset_select(&c->options, command->flags, flags);
    err = flags_parse(flags, argc, argv, words, &count, e);
    int skip = command->verb ? 2 : 1;
    c->args = words + skip;
    c->arg_count = count - skip;
    return err ? suggest_for_flag(c, command, argc, argv, e) : run_command(c, command, e);
}

// Ends the program as soon as nobody reads its output any more, as in `muster experiment logs 7
// --follow | head`. A connection that the master closed raises the same signal, and its write
// fails then.
static void on_broken_pipe(int number)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    int saved = errno;
    if (poll(&out, 1, 0) == 1 && out.revents & (POLLERR | POLLHUP))
        _exit(128 + number);
    errno = saved;
}

int main(int argc, char **argv)
{
    const struct sigaction broken_pipe = {.sa_handler = on_broken_pipe, .sa_flags = SA_RESTART};
    sigaction(SIGPIPE, &broken_pipe, NULL);
    log_set_level(LOG_LEVEL_ERROR);
    terminal_begin();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("muster %s\n", muster_version);
        return 0;
    }
    struct cli c = {.options = {.rank = -1, // -1: not given, because 0 is a valid value
                                .max_slots = -1,
                                .guaranteed = -1,
                                .slots = -1,
                                .min_slots = -1,
                                .save_experiment_best = -1,
                                .save_trial_best = -1,
                                .save_trial_latest = -1,
                                .preempt_cost = -1,
                                .step = -1}};
    struct error e = {0};
    c.began_us = clock_mono_us();
    int err = dispatch(&c, argc, argv, &e);
    if (err && e.text[0] != '\0') {
        fflush(stdout);
        fprintf(stderr, "muster: %s\n", e.text);
    }
    if (c.client)
        client_close(c.client);
    json_decref(c.names);
    arena_free(&c.arena);
    terminal_end();
    if (fflush(stdout) != 0 && !err)
        return err_exit_code(ERR_IO);
    return err ? err_exit_code(err) : c.exit_code;
}
