// The `muster` command: what its parts share. One thread.
//
// A run is one struct cli: options from the command line, the session (master, token, client), and
// the way results are shown. Commands are rows of the table in commands.c; each has a function that
// does the calls and hands rows to output.h. Memory lives in the arena until the process ends.
#ifndef MUSTER_CLI_CLI_H
#define MUSTER_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>

#include "api/http/client.h"
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
    const char *filter, *sort; // of lists: api/filter/filter.h
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

// All pages of a list: the array under `key`, owned by the caller. What the master shows beside a
// row
// (?show=..) is put into it, under CLI_LIST_VALUES.
#define CLI_LIST_VALUES "+values"
int cli_list(struct cli *c, const char *key, long long limit, json_t **rows, struct error *e,
             const char *path, ...) __attribute__((format(printf, 6, 7)));

// "&NAME=VALUE", escaped; "" when the value is NULL. The memory is the arena's.
const char *cli_query(struct cli *c, const char *name, const char *value);

// Asks a question before something is deleted; 0: yes, or --yes was given.
int cli_confirm(struct cli *c, struct error *e, const char *question, ...)
    __attribute__((format(printf, 3, 4)));

// Says what was done: a line for a person unless --quiet, `row` (consumed) in the other formats.
int cli_report(struct cli *c, json_t *row, struct error *e, const char *line, ...)
    __attribute__((format(printf, 4, 5)));

// follow.c: watches an experiment to its end; 0 completed, ERR_FAILED otherwise
int cli_follow(struct cli *c, long long experiment, struct error *e);

#endif
