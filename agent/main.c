#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/arena.h"
#include "base/flags.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/version.h"

static const char intro[] =
    "Usage: muster-agent --master URL --token-file FILE --work-dir DIR [flags]\n"
    "\n"
    "Runs on every machine of the cluster: tells the master which slots are here, starts the\n"
    "processes that the master places on them, and sends their logs. Tasks outlive the agent: "
    "stop\n"
    "it, upgrade it, start it again with the same --work-dir, and it takes them up.\n"
    "\n"
    "  muster-agent --master http://head:8080 --token-file agent.token --work-dir /var/lib/muster\n"
    "  muster-agent ... --slots 2        two CPU slots\n"
    "  muster-agent ... --gpus none      CPU slots on a machine that has GPUs\n"
    "\n"
    "Flags:\n";

static const char outro[] =
    "\n"
    "Exit codes: 0 stopped by SIGTERM or SIGINT; 2 wrong flags; 3 a file is missing; 4 the master\n"
    "refuses the token; 5 the work folder belongs to a running agent; 1 anything else.\n";

struct arguments {
    struct agent_options agent;
    const char *gpus, *log_level;
    bool help, version;
};

enum { FLAGS_MAX = 16 };

#define TEXT(name_, target_, value_, help_)                                                        \
    {                                                                                              \
        .name = name_, .kind = FLAG_STRING, .target = target_, .value_name = value_, .help = help_ \
    }

static void make_flags(struct arguments *a, struct flag out[FLAGS_MAX])
{
    struct agent_options *o = &a->agent;
    const struct flag flags[FLAGS_MAX] = {
        {.name = "master",
         .kind = FLAG_STRING,
         .target = &o->master,
         .value_name = "URL",
         .help = "address of the master",
         .env = "MUSTER_MASTER"},
        TEXT("token-file", &o->token_file, "FILE",
             "the agent token; the master writes it to agent.token in its data folder"),
        TEXT("work-dir", &o->work_dir, "DIR",
             "folder for tasks and their logs, on a local disk, kept over restarts"),
        TEXT("id", &o->id, "NAME", "name in the cluster (default: the host's name)"),
        {.name = "slots",
         .kind = FLAG_INT,
         .target = &o->slots,
         .value_name = "N",
         .help = "so many CPU slots (default: the GPUs; without GPUs one CPU slot per core)",
         .min = 1,
         .max = LIMIT_SLOTS_PER_AGENT},
        TEXT("gpus", &a->gpus, "auto|none", "whether GPUs become slots (default: auto)"),
        TEXT("pool", &o->pool, "NAME", "resource pool (default: default)"),
        TEXT("rack", &o->rack, "NAME",
             "rack or switch of this machine; gangs are kept within one where they fit"),
        TEXT("address", &o->address, "HOST",
             "how other machines reach this one (default: its address towards the master)"),
        TEXT("ca-file", &o->ca_file, "FILE",
             "PEM of authorities trusted for https:// beside the system's"),
        TEXT("log-level", &a->log_level, "LEVEL", "debug, info, warn or error (default: info)"),
        {.name = "version", .kind = FLAG_BOOL, .target = &a->version, .help = "print the version"},
        {.name = "help",
         .letter = 'h',
         .kind = FLAG_BOOL,
         .target = &a->help,
         .help = "print this"},
    };
    memcpy(out, flags, sizeof flags);
}

static int require(const char *value, const char *flag, struct error *e)
{
    return value && *value ? 0
                           : error_set(e, ERR_INVALID, "--%s is missing; --help explains it", flag);
}

static int check(struct arguments *a, struct error *e)
{
    enum log_level level;
    int rc = require(a->agent.master, "master", e);
    if (rc == 0)
        rc = require(a->agent.token_file, "token-file", e);
    if (rc == 0)
        rc = require(a->agent.work_dir, "work-dir", e);
    if (rc != 0)
        return rc;
    if (strcmp(a->gpus, "auto") != 0 && strcmp(a->gpus, "none") != 0)
        return error_set(e, ERR_INVALID, "--gpus is auto or none, not \"%s\"", a->gpus);
    a->agent.gpus = strcmp(a->gpus, "auto") == 0;
    if (log_parse_level(a->log_level, &level) != 0)
        return error_set(e, ERR_INVALID, "--log-level is debug, info, warn or error, not \"%s\"",
                         a->log_level);
    log_set_level(level);
    return 0;
}

static int run(int argc, char **argv, struct error *e)
{
    struct arguments a = {.agent.pool = "default", .gpus = "auto", .log_level = "info"};
    struct flag flags[FLAGS_MAX];
    const char **rest = xcalloc((size_t)argc + 1, sizeof *rest);
    int rest_count = 0;
    make_flags(&a, flags);
    int rc = flags_parse(flags, argc, argv, rest, &rest_count, e);
    if (rc == 0 && a.help) {
        fputs(intro, stdout);
        flags_help(flags, stdout);
        fputs(outro, stdout);
    } else if (rc == 0 && a.version) {
        printf("muster-agent %s\n", muster_version);
    } else if (rc == 0 && rest_count > 0) {
        rc = error_set(e, ERR_INVALID, "\"%s\" is no flag; --help lists them", rest[0]);
    } else if (rc == 0) {
        rc = check(&a, e);
        rc = rc == 0 ? agent_run(&a.agent, e) : rc;
    }
    free(rest);
    return rc;
}

int main(int argc, char **argv)
{
    struct error e = {0};
    int rc = run(argc, argv, &e);
    if (rc != 0)
        fprintf(stderr, "muster-agent: %s\n", e.text);
    return err_exit_code(rc);
}
