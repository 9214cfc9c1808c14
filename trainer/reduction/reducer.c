// The number format. Every tensor has an exponent e: that of its largest micro-batch gradient in
// the previous step; it falls by at most one per step. With V micro-batches per step, an element g
// becomes rint(g * 2^(p - e)) with p = 30 - ceil(log2 V) - 3. So a tensor may grow 8-fold from one
// step to the next, and the sum over all V micro-batches still fits into int32.
//
// At the end of a step the ranks exchange the maximum of their amaxes (largest |g| of each tensor).
// If a tensor has grown more than 8-fold, its exponent is raised to that of its amax and the step
// is repeated; once is enough, because the gradients are the same. This is rare (a layer behind a
// zero-initialised one), and it means that no gradient is inspected before it is added. On a GPU an
// inspection would make the host wait.
//
// Exponents never fall below EXPONENT_FLOOR: smaller gradients do not move any weight, and a tensor
// whose gradient was zero has room to grow. A tensor whose gradient is zero in a step keeps its
// exponent.
//
// The tensors that the model quantises to FP8 have exponents by the same rule, found in the same
// exchange: the maximum over all ranks and micro-batches of a step, falling by at most one. A
// tensor that outgrows its exponent is clamped in that step; the step is not repeated.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/exact.h"
#include "trainer/ops/fp8.h"
#include "trainer/reduction/reducer_internal.h"

enum {
    GROWTH = 3,      // by which an exponent may grow in one step without a repetition
    GROWTH_MAX = 34, // growth in one step that is reported as an explosion
    EXPONENT_FLOOR = -24,
};

static int tensor_count(const struct reducer_config *c)
{
    return c->parameter_count + c->quantised_count;
}

static size_t amax_count(const struct reducer_config *c)
{
    return (size_t)tensor_count(c) + 1;
}

static size_t checksums_count(const struct reducer_config *c)
{
    return (size_t)c->parameter_count * (size_t)c->world;
}

size_t reducer_arena_bytes(const struct reducer_config *c)
{
    return comm_padded(reducer_padded_size(c) * sizeof(int32_t)) +
           comm_padded(reducer_padded_size(c) * sizeof(float)) +
           comm_padded(c->sums * sizeof(int64_t)) + comm_padded(amax_count(c) * sizeof(int32_t)) +
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
    s->amaxes = comm_alloc(comm, amax_count(config) * sizeof *s->amaxes);
    s->scales = comm_alloc(comm, (size_t)config->parameter_count * sizeof *s->scales);
    s->checksums = comm_alloc(comm, checksums_count(config) * sizeof *s->checksums);
    s->loss = comm_alloc(comm, sizeof *s->loss);
    s->exponents = xcalloc((size_t)tensor_count(config), sizeof *s->exponents);
    s->global_exponents = xcalloc(amax_count(config), sizeof *s->global_exponents);
    s->precision = precision_of(config->micro_batches);
    s->exponents_known = config->reduction == REDUCTION_FLOAT;
    s->quantised_known = config->quantised_count == 0;
    size_t whole = reducer_padded_size(config) * sizeof *s->gradients;
    reducer_cut_buckets(s, config->fusion_bytes ? config->fusion_bytes : whole);
    return s;
}

void reducer_free(struct reducer *s)
{
    if (!s)
        return;
    free(s->global_exponents);
    free(s->exponents);
    free(s->ranges);
    free(s->buckets);
    ops_recording_free(s->conversion);
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
    for (int t = 0; t < s->config.parameter_count; t++) // a checkpoint may come from anybody
        s->exponents[t] = exponents[t] > EXPONENT_FLOOR ? exponents[t] : EXPONENT_FLOOR;
    s->exponents_known = true;
}

const int32_t *reducer_quantised_exponents(const struct reducer *s)
{
    bool some = s->config.quantised_count > 0 && s->quantised_known;
    return some ? s->exponents + s->config.parameter_count : NULL;
}

void reducer_set_quantised_exponents(struct reducer *s, const int32_t *exponents)
{
    memcpy(s->exponents + s->config.parameter_count, exponents,
           (size_t)s->config.quantised_count * sizeof *exponents);
    s->quantised_known = true;
}

uint32_t *reducer_quantised_amaxes(struct reducer *s)
{
    return (uint32_t *)&s->amaxes[s->config.parameter_count];
}

