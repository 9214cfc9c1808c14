// Sequence layers: forward and backward. The rules of ops.h apply.
#ifndef MUSTER_TRAINER_OPS_SEQUENCE_H
#define MUSTER_TRAINER_OPS_SEQUENCE_H

#include "trainer/ops/ops.h"

// --- embedding: y[row] = table[tokens[row]]; position: y[s, t] = x[s, t] + table[t]. y may be x.
void ops_embedding_forward(int64_t rows, int64_t width, const int32_t *tokens, const real *table,
                           real *y);
void ops_embedding_backward(int64_t rows, int64_t width, int64_t vocabulary, const int32_t *tokens,
                            const real *dy, float *dtable, bool add);
void ops_position_forward(int64_t samples, int64_t context, int64_t width, const real *x,
                          const real *table, real *y);
void ops_position_backward(int64_t samples, int64_t context, int64_t width, const real *dy,
                           float *dtable);

// --- rotary position embedding (Su et al. 2021) of query and key in qkv[samples, context, 3 *
// width], in place, for each of `heads` heads: elements i and i + head/2 of a head form a pair that
// is rotated by t * base^(-2i/head). The backward pass rotates in the other direction (`back`).
struct ops_rotary {
    int64_t samples, context, heads, width; // width / heads is even
    double base;                            // 10000
};
int64_t ops_rotary_table_floats(const struct ops_rotary *s);
void ops_rotary_table(const struct ops_rotary *s, float *table); // cosines and sines; call it once
void ops_rotary_apply(const struct ops_rotary *s, const float *table, bool back, real *qkv);

// --- causal self-attention. qkv: [samples, context, 3 * width], with query, key and value of
// `heads` heads each; y: [samples, context, width]. `saved` is passed from forward to backward;
// both need the same dropout. With OPS_ATTENTION_NEEDS_Y the backward pass reads y.
struct ops_attention {
    int64_t samples, context, heads, width; // width % heads == 0
};
int64_t ops_attention_saved_floats(const struct ops_attention *s, double rate);
int64_t ops_attention_scratch_floats(const struct ops_attention *s); // for each pass
// The largest number of samples for which the fast kernels have enough memory, at least 1;
// `samples` is not read.
int64_t ops_attention_samples(const struct ops_attention *s);
void ops_attention_forward(const struct ops_attention *s, const struct ops_dropout *draw,
                           const real *qkv, float *saved, float *scratch, real *y);
void ops_attention_backward(const struct ops_attention *s, const struct ops_dropout *draw,
                            const real *qkv, const real *y, const float *saved, float *scratch,
                            const real *dy, real *dqkv);

#endif
