// Initial values of the parameters.
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/rng.h"
#include "trainer/model/layer.h"

// Elements 2k and 2k + 1 of parameter `index`: two normal numbers by Box and Muller (1958).
static void normal_pair(uint64_t seed, int index, size_t k, double out[2])
{
    // makes these draws differ from those of dropout
    static const uint64_t purpose = 0x696e697469616c73;
    uint32_t w[4];
    philox4x32(seed ^ purpose, (uint64_t)index, k, w);
    double u = ((double)w[0] * 0x1p32 + (double)w[1] + 1) * 0x1p-64; // (0, 1]
    double turn = ((double)w[2] * 0x1p32 + (double)w[3]) * 0x1p-64;
    double radius = sqrt(-2 * log(u));
    out[0] = radius * cos(2 * M_PI * turn);
    out[1] = radius * sin(2 * M_PI * turn);
}

static void draw_values(const struct initializer *initial, uint64_t seed, int index, size_t count,
                        float *values)
{
    double pair[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        if (initial->deviation > 0 && i % 2 == 0)
            normal_pair(seed, index, i / 2, pair);
        values[i] = initial->constant + (float)(initial->deviation * pair[i % 2]);
    }
}

void model_init(const struct compiled_model *m, uint64_t seed, float *parameters)
{
    size_t largest = 0;
    for (int i = 0; i < m->parameter_count; i++)
        largest = m->parameters[i].count > largest ? m->parameters[i].count : largest;
    float *values = xcalloc(largest, sizeof *values);
    ops_zero(parameters, m->block_size * sizeof *parameters);
    for (int i = 0; i < m->parameter_count; i++) {
        const struct parameter *p = &m->parameters[i];
        draw_values(&m->initializers[i], seed, i, p->count, values);
        ops_upload(parameters + p->offset, values, p->count * sizeof *values);
    }
    free(values);
}
