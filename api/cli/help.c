#include "api/cli/help.h"

#include <string.h>

#include "api/cli/flagset.h"
#include "api/cli/verbs.h"
#include "api/expconf.h"
#include "api/filter.h"
#include "base/buf.h"

static bool same_noun(const struct command *command, const char *noun)
{
    return strcmp(command->noun, noun) == 0;
}

bool help_is_topic(const char *noun, const char *verb)
{
    size_t verbs = 0;
    for (size_t i = 0; i < command_count; i++) {
        if (same_noun(&commands[i], noun)) {
            if (commands[i].verb == NULL || (verb != NULL && strcmp(commands[i].verb, verb) == 0)) {
                return false;
            }
            verbs++;
        }
    }
    return verbs > 0 && verb == NULL;
}

static void list_commands(const char *noun, FILE *out)
{
    const char *last = "";
    for (size_t i = 0; i < command_count; i++) {
        const struct command *k = &commands[i];
        if ((noun != NULL && !same_noun(k, noun)) || k->help == NULL) {
            continue;
        }
        if (noun == NULL && strcmp(last, k->noun) != 0) {
            fputc('\n', out);
        }
        last = k->noun;
        char line[96];
        snprintf(line, sizeof(line), "%s%s%s %s", k->noun, k->verb != NULL ? " " : "",
                 k->verb != NULL ? k->verb : "", k->args);
        fprintf(out, "  %-36s %s\n", line, k->help);
    }
}

static void list_flags(const char *names, FILE *out)
{
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    flagset_own(&unused, names, flags);
    if (flags[0].name != NULL) {
        fputs("\nFlags:\n", out);
        flags_help(flags, out);
    }
    flagset_select(&unused, NULL, flags);
    fputs("\nFlags of every command:\n", out);
    flags_help(flags, out);
}

void help_command(const struct command *k, FILE *out)
{
    fprintf(out, "%s\n\n  muster %s%s%s%s%s%s\n", k->help, k->noun, k->verb != NULL ? " " : "",
            k->verb != NULL ? k->verb : "", *k->args != '\0' ? " " : "", k->args,
            k->flags != NULL && *k->flags != '\0' ? " [flags]" : "");
    if (k->example != NULL) {
        fprintf(out, "\nExample:\n  %s\n", k->example);
    }
    if (k->columns != NULL) {
        fprintf(out, "\nColumns shown by default: %s\n", k->columns);
    }
    list_flags(k->flags, out);
    if (k->run == run_simulate) {
        help_figures(out);
    }
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
            if (rows[i].code != code) {
                continue;
            }
            if (*glue == '\0') {
                fprintf(out, "  %d  ", code);
            }
            fprintf(out, "%s%s", glue, rows[i].name);
            glue = ", ";
        }
        if (*glue != '\0') {
            fputc('\n', out);
        }
    }
}

static void help_config(FILE *out)
{
    struct buf text;
    buf_init(&text, 1 << 22);
    expconf_document(&text);
    fputs(buf_str(&text), out);
    buf_free(&text);
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
} topics[] = {{"config", "the keys of the experiment file", help_config},
              {"filters", "what --filter and --sort of lists take", help_filters},
              {"scheduling", "who gets the slots, and pools", help_scheduling},
              {"teams", "teams, their members, and what each role may do", help_teams},
              {"data", "what is kept and for how long; backups, exports", help_data},
              {"exit-codes", "how commands end", help_exit_codes}};
enum { TOPICS = sizeof(topics) / sizeof(topics[0]) };

const char *help_topics(void)
{
    return "config filters scheduling teams data exit-codes";
}

static void list_topics(FILE *out)
{
    fputs("\nTopics of muster help:\n", out);
    for (size_t i = 0; i < TOPICS; i++) {
        fprintf(out, "  %-12s  %s\n", topics[i].name, topics[i].about);
    }
}

int run_help(struct cli *c, const struct command *self, struct error *e)
{
    const char *names[TOPICS + 1] = {NULL};
    (void)self;
    if (c->arg_count == 0) {
        help_topic(NULL, stdout);
        return 0;
    }
    for (size_t i = 0; i < TOPICS; i++) {
        names[i] = topics[i].name;
        if (strcmp(c->args[0], names[i]) == 0) {
            topics[i].print(stdout);
            return 0;
        }
    }
    const char *noun = command_noun(c->args[0]);
    if (help_is_topic(noun, NULL)) { // muster help experiment
        help_topic(noun, stdout);
        return 0;
    }
    const char *near = nearest_word(c->args[0], names);
    return error_set(e, ERR_INVALID, "no help on \"%s\"; there is: %s", c->args[0],
                     near != NULL ? near : help_topics());
}

void help_topic(const char *noun, FILE *out)
{
    if (noun == NULL) {
        fputs("muster: submit, watch and steer training experiments.\n\n"
              "  muster login USER\n"
              "  muster experiment create experiment.yaml folder/ --follow\n"
              "  muster experiment list\n",
              out);
    } else {
        fprintf(out, "Commands of muster %s:\n\n", noun);
    }
    list_commands(noun, out);
    list_flags(NULL, out);
    if (noun == NULL) {
        list_topics(out);
        fputs("\nCtrl-C ends what is shown, never what runs. Manual pages: muster man.\n", out);
    }
    fputs("\nmuster NOUN VERB --help explains one command, with an example.\n", out);
}
