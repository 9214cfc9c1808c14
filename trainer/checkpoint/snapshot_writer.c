#include "trainer/checkpoint/snapshot_writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/device.h"

enum { BLOCKS_MAX = 1 + OPTIMIZER_STATES_MAX, BLOCK_ALIGN = 64 };

struct snapshot_writer {
    void (*written)(void *ctx, const struct snapshot_info *info);
    void *ctx;
    struct train_state state; // only the shape
    int block_count;          // the weights, then the optimizer's state blocks
    float *blocks[BLOCKS_MAX];
    struct checkpoint_tensor *tensors; // [block_count][parameter_count] views of the blocks
    char **names;                      // [block_count][parameter_count] names of the tensors

    // The write in progress. These belong to the writing thread until it is joined.
    pthread_t thread;
    bool running;
    struct snapshot_info info;
    char *folder;
    json_t *manifest;
    int err;
    struct error error;
};

static void describe_block(struct snapshot_writer *s, int block, const char *prefix)
{
    int count = s->state.parameter_count;
    for (int i = 0; i < count; i++) {
        const struct parameter *p = &s->state.parameters[i];
        int at = block * count + i;
        s->names[at] = prefix ? xasprintf("%s.%s", prefix, p->name) : xstrdup(p->name);
        struct checkpoint_tensor *t = &s->tensors[at];
        *t = (struct checkpoint_tensor){.name = s->names[at],
                                        .dtype = CHECKPOINT_F32,
                                        .rank = p->rank,
                                        .data = s->blocks[block] + p->offset};
        memcpy(t->shape, p->shape, sizeof p->shape);
    }
}

struct snapshot_writer *
snapshot_writer_new(const struct train_state *state,
                    void (*written)(void *ctx, const struct snapshot_info *info), void *ctx)
{
    struct snapshot_writer *s = xcalloc(1, sizeof *s);
    s->written = written;
    s->ctx = ctx;
    s->state = *state;
    s->block_count = 1 + optimizer_state_count(state->optimizer);
    must(s->block_count <= BLOCKS_MAX);
    size_t tensors = (size_t)s->block_count * (size_t)state->parameter_count;
    s->tensors = xcalloc(tensors, sizeof *s->tensors);
    s->names = xcalloc(tensors, sizeof *s->names);
    for (int b = 0; b < s->block_count; b++) {
        s->blocks[b] = aligned_alloc(BLOCK_ALIGN, state->block_size * sizeof(float));
        must(s->blocks[b]);
        describe_block(s, b, b ? optimizer_state_name(state->optimizer, b - 1) : NULL);
    }
    return s;
}

static void *write_checkpoint(void *arg)
{
    struct snapshot_writer *s = arg;
    size_t parameters = (size_t)s->state.parameter_count;
    const struct checkpoint_file files[] = {
        {.name = "weights.safetensors", .tensors = s->tensors, .count = parameters},
        {.name = "optimizer.safetensors",
         .tensors = s->tensors + parameters,
         .count = parameters * (size_t)(s->block_count - 1)},
    };
    size_t count = s->block_count > 1 ? 2 : 1;
    s->err = checkpoint_write(s->folder, files, count, s->manifest, &s->error);
    if (!s->err)
        s->written(s->ctx, &s->info);
    return NULL;
}

static json_t *make_quantised_exponents(const struct train_state *state)
{
    json_t *out = json_object();
    for (int i = 0; i < state->quantised_count; i++)
        json_object_set_new(out, state->quantised[i].name,
                            json_integer(state->quantised_exponents[i]));
    return out;
}

static json_t *make_manifest(const struct train_state *state, const json_t *metadata)
{
    const struct train_position *at = &state->position;
    json_t *manifest = json_deep_copy(metadata), *exponents = json_object();
    for (int i = 0; i < state->parameter_count && at->exponents_known; i++)
        json_object_set_new(exponents, state->parameters[i].name,
                            json_integer(state->exponents[i]));
    const struct train_best *best = &at->best;
    json_t *more = json_pack(
        "{s:I, s:I, s:o, s:{s:I}, s:{s:I, s:I, s:I, s:f}, "
        "s:{s:s, s:b, s:f, s:I, s:f, s:I, s:I}}",
        "step", (json_int_t)at->step, "data_cursor", (json_int_t)at->data_cursor, "exponents",
        exponents, "generator", "seed", (json_int_t)at->seed, "report_window", "steps",
        (json_int_t)at->window_steps, "loss", (json_int_t)at->window_loss.total, "not_finite",
        (json_int_t)at->window_loss.not_finite, "gradient_norm", at->window_norm, "best", "metric",
        best->metric, "smaller_is_better", best->smaller_is_better, "value", best->value, "step",
        (json_int_t)best->step, "mark", best->reference, "waited",
        (json_int_t)best->validations_since, "judged", (json_int_t)best->last_validated);
    must(more);
    if (at->quantised_known)
        json_object_set_new(more, "fp8_exponents", make_quantised_exponents(state));
    json_object_update(manifest, more);
    json_decref(more);
    return manifest;
}

static int join_writer(struct snapshot_writer *s, struct error *e)
{
    if (!s->running)
        return 0;
    pthread_join(s->thread, NULL);
    s->running = false;
    json_decref(s->manifest);
    free(s->folder);
    s->manifest = NULL;
    s->folder = NULL;
    return s->err ? error_set(e, s->err, "%s", s->error.text) : 0;
}

int snapshot_writer_save(struct snapshot_writer *s, const struct train_state *state,
                         const struct snapshot_info *info, const json_t *metadata, struct error *e)
{
    struct error before;
    char why[ERROR_TEXT_MAX];
    if (join_writer(s, &before))
        log_error("cannot write the checkpoint", "step=%lld err=%s", (long long)s->info.step,
                  log_quote(why, sizeof why, before.text));
    size_t bytes = state->block_size * sizeof(float);
    ops_download(s->blocks[0], state->weights, bytes);
    for (int b = 1; b < s->block_count; b++)
        ops_download(s->blocks[b], optimizer_state(state->optimizer, b - 1), bytes);
    int err = ops_synchronize(e);
    if (err)
        return err;
    s->info = *info;
    s->folder = xstrdup(info->folder);
    s->info.folder = s->folder;
    s->manifest = make_manifest(state, metadata);
    int no = pthread_create(&s->thread, NULL, write_checkpoint, s);
    if (no)
        return error_set_errno(e, ERR_INTERNAL, no,
                               "cannot start the thread that writes checkpoints");
    s->running = true;
    return 0;
}

int snapshot_writer_wait(struct snapshot_writer *s, struct error *e)
{
    return join_writer(s, e);
}

void snapshot_writer_free(struct snapshot_writer *s)
{
    if (!s)
        return;
    join_writer(s, NULL);
    for (int i = 0; i < s->block_count * s->state.parameter_count; i++)
        free(s->names[i]);
    for (int b = 0; b < s->block_count; b++)
        free(s->blocks[b]);
    free(s->names);
    free(s->tensors);
    free(s);
}
