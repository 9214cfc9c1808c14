#include "cli/common/values.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"

int cli_id(struct cli *c, int i, const char *what, long long *id, struct error *e)
{
    char *end;
    errno = 0;
    *id = strtoll(c->args[i], &end, 10);
    if (errno == ERANGE && *end == '\0') {
        return error_set(e, ERR_INVALID, "%s is not a valid %s id; ids are between 1 and %lld",
                         c->args[i], what, LLONG_MAX);
    }
    if (*c->args[i] == '\0' || *end != '\0' || *id <= 0) {
        return error_set(e, ERR_INVALID,
                         "\"%s\" is not a valid %s id; ids are numbers, see: muster %s list",
                         c->args[i], what, what);
    }
    return 0;
}

int cli_word(const char *flag, const char *text, enum wire_names table, const char *more,
             const char **word, struct error *e)
{
    struct buf all;
    const char *const *words = wire_words(table);
    buf_init(&all, ERROR_TEXT_MAX);
    buf_puts(&all, more ? more : "");
    *word = NULL;
    for (; *words && !*word; words++) {
        if (strcasecmp(*words, text) == 0 || strcasecmp(wire_name(table, *words), text) == 0)
            *word = *words;
        buf_puts(&all, all.len > 0 ? ", " : "");
        for (const char *p = *words; *p != '\0'; p++)
            buf_printf(&all, "%c", tolower((unsigned char)*p));
    }
    int err = *word ? 0
                    : error_set(e, ERR_INVALID, "%s takes one of %s, not \"%s\"", flag,
                                buf_str(&all), text);
    buf_free(&all);
    return err;
}

int cli_number(const char *flag, const char *text, double *out, struct error *e)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*out) || *out < 0)
        return error_set(e, ERR_INVALID, "%s takes a number of at least 0, not \"%s\"", flag, text);
    return 0;
}

// Accepts days ("2d") in addition to Go's units.
static int parse_length(const char *text, int64_t *us)
{
    char *end;
    double days = strtod(text, &end);
    if (end != text && strcmp(end, "d") == 0 && days > 0 && days < 36500) {
        *us = (int64_t)(days * 86400e6);
        return 0;
    }
    return duration_parse(text, us) == 0 && *us > 0 ? 0 : ERR_INVALID;
}

int cli_length(struct cli *c, const char *flag, const char *text, const char **length,
               struct error *e)
{
    int64_t us = 0;
    *length = NULL;
    if (!text)
        return 0;
    if (parse_length(text, &us) != 0) {
        return error_set(e, ERR_INVALID, "%s takes a duration such as 90m, 12h or 30d, not \"%s\"",
                         flag, text);
    }
    *length = arena_printf(&c->arena, "%llds", (long long)(us / 1000000));
    return 0;
}

int cli_time(struct cli *c, const char *flag, const char *text, const char **time, struct error *e)
{
    char out[CLOCK_RFC3339_MAX];
    int64_t us = 0;
    *time = NULL;
    if (!text)
        return 0;
    char *day = arena_printf(&c->arena, "%sT00:00:00Z", text);
    if (parse_length(text, &us) == 0) {
        us = clock_wall_us() - us;
    } else if (clock_parse(text, &us) != 0 && clock_parse(day, &us) != 0) {
        return error_set(e, ERR_INVALID,
                         "%s takes a time such as 2026-11-21 or 2026-11-21T09:00:00Z, or an age "
                         "such as 90m or 2d, not \"%s\"",
                         flag, text);
    }
    *time = arena_strdup(&c->arena, clock_format(us, out));
    return 0;
}

void cli_put(json_t *object, const char *key, const char *text)
{
    if (text)
        json_object_set_new(object, key, json_string(text));
}

int cli_resources(const struct cli_options *o, json_t **resources, struct error *e)
{
    double weight = 0;
    int err = o->weight ? cli_number("--weight", o->weight, &weight, e) : 0;
    *resources = json_object();
    if (o->weight)
        json_object_set_new(*resources, "weight", json_real(weight));
    if (o->priority > 0)
        json_object_set_new(*resources, "priority", json_integer(o->priority));
    if (o->max_slots >= 0)
        json_object_set_new(*resources, "maxSlots", json_integer(o->max_slots));
    return err;
}

int cli_add_or_remove(struct cli *c, const struct command *self, bool *adds, struct error *e)
{
    *adds = strcmp(c->args[0], "add") == 0;
    if (!*adds && strcmp(c->args[0], "remove") != 0) {
        return error_set(e, ERR_INVALID, "give add or remove first: muster %s %s %s", self->noun,
                         self->verb, self->args);
    }
    c->args++;
    c->arg_count--;
    return 0;
}

json_t *cli_words(const struct flag_list *list)
{
    json_t *words = json_array();
    for (int i = 0; i < list->count; i++)
        json_array_append_new(words, json_string(list->items[i]));
    return words;
}

int cli_pairs(const char *flag, const struct flag_list *list, json_t **object, struct error *e)
{
    *object = json_object();
    for (int i = 0; i < list->count; i++) {
        const char *text = list->items[i], *equals = strchr(text, '=');
        if (!equals || equals == text) {
            json_decref(*object);
            *object = NULL;
            return error_set(e, ERR_INVALID, "%s takes KEY=VALUE, not \"%s\"", flag, text);
        }
        json_t *value = json_loads(equals + 1, JSON_DECODE_ANY,
                                   NULL); // a JSON value such as 7 or true, else a string
        json_object_setn_new(*object, text, (size_t)(equals - text),
                             value ? value : json_string(equals + 1));
    }
    return 0;
}
