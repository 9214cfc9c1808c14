// Operations by cuDNN: a graph of them is described, compiled into a plan once, and run. One
// thread; whoever describes a graph frees it, and so for a plan, which needs no graph any more.
//
// A description goes on after something failed, and graph_compile() tells of the first failure.
#ifndef MUSTER_TRAINER_OPS_CUDA_LIBRARIES_CUDNN_GRAPH_H
#define MUSTER_TRAINER_OPS_CUDA_LIBRARIES_CUDNN_GRAPH_H

#include "trainer/ops/cuda/device/device.h"

typedef cudnnBackendDescriptor_t graph_node;

enum { GRAPH_RANK = 4, GRAPH_NODES_MAX = 96, GRAPH_OPERATIONS_MAX = 32, GRAPH_ARGUMENTS_MAX = 16 };

struct graph {
    graph_node nodes[GRAPH_NODES_MAX]; // all that is to be destroyed
    int node_count;
    graph_node operations[GRAPH_OPERATIONS_MAX];
    int operation_count;
    int64_t unnamed; // tensors within
    int number;      // of the kernel to take, among those that cuDNN names and that will do
    cudnnStatus_t status;
};

struct graph_layout {
    int64_t size[GRAPH_RANK], stride[GRAPH_RANK];
};

// A tensor with an id above 0 is given when the plan runs; with id 0 it stays within the graph. One
// `by_value` is a number of the host.
graph_node graph_tensor(struct graph *g, const struct graph_layout *l, cudnnDataType_t type,
                        int64_t id);
graph_node graph_number(struct graph *g, cudnnDataType_t type, int64_t id);

struct graph_convolution {
    int64_t stride, padding;
};
// One of its three passes, by the type of the operation; x, w and y are gradients where it says so.
void graph_convolve(struct graph *g, cudnnBackendDescriptorType_t pass,
                    const struct graph_convolution *c, graph_node x, graph_node w, graph_node y);

// y = mode(x, b); `t` chooses between them in CUDNN_POINTWISE_BINARY_SELECT. b and t may be NULL.
void graph_map(struct graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, graph_node x,
               graph_node b, graph_node t, graph_node y);
void graph_index(struct graph *g, int64_t axis, graph_node x, graph_node y); // places along an axis
void graph_multiply(struct graph *g, graph_node a, graph_node b, graph_node c);
void graph_reduce(struct graph *g, cudnnReduceTensorOp_t op, graph_node x, graph_node y);
void graph_reshape(struct graph *g, graph_node x, graph_node y);

// Only a kernel whose result does not vary is taken, and in OPS_FLOAT one that takes all of its
// bits. ERR_INTERNAL: cuDNN has none; `what` says for what.
struct graph_plan {
    graph_node plan, engine; // plan is NULL: none
    int64_t workspace;       // bytes, for whoever runs it to give
};
int graph_compile(struct graph *g, const char *what, struct graph_plan *out, struct error *e);
void graph_free(struct graph *g);
void graph_plan_free(struct graph_plan *p);

int64_t graph_room(const struct graph_plan *p); // floats, for the workspace wherever it begins

// Puts it on the stream. What goes wrong is told by ops_synchronize(), as of `op`.
struct graph_argument {
    int64_t id;
    const void *at;
};
void graph_run(const struct graph_plan *p, const struct graph_argument *arguments, int count,
               float *room, const char *op);

#endif
