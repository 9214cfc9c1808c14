// Types and functions that all parts of the `muster` command share. One thread.
//
// A run is one struct cli: options from the command line, the session (master, token, client), and
// the output format. Commands are rows of the table in command_table.c; the function of a command
// makes its calls and passes rows to output.h. Memory lives in the arena until the process ends.
#ifndef MUSTER_CLI_CLI_H
#define MUSTER_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>

#include "api/http/client.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/flags.h"

enum output_format { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_JSONL, OUTPUT_CSV };

// Every flag of every command. The table of commands names the flags of each command.
struct cli_options {
    const char *master, *token, *format, *columns, *ca_file;
    bool quiet, help;

    const char *password_file;
    bool password_stdin, admin;
    struct flag_list config;
    const char *filter, *sort; // of lists, see api/filter/filter.h
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
    const char *unread; // target of flagset_probe()
    long long project_id, timeout, limit, tail, rank, experiment, trial;
    const char *url, *ttl, *fingerprint;
    long long uses;
    const char *trace, *policy, *teams, *window, *plot, *from_store; // simulate
    const char *data_dir;                                            // of backups
    bool force, dry_run, checkpoints;
    const char *file_patterns;
    long long save_experiment_best, save_trial_best, save_trial_latest; // -1: not given
    long long nodes, slots_per_node, racks, add_nodes, preempt_cost, drain_time;
    bool timing;
    const char *pool, *weight, *role, *default_role, *project;
    long long ahead_of, behind, priority;
    long long max_slots, guaranteed; // -1: not given
    long long slots, min_slots;      // -1: not given
    struct flag_list env;
    const char *step_time, *media_type, *media_step;
    const char *folder, *work_dir, *parent, *fork;
    bool detach, no_pause, tree;
    long long step;            // of training; -1: not given
    const char *progress;      // 0 to 1
    bool accept_new, purge;    // of clusters
    struct flag_list to_files; // of an upgrade
    long long parallel;
};

struct cli {
    struct arena arena;
    struct cli_options options;
    enum output_format format;
    const char *master; // URL
    const char *token;  // NULL when not signed in
    bool pinned;        // options.ca_file is the authority stored for this master (trust.h)
    struct client *client;
    int64_t began_us;  // monotonic
    int timeout_s;     // of a call; 0: the client's default
    json_t *names;     // cache of the names of teams and users, by path (lookup.h)
    const char **args; // positional arguments after noun and verb
    int arg_count;
    int exit_code; // of a program that was run, if the command itself succeeded
};

struct command;
typedef int cli_verb(struct cli *c, const struct command *self, struct error *e);

struct command {
    const char *noun, *verb; // verb NULL: a command of one word
    const char *args;        // "ID", "FILE [FOLDER]", ""; [..] is optional
    const char *flags;       // names of its flags, separated by blanks (flagset.h)
    const char *columns;     // default columns of its table; NULL: it prints no table
    const char *help;        // one sentence
    const char *example;     // NULL: no example
    cli_verb *run;
    bool offline; // needs neither master nor token
};

extern const struct command commands[]; // ends with noun == NULL
extern const size_t command_count;
// Returns the command `noun verb`, or the one-word command `noun`; NULL: *e suggests a similar one.
const struct command *command_find(const char *noun, const char *verb, struct error *e);
// Returns the table's word for an alias such as "e" or "edit"; NULL for NULL.
const char *command_noun(const char *noun);
const char *command_verb(const char *verb);

// session.c: the address of the master and the saved token
int session_open(struct cli *c, bool need_token, struct error *e);
int session_save(struct cli *c, const char *token, struct error *e);
int session_forget(struct cli *c, struct error *e);
char *session_folder(void); // of the user's settings; heap
// client_call() with a formatted path; if the token is refused, the error says how to sign in.
int cli_call(struct cli *c, const char *method, const json_t *body, json_t **answer,
             struct error *e, const char *path, ...) __attribute__((format(printf, 6, 7)));
// For loops that watch or follow: returns true if `err` means that the master does not answer,
// reports that once, and sleeps for a moment; the caller then tries again. *away keeps the state.
bool cli_await_master(int err, bool *away);
void cli_note_away(bool gone, bool *away); // only reports it, once

// Fetches all pages of a list: the array under `key`, owned by the caller. The values of ?show=..
// are added to each row under CLI_LIST_VALUES.
#define CLI_LIST_VALUES "+values"
int cli_list(struct cli *c, const char *key, long long limit, json_t **rows, struct error *e,
             const char *path, ...) __attribute__((format(printf, 6, 7)));

// Returns "&NAME=VALUE", escaped, in the arena; "" if the value is NULL.
const char *cli_query(struct cli *c, const char *name, const char *value);

// Asks for confirmation before a deletion; 0: the answer was yes, or --yes was given.
int cli_confirm(struct cli *c, struct error *e, const char *question, ...)
    __attribute__((format(printf, 3, 4)));

// Reports the result: a line in the table format unless --quiet, `row` (consumed) in the others.
int cli_report(struct cli *c, json_t *row, struct error *e, const char *line, ...)
    __attribute__((format(printf, 4, 5)));

// experiment_follow.c: follows an experiment to its end; 0: completed, else ERR_FAILED
int cli_follow(struct cli *c, long long experiment, struct error *e);

#endif