bool reducer_needs_calibration(const struct reducer *s)
{
    return !s->exponents_known || !s->quantised_known;
}

// 2^(p - e): exact, and in range because e >= EXPONENT_FLOOR.
static float fixed_scale_of(const struct reducer *s, int parameter)
{
    return ldexpf(1.0f, s->precision - s->exponents[parameter]);
}

// --- the gradient sink ---------------------------------------------------------------------------

static uint32_t *amax_of(const struct reducer *s, int parameter)
{
    return (uint32_t *)&s->amaxes[parameter];
}

// A gradient that is too large for its scale is clamped; its amax then causes a repetition.
static void add_exact(struct reducer *s)
{
    struct ops_exact_part parts[OPS_EXACT_PARTS];
    for (int i = 0; i < s->queued_count; i++) {
        const struct parameter *p = &s->config.parameters[s->queued[i]];
        parts[i] =
            (struct ops_exact_part){p->count, s->queued_gradients[i], s->scales + s->queued[i],
                                    s->gradients + p->offset, amax_of(s, s->queued[i])};
    }
    if (s->first)
        ops_exact_store(s->queued_count, parts);
    else
        ops_exact_add(s->queued_count, parts);
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

static void start_next_bucket(void *ctx)
{
    struct reducer *s = ctx;
    enum comm_type type = is_exact(s) ? COMM_INT32 : COMM_FLOAT;
    struct bucket *b = &s->buckets[s->started++];
    if (!s->err)
        s->err = reducer_start_bucket(s, b, COMM_REDUCE_SCATTER, type, s->gradients, &s->error);
}

// At the start of a pass every bucket misses all of its parameters.
static void reset_missing(struct reducer *s)
{
    s->complete = 0;
    for (size_t i = 0; i < s->bucket_count; i++)
        s->buckets[i].missing = 0;
    for (int t = 0; t < s->config.parameter_count; t++)
        reducer_add_missing(s, t, 1);
}

// Starts buckets in the same order on every rank, whatever the order in which they fill. On a GPU
// this counting happens once, while the pass is recorded; start_next_bucket() runs at every replay.
static void start_complete_buckets(struct reducer *s)
{
    for (; s->complete < s->bucket_count && s->buckets[s->complete].missing == 0; s->complete++)
        ops_call_host(start_next_bucket, s);
    if (s->complete == s->bucket_count)
        reset_missing(s);
}

static void sink_flush(void *ctx)
{
    struct reducer *s = ctx;
    int count = s->queued_count;
    if (is_exact(s) && count > 0)
        add_exact(s);
    for (int i = 0; i < count && !is_exact(s); i++)
        add_float(s, s->queued[i], s->queued_gradients[i]);
    s->queued_count = 0;
    if (!s->last)
        return;
    for (int i = 0; i < count; i++)
        reducer_add_missing(s, s->queued[i], -1);
    start_complete_buckets(s);
}

// Queues the gradients of a layer, so that a GPU adds them in one kernel.
static void sink_add(void *ctx, int parameter, const float *gradient)
{
    struct reducer *s = ctx;
    s->queued[s->queued_count] = parameter;
    s->queued_gradients[s->queued_count++] = gradient;
    if (s->queued_count == OPS_EXACT_PARTS)
        sink_flush(s);
}

struct gradient_sink reducer_sink(struct reducer *s)
{
    return (struct gradient_sink){
        .ready = sink_add, .done = sink_flush, .ctx = s, .kind = &s->kind};
}

// --- a step --------------------------------------------------------------------------------------

static void reset_amaxes(struct reducer *s)
{
    ops_zero(s->amaxes, amax_count(&s->config) * sizeof *s->amaxes);
}

// Downloads the amaxes of all ranks and converts them to exponents.
static int download_exponents(struct reducer *s, struct error *e)
{
    int count = tensor_count(&s->config);
    ops_download(s->global_exponents, s->amaxes, amax_count(&s->config) * sizeof *s->amaxes);
    int err = comm_synchronize(s->comm, e);
    for (int t = 0; t < count; t++)
        s->global_exponents[t] = fixed_exponent((uint32_t)s->global_exponents[t]);
    return err;
}

static void upload_scales(struct reducer *s, float (*of)(const struct reducer *s, int parameter))
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
    reset_missing(s);
    reset_amaxes(s);
    if (is_exact(s))
        upload_scales(s, fixed_scale_of);
    s->started = 0;
    s->last = false;
    s->err = 0;
}

