#include "cli/suggestions.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "cli/common/flagset.h"

enum { SHOWN = 4, NAMES_MAX = 128, LINE_MAX_BYTES = 512 };

// --- a surplus argument --------------------------------------------------------------------------

static bool is_number(const char *word)
{
    return *word && strspn(word, "0123456789") == strlen(word);
}

static bool is_path(const char *word)
{
    return strpbrk(word, "/.") != NULL;
}

// How well a word suits as the value of the flag; 0: it does not. A number is rather an id than a
// limit, and a word with a slash or a dot rather a file than a name.
static int suitability(const struct flag *f, const char *word)
{
    const char *value = f->value_name ? f->value_name : "";
    bool file = strstr(value, "FOLDER") || strstr(value, "FILE") || strstr(value, "DIR");
    if (!f->help || f->kind == FLAG_BOOL || (f->kind == FLAG_INT && !is_number(word)))
        return 0;
    if (is_number(word))
        return f->kind != FLAG_INT ? 1 : strcmp(value, "ID") == 0 ? 3 : 2;
    return is_path(word) == file ? 2 : 1;
}

void suggest_for_argument(struct cli *c, const struct command *command, const char *word,
                          struct error *e)
{
    struct cli_options unread;
    struct flag flags[FLAGSET_MAX];
    const char *list = "", *usage = arena_strdup(&c->arena, e->text);
    int best = 1, count = 0;
    flagset_own(&unread, command->flags, flags);
    for (const struct flag *f = flags; f->name; f++)
        best = suitability(f, word) > best ? suitability(f, word) : best;
    for (const struct flag *f = flags; f->name; f++) {
        if (suitability(f, word) != best)
            continue;
        if (count++ < SHOWN)
            list = arena_printf(&c->arena, "%s%s--%s %s", list, count > 1 ? " or " : "", f->name,
                                word);
    }
    const char *more = count == 0       ? ""
                       : count <= SHOWN ? arena_printf(&c->arena, "; did you mean %s?", list)
                                        : "; --help lists the flags, some of which can take it";
    error_set(e, ERR_INVALID, "%s: \"%s\" is one argument too many%s", usage, word, more);
}

// --- an unknown flag -----------------------------------------------------------------------------

struct unknown_flag {
    char name[NAMES_MAX];
    const char *value; // NULL: none
};

static const struct flag *find_flag(const struct flag *flags, const char *name)
{
    for (const struct flag *f = flags; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

// The first flag in argv that the command does not have.
static bool find_unknown(const struct flag *flags, int argc, char **argv, struct unknown_flag *out)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        const char *value = strchr(argv[i], '=');
        snprintf(out->name, sizeof out->name, "%.*s", (int)strcspn(argv[i] + 2, "="), argv[i] + 2);
        out->value = value ? value + 1 : i + 1 < argc && argv[i + 1][0] != '-' ? argv[i + 1] : NULL;
        if (!find_flag(flags, out->name))
            return true;
    }
    return false;
}

// Whether a flag of this name is the argument: --experiment, --experiment-id and --id of a command
// that takes the ID of an experiment.
static bool names_argument(const char *name, const char *argument, size_t len, const char *noun)
{
    char base[NAMES_MAX];
    size_t cut = strlen(name);
    bool id = cut > 3 && strcmp(name + cut - 3, "-id") == 0;
    snprintf(base, sizeof base, "%.*s", (int)(id ? cut - 3 : cut), name);
    if (strlen(base) == len && strncasecmp(base, argument, len) == 0)
        return true;
    bool is_id = (len == 2 && strncmp(argument, "ID", 2) == 0) ||
                 (len == 4 && strncmp(argument, "UUID", 4) == 0);
    return is_id && strcmp(base, noun) == 0;
}

static bool suggest_argument(const struct command *command, const struct unknown_flag *u,
                             struct error *e)
{
    for (const char *p = command->args; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
        const char *word = p + (*p == '[');
        size_t len = strcspn(word, " .]|");
        if (!names_argument(u->name, word, len, command->noun))
            continue;
        error_set(e, ERR_INVALID,
                  "unknown flag --%s; write the %.*s without a flag: muster %s %s%s%.*s", u->name,
                  (int)len, word, command->noun, command->verb ? command->verb : "",
                  command->verb ? " " : "", u->value ? (int)strlen(u->value) : (int)len,
                  u->value ? u->value : word);
        return true;
    }
    return false;
}

