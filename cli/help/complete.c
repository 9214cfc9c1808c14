// Completion of the command line. The scripts of the shells only pass words: `muster complete-words
// SHELL -- WORD...` reads the words so far, the last one unfinished, and prints its possible
// completions, one "word<TAB>description" on each line. They come from the tables of commands and
// flags and, for names of objects, from the master of the saved session. ":files" and ":folders"
// ask the shell to complete paths. Errors print nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/config_help.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/flagset.h"
#include "cli/common/lookup.h"
#include "cli/help/help.h"
#include "cli/output/columns.h"

enum { CALL_TIMEOUT_S = 2 };

struct completion {
    struct cli *c;
    const char *shell, *word; // the unfinished word
    const char *before;       // "--flag=" to repeat before each completion; ""
    const struct command *command;
    const char *noun;
    const char **args; // positional arguments before it
    int arg_count;
    const struct flag *flag; // the word is a value of this flag; NULL: it is not
};

// --- candidates -----------------------------------------------------------------------------

// The shell shows the candidates on its terminal. A word with unprintable characters is not
// offered, because its escaped form would be a different word.
static void offer(const struct completion *k, const char *word, const char *help)
{
    char *shown = printable_text(word, ""), *about = printable_text(help ? help : "", "");
    if (strncmp(word, k->word, strlen(k->word)) == 0 && strcmp(word, shown) == 0)
        printf("%s%s\t%s\n", k->before, word, about);
    free(shown);
    free(about);
}

// "add|remove", "table json"
static void offer_words(const struct completion *k, const char *words)
{
    char *copy = xstrdup(words), *rest = copy, *word;
    while ((word = strsep(&rest, "| ")))
        if (*word != '\0')
            offer(k, word, NULL);
    free(copy);
}

static void offer_config_keys(const struct completion *k)
{
    struct buf keys;
    buf_init(&keys, 1 << 20);
    config_help_paths(&keys);
    char *text = buf_take(&keys), *rest = text, *key;
    while ((key = strsep(&rest, "\n")))
        if (*key != '\0')
            offer(k, key, NULL);
    free(text);
}

struct completion_source {
    const char *kind, *path, *list, *word, *help;
};

#define NEWEST                                                                                     \
    "/api/v1/experiments?sortBy=SORT_BY_ID&orderBy=ORDER_BY_DESC&omit=config,originalConfig,"      \
    "description,notes"

static const struct completion_source sources[] = {
    {"experiment", NEWEST "&limit=200", "experiments", "id", "name"},
    {"command", "/api/v1/commands?limit=200", "commands", "id", "description"},
    {"task", "/api/v1/generic-tasks?limit=200", "tasks", "id", "name"},
    {"agent", "/api/v1/agents", "agents", "id", "hostname"},
    {"team", "/api/v1/workspaces", "workspaces", "name", NULL},
    {"user", "/api/v1/users", "users", "username", "displayName"},
    {"pool", "/api/v1/resource-pools", "resourcePools", "name", NULL},
    {"model", "/api/v1/models", "models", "name", "description"},
    {"template", "/api/v1/templates", "templates", "name", NULL},
    {"webhook", "/api/v1/webhooks", "webhooks", "name", "url"},
    {"token", "/api/v1/tokens", "tokenInfo", "id", "description"},
};

static json_t *fetch_quietly(const struct completion *k, const char *path)
{
    json_t *answer = NULL;
    struct error e = {0};
    k->c->timeout_s = CALL_TIMEOUT_S;
    if (!k->c->client && session_open(k->c, true, &e) != 0)
        return NULL;
    return cli_call(k->c, "GET", NULL, &answer, &e, "%s", path) == 0 ? answer : NULL;
}

