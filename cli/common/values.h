// Words of the command line as values, and values as the API takes them. ERR_INVALID says what was
// to stand there. What is returned as JSON is the caller's, texts are the arena's.
#ifndef MUSTER_CLI_VALUES_H
#define MUSTER_CLI_VALUES_H

#include "api/wire.h"
#include "cli/cli.h"

// Positional word `i` as an id; ERR_INVALID says what it was to be ("experiment").
int cli_id(struct cli *c, int i, const char *what, long long *id, struct error *e);

// A flag's value as a word of a table of the wire, in any case ("running"); ERR_INVALID lists those
// that it takes, and `more` (NULL: none) before them.
int cli_word(const char *flag, const char *text, enum wire_names table, const char *more,
             const char **word, struct error *e);

// A flag's value as a moment, "2026-11-21", RFC 3339 or "90m" for so long ago, as RFC 3339 in the
// arena; NULL stays NULL. ERR_INVALID names the flag.
int cli_time(struct cli *c, const char *flag, const char *text, const char **time, struct error *e);

// .. as a length of time ("90m", "30d"), in seconds as the wire takes it ("5400s").
int cli_length(struct cli *c, const char *flag, const char *text, const char **length,
               struct error *e);
// What a flag collected, as a list; as an object of KEY=VALUE, whose values are JSON or text.
json_t *cli_words(const struct flag_list *list);
int cli_pairs(const char *flag, const struct flag_list *list, json_t **object, struct error *e);

// Sets a text, if it was given; --weight, --priority and --max-slots as an object of the API.
void cli_put(json_t *object, const char *key, const char *text);
int cli_resources(const struct cli_options *o, json_t **resources, struct error *e);
// The first word, of "add|remove THING LABEL...", is taken off; ERR_INVALID when it is neither.
int cli_add_or_remove(struct cli *c, const struct command *self, bool *adds, struct error *e);

// A flag's value as a number of at least 0; ERR_INVALID names the flag ("--weight").
int cli_number(const char *flag, const char *text, double *out, struct error *e);

#endif
