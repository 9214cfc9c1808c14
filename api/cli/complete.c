// Completion scripts for bash, zsh and fish, made from the command and flag tables.
#include <stdio.h>
#include <string.h>

#include "api/cli/flagset.h"
#include "api/cli/verbs.h"

static void put_nouns(void)
{
    const char *last = "";
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(last, commands[i].noun) != 0) {
            printf("%s%s", *last != '\0' ? " " : "", commands[i].noun);
        }
        last = commands[i].noun;
    }
}

static void put_verbs(const char *noun)
{
    const char *glue = "";
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(commands[i].noun, noun) == 0 && commands[i].verb != NULL) {
            printf("%s%s", glue, commands[i].verb);
            glue = " ";
        }
    }
}

static void put_flags(const char *names)
{
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    flagset_select(&unused, names, flags);
    for (const struct flag *f = flags; f->name != NULL; f++) {
        printf("%s--%s", f != flags ? " " : "", f->name);
    }
}

// zsh reads the same function through bashcompinit.
static void complete_bash(void)
{
    printf("_muster() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} noun=${COMP_WORDS[1]} verb=${COMP_WORDS[2]} "
           "words=\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='");
    put_nouns();
    printf("'\n    elif [[ $word == -* ]]; then\n        case \"$noun $verb\" in\n");
    for (size_t i = 0; i < command_count; i++) {
        const struct command *k = &commands[i];
        printf("        '%s%s%s'%s) words='", k->noun, k->verb != NULL ? " " : "",
               k->verb != NULL ? k->verb : "", k->verb != NULL ? "" : "*");
        put_flags(k->flags);
        printf("' ;;\n");
    }
    printf("        esac\n    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n        case $noun in\n");
    const char *last = "";
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(last, commands[i].noun) != 0) {
            printf("        %s) words='", commands[i].noun);
            put_verbs(commands[i].noun);
            printf("' ;;\n");
        }
        last = commands[i].noun;
    }
    printf("        esac\n    fi\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "}\ncomplete -o filenames -F _muster muster\n");
}

static void complete_fish(void)
{
    printf("complete -c muster -n __fish_use_subcommand -f -a '");
    put_nouns();
    printf("'\n");
    for (size_t i = 0; i < command_count; i++) {
        const struct command *k = &commands[i];
        if (k->verb != NULL) {
            printf("complete -c muster -n '__fish_seen_subcommand_from %s' -f -a %s -d '%s'\n",
                   k->noun, k->verb, k->help);
        }
    }
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    flagset_select(&unused, "*", flags);
    for (const struct flag *f = flags; f->name != NULL; f++) {
        printf("complete -c muster -l %s%s -d '%s'\n", f->name, f->kind != FLAG_BOOL ? " -r" : "",
               f->help);
    }
}

int run_completion(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *shell = c->args[0];
    if (strcmp(shell, "zsh") == 0) {
        printf("autoload -U +X bashcompinit && bashcompinit\n");
    }
    if (strcmp(shell, "bash") == 0 || strcmp(shell, "zsh") == 0) {
        complete_bash();
    } else if (strcmp(shell, "fish") == 0) {
        complete_fish();
    } else {
        return error_set(e, ERR_INVALID, "no completion for \"%s\"; there is bash, zsh and fish",
                         shell);
    }
    return 0;
}
