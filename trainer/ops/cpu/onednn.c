#include "trainer/ops/cpu/onednn.h"

#include <string.h>

#include "base/log.h"

static int check_status(dnnl_status_t status, const char *what, struct error *e)
{
    if (status == dnnl_success)
        return 0;
    return error_set(e, ERR_INTERNAL, "oneDNN cannot create %s (status %d)", what, (int)status);
}

int onednn_open(struct onednn_device *d, struct error *e)
{
    *d = (struct onednn_device){0};
    int rc = check_status(dnnl_engine_create(&d->engine, dnnl_cpu, 0), "a CPU engine", e);
    if (!rc)
        rc = check_status(dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags),
                          "a stream", e);
    return rc;
}

void onednn_close(struct onednn_device *d)
{
    if (d->stream)
        dnnl_stream_destroy(d->stream);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
    *d = (struct onednn_device){0};
}

dnnl_memory_desc_t onednn_layout(int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t layout;
    must(dnnl_memory_desc_init_by_tag(&layout, rank, dims, dnnl_f32, tag) == dnnl_success);
    return layout;
}

int onednn_describe(const struct onednn_device *d, const void *op, const_dnnl_primitive_desc_t hint,
                    const char *prefer, const char *what, dnnl_primitive_desc_t *out,
                    struct error *e)
{
    int rc = check_status(dnnl_primitive_desc_create(out, op, NULL, d->engine, hint), what, e);
    dnnl_primitive_desc_iterator_t it = NULL;
    if (rc || !prefer ||
        dnnl_primitive_desc_iterator_create(&it, op, NULL, d->engine, hint) != dnnl_success)
        return rc;
    do {
        const char *name = NULL;
        dnnl_primitive_desc_t described = dnnl_primitive_desc_iterator_fetch(it);
        must(described);
        dnnl_primitive_desc_query(described, dnnl_query_impl_info_str, 0, &name);
        if (name && strcmp(name, prefer) == 0) {
            dnnl_primitive_desc_destroy(*out);
            *out = described;
            break;
        }
        dnnl_primitive_desc_destroy(described);
    } while (dnnl_primitive_desc_iterator_next(it) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(it);
    return 0;
}

int onednn_compile(struct onednn_call *call, const_dnnl_primitive_desc_t described, struct error *e)
{
    return check_status(dnnl_primitive_create(&call->primitive, described), "a primitive", e);
}

int onednn_compile_reorder(const struct onednn_device *d, struct onednn_call *call,
                           const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                           struct error *e)
{
    dnnl_primitive_desc_t described = NULL;
    int rc = check_status(
        dnnl_reorder_primitive_desc_create(&described, from, d->engine, to, d->engine, NULL),
        "a reordering of weights", e);
    if (!rc)
        rc = onednn_compile(call, described, e);
    if (described)
        dnnl_primitive_desc_destroy(described);
    return rc;
}

void onednn_destroy(struct onednn_call *call)
{
    for (int i = 0; i < call->count; i++)
        if (!call->borrowed[i])
            dnnl_memory_destroy(call->arguments[i].memory);
    if (call->primitive)
        dnnl_primitive_destroy(call->primitive);
    *call = (struct onednn_call){0};
}

static int add_argument(const struct onednn_device *d, struct onednn_call *call, int index,
                        const dnnl_memory_desc_t *layout, void *data, struct error *e)
{
    must(call->count < ONEDNN_ARGUMENTS_MAX);
    dnnl_memory_t memory = NULL;
    int rc = check_status(dnnl_memory_create(&memory, layout, d->engine, data), "memory", e);
    if (!rc)
        call->arguments[call->count++] = (dnnl_exec_arg_t){index, memory};
    return rc;
}

int onednn_add_tensor(const struct onednn_device *d, struct onednn_call *call, int index,
                      const dnnl_memory_desc_t *layout, struct error *e)
{
    return add_argument(d, call, index, layout, DNNL_MEMORY_NONE, e);
}

int onednn_add_memory(const struct onednn_device *d, struct onednn_call *call, int index,
                      const dnnl_memory_desc_t *layout, struct error *e)
{
    return add_argument(d, call, index, layout, DNNL_MEMORY_ALLOCATE, e);
}

static dnnl_memory_t memory_of(const struct onednn_call *call, int index)
{
    for (int i = 0; i < call->count; i++)
        if (call->arguments[i].arg == index)
            return call->arguments[i].memory;
    log_die(__FILE__, __LINE__, "the call has no such argument");
}

void onednn_add_borrowed(struct onednn_call *call, int index, const struct onednn_call *owner,
                         int owner_index)
{
    must(call->count < ONEDNN_ARGUMENTS_MAX);
    call->borrowed[call->count] = true;
    call->arguments[call->count++] = (dnnl_exec_arg_t){index, memory_of(owner, owner_index)};
}

void onednn_bind(struct onednn_call *call, int index, const float *data)
{
    // oneDNN has only non-const handles; a primitive does not write its inputs.
    void *handle;
    memcpy(&handle, &data, sizeof handle);
    must(dnnl_memory_set_data_handle(memory_of(call, index), handle) == dnnl_success);
}

void onednn_run(const struct onednn_device *d, const struct onednn_call *call)
{
    must(dnnl_primitive_execute(call->primitive, d->stream, call->count, call->arguments) ==
         dnnl_success);
    must(dnnl_stream_wait(d->stream) == dnnl_success);
}