// Words of other tools.
static const char *const flag_synonyms[][2] = {
    {"out", "to"},
    {"output-dir", "to"},
    {"dest", "to"},
    {"destination", "to"},
    {"dir", "to"},
    {"folder", "to"},
    {"directory", "to"},
    {"into", "to"},
    {"path", "to"},
    {"gpus", "slots"},
    {"num-slots", "slots"},
    {"n", "limit"},
    {"max", "limit"},
    {"lines", "tail"},
    {"grep", "search"},
    {"where", "filter"},
    {"order-by", "sort"},
    {"sort-by", "sort"},
    {"format", "output"},
    {"force", "yes"},
    {"tags", "label"},
    {"set", "config"},
    {"workspace", "team"},
    {"server", "master"},
    {"dry-run", "validate-only"},
    {"test", "validate-only"},
    {"f", "follow"},
    {"json", "output"},
};

static const char *synonym_of(const struct flag *flags, const char *name)
{
    for (size_t i = 0; i < sizeof flag_synonyms / sizeof *flag_synonyms; i++)
        if (strcmp(flag_synonyms[i][0], name) == 0 && find_flag(flags, flag_synonyms[i][1]))
            return flag_synonyms[i][1];
    return NULL;
}

// --experiment-id for --experiment, --exp for --experiment.
static const char *longer_or_shorter(const struct flag *flags, const char *name)
{
    size_t len = strlen(name);
    for (const struct flag *f = flags; f->name && len >= 3; f++) {
        size_t own = strlen(f->name);
        bool longer = len > own && strncmp(name, f->name, own) == 0 && name[own] == '-';
        if (f->help && (longer || (len < own && strncmp(name, f->name, len) == 0)))
            return f->name;
    }
    return NULL;
}

// Another command of the same noun that has the flag.
static const struct command *find_owner(const struct command *command, const char *name)
{
    for (size_t i = 0; i < command_count; i++) {
        struct cli_options unread;
        struct flag flags[FLAGSET_MAX];
        if (strcmp(commands[i].noun, command->noun) != 0 || !commands[i].verb)
            continue;
        flagset_own(&unread, commands[i].flags, flags);
        if (find_flag(flags, name))
            return &commands[i];
    }
    return NULL;
}

int suggest_for_flag(struct cli *c, const struct command *command, int argc, char **argv,
                     struct error *e)
{
    struct unknown_flag u;
    struct flag flags[FLAGSET_MAX];
    flagset_select(&c->options, command->flags, flags);
    if (strncmp(e->text, "unknown flag --", 15) != 0 || !find_unknown(flags, argc, argv, &u) ||
        suggest_argument(command, &u, e))
        return e->code;
    const char *near = synonym_of(flags, u.name);
    if (!near && !strstr(e->text, "did you mean"))
        near = longer_or_shorter(flags, u.name);
    const struct command *owner = find_owner(command, u.name);
    if (near)
        return error_set(e, ERR_INVALID, "unknown flag --%s; did you mean --%s?", u.name, near);
    if (owner && !strstr(e->text, "did you mean"))
        return error_set(e, ERR_INVALID,
                         "unknown flag --%s; muster %s %s has such a flag; muster %s %s --help "
                         "lists those of this command",
                         u.name, owner->noun, owner->verb, command->noun, command->verb);
    return e->code;
}

// --- an unknown command --------------------------------------------------------------------------

static const char *const verb_synonyms[][2] = {
    {"stop", "cancel"},      {"terminate", "kill"},  {"abort", "kill"},
    {"start", "activate"},   {"resume", "activate"}, {"unpause", "activate"},
    {"restart", "continue"}, {"rm", "delete"},       {"remove", "delete"},
    {"info", "describe"},    {"get", "describe"},    {"status", "describe"},
    {"log", "logs"},         {"tail", "logs"},       {"submit", "create"},
    {"run", "create"},       {"train", "create"},    {"new", "create"},
    {"add", "create"},       {"rename", "set"},      {"update", "set"},
    {"change", "set"},       {"scale", "resize"},    {"watch", "follow"},
    {"top", "list"},         {"ps", "list"},         {"cat", "describe"},
    {"view", "describe"},
};

// Whole commands of Slurm and of the shell.
static const char *const command_synonyms[][2] = {
    {"sbatch", "experiment create"},
    {"srun", "command run"},
    {"squeue", "queue list"},
    {"scancel", "experiment cancel"},
    {"sinfo", "agent list"},
    {"sacct", "experiment list"},
    {"nodes", "agent list"},
    {"node", "agent list"},
    {"gpus", "slot list"},
    {"ps", "experiment list"},
    {"top", "queue list"},
    {"usage", "resources aggregated"},
    {"tensorboard", "experiment metrics"},
};

