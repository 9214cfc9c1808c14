#include "base/flags.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { FLAGS_MAX = 192, SHOWN_MAX = 128 };

// `where` names the source of the value in messages: "--slots" or "MUSTER_SLOTS".
static int set_int(const struct flag *flag, const char *where, const char *value, struct error *e)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || (*value != '-' && (*value < '0' || *value > '9')))
        return error_set(e, ERR_INVALID, "%s: expected a whole number, found \"%s\"", where, value);
    bool bounded = flag->min != 0 || flag->max != 0;
    if (bounded && (errno == ERANGE || number < flag->min || number > flag->max))
        return error_set(e, ERR_INVALID, "%s: expected a number from %lld to %lld, found %s", where,
                         flag->min, flag->max, value);
    if (errno == ERANGE)
        return error_set(e, ERR_INVALID, "%s: the number %s is too large", where, value);
    *(long long *)flag->target = number;
    return 0;
}

static bool is_one_of(const char *value, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(value, *words) == 0)
            return true;
    return false;
}

static const char *const on_words[] = {"true", "1", "yes", NULL};
static const char *const off_words[] = {"false", "0", "no", NULL};

static int set_bool(const struct flag *flag, const char *where, const char *value, struct error *e)
{
    bool on = is_one_of(value, on_words);
    if (!on && !is_one_of(value, off_words))
        return error_set(e, ERR_INVALID, "%s: expected true or false, found \"%s\"", where, value);
    *(bool *)flag->target = on;
    return 0;
}

static int set_value(const struct flag *flag, const char *where, const char *value, struct error *e)
{
    struct flag_list *list = flag->target;
    switch (flag->kind) {
    case FLAG_BOOL:
        return set_bool(flag, where, value, e);
    case FLAG_INT:
        return set_int(flag, where, value, e);
    case FLAG_STRING:
        *(const char **)flag->target = value;
        return 0;
    case FLAG_LIST:
        if (list->count == FLAG_LIST_MAX)
            return error_set(e, ERR_INVALID, "%s: at most %d values are allowed", where,
                             FLAG_LIST_MAX);
        list->items[list->count++] = value;
        return 0;
    }
    return ERR_INTERNAL;
}

static const struct flag *find_by_name(const struct flag *flags, const char *name, size_t len)
{
    for (; flags->name; flags++)
        if (strlen(flags->name) == len && memcmp(flags->name, name, len) == 0)
            return flags;
    return NULL;
}

static const struct flag *find_by_letter(const struct flag *flags, char letter)
{
    for (; flags->name; flags++)
        if (flags->letter == letter)
            return flags;
    return NULL;
}

static int unknown_flag(const struct flag *flags, const char *name, struct error *e)
{
    const char *names[FLAGS_MAX + 1] = {NULL};
    for (int i = 0; flags[i].name; i++)
        names[i] = flags[i].name;
    const char *near = nearest_word(name, names);
    if (near)
        return error_set(e, ERR_INVALID, "unknown flag --%s; did you mean --%s?", name, near);
    return error_set(e, ERR_INVALID, "unknown flag --%s; --help lists the flags", name);
}

struct flag_parser {
    const struct flag *flags;
    int argc, next; // argv[next] is the next argument
    char **argv;
    bool seen[FLAGS_MAX]; // indexed as `flags`
};

// Sets `flag` from the value in the same argument (`attached`) or from the next argument.
static int parse_value(struct flag_parser *p, const struct flag *flag, const char *where,
                       const char *attached, struct error *e)
{
    p->seen[flag - p->flags] = true;
    if (attached)
        return set_value(flag, where, attached, e);
    if (flag->kind == FLAG_BOOL)
        return set_value(flag, where, "true", e);
    if (p->next == p->argc)
        return error_set(e, ERR_INVALID, "%s: the value is missing; write %s %s", where, where,
                         flag->value_name ? flag->value_name : "VALUE");
    return set_value(flag, where, p->argv[p->next++], e);
}

