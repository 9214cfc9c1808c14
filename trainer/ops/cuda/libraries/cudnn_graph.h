// Operations by cuDNN: a graph is described, compiled once into a plan, and run. One thread. The
// caller frees graphs and plans; a plan does not need its graph any more.
//
// After a failure further descriptions are ignored; graph_compile() returns the first failure.
#ifndef MUSTER_TRAINER_OPS_CUDA_LIBRARIES_CUDNN_GRAPH_H
#define MUSTER_TRAINER_OPS_CUDA_LIBRARIES_CUDNN_GRAPH_H

#include "trainer/ops/cuda/device/device.h"

typedef cudnnBackendDescriptor_t graph_node;

enum { GRAPH_RANK = 4, GRAPH_NODES_MAX = 96, GRAPH_OPERATIONS_MAX = 32, GRAPH_ARGUMENTS_MAX = 16 };

struct graph {
    graph_node nodes[GRAPH_NODES_MAX]; // all nodes, for graph_free()
    int node_count;
    graph_node operations[GRAPH_OPERATIONS_MAX];
    int operation_count;
    int64_t unnamed; // number of intermediate tensors
    int number;      // takes the number-th acceptable kernel in cuDNN's order
    cudnnStatus_t status;
};

struct graph_layout {
    int64_t size[GRAPH_RANK], stride[GRAPH_RANK];
};

// A tensor with an id above 0 is an argument of graph_run(); with id 0 it is an intermediate one.
// graph_number() describes a scalar that is passed by value from the host.
graph_node graph_tensor(struct graph *g, const struct graph_layout *l, cudnnDataType_t type,
                        int64_t id);
graph_node graph_number(struct graph *g, cudnnDataType_t type, int64_t id);

struct graph_convolution {
    int64_t stride, padding;
};
// Adds one of the three passes of a convolution, by the type of the operation; x, w and y are
// gradients where the operation says so.
void graph_convolve(struct graph *g, cudnnBackendDescriptorType_t pass,
                    const struct graph_convolution *c, graph_node x, graph_node w, graph_node y);

// y = mode(x, b); `t` selects in CUDNN_POINTWISE_BINARY_SELECT. b and t may be NULL.
void graph_map(struct graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, graph_node x,
               graph_node b, graph_node t, graph_node y);
void graph_index(struct graph *g, int64_t axis, graph_node x,
                 graph_node y); // indices along an axis
void graph_multiply(struct graph *g, graph_node a, graph_node b, graph_node c);
void graph_reduce(struct graph *g, cudnnReduceTensorOp_t op, graph_node x, graph_node y);
void graph_reshape(struct graph *g, graph_node x, graph_node y);

// Accepts only deterministic kernels, and in OPS_FLOAT only kernels that use all bits of a float.
// ERR_INTERNAL: cuDNN has none; `what` names the operation in the text.
struct graph_plan {
    graph_node plan, engine; // plan NULL: not compiled
    int64_t workspace;       // bytes that the caller of graph_run() provides
};
int graph_compile(struct graph *g, const char *what, struct graph_plan *out, struct error *e);
void graph_free(struct graph *g);
void graph_plan_free(struct graph_plan *p);

int64_t graph_workspace_floats(const struct graph_plan *p); // for any alignment of its start

// Enqueues the plan. ops_synchronize() returns its errors, with `op` as the name.
struct graph_argument {
    int64_t id;
    const void *at;
};
void graph_run(const struct graph_plan *p, const struct graph_argument *arguments, int count,
               float *workspace, const char *op);

#endif
