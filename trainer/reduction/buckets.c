// Ownership: the parameter block is cut into buckets, and every bucket into one part for each rank.
// A part consists of whole optimizer cells. All parts of a bucket have the same size, because NCCL
// has a single operation for equal parts. Therefore the block is padded with zeros to a multiple of
// one cell for each rank; nobody reads the padding.
#include "trainer/reduction/reducer_internal.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

size_t reducer_padded_size(const struct reducer_config *c)
{
    return round_up(c->block_size, OPTIMIZER_CELL * (size_t)c->world);
}

static size_t block_cells(const struct reducer *s)
{
    return reducer_padded_size(&s->config) / OPTIMIZER_CELL;
}

static size_t bucket_cells(const struct reducer *s)
{
    size_t cells = s->fusion_bytes / (OPTIMIZER_CELL * sizeof(float));
    return round_up(cells > 0 ? cells : 1, (size_t)s->config.world);
}

// Lists this rank's part of each bucket, in the order of the block; padding is left out.
static void list_ranges(struct reducer *s)
{
    const size_t size = s->config.block_size;
    s->range_count = 0;
    for (size_t i = s->bucket_count; i-- > 0;) {
        const struct bucket *b = &s->buckets[i];
        struct comm_part part =
            comm_part(b->count, OPTIMIZER_CELL, s->config.world, comm_rank(s->comm));
        size_t first = b->first + part.first, last = b->first + part.last;
        if (first < size)
            s->ranges[s->range_count++] =
                (struct optimizer_range){first, last < size ? last : size};
    }
}

void reducer_cut_buckets(struct reducer *s, size_t fusion_bytes)
{
    s->fusion_bytes = fusion_bytes;
    size_t cells = bucket_cells(s), end = block_cells(s);
    s->bucket_count = (end + cells - 1) / cells;
    free(s->buckets);
    free(s->ranges);
    ops_recording_free(s->conversion);
    s->conversion = NULL;
    s->buckets = xcalloc(s->bucket_count, sizeof *s->buckets);
    s->ranges = xcalloc(s->bucket_count, sizeof *s->ranges);
    for (size_t i = 0; i < s->bucket_count; i++) {
        size_t begin = end > cells ? end - cells : 0;
        s->buckets[i] = (struct bucket){.first = begin * OPTIMIZER_CELL,
                                        .count = (end - begin) * OPTIMIZER_CELL};
        end = begin;
    }
    list_ranges(s);
}

size_t reducer_fusion_bytes(const struct reducer *s)
{
    return s->fusion_bytes;
}

void reducer_add_missing(struct reducer *s, int parameter, int change)
{
    const struct parameter *p = &s->config.parameters[parameter];
    size_t end = block_cells(s) - 1, cells = bucket_cells(s);
    size_t first = (end - (p->offset + p->count - 1) / OPTIMIZER_CELL) / cells;
    size_t last = (end - p->offset / OPTIMIZER_CELL) / cells;
    for (size_t i = first; i <= last; i++)
        s->buckets[i].missing += change;
}

const struct optimizer_range *reducer_ranges(const struct reducer *s, int *count)
{
    *count = (int)s->range_count;
    return s->ranges;
}

// --- communication, with its time counted as OPS_COMMUNICATION -----------------------------------

int64_t reducer_background_us(const struct reducer *s)
{
    return comm_background_us(s->comm);
}

int reducer_start(struct reducer *s, const struct comm_work *work, uint32_t *ticket,
                  struct error *e)
{
    enum ops_phase before = ops_phase(OPS_COMMUNICATION);
    int err = comm_start(s->comm, work, ticket, e);
    ops_phase(before);
    return err;
}

int reducer_wait(struct reducer *s, uint32_t ticket, struct error *e)
{
    enum ops_phase before = ops_phase(OPS_COMMUNICATION);
    int err = comm_wait(s->comm, ticket, e);
    ops_phase(before);
    return err;
}

int reducer_all_reduce(struct reducer *s, void *data, size_t count, enum comm_type type,
                       enum comm_op op, struct error *e)
{
    enum ops_phase before = ops_phase(OPS_COMMUNICATION);
    int err = comm_all_reduce(s->comm, data, count, type, op, e);
    ops_phase(before);
    return err;
}

int reducer_start_bucket(struct reducer *s, struct bucket *b, enum comm_kind kind,
                         enum comm_type type, void *block, struct error *e)
{
    const struct comm_work work = {.kind = kind,
                                   .type = type,
                                   .op = COMM_SUM,
                                   .unit = OPTIMIZER_CELL,
                                   .data = (float *)block + b->first,
                                   .count = b->count};
    return reducer_start(s, &work, &b->ticket, e);
}

// Sums doubles over the ranks as integers. Only one rank contributes to each number and the others
// give zero bits, so the integer sum of the bits is exact and independent of the order.
static int combine_sums(void *ctx, double *sums, size_t count, struct error *e)
{
    struct reducer *s = ctx;
    must(count <= s->config.sums);
    ops_upload(s->sums, sums, count * sizeof *sums);
    int err = reducer_all_reduce(s, s->sums, count, COMM_INT64, COMM_SUM, e);
    ops_download(sums, s->sums, count * sizeof *sums);
    return err ? err : comm_synchronize(s->comm, e);
}

struct optimizer_peers reducer_peers(struct reducer *s)
{
    return (struct optimizer_peers){.combine = combine_sums, .ctx = s};
}

// --- gathering whole blocks ----------------------------------------------------------------------

float *reducer_weights(struct reducer *s)
{
    return s->weights;
}

static int start_gather(struct reducer *s, float *block, struct error *e)
{
    enum ops_phase before = ops_phase(OPS_COMMUNICATION);
    int err = 0;
    for (size_t i = 0; i < s->bucket_count && !err; i++)
        err = reducer_start_bucket(s, &s->buckets[i], COMM_ALL_GATHER, COMM_FLOAT, block, e);
    ops_phase(before);
    return err;
}

int reducer_wait_buckets(struct reducer *s, struct error *e)
{
    enum ops_phase before = ops_phase(OPS_COMMUNICATION);
    int err = 0;
    for (size_t i = 0; i < s->bucket_count && !err; i++)
        err = reducer_wait(s, s->buckets[i].ticket, e);
    ops_phase(before);
    return err;
}

int reducer_gather_weights(struct reducer *s, struct error *e)
{
    s->weights_started = true;
    return start_gather(s, s->weights, e);
}

int reducer_wait_weights(struct reducer *s, struct error *e)
{
    bool sent = s->weights_started;
    s->weights_started = false;
    return sent ? reducer_wait_buckets(s, e) : 0;
}

int reducer_collect(struct reducer *s, float *block, struct error *e)
{
    float *stage = (float *)s->gradients;
    for (size_t i = 0; i < s->range_count; i++) {
        const struct optimizer_range *r = &s->ranges[i];
        ops_copy(stage + r->first, block + r->first, (r->last - r->first) * sizeof *block);
    }
    int err = reducer_wait_weights(s, e); // the gather below reuses the tickets of the buckets
    if (!err)
        err = start_gather(s, stage, e);
    if (!err)
        err = reducer_wait_buckets(s, e);
    if (!err && comm_rank(s->comm) == 0)
        ops_copy(block, stage, s->config.block_size * sizeof *block);
    return err ? err : comm_barrier(s->comm, e); // until here peers may read this rank's staging
}
