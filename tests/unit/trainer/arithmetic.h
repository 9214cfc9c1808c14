// Checks of arithmetic: seeded tensors, comparison with a reference in double, and gradients
// against central differences of that reference.
#ifndef MUSTER_TESTS_TRAINER_ARITHMETIC_H
#define MUSTER_TESTS_TRAINER_ARITHMETIC_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"

// What a test allocates lives until arithmetic_end(); 64-byte aligned, as ops demand.
enum { ARITHMETIC_BLOCKS_MAX = 256, SAMPLED = 40 };
struct arithmetic {
    struct rng rng;
    void *blocks[ARITHMETIC_BLOCKS_MAX];
    int count;
};

static inline struct arithmetic arithmetic_begin(uint64_t seed)
{
    struct arithmetic a = {.count = 0};
    rng_seed(&a.rng, seed, 1);
    return a;
}

static inline void arithmetic_end(struct arithmetic *a)
{
    while (a->count > 0)
        free(a->blocks[--a->count]);
}

static inline void *aligned_block(struct arithmetic *a, size_t bytes)
{
    must(a->count < ARITHMETIC_BLOCKS_MAX);
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    must(p != NULL);
    memset(p, 0x7f, (bytes + 64) / 64 * 64); // large numbers: nobody may count on zeros
    return a->blocks[a->count++] = p;
}

static inline float *floats_new(struct arithmetic *a, int64_t n)
{
    return aligned_block(a, (size_t)n * sizeof(float));
}

static inline double *doubles_new(struct arithmetic *a, int64_t n)
{
    return aligned_block(a, (size_t)n * sizeof(double));
}

static inline int64_t between(struct arithmetic *a, int64_t low, int64_t high)
{
    return low + rng_below(&a->rng, (uint32_t)(high - low + 1));
}

// Uniform in [-size, size].
static inline float *floats_random(struct arithmetic *a, int64_t n, double size)
{
    float *p = floats_new(a, n);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)(size * (2 * rng_double(&a->rng) - 1));
    return p;
}

static inline int32_t *integers_random(struct arithmetic *a, int64_t n, int64_t below)
{
    int32_t *p = aligned_block(a, (size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = (int32_t)rng_below(&a->rng, (uint32_t)below);
    return p;
}

static inline double *doubles_of(struct arithmetic *a, const float *from, int64_t n)
{
    double *p = doubles_new(a, n);
    for (int64_t i = 0; i < n; i++)
        p[i] = (double)from[i];
    return p;
}

// |found - expected| <= tolerance * max(1, |expected|), everywhere.
static inline void expect_close(const float *found, const double *expected, int64_t n,
                                double tolerance, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        double size = fabs(expected[i]) > 1 ? fabs(expected[i]) : 1;
        if (!(fabs((double)found[i] - expected[i]) <= tolerance * size))
            fail_msg("%s[%lld of %lld]: expected %.9g, found %.9g", what, (long long)i,
                     (long long)n, expected[i], (double)found[i]);
    }
}

// A reference: y from the tensors in[], all in double. `shape` is the test's.
struct reference {
    void (*forward)(const void *shape, double *const *in, double *y);
    const void *shape;
    double *const *in;
    int64_t outputs;
};

static inline double weighted_output(struct arithmetic *a, const struct reference *r,
                                     const float *dy)
{
    double *y = doubles_new(a, r->outputs), sum = 0;
    r->forward(r->shape, r->in, y);
    for (int64_t i = 0; i < r->outputs; i++)
        sum += y[i] * (double)dy[i];
    free(a->blocks[--a->count]);
    return sum;
}

// `found` is the gradient of sum(y * dy) by in[which], of n elements; some of them are checked.
static inline void expect_gradient(struct arithmetic *a, const struct reference *r, int which,
                                   int64_t n, const float *dy, const float *found, double tolerance,
                                   const char *what)
{
    const double h = 1e-5;
    double *x = r->in[which];
    for (int64_t k = 0; k < SAMPLED && k < n; k++) {
        int64_t i = n <= SAMPLED ? k : between(a, 0, n - 1);
        double before = x[i];
        x[i] = before + h;
        double above = weighted_output(a, r, dy);
        x[i] = before - h;
        double below = weighted_output(a, r, dy);
        x[i] = before;
        double slope = (above - below) / (2 * h), size = fabs(slope) > 1 ? fabs(slope) : 1;
        if (!(fabs((double)found[i] - slope) <= tolerance * size))
            fail_msg("%s[%lld of %lld]: expected %.9g, found %.9g", what, (long long)i,
                     (long long)n, slope, (double)found[i]);
    }
}

static inline void expect_same_bits(const void *found, const void *expected, int64_t n,
                                    const char *what)
{
    const uint32_t *a = found, *b = expected;
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i])
            fail_msg("%s[%lld of %lld]: expected bits %08x, found %08x", what, (long long)i,
                     (long long)n, b[i], a[i]);
}

#endif
