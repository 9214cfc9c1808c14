// Parses words of the command line and builds values for the API. ERR_INVALID says what was
// expected. The caller owns returned JSON; texts are in the arena.
#ifndef MUSTER_CLI_VALUES_H
#define MUSTER_CLI_VALUES_H

#include "api/wire.h"
#include "cli/cli.h"

// Parses positional argument `i` as an id of a `what` ("experiment").
int cli_id(struct cli *c, int i, const char *what, long long *id, struct error *e);

// Parses a flag's value as a word of a table of wire.h, in any case ("running"). ERR_INVALID lists
// the valid words, after `more` (may be NULL).
int cli_word(const char *flag, const char *text, enum wire_names table, const char *more,
             const char **word, struct error *e);

// Parses a flag's value as a time ("2026-11-21", RFC 3339, or an age such as "90m") into RFC 3339.
// NULL gives NULL.
int cli_time(struct cli *c, const char *flag, const char *text, const char **time, struct error *e);

// Parses a flag's value as a duration ("90m", "30d") into seconds as the API takes them ("5400s").
int cli_length(struct cli *c, const char *flag, const char *text, const char **length,
               struct error *e);
// Returns the values of a repeated flag as a list, or as an object of KEY=VALUE whose values are
// JSON or text.
json_t *cli_words(const struct flag_list *list);
int cli_pairs(const char *flag, const struct flag_list *list, json_t **object, struct error *e);

// Sets a text unless it is NULL; returns --weight, --priority and --max-slots as an API object.
void cli_put(json_t *object, const char *key, const char *text);
int cli_resources(const struct cli_options *o, json_t **resources, struct error *e);
// Removes the first argument of "add|remove THING LABEL..."; ERR_INVALID if it is neither.
int cli_add_or_remove(struct cli *c, const struct command *self, bool *adds, struct error *e);

// Parses a flag's value as a number of at least 0.
int cli_number(const char *flag, const char *text, double *out, struct error *e);

#endif
