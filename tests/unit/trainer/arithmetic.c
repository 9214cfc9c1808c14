#include "tests/unit/trainer/arithmetic.h"

struct arithmetic arithmetic_begin(uint64_t seed)
{
    struct arithmetic a = {.count = 0};
    rng_seed(&a.rng, seed, 1);
    return a;
}

void arithmetic_end(struct arithmetic *a)
{
    while (a->count > 0)
        free(a->blocks[--a->count]);
}

void *aligned_block(struct arithmetic *a, size_t bytes)
{
    must(a->count < ARITHMETIC_BLOCKS_MAX);
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    must(p);
    memset(p, 0x7f, (bytes + 64) / 64 * 64); // large numbers: ops must not rely on zeros
    return a->blocks[a->count++] = p;
}

float *floats_new(struct arithmetic *a, int64_t n)
{
    return aligned_block(a, (size_t)n * sizeof(float));
}

float *floats_tight(int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p);
    must(p);
    memset(p, 0x7f, (size_t)n * sizeof *p);
    return p;
}

void floats_tight_free(float *p)
{
    free(p);
}

float *floats_copy(struct arithmetic *a, int64_t n, const float *from)
{
    float *p = floats_new(a, n);
    memcpy(p, from, (size_t)n * sizeof *p);
    return p;
}

double *doubles_new(struct arithmetic *a, int64_t n)
{
    return aligned_block(a, (size_t)n * sizeof(double));
}

int64_t between(struct arithmetic *a, int64_t low, int64_t high)
{
    return low + rng_below(&a->rng, (uint32_t)(high - low + 1));
}

float *floats_random(struct arithmetic *a, int64_t n, double size)
{
    float *p = floats_new(a, n);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)(size * (2 * rng_double(&a->rng) - 1));
    return p;
}

int32_t *integers_random(struct arithmetic *a, int64_t n, int64_t below)
{
    int32_t *p = aligned_block(a, (size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = (int32_t)rng_below(&a->rng, (uint32_t)below);
    return p;
}

struct ops_dropout draw_new(struct arithmetic *a, uint64_t key, double rate, const int64_t *samples,
                            int64_t count)
{
    uint64_t *key_copy = aligned_block(a, sizeof *key_copy);
    int64_t *copy = aligned_block(a, (size_t)count * sizeof *copy);
    *key_copy = key;
    memcpy(copy, samples, (size_t)count * sizeof *copy);
    return (struct ops_dropout){key_copy, rate, copy};
}

double *doubles_of(struct arithmetic *a, const float *from, int64_t n)
{
    double *p = doubles_new(a, n);
    for (int64_t i = 0; i < n; i++)
        p[i] = (double)from[i];
    return p;
}

void expect_close(const float *found, const double *expected, int64_t n, double tolerance,
                  const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        double size = fabs(expected[i]) > 1 ? fabs(expected[i]) : 1;
        if (!(fabs((double)found[i] - expected[i]) <= tolerance * size))
            fail_msg("%s[%lld of %lld]: expected %.9g, found %.9g", what, (long long)i,
                     (long long)n, expected[i], (double)found[i]);
    }
}

double weighted_output(struct arithmetic *a, const struct reference *r, const float *dy)
{
    double *y = doubles_new(a, r->outputs), sum = 0;
    r->forward(r->shape, r->in, y);
    for (int64_t i = 0; i < r->outputs; i++)
        sum += y[i] * (double)dy[i];
    free(a->blocks[--a->count]);
    return sum;
}

void expect_gradient(struct arithmetic *a, const struct reference *r, int which, int64_t n,
                     const float *dy, const float *found, double tolerance, const char *what)
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

void expect_same_bits(const void *found, const void *expected, int64_t n, const char *what)
{
    const uint32_t *a = found, *b = expected;
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i])
            fail_msg("%s[%lld of %lld]: expected bits %08x, found %08x", what, (long long)i,
                     (long long)n, b[i], a[i]);
}
