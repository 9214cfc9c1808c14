// Shared by the programs of this folder: a rendezvous of two ranks in a folder, and the
// measurement.
//   PROGRAM RANK FOLDER time|loop
// `time` prints the time of an all-reduce of int32; `loop` runs until the peer is lost, and prints
// the error and its time (CLOCK_MONOTONIC, seconds).
#ifndef MUSTER_TESTS_BENCH_NETWORK_MEET_H
#define MUSTER_TESTS_BENCH_NETWORK_MEET_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES_MAX = 16 << 20, ROUNDS = 5, ADDRESS_MAX = 4096 };

typedef int all_reduce_fn(int32_t *data, size_t count); // 0, or an error code

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void meet_publish(const char *folder, const char *name, int rank, const void *data,
                                size_t len)
{
    char draft[256], path[256];
    snprintf(draft, sizeof draft, "%s/%s-%d.draft", folder, name, rank);
    snprintf(path, sizeof path, "%s/%s-%d", folder, name, rank);
    FILE *f = fopen(draft, "w");
    fwrite(data, 1, len, f);
    fclose(f);
    rename(draft, path);
}

static inline size_t meet_read(const char *folder, const char *name, int rank, void *data)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s-%d", folder, name, rank);
    while (access(path, R_OK))
        usleep(1000);
    FILE *f = fopen(path, "r");
    size_t len = fread(data, 1, ADDRESS_MAX, f);
    fclose(f);
    return len;
}

static inline void measure_all_reduce(int rank, int32_t *data, all_reduce_fn *all_reduce)
{
    const size_t sizes[] = {1 << 10, 1 << 20, BYTES_MAX};
    const int times[] = {600, 60, 6};
    for (int s = 0; s < 3; s++) {
        double best = 1e9;
        for (int r = 0; r < ROUNDS; r++) {
            double began = now();
            for (int i = 0; i < times[s]; i++)
                if (all_reduce(data, sizes[s] / sizeof *data))
                    exit(1);
            double took = (now() - began) / times[s];
            best = took < best ? took : best;
        }
        if (rank == 0)
            printf("  %5zu KiB %10.1f us\n", sizes[s] >> 10, best * 1e6);
    }
}

#endif