void reducer_begin_micro_batch(struct reducer *s, bool first, bool last)
{
    s->first = first;
    s->last = last;
    s->kind = first + 2 * last;
}

// A rank without micro-batches in this step contributes zeros.
static void reduce_zeros(struct reducer *s)
{
    ops_zero(s->gradients, s->config.block_size * sizeof *s->gradients);
    while (s->started < s->bucket_count)
        start_next_bucket(s);
}

static int start_totals(struct reducer *s, const struct reducer_totals *totals, struct error *e)
{
    ops_upload(&s->amaxes[tensor_count(&s->config)], &totals->flag, sizeof totals->flag);
    ops_upload(s->loss, &totals->loss, sizeof *s->loss);
    const struct comm_work amaxes = {
        .type = COMM_INT32, .op = COMM_MAX, .data = s->amaxes, .count = amax_count(&s->config)};
    const struct comm_work loss = {.type = COMM_INT64,
                                   .op = COMM_SUM,
                                   .data = s->loss,
                                   .count = sizeof *s->loss / sizeof(int64_t)};
    int err = reducer_start(s, &amaxes, &s->amax_ticket, e);
    return err ? err : reducer_start(s, &loss, &s->loss_ticket, e);
}

static int wait_totals(struct reducer *s, struct reducer_totals *totals, struct error *e)
{
    int err = reducer_wait(s, s->amax_ticket, e);
    if (!err)
        err = reducer_wait(s, s->loss_ticket, e);
    ops_download(&totals->loss, s->loss, sizeof *s->loss);
    if (!err)
        err = download_exponents(s, e);
    totals->flag = s->global_exponents[tensor_count(&s->config)];
    return err;
}

// The noun for a parameter's input in error messages.
static const char *sink_noun(const struct parameter *p)
{
    return p->momentum > 0 ? "statistic" : "gradient of";
}

static int refuse_not_finite(const struct reducer *s, struct error *e)
{
    for (int t = 0; t < s->config.parameter_count; t++)
        if (s->global_exponents[t] == FIXED_NOT_FINITE)
            return error_set(e, ERR_CORRUPT,
                             "the %s %s is not a finite number: lower the learning rate, clip "
                             "gradients (clip_norm), or look for bad values in the data",
                             sink_noun(&s->config.parameters[t]), s->config.parameters[t].name);
    for (int t = 0; t < s->config.quantised_count; t++)
        if (s->global_exponents[s->config.parameter_count + t] == FIXED_NOT_FINITE)
            return error_set(e, ERR_CORRUPT,
                             "%s is not a finite number: lower the learning rate, clip gradients "
                             "(clip_norm), or look for bad values in the data",
                             s->config.quantised[t].name);
    return 0;
}

static int refuse_exploded(const struct reducer *s, struct error *e)
{
    for (int t = 0; t < s->config.parameter_count; t++)
        if (s->global_exponents[t] > s->exponents[t] + GROWTH_MAX)
            return error_set(e, ERR_CORRUPT,
                             "gradient exploded: the %s %s grew from 2^%d to 2^%d in one step; "
                             "lower the learning rate or lengthen its warm-up",
                             sink_noun(&s->config.parameters[t]), s->config.parameters[t].name,
                             s->exponents[t], s->global_exponents[t]);
    return 0;
}

static bool raise_exponents(struct reducer *s)
{
    bool outgrown = false;
    for (int t = 0; t < s->config.parameter_count; t++)
        if (s->global_exponents[t] > s->exponents[t] + GROWTH) {
            s->exponents[t] = s->global_exponents[t];
            outgrown = true;
        }
    return outgrown;
}

