// `muster-trainer describe`: what an experiment file will train, without training it: the compiled
// layers, and the memory that every rank will hold.
//
// Memory is added up from what is known to be allocated. What libraries and compiled operations
// take is measured, in a process that was forked like a rank of `run` and has the same ones.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/experiment_file.h"
#include "trainer/launcher/gang.h"
#include "trainer/loop/process_memory.h"
#include "trainer/loop/training.h"
#include "trainer/reduction/sampler.h"

enum {
    WARM = 64,       // rows and columns of a product that makes the library load its kernels
    STAGE = 1 << 20, // most of a broadcast at once
};

struct model_summary {
    struct experiment_file experiment;
    struct dataset *train, *validation;
    struct model *model;
    struct optimizer *optimizer;
    bool json;
    struct process_memory begin, loaded, tried; // of this process
    int64_t mapped;                             // bytes of data files
    json_t *answer;
};

// Memory.

static void warm_up(void)
{
    const struct ops_linear product = {.rows = WARM, .in = WARM, .out = WARM};
    void *a = NULL, *b = NULL;
    size_t bytes = (size_t)ops_floats_for_reals((int64_t)WARM * WARM) * sizeof(float);
    if (!ops_alloc(bytes, &a, NULL) && !ops_alloc(bytes, &b, NULL))
        ops_linear_forward(&product, a, a, NULL, b);
    ops_free(b);
    ops_free(a);
}

static int64_t batch_bytes(const struct sample_shape *s, int64_t samples)
{
    int64_t each = (int64_t)sizeof(int64_t);
    if (s->kind == SAMPLE_TOKENS)
        each += 2 * s->context * (int64_t)sizeof(int32_t);
    else
        each += (s->height * s->width * s->channels + s->outputs + 1) * (int64_t)sizeof(float);
    return samples * each;
}

static void drop_gradient(void *ctx, int parameter, const float *gradient)
{
    (void)ctx, (void)parameter, (void)gradient;
}

// A micro-batch of zeros goes through the model, so that all is touched that training touches.
static int try_out(struct model_summary *d, int64_t samples, struct error *e)
{
    struct batch *batch = batch_new(dataset_shape(d->train), samples);
    void *weights = NULL;
    float *losses = xcalloc((size_t)samples, sizeof *losses);
    const struct gradient_sink sink = {.ready = drop_gradient};
    const struct draw_key key = {0};
    batch->count = samples;
    int err = ops_alloc(model_block_size(d->model) * sizeof(float), &weights, e);
    if (!err) {
        model_init(d->model, 0, weights);
        model_set_parameters(d->model, weights);
        err = model_train(d->model, batch, &key, &sink, losses, e);
    }
    if (!err)
        err = ops_synchronize(e);
    process_memory_read(&d->tried);
    free(losses);
    ops_free(weights);
    batch_free(batch);
    return err;
}

static int build(struct model_summary *d, struct error *e)
{
    const json_t *trainer = d->experiment.trainer, *model = jget(trainer, "model");
    int64_t micro_batch = jget_int(trainer, "micro_batch_size", 0);
    int err = ops_open(training_job_precision(trainer), e);
    if (err)
        return err;
    ops_init_thread();
    warm_up();
    process_memory_read(&d->begin);
    d->mapped = -process_mapped_bytes();
    err = dataset_open(jget(trainer, "data"), model, d->experiment.folder, &d->train,
                       &d->validation, e);
    process_memory_read(&d->loaded);
    d->mapped += process_mapped_bytes();
    if (!err)
        err = model_compile(model, jget(trainer, "loss"), dataset_shape(d->train), micro_batch,
                            &d->model, e);
    if (!err)
        err = try_out(d, micro_batch, e);
    if (err)
        return err;
    struct optimizer_config optimizer = {
        .spec = jget(trainer, "optimizer"),
        .schedule = jget(trainer, "schedule"),
        .steps = jget_int(trainer, "steps", 0),
        .global_batch = jget_int(trainer, "global_batch_size", 0),
        .clip_norm = jget_double(trainer, "clip_norm", 0),
        .block_size = model_block_size(d->model),
    };
    optimizer.parameters = model_parameters(d->model, &optimizer.parameter_count);
    return optimizer_new(&optimizer, &d->optimizer, e);
}

