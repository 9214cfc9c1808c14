#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/credential.h"
#include "base/arena.h"
#include "base/flags.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/version.h"

static const char intro[] =
    "Usage: muster-agent --work-dir DIR --enroll LINE [flags]     the first start\n"
    "       muster-agent --work-dir DIR [flags]                   later starts\n"
    "\n"
    "Runs on every machine of the cluster. It reports the machine's slots to the master, starts "
    "the\n"
    "processes that the master places on them, and ships their logs. Tasks outlive the agent: it\n"
    "may be stopped, upgraded and started again with the same --work-dir, and recovers its tasks.\n"
    "\n"
    "`muster agent enroll` prints the line, with which the agent gets a credential of its own.\n"
    "\n"
    "  muster-agent --work-dir /var/lib/muster-agent --enroll muster1:head:8080:..\n"
    "  muster-agent --master http://head:8080 --token-file agent.token --work-dir DIR\n"
    "                                    with the token that agents share\n"
    "  muster-agent ... --slots 2        two CPU slots\n"
    "  muster-agent ... --gpus none      CPU slots on a machine with GPUs\n"
    "\n"
    "Flags:\n";

static const char outro[] =
    "\n"
    "Exit codes: 0 stopped by SIGTERM or SIGINT; 2 invalid flags; 3 a file is missing; 4 the "
    "master\n"
    "refuses the token; 5 another running agent uses the work folder; 1 any other error.\n";

struct agent_arguments {
    struct agent_options agent;
    struct task_limits_text limits;
    long long task_files;
    const char *gpus, *log_level, *enroll, *enroll_file;
    char *enrolment; // owned
    bool help, version;
};

enum { FLAGS_MAX = 32, ENROLMENT_FILE_MAX = 4096 };

#define TEXT(name_, target_, value_, help_)                                                        \
    {                                                                                              \
        .name = name_, .kind = FLAG_STRING, .target = target_, .value_name = value_, .help = help_ \
    }

static void make_flags(struct agent_arguments *a, struct flag out[FLAGS_MAX])
{
    struct agent_options *o = &a->agent;
    const struct flag flags[FLAGS_MAX] = {
        {.name = "master",
         .kind = FLAG_STRING,
         .target = &o->master,
         .value_name = "URL",
         .help = "address of the master",
         .env = "MUSTER_MASTER"},
        TEXT("enroll", &a->enroll, "LINE",
             "get a credential by this line of muster agent enroll; once, later starts do without"),
        TEXT("enroll-file", &a->enroll_file, "FILE",
             "the same with the line in a file, or - for standard input: lists of processes do not "
             "show it"),
        {.name = "enroll-only",
         .kind = FLAG_BOOL,
         .target = &o->enrol_only,
         .help = "end when the credential is stored"},
        TEXT("token-file", &o->token_file, "FILE",
             "the agent token; the master writes it to agent.token in its data folder"),
        TEXT("work-dir", &o->work_dir, "DIR",
             "folder for tasks and their logs, on a local disk; keep it over restarts"),
        TEXT("id", &o->id, "NAME", "name of this agent in the cluster (default: the host name)"),
        {.name = "slots",
         .kind = FLAG_INT,
         .target = &o->slots,
         .value_name = "N",
         .help = "number of CPU slots (default: the GPUs, or one CPU slot per core without GPUs)",
         .min = 1,
         .max = LIMIT_SLOTS_PER_AGENT},
        TEXT("gpus", &a->gpus, "auto|none", "whether GPUs become slots (default: auto)"),
        TEXT("pool", &o->pool, "NAME", "resource pool (default: default)"),
        TEXT("rack", &o->rack, "NAME",
             "rack or switch of this machine; a gang stays in one rack if it fits"),
        TEXT("address", &o->address, "HOST",
             "address of this machine for the others (default: that of the route to the master)"),
        TEXT("ca-file", &o->ca_file, "FILE",
             "PEM file of authorities to trust for https://, in addition to the system's"),
        {.name = "task-account",
         .kind = FLAG_STRING,
         .target = &o->task_account,
         .value_name = "NAME",
         .help = "account of tasks whose user is not linked with one (agents that run as root)",
         .env = "MUSTER_TASK_ACCOUNT"},
        {.name = "task-group",
         .kind = FLAG_STRING,
         .target = &o->task_group,
         .value_name = "NAME",
         .help = "a further group of all tasks with an account: that of the checkpoint folder",
         .env = "MUSTER_TASK_GROUP"},
        {.name = "tasks-as-root",
         .kind = FLAG_BOOL,
         .target = &o->tasks_as_root,
         .help =
             "run those tasks as root, as an agent without --task-account does if its master is "
             "on this machine and has no https; unsafe: they can change everything"},
    };
    memcpy(out, flags, sizeof flags);
}

