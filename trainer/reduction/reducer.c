// The number format (design: "order-free gradient sums"). Every tensor has an exponent e, the
// largest of any micro-batch gradient of the step before, falling by at most one per step. With V
// micro-batches per step, an element g becomes rint(g * 2^(p - e)) where p = 30 - ceil(log2 V) - 3:
// a tensor may grow 8-fold from one step to the next and the sum over all V still fits in int32.
// The peaks of the step, whose maximum goes round at its end, say whether one has grown more; then
// its exponent becomes that of its peak, and the step is gathered again, which suffices, for its
// gradients are the same. That is rare (a layer behind a zero-initialised one that wakes up), and
// a gradient never has to be looked at before it is added, which on a GPU would mean to wait.
//
// Measured exponents never go below EXPONENT_FLOOR: smaller gradients move no weight, and a tensor
// that was still has room to wake up. A tensor whose gradient is zero in a step keeps its exponent.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/exact.h"
#include "trainer/reduction/reducer_internal.h"

enum {
    GROWTH = 3,      // of an exponent in one step, in int32
    GROWTH_MAX = 34, // in one step at all
    EXPONENT_FLOOR = -24,
};

static size_t peaks_count(const struct reducer_config *c)
{
    return (size_t)c->parameter_count + 1;
}

static size_t checksums_count(const struct reducer_config *c)
{
    return (size_t)c->parameter_count * (size_t)c->world;
}

size_t reducer_arena_bytes(const struct reducer_config *c)
{
    return comm_padded(reducer_padded_size(c) * sizeof(int32_t)) +
           comm_padded(reducer_padded_size(c) * sizeof(float)) +
           comm_padded(c->sums * sizeof(int64_t)) + comm_padded(peaks_count(c) * sizeof(int32_t)) +
           comm_padded((size_t)c->parameter_count * sizeof(float)) +
           comm_padded(checksums_count(c) * sizeof(int32_t)) + comm_padded(sizeof(struct loss_sum));
}

static int precision_of(int64_t micro_batches)
{
    int bits = 0;
    while ((INT64_C(1) << bits) < micro_batches)
        bits++;
    return 30 - bits - GROWTH;
}

struct reducer *reducer_new(const struct reducer_config *config, struct comm *comm)
{
    must(config->world == comm_world(comm));
    struct reducer *s = xcalloc(1, sizeof *s);
    s->config = *config;
    s->comm = comm;
    s->gradients = comm_alloc(comm, reducer_padded_size(config) * sizeof *s->gradients);
    s->weights = comm_alloc(comm, reducer_padded_size(config) * sizeof *s->weights);
    s->sums = comm_alloc(comm, config->sums * sizeof *s->sums);
    s->peaks = comm_alloc(comm, peaks_count(config) * sizeof *s->peaks);
    s->scales = comm_alloc(comm, (size_t)config->parameter_count * sizeof *s->scales);
    s->checksums = comm_alloc(comm, checksums_count(config) * sizeof *s->checksums);
    s->loss = comm_alloc(comm, sizeof *s->loss);
    size_t parameters = (size_t)config->parameter_count;
    s->exponents = xcalloc(parameters, sizeof *s->exponents);
    s->heard = xcalloc(peaks_count(config), sizeof *s->heard);
    s->precision = precision_of(config->micro_batches);
    s->known = config->reduction == REDUCTION_FLOAT;
    size_t whole = reducer_padded_size(config) * sizeof *s->gradients;
    reducer_cut_buckets(s, config->fusion_bytes ? config->fusion_bytes : whole);
    return s;
}

void reducer_free(struct reducer *s)
{
    if (!s)
        return;
    free(s->heard);
    free(s->exponents);
    free(s->ranges);
    free(s->buckets);
    ops_recording_free(s->finish);
    free(s);
}

static bool is_exact(const struct reducer *s)
{
    return s->config.reduction == REDUCTION_EXACT;
}

const int32_t *reducer_exponents(const struct reducer *s)
{
    return is_exact(s) ? s->exponents : NULL;
}

