#include "base/flags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { FLAGS_MAX = 128 };

static const struct flag *find_long(const struct flag *flags, const char *name, size_t len)
{
    for (const struct flag *f = flags; f->name != NULL; f++) {
        if (strlen(f->name) == len && memcmp(f->name, name, len) == 0) {
            return f;
        }
    }
    return NULL;
}

static const struct flag *find_letter(const struct flag *flags, char letter)
{
    for (const struct flag *f = flags; f->name != NULL; f++) {
        if (f->letter == letter) {
            return f;
        }
    }
    return NULL;
}

static int unknown_flag(const struct flag *flags, const char *word, struct error *e)
{
    const char *names[FLAGS_MAX + 1] = {NULL};
    for (int i = 0; i < FLAGS_MAX && flags[i].name != NULL; i++) {
        names[i] = flags[i].name;
    }
    char *bare = strndup(word + strspn(word, "-"), strcspn(word + strspn(word, "-"), "="));
    const char *near = nearest_word(bare, names);
    free(bare);
    if (near != NULL) {
        return error_set(e, ERR_INVALID, "unknown flag %s; did you mean --%s?", word, near);
    }
    return error_set(e, ERR_INVALID, "unknown flag %s; --help lists the flags", word);
}

static int store_int(const struct flag *f, const char *source, const char *value, struct error *e)
{
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (*value == '\0' || *end != '\0' || errno != 0) {
        return error_set(e, ERR_INVALID, "%s wants a whole number, not \"%s\"", source, value);
    }
    if ((f->min != 0 || f->max != 0) && (n < f->min || n > f->max)) {
        return error_set(e, ERR_INVALID, "%s is %lld; it must lie between %lld and %lld", source, n,
                         f->min, f->max);
    }
    *(long long *)f->target = n;
    return 0;
}

static int store_bool(const struct flag *f, const char *source, const char *value, struct error *e)
{
    bool yes = value == NULL || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!yes && strcmp(value, "false") != 0 && strcmp(value, "0") != 0) {
        return error_set(e, ERR_INVALID, "%s is true or false, not \"%s\"", source, value);
    }
    *(bool *)f->target = yes;
    return 0;
}

static int store_item(const struct flag *f, const char *source, const char *value, struct error *e)
{
    struct flag_list *list = f->target;
    if (list->count == FLAG_LIST_MAX) {
        return error_set(e, ERR_TOO_LARGE, "%s may be given at most %d times", source,
                         FLAG_LIST_MAX);
    }
    list->items[list->count++] = value;
    return 0;
}

static int store(const struct flag *f, const char *source, const char *value, struct error *e)
{
    switch (f->kind) {
    case FLAG_BOOL:
        return store_bool(f, source, value, e);
    case FLAG_INT:
        return store_int(f, source, value, e);
    case FLAG_LIST:
        return store_item(f, source, value, e);
    case FLAG_STRING:
        *(const char **)f->target = value;
        return 0;
    }
    return error_set(e, ERR_INTERNAL, "%s: a flag of no kind", source);
}

static int apply_environment(const struct flag *flags, struct error *e)
{
    for (const struct flag *f = flags; f->name != NULL; f++) {
        const char *value = f->env != NULL ? getenv(f->env) : NULL;
        if (value != NULL && *value != '\0') {
            int err = store(f, f->env, value, e);
            if (err != 0) {
                return err;
            }
        }
    }
    return 0;
}

// One word that starts with a dash; *i moves on when it takes the next word as its value.
static int parse_flag(const struct flag *flags, int argc, char **argv, int *i, struct error *e)
{
    const char *word = argv[*i], *value = NULL;
    const struct flag *f;
    if (word[1] == '-') {
        size_t len = strcspn(word + 2, "=");
        f = find_long(flags, word + 2, len);
        value = word[2 + len] == '=' ? word + 3 + len : NULL;
    } else {
        f = find_letter(flags, word[1]);
        value = word[2] != '\0' ? word + 2 : NULL;
        if (f != NULL && f->kind == FLAG_BOOL && value != NULL) {
            f = NULL; // letters are not joined
        }
    }
    if (f == NULL) {
        return unknown_flag(flags, word, e);
    }
    char source[64];
    snprintf(source, sizeof(source), "--%s", f->name);
    if (value == NULL && f->kind != FLAG_BOOL) {
        if (*i + 1 == argc) {
            return error_set(e, ERR_INVALID, "%s wants a value: %s %s", source, source,
                             f->value_name != NULL ? f->value_name : "VALUE");
        }
        value = argv[++*i];
    }
    return store(f, source, value, e);
}

int flags_parse(const struct flag *flags, int argc, char **argv, const char **rest, int *rest_count,
                struct error *e)
{
    *rest_count = 0;
    int err = apply_environment(flags, e);
    for (int i = 1; i < argc && err == 0; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (++i < argc) {
                rest[(*rest_count)++] = argv[i];
            }
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            err = parse_flag(flags, argc, argv, &i, e);
        } else {
            rest[(*rest_count)++] = argv[i];
        }
    }
    return err;
}

static int flag_heading(const struct flag *f, char *out, size_t cap)
{
    char letter[8] = "    ";
    if (f->letter != 0) {
        snprintf(letter, sizeof(letter), "-%c, ", f->letter);
    }
    return snprintf(out, cap, "  %s--%s%s%s", letter, f->name, f->value_name != NULL ? " " : "",
                    f->value_name != NULL ? f->value_name : "");
}

void flags_help(const struct flag *flags, FILE *out)
{
    char heading[128];
    int width = 0;
    for (const struct flag *f = flags; f->name != NULL; f++) {
        int n = flag_heading(f, heading, sizeof(heading));
        width = n > width ? n : width;
    }
    for (const struct flag *f = flags; f->name != NULL; f++) {
        if (f->help == NULL) {
            continue; // hidden
        }
        flag_heading(f, heading, sizeof(heading));
        fprintf(out, "%-*s  %s", width, heading, f->help);
        if (f->env != NULL) {
            fprintf(out, " [environment: %s]", f->env);
        }
        fputc('\n', out);
    }
}
