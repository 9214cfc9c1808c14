#include "api/cli/flagset.h"

#include <stdint.h>
#include <string.h>

#include "base/log.h"

enum { GLOBAL = 1 };

struct row {
    int global;
    struct flag flag; // target: offset in struct cli_options
};

#define AT(member) ((void *)offsetof(struct cli_options, member))
#define TEXT(name, letter, member, value, help)                                                    \
    {                                                                                              \
        0,                                                                                         \
        {                                                                                          \
            name, letter, FLAG_STRING, AT(member), value, help, 0, 0, NULL                         \
        }                                                                                          \
    }
#define YES(name, letter, member, help)                                                            \
    {                                                                                              \
        0,                                                                                         \
        {                                                                                          \
            name, letter, FLAG_BOOL, AT(member), NULL, help, 0, 0, NULL                            \
        }                                                                                          \
    }
#define NUMBER(name, letter, member, value, help, min, max)                                        \
    {                                                                                              \
        0,                                                                                         \
        {                                                                                          \
            name, letter, FLAG_INT, AT(member), value, help, min, max, NULL                        \
        }                                                                                          \
    }

// clang-format off
static const struct row rows[] = {
    {GLOBAL, {"master", 'm', FLAG_STRING, AT(master), "URL", "the master to talk to", 0, 0, "MUSTER_MASTER"}},
    {GLOBAL, {"token", 0, FLAG_STRING, AT(token), "TOKEN", "use this token instead of the saved one", 0, 0, "MUSTER_TOKEN"}},
    {GLOBAL, {"ca-file", 0, FLAG_STRING, AT(ca_file), "FILE", "trust this certificate authority too", 0, 0, "MUSTER_CA_FILE"}},
    {GLOBAL, {"output", 'o', FLAG_STRING, AT(format), "FORMAT", "table, json, jsonl or csv", 0, 0, NULL}},
    {GLOBAL, {"columns", 0, FLAG_STRING, AT(columns), "A,B,C", "columns to show, by name", 0, 0, NULL}},
    {GLOBAL, {"quiet", 'q', FLAG_BOOL, AT(quiet), NULL, "print only what was asked for", 0, 0, NULL}},
    {GLOBAL, {"help", 'h', FLAG_BOOL, AT(help), NULL, "explain the command", 0, 0, NULL}},

    TEXT("password-file", 0, password_file, "FILE", "read the password from the first line of FILE"),
    YES("password-stdin", 0, password_stdin, "read the password from standard input"),
    YES("admin", 0, admin, "the user may do everything"),
    {0, {"config", 'c', FLAG_LIST, AT(config), "KEY=VALUE", "set one key of the configuration, e.g. resources.slots_per_trial=4", 0, 0, NULL}},
    TEXT("name", 'n', name, "NAME", "name of the experiment; of a team: its new name"),
    TEXT("id-file", 0, id_file, "FILE", "write the new experiment's id to FILE"),
    NUMBER("project-id", 0, project_id, "N", "project to put it in", 1, INT32_MAX),
    YES("paused", 0, paused, "create it without starting"),
    YES("follow", 'f', follow, "watch until it ends (Ctrl-C stops watching only)"),
    YES("watch", 0, watch, "show it again whenever it changes, until Ctrl-C"),
    TEXT("topics", 0, topics, "A,B,C", "only these: experiments, trials, metrics, logs, checkpoints, queue, agents, workspaces, models"),
    NUMBER("since", 0, since, "ID", "go on after the event of this id", 1, INT64_MAX),
    YES("validate-only", 0, validate_only, "check the configuration, create nothing"),
    YES("wait", 'w', wait, "return when it has happened"),
    YES("yes", 'y', yes, "do not ask"),
    YES("all", 'a', all, "leave none out: archived experiments, the end of a long queue"),
    TEXT("filter", 0, filter, "EXPR", "only what passes, e.g. 'validation.loss < 0.3 and not archived' (muster help filters)"),
    TEXT("sort", 0, sort, "NAMES", "in this order, e.g. -validation.loss,id: - is the greatest first"),
    TEXT("state", 's', state, "STATE", "only in this state; active: all that have not ended"),
    TEXT("user", 'u', user, "NAME", "only of this user; of a team: this user's part of it"),
    NUMBER("limit", 0, limit, "N", "at most N rows", 1, 10000000),
    TEXT("group", 'g', group, "GROUP", "training or validation"),
    TEXT("metric", 0, metric, "NAME", "only this metric"),
    NUMBER("rank", 0, rank, "N", "only lines of this rank", 0, 1 << 20),
    TEXT("level", 0, level, "LEVEL", "only lines of this level: debug, info, warning, error, critical"),
    TEXT("search", 0, search, "TEXT", "only lines that hold TEXT"),
    NUMBER("tail", 0, tail, "N", "only the last N lines", 1, 10000000),
    NUMBER("experiment", 'e', experiment, "ID", "of this experiment", 1, INT64_MAX),
    NUMBER("trial", 't', trial, "ID", "of this trial", 1, INT64_MAX),
    YES("latest", 0, latest, "only the newest"),
    YES("best", 0, best, "only the best by the searcher's metric"),
    TEXT("to", 0, to, "FOLDER", "where to put it"),
    TEXT("agent", 0, agent, "ID", "only of this agent"),
    YES("drain", 0, drain, "let what runs there finish"),
    TEXT("pool", 'p', pool, "POOL", "this resource pool"),
    NUMBER("ahead-of", 0, ahead_of, "ID", "just ahead of this experiment", 1, INT64_MAX),
    NUMBER("behind", 0, behind, "ID", "just behind this experiment", 1, INT64_MAX),
    NUMBER("priority", 0, priority, "N", "1 to 99, the smaller the sooner (42 where nobody said)", 1, 99),
    TEXT("weight", 0, weight, "W", "weight of its share, e.g. 2 for twice as much as the others"),
    NUMBER("guaranteed", 0, guaranteed, "N", "slots it gets before anybody's weight counts, when it wants them", 0, INT32_MAX),
    TEXT("role", 0, role, "ROLE", "of --user: none, viewer, editor or admin; default: as who is no member"),
    TEXT("default-role", 0, default_role, "ROLE", "of all who are no members: none, viewer or editor"),
    TEXT("project", 0, project, "NAME", "its first project (default: \"default\")"),
    NUMBER("max-slots", 0, max_slots, "N", "most slots it may hold at a time; 0: no limit", 0, INT32_MAX),
    TEXT("data-dir", 'd', data_dir, "DIR", "the master's folder on this machine, in place of asking the master"),
    YES("force", 0, force, "replace a file that is there"),
    YES("dry-run", 'n', dry_run, "show what would be deleted, delete nothing"),
    YES("checkpoints", 0, checkpoints, "with the files of its checkpoints"),
    TEXT("files", 0, file_patterns, "A,B,C", "patterns of files within a checkpoint: * ? [..], ** for any folders"),
    NUMBER("save-experiment-best", 0, save_experiment_best, "N", "keep the N best of the experiment from now on", 0, 1000000),
    NUMBER("save-trial-best", 0, save_trial_best, "N", "keep the N best of each trial from now on", 0, 1000000),
    NUMBER("save-trial-latest", 0, save_trial_latest, "N", "keep the N latest of each trial from now on", 0, 1000000),
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

static bool named(const char *names, const char *name)
{
    if (names == NULL || strcmp(names, "*") == 0) {
        return names != NULL;
    }
    size_t len = strlen(name);
    for (const char *p = names; *p != '\0'; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n == len && memcmp(p, name, n) == 0) {
            return true;
        }
        p += n;
    }
    return false;
}

static void select_rows(struct cli_options *options, const char *names, bool global,
                        struct flag *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].global ? global : named(names, rows[i].flag.name)) {
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
