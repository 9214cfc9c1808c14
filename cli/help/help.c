#include "cli/help/help.h"

#include <string.h>

#include "api/config/config_help.h"
#include "api/config/expconf.h"
#include "api/filter/filter.h"
#include "base/buf.h"
#include "cli/commands/commands.h"
#include "cli/common/flagset.h"

static bool command_has_noun(const struct command *command, const char *noun)
{
    return strcmp(command->noun, noun) == 0;
}

bool help_is_topic(const char *noun, const char *verb)
{
    size_t verbs = 0;
    for (size_t i = 0; i < command_count; i++) {
        if (command_has_noun(&commands[i], noun)) {
            if (!commands[i].verb || (verb && strcmp(commands[i].verb, verb) == 0))
                return false;
            verbs++;
        }
    }
    return verbs > 0 && !verb;
}

static void list_commands(const char *noun, FILE *out)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct command *k = &commands[i];
        if (command_has_noun(k, noun) && k->help) {
            char line[96];
            snprintf(line, sizeof(line), "%s %s %s", k->noun, k->verb, k->args);
            fprintf(out, "  %-36s %s\n", line, k->help);
        }
    }
}

// The overview: nouns, grouped by the reader's purpose.
static const struct {
    const char *group; // NULL: the same as before
    const char *noun, *about;
} nouns[] = {
    {"Run", "experiment",
     "trainings: create, list, describe, follow, logs, metrics, pause, kill, fork, export, .."},
    {NULL, "command", "run a program once: run, logs, kill, .."},
    {NULL, "task", "programs that can be paused and have child tasks: run, logs, pause, .."},
    {NULL, "template", "shared parts of configurations: create, list, .."},
    {NULL, "report", "in a trial's program: metrics of a step; should-stop, checkpoint save"},
    {"Look", "trial", "the runs of an experiment: list, describe, metrics, logs, download, .."},
    {NULL, "events", "changes at the master, as they happen"},
    {NULL, "resources", "past use of slots: raw, aggregated"},
    {"Decide", "queue", "running and waiting jobs, and the reasons for waiting: list, why, move"},
    {NULL, "team",
     "workspaces: shares of the slots, members and their roles: create, set, shares, .."},
    {NULL, "project", "folders of experiments in a team: create, move, note, .."},
    {NULL, "simulate", "the schedule under another policy or on a larger cluster"},
    {"Keep", "checkpoint", "saved states of trainings: list, download, digest, delete, gc, .."},
    {NULL, "model",
     "the registry: checkpoints as versions of a model: create, register-version, .."},
    {NULL, "webhook", "URLs that get a message when something happens: create, test, .."},
    {"Operate", "agent", "machines: list, describe, enable, disable, enroll, revoke, .."},
    {NULL, "slot", "GPUs or CPU shares of agents: list, enable, disable"},
    {NULL, "pool", "groups of agents with one scheduling policy: list"},
    {NULL, "master", "the master: info, config, logs, alerts, message, backup, restore, .."},
    {NULL, "cluster", "set up machines by SSH: up, status, doctor, upgrade, down"},
    {NULL, "import", "take over a Determined cluster: determined"},
    {NULL, "user", "people: create, set, change-password, deactivate, .."},
    {NULL, "token", "access tokens for programs: create, list, revoke, .."},
    {NULL, "audit", "the record of changes and refused calls: list"},
    {NULL, "api", "any call of the master, by its path"},
    {"This command", "login", "sign in; trust, logout, whoami"},
    {NULL, "help", "explain a command or a topic; man: manual pages; completion: for the shell"},
};

static void list_nouns(FILE *out)
{
    for (size_t i = 0; i < sizeof(nouns) / sizeof(nouns[0]); i++) {
        if (nouns[i].group)
            fprintf(out, "\n%s\n", nouns[i].group);
        fprintf(out, "  %-11s  %s\n", nouns[i].noun, nouns[i].about);
    }
}

static void list_flags(const char *names, FILE *out)
{
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    flagset_own(&unused, names, flags);
    if (flags[0].name) {
        fputs("\nFlags:\n", out);
        flags_help(flags, out);
    }
    flagset_select(&unused, NULL, flags);
    fputs("\nFlags of every command:\n", out);
    flags_help(flags, out);
}

static const char hyperparameters[] =
    "Hyperparameters and searches:\n"
    "  hyperparameters: {lr: 0.01}   # or a range to search: {type: log, base: 10, minval: -4, "
    "maxval: -1}\n"
    "  trainer: {optimizer: {name: adamw, learning_rate: \"${lr}\"}, ..}\n"
    "In the trainer section \"${lr}\" is the value of that name, \"${group.lr}\" one within a "
    "group; a\n"
    "program finds them all, as JSON, in its variable DET_HPARAMS. muster help config explains "
    "the\n"
    "searchers; examples/search.yaml is a search.\n";

const char *help_note(const struct command *command)
{
    bool submits = command->run == run_experiment_create || command->run == run_experiment_fork ||
                   command->run == run_experiment_preview;
    return submits ? hyperparameters : NULL;
}

