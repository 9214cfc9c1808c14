// One launch for all units of a table, with one block per unit, so tensors of all sizes share it.
#include "trainer/ops/cuda/kernels/vectors.h"

#include <stdlib.h>

extern "C" {
#include "trainer/ops/update.h"
}

enum { THREADS = 256, WARPS = THREADS / WARP };
enum { GRADIENTS, WEIGHTS, DIRECTIONS, KINDS }; // kinds of sums

struct ops_units {
    size_t count;
    int tensors;
    struct ops_unit *units;     // [count] in device memory
    struct ops_tensor *numbers; // [tensors] in device memory, of the last call
    double *sums;               // [KINDS, count] in device memory
};

extern "C" void ops_units_free(struct ops_units *u)
{
    if (!u)
        return;
    ops_free(u->units);
    ops_free(u->numbers);
    ops_free(u->sums);
    free(u);
}

extern "C" int ops_units_new(const struct ops_unit *units, size_t count, int tensors,
                             struct ops_units **out, struct error *e)
{
    *out = NULL;
    struct ops_units *u = (struct ops_units *)calloc(1, sizeof *u);
    if (!u)
        return error_set(e, ERR_NO_MEMORY, "no memory for a table of %zu units", count);
    u->count = count;
    u->tensors = tensors;
    int rc = ops_alloc(count * sizeof *u->units, (void **)&u->units, e);
    if (rc == 0)
        rc = ops_alloc((size_t)tensors * sizeof *u->numbers, (void **)&u->numbers, e);
    if (rc == 0)
        rc = ops_alloc(KINDS * count * sizeof *u->sums, (void **)&u->sums, e);
    if (rc < 0) {
        ops_units_free(u);
        return rc;
    }
    ops_upload(u->units, units, count * sizeof *units);
    *out = u;
    return 0;
}

// A block's unit and its parts of the parameter, gradient and state blocks.
struct unit_blocks {
    size_t count;
    struct ops_tensor tensor;
    struct ops_blocks at;
};

static __device__ struct unit_blocks block_unit(const struct ops_units &u,
                                                const struct ops_blocks &b)
{
    struct ops_unit t = u.units[blockIdx.x];
    return {t.count,
            u.numbers[t.tensor],
            {b.p + t.at, b.g + t.at, b.m ? b.m + t.at : NULL, b.v ? b.v + t.at : NULL}};
}

// Adds the sums of all threads and stores the result for the block's unit.
static __device__ void store_sum(const struct ops_units &u, int kind, double sum)
{
    __shared__ double part[WARPS];
    sum = block_sum(sum, part);
    if (threadIdx.x == 0)
        u.sums[kind * u.count + blockIdx.x] = sum;
}

// Downloads the requested sums to the host.
static void download_sums(const struct ops_units *u, const struct ops_squares *wanted)
{
    double *const to[KINDS] = {wanted->gradients, wanted->weights, wanted->directions};
    for (int kind = 0; kind < KINDS; kind++)
        if (to[kind])
            ops_download(to[kind], u->sums + kind * u->count, u->count * sizeof *u->sums);
}

static __device__ double square(float x)
{
    return (double)x * (double)x;
}

static __global__ void measure_kernel(struct ops_units u, struct ops_blocks b)
{
    struct unit_blocks w = block_unit(u, b);
    double gradients = 0, weights = 0;
    for (size_t i = threadIdx.x; i < w.count; i += THREADS) {
        gradients += square(w.at.g[i]);
        weights += square(w.at.p[i]);
    }
    store_sum(u, GRADIENTS, gradients);
    store_sum(u, WEIGHTS, weights);
}

extern "C" void ops_units_measure(struct ops_units *u, const struct ops_blocks *b,
                                  const struct ops_squares *sums)
{
    const struct ops_squares wanted = {sums->gradients, sums->weights, NULL};
    if (u->count == 0)
        return;
    LAUNCH(measure_kernel, (unsigned)u->count, THREADS, 0, *u, *b);
    download_sums(u, &wanted);
}

// --- the rules, for one parameter: its new value from its old value and its gradient

static __device__ float momentum_rule(const struct ops_update &s, const struct ops_tensor &t,
                                      float p, float g, float *m)
{
    float d = g * s.scale + t.decay * p;
    if (s.rule == OPS_LARS) {
        *m = s.momentum * *m + t.rate * d;
        return p - *m;
    }
    *m = s.momentum * *m + d;
    return p - t.rate * (s.rule == OPS_NESTEROV ? d + s.momentum * *m : *m);
}

