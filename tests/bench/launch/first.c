// The program whose start is measured. It appends the time of the first instruction of main() as
// one line to the given file. It uses a single write in append mode, so lines of many ranks do not
// mix.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const char *experiment = getenv("DET_EXPERIMENT_ID"), *rank = getenv("RANK");
    int fd = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    char line[128];
    int len = snprintf(line, sizeof line, "%s %s %lld\n", experiment ? experiment : "0",
                       rank ? rank : "0", now.tv_sec * 1000000000LL + now.tv_nsec);
    return fd >= 0 && write(fd, line, (size_t)len) == len ? 0 : 1;
}