// The next part of [first, last) that this rank owns; *at is the range where the search starts.
static bool next_owned_range(const struct reducer *s, size_t first, size_t last, size_t *at,
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

static float gradient_scale_of(const struct reducer *s, int parameter)
{
    int exponent = is_exact(s) ? s->exponents[parameter] - s->precision : 0;
    return (float)ldexp(1.0 / (double)s->config.global_batch, exponent);
}

// Converts the sums in this rank's ranges to gradients.
static void convert_tensor(struct reducer *s, int parameter)
{
    const struct parameter *p = &s->config.parameters[parameter];
    struct optimizer_range own;
    size_t range = 0;
    while (next_owned_range(s, p->offset, p->offset + p->count, &range, &own))
        if (is_exact(s))
            ops_exact_to_float(own.last - own.first, s->scales + parameter,
                               s->gradients + own.first);
        else
            ops_float_scale(own.last - own.first, s->scales + parameter,
                            (float *)s->gradients + own.first);
}

static void convert_tensors(void *ctx)
{
    struct reducer *s = ctx;
    for (int t = 0; t < s->config.parameter_count; t++)
        convert_tensor(s, t);
}

static int32_t next_exponent(int32_t now, int32_t amax, int32_t least)
{
    if (amax == FIXED_ZERO)
        return now;
    int32_t next = amax > now - 1 ? amax : now - 1;
    return next > least ? next : least;
}

static void advance_quantised_exponents(struct reducer *s)
{
    for (int t = s->config.parameter_count; t < tensor_count(&s->config); t++)
        if (s->global_exponents[t] != FIXED_NOT_FINITE) // with float sums; the loss shows it
            s->exponents[t] =
                next_exponent(s->exponents[t], s->global_exponents[t], OPS_FP8_EXPONENT_MIN);
}

static void finish_gradients(struct reducer *s)
{
    upload_scales(s, gradient_scale_of);
    ops_replay(&s->conversion, convert_tensors, s);
    for (int t = 0; t < s->config.parameter_count && is_exact(s); t++)
        s->exponents[t] = next_exponent(s->exponents[t], s->global_exponents[t], EXPONENT_FLOOR);
    advance_quantised_exponents(s);
}

int reducer_finish_step(struct reducer *s, struct reducer_totals *totals, bool *again,
                        struct error *e)
{
    *again = false;
    if (!s->last)
        reduce_zeros(s);
    if (s->err)
        return error_set(e, s->err, "%s", s->error.text);
    must(s->started == s->bucket_count); // the model has delivered every gradient
    int err = start_totals(s, totals, e);
    if (!err)
        err = reducer_wait_buckets(s, e);
    if (!err)
        err = wait_totals(s, totals, e);
    if (!err && is_exact(s))
        err = refuse_not_finite(s, e);
    if (!err && is_exact(s))
        err = refuse_exploded(s, e);
    if (!err && is_exact(s))
        *again = raise_exponents(s);
    if (!err && !*again)
        finish_gradients(s);
    return err;
}

const float *reducer_gradients(const struct reducer *s)
{
    return (const float *)s->gradients;
}

// --- calibration: the exponents before the first step --------------------------------------------

static void calibration_add(void *ctx, int parameter, const float *gradient)
{
    struct reducer *s = ctx;
    ops_exact_amax(s->config.parameters[parameter].count, gradient, amax_of(s, parameter));
}

struct gradient_sink reducer_calibration_begin(struct reducer *s)
{
    reset_amaxes(s);
    return (struct gradient_sink){.ready = calibration_add, .ctx = s};
}

static int32_t first_quantised_exponent(int32_t amax)
{
    if (amax == FIXED_ZERO || amax == FIXED_NOT_FINITE)
        return OPS_FP8_EXPONENT_OF_ZERO;
    return amax > OPS_FP8_EXPONENT_MIN ? amax : OPS_FP8_EXPONENT_MIN;
}

int reducer_calibration_end(struct reducer *s, struct error *e)
{
    const int parameters = s->config.parameter_count;
    int err =
        reducer_all_reduce(s, s->amaxes, (size_t)tensor_count(&s->config), COMM_INT32, COMM_MAX, e);
    if (!err)
        err = download_exponents(s, e);
    if (!err && is_exact(s))
        err = refuse_not_finite(s, e);
    if (err)
        return err;
    for (int t = 0; t < parameters && !s->exponents_known; t++)
        s->exponents[t] = next_exponent(EXPONENT_FLOOR, s->global_exponents[t], EXPONENT_FLOOR);
    for (int t = parameters; t < tensor_count(&s->config) && !s->quantised_known; t++)
        s->exponents[t] = first_quantised_exponent(s->global_exponents[t]);
    s->exponents_known = s->quantised_known = true;
    return 0;
}
