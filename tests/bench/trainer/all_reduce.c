// Measures all-reduces of int32 between the ranks of one machine: the median time for each of a few
// sizes. Prints {"1024": microseconds, ...} by bytes.
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "trainer/launcher/gang.h"

enum { WORLD = 2, ROUNDS = 60 };
static const size_t sizes[] = {1024, 1 << 20, 16 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], CALLS_OF_SMALL = 100 };

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Returns the microseconds of one all-reduce. Small ones are too short to be timed individually.
static double measure_all_reduce(struct comm *c, int32_t *data, size_t bytes)
{
    double times[ROUNDS];
    int calls = bytes < (1 << 20) ? CALLS_OF_SMALL : 1;
    struct error e;
    for (int r = 0; r < ROUNDS; r++) {
        must(comm_barrier(c, &e) == 0);
        int64_t begin = clock_mono_us();
        for (int i = 0; i < calls; i++)
            must(comm_all_reduce(c, data, bytes / sizeof *data, COMM_INT32, COMM_SUM, &e) == 0);
        times[r] = (double)(clock_mono_us() - begin) / calls;
    }
    qsort(times, ROUNDS, sizeof *times, compare_doubles);
    return times[ROUNDS / 2];
}

static int measure_rank(struct gang_member *member, void *ctx)
{
    const struct comm_config config = {.rank = member->rank,
                                       .world = member->world,
                                       .arena_bytes = comm_padded(sizes[SIZES - 1]),
                                       .rendezvous = {gang_all_gather, member}};
    struct comm *c = NULL;
    struct error e;
    (void)ctx;
    must(comm_open(&config, &c, &e) == 0);
    int32_t *data = comm_alloc(c, sizes[SIZES - 1]);
    for (int i = 0; i < SIZES; i++) {
        double us = measure_all_reduce(c, data, sizes[i]);
        if (member->rank == 0)
            printf("%s\"%zu\": %.2f%s", i ? ", " : "{", sizes[i], us, i < SIZES - 1 ? "" : "}\n");
    }
    fflush(stdout);
    comm_close(c);
    return 0;
}

static void ignore_message(void *ctx, int from, const json_t *message)
{
    (void)ctx, (void)from, (void)message;
}

int main(void)
{
    const struct gang_spec spec = {.world = WORLD, .rank = measure_rank, .message = ignore_message};
    struct gang_result result;
    struct error e;
    if (gang_run(&spec, &result, &e)) {
        fprintf(stderr, "bench_all_reduce: %s\n", e.text);
        return 1;
    }
    return result.failed_rank >= 0;
}
