#include "cli/common/flagset.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum { GLOBAL = 1 };

struct row {
    int global;
    struct flag flag; // target: offset in struct cli_options
    const char *of;   // NULL: what the name means without more
};

#define AT(member) ((void *)offsetof(struct cli_options, member))
#define TEXT(name, letter, member, value, help)                                                    \
    {                                                                                              \
        0, {name, letter, FLAG_STRING, AT(member), value, help, 0, 0, NULL}, NULL                  \
    }
#define LIST(name, letter, member, value, help)                                                    \
    {                                                                                              \
        0, {name, letter, FLAG_LIST, AT(member), value, help, 0, 0, NULL}, NULL                    \
    }
#define OF(of, name, letter, kind, member, value, help)                                            \
    {                                                                                              \
        0, {name, letter, kind, AT(member), value, help, 0, 0, NULL}, of                           \
    }
#define YES(name, letter, member, help)                                                            \
    {                                                                                              \
        0, {name, letter, FLAG_BOOL, AT(member), NULL, help, 0, 0, NULL}, NULL                     \
    }
#define NUMBER(name, letter, member, value, help, min, max)                                        \
    {                                                                                              \
        0, {name, letter, FLAG_INT, AT(member), value, help, min, max, NULL}, NULL                 \
    }

// clang-format off
static const struct row rows[] = {
    {GLOBAL, {"master", 'm', FLAG_STRING, AT(master), "URL", "the master to talk to", 0, 0, "MUSTER_MASTER"}, NULL},
    {GLOBAL, {"token", 0, FLAG_STRING, AT(token), "TOKEN", "use this token instead of the saved one", 0, 0, "MUSTER_TOKEN"}, NULL},
    {GLOBAL, {"ca-file", 0, FLAG_STRING, AT(ca_file), "FILE", "trust this certificate authority too", 0, 0, "MUSTER_CA_FILE"}, NULL},
    {GLOBAL, {"output", 'o', FLAG_STRING, AT(format), "FORMAT", "table, json, jsonl or csv", 0, 0, NULL}, NULL},
    {GLOBAL, {"columns", 0, FLAG_STRING, AT(columns), "A,B,C", "columns to show, by name; of experiments and trials also validation.loss, training.loss.min, hparams.lr", 0, 0, NULL}, NULL},
    {GLOBAL, {"quiet", 'q', FLAG_BOOL, AT(quiet), NULL, "print only what was asked for", 0, 0, NULL}, NULL},
    {GLOBAL, {"help", 'h', FLAG_BOOL, AT(help), NULL, "explain the command", 0, 0, NULL}, NULL},

    TEXT("password-file", 0, password_file, "FILE", "read the password from the first line of FILE"),
    YES("password-stdin", 0, password_stdin, "read the password from standard input"),
    YES("admin", 0, admin, "the user may do everything"),
    {0, {"config", 'c', FLAG_LIST, AT(config), "KEY=VALUE", "set one key of the configuration, e.g. resources.slots_per_trial=4", 0, 0, NULL}, NULL},
    TEXT("name", 'n', name, "NAME", "its name, in place of the one in the configuration"),
    OF("new", "name", 'n', FLAG_STRING, name, "NAME", "its new name"),
    OF("version", "name", 'n', FLAG_STRING, name, "NAME", "a name for the version, such as its release"),
    OF("hook", "name", 'n', FLAG_STRING, name, "NAME", "what experiment files call it (webhook-N)"),
    OF("title", "name", 'n', FLAG_STRING, name, "NAME", "its title (Note)"),
    OF("export", "name", 'n', FLAG_STRING, name, "NAME", "its name, in place of the one it had"),
    TEXT("id-file", 0, id_file, "FILE", "write the new experiment's id to FILE"),
    NUMBER("project-id", 0, project_id, "N", "project to put it in", 1, INT32_MAX),
    YES("paused", 0, paused, "create it without starting"),
    YES("follow", 'f', follow, "watch until it ends (Ctrl-C stops watching only)"),
    YES("watch", 0, watch, "show it again whenever it changes, until Ctrl-C"),
    TEXT("topics", 0, topics, "A,B,C", "only these: experiments, trials, metrics, logs, checkpoints, queue, agents, workspaces, models, audit"),
    NUMBER("since", 0, since, "ID", "go on after the event of this id", 1, INT64_MAX),
    OF("time", "since", 0, FLAG_STRING, from, "TIME", "not before TIME: 2026-11-21, 2026-11-21T09:00:00Z, or 90m, 2d for so long ago"),
    OF("begin", "since", 0, FLAG_STRING, from, "TIME", "shown from TIME on"),
    TEXT("until", 0, until, "TIME", "not after TIME"),
    YES("validate-only", 0, validate_only, "check the configuration, create nothing"),
    YES("wait", 'w', wait, "return when it has happened"),
    NUMBER("timeout", 0, timeout, "SECONDS", "wait so long at most; then the exit code is 6, and what was begun goes on", 1, INT32_MAX),
    YES("yes", 'y', yes, "do not ask"),
    YES("all", 'a', all, "leave none out: archived ones, the end of a long queue"),
    OF("tokens", "all", 'a', FLAG_BOOL, all, NULL, "also those that were revoked or have expired, and those of logins"),
    OF("trials", "all", 'a', FLAG_BOOL, all, NULL, "of all its trials, one after the other"),
    TEXT("filter", 0, filter, "EXPR", "only what passes, e.g. 'validation.loss < 0.3 and not archived' (muster help filters)"),
    TEXT("sort", 0, sort, "NAMES", "in this order, e.g. -validation.loss,id: - is the greatest first"),
    TEXT("state", 's', state, "STATE", "only in this state; active: all that have not ended"),
    TEXT("user", 'u', user, "USER", "only of this user"),
    OF("member", "user", 'u', FLAG_STRING, user, "USER", "this user's part of the team"),
    OF("for", "user", 'u', FLAG_STRING, user, "USER", "for this user, by an administrator"),
    NUMBER("limit", 0, limit, "N", "at most N rows", 1, 10000000),
    TEXT("group", 'g', group, "GROUP", "training, validation or a group of your own (both of the first)"),
    TEXT("metric", 0, metric, "NAME", "only this metric"),
    NUMBER("rank", 0, rank, "N", "only lines of this rank", 0, 1 << 20),
    TEXT("level", 0, level, "LEVEL", "only lines of this level: debug, info, warning, error, critical"),
    TEXT("search", 0, search, "TEXT", "only lines that hold TEXT"),
    OF("model", "search", 0, FLAG_STRING, search, "TEXT", "only with TEXT in the name"),
    NUMBER("tail", 0, tail, "N", "only the last N lines", 1, 10000000),
    NUMBER("experiment", 'e', experiment, "ID", "of this experiment", 1, INT64_MAX),
    NUMBER("trial", 't', trial, "ID", "of this trial", 1, INT64_MAX),
    YES("latest", 0, latest, "only the newest"),
    YES("best", 0, best, "only the best by the searcher's metric"),
    OF("trial", "best", 0, FLAG_BOOL, best, NULL, "the best by the searcher's metric"),
    TEXT("to", 0, to, "FOLDER", "where to put it"),
    OF("man", "to", 0, FLAG_STRING, to, "FOLDER", "write the pages of all commands there"),
    TEXT("agent", 0, agent, "AGENT", "only of this agent"),
    OF("log", "agent", 0, FLAG_STRING, agent, "AGENT", "only lines of this agent"),
    YES("drain", 0, drain, "let what runs there finish"),
    TEXT("pool", 'p', pool, "POOL", "this resource pool"),
    NUMBER("ahead-of", 0, ahead_of, "ID", "just ahead of this experiment, at its priority", 1, INT64_MAX),
    NUMBER("behind", 0, behind, "ID", "just behind this experiment, at its priority", 1, INT64_MAX),
    NUMBER("priority", 0, priority, "N", "1 to 99, the smaller the sooner (42 where nobody said; below that: administrators)", 1, 99),
    TEXT("weight", 0, weight, "W", "weight of its share, e.g. 2 for twice as much as the others"),
    NUMBER("guaranteed", 0, guaranteed, "N", "slots it gets before anybody's weight counts, when it wants them", 0, INT32_MAX),
    TEXT("role", 0, role, "ROLE", "of --user: none, viewer, editor or admin; default: as who is no member"),
    TEXT("default-role", 0, default_role, "ROLE", "of all who are no members: none, viewer or editor"),
    TEXT("project", 0, project, "NAME", "its first project (default: \"default\")"),
    NUMBER("max-slots", 0, max_slots, "N", "most slots it may hold at a time; 0: no limit", 0, INT32_MAX),
    NUMBER("slots", 0, slots, "N", "slots it needs (1); 0: none, it starts at once", 0, 8192),
    LIST("env", 0, env, "NAME=VALUE", "set a variable of its environment; may be given several times"),
    OF("run", "files", 0, FLAG_STRING, folder, "FOLDER", "take the files of FOLDER along; it runs among them"),
    TEXT("work-dir", 0, work_dir, "DIR", "run it in this folder of the machine"),
    OF("run", "name", 'n', FLAG_STRING, name, "NAME", "its name in lists (its command line)"),
    YES("detach", 0, detach, "print its id and do not wait for it"),
    YES("no-pause", 0, no_pause, "it must not be paused, nor leave its slots for others, nor start again"),
    TEXT("parent", 0, parent, "ID", "make it below this task, and end with it"),
    TEXT("fork", 0, fork, "ID", "take what FILE leaves open, and files, from this task"),
    YES("tree", 0, tree, "the whole tree that it belongs to"),
    TEXT("data-dir", 'd', data_dir, "DIR", "the master's folder on this machine, in place of asking the master"),
    YES("force", 0, force, "replace a file that is there"),
    YES("dry-run", 0, dry_run, "show what would be deleted, delete nothing"),
    YES("checkpoints", 0, checkpoints, "with the files of its checkpoints"),
    TEXT("files", 0, file_patterns, "A,B,C", "patterns of files within a checkpoint: * ? [..], ** for any folders"),
    NUMBER("save-experiment-best", 0, save_experiment_best, "N", "keep the N best of the experiment from now on", 0, 1000000),
    NUMBER("save-trial-best", 0, save_trial_best, "N", "keep the N best of each trial from now on", 0, 1000000),
    NUMBER("save-trial-latest", 0, save_trial_latest, "N", "keep the N latest of each trial from now on", 0, 1000000),
    TEXT("template", 0, template, "NAME", "put it upon this template"),
    TEXT("description", 0, description, "TEXT", "what it is, for people"),
    TEXT("display-name", 0, display_name, "TEXT", "the name of the person"),
    YES("no-admin", 0, no_admin, "the user may no longer do everything"),
    TEXT("expires", 0, expires, "LENGTH", "good for so long: 12h, 90d, never (30d)"),
    TEXT("team", 0, team, "TEAM", "only of this team (workspace)"),
    OF("in", "team", 0, FLAG_STRING, team, "TEAM", "for this team (workspace) alone"),
    LIST("label", 0, label, "LABEL", "a label; may be given several times"),
    OF("only", "label", 0, FLAG_LIST, label, "LABEL", "only with this label; may be given several times"),
    LIST("metadata", 0, metadata, "KEY=VALUE", "a value to keep with it; may be given several times"),
    OF("key", "metadata", 0, FLAG_LIST, metadata, "KEY=VALUE", "set one key, =null takes it out, the others stay; may be given several times"),
    TEXT("notes", 0, notes, "TEXT", "notes, in Markdown"),
    TEXT("comment", 0, comment, "TEXT", "what is new in it"),
    LIST("on", 0, on, "WHEN", "completed, error, canceled, .. (a state); 'loss<0.1' (a validation metric); log:PATTERN (a line of a log); custom"),
    YES("slack", 0, slack, "the address is Slack's"),
    YES("specific", 0, specific, "only for experiments that name it under integrations.webhooks"),
    YES("regex", 0, regex, "TEXT of --search is a regular expression"),
    TEXT("allocation", 0, allocation, "ID", "only lines of this start"),
    TEXT("container", 0, container, "ID", "only lines of this container"),
    TEXT("source", 0, source, "NAME", "only lines from there, such as task"),
    TEXT("stdtype", 0, stdtype, "NAME", "only lines of stdout or of stderr"),
    TEXT("log-retention", 0, log_retention, "DAYS", "keep the log so many days after the end; forever"),
    TEXT("method", 0, method, "METHOD", "only calls of this kind: POST, PUT, PATCH, DELETE"),
    TEXT("path", 0, path, "PART", "only calls whose path has PART in it"),
    NUMBER("status", 0, status, "N", "only calls that were answered so, e.g. 403", 100, 599),
    TEXT("period", 0, period, "daily|monthly", "sums of each day (if not given) or month"),
    TEXT("for", 0, lasts, "LENGTH", "shown for so long: 90m, 24h (until it is cleared)"),
    TEXT("log-level", 0, log_level, "LEVEL", "of the master's own log, until its next start: debug, info, warn, error"),
    TEXT("body", 0, body, "JSON|@FILE|-", "what to send: JSON, a file, or standard input"),
    TEXT("trace", 0, trace, "FILE.csv[.gz]", "jobs: columns submit_s, gpus, duration_s, and any of user, queue, priority, min_gpus"),
    NUMBER("nodes", 0, nodes, "N", "nodes of the cluster", 1, 4096),
    NUMBER("slots-per-node", 0, slots_per_node, "G", "slots of each node (8)", 1, 1024),
    NUMBER("racks", 0, racks, "N", "racks that the nodes stand in, in equal parts (not known)", 1, 4096),
    TEXT("policy", 0, policy, "A,B,C", "fair_share (if not given), priority, fifo, easy; several are shown side by side"),
    TEXT("teams", 0, teams, "FILE", "YAML: teams: [{name, weight, guaranteed, maximum, users: [..]}]; without it each queue is a team of weight 1"),
    NUMBER("preempt-cost", 0, preempt_cost, "S", "seconds that a job loses when it has to leave its slots (60)", 0, 864000),
    NUMBER("drain-time", 0, drain_time, "S", "seconds from the word to leave until the slots are free (0)", 0, 864000),
    TEXT("window", 0, window, "FROM..TO", "only jobs submitted then: seconds, or with a unit as in 63d..77d"),
    TEXT("from-store", 0, from_store, "DIR|FILE", "jobs, teams and agents of a master's store, in place of --trace"),
    NUMBER("add-nodes", 0, add_nodes, "N", "show also what N more nodes would have done", 1, 4096),
    TEXT("plot", 0, plot, "FILE.svg", "draw use and queue over time"),
    YES("timing", 0, timing, "show how long decisions took"),
};
// clang-format on

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
_Static_assert((int)ROWS < (int)FLAGSET_MAX, "flagset_select has room for every flag");

