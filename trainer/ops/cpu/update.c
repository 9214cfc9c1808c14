#include "trainer/ops/update.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "trainer/ops/loops.h"

// The constants of a loop over a unit: those of the step and of the tensor.
struct update_constants {
    float rate, scale, decay, momentum;
    float beta1, beta2, epsilon, correction1, correction2;
};

typedef void unit_fn(const struct update_constants *u, size_t n, float *p, const float *g, float *m,
                     float *v);

// Each loop first copies the constants, so that the compiler knows that writing an element does not
// change them.

LOOPS_CLONED static void sgd(const struct update_constants *u, size_t n, float *p, const float *g,
                             float *m, float *v)
{
    struct update_constants c = *u;
    (void)m, (void)v;
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        p[i] -= c.rate * (g[i] * c.scale + c.decay * p[i]);
}

LOOPS_CLONED static void momentum(const struct update_constants *u, size_t n, float *p,
                                  const float *g, float *m, float *v)
{
    struct update_constants c = *u;
    (void)v;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        m[i] = c.momentum * m[i] + (g[i] * c.scale + c.decay * p[i]);
        p[i] -= c.rate * m[i];
    }
}

LOOPS_CLONED static void nesterov(const struct update_constants *u, size_t n, float *p,
                                  const float *g, float *m, float *v)
{
    struct update_constants c = *u;
    (void)v;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float d = g[i] * c.scale + c.decay * p[i];
        m[i] = c.momentum * m[i] + d;
        p[i] -= c.rate * (d + c.momentum * m[i]);
    }
}

LOOPS_CLONED static void lars(const struct update_constants *u, size_t n, float *p, const float *g,
                              float *m, float *v)
{
    struct update_constants c = *u;
    (void)v;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        m[i] = c.momentum * m[i] + c.rate * (g[i] * c.scale + c.decay * p[i]);
        p[i] -= m[i];
    }
}

LOOPS_INLINE void adam(struct update_constants c, bool decoupled, size_t n, float *p,
                       const float *g, float *m, float *v)
{
    float rate = c.rate * c.correction1, keep = decoupled ? 1.0f - c.rate * c.decay : 1.0f;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float d = decoupled ? g[i] * c.scale : g[i] * c.scale + c.decay * p[i];
        m[i] = c.beta1 * m[i] + (1.0f - c.beta1) * d;
        v[i] = c.beta2 * v[i] + (1.0f - c.beta2) * (d * d);
        p[i] = keep * p[i] - rate * m[i] / (sqrtf(v[i] * c.correction2) + c.epsilon);
    }
}

LOOPS_CLONED static void adam_l2(const struct update_constants *u, size_t n, float *p,
                                 const float *g, float *m, float *v)
{
    adam(*u, false, n, p, g, m, v);
}

LOOPS_CLONED static void adamw(const struct update_constants *u, size_t n, float *p, const float *g,
                               float *m, float *v)
{
    adam(*u, true, n, p, g, m, v);
}

LOOPS_CLONED static void moments(const struct update_constants *u, size_t n, float *p,
                                 const float *g, float *m, float *v)
{
    struct update_constants c = *u;
    (void)p;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float d = g[i] * c.scale;
        m[i] = c.beta1 * m[i] + (1.0f - c.beta1) * d;
        v[i] = c.beta2 * v[i] + (1.0f - c.beta2) * (d * d);
    }
}

LOOPS_CLONED static void direction(const struct update_constants *u, size_t n, const float *p,
                                   const float *m, const float *v, float *d)
{
    struct update_constants c = *u;
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        d[i] = c.correction1 * m[i] / (sqrtf(v[i] * c.correction2) + c.epsilon) + c.decay * p[i];
}

LOOPS_CLONED static void statistic(float momentum, size_t n, float *p, const float *g)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        p[i] += momentum * (g[i] - p[i]);
}

enum { LANES = 32 };