static void offer_list(const struct completion *k, const struct completion_source *s,
                       const char *path)
{
    json_t *answer = fetch_quietly(k, path), *one;
    size_t i;
    json_array_foreach(jget(answer, s->list), i, one)
    {
        char number[32];
        snprintf(number, sizeof(number), "%lld", (long long)jget_int(one, s->word, 0));
        offer(k, jget_string(one, s->word, number), s->help ? jget_string(one, s->help, "") : NULL);
    }
    json_decref(answer);
}

// Offers trials of the experiment given before, else of the newest experiments.
static void offer_trials(const struct completion *k)
{
    bool named = k->arg_count > 0 && strcmp(k->noun, "experiment") == 0;
    json_t *answer = named ? json_pack("{s:[{s:I}]}", "experiments", "id",
                                       (json_int_t)strtoll(k->args[0], NULL, 10))
                           : fetch_quietly(k, NEWEST "&limit=10");
    json_t *one, *trial;
    size_t i, n;
    json_array_foreach(jget(answer, "experiments"), i, one)
    {
        json_t *list =
            fetch_quietly(k, arena_printf(&k->c->arena, "/api/v1/experiments/%lld/trials?limit=50",
                                          (long long)jget_int(one, "id", 0)));
        json_array_foreach(jget(list, "trials"), n, trial)
        {
            char number[32];
            snprintf(number, sizeof(number), "%lld", (long long)jget_int(trial, "id", 0));
            offer(k, number, jget_string(one, "name", ""));
        }
        json_decref(list);
    }
    json_decref(answer);
}

// Completes the last name in "id,name,..": columns of the table, metrics and hyperparameters.
static void offer_columns(struct completion *k)
{
    const char *comma = strrchr(k->word, ',');
    if (comma) {
        k->before =
            arena_printf(&k->c->arena, "%s%.*s", k->before, (int)(comma + 1 - k->word), k->word);
        k->word = comma + 1;
    }
    char *rest = arena_strdup(&k->c->arena, k->command->columns), *name;
    while ((name = strsep(&rest, ",")))
        offer(k, name, NULL);
    if (k->command->run != run_experiment_list && k->command->run != run_trial_list)
        return;
    json_t *fields = fetch_quietly(k, COLUMNS_FIELDS), *known = columns_known(fields), *one;
    size_t i;
    json_array_foreach(known, i, one)
    {
        offer(k, json_string_value(one), NULL);
    }
    json_decref(known);
    json_decref(fields);
}

// Offers the projects of the team given before.
static void offer_projects(const struct completion *k)
{
    static const struct completion_source projects = {"project", NULL, "projects", "name",
                                                      "description"};
    long long team;
    struct error e = {0};
    const char *of = k->arg_count > 0 ? k->args[k->arg_count - 1] : "";
    json_decref(fetch_quietly(k, "/api/v1/me")); // opens the session
    if (k->c->client && lookup_team(k->c, NULL, of, &team, &e) == 0) {
        offer_list(k, &projects,
                   arena_printf(&k->c->arena, "/api/v1/workspaces/%lld/projects", team));
    }
}

static void offer_slots(const struct completion *k)
{
    static const struct completion_source slots = {"slot", NULL, "slots", "id", NULL};
    char *agent = client_escape(k->arg_count > 0 ? k->args[k->arg_count - 1] : "");
    offer_list(k, &slots, arena_printf(&k->c->arena, "/api/v1/agents/%s/slots", agent));
    free(agent);
}

static void offer_objects(const struct completion *k, const char *kind)
{
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        if (strcmp(kind, sources[i].kind) == 0)
            offer_list(k, &sources[i], sources[i].path);
    if (strcmp(kind, "trial") == 0)
        offer_trials(k);
    else if (strcmp(kind, "project") == 0)
        offer_projects(k);
    else if (strcmp(kind, "slot") == 0)
        offer_slots(k);
}

static void offer_nouns(const struct completion *k)
{
    const char *last = "";
    for (size_t i = 0; i < command_count; i++) {
        const struct command *one = &commands[i];
        if (strcmp(last, one->noun) != 0 && one->help)
            offer(k, one->noun, !one->verb ? one->help : NULL);
        last = one->noun;
    }
}

