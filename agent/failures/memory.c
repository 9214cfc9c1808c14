#include "agent/failures/memory.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 64 * 1024, PATH_MAX_BYTES = 4096 };

int64_t memory_read_field(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, len) != 0)
            continue;
        const char *at = line + len + strspn(line + len, " \t");
        if (isdigit((unsigned char)*at))
            return strtoll(at, NULL, 10);
    }
    return -1;
}

static int64_t read_number(const char *path, const char *name)
{
    static _Thread_local char text[FILE_MAX];
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return memory_read_field(text, name);
}

// The file of this process's cgroup; version 2 has one line "0::/PATH".
static int64_t read_cgroup(const char *file, const char *name)
{
    char line[PATH_MAX_BYTES], path[PATH_MAX_BYTES + 64];
    FILE *own = fopen("/proc/self/cgroup", "re");
    bool found = own && fgets(line, sizeof line, own) && strncmp(line, "0::/", 4) == 0;
    if (own)
        fclose(own);
    if (!found)
        return -1;
    line[strcspn(line, "\n")] = '\0';
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", line + 3, file);
    return read_number(path, name);
}

struct memory_kills memory_count_kills(void)
{
    return (struct memory_kills){
        .cgroup = read_cgroup("memory.events", "oom_kill "),
        .machine = read_number("/proc/vmstat", "oom_kill "),
    };
}

enum memory_verdict memory_judge(const struct memory_kills *before,
                                 const struct memory_kills *after)
{
    if (before->cgroup >= 0 && after->cgroup >= 0)
        return after->cgroup > before->cgroup ? MEMORY_KILLED : MEMORY_NOT_KILLED;
    bool some = before->machine >= 0 && after->machine > before->machine;
    return some ? MEMORY_MAYBE_KILLED : MEMORY_NOT_KILLED;
}

int64_t memory_bytes(void)
{
    int64_t kib = read_number("/proc/meminfo", "MemTotal:");
    int64_t machine = kib > 0 ? kib * 1024 : 0, own = read_cgroup("memory.max", "");
    return own > 0 && (own < machine || machine == 0) ? own : machine;
}
