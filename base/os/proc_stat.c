#include "base/os/proc_stat.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// proc(5): pid (name) state ppid pgrp session tty tpgid flags .. utime stime .. num_threads ..; the
// name may contain any character.
bool proc_stat_parse(const char *text, struct proc_stat *out)
{
    unsigned long user = 0, system = 0;
    const char *fields = strrchr(text, ')');
    *out = (struct proc_stat){0};
    if (!fields ||
        sscanf(fields, ") %c %d %d %d %*d %*d %u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %d",
               &out->state, &out->parent, &out->group, &out->session, &out->flags, &user, &system,
               &out->threads) != 8)
        return false;
    out->dead = out->state == 'Z' || out->state == 'X';
    out->cpu = (int64_t)(user + system) * 1000000 / sysconf(_SC_CLK_TCK);
    return true;
}