// Micro-batches of a step that this rank has in memory together.
static int64_t together(const struct model_summary *d)
{
    const json_t *trainer = d->experiment.trainer;
    int64_t all =
        jget_int(trainer, "global_batch_size", 0) / jget_int(trainer, "micro_batch_size", 1);
    return model_needs_lockstep(d->model) ? sampler_share(all, d->experiment.slots, 0).count : 1;
}

// What a rank shows its peers: all of its sums (its own part when a checkpoint is written) and its
// part of the weights. And what it sees of each of them: its own part of the sums, the peer's part
// of the weights and, once a checkpoint is written, of the sums' room; where the size of buckets is
// measured first, that went through all of the sums.
static int64_t peers_bytes(const struct model_summary *d, int64_t block)
{
    int64_t slots = d->experiment.slots, stage = block < STAGE ? block : STAGE;
    if (slots == 1)
        return 0;
    bool measured = jget_int(d->experiment.trainer, "fusion_bytes", 0) == 0;
    int64_t seen = block / slots + (measured ? block : 2 * block / slots);
    return stage + block + block / slots + (slots - 1) * seen;
}

struct memory_part {
    const char *name;
    int64_t bytes;
};

// Parts up to one without a name, and their total.
static json_t *parts_of(const struct memory_part *p)
{
    json_t *out = json_object();
    int64_t total = 0;
    for (; p->name; p++) {
        json_object_set_new(out, p->name, json_integer(p->bytes));
        total += p->bytes;
    }
    json_object_set_new(out, "total", json_integer(total));
    return out;
}

static int64_t batch_of(const struct model_summary *d)
{
    int64_t samples = jget_int(d->experiment.trainer, "micro_batch_size", 0);
    return batch_bytes(dataset_shape(d->train), samples);
}

static json_t *memory_on_cpu(const struct model_summary *d, int64_t block, int64_t planned)
{
    int64_t batch = batch_of(d);
    return parts_of((const struct memory_part[]){
        {"program", d->begin.resident},
        {"data", d->loaded.anonymous - d->begin.anonymous},
        {"operations", d->tried.resident - d->loaded.resident - planned - 2 * batch - block},
        {"activations", together(d) * planned},
        {"batches", (1 + PREFETCH_DEPTH + together(d)) * batch},
        {"weights", block},
        {"gradients", block},
        {"optimizer", optimizer_state_count(d->optimizer) * block},
        {"peers", peers_bytes(d, block)},
        {NULL, 0},
    });
}

// All that is large lies on the GPU, the batch under way among the activations.
static json_t *memory_on_gpu(const struct model_summary *d, int64_t block, int64_t planned)
{
    int64_t floats = block / (int64_t)sizeof(float), batch = batch_of(d);
    int64_t data = d->loaded.anonymous - d->begin.anonymous;
    int64_t rounded = ops_floats_for_reals(floats) * (int64_t)sizeof(float);
    json_t *out = parts_of((const struct memory_part[]){
        {"program", d->tried.resident - data - batch},
        {"data", data},
        {"batches", (1 + PREFETCH_DEPTH + together(d)) * batch},
        {NULL, 0},
    });
    json_t *gpu = parts_of((const struct memory_part[]){
        {"activations", together(d) * planned},
        {"weights", block},
        {"rounded_weights", rounded < block ? rounded : 0},
        {"gradients", block},
        {"optimizer", optimizer_state_count(d->optimizer) * block},
        {NULL, 0},
    });
    json_object_set_new(out, "gpu", gpu);
    return out;
}

static json_t *memory_of(const struct model_summary *d, const json_t *model)
{
    int64_t block = jget_int(model, "parameter_bytes", 0);
    int64_t planned = jget_int(model, "activation_bytes", 0);
    bool on_gpu = strcmp(OPS_DEVICE, "gpu") == 0;
    json_t *out = (on_gpu ? memory_on_gpu : memory_on_cpu)(d, block, planned);
    json_object_set_new(out, "snapshot",
                        json_integer((1 + optimizer_state_count(d->optimizer)) * block));
    json_object_set_new(out, "mapped_data", json_integer(d->mapped));
    return out;
}

// The answer.

