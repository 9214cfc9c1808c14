// Compares the weights of the ranks, to detect faulty memory and bugs. Optimizer state is not
// compared, because every part of it exists on one rank only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "trainer/ops/device.h"
#include "trainer/reduction/reducer_internal.h"

struct replicas {
    const struct parameter *parameters;
    int world, count;   // ranks, parameters
    int32_t *checksums; // [world][count]
};

static const int32_t *checksums_of(const struct replicas *s, int rank)
{
    return s->checksums + rank * s->count;
}

static bool rows_equal(const struct replicas *s, int a, int b)
{
    size_t bytes = (size_t)s->count * sizeof *s->checksums;
    return memcmp(checksums_of(s, a), checksums_of(s, b), bytes) == 0;
}

// Finds a rank whose weights the largest number of ranks hold; the first one if several qualify.
static int find_majority(const struct replicas *s, int *holders)
{
    int best = 0;
    *holders = 0;
    for (int r = 0; r < s->world; r++) {
        int equal = 0;
        for (int i = 0; i < s->world; i++)
            equal += rows_equal(s, r, i);
        if (equal > *holders) {
            *holders = equal;
            best = r;
        }
    }
    return best;
}

static const char *first_difference(const struct replicas *s, int right)
{
    for (int t = 0; t < s->count; t++)
        for (int r = 0; r < s->world; r++)
            if (checksums_of(s, r)[t] != checksums_of(s, right)[t])
                return s->parameters[t].name;
    return "none";
}

static int report_difference(const struct replicas *s, struct error *e)
{
    int holders = 0, right = find_majority(s, &holders);
    const char *tensor = first_difference(s, right);
    if (2 * holders <= s->world)
        return error_set(
            e, ERR_CORRUPT,
            "the ranks hold different weights, and no majority agrees; the first "
            "tensor that differs is %s. Restart from a checkpoint and check the memory "
            "of the machines",
            tensor);
    char text[ERROR_TEXT_MAX / 2] = "";
    size_t len = 0;
    int named = 0;
    for (int r = 0; r < s->world && len < sizeof text; r++)
        if (!rows_equal(s, r, right))
            len += (size_t)snprintf(text + len, sizeof text - len, named++ ? ", %d" : "%d", r);
    return error_set(e, ERR_CORRUPT,
                     "%s %s %s other weights than the majority; the first tensor that differs is "
                     "%s. Restart from a checkpoint and check the memory of that machine",
                     named > 1 ? "ranks" : "rank", text, named > 1 ? "hold" : "holds", tensor);
}

// Computes this rank's row of checksums.
static int compute_checksums(const struct reducer *s, int32_t *row, struct error *e)
{
    size_t largest = 0;
    int err = 0;
    for (int t = 0; t < s->config.parameter_count; t++)
        largest = s->config.parameters[t].count > largest ? s->config.parameters[t].count : largest;
    float *values = xcalloc(largest, sizeof *values);
    for (int t = 0; t < s->config.parameter_count && !err; t++) {
        const struct parameter *p = &s->config.parameters[t];
        ops_download(values, s->weights + p->offset, p->count * sizeof *values);
        err = ops_synchronize(e);
        uint32_t sum = crc32c(0, values, p->count * sizeof *values);
        memcpy(&row[t], &sum, sizeof sum);
    }
    free(values);
    return err;
}

// Gathers the rows of all ranks.
static int gather_checksums(struct reducer *s, struct replicas *r, struct error *e)
{
    size_t row = (size_t)r->count * sizeof *r->checksums, rank = (size_t)comm_rank(s->comm);
    const struct comm_work work = {.kind = COMM_ALL_GATHER,
                                   .type = COMM_INT32,
                                   .unit = (size_t)r->count,
                                   .data = s->checksums,
                                   .count = (size_t)(r->world * r->count)};
    ops_upload(s->checksums + rank * (size_t)r->count, checksums_of(r, (int)rank), row);
    int err = comm_run(s->comm, &work, e);
    ops_download(r->checksums, s->checksums, row * (size_t)r->world);
    if (!err)
        err = comm_synchronize(s->comm, e);
    return err ? err : comm_barrier(s->comm, e); // then the checksums may be overwritten
}

int reducer_verify(struct reducer *s, struct error *e)
{
    int rank = comm_rank(s->comm), count = s->config.parameter_count, world = s->config.world;
    struct replicas all = {s->config.parameters, world, count,
                           xcalloc((size_t)(world * count), sizeof *all.checksums)};
    int err = reducer_wait_weights(s, e);
    if (!err)
        err = compute_checksums(s, all.checksums + rank * count, e);
    if (!err)
        err = gather_checksums(s, &all, e);
    for (int r = 0; r < world && !err; r++)
        if (!rows_equal(&all, r, rank))
            err = report_difference(&all, e);
    free(all.checksums);
    return err;
}