void help_command(const struct command *k, FILE *out)
{
    fprintf(out, "%s\n\n  muster %s%s%s%s%s%s\n", k->help, k->noun, k->verb ? " " : "",
            k->verb ? k->verb : "", *k->args != '\0' ? " " : "", k->args,
            k->flags && *k->flags != '\0' ? " [flags]" : "");
    if (k->example)
        fprintf(out, "\nExample:\n  %s\n", k->example);
    if (k->columns)
        fprintf(out, "\nColumns shown by default: %s\n", k->columns);
    list_flags(k->flags, out);
    if (help_note(k))
        fprintf(out, "\n%s", help_note(k));
    if (k->run == run_simulate)
        help_figures(out);
}

// --- topics --------------------------------------------------------------------------------------

static void help_exit_codes(FILE *out)
{
    static const struct {
        int code;
        const char *name;
    } rows[] = {
#define HELP_ROW(symbol, code, http, exit_code, name) {exit_code, name},
        ERR_TABLE(HELP_ROW)
#undef HELP_ROW
    };
    fputs("Exit codes:\n  0  success\n", out);
    for (int code = 1; code < 16; code++) {
        const char *glue = "";
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            if (rows[i].code != code)
                continue;
            if (*glue == '\0')
                fprintf(out, "  %d  ", code);
            fprintf(out, "%s%s", glue, rows[i].name);
            glue = ", ";
        }
        if (*glue != '\0')
            fputc('\n', out);
    }
}

// `key` NULL: the overview; "all": the table of all keys.
static int help_config(const char *key, FILE *out, struct error *e)
{
    struct buf text;
    int err = 0;
    buf_init(&text, 1 << 22);
    if (!key)
        config_help_overview(&text);
    else if (strcmp(key, "all") == 0)
        expconf_document(&text);
    else
        err = config_help_key(key, &text, e);
    if (!err)
        fputs(buf_str(&text), out);
    buf_free(&text);
    return err;
}

static void help_filters(FILE *out)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    filter_document(&text);
    fputs(buf_str(&text), out);
    buf_free(&text);
}

static const struct {
    const char *name, *about;
    void (*print)(FILE *out);
} topics[] = {{"config", "the keys of the experiment file; config KEY explains one", NULL},
              {"filters", "the language of --filter and --sort", help_filters},
              {"scheduling", "in which order jobs get slots; pools", help_scheduling},
              {"teams", "teams, their members, and the rights of each role", help_teams},
              {"data", "retention of checkpoints and logs; backups, exports", help_data},
              {"exit-codes", "exit codes of the commands", help_exit_codes}};
enum { TOPICS = sizeof(topics) / sizeof(topics[0]) };

const char *help_topics(void)
{
    return "config filters scheduling teams data exit-codes";
}

static void list_topics(FILE *out)
{
    fputs("\nTopics of muster help:\n", out);
    for (size_t i = 0; i < TOPICS; i++)
        fprintf(out, "  %-12s  %s\n", topics[i].name, topics[i].about);
}

static int report_unknown_topic(const char *word, struct error *e)
{
    const char *names[256] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < TOPICS; i++)
        names[count++] = topics[i].name;
    for (size_t i = 0; i < command_count; i++)
        if (i == 0 || !command_has_noun(&commands[i], commands[i - 1].noun))
            names[count++] = commands[i].noun;
    const char *near = nearest_word(word, names);
    return near ? error_set(e, ERR_INVALID, "no help on \"%s\"; did you mean \"%s\"?", word, near)
                : error_set(e, ERR_INVALID,
                            "no help on \"%s\"; muster --help lists the commands; topics: %s", word,
                            help_topics());
}

// A topic, a noun, or a command: muster help experiment create. A topic may have a key: muster help
// config min_slots.
int run_help(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *word = c->arg_count > 0 ? c->args[0] : NULL, *noun = command_noun(word);
    const char *verb = c->arg_count > 1 ? command_verb(c->args[1]) : NULL;
    for (size_t i = 0; i < TOPICS && word; i++) {
        if (strcmp(word, topics[i].name) != 0)
            continue;
        if (c->arg_count > 1 && topics[i].print)
            return error_set(e, ERR_INVALID, "\"%s\" is one argument too many: muster help %s",
                             c->args[1], word);
        if (!topics[i].print)
            return help_config(c->arg_count > 1 ? c->args[1] : NULL, stdout, e);
        topics[i].print(stdout);
        return 0;
    }
    if (!noun || help_is_topic(noun, verb)) {
        help_topic(noun, stdout);
        return 0;
    }
    const struct command *command = command_find(noun, verb, e);
    if (command) {
        help_command(command, stdout);
        return 0;
    }
    return !verb ? report_unknown_topic(word, e) : e->code;
}

void help_topic(const char *noun, FILE *out)
{
    if (noun) {
        fprintf(out, "Commands of muster %s:\n\n", noun);
        list_commands(noun, out);
        list_flags(NULL, out);
        fputs("\nmuster NOUN VERB --help explains one command, with an example.\n", out);
        return;
    }
    fputs("muster: submit, watch and control training experiments.\n\n"
          "  muster login USER\n"
          "  muster experiment create experiment.yaml folder/ --follow\n"
          "  muster experiment list\n",
          out);
    list_nouns(out);
    list_topics(out);
    list_flags(NULL, out);
    fputs("\nmuster help NOUN and muster help NOUN VERB say more, with examples. Ctrl-C ends the "
          "output, "
          "not the\nexperiment. On a terminal, control characters in names and logs are shown as "
          "\\u001b.\n",
          out);
}
