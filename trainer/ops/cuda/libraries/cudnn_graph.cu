#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <nvrtc.h>
#include <stdio.h>
#include <string.h>

#include "trainer/ops/cuda/libraries/cudnn_graph.h"

extern "C" {
#include "base/log.h"
}

enum { ENGINES_MAX = 16 };

// --- describing ----------------------------------------------------------------------------------

static graph_node new_node(struct graph *g, cudnnBackendDescriptorType_t type)
{
    must(g->node_count < GRAPH_NODES_MAX);
    graph_node node = NULL;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(type, &node);
    if (!g->status)
        g->status = status;
    if (node)
        g->nodes[g->node_count++] = node;
    return node;
}

static void set_attribute(struct graph *g, graph_node node, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (!g->status)
        g->status = cudnnBackendSetAttribute(node, name, type, count, values);
}

static void set_node_attribute(struct graph *g, graph_node node, cudnnBackendAttributeName_t name,
                               graph_node value)
{
    if (value)
        set_attribute(g, node, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize_node(struct graph *g, graph_node node)
{
    if (!g->status)
        g->status = cudnnBackendFinalize(node);
}

static void finalize_operation(struct graph *g, graph_node operation)
{
    must(g->operation_count < GRAPH_OPERATIONS_MAX);
    finalize_node(g, operation);
    g->operations[g->operation_count++] = operation;
}

static graph_node make_tensor(struct graph *g, const struct graph_layout *l, cudnnDataType_t type,
                              int64_t id, bool by_value)
{
    enum { UNNAMED = 1000 };
    const int64_t alignment = 16;
    bool within = id == 0;
    if (within)
        id = UNNAMED + g->unnamed++;
    graph_node t = new_node(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_attribute(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_attribute(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, GRAPH_RANK, l->size);
    set_attribute(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, GRAPH_RANK, l->stride);
    set_attribute(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set_attribute(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set_attribute(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &within);
    set_attribute(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize_node(g, t);
    return t;
}

graph_node graph_tensor(struct graph *g, const struct graph_layout *l, cudnnDataType_t type,
                        int64_t id)
{
    return make_tensor(g, l, type, id, false);
}

graph_node graph_number(struct graph *g, cudnnDataType_t type, int64_t id)
{
    const struct graph_layout one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    return make_tensor(g, &one, type, id, true);
}

static graph_node describe_convolution(struct graph *g, const struct graph_convolution *c)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t spatial = 2, dilations[] = {1, 1}, strides[] = {c->stride, c->stride};
    const int64_t paddings[] = {c->padding, c->padding};
    graph_node node = new_node(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_attribute(g, node, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set_attribute(g, node, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_attribute(g, node, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set_attribute(g, node, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations);
    set_attribute(g, node, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    set_attribute(g, node, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, paddings);
    set_attribute(g, node, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, paddings);
    finalize_node(g, node);
    return node;
}

// The attributes of one pass of a convolution.
struct convolution_attributes {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};

static const struct convolution_attributes passes[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

void graph_convolve(struct graph *g, cudnnBackendDescriptorType_t pass,
                    const struct graph_convolution *c, graph_node x, graph_node w, graph_node y)
{
    const float alpha = 1, beta = 0;
    const struct convolution_attributes *p = passes;
    while (p->type != pass)
        p++;
    graph_node node = new_node(g, pass);
    set_node_attribute(g, node, p->convolution, describe_convolution(g, c));
    set_node_attribute(g, node, p->x, x);
    set_node_attribute(g, node, p->w, w);
    set_node_attribute(g, node, p->y, y);
    set_attribute(g, node, p->alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    set_attribute(g, node, p->beta, CUDNN_TYPE_FLOAT, 1, &beta);
    finalize_operation(g, node);
}

static void add_pointwise(struct graph *g, graph_node how, graph_node x, graph_node b, graph_node t,
                          graph_node y)
{
    graph_node node = new_node(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    finalize_node(g, how);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finalize_operation(g, node);
}

static graph_node new_pointwise(struct graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute)
{
    graph_node how = new_node(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set_attribute(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_attribute(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    return how;
}

void graph_map(struct graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, graph_node x,
               graph_node b, graph_node t, graph_node y)
{
    add_pointwise(g, new_pointwise(g, mode, compute), x, b, t, y);
}

void graph_index(struct graph *g, int64_t axis, graph_node x, graph_node y)
{
    graph_node how = new_pointwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT);
    set_attribute(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    add_pointwise(g, how, x, NULL, NULL, y);
}

void graph_multiply(struct graph *g, graph_node a, graph_node b, graph_node c)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    graph_node how = new_node(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_attribute(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize_node(g, how);
    graph_node node = new_node(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    finalize_operation(g, node);
}

void graph_reduce(struct graph *g, cudnnReduceTensorOp_t op, graph_node x, graph_node y)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    graph_node how = new_node(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_attribute(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
                  &op);
    set_attribute(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize_node(g, how);
    graph_node node = new_node(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    finalize_operation(g, node);
}

void graph_reshape(struct graph *g, graph_node x, graph_node y)
{
    graph_node node = new_node(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_node_attribute(g, node, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    finalize_operation(g, node);
}

void graph_free(struct graph *g)
{
    while (g->node_count > 0)
        cudnnBackendDestroyDescriptor(g->nodes[--g->node_count]);
    *g = {};
}

// --- compiling -----------------------------------------------------------------------------------

// cuDNN compiles some kernels with NVRTC; this program links NVRTC so that it is available. NVRTC
// loads its builtins library by name only, and does not find it in a folder that is not on the
// search path. Loading it here from NVRTC's own folder makes it available.
static void load_compiler(void)
{
    static bool was_here;
    struct link_map *first = NULL;
    char name[32], path[PATH_MAX];
    int major = 0, minor = 0;
    if (was_here || nvrtcVersion(&major, &minor))
        return;
    was_here = true;
    snprintf(name, sizeof name, "libnvrtc.so.%d", major);
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return;
    if (!dlinfo(handle, RTLD_DI_LINKMAP, &first)) {
        const char *folder = first->l_name, *end = strrchr(folder, '/');
        int length = end ? (int)(end + 1 - folder) : 0;
        snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d", length, folder, major, minor);
        dlopen(path, RTLD_LAZY);
    }
    dlclose(handle);
}

// Returns whether a kernel with this numerical property is acceptable. FFT and Winograd are less
// accurate and let NaN reach neighbouring places.
static bool is_acceptable(cudnnBackendNumericalNote_t note)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return device.precision != OPS_FLOAT;
    default:
        return true;
    }
}

static bool config_is_acceptable(graph_node config)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    graph_node engine = NULL;
    int64_t count = 0;
    bool fine = false;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
        return false;
    if (!cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) &&
        !cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                  CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                  &count, notes)) {
        fine = true;
        for (int64_t i = 0; i < count; i++)
            fine = fine && is_acceptable(notes[i]);
    }
    cudnnBackendDestroyDescriptor(engine);
    return fine;
}

static cudnnStatus_t finalize_plan(graph_node config, graph_node plan, int64_t *workspace)
{
    int64_t count = 0;
    cudnnStatus_t status;
    if (device.properties)
        status = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device.properties);
    else
        status = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                                          1, &device.dnn);
    if (!status)
        status = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (!status)
        status = cudnnBackendFinalize(plan);
    if (!status)
        status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &count, workspace);
    return status;
}

// A search for a plan: its result, or why there is none.
struct plan_search {
    struct graph_plan *found;
    int left; // suitable engines to skip
    char why[256];
};

// Stores cuDNN's last error message, its first line only.
static void search_set_reason(struct plan_search *s)
{
    char words[sizeof s->why] = "";
    cudnnGetLastErrorString(words, sizeof words);
    words[strcspn(words, "\n")] = '\0';
    if (words[0])
        snprintf(s->why, sizeof s->why, "%s", words);
}

static void search_try(graph_node config, struct plan_search *s)
{
    graph_node plan = NULL;
    if (!config_is_acceptable(config) ||
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan))
        return;
    if (finalize_plan(config, plan, &s->found->workspace)) {
        search_set_reason(s);
        cudnnBackendDestroyDescriptor(plan);
        return;
    }
    if (s->left-- > 0) {
        cudnnBackendDestroyDescriptor(plan);
        return;
    }
    s->found->plan = plan;
    s->found->engine = config;
}

static cudnnStatus_t describe_query(graph_node query, graph_node operations,
                                    cudnnBackendHeurMode_t mode)
{
    cudnnStatus_t status = cudnnBackendSetAttribute(query, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operations);
    if (!status)
        status = cudnnBackendSetAttribute(query, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                                          1, &mode);
    if (!status && device.properties)
        status = cudnnBackendSetAttribute(query, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device.properties);
    return status ? status : cudnnBackendFinalize(query);
}

// Takes the first suitable engine; cuDNN lists the engines best first.
static void query_engines(graph_node operations, cudnnBackendHeurMode_t mode, struct plan_search *s)
{
    graph_node configs[ENGINES_MAX] = {}, query = NULL;
    int64_t found = 0;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &query);
    for (int i = 0; i < ENGINES_MAX && !status; i++)
        status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
    if (!status)
        status = describe_query(query, operations, mode);
    if (!status)
        status =
            cudnnBackendGetAttribute(query, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES_MAX, &found, configs);
    if (status)
        search_set_reason(s);
    for (int64_t i = 0; i < found && !status && !s->found->plan; i++)
        search_try(configs[i], s);
    for (int i = 0; i < ENGINES_MAX; i++)
        if (configs[i] && configs[i] != s->found->engine)
            cudnnBackendDestroyDescriptor(configs[i]);
    if (query)
        cudnnBackendDestroyDescriptor(query);
}

int graph_compile(struct graph *g, const char *what, struct graph_plan *out, struct error *e)
{
    struct plan_search s = {out, g->number, "none of its engines is suitable"};
    load_compiler();
    graph_node operations = new_node(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    *out = {};
    set_attribute(g, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  g->operation_count, g->operations);
    if (!device.properties)
        set_attribute(g, operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &device.dnn);
    finalize_node(g, operations);
    if (g->status)
        search_set_reason(&s);
    else
        query_engines(operations, CUDNN_HEUR_MODE_A, &s);
    if (!g->status && !out->plan)
        query_engines(operations, CUDNN_HEUR_MODE_FALLBACK, &s);
    if (out->plan)
        return 0;
    return error_set(e, ERR_INTERNAL,
                     "cuDNN has no deterministic kernel for %s: %s; CUDNN_LOGLEVEL_DBG=2 and "
                     "CUDNN_LOGDEST_DBG=stderr show more",
                     what, s.why);
}

void graph_plan_free(struct graph_plan *p)
{
    if (p->plan)
        cudnnBackendDestroyDescriptor(p->plan);
    if (p->engine)
        cudnnBackendDestroyDescriptor(p->engine);
    *p = {};
}

// --- running -------------------------------------------------------------------------------------

// Kernels need a larger alignment of their workspace than our tensors have.
enum { WORKSPACE_ALIGNMENT = 256 };

int64_t graph_workspace_floats(const struct graph_plan *p)
{
    return p->workspace == 0 ? 0 : ceil_div(p->workspace + WORKSPACE_ALIGNMENT, sizeof(float));
}

void graph_run(const struct graph_plan *p, const struct graph_argument *arguments, int count,
               float *unaligned, const char *op)
{
    const void *places[GRAPH_ARGUMENTS_MAX];
    int64_t ids[GRAPH_ARGUMENTS_MAX];
    struct graph g = {};
    uintptr_t past = (uintptr_t)unaligned + WORKSPACE_ALIGNMENT - 1;
    void *workspace = (void *)(past - past % WORKSPACE_ALIGNMENT);
    must(count <= GRAPH_ARGUMENTS_MAX);
    for (int i = 0; i < count; i++) {
        ids[i] = arguments[i].id;
        places[i] = arguments[i].at;
    }
    graph_node pack = new_node(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set_attribute(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    set_attribute(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                  places);
    set_attribute(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize_node(&g, pack);
    device_check_dnn(g.status ? g.status : cudnnBackendExecute(device.dnn, p->plan, pack), op);
    graph_free(&g);
}