LOOPS_CLONED static double sum_of_squares(size_t n, const float *g)
{
    double lanes[LANES] = {0}, sum = 0;
    size_t whole = n / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            double x = (double)g[i + lane];
            lanes[lane] += x * x;
        }
    for (size_t i = whole; i < n; i++)
        lanes[i - whole] += (double)g[i] * (double)g[i];
    for (int lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

// --- over the units of a table -------------------------------------------------------------------

struct ops_units {
    struct ops_unit *units;
    size_t count;
};

int ops_units_new(const struct ops_unit *units, size_t count, int tensors, struct ops_units **out,
                  struct error *e)
{
    (void)tensors, (void)e;
    *out = xcalloc(1, sizeof **out);
    (*out)->units = xcalloc(count + 1, sizeof *units);
    (*out)->count = count;
    if (count > 0)
        memcpy((*out)->units, units, count * sizeof *units);
    return 0;
}

void ops_units_free(struct ops_units *u)
{
    if (!u)
        return;
    free(u->units);
    free(u);
}

static struct update_constants numbers_of(const struct ops_update *step, const struct ops_tensor *t)
{
    return (struct update_constants){t->rate,        step->scale,       t->decay,
                                     step->momentum, step->beta1,       step->beta2,
                                     step->epsilon,  step->correction1, step->correction2};
}

static float *unit_start(float *block, const struct ops_unit *t)
{
    return block ? block + t->at : NULL;
}

static void measure_unit(double *sums, size_t i, const struct ops_unit *t, const float *values)
{
    if (sums)
        sums[i] = sum_of_squares(t->count, values);
}

void ops_units_measure(struct ops_units *u, const struct ops_blocks *b,
                       const struct ops_squares *sums)
{
    for (size_t i = 0; i < u->count; i++) {
        const struct ops_unit *t = &u->units[i];
        measure_unit(sums->gradients, i, t, b->g + t->at);
        measure_unit(sums->weights, i, t, b->p + t->at);
    }
}

void ops_units_update(struct ops_units *u, const struct ops_update *step,
                      const struct ops_tensor *tensors, const struct ops_blocks *b,
                      const struct ops_squares *sums)
{
    static unit_fn *const rules[] = {
        [OPS_SGD] = sgd,      [OPS_MOMENTUM] = momentum, [OPS_NESTEROV] = nesterov,
        [OPS_LARS] = lars,    [OPS_ADAM] = adam_l2,      [OPS_ADAMW] = adamw,
        [OPS_LAMB] = moments,
    };
    float d[OPS_UNIT_MAX];
    for (size_t i = 0; i < u->count; i++) { // finishes a unit while its gradient is in cache
        const struct ops_unit *t = &u->units[i];
        const struct update_constants n = numbers_of(step, &tensors[t->tensor]);
        measure_unit(sums->gradients, i, t, b->g + t->at);
        if (tensors[t->tensor].statistic > 0) {
            statistic(tensors[t->tensor].statistic, t->count, b->p + t->at, b->g + t->at);
            continue;
        }
        rules[step->rule](&n, t->count, b->p + t->at, b->g + t->at, unit_start(b->m, t),
                          unit_start(b->v, t));
        if (step->rule != OPS_LAMB)
            continue;
        direction(&n, t->count, b->p + t->at, b->m + t->at, b->v + t->at, d);
        measure_unit(sums->weights, i, t, b->p + t->at);
        measure_unit(sums->directions, i, t, d);
    }
}

void ops_units_apply(struct ops_units *u, const struct ops_update *step,
                     const struct ops_tensor *tensors, const struct ops_blocks *b)
{
    float d[OPS_UNIT_MAX];
    for (size_t i = 0; i < u->count; i++) {
        const struct ops_unit *t = &u->units[i];
        struct update_constants n = numbers_of(step, &tensors[t->tensor]);
        if (tensors[t->tensor].statistic > 0)
            continue;
        direction(&n, t->count, b->p + t->at, b->m + t->at, b->v + t->at, d);
        n.decay = 0; // the direction already contains it
        n.scale = 1;
        sgd(&n, t->count, b->p + t->at, d, NULL, NULL);
    }
}