static const char *synonym_of_command(const char *word)
{
    for (size_t i = 0; i < sizeof command_synonyms / sizeof *command_synonyms; i++)
        if (strcmp(command_synonyms[i][0], word) == 0)
            return command_synonyms[i][1];
    return NULL;
}

static const struct command *find_command(const char *noun, const char *verb)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].noun, noun) == 0 && commands[i].verb &&
            strcmp(commands[i].verb, verb) == 0)
            return &commands[i];
    return NULL;
}

static const char *verb_for(const char *noun, const char *word)
{
    for (size_t i = 0; i < sizeof verb_synonyms / sizeof *verb_synonyms; i++)
        if (strcmp(verb_synonyms[i][0], word) == 0 && find_command(noun, verb_synonyms[i][1]))
            return verb_synonyms[i][1];
    return NULL;
}

// The noun that a word means: itself, an alias, or its plural.
static const char *noun_of(const char *word, char *room, size_t size)
{
    size_t len = word ? strlen(word) : 0;
    for (int plural = 0; plural < 2 && len; plural++) {
        snprintf(room, size, "%.*s", (int)(len - (size_t)plural), word);
        const char *noun = command_noun(room);
        for (size_t i = 0; i < command_count && (!plural || word[len - 1] == 's'); i++)
            if (strcmp(commands[i].noun, noun) == 0)
                return commands[i].noun;
    }
    return NULL;
}

static int report_verb(const char *noun, const char *verb, struct error *e)
{
    const char *verbs[NAMES_MAX] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].noun, noun) == 0)
            verbs[count++] = commands[i].verb;
    if (!verb)
        return error_set(e, ERR_INVALID,
                         "\"%s\" needs a command after it; muster %s --help lists them", noun,
                         noun);
    const char *near = verb_for(noun, verb);
    near = near ? near : nearest_word(verb, verbs);
    if (near)
        return error_set(e, ERR_INVALID, "unknown command \"%s %s\"; did you mean \"%s %s\"?", noun,
                         verb, noun, near);
    return error_set(e, ERR_INVALID,
                     "unknown command \"%s %s\"; muster %s --help lists the commands of %s", noun,
                     verb, noun, noun);
}

// The word is a verb without a noun: "logs 7", "list experiments".
static bool suggest_nouns(const char *word, const char *next, struct error *e)
{
    char room[NAMES_MAX], list[LINE_MAX_BYTES] = "";
    const char *noun = noun_of(next, room, sizeof room), *meant = command_verb(word);
    const char *own = noun ? (find_command(noun, meant) ? meant : verb_for(noun, word)) : NULL;
    size_t at = 0;
    int count = 0;
    if (own) {
        error_set(e, ERR_INVALID, "unknown command \"%s %s\"; did you mean \"%s %s\"?", word, next,
                  noun, own);
        return true;
    }
    for (size_t i = 0; i < command_count && count < SHOWN; i++) {
        const struct command *k = &commands[i];
        const char *verb = find_command(k->noun, meant) ? meant
                           : count                      ? NULL // of other tools: the first one
                                                        : verb_for(k->noun, word);
        if (!k->verb || !verb || strcmp(k->verb, verb) != 0)
            continue;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s\"%s %s\"", count++ ? " or " : "",
                               k->noun, k->verb);
    }
    if (count)
        error_set(e, ERR_INVALID, "unknown command \"%s\"; did you mean %s?", word, list);
    return count > 0;
}

int suggest_command(const char *noun, const char *verb, struct error *e)
{
    const char *nouns[NAMES_MAX] = {NULL};
    char room[NAMES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(commands[i].noun, noun) == 0)
            return report_verb(noun, verb, e);
        if (!count || strcmp(nouns[count - 1], commands[i].noun) != 0)
            nouns[count++] = commands[i].noun;
    }
    const char *near = synonym_of_command(noun);
    near = near ? near : noun_of(noun, room, sizeof room);
    if (!near && suggest_nouns(noun, verb, e))
        return e->code;
    near = near ? near : nearest_word(noun, nouns);
    return error_set(e, ERR_INVALID, "unknown command \"%s\"%s%s%s", noun,
                     near ? "; did you mean \"" : "; see muster --help", near ? near : "",
                     near ? "\"?" : "");
}
