#include "cli/common/flagset.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum { GLOBAL = 1 };

struct flag_row {
    int global;
    struct flag flag; // target: offset in struct cli_options
    const char *of;   // variant of the flag's meaning; NULL: the usual one
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
static const struct flag_row rows[] = {
    {GLOBAL, {"master", 'm', FLAG_STRING, AT(master), "URL", "address of the master", 0, 0, "MUSTER_MASTER"}, NULL},
    {GLOBAL, {"token", 0, FLAG_STRING, AT(token), "TOKEN", "use this token instead of the saved one", 0, 0, "MUSTER_TOKEN"}, NULL},
    {GLOBAL, {"ca-file", 0, FLAG_STRING, AT(ca_file), "FILE", "trust this certificate authority too", 0, 0, "MUSTER_CA_FILE"}, NULL},
    {GLOBAL, {"output", 'o', FLAG_STRING, AT(format), "FORMAT", "table, json, jsonl or csv", 0, 0, NULL}, NULL},
    {GLOBAL, {"columns", 0, FLAG_STRING, AT(columns), "A,B,C", "columns to show, by name; for experiments and trials also metrics and hyperparameters: validation.loss, training.loss.min, hparams.lr", 0, 0, NULL}, NULL},
    {GLOBAL, {"quiet", 'q', FLAG_BOOL, AT(quiet), NULL, "print only the requested data, no messages", 0, 0, NULL}, NULL},
    {GLOBAL, {"help", 'h', FLAG_BOOL, AT(help), NULL, "explain the command", 0, 0, NULL}, NULL},

    TEXT("password-file", 0, password_file, "FILE", "read the password from the first line of FILE"),
    YES("password-stdin", 0, password_stdin, "read the password from standard input"),
    YES("admin", 0, admin, "give the user all rights (administrator)"),
    {0, {"config", 'c', FLAG_LIST, AT(config), "KEY=VALUE", "set one key of the configuration, e.g. resources.slots_per_trial=4", 0, 0, NULL}, NULL},
    TEXT("name", 'n', name, "NAME", "name, instead of the one in the configuration"),
    OF("new", "name", 'n', FLAG_STRING, name, "NAME", "new name"),
    OF("version", "name", 'n', FLAG_STRING, name, "NAME", "a name for the version, such as its release"),
    OF("hook", "name", 'n', FLAG_STRING, name, "NAME", "name by which experiment files refer to it (default: webhook-N)"),
    OF("title", "name", 'n', FLAG_STRING, name, "NAME", "title of the note (default: Note)"),
    OF("export", "name", 'n', FLAG_STRING, name, "NAME", "name, instead of the exported one"),
    TEXT("id-file", 0, id_file, "FILE", "write the new experiment's id to FILE"),
    NUMBER("project-id", 0, project_id, "N", "project that it belongs to", 1, INT32_MAX),
    YES("paused", 0, paused, "create it without starting"),
    YES("follow", 'f', follow, "watch until it ends (Ctrl-C stops watching only)"),
    YES("watch", 0, watch, "show the output again whenever it changes, until Ctrl-C"),
    TEXT("topics", 0, topics, "A,B,C", "only these topics: experiments, trials, metrics, logs, checkpoints, queue, agents, workspaces, models, audit"),
    NUMBER("since", 0, since, "ID", "continue after the event with this id", 1, INT64_MAX),
    OF("time", "since", 0, FLAG_STRING, from, "TIME", "not before TIME: 2026-11-21, 2026-11-21T09:00:00Z, or an age such as 90m or 2d"),
    OF("begin", "since", 0, FLAG_STRING, from, "TIME", "show it from TIME on"),
    TEXT("until", 0, until, "TIME", "not after TIME"),
    YES("validate-only", 0, validate_only, "check the configuration without creating anything"),
    YES("wait", 'w', wait, "wait until the state is reached"),
    NUMBER("timeout", 0, timeout, "SECONDS", "longest time to wait; then the exit code is 6, and the operation goes on at the master", 1, INT32_MAX),
    YES("yes", 'y', yes, "do not ask for confirmation"),
    YES("all", 'a', all, "also list archived objects, and the end of a long queue"),
    OF("tokens", "all", 'a', FLAG_BOOL, all, NULL, "also list tokens that were revoked or have expired, and tokens of logins"),
    OF("trials", "all", 'a', FLAG_BOOL, all, NULL, "print those of all trials, one after the other"),
    TEXT("filter", 0, filter, "EXPR", "only rows that match, e.g. 'validation.loss < 0.3 and not archived' (muster help filters)"),
    TEXT("sort", 0, sort, "NAMES", "order of the rows, e.g. -validation.loss,id (a minus sign: largest first)"),
    TEXT("state", 's', state, "STATE", "only in this state; active: all that have not ended yet"),
    TEXT("user", 'u', user, "USER", "only of this user"),
    OF("determined", "user", 'u', FLAG_STRING, user, "USER", "an administrator of that Determined master (default: admin)"),
    OF("member", "user", 'u', FLAG_STRING, user, "USER", "change this user's settings in the team"),
    OF("for", "user", 'u', FLAG_STRING, user, "USER", "create it for this user (administrators)"),
    NUMBER("limit", 0, limit, "N", "at most N rows", 1, 10000000),
    OF("preview", "limit", 0, FLAG_INT, limit, "N", "show at most N trials (default 20)"),
    TEXT("step-time", 0, step_time, "SECONDS", "how long one step takes (or one unit of searcher.time_metric): adds the bounds in slot-hours"),
    TEXT("group", 'g', group, "GROUP", "training, validation or a group of your own (default: training and validation)"),
    TEXT("metric", 0, metric, "NAME", "only this metric"),
    NUMBER("rank", 0, rank, "N", "only lines of this rank", 0, 1 << 20),
    TEXT("level", 0, level, "LEVEL", "only lines of this level: debug, info, warning, error, critical"),
    TEXT("search", 0, search, "TEXT", "only lines that contain TEXT"),
    OF("model", "search", 0, FLAG_STRING, search, "TEXT", "only models with TEXT in their name"),
    NUMBER("tail", 0, tail, "N", "only the last N lines", 1, 10000000),
    NUMBER("experiment", 'e', experiment, "ID", "of this experiment", 1, INT64_MAX),
    NUMBER("trial", 't', trial, "ID", "of this trial", 1, INT64_MAX),
    YES("latest", 0, latest, "only the newest"),
    YES("best", 0, best, "only the best by the searcher's metric"),
    OF("trial", "best", 0, FLAG_BOOL, best, NULL, "the best checkpoint by the searcher's metric"),
    OF("report", "group", 'g', FLAG_STRING, group, "GROUP", "group of the metrics: training, validation or one of your own (default: training)"),
    {0, {"step", 0, FLAG_INT, AT(step), "N", "number of training steps that were done", 0, INT64_MAX, NULL}, "report"},
    TEXT("progress", 0, progress, "FRACTION", "progress of the training, from 0 to 1"),
    TEXT("to", 0, to, "FOLDER", "folder to write the files to"),
    OF("media", "name", 'n', FLAG_STRING, name, "NAME", "only items of this name"),
    TEXT("type", 0, media_type, "TYPE", "only items of this type: image, histogram, table, text"),
    OF("media", "step", 0, FLAG_STRING, media_step, "N", "only items of this step"),
    OF("media", "to", 0, FLAG_STRING, to, "FOLDER", "write the contents to FOLDER/NAME/STEP.png (.json, .txt) instead of listing them"),
    OF("release", "to", 0, FLAG_LIST, to_files, "FILE", "the tarball of the new release, or one of its packages; may be given several times"),
    YES("accept-new", 0, accept_new, "accept the SSH host keys of machines that are not known yet, and remember them"),
    YES("purge", 0, purge, "also delete programs, settings and all data of the cluster, after a confirmation"),
    NUMBER("parallel", 0, parallel, "N", "machines at a time (default 32)", 1, 256),
    OF("agents", "parallel", 0, FLAG_INT, parallel, "N", "agents that restart at the same time (default 1)"),
    OF("man", "to", 0, FLAG_STRING, to, "FOLDER", "write the pages of all commands into FOLDER"),
    TEXT("agent", 0, agent, "AGENT", "only slots of this agent"),
    OF("log", "agent", 0, FLAG_STRING, agent, "AGENT", "only lines of this agent"),
    YES("drain", 0, drain, "let running tasks finish"),
    TEXT("pool", 'p', pool, "POOL", "resource pool"),
    OF("enrol", "name", 'n', FLAG_STRING, name, "AGENT", "only for the agent of this name; a credential that it has ends when it is used"),
    OF("enrol", "pool", 'p', FLAG_STRING, pool, "POOL", "resource pool that the agent joins (default: as its own flag says)"),
    TEXT("ttl", 0, ttl, "LENGTH", "how long it may be used: 30m, 12h, 7d (default 1h)"),
    NUMBER("count", 0, uses, "N", "how many machines may use it (default 1)", 1, 4096),
    TEXT("fingerprint", 0, fingerprint, "SHA256", "trust the master if its authority has this fingerprint, which muster-master --init prints"),
    TEXT("url", 0, url, "URL", "the master's address for that machine (default: the one in use here)"),
    NUMBER("ahead-of", 0, ahead_of, "ID", "just ahead of this experiment, at its priority", 1, INT64_MAX),
    NUMBER("behind", 0, behind, "ID", "just behind this experiment, at its priority", 1, INT64_MAX),
    NUMBER("priority", 0, priority, "N", "1 to 99, a smaller number goes first (default 42; below 42: administrators)", 1, 99),
    TEXT("weight", 0, weight, "W", "weight of the share, e.g. 2 for twice the share of weight 1"),
    NUMBER("guaranteed", 0, guaranteed, "N", "slots that it gets before weights count, if it has use for them", 0, INT32_MAX),
    TEXT("role", 0, role, "ROLE", "role of --user: none, viewer, editor or admin; default: the role of users who are not members"),
    TEXT("default-role", 0, default_role, "ROLE", "role of users who are not members: none, viewer or editor"),
    TEXT("project", 0, project, "NAME", "name of its first project (default: \"default\")"),
    NUMBER("max-slots", 0, max_slots, "N", "largest number of slots that it may hold at a time; 0: no limit", 0, INT32_MAX),
    NUMBER("slots", 0, slots, "N", "slots that it needs (default 1); 0: it needs none and starts at once", 0, 8192),
    {0, {"slots", 0, FLAG_INT, AT(slots), "N", "slots of each trial (resources.slots_per_trial)", 1, 8192, NULL}, "trial"},
    NUMBER("min-slots", 0, min_slots, "N", "elastic: a trial may run with this number of slots and more; 0: with exactly --slots", 0, 8192),
    LIST("env", 0, env, "NAME=VALUE", "set an environment variable; may be given several times"),
    OF("run", "files", 0, FLAG_STRING, folder, "FOLDER", "upload the files of FOLDER; the program runs in a copy of them"),
    TEXT("work-dir", 0, work_dir, "DIR", "run the program in this folder of the machine"),
    OF("run", "name", 'n', FLAG_STRING, name, "NAME", "name in lists (default: the command line)"),
    YES("detach", 0, detach, "print the id and return without waiting"),
    YES("no-pause", 0, no_pause, "never pause, preempt or restart the task"),
    TEXT("parent", 0, parent, "ID", "make it a child of this task; it ends with its parent"),
    TEXT("fork", 0, fork, "ID", "use the configuration of this task where FILE sets nothing, and its files"),
    YES("tree", 0, tree, "kill the whole tree that the task belongs to"),
    TEXT("data-dir", 'd', data_dir, "DIR", "use the master's folder on this machine instead of asking the master"),
    YES("force", 0, force, "overwrite the file if it exists"),
    YES("dry-run", 0, dry_run, "show the rows that would be deleted without deleting them"),
    YES("checkpoints", 0, checkpoints, "include the files of the checkpoints"),
    TEXT("files", 0, file_patterns, "A,B,C", "patterns of files in a checkpoint: * ? [..], ** for any folders"),
    NUMBER("save-experiment-best", 0, save_experiment_best, "N", "keep the N best checkpoints of the experiment from now on", 0, 1000000),
    NUMBER("save-trial-best", 0, save_trial_best, "N", "keep the N best checkpoints of each trial from now on", 0, 1000000),
    NUMBER("save-trial-latest", 0, save_trial_latest, "N", "keep the N latest checkpoints of each trial from now on", 0, 1000000),
    TEXT("template", 0, template, "NAME", "use the values of this template where the configuration sets none"),
    TEXT("description", 0, description, "TEXT", "description for readers"),
    TEXT("display-name", 0, display_name, "TEXT", "full name of the person"),
    YES("no-admin", 0, no_admin, "take the administrator's rights from the user"),
    TEXT("expires", 0, expires, "LENGTH", "how long the token is valid: 12h, 90d, never (default 30d)"),
    TEXT("team", 0, team, "TEAM", "only of this team (workspace)"),
    OF("in", "team", 0, FLAG_STRING, team, "TEAM", "only for this team (workspace)"),
    LIST("label", 0, label, "LABEL", "add a label; may be given several times"),
    OF("only", "label", 0, FLAG_LIST, label, "LABEL", "only with this label; may be given several times"),
    LIST("metadata", 0, metadata, "KEY=VALUE", "store this value; may be given several times"),
    OF("key", "metadata", 0, FLAG_LIST, metadata, "KEY=VALUE", "set one key (=null removes it), keep the others; may be given several times"),
    TEXT("notes", 0, notes, "TEXT", "notes, in Markdown"),
    TEXT("comment", 0, comment, "TEXT", "description of the changes"),
    LIST("on", 0, on, "WHEN", "completed, error, canceled, .. (a state); 'loss<0.1' (a validation metric); log:PATTERN (a line of a log); custom; alert (trouble of the cluster)"),
    YES("slack", 0, slack, "the URL belongs to Slack: send messages in its format"),
    YES("specific", 0, specific, "only for experiments that name it under integrations.webhooks"),
    YES("regex", 0, regex, "treat TEXT of --search as a regular expression"),
    TEXT("allocation", 0, allocation, "ID", "only lines of this allocation (one start of a trial)"),
    TEXT("container", 0, container, "ID", "only lines of this container"),
    TEXT("source", 0, source, "NAME", "only lines from this source, such as task"),
    TEXT("stdtype", 0, stdtype, "NAME", "only lines of stdout or of stderr"),
    TEXT("log-retention", 0, log_retention, "DAYS", "days to keep the log after the end; or forever"),
    TEXT("method", 0, method, "METHOD", "only calls with this method: POST, PUT, PATCH, DELETE"),
    TEXT("path", 0, path, "PART", "only calls whose path contains PART"),
    NUMBER("status", 0, status, "N", "only calls answered with this HTTP status, e.g. 403", 100, 599),
    TEXT("period", 0, period, "daily|monthly", "sum by day (default) or by month"),
    TEXT("for", 0, lasts, "LENGTH", "show it for this long: 90m, 24h (default: until it is cleared)"),
    TEXT("log-level", 0, log_level, "LEVEL", "level of the master's own log, until the master starts again: debug, info, warn, error"),
    TEXT("body", 0, body, "JSON|@FILE|-", "body of the call: JSON, a file, or standard input"),
    TEXT("trace", 0, trace, "FILE.csv[.gz]", "jobs: columns submit_s, gpus, duration_s, and optionally user, queue, priority, min_gpus"),
    NUMBER("nodes", 0, nodes, "N", "nodes of the cluster", 1, 4096),
    NUMBER("slots-per-node", 0, slots_per_node, "G", "slots of each node (default 8)", 1, 1024),
    NUMBER("racks", 0, racks, "N", "racks among which the nodes are divided equally (default: unknown)", 1, 4096),
    TEXT("policy", 0, policy, "A,B,C", "fair_share (default), priority, fifo, easy; several are shown side by side"),
    TEXT("teams", 0, teams, "FILE", "YAML file: teams: [{name, weight, guaranteed, maximum, users: [..]}]; without it each queue is a team of weight 1"),
    NUMBER("preempt-cost", 0, preempt_cost, "S", "seconds of work that a job loses when it is preempted (default 60)", 0, 864000),
    NUMBER("drain-time", 0, drain_time, "S", "seconds from the order to leave until the slots are free (default 0)", 0, 864000),
    TEXT("window", 0, window, "FROM..TO", "only jobs submitted in this range: seconds, or with a unit as in 63d..77d"),
    TEXT("from-store", 0, from_store, "DIR|FILE", "take jobs, teams and agents from a master's store instead of --trace"),
    NUMBER("add-nodes", 0, add_nodes, "N", "also show the result with N more nodes", 1, 4096),
    TEXT("plot", 0, plot, "FILE.svg", "draw slots in use and queued jobs over time"),
    YES("timing", 0, timing, "show how long scheduling decisions took"),
};
// clang-format on

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
_Static_assert((int)ROWS < (int)FLAGSET_MAX, "flagset_select has room for every flag");

// Whether the blank-separated names contain the row's "name" or "name:of".
static bool names_contain(const char *names, const struct flag_row *row)
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
        if (rows[i].global ? global : names_contain(names, &rows[i])) {
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

static bool flags_contain(const struct flag *from, const struct flag *to, const char *name)
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
        if (flags_contain(out, f, rows[i].flag.name))
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