static json_t *buckets_of(const struct model_summary *d)
{
    int64_t size = jget_int(d->experiment.trainer, "fusion_bytes", 0);
    int64_t block = (int64_t)(model_block_size(d->model) * sizeof(float));
    int64_t cell = OPTIMIZER_CELL * (int64_t)sizeof(float), slots = d->experiment.slots;
    int64_t cells = size < cell ? 1 : size / cell;
    if (slots == 1)
        size = block;
    else if (size)
        size = (cells + slots - 1) / slots * slots * cell; // as many for each
    return json_pack("{s:I, s:I}", "bytes", (json_int_t)size, "count",
                     (json_int_t)(size ? (block + size - 1) / size : 0));
}

static int describe(struct model_summary *d, struct error *e)
{
    int err = build(d, e);
    if (err)
        return err;
    if (model_describe(d->model, &d->answer))
        return error_set(e, ERR_INTERNAL, "the model cannot be described");
    const json_t *trainer = d->experiment.trainer;
    json_object_set_new(d->answer, "memory", memory_of(d, d->answer));
    json_object_set_new(d->answer, "buckets", buckets_of(d));
    json_object_set_new(d->answer, "slots", json_integer(d->experiment.slots));
    json_object_set(d->answer, "micro_batch_size", jget(trainer, "micro_batch_size"));
    json_object_set(d->answer, "global_batch_size", jget(trainer, "global_batch_size"));
    return 0;
}

// As a table.

// "61.7 k", "1.23 G": three digits and a factor of thousand.
static const char *scaled(double x, char out[32])
{
    static const char *const factors[] = {"", " k", " M", " G", " T", " P"};
    size_t i = 0;
    while (x >= 999.5 && i + 1 < sizeof factors / sizeof *factors) {
        x /= 1000;
        i++;
    }
    snprintf(out, 32, i && x < 99.95 ? "%.1f%s" : "%.0f%s", x, factors[i]);
    return out;
}

static const char *mebibytes(int64_t bytes, char out[32])
{
    snprintf(out, 32, "%.2f", (double)bytes * 0x1p-20);
    return out;
}

static int longest(const json_t *layers, const char *key, const char *title)
{
    size_t i, most = strlen(title);
    json_t *layer;
    json_array_foreach(layers, i, layer)
    {
        size_t length = strlen(jget_string(layer, key, ""));
        most = length > most ? length : most;
    }
    return (int)most;
}

static void show_layers(const json_t *answer)
{
    const json_t *layers = jget(answer, "layers");
    int names = longest(layers, "name", "layer"), kinds = longest(layers, "kind", "kind");
    int shapes = longest(layers, "out", "output");
    char flops[32], memory[32];
    size_t i;
    json_t *layer;
    printf("%-*s  %-*s  %-*s  %12s  %12s  %10s\n", names, "layer", kinds, "kind", shapes, "output",
           "parameters", "FLOP", "MiB");
    json_array_foreach(layers, i, layer) printf(
        "%-*s  %-*s  %-*s  %12lld  %12s  %10s\n", names, jget_string(layer, "name", ""), kinds,
        jget_string(layer, "kind", ""), shapes, jget_string(layer, "out", ""),
        (long long)jget_int(layer, "parameters", 0), scaled(jget_double(layer, "flops", 0), flops),
        mebibytes(jget_int(layer, "activation_bytes", 0), memory));
    printf("%-*s  %-*s  %-*s  %12lld  %12s  %10s\n", names, "whole", kinds, "", shapes, "",
           (long long)jget_int(answer, "parameters", 0),
           scaled(jget_double(answer, "flops_per_sample", 0), flops),
           mebibytes(jget_int(answer, "activation_bytes", 0), memory));
    puts("FLOP: of one sample, forward and backward. MiB: what a layer keeps of a micro-batch;\n"
         "in the whole, layers share room.");
}

static void show_parts(const json_t *memory, const char *const (*lines)[2])
{
    char text[32];
    for (; (*lines)[0]; lines++)
        if (jget(memory, (*lines)[0]))
            printf("  %-40s  %10s\n", (*lines)[1],
                   mebibytes(jget_int(memory, (*lines)[0], 0), text));
}

