#include "trainer/checkpoint/restore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "trainer/ops/device.h"

enum { EXPONENT_LEAST = -148, EXPONENT_MOST = 128 };

static int fail_other_model(const char *folder, const char *tensor, const char *what,
                            struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "%s is a checkpoint of another model or optimizer: tensor %s %s; use "
                     "the configuration it was made with, or start without a checkpoint",
                     folder, tensor, what);
}

static int load_tensor(const struct checkpoint *ck, const char *folder, const char *name,
                       const struct parameter *p, float *out, struct error *e)
{
    const struct checkpoint_tensor *t = checkpoint_tensor_find(ck, name);
    if (!t)
        return fail_other_model(folder, name, "is missing", e);
    bool same = t->dtype == CHECKPOINT_F32 && t->rank == p->rank &&
                memcmp(t->shape, p->shape, (size_t)p->rank * sizeof *p->shape) == 0;
    if (!same)
        return fail_other_model(folder, name, "has another shape", e);
    ops_upload(out, t->data, p->count * sizeof *out);
    return 0;
}

static int load_block(const struct checkpoint *ck, const char *folder, const char *prefix,
                      const struct train_state *state, float *block, struct error *e)
{
    int err = 0;
    ops_zero(block, state->block_size * sizeof *block);
    for (int i = 0; i < state->parameter_count && !err; i++) {
        const struct parameter *p = &state->parameters[i];
        char name[LIMIT_NAME + 1];
        snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] ? "." : "", p->name);
        err = load_tensor(ck, folder, name, p, block + p->offset, e);
    }
    return err;
}

int restore_weights(const struct checkpoint *ck, const char *folder,
                    const struct train_state *state, struct error *e)
{
    return load_block(ck, folder, "", state, state->weights, e);
}

static void load_best(const json_t *manifest, struct train_best *best)
{
    const json_t *then = json_object_get(manifest, "best"); // missing in older checkpoints
    *best = (struct train_best){
        .smaller_is_better = jget_bool(then, "smaller_is_better", true),
        .value = jget_double(then, "value", 0),
        .step = jget_int(then, "step", 0),
        .reference = jget_double(then, "mark", 0),
        .validations_since = jget_int(then, "waited", 0),
        .last_validated = jget_int(then, "judged", 0),
    };
    snprintf(best->metric, sizeof best->metric, "%s", jget_string(then, "metric", ""));
}

// Finite floats have exponents from -148 to 128. The functions that make scales of them have
// floors.
static bool read_exponent(const json_t *exponents, const char *name, int32_t *out)
{
    const json_t *exponent = json_object_get(exponents, name);
    json_int_t value = json_integer_value(exponent);
    bool good = json_is_integer(exponent) && value >= EXPONENT_LEAST && value <= EXPONENT_MOST;
    *out = good ? (int32_t)value : 0;
    return good;
}

// Missing in checkpoints of other precisions, and of models with other layers in FP8.
static void load_quantised_exponents(const json_t *manifest, struct train_state *state)
{
    const json_t *exponents = json_object_get(manifest, "fp8_exponents");
    state->position.quantised_known = state->quantised_count > 0;
    for (int i = 0; i < state->quantised_count; i++) {
        state->position.quantised_known &=
            read_exponent(exponents, state->quantised[i].name, &state->quantised_exponents[i]);
    }
}

static void load_position(const json_t *manifest, struct train_state *state)
{
    const json_t *window = json_object_get(manifest, "report_window");
    const json_t *exponents = json_object_get(manifest, "exponents");
    state->position = (struct train_position){
        .step = jget_int(manifest, "step", 0),
        .data_cursor = jget_int(manifest, "data_cursor", 0),
        .seed = (uint64_t)jget_int(json_object_get(manifest, "generator"), "seed", 0),
        .window_steps = jget_int(window, "steps", 0),
        .window_loss = {.total = jget_int(window, "loss", 0),
                        .not_finite = jget_int(window, "not_finite", 0)},
        .window_norm = jget_double(window, "gradient_norm", 0),
        .exponents_known = true,
    };
    load_best(manifest, &state->position.best);
    load_quantised_exponents(manifest, state);
    for (int i = 0; i < state->parameter_count; i++) {
        state->position.exponents_known &=
            read_exponent(exponents, state->parameters[i].name, &state->exponents[i]);
    }
}

static void compare_fingerprint(const char *folder, const json_t *manifest, const char *fingerprint)
{
    const char *then = jget_string(manifest, "fingerprint", "");
    char quoted[ERROR_TEXT_MAX];
    if (strcmp(then, fingerprint) != 0)
        log_warn(
            "the checkpoint was made by other arithmetic; the weights may differ from those of an "
            "undisturbed run",
            "checkpoint=%s then=\"%s\" now=\"%s\"", log_quote(quoted, sizeof quoted, folder), then,
            fingerprint);
}

static int restore_checkpoint(const char *folder, const char *fingerprint,
                              struct train_state *state, struct error *e)
{
    struct checkpoint *ck = NULL;
    int err = checkpoint_open(folder, &ck, e);
    if (err)
        return err;
    err = restore_weights(ck, folder, state, e);
    int blocks = optimizer_state_count(state->optimizer);
    for (int i = 0; i < blocks && !err; i++)
        err = load_block(ck, folder, optimizer_state_name(state->optimizer, i), state,
                         optimizer_state(state->optimizer, i), e);
    size_t expected = (size_t)(state->parameter_count * (1 + blocks));
    if (!err && checkpoint_tensor_count(ck) != expected)
        err = error_set(e, ERR_INVALID,
                        "%s is a checkpoint of another model or optimizer: it holds %zu tensors "
                        "where %zu are expected",
                        folder, checkpoint_tensor_count(ck), expected);
    if (!err) {
        load_position(checkpoint_manifest(ck), state);
        compare_fingerprint(folder, checkpoint_manifest(ck), fingerprint);
    }
    checkpoint_close(ck);
    return err;
}

int restore_first_intact(char *const *folders, int count, const char *fingerprint,
                         struct train_state *state, struct error *e)
{
    struct error first = {0}, why = {0};
    char folder[ERROR_TEXT_MAX], quoted[ERROR_TEXT_MAX];
    for (int i = 0; i < count; i++) {
        log_quote(folder, sizeof folder, folders[i]);
        int err = restore_checkpoint(folders[i], fingerprint, state, &why);
        if (!err) {
            log_info("state restored", "checkpoint=%s step=%lld", folder,
                     (long long)state->position.step);
            return 0;
        }
        if (err != ERR_CORRUPT && err != ERR_NOT_FOUND)
            return error_set(e, err, "%s", why.text);
        log_warn("cannot use a checkpoint", "checkpoint=%s err=%s", folder,
                 log_quote(quoted, sizeof quoted, why.text));
        if (i == 0)
            first = why;
    }
    return error_set(e, first.code ? first.code : ERR_NOT_FOUND, "%s%s", first.text,
                     count > 1 ? " (no earlier checkpoint is intact either)" : "");
}

int64_t restore_batch_size(char *const *folders, int count, const char *name)
{
    int64_t batch = 0;
    for (int i = 0; i < count && batch == 0; i++) {
        char *path = path_join(folders[i], "manifest.json");
        json_t *manifest = json_load_file(path, 0, NULL);
        batch = jget_int(manifest, name, 0);
        json_decref(manifest);
        free(path);
    }
    return batch;
}