static void offer_verbs(const struct completion *k, const char *noun)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].noun, noun) == 0 && commands[i].verb)
            offer(k, commands[i].verb, commands[i].help);
}

static void offer_flags(const struct completion *k)
{
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    flagset_select(&unused, k->command ? k->command->flags : NULL, flags);
    for (const struct flag *f = flags; f->name; f++)
        offer(k, arena_printf(&k->c->arena, "--%s", f->name), f->help);
}

// --- meaning of the word ----------------------------------------------------------------------

// Offers candidates for a name in capitals in a command's arguments or after a flag.
static bool offer_placeholder(const struct completion *k, const char *name)
{
    static const char *const things[][2] = {{"EXPERIMENT", "experiment"},
                                            {"AGENT", "agent"},
                                            {"SLOT", "slot"},
                                            {"TEAM", "team"},
                                            {"PROJECT", "project"},
                                            {"NEW-TEAM", "team"},
                                            {"USER", "user"},
                                            {"WEBHOOK", "webhook"},
                                            {"POOL", "pool"}};
    static const char *const words[][2] = {{"SHELL", "bash zsh fish"},
                                           {"METHOD", "GET POST PUT PATCH DELETE"}};
    for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++) {
        if (strcmp(name, things[i][0]) == 0) {
            offer_objects(k, things[i][1]);
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(name, words[i][0]) == 0) {
            offer_words(k, words[i][1]);
            return true;
        }
    }
    if (strstr(name, "FILE")) {
        puts(":files");
        return true;
    }
    if (strstr(name, "FOLDER") || strcmp(name, "DIR") == 0) {
        puts(":folders");
        return true;
    }
    return false;
}

static void offer_value(struct completion *k)
{
    static const char *const words[][2] = {
        {"output", "table json jsonl csv"},
        {"level", "debug info warning error critical"},
        {"log-level", "debug info warn error"},
        {"group", "training validation"},
        {"role", "none viewer editor admin default"},
        {"default-role", "none viewer editor"},
        {"state", "active queued running paused completed canceled error"},
        {"method", "POST PUT PATCH DELETE"},
        {"stdtype", "stdout stderr"},
        {"on", "completed error canceled running custom"},
        {"topics",
         "experiments trials metrics logs checkpoints queue agents workspaces models audit"},
        {"policy", "fair_share priority fifo easy"},
    };
    static const char *const of_experiments[] = {"experiment", "ahead-of", "behind"};
    const char *name = k->flag->name, *value = k->flag->value_name;
    if (strcmp(name, "columns") == 0) {
        if (k->command && k->command->columns)
            offer_columns(k);
        return;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(name, words[i][0]) == 0) {
            offer_words(k, words[i][1]);
            return;
        }
    }
    for (size_t i = 0; i < sizeof(of_experiments) / sizeof(of_experiments[0]); i++) {
        if (strcmp(name, of_experiments[i]) == 0) {
            offer_objects(k, "experiment");
            return;
        }
    }
    if (strcmp(name, "trial") == 0 || strcmp(name, "template") == 0)
        offer_objects(k, name);
    else if (!offer_placeholder(k, value) && *value >= 'a' && *value <= 'z')
        offer_words(k, value);
}

// Returns the name of argument `at` in "FILE [FOLDER]", without brackets; NULL: there is none.
static const char *argument_name(struct cli *c, const char *args, int at)
{
    char *rest = arena_strdup(&c->arena, args), *word;
    while ((word = strsep(&rest, " ")) && *word != '\0') {
        size_t len = strlen(word);
        bool repeats = strstr(word, "...") != NULL;
        word[len - (len > 0 && word[len - 1] == ']')] = '\0';
        if (repeats)
            *strstr(word, "...") = '\0';
        if (at-- == 0 || repeats)
            return word + (*word == '[');
    }
    return NULL;
}

