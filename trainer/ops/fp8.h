// Linear layers whose products take numbers of 8 bits (FP8: Micikevicius et al. 2022, "FP8 Formats
// for Deep Learning"). The rules of ops.h apply.
//
// A layer has three products: y of x and W, dx of dy and W, dW of x and dy. Their inputs are
// quantised: x and W to E4M3 (3 bits of mantissa, up to 448), dy to E5M2 (2 bits, up to 57,344). A
// tensor is multiplied by its scale, a power of two, and rounded to nearest, ties to even; larger
// numbers become the largest of the format. Infinity and NaN become NaN. The products are summed in
// float and divided by both scales, which is exact. Weights are quantised from floats, x and dy
// from reals; bias, its gradient, y, dx and dW are those of ops_linear.
//
// A GPU stores codes of 8 bits, in both orders, because its products sum along rows of both
// operands. A CPU stores the numbers that the codes stand for, as floats.
#ifndef MUSTER_TRAINER_OPS_FP8_H
#define MUSTER_TRAINER_OPS_FP8_H

#include <math.h>

#include "trainer/ops/ops.h"

enum ops_fp8_tensor { OPS_FP8_X, OPS_FP8_W, OPS_FP8_DY, OPS_FP8_TENSORS }; // of a layer

// With the exponent e of its largest magnitude (2^(e-1) <= amax < 2^e), a tensor's scale moves that
// magnitude to the second highest power of two of its format. So it can grow by three quarters
// before it is clamped.
enum {
    OPS_FP8_TOP_E4M3 = 8,
    OPS_FP8_TOP_E5M2 = 15,
    OPS_FP8_EXPONENT_MIN = -40, // of smaller tensors, too: products of scales stay in range
    OPS_FP8_EXPONENT_OF_ZERO = 0,
    OPS_FP8_MULTIPLE = 16, // rows, in and out are multiples of this
};
static inline float ops_fp8_scale(enum ops_fp8_tensor t, int32_t exponent)
{
    const int32_t least = OPS_FP8_EXPONENT_MIN;
    const int top = t == OPS_FP8_DY ? OPS_FP8_TOP_E5M2 : OPS_FP8_TOP_E4M3;
    return ldexpf(1.0f, top - (exponent > least ? exponent : least));
}

// Whether GPUs have FP8 products of this shape. A model quantises the same layers on a CPU.
static inline bool ops_fp8_fits(const struct ops_linear *s)
{
    return !s->transposed && s->rows % OPS_FP8_MULTIPLE == 0 && s->in % OPS_FP8_MULTIPLE == 0 &&
           s->out % OPS_FP8_MULTIPLE == 0;
}

// A layer that is quantised; all addresses are in device memory.
struct ops_fp8_plan; // opaque; NULL on a CPU
struct ops_fp8 {
    const struct ops_linear *linear; // compiled
    struct ops_fp8_plan *plan;
    float (*scales)[2]; // [OPS_FP8_TENSORS] the scale and its inverse
    uint32_t *amaxes;   // [OPS_FP8_TENSORS] becomes the maximum of its old value and the bits of
                        // the largest magnitude of the tensor, before it is scaled
    // [OPS_FP8_TENSORS]. Not NULL: each tensor is measured first, and the op writes its scale.
    uint32_t *own_amaxes;
    float *weights; // [ops_fp8_weight_floats()] the quantised weights
    float *saved;   // [ops_fp8_saved_floats()] passed from forward to backward
    float *scratch; // [ops_fp8_scratch_floats()]
};
int64_t ops_fp8_weight_floats(const struct ops_linear *s);
int64_t ops_fp8_saved_floats(const struct ops_linear *s);
int64_t ops_fp8_scratch_floats(const struct ops_linear *s);

int ops_fp8_compile(const struct ops_linear *s, struct ops_fp8_plan **out, struct error *e);
void ops_fp8_free(struct ops_fp8_plan *plan); // NULL is fine

void ops_fp8_quantise_weights(const struct ops_fp8 *f, const float *w); // to f->weights
// With `gelu` the input of the layer is gelu(x). If y is NULL, only f->saved is written.
void ops_fp8_forward(const struct ops_fp8 *f, const real *x, bool gelu, const real *bias, real *y);
// dx and db may be NULL: not computed. If `before` is not NULL, the output of the layer was passed
// through gelu: `before` is y, and dy is the gradient of gelu(y).
void ops_fp8_backward(const struct ops_fp8 *f, const real *dy, const real *before, real *dx,
                      bool add_dx, float *dw, bool add_dw, float *db);

#endif