static void show_memory(const json_t *answer)
{
    static const char *const lines[][2] = {
        {"program", "program and libraries"},
        {"operations", "compiled operations"},
        {"weights", "weights"},
        {"rounded_weights", "weights as products take them"},
        {"gradients", "sums of gradients"},
        {"optimizer", "state of the optimizer"},
        {"peers", "other ranks' parts of weights and sums"},
        {"activations", "activations"},
        {"batches", "samples under way"},
        {"data", "data in memory"},
        {"total", "each rank"},
        {NULL, NULL},
    };
    static const char *const more[][2] = {
        {"snapshot", "+ rank 0's copy for checkpoints"},
        {"mapped_data", "+ files of data, as they are read"},
    };
    const json_t *memory = jget(answer, "memory");
    char text[32];
    printf("\nresident memory of a rank, of %d, in MiB\n", (int)jget_int(answer, "slots", 1));
    show_parts(memory, lines);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (jget_int(memory, more[i][0], 0) > 0)
            printf("  %-40s  %10s\n", more[i][1], mebibytes(jget_int(memory, more[i][0], 0), text));
    if (jget(memory, "gpu")) {
        puts("\nits GPU's memory, in MiB, beside what CUDA and its libraries take");
        show_parts(jget(memory, "gpu"), lines);
    }
}

static void show_buckets(const json_t *answer)
{
    char text[32];
    const json_t *buckets = jget(answer, "buckets");
    int64_t size = jget_int(buckets, "bytes", 0);
    if (size)
        printf("\ngradients go round in %lld bucket%s of at most %s MiB\n",
               (long long)jget_int(buckets, "count", 0),
               jget_int(buckets, "count", 0) == 1 ? "" : "s", mebibytes(size, text));
    else if (jget_int(answer, "slots", 1) > 1)
        puts("\ngradients go round in buckets whose size is measured when training starts; "
             "trainer.fusion_bytes sets it");
}

static const char help_head[] =
    "usage: muster-trainer describe FILE [FLAGS]\n\n"
    "Prints what an experiment file trains, without training it: every layer with its shape,\n"
    "parameters, arithmetic and memory, and the memory that every rank will hold.\n\n";
static const char help_tail[] =
    "\nexample:\n"
    "  muster-trainer describe examples/mnist.yaml --folder mnist --slots 4\n";

static int be_rank(struct gang_member *member, void *ctx)
{
    struct model_summary *d = ctx;
    struct error e = {0};
    (void)member;
    int err = describe(d, &e);
    if (!err && d->json) {
        command_print_json(d->answer);
    } else if (!err) {
        show_layers(d->answer);
        show_memory(d->answer);
        show_buckets(d->answer);
    }
    json_decref(d->answer);
    optimizer_free(d->optimizer);
    model_free(d->model);
    dataset_close(d->validation);
    dataset_close(d->train);
    return err ? command_failed("describe", &e) : 0;
}

static void hear_nothing(void *ctx, int rank, const json_t *message)
{
    (void)ctx, (void)rank, (void)message;
}

// The exit code: the child has told why.
static int in_a_rank(struct model_summary *d)
{
    const struct gang_spec spec = {.world = 1, .rank = be_rank, .message = hear_nothing, .ctx = d};
    struct gang_result result;
    struct error e;
    if (gang_run(&spec, &result, &e))
        return command_failed("describe", &e);
    if (WIFEXITED(result.status))
        return WEXITSTATUS(result.status);
    return err_exit_code(ERR_INTERNAL);
}

int command_describe(int argc, char **argv)
{
    struct model_summary d = {0};
    const char *format = "table";
    const struct flag flags[] = {COMMAND_OUTPUT_FLAG(&format), {0}};
    const struct experiment_help help = {.head = help_head, .tail = help_tail, .flags = flags};
    struct experiment_args words;
    struct error e = {0};
    int code = 0, err = experiment_args_parse(argc, argv, &help, &words, &e);
    if (!err && !words.help)
        err = command_check_output(format, &e);
    if (!err && !words.help)
        err = experiment_file_open(&words, &d.experiment, &e);
    if (err)
        code = command_failed("describe", &e);
    d.json = strcmp(format, "json") == 0;
    if (!err && !words.help)
        code = in_a_rank(&d);
    experiment_file_close(&d.experiment);
    return code;
}
