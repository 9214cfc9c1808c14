// Checks of arithmetic: seeded tensors, comparison with a reference in double, and comparison of
// gradients with central differences of that reference.
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
#include "trainer/ops/ops.h"

// The blocks of a test exist until arithmetic_end(); they are 64-byte aligned, as ops require.
// Tests pass only such blocks to ops, because a GPU cannot read the test's stack or its constants.
enum { ARITHMETIC_BLOCKS_MAX = 256, SAMPLED = 40 };
struct arithmetic {
    struct rng rng;
    void *blocks[ARITHMETIC_BLOCKS_MAX];
    int count;
};

struct arithmetic arithmetic_begin(uint64_t seed);
void arithmetic_end(struct arithmetic *a);
void *aligned_block(struct arithmetic *a, size_t bytes);
float *floats_new(struct arithmetic *a, int64_t n);
float *floats_copy(struct arithmetic *a, int64_t n, const float *from);
double *doubles_new(struct arithmetic *a, int64_t n);
int64_t between(struct arithmetic *a, int64_t low, int64_t high);

// Non-zero floats at the end of their block, so that the address sanitizer detects each access
// behind them. They exist until they are freed.
float *floats_tight(int64_t n);
void floats_tight_free(float *p);

// Uniform in [-size, size].
float *floats_random(struct arithmetic *a, int64_t n, double size);
int32_t *integers_random(struct arithmetic *a, int64_t n, int64_t below);
struct ops_dropout draw_new(struct arithmetic *a, uint64_t key, double rate, const int64_t *samples,
                            int64_t count);
double *doubles_of(struct arithmetic *a, const float *from, int64_t n);

// |found - expected| <= tolerance * max(1, |expected|) for all elements.
void expect_close(const float *found, const double *expected, int64_t n, double tolerance,
                  const char *what);

// A reference: computes y from the tensors in[], all in double. The test defines `shape`.
struct reference {
    void (*forward)(const void *shape, double *const *in, double *y);
    const void *shape;
    double *const *in;
    int64_t outputs;
};

double weighted_output(struct arithmetic *a, const struct reference *r, const float *dy);

// `found`, of n elements, is the gradient of sum(y * dy) with respect to in[which]; checks some of
// its elements.
void expect_gradient(struct arithmetic *a, const struct reference *r, int which, int64_t n,
                     const float *dy, const float *found, double tolerance, const char *what);
void expect_same_bits(const void *found, const void *expected, int64_t n, const char *what);

#endif