void reducer_set_exponents(struct reducer *s, const int32_t *exponents)
{
    memcpy(s->exponents, exponents, (size_t)s->config.parameter_count * sizeof *exponents);
    s->known = true;
}

bool reducer_needs_calibration(const struct reducer *s)
{
    return !s->known;
}

// 2^(p - e): exact, and with e >= EXPONENT_FLOOR never out of range.
static float scale_of(const struct reducer *s, int parameter)
{
    return ldexpf(1.0f, s->precision - s->exponents[parameter]);
}

// Gathering.

static uint32_t *peak_of(const struct reducer *s, int parameter)
{
    return (uint32_t *)&s->peaks[parameter];
}

// A gradient that is too large for its scale is clamped: its peak has the step gathered again.
static void add_exact(struct reducer *s)
{
    struct ops_exact_part parts[OPS_EXACT_PARTS];
    for (int i = 0; i < s->waiting_count; i++) {
        const struct parameter *p = &s->config.parameters[s->waiting[i]];
        parts[i] = (struct ops_exact_part){p->count, s->gradients_of[i], s->scales + s->waiting[i],
                                           s->gradients + p->offset, peak_of(s, s->waiting[i])};
    }
    if (s->first)
        ops_exact_store(s->waiting_count, parts);
    else
        ops_exact_add(s->waiting_count, parts);
}

static void add_float(struct reducer *s, int parameter, const float *gradient)
{
    const struct parameter *p = &s->config.parameters[parameter];
    float *sum = (float *)s->gradients + p->offset;
    if (s->first)
        ops_copy(sum, gradient, p->count * sizeof *sum);
    else
        ops_float_add(p->count, gradient, sum);
}

static void send_next(void *ctx)
{
    struct reducer *s = ctx;
    enum comm_type type = is_exact(s) ? COMM_INT32 : COMM_FLOAT;
    struct bucket *b = &s->buckets[s->sent++];
    if (!s->err)
        s->err = reducer_start_bucket(s, b, COMM_REDUCE_SCATTER, type, s->gradients, &s->error);
}

// All are missing at the beginning of a pass.
static void count_missing(struct reducer *s)
{
    s->complete = 0;
    for (size_t i = 0; i < s->bucket_count; i++)
        s->buckets[i].missing = 0;
    for (int t = 0; t < s->config.parameter_count; t++)
        reducer_add_missing(s, t, 1);
}

// Buckets are sent in their order on every rank, whatever the order in which they fill. The
// counting is for a GPU that is told of the pass, the sending for each time that it is repeated.
static void send_complete(struct reducer *s)
{
    for (; s->complete < s->bucket_count && s->buckets[s->complete].missing == 0; s->complete++)
        ops_call_host(send_next, s);
    if (s->complete == s->bucket_count)
        count_missing(s);
}

static void gather_waiting(void *ctx)
{
    struct reducer *s = ctx;
    int count = s->waiting_count;
    if (is_exact(s) && count > 0)
        add_exact(s);
    for (int i = 0; i < count && !is_exact(s); i++)
        add_float(s, s->waiting[i], s->gradients_of[i]);
    s->waiting_count = 0;
    if (!s->last)
        return;
    for (int i = 0; i < count; i++)
        reducer_add_missing(s, s->waiting[i], -1);
    send_complete(s);
}

// A layer's gradients are added together: for a GPU that is one kernel.
static void gather(void *ctx, int parameter, const float *gradient)
{
    struct reducer *s = ctx;
    s->waiting[s->waiting_count] = parameter;
    s->gradients_of[s->waiting_count++] = gradient;
    if (s->waiting_count == OPS_EXACT_PARTS)
        gather_waiting(s);
}

struct gradient_sink reducer_sink(struct reducer *s)
{
    return (struct gradient_sink){
        .ready = gather, .done = gather_waiting, .ctx = s, .kind = &s->kind};
}

// A step.

static void forget_peaks(struct reducer *s)
{
    ops_zero(s->peaks, peaks_count(&s->config) * sizeof *s->peaks);
}

