#include "master/common/process_figures.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { STAT_MAX = 4096 };

// Reads a file of /proc, whose size is not known before. False: it cannot be read.
static bool read_proc(const char *path, char *out, size_t cap)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(out, 1, cap - 1, f) : 0;
    out[n] = '\0';
    if (f)
        fclose(f);
    return n;
}

// The time of the boot, in seconds since 1970. /proc/stat has it, too, but ProcSubset=pid of the
// unit hides that file.
static double booted_at(void)
{
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    return (double)clock_wall_us() / 1e6 - (double)boot.tv_sec - (double)boot.tv_nsec / 1e9;
}

// The first answer counts, because the clock may be set later.
static double started_at(double after_boot)
{
    static _Atomic double first;
    double none = 0, found = booted_at() + after_boot;
    return atomic_compare_exchange_strong(&first, &none, found) ? found : none;
}

static int64_t count_files(void)
{
    int64_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        count += *entry->d_name != '.';
    closedir(dir);
    return count - 1; // without the descriptor of the folder itself
}

void process_figures_read(struct process_figures *out)
{
    char text[STAT_MAX];
    unsigned long user, system, bytes;
    long threads, pages;
    unsigned long long start;
    struct rlimit files;
    double per_second = (double)sysconf(_SC_CLK_TCK);
    *out = (struct process_figures){-1, -1, -1, -1, -1, -1, -1};
    const char *rest = read_proc("/proc/self/stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    // Fields 3 to 24 of proc(5): the name of the program may contain blanks and parentheses.
    if (rest && sscanf(rest + 1,
                       " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %ld "
                       "%*d %llu %lu %ld",
                       &user, &system, &threads, &start, &bytes, &pages) == 6) {
        out->cpu_s = (double)(user + system) / per_second;
        out->threads = threads;
        out->started_at = started_at((double)start / per_second);
        out->virtual_bytes = (int64_t)bytes;
        out->resident_bytes = (int64_t)pages * sysconf(_SC_PAGESIZE);
    }
    out->open_files = count_files();
    if (!getrlimit(RLIMIT_NOFILE, &files))
        out->most_files = (int64_t)files.rlim_cur;
}
