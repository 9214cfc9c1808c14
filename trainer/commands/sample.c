// `muster-trainer sample`: continues a text byte by byte with the weights of a gpt checkpoint.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/commands/commands.h"
#include "trainer/ops/ops.h"

// key of these random draws, distinct from all others of the seed
#define SAMPLE_DRAW UINT64_C(0x73616d706c65)

enum { BYTE_VALUES = 256 };

struct sampler {
    struct compiled_model *model;
    struct sample_shape shape;
    float *weights;
    int32_t *tokens; // [shape.context], the newest last
    int64_t length;
    float *logits; // [shape.vocabulary]
    double temperature;
    uint64_t seed;
};

static int load_model(struct sampler *s, const char *folder, struct error *e)
{
    struct checkpoint *ck = NULL;
    int err = checkpoint_open(folder, &ck, e);
    if (err)
        return err;
    const json_t *spec = jget(checkpoint_manifest(ck), "model");
    if (strcmp(jget_string(spec, "family", ""), "gpt") != 0) {
        err = error_set(e, ERR_INVALID,
                        "%s is a checkpoint of family \"%s\"; only family gpt can continue a text",
                        folder, jget_string(spec, "family", "?"));
        goto out;
    }
    s->shape = (struct sample_shape){.kind = SAMPLE_TOKENS,
                                     .context = jget_int(spec, "context", 0),
                                     .vocabulary = jget_int(spec, "vocabulary", BYTE_VALUES)};
    err = model_compile(spec, NULL, &s->shape, 1, &s->model, e);
    if (err)
        goto out;
    struct train_state state = {.block_size = model_block_size(s->model)};
    state.parameters = model_parameters(s->model, &state.parameter_count);
    void *weights = NULL;
    err = ops_alloc(state.block_size * sizeof(float), &weights, e);
    if (err)
        goto out;
    s->weights = state.weights = weights;
    s->tokens = xcalloc((size_t)s->shape.context, sizeof *s->tokens);
    s->logits = xcalloc((size_t)s->shape.vocabulary, sizeof *s->logits);
    err = restore_weights(ck, folder, &state, e);
out:
    checkpoint_close(ck);
    return err;
}

// Appends to the sliding window: the model sees the last `context` tokens.
static void append_token(struct sampler *s, int32_t token)
{
    if (s->length == s->shape.context) {
        memmove(s->tokens, s->tokens + 1, (size_t)(s->length - 1) * sizeof *s->tokens);
        s->length--;
    }
    s->tokens[s->length++] = token;
}

static int append_prompt(struct sampler *s, const char *prompt, struct error *e)
{
    for (const char *c = prompt[0] ? prompt : "\n"; *c; c++) {
        if ((unsigned char)*c >= s->shape.vocabulary)
            return error_set(
                e, ERR_INVALID,
                "the prompt contains byte %d, but the model's vocabulary has %lld entries",
                (unsigned char)*c, (long long)s->shape.vocabulary);
        append_token(s, (unsigned char)*c);
    }
    return 0;
}

// Samples from the softmax with temperature by inverting the cumulative distribution. Temperature 0
// takes the largest logit.
static int32_t sample_token(const struct sampler *s, int64_t position)
{
    int count = s->shape.vocabulary < BYTE_VALUES ? (int)s->shape.vocabulary : BYTE_VALUES;
    int best = 0;
    for (int i = 1; i < count; i++)
        if (s->logits[i] > s->logits[best])
            best = i;
    if (s->temperature <= 0)
        return best;
    double weights[BYTE_VALUES], sum = 0;
    for (int i = 0; i < count; i++) {
        weights[i] = exp((double)(s->logits[i] - s->logits[best]) / s->temperature);
        sum += weights[i];
    }
    uint32_t bits[4];
    philox4x32(s->seed, SAMPLE_DRAW, (uint64_t)position, bits);
    double at = bits[0] * 0x1p-32 * sum;
    for (int i = 0; i < count; i++) {
        at -= weights[i];
        if (at < 0)
            return i;
    }
    return best;
}

static int write_text(struct sampler *s, const char *prompt, int64_t bytes, struct error *e)
{
    int err = append_prompt(s, prompt, e);
    model_set_parameters(s->model, s->weights);
    fputs(prompt, stdout);
    for (int64_t i = 0; i < bytes && !err; i++) {
        err = model_next_logits(s->model, s->tokens, s->length, s->logits, e);
        if (err)
            break;
        int32_t token = sample_token(s, i);
        putchar(token);
        append_token(s, token);
    }
    if (!err && isatty(STDOUT_FILENO))
        putchar('\n');
    if (!err && (fflush(stdout) || ferror(stdout)))
        err = error_set_errno(e, ERR_IO, errno, "cannot write the text");
    return err;
}

static int read_temperature(const char *text, double *out, struct error *e)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end || !isfinite(*out) || *out < 0)
        return error_set(e, ERR_INVALID, "--temperature must be a number of 0 or more, not \"%s\"",
                         text);
    return 0;
}

static const char help_head[] =
    "usage: muster-trainer sample CHECKPOINT [FLAGS]\n\n"
    "Continues a text with a gpt checkpoint (the folder that holds manifest.json). The same seed\n"
    "gives the same text.\n\n";
static const char help_tail[] =
    "\nexample:\n"
    "  muster-trainer sample checkpoints/shakespeare/step-00002000 --prompt 'ROMEO:' --bytes 300\n";

int command_sample(int argc, char **argv)
{
    const char *prompt = "", *temperature = "0.8";
    long long bytes = 200, seed = 0;
    bool show_help = false;
    const struct flag flags[] = {
        {"prompt", 'p', FLAG_STRING, &prompt, "TEXT", "the text to continue", 0, 0, NULL},
        {"bytes", 0, FLAG_INT, &bytes, "N", "bytes to write (default 200)", 0, 1 << 30, NULL},
        {"temperature", 't', FLAG_STRING, &temperature, "T",
         "0: always the most likely byte; 1: as learnt (default 0.8)", 0, 0, NULL},
        {"seed", 0, FLAG_INT, &seed, "S", "seed of the random draws (default 0)", 0, 0, NULL},
        COMMAND_HELP_FLAG(&show_help),
        {0},
    };
    const struct command_syntax syntax = {
        .flags = flags,
        .head = help_head,
        .tail = help_tail,
        .usage = "give one checkpoint: muster-trainer sample CHECKPOINT",
        .count = 1,
    };
    struct sampler s = {0};
    struct error e = {0};
    const char *folder;
    int err = command_parse(&syntax, argc, argv, &show_help, &folder, &e);
    if (!err && !show_help)
        err = read_temperature(temperature, &s.temperature, &e);
    s.seed = (uint64_t)seed;
    if (!err && !show_help)
        err = ops_open(OPS_AUTO, &e);
    ops_init_thread();
    if (!err && !show_help)
        err = load_model(&s, folder, &e);
    if (!err && !show_help)
        err = write_text(&s, prompt, bytes, &e);
    model_free(s.model);
    ops_free(s.weights);
    free(s.tokens);
    free(s.logits);
    return err ? command_failed("sample", &e) : 0;
}
