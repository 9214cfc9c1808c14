#include <string.h>

#include "trainer/ops/cpu/gemm.h"
#include "trainer/ops/loops.h"
#include "trainer/ops/ops.h"

void ops_linear_forward(const struct ops_linear *s, const float *x, const float *w,
                        const float *bias, float *y)
{
    if (bias)
        for (int64_t r = 0; r < s->rows; r++)
            memcpy(y + r * s->out, bias, (size_t)s->out * sizeof *y);
    gemm('N', s->transposed ? 'T' : 'N', s->rows, s->out, s->in, 1.0f, x, s->in, w,
         s->transposed ? s->in : s->out, bias ? 1.0f : 0.0f, y, s->out);
}

void ops_linear_backward_data(const struct ops_linear *s, const float *w, const float *dy,
                              float *dx, bool add)
{
    gemm('N', s->transposed ? 'N' : 'T', s->rows, s->in, s->out, 1.0f, dy, s->out, w,
         s->transposed ? s->in : s->out, add ? 1.0f : 0.0f, dx, s->in);
}

LOOPS_CLONED static void sum_rows(int64_t rows, int64_t width, const float *dy, float *sum)
{
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            sum[i] += dy[r * width + i];
}

void ops_linear_backward_weights(const struct ops_linear *s, const float *x, const float *dy,
                                 float *dw, bool add, float *db)
{
    float beta = add ? 1.0f : 0.0f;
    if (db)
        sum_rows(s->rows, s->out, dy, db);
    if (s->transposed)
        gemm('T', 'N', s->out, s->in, s->rows, 1.0f, dy, s->out, x, s->in, beta, dw, s->in);
    else
        gemm('T', 'N', s->in, s->out, s->rows, 1.0f, x, s->in, dy, s->out, beta, dw, s->out);
}
