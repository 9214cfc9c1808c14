#include "trainer/loop/process_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/file.h"

enum { STATUS_MAX = 64 * 1024, LINE_BYTES = 8192 };

static int64_t bytes_of(const char *status, const char *key)
{
    const char *line = strstr(status, key);
    return line ? 1024 * strtoll(line + strlen(key), NULL, 10) : 0;
}

// The sum of the lengths of all mappings that have an inode.
int64_t process_mapped_bytes(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[LINE_BYTES];
    int64_t sum = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long long first, last, inode;
        if (sscanf(line, "%llx-%llx %*s %*s %*s %llu", &first, &last, &inode) == 3 && inode)
            sum += (int64_t)(last - first);
    }
    if (maps)
        fclose(maps);
    return sum;
}

void process_memory_read(struct process_memory *out)
{
    char *status = NULL;
    *out = (struct process_memory){0};
    if (file_read("/proc/self/status", STATUS_MAX, &status, NULL, NULL) == 0)
        *out = (struct process_memory){
            .resident = bytes_of(status, "\nVmRSS:"),
            .peak = bytes_of(status, "\nVmHWM:"),
            .anonymous = bytes_of(status, "\nRssAnon:"),
            .files = bytes_of(status, "\nRssFile:"),
            .shared = bytes_of(status, "\nRssShmem:"),
        };
    free(status);
}