// The peaks of all ranks, once they are there.
static int hear_peaks(struct reducer *s, struct error *e)
{
    int count = s->config.parameter_count;
    ops_download(s->heard, s->peaks, peaks_count(&s->config) * sizeof *s->peaks);
    int err = comm_synchronize(s->comm, e);
    for (int t = 0; t < count; t++)
        s->heard[t] = fixed_exponent((uint32_t)s->heard[t]);
    return err;
}

static void send_scales(struct reducer *s, float (*of)(const struct reducer *s, int parameter))
{
    size_t bytes = (size_t)s->config.parameter_count * sizeof *s->scales;
    float *scales = xcalloc(1, bytes + 1);
    for (int t = 0; t < s->config.parameter_count; t++)
        scales[t] = of(s, t);
    ops_upload(s->scales, scales, bytes);
    free(scales);
}

void reducer_begin_step(struct reducer *s)
{
    must(!reducer_needs_calibration(s));
    count_missing(s);
    forget_peaks(s);
    if (is_exact(s))
        send_scales(s, scale_of);
    s->sent = 0;
    s->last = false;
    s->err = 0;
}

void reducer_begin_micro_batch(struct reducer *s, bool first, bool last)
{
    s->first = first;
    s->last = last;
    s->kind = first + 2 * last;
}

// A rank without micro-batches in this step takes part with zeros.
static void send_zeros(struct reducer *s)
{
    ops_zero(s->gradients, s->config.block_size * sizeof *s->gradients);
    while (s->sent < s->bucket_count)
        send_next(s);
}

static int send_totals(struct reducer *s, const struct reducer_totals *totals, struct error *e)
{
    ops_upload(&s->peaks[s->config.parameter_count], &totals->flag, sizeof totals->flag);
    ops_upload(s->loss, &totals->loss, sizeof *s->loss);
    const struct comm_work peaks = {
        .type = COMM_INT32, .op = COMM_MAX, .data = s->peaks, .count = peaks_count(&s->config)};
    const struct comm_work loss = {.type = COMM_INT64,
                                   .op = COMM_SUM,
                                   .data = s->loss,
                                   .count = sizeof *s->loss / sizeof(int64_t)};
    int err = reducer_start(s, &peaks, &s->peaks_ticket, e);
    return err ? err : reducer_start(s, &loss, &s->loss_ticket, e);
}

static int wait_totals(struct reducer *s, struct reducer_totals *totals, struct error *e)
{
    int err = reducer_wait(s, s->peaks_ticket, e);
    if (!err)
        err = reducer_wait(s, s->loss_ticket, e);
    ops_download(&totals->loss, s->loss, sizeof *s->loss);
    if (!err)
        err = hear_peaks(s, e);
    totals->flag = s->heard[s->config.parameter_count];
    return err;
}

// What the sink was given for a parameter, in a person's words.
static const char *gathered_word(const struct parameter *p)
{
    return p->momentum > 0 ? "statistic" : "gradient of";
}

static int refuse_not_finite(const struct reducer *s, struct error *e)
{
    for (int t = 0; t < s->config.parameter_count; t++)
        if (s->heard[t] == FIXED_NOT_FINITE)
            return error_set(e, ERR_CORRUPT,
                             "the %s %s is not a finite number: lower the learning rate, clip "
                             "gradients (clip_norm), or look for bad values in the data",
                             gathered_word(&s->config.parameters[t]), s->config.parameters[t].name);
    return 0;
}

static int refuse_exploded(const struct reducer *s, struct error *e)
{
    for (int t = 0; t < s->config.parameter_count; t++)
        if (s->heard[t] > s->exponents[t] + GROWTH_MAX)
            return error_set(e, ERR_CORRUPT,
                             "gradient exploded: the %s %s grew from 2^%d to 2^%d in one step; "
                             "lower the learning rate or lengthen its warm-up",
                             gathered_word(&s->config.parameters[t]), s->config.parameters[t].name,
                             s->exponents[t], s->heard[t]);
    return 0;
}