// "name" or "name:of" within the blank-separated names.
static bool named(const char *names, const struct row *row)
{
    char full[64];
    size_t len = (size_t)snprintf(full, sizeof(full), "%s%s%s", row->flag.name, row->of ? ":" : "",
                                  row->of ? row->of : "");
    for (const char *p = names; p && *p != '\0'; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n == len && memcmp(p, full, n) == 0)
            return true;
        p += n;
    }
    return false;
}

static void select_rows(struct cli_options *options, const char *names, bool global,
                        struct flag *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].global ? global : named(names, &rows[i])) {
            *out = rows[i].flag;
            out->target = (char *)options + (uintptr_t)rows[i].flag.target;
            out++;
        }
    }
    *out = (struct flag){0};
}

void flagset_select(struct cli_options *options, const char *names, struct flag out[FLAGSET_MAX])
{
    select_rows(options, names, true, out);
}

void flagset_own(struct cli_options *options, const char *names, struct flag out[FLAGSET_MAX])
{
    select_rows(options, names, false, out);
}

static bool is_there(const struct flag *from, const struct flag *to, const char *name)
{
    for (; from < to; from++)
        if (strcmp(from->name, name) == 0)
            return true;
    return false;
}

void flagset_probe(struct cli_options *options, struct flag out[FLAGSET_MAX])
{
    struct flag *f = out;
    for (size_t i = 0; i < ROWS; i++) {
        if (is_there(out, f, rows[i].flag.name))
            continue;
        *f = rows[i].flag;
        f->env = NULL;
        f->target = (char *)options + (uintptr_t)rows[i].flag.target;
        if (f->kind != FLAG_BOOL) {
            f->kind = FLAG_STRING;
            f->target = &options->unread;
        }
        f++;
    }
    *f = (struct flag){0};
}