// The limits of a task, and the flags that every program has.
static void append_last_flags(struct agent_arguments *a, struct flag out[FLAGS_MAX])
{
    const struct flag flags[] = {
        {.name = "task-processes",
         .kind = FLAG_INT,
         .target = &a->agent.limits.processes,
         .value_name = "N",
         .help = "processes and threads that a task may have (default: 8192)",
         .min = 16,
         .max = LIMIT_TASK_PROCESSES},
        TEXT("task-memory", &a->limits.memory, "SIZE",
             "memory that a task may use, such as 64GiB or 50% of the machine's; the kernel kills "
             "a task that needs more (default: 0, no limit for one task; all tasks together leave "
             "3% to the machine)"),
        TEXT("task-disk", &a->limits.disk, "SIZE",
             "disk that the files of a task may take in the work folder; a task that takes more "
             "is ended (default: 50% of the disk; 0: no limit)"),
        {.name = "task-files",
         .kind = FLAG_INT,
         .target = &a->task_files,
         .value_name = "N",
         .help = "files that a task may have in the work folder; a task with more is ended "
                 "(default: 2000000; 0: no limit)",
         .max = INT64_MAX},
        TEXT("disk-floor", &a->limits.floor, "SIZE",
             "free space on the disk of the work folder below which the task that has used most "
             "of it is ended (default: 1 GiB or 5%, whichever is less; 0: none)"),
        TEXT("task-cgroup", &a->agent.task_cgroup, "PATH",
             "cgroup for the tasks that is delegated to the agent, such as "
             "/system.slice/muster-tasks.service (default: the root of all if the agent is root, "
             "else the agent's own)"),
        TEXT("log-level", &a->log_level, "LEVEL", "debug, info, warn or error (default: info)"),
        {.name = "version", .kind = FLAG_BOOL, .target = &a->version, .help = "print the version"},
        {.name = "help",
         .letter = 'h',
         .kind = FLAG_BOOL,
         .target = &a->help,
         .help = "print this help"},
    };
    size_t used = 0;
    while (out[used].name)
        used++;
    must(used + sizeof flags / sizeof *flags < FLAGS_MAX);
    memcpy(out + used, flags, sizeof flags);
}

static int require_flag(const char *value, const char *flag, struct error *e)
{
    return value && *value ? 0 : error_set(e, ERR_INVALID, "--%s is missing; see --help", flag);
}

// One line of standard input: on a terminal there is no end of file after it.
static int read_line(char **out, struct error *e)
{
    char line[ENROLMENT_FILE_MAX];
    if (isatty(STDIN_FILENO))
        fputs("Paste the line that `muster agent enroll` has printed, then press Enter:\n", stderr);
    if (!fgets(line, sizeof line, stdin))
        return error_set(e, ERR_INVALID, "there is no line on standard input");
    *out = xstrdup(line);
    return 0;
}