static bool make_room(struct reducer *s)
{
    bool outgrown = false;
    for (int t = 0; t < s->config.parameter_count; t++)
        if (s->heard[t] > s->exponents[t] + GROWTH) {
            s->exponents[t] = s->heard[t];
            outgrown = true;
        }
    return outgrown;
}

// What of [first, last) of the block is this rank's, one range after the other, from range *at on.
static bool next_own(const struct reducer *s, size_t first, size_t last, size_t *at,
                     struct optimizer_range *own)
{
    while (*at < s->range_count) {
        *own = s->ranges[(*at)++];
        own->first = own->first > first ? own->first : first;
        own->last = own->last < last ? own->last : last;
        if (own->first < own->last)
            return true;
    }
    return false;
}

static float unit_of(const struct reducer *s, int parameter)
{
    int exponent = is_exact(s) ? s->exponents[parameter] - s->precision : 0;
    return (float)ldexp(1.0 / (double)s->config.global_batch, exponent);
}

// The sums of this rank's ranges become gradients.
static void finish_tensor(struct reducer *s, int parameter)
{
    const struct parameter *p = &s->config.parameters[parameter];
    struct optimizer_range own;
    size_t range = 0;
    while (next_own(s, p->offset, p->offset + p->count, &range, &own))
        if (is_exact(s))
            ops_exact_to_float(own.last - own.first, s->scales + parameter,
                               s->gradients + own.first);
        else
            ops_float_scale(own.last - own.first, s->scales + parameter,
                            (float *)s->gradients + own.first);
}

static void finish_all(void *ctx)
{
    struct reducer *s = ctx;
    for (int t = 0; t < s->config.parameter_count; t++)
        finish_tensor(s, t);
}

static int32_t next_exponent(int32_t now, int32_t peak)
{
    if (peak == FIXED_ZERO)
        return now;
    int32_t next = peak > now - 1 ? peak : now - 1;
    return next > EXPONENT_FLOOR ? next : EXPONENT_FLOOR;
}

static void finish_tensors(struct reducer *s)
{
    send_scales(s, unit_of);
    ops_replay(&s->finish, finish_all, s);
    for (int t = 0; t < s->config.parameter_count && is_exact(s); t++)
        s->exponents[t] = next_exponent(s->exponents[t], s->heard[t]);
}

int reducer_finish_step(struct reducer *s, struct reducer_totals *totals, bool *again,
                        struct error *e)
{
    *again = false;
    if (!s->last)
        send_zeros(s);
    if (s->err)
        return error_set(e, s->err, "%s", s->error.text);
    must(s->sent == s->bucket_count); // the model has handed over every gradient
    int err = send_totals(s, totals, e);
    if (!err)
        err = reducer_wait_buckets(s, e);
    if (!err)
        err = wait_totals(s, totals, e);
    if (!err && is_exact(s))
        err = refuse_not_finite(s, e);
    if (!err && is_exact(s))
        err = refuse_exploded(s, e);
    if (!err && is_exact(s))
        *again = make_room(s);
    if (!err && !*again)
        finish_tensors(s);
    return err;
}

const float *reducer_gradients(const struct reducer *s)
{
    return (const float *)s->gradients;
}

// Before the first step.

static void probe(void *ctx, int parameter, const float *gradient)
{
    struct reducer *s = ctx;
    ops_exact_amax(s->config.parameters[parameter].count, gradient, peak_of(s, parameter));
}

struct gradient_sink reducer_calibration_begin(struct reducer *s)
{
    forget_peaks(s);
    return (struct gradient_sink){.ready = probe, .ctx = s};
}

int reducer_calibration_end(struct reducer *s, struct error *e)
{
    int err =
        reducer_all_reduce(s, s->peaks, (size_t)s->config.parameter_count, COMM_INT32, COMM_MAX, e);
    if (!err)
        err = hear_peaks(s, e);
    if (!err)
        err = refuse_not_finite(s, e);
    for (int t = 0; t < s->config.parameter_count && !err; t++)
        s->exponents[t] = next_exponent(EXPONENT_FLOOR, s->heard[t]);
    s->known = !err;
    return err;
}
