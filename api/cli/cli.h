// The `muster` command: what its parts share. One thread.
//
// A run is one struct cli: options from the command line, the session (master, token, client), and
// the way results are shown. Commands are rows of the table in commands.c; each has a function that
// does the calls and hands rows to output.h. Memory lives in the arena until the process ends.
#ifndef MUSTER_CLI_CLI_H
#define MUSTER_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>

#include "api/client.h"
#include "api/wire.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/flags.h"

enum output_format { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_JSONL, OUTPUT_CSV };

// Every flag of every command; a command names those it takes (commands.c).
struct cli_options {
    const char *master, *token, *format, *columns, *ca_file;
    bool quiet, help;

    const char *password_file;
    bool password_stdin, admin;
    struct flag_list config;
    const char *filter, *sort; // of lists: api/filter.h
    const char *name, *id_file, *to, *state, *user, *group, *metric, *level, *search, *agent;
    bool paused, follow, watch, validate_only, wait, yes, all, latest, best, drain;
    const char *topics;
    long long since;
    const char *template, *description, *display_name, *expires, *team, *notes, *comment;
    const char *from, *until, *allocation, *container, *source, *stdtype, *log_retention;
    const char *method, *path, *period, *lasts, *log_level, *body;
    struct flag_list label, metadata, on;
    bool no_admin, slack, specific, regex;
    long long status;
    const char *unread; // by flagset_probe()
    long long project_id, timeout, limit, tail, rank, experiment, trial;
    const char *trace, *policy, *teams, *window, *plot, *from_store; // simulate
    const char *data_dir;                                            // of backups
    bool force, dry_run, checkpoints;
    const char *file_patterns;
    long long save_experiment_best, save_trial_best, save_trial_latest; // -1: not given
    long long nodes, slots_per_node, racks, add_nodes, preempt_cost, drain_time;
    bool timing;
    const char *pool, *weight, *role, *default_role, *project;
    long long ahead_of, behind, priority;
    long long max_slots, guaranteed; // 0 is a value of both, -1 not given
    long long slots;                 // .. and of this
    struct flag_list env;
    const char *folder, *work_dir, *parent, *fork;
    bool detach, no_pause, tree;
};

struct cli {
    struct arena arena;
    struct cli_options options;
    enum output_format format;
    const char *master; // URL
    const char *token;  // NULL when not signed in
    struct client *client;
    int64_t began_us;  // monotonic
    int timeout_s;     // of a call; 0: as the client has it
    json_t *names;     // of teams and users, by path: lookup.h
    const char **args; // positional words after noun and verb
    int arg_count;
    int exit_code; // of a program that was run, when nothing else went wrong
};

struct command;
typedef int cli_verb(struct cli *c, const struct command *self, struct error *e);

struct command {
    const char *noun, *verb; // verb NULL: a command of one word
    const char *args;        // "ID", "FILE [FOLDER]", "" - capitals are required, [..] optional
    const char *flags;       // names of its flags, blank-separated
    const char *columns;     // default columns of its table; NULL: prints something else
    const char *help;        // one sentence
    const char *example;     // NULL: none
    cli_verb *run;
    bool offline; // needs neither master nor token
};

extern const struct command commands[]; // ends with noun == NULL
extern const size_t command_count;
// The command `noun verb`, or the one-word command `noun`; NULL: *e says what is near.
const struct command *command_find(const char *noun, const char *verb, struct error *e);
// The word of the table for another one, such as "e" or "edit"; NULL stays NULL.
const char *command_noun(const char *noun);
const char *command_verb(const char *verb);

// session.c: where the master is and who we are
int session_open(struct cli *c, bool need_token, struct error *e);
int session_save(struct cli *c, const char *token, struct error *e);
int session_forget(struct cli *c, struct error *e);
// client_call with the path formatted; unauthenticated answers say how to sign in.
int cli_call(struct cli *c, const char *method, const json_t *body, json_t **answer,
             struct error *e, const char *path, ...) __attribute__((format(printf, 6, 7)));
// After a call of what is watched or followed: true when the master was away, which is told once
// and waited for a moment, so that the caller tries again. *away is where that is kept.
bool cli_await_master(int err, bool *away);
void cli_note_away(bool gone, bool *away); // the telling alone

// All pages of a list: the array under `key`, owned by the caller.
int cli_list(struct cli *c, const char *key, long long limit, json_t **rows, struct error *e,
             const char *path, ...) __attribute__((format(printf, 6, 7)));

// "&NAME=VALUE", escaped; "" when the value is NULL. The memory is the arena's.
const char *cli_query(struct cli *c, const char *name, const char *value);

// Positional word `i` as an id; ERR_INVALID says what it was to be ("experiment").
int cli_id(struct cli *c, int i, const char *what, long long *id, struct error *e);

// Asks a question before something is deleted; 0: yes, or --yes was given.
int cli_confirm(struct cli *c, struct error *e, const char *question, ...)
    __attribute__((format(printf, 3, 4)));

// Says what was done: a line for a person unless --quiet, `row` (consumed) in the other formats.
int cli_report(struct cli *c, json_t *row, struct error *e, const char *line, ...)
    __attribute__((format(printf, 4, 5)));

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

// A flag's value as a number of at least 0; ERR_INVALID names the flag ("--weight").
int cli_number(const char *flag, const char *text, double *out, struct error *e);

// follow.c: watches an experiment to its end; 0 completed, ERR_FAILED otherwise
int cli_follow(struct cli *c, long long experiment, struct error *e);

#endif
