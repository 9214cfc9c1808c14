#include "cli/cluster/trouble.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "cli/cluster/facts.h"

// Messages of the daemons, with a part of their text.
static const struct {
    const char *daemon; // NULL: of any
    const char *text, *problem, *fix;
    enum finding_level level;
} known[] = {
    {"agent", "does not accept the token", "the master refuses the agent's credential",
     "muster cluster up gives it a new one", FINDING_ERROR},
    {"agent", "another agent with this id", "another agent has the same name",
     "find the other machine, with muster agent list, and give each its own name", FINDING_ERROR},
    {"agent", "no connection to the master", "the agent does not reach the master",
     "check the network and that the master runs", FINDING_ERROR},
    {"agent", "GPU fault", "a GPU has faults",
     "look at muster slot list; restart or replace the GPU", FINDING_ERROR},
    {"agent", "the NVIDIA driver does not report faults", "faults of the GPUs are not reported",
     "install a newer driver", FINDING_WARNING},
    {"agent", "tasks cannot have mounts of their own", "tasks cannot have mounts of their own",
     "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, and on Ubuntu "
     "kernel.apparmor_restrict_unprivileged_userns=0",
     FINDING_WARNING},
    {"master", "is in use by another program", "the master's port is taken by another program",
     "stop that program, or choose another master.port", FINDING_ERROR},
    {"master", "is no setting of the master", "a setting of the master is wrong",
     "correct master.settings in the hosts file, then run muster cluster up", FINDING_ERROR},
    {"master", "fewer connections than asked for", "the limit on open files is too low",
     "raise LimitNOFILE of muster-master.service", FINDING_WARNING},
    {NULL, "the disk is nearly full", "a disk is nearly full", "delete files; see muster help data",
     FINDING_WARNING},
    {NULL, "No space left on device", "a disk is full", "delete files; see muster help data",
     FINDING_ERROR},
    {NULL, "broken invariant", "the daemon has ended by a fault of its own",
     "report the lines of its log to the authors", FINDING_ERROR},
};

// A line of a daemon that reports why it ends.
static bool is_reason(const char *line, size_t len)
{
    return (len > 7 && strncmp(line, "muster-", 7) == 0 && memchr(line, ':', len)) ||
           memmem(line, len, "level=error", 11);
}

char *trouble_reason(const char *log)
{
    const char *reason = NULL, *last = NULL;
    size_t reason_len = 0, last_len = 0;
    for (const char *line = log; *line;) {
        size_t len = strcspn(line, "\n");
        if (len > 0) {
            last = line;
            last_len = len;
        }
        if (is_reason(line, len)) {
            reason = line;
            reason_len = len;
        }
        line += len + (line[len] == '\n');
    }
    if (reason)
        return xasprintf("%.*s", (int)reason_len, reason);
    return last ? xasprintf("%.*s", (int)last_len, last) : xstrdup("its log is empty");
}

// The part of the log since the daemon's last sign of health: a start, or a connection.
static const char *newest_part(const char *log)
{
    static const char *const signs[] = {"msg=\"agent started\"", "msg=\"core loaded\"",
                                        "msg=\"connected to the master\"", "msg=\"master is up\""};
    const char *part = log;
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        for (const char *at = strstr(part, signs[i]); at; at = strstr(at + 1, signs[i]))
            part = at > part ? at : part;
    return part;
}

void trouble_find(const char *log, const char *daemon, json_t *findings)
{
    const char *part = newest_part(log);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if ((!known[i].daemon || strcmp(known[i].daemon, daemon) == 0) &&
            strstr(part, known[i].text))
            finding_add(findings, known[i].level, known[i].fix, "%s (log of muster-%s)",
                        known[i].problem, daemon);
}