static void offer_argument(const struct completion *k)
{
    const char *name = argument_name(k->c, k->command->args, k->arg_count);
    const char *verb = k->command->verb ? k->command->verb : "";
    if (!name)
        return;
    if (strcmp(name, "ID") == 0 || (strcmp(name, "NAME") == 0 && strcmp(verb, "create") != 0)) {
        offer_objects(k, k->noun);
    } else if (strcmp(name, "COMMAND") == 0) {
        offer_nouns(k);
    } else if (strcmp(name, "TOPIC") == 0) {
        offer_words(k, help_topics());
        offer_nouns(k);
    } else if (strcmp(name, "VERB") == 0) {
        if (strcmp(k->args[0], "config") == 0)
            offer_config_keys(k);
        else
            offer_verbs(k, command_noun(k->args[0]));
    } else if (*name >= 'a' && *name <= 'z') {
        offer_words(k, name);
    } else {
        offer_placeholder(k, name);
    }
}

// --- words before ----------------------------------------------------------------------------

static const struct flag *find_flag(const struct flag *flags, const char *word)
{
    size_t len = strcspn(word + 2, "=");
    for (const struct flag *f = flags; f->name; f++) {
        bool is_long = strncmp(word, "--", 2) == 0 && strlen(f->name) == len &&
                       strncmp(f->name, word + 2, len) == 0;
        if (is_long || (f->letter != '\0' && word[1] == f->letter && word[2] == '\0'))
            return f;
    }
    return NULL;
}

// bash splits words at = and : (--pool = de, http : //host); joins them again.
static int join_words(struct cli *c, const char **words, int count)
{
    int n = 0;
    bool open = false; // the last word ends with = or :
    for (int i = 0; i < count; i++) {
        bool flag = n > 0 && strncmp(words[n - 1], "--", 2) == 0;
        bool breaks = strcmp(words[i], ":") == 0 || (strcmp(words[i], "=") == 0 && flag);
        if (n > 0 && (open || breaks))
            words[n - 1] = arena_printf(&c->arena, "%s%s", words[n - 1], words[i]);
        else
            words[n++] = words[i];
        open = breaks;
    }
    return n;
}

// Finds the command, its arguments so far, and the flag whose value the last word is.
static void read_words(struct completion *k, const struct flag *flags, const char **words,
                       int count)
{
    k->args = arena_alloc(&k->c->arena, (size_t)(count + 1) * sizeof(*k->args));
    for (int i = 0; i + 1 < count; i++) {
        const struct flag *f = words[i][0] == '-' ? find_flag(flags, words[i]) : NULL;
        bool takes = f && f->kind != FLAG_BOOL && !strchr(words[i], '=');
        if (takes && i + 2 == count) {
            k->flag = f;
        } else if (takes) {
            i++;
            if (strcmp(f->name, "master") == 0)
                k->c->options.master = words[i];
        } else if (words[i][0] != '-') {
            k->args[k->arg_count++] = words[i];
        }
    }
    k->noun = k->arg_count > 0 ? command_noun(k->args[0]) : NULL;
    k->command =
        k->noun ? command_find(k->noun, k->arg_count > 1 ? command_verb(k->args[1]) : NULL, NULL)
                : NULL;
    int skip = !k->command ? 0 : k->command->verb ? 2 : 1;
    k->args += skip;
    k->arg_count -= skip;
    k->word = count > 0 ? words[count - 1] : "";
}

// Finds the variant of the flag that the command has.
static void resolve_flag(struct completion *k, struct flag flags[FLAGSET_MAX])
{
    struct cli_options unused;
    const char *name = k->flag ? k->flag->name : NULL;
    flagset_select(&unused, k->command ? k->command->flags : NULL, flags);
    k->flag = NULL;
    for (const struct flag *f = flags; f->name && name; f++)
        k->flag = strcmp(f->name, name) == 0 ? f : k->flag;
}

