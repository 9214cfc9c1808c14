#include "trainer/loop/sizing.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json.h"
#include "trainer/ops/device.h"
#include "trainer/optim/optimizer.h"

enum {
    // A step keeps this many micro-batches where possible, so that as many slots can share it.
    SHARES = 8,
    // One part in so many of the memory stays free for libraries and communication.
    RESERVE = 16,
};

// --- memory --------------------------------------------------------------------------------------

size_t sizing_bytes(const json_t *trainer, const struct compiled_model *m)
{
    size_t blocks = 2 + (size_t)optimizer_states_of(jget(trainer, "optimizer"));
    return model_memory(m) + blocks * model_block_size(m) * sizeof(float);
}

static bool fits(const struct sizing_request *r, const struct compiled_model *m)
{
    return sizing_bytes(r->trainer, m) <= r->memory - r->memory / RESERVE;
}

// --- sizes of micro-batches ----------------------------------------------------------------------

// The number of samples beyond which the device hardly trains faster.
static int64_t good_samples(const struct sample_shape *s)
{
    int64_t tokens = s->context > 0 ? OPS_GOOD_POSITIONS / s->context : 0;
    return s->kind == SAMPLE_TOKENS  ? (tokens > 0 ? tokens : 1)
           : s->kind == SAMPLE_IMAGE ? OPS_GOOD_IMAGES
                                     : OPS_GOOD_ROWS;
}

static bool is_possible(int64_t global_batch, int64_t size)
{
    return global_batch % size == 0 && global_batch / size <= LIMIT_MICRO_BATCHES;
}

// The largest possible size of at most `size` samples; 0: there is none.
static int64_t size_at_most(int64_t global_batch, int64_t size)
{
    while (size > 0 && !is_possible(global_batch, size))
        size--;
    return size;
}

static int first_size(const struct sizing_request *r, int64_t *out, struct error *e)
{
    int64_t share = r->global_batch / SHARES, good = good_samples(r->shape);
    int64_t most = share < 1 ? 1 : share < good ? share : good;
    *out = size_at_most(r->global_batch, most);
    // A huge global batch needs larger micro-batches than good ones.
    for (int64_t size = most + 1; *out == 0 && size <= LIMIT_MICRO_BATCH; size++)
        if (is_possible(r->global_batch, size))
            *out = size;
    if (*out > 0)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.global_batch_size: no number of samples up to %d divides %" PRId64
                     " into at most %d micro-batches; choose a batch with more divisors",
                     LIMIT_MICRO_BATCH, r->global_batch, LIMIT_MICRO_BATCHES);
}

// --- plans ---------------------------------------------------------------------------------------

static int plan_size(const struct sizing_request *r, int64_t size, bool recompute,
                     struct compiled_model **out, struct error *e)
{
    const struct model_config config = {.spec = jget(r->trainer, "model"),
                                        .loss = jget(r->trainer, "loss"),
                                        .shape = r->shape,
                                        .micro_batch = size,
                                        .recompute = recompute};
    return model_plan(&config, out, e);
}

// Whether a chosen size may stay.
static bool is_good(const struct sizing_request *r, const struct compiled_model *m)
{
    return fits(r, m) && model_micro_batch(m) <= model_attention_samples(m);
}

// Plans the largest size that fits, or the smallest one. `*fitted` tells which.
static int plan_largest(const struct sizing_request *r, bool recompute, bool *fitted,
                        struct compiled_model **out, struct error *e)
{
    int64_t size = r->micro_batch;
    int err = size == 0 ? first_size(r, &size, e) : 0;
    *out = NULL;
    *fitted = false;
    while (!err) {
        model_free(*out);
        err = plan_size(r, size, recompute, out, e);
        if (err)
            break;
        *fitted = fits(r, *out);
        int64_t smaller = r->micro_batch == 0 ? size_at_most(r->global_batch, size - 1) : 0;
        if (smaller == 0 || is_good(r, *out))
            break;
        size = smaller;
    }
    return err;
}

static int check_blocks(const struct compiled_model *m, struct error *e)
{
    if (model_recomputed_blocks(m) > 0)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.recompute: the model has no residual block that can be recomputed "
                     "(blocks whose batch_norm has sync cannot); choose \"auto\" or \"none\"");
}

int sizing_plan(const struct sizing_request *r, struct compiled_model **out, struct error *e)
{
    const char *word = jget_string(r->trainer, "recompute", "auto");
    const bool automatic = strcmp(word, "auto") == 0, blocks = strcmp(word, "blocks") == 0;
    bool fitted;
    int err = plan_largest(r, blocks, &fitted, out, e);
    if (!err && blocks)
        err = check_blocks(*out, e);
    if (!err && automatic && !fitted) {
        struct compiled_model *plain = *out;
        err = plan_largest(r, true, &fitted, out, e);
        if (!err && model_recomputed_blocks(*out) == 0) {
            model_free(*out);
            *out = plain;
        } else {
            model_free(plain);
        }
    }
    if (err) {
        model_free(*out);
        *out = NULL;
    }
    return err;
}