// "--slots=4" or "--slots 4"; `word` is the text after the dashes.
static int parse_long(struct flag_parser *p, const char *word, struct error *e)
{
    size_t len = strcspn(word, "=");
    const struct flag *flag = find_by_name(p->flags, word, len);
    char shown[SHOWN_MAX];
    snprintf(shown, sizeof shown, "--%.*s", (int)len, word);
    if (!flag)
        return unknown_flag(p->flags, shown + 2, e);
    return parse_value(p, flag, shown, word[len] == '=' ? word + len + 1 : NULL, e);
}

// "-v", "-vq" (several flags without values), "-n 4" or "-n4"; `word` is the text after the dash.
static int parse_letters(struct flag_parser *p, const char *word, struct error *e)
{
    for (; *word; word++) {
        const struct flag *flag = find_by_letter(p->flags, *word);
        if (!flag)
            return error_set(e, ERR_INVALID, "unknown flag -%c; --help lists the flags", *word);
        char shown[] = {'-', *word, '\0'};
        const char *attached = flag->kind != FLAG_BOOL && word[1] ? word + 1 : NULL;
        int err = parse_value(p, flag, shown, attached, e);
        if (err || flag->kind != FLAG_BOOL)
            return err;
    }
    return 0;
}

static int read_environment(const struct flag_parser *p, struct error *e)
{
    for (int i = 0; p->flags[i].name; i++) {
        const struct flag *flag = &p->flags[i];
        const char *value = flag->env ? getenv(flag->env) : NULL;
        if (!value || !*value || p->seen[i])
            continue;
        // Any value turns on a variable such as NO_COLOR.
        if (flag->kind == FLAG_BOOL && !is_one_of(value, off_words))
            value = "true";
        int err = set_value(flag, flag->env, value, e);
        if (err)
            return error_prefix(e, "in the environment");
    }
    return 0;
}

int flags_parse(const struct flag *flags, int argc, char **argv, const char **rest, int *rest_count,
                struct error *e)
{
    int count = 0;
    while (flags[count].name)
        count++;
    must(count <= FLAGS_MAX);
    struct flag_parser p = {.flags = flags, .argc = argc, .argv = argv, .next = 1};
    bool ended = false;
    *rest_count = 0;
    while (p.next < argc) {
        const char *word = argv[p.next++];
        int err = 0;
        if (!ended && strcmp(word, "--") == 0)
            ended = true;
        else if (!ended && strncmp(word, "--", 2) == 0)
            err = parse_long(&p, word + 2, e);
        else if (!ended && word[0] == '-' && word[1])
            err = parse_letters(&p, word + 1, e);
        else
            rest[(*rest_count)++] = word;
        if (err)
            return err;
    }
    return read_environment(&p, e);
}

// Writes "-s, --slots N" to out; returns its width.
static int format_flag(const struct flag *flag, char *out, size_t cap)
{
    char letter[8] = "    ";
    if (flag->letter)
        snprintf(letter, sizeof letter, "-%c, ", flag->letter);
    return snprintf(out, cap, "%s--%s%s%s", letter, flag->name, flag->value_name ? " " : "",
                    flag->value_name ? flag->value_name : "");
}

void flags_help(const struct flag *flags, FILE *out)
{
    char shown[SHOWN_MAX];
    int width = 0;
    for (const struct flag *flag = flags; flag->name; flag++) {
        int wanted = format_flag(flag, shown, sizeof shown);
        width = wanted > width ? wanted : width;
    }
    for (const struct flag *flag = flags; flag->name; flag++) {
        if (!flag->help)
            continue;
        format_flag(flag, shown, sizeof shown);
        fprintf(out, "  %-*s  %s", width, shown, flag->help);
        if (flag->env)
            fprintf(out, " [$%s]", flag->env);
        fputc('\n', out);
    }
}