// "--pool=de": completes the value. Shells other than bash need the part before it again.
static void read_flag_with_value(struct completion *k, const struct flag *flags)
{
    const char *equals = strchr(k->word, '=');
    const struct flag *f = k->word[0] == '-' && equals ? find_flag(flags, k->word) : NULL;
    if (f && f->kind != FLAG_BOOL) {
        k->flag = f;
        bool repeats = strcmp(k->shell, "bash") != 0;
        k->before =
            repeats ? arena_printf(&k->c->arena, "%.*s", (int)(equals + 1 - k->word), k->word) : "";
        k->word = equals + 1;
    }
}

int run_complete_words(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    (void)e;
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    if (c->arg_count < 1)
        return 0;
    struct completion k = {.c = c, .shell = c->args[0], .before = ""};
    int count = c->arg_count - 1;
    count = strcmp(k.shell, "bash") == 0 ? join_words(c, c->args + 1, count) : count;
    flagset_probe(&unused, flags);
    read_words(&k, flags, c->args + 1, count);
    read_flag_with_value(&k, flags);
    bool value = k.flag != NULL;
    resolve_flag(&k, flags);
    if (value && !k.flag)
        return 0; // the command has no such flag
    if (k.flag)
        offer_value(&k);
    else if (k.word[0] == '-')
        offer_flags(&k);
    else if (!k.noun)
        offer_nouns(&k);
    else if (!k.command)
        offer_verbs(&k, k.noun);
    else
        offer_argument(&k);
    return 0;
}

// --- the scripts ---------------------------------------------------------------------------------

// clang-format off
static const char bash[] =
    "_muster() {\n"
    "    local line cur=${COMP_WORDS[COMP_CWORD]}\n"
    "    case $cur in =|:) cur= ;; esac\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        :files) compopt -o filenames 2>/dev/null\n"
    "            while IFS= read -r line; do COMPREPLY+=(\"$line\"); done < <(compgen -f -- \"$cur\") ;;\n"
    "        :folders) compopt -o filenames 2>/dev/null\n"
    "            while IFS= read -r line; do COMPREPLY+=(\"$line\"); done < <(compgen -d -- \"$cur\") ;;\n"
    "        *) printf -v line %q \"${line%%$'\\t'*}\"; COMPREPLY+=(\"$line\") ;;\n"
    "        esac\n"
    "    done < <(\"${COMP_WORDS[0]}\" complete-words bash -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _muster muster\n";

static const char zsh[] =
    "#compdef muster\n"
    "_muster() {\n"
    "    local line\n"
    "    local -a found\n"
    "    for line in \"${(@f)$(\"${words[1]}\" complete-words zsh -- \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
    "        case $line in\n"
    "        :files) _files ;;\n"
    "        :folders) _files -/ ;;\n"
    "        ?*) found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    (( $#found )) && _describe -V muster found\n"
    "}\n"
    "if [[ $funcstack[1] == _muster ]]; then _muster \"$@\"; else compdef _muster muster; fi\n";

static const char fish[] =
    "function __muster_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l word (commandline -ct)\n"
    "    set -l program $words[1]\n"
    "    set -e words[1]\n"
    "    for line in ($program complete-words fish -- $words \"$word\" 2>/dev/null)\n"
    "        switch $line\n"
    "            case ':files'\n"
    "                __fish_complete_path \"$word\"\n"
    "            case ':folders'\n"
    "                __fish_complete_directories \"$word\"\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c muster -f -a '(__muster_complete)'\n";
// clang-format on

int run_completion(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    static const char *const scripts[][2] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        if (strcmp(c->args[0], scripts[i][0]) == 0) {
            fputs(scripts[i][1], stdout);
            return 0;
        }
    }
    return error_set(e, ERR_INVALID, "no completion for \"%s\"; the shells are bash, zsh and fish",
                     c->args[0]);
}
