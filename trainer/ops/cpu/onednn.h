// Wrapper of oneDNN's C interface for products and convolutions: compiled primitives with
// arguments.
#ifndef MUSTER_TRAINER_OPS_CPU_ONEDNN_H
#define MUSTER_TRAINER_OPS_CPU_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct onednn_device {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

enum { ONEDNN_ARGUMENTS_MAX = 4 };

// One compiled primitive with its arguments; all zero is a valid empty call.
struct onednn_call {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[ONEDNN_ARGUMENTS_MAX];
    bool borrowed[ONEDNN_ARGUMENTS_MAX]; // the memory object belongs to another call
    int count;
};

int onednn_open(struct onednn_device *d, struct error *e);
void onednn_close(struct onednn_device *d);

dnnl_memory_desc_t onednn_layout(int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag);

// Describes the primitive for `op` (a dnnl_*_desc_t); for a backward pass `hint` is the descriptor
// of the forward pass. Chooses the implementation named `prefer`; if there is none, or with NULL,
// oneDNN's first. The caller destroys *out. ERR_INTERNAL names `what`.
int onednn_describe(const struct onednn_device *d, const void *op, const_dnnl_primitive_desc_t hint,
                    const char *prefer, const char *what, dnnl_primitive_desc_t *out,
                    struct error *e);
int onednn_compile(struct onednn_call *call, const_dnnl_primitive_desc_t described,
                   struct error *e);
// A call that copies argument DNNL_ARG_FROM into DNNL_ARG_TO, which has another layout.
int onednn_compile_reorder(const struct onednn_device *d, struct onednn_call *call,
                           const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                           struct error *e);
void onednn_destroy(struct onednn_call *call);

// Kinds of arguments: the caller's tensor, set before each run by onednn_bind(); memory of the call
// itself; or the memory of another call, which must outlive this one.
int onednn_add_tensor(const struct onednn_device *d, struct onednn_call *call, int index,
                      const dnnl_memory_desc_t *layout, struct error *e);
int onednn_add_memory(const struct onednn_device *d, struct onednn_call *call, int index,
                      const dnnl_memory_desc_t *layout, struct error *e);
void onednn_add_borrowed(struct onednn_call *call, int index, const struct onednn_call *owner,
                         int owner_index);
void onednn_bind(struct onednn_call *call, int index, const float *data);
void onednn_run(const struct onednn_device *d, const struct onednn_call *call);

#endif