// Reads the enrolment line, and removes it from the arguments that other users of the machine see.
static int read_enrolment(struct agent_arguments *a, struct error *e)
{
    size_t len;
    int err = 0;
    if (a->enroll && a->enroll_file)
        return error_set(e, ERR_INVALID, "--enroll and --enroll-file: give one of them");
    if (a->enroll) {
        a->enrolment = xstrdup(a->enroll);
        memset((char *)a->enroll, '*', strlen(a->enroll));
    } else if (a->enroll_file && !strcmp(a->enroll_file, "-")) {
        err = read_line(&a->enrolment, e);
    } else if (a->enroll_file) {
        err = file_read(a->enroll_file, ENROLMENT_FILE_MAX, &a->enrolment, &len, e);
    }
    if (err)
        return error_prefix(e, "--enroll-file");
    if (a->agent.enrol_only && !a->enrolment)
        return error_set(e, ERR_INVALID,
                         "--enroll-only: give the line with --enroll or --enroll-file as well");
    a->agent.enrolment = a->enrolment;
    return 0;
}

// An agent without a credential uses the token that agents share.
static int require_master(const struct agent_arguments *a, struct error *e)
{
    if (!a->agent.token_file)
        return error_set(e, ERR_INVALID,
                         "this agent has no credential in %s yet: give --enroll with the line that "
                         "`muster agent enroll` prints, or --master and --token-file; see --help",
                         a->agent.work_dir);
    int err = require_flag(a->agent.master, "master", e);
    return err ? err : require_flag(a->agent.token_file, "token-file", e);
}

static int check_arguments(struct agent_arguments *a, struct error *e)
{
    enum log_level level;
    struct agent_options *o = &a->agent;
    o->task_account = o->task_account && *o->task_account ? o->task_account : NULL;
    o->task_group = o->task_group && *o->task_group ? o->task_group : NULL;
    int err = require_flag(a->agent.work_dir, "work-dir", e);
    if (!err)
        err = read_enrolment(a, e);
    if (!err && !a->enrolment && !credential_exists(a->agent.work_dir))
        err = require_master(a, e);
    if (err)
        return err;
    if (strcmp(a->gpus, "auto") != 0 && strcmp(a->gpus, "none") != 0)
        return error_set(e, ERR_INVALID, "--gpus: expected auto or none, found \"%s\"", a->gpus);
    a->agent.gpus = strcmp(a->gpus, "auto") == 0;
    if (log_parse_level(a->log_level, &level) != 0)
        return error_set(e, ERR_INVALID,
                         "--log-level: expected debug, info, warn or error, found \"%s\"",
                         a->log_level);
    log_set_level(level);
    a->agent.limits.disk.task_files = (uint64_t)a->task_files;
    return task_limits_parse(&a->limits, &a->agent.limits, e);
}

static int run_program(int argc, char **argv, struct error *e)
{
    struct agent_arguments a = {.gpus = "auto", .log_level = "info"};
    a.agent.limits = task_limits_default;
    a.task_files = (long long)task_limits_default.disk.task_files;
    struct flag flags[FLAGS_MAX];
    const char **rest = xcalloc((size_t)argc + 1, sizeof *rest);
    int rest_count = 0;
    make_flags(&a, flags);
    append_last_flags(&a, flags);
    int err = flags_parse(flags, argc, argv, rest, &rest_count, e);
    if (!err && a.help) {
        fputs(intro, stdout);
        flags_help(flags, stdout);
        fputs(outro, stdout);
    } else if (!err && a.version) {
        printf("muster-agent %s\n", muster_version);
    } else if (!err && rest_count > 0) {
        err = error_set(e, ERR_INVALID, "unexpected argument \"%s\"; --help lists the flags",
                        rest[0]);
    } else if (!err) {
        err = check_arguments(&a, e);
        err = err ? err : agent_run(&a.agent, e);
    }
    if (a.enrolment)
        explicit_bzero(a.enrolment, strlen(a.enrolment));
    free(a.enrolment);
    free(rest);
    return err;
}

int main(int argc, char **argv)
{
    struct error e = {0};
    int err = run_program(argc, argv, &e);
    if (err)
        fprintf(stderr, "muster-agent: %s\n", e.text);
    return err_exit_code(err);
}