static __device__ void add_moments(const struct ops_update &s, float d, float *m, float *v)
{
    *m = s.beta1 * *m + (1.0f - s.beta1) * d;
    *v = s.beta2 * *v + (1.0f - s.beta2) * (d * d);
}

static __device__ float adam_rule(const struct ops_update &s, const struct ops_tensor &t, float p,
                                  float g, float *m, float *v)
{
    bool decoupled = s.rule == OPS_ADAMW;
    float rate = t.rate * s.correction1, keep = decoupled ? 1.0f - t.rate * t.decay : 1.0f;
    add_moments(s, decoupled ? g * s.scale : g * s.scale + t.decay * p, m, v);
    return keep * p - rate * *m / (sqrtf(*v * s.correction2) + s.epsilon);
}

static __device__ float direction(const struct ops_update &s, const struct ops_tensor &t, float p,
                                  float m, float v)
{
    return s.correction1 * m / (sqrtf(v * s.correction2) + s.epsilon) + t.decay * p;
}

static __device__ float apply_rule(const struct ops_update &s, const struct ops_tensor &t, float p,
                                   float g, float *m, float *v)
{
    if (t.statistic > 0)
        return p + t.statistic * (g - p);
    switch (s.rule) {
    case OPS_SGD:
        return p - t.rate * (g * s.scale + t.decay * p);
    case OPS_MOMENTUM:
    case OPS_NESTEROV:
    case OPS_LARS:
        return momentum_rule(s, t, p, g, m);
    case OPS_ADAM:
    case OPS_ADAMW:
        return adam_rule(s, t, p, g, m, v);
    case OPS_LAMB: // ops_units_apply() does its step, when the norms are known
        add_moments(s, g * s.scale, m, v);
        break;
    }
    return p;
}

static __global__ void update_kernel(struct ops_units u, struct ops_update step,
                                     struct ops_blocks b)
{
    struct unit_blocks w = block_unit(u, b);
    double gradients = 0, weights = 0, directions = 0;
    for (size_t i = threadIdx.x; i < w.count; i += THREADS) {
        float p = w.at.p[i], g = w.at.g[i];
        float m = w.at.m ? w.at.m[i] : 0.0f, v = w.at.v ? w.at.v[i] : 0.0f;
        gradients += square(g);
        w.at.p[i] = apply_rule(step, w.tensor, p, g, &m, &v);
        if (w.tensor.statistic > 0)
            continue;
        if (w.at.m)
            w.at.m[i] = m;
        if (w.at.v)
            w.at.v[i] = v;
        if (step.rule == OPS_LAMB) {
            weights += square(p);
            directions += square(direction(step, w.tensor, p, m, v));
        }
    }
    store_sum(u, GRADIENTS, gradients);
    if (step.rule == OPS_LAMB) {
        store_sum(u, WEIGHTS, weights);
        store_sum(u, DIRECTIONS, directions);
    }
}

extern "C" void ops_units_update(struct ops_units *u, const struct ops_update *step,
                                 const struct ops_tensor *tensors, const struct ops_blocks *b,
                                 const struct ops_squares *sums)
{
    if (u->count == 0)
        return;
    ops_upload(u->numbers, tensors, (size_t)u->tensors * sizeof *tensors);
    LAUNCH(update_kernel, (unsigned)u->count, THREADS, 0, *u, *step, *b);
    const struct ops_squares gradients = {sums->gradients, NULL, NULL};
    download_sums(u, step->rule == OPS_LAMB ? sums : &gradients);
}

static __global__ void apply_kernel(struct ops_units u, struct ops_update step, struct ops_blocks b)
{
    struct unit_blocks w = block_unit(u, b);
    if (w.tensor.statistic > 0)
        return;
    for (size_t i = threadIdx.x; i < w.count; i += THREADS)
        w.at.p[i] -= w.tensor.rate * direction(step, w.tensor, w.at.p[i], w.at.m[i], w.at.v[i]);
}

extern "C" void ops_units_apply(struct ops_units *u, const struct ops_update *step,
                                const struct ops_tensor *tensors, const struct ops_blocks *b)
{
    if (u->count == 0)
        return;
    ops_upload(u->numbers, tensors, (size_t)u->tensors * sizeof *tensors);
    LAUNCH(apply_kernel, (unsigned)u->count, THREADS, 0, *u, *step, *b);
}
