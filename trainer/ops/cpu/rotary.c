#include <math.h>

#include "trainer/ops/loops.h"
#include "trainer/ops/sequence.h"

// table: [context, 2, head / 2], cosines and sines of a position.
static int64_t pairs_of(const struct ops_rotary *s)
{
    return s->width / s->heads / 2;
}

int64_t ops_rotary_table_floats(const struct ops_rotary *s)
{
    return s->context * 2 * pairs_of(s);
}

void ops_rotary_table(const struct ops_rotary *s, float *table)
{
    int64_t pairs = pairs_of(s);
    for (int64_t t = 0; t < s->context; t++, table += 2 * pairs)
        for (int64_t i = 0; i < pairs; i++) {
            double angle = (double)t * pow(s->base, -(double)i / (double)pairs);
            table[i] = (float)cos(angle);
            table[pairs + i] = (float)sin(angle);
        }
}

LOOPS_INLINE void rotate_pairs(int64_t pairs, const float *cosines, const float *sines,
                               float direction, float *head)
{
#pragma omp simd
    for (int64_t i = 0; i < pairs; i++) {
        float a = head[i], b = head[pairs + i], sine = direction * sines[i];
        head[i] = a * cosines[i] - b * sine;
        head[pairs + i] = b * cosines[i] + a * sine;
    }
}

LOOPS_CLONED void ops_rotary_apply(const struct ops_rotary *s, const float *table, bool back,
                                   float *qkv)
{
    int64_t pairs = pairs_of(s);
    for (int64_t row = 0; row < s->samples * s->context; row++, qkv += 3 * s->width) {
        const float *cosines = table + row % s->context * 2 * pairs;
        for (int64_t h = 0; h < 2 * s->heads; h++) // the heads of the queries, then of the keys
            rotate_pairs(pairs, cosines, cosines + pairs, back ? -1.0f : 1.0f, qkv + h * 2 * pairs);
    }
}
