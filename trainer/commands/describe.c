// `muster-trainer describe`: prints the compiled layers of an experiment file and the memory that
// every rank will use, without training.
//
// The memory is the sum of all known allocations. The memory of libraries and compiled operations
// is measured, in a process that was forked like a rank of `run`.
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
#include "trainer/loop/sizing.h"
#include "trainer/loop/training.h"
#include "trainer/reduction/sampler.h"

enum {
    // rows and columns of a matrix product that makes the library load its kernels
    WARM_UP_SIZE = 64,
    BROADCAST_CHUNK = 1 << 20, // largest part of a broadcast
};

struct model_summary {
    struct experiment_file experiment;
    struct dataset *train, *validation;
    struct compiled_model *model;
    int64_t micro_batch;      // samples
    size_t other_activations; // bytes if the model were recomputed the other way
    int other_blocks;         // and the number of blocks that would be recomputed
    struct optimizer *optimizer;
    bool json;
    struct process_memory at_start, after_data, after_pass; // of this process
    int64_t mapped;                                         // bytes of mapped data files
    json_t *answer;
};

// --- memory --------------------------------------------------------------------------------------

static void warm_up(void)
{
    const struct ops_linear product = {
        .rows = WARM_UP_SIZE, .in = WARM_UP_SIZE, .out = WARM_UP_SIZE};
    void *a = NULL, *b = NULL;
    size_t bytes =
        (size_t)ops_floats_for_reals((int64_t)WARM_UP_SIZE * WARM_UP_SIZE) * sizeof(float);
    if (!ops_alloc(bytes, &a, NULL) && !ops_alloc(bytes, &b, NULL))
        ops_linear_forward(&product, a, a, NULL, b);
    ops_free(b);
    ops_free(a);
}

static int64_t batch_bytes(const struct sample_shape *s, int64_t samples)
{
    int64_t each = (int64_t)sizeof(int64_t);
    int64_t image = s->height * s->width * s->channels;
    if (s->kind == SAMPLE_TOKENS)
        each += 2 * s->context * (int64_t)sizeof(int32_t);
    else
        each += (s->outputs + 1) * (int64_t)sizeof(float) +
                (s->pixels ? image + (int64_t)sizeof(struct ops_pixel_change)
                           : image * (int64_t)sizeof(float));
    return samples * each;
}

static void ignore_gradient(void *ctx, int parameter, const float *gradient)
{
    (void)ctx, (void)parameter, (void)gradient;
}

// Runs a micro-batch of zeros through the model, so that it touches all memory that training
// touches.
static int run_one_micro_batch(struct model_summary *d, int64_t samples, struct error *e)
{
    struct batch *batch = batch_new(dataset_shape(d->train), samples);
    void *weights = NULL, *amaxes = NULL;
    int quantised;
    float *losses = xcalloc((size_t)samples, sizeof *losses);
    const struct gradient_sink sink = {.ready = ignore_gradient};
    const struct draw_key key = {0};
    batch->count = samples;
    int err = ops_alloc(model_block_size(d->model) * sizeof(float), &weights, e);
    model_fp8_tensors(d->model, &quantised);
    if (!err)
        err = ops_alloc((size_t)quantised * sizeof(uint32_t), &amaxes, e);
    if (!err) {
        model_init(d->model, 0, weights);
        model_set_parameters(d->model, weights);
        model_begin_step(d->model, NULL, amaxes);
        err = model_train(d->model, batch, &key, &sink, losses, e);
    }
    if (!err)
        err = ops_synchronize(e);
    process_memory_read(&d->after_pass);
    free(losses);
    ops_free(amaxes);
    ops_free(weights);
    batch_free(batch);
    return err;
}

// Plans the model also with the other value of trainer.recompute, for comparison.
static int plan_other_way(struct model_summary *d, struct error *e)
{
    const json_t *trainer = d->experiment.trainer;
    const struct model_config config = {.spec = jget(trainer, "model"),
                                        .loss = jget(trainer, "loss"),
                                        .shape = dataset_shape(d->train),
                                        .micro_batch = d->micro_batch,
                                        .recompute = model_recomputed_blocks(d->model) == 0};
    struct compiled_model *other;
    int err = model_plan(&config, &other, e);
    if (err)
        return err;
    d->other_activations = model_memory(other);
    d->other_blocks = model_recomputed_blocks(other);
    model_free(other);
    return 0;
}

// Plans the model like the training loop of one rank.
static int plan_model(struct model_summary *d, struct error *e)
{
    const json_t *trainer = d->experiment.trainer;
    const struct sizing_request request = {
        .trainer = trainer,
        .shape = dataset_shape(d->train),
        .global_batch = experiment_file_batch(&d->experiment),
        .micro_batch = jget_int(trainer, "micro_batch_size", 0),
        .memory = ops_memory(),
    };
    int err = sizing_plan(&request, &d->model, e);
    if (err)
        return err;
    d->micro_batch = model_micro_batch(d->model);
    err = plan_other_way(d, e);
    return err ? err : model_allocate(d->model, e);
}

static int build_model(struct model_summary *d, struct error *e)
{
    const json_t *trainer = d->experiment.trainer, *model = jget(trainer, "model");
    int err = ops_open(training_job_precision(trainer), e);
    if (err)
        return err;
    ops_init_thread();
    warm_up();
    process_memory_read(&d->at_start);
    d->mapped = -process_mapped_bytes();
    err = dataset_open(jget(trainer, "data"), model, d->experiment.folder, &d->train,
                       &d->validation, e);
    process_memory_read(&d->after_data);
    d->mapped += process_mapped_bytes();
    if (!err)
        err = plan_model(d, e);
    if (!err)
        err = run_one_micro_batch(d, d->micro_batch, e);
    if (err)
        return err;
    struct optimizer_config optimizer = {
        .spec = jget(trainer, "optimizer"),
        .schedule = jget(trainer, "schedule"),
        .steps = jget_int(trainer, "steps", 0),
        .global_batch = experiment_file_batch(&d->experiment),
        .clip_norm = jget_double(trainer, "clip_norm", 0),
        .block_size = model_block_size(d->model),
    };
    optimizer.parameters = model_parameters(d->model, &optimizer.parameter_count);
    return optimizer_new(&optimizer, &d->optimizer, e);
}

// Micro-batches of a step that this rank keeps in memory at the same time.
static int64_t resident_micro_batches(const struct model_summary *d)
{
    int64_t all = experiment_file_batch(&d->experiment) / d->micro_batch;
    return model_needs_lockstep(d->model) ? sampler_share(all, d->experiment.slots, 0).count : 1;
}

// Shared memory of the communicator. A rank exposes to its peers all of its gradient sums (its own
// part when a checkpoint is written) and its part of the weights. It maps from each peer its own
// part of the sums, the peer's part of the weights and, once a checkpoint is written, the peer's
// part of the sums. If the bucket size is measured first, that measurement touches all sums.
static int64_t peers_bytes(const struct model_summary *d, int64_t block)
{
    int64_t slots = d->experiment.slots, stage = block < BROADCAST_CHUNK ? block : BROADCAST_CHUNK;
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

// An object of the parts (the last has no name) and their total.
static json_t *make_parts(const struct memory_part *p)
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

static int64_t batch_bytes_of(const struct model_summary *d)
{
    return batch_bytes(dataset_shape(d->train), d->micro_batch);
}

static json_t *memory_on_cpu(const struct model_summary *d, int64_t block, int64_t planned)
{
    int64_t batch = batch_bytes_of(d);
    return make_parts((const struct memory_part[]){
        {"program", d->at_start.resident},
        {"data", d->after_data.anonymous - d->at_start.anonymous},
        {"operations",
         d->after_pass.resident - d->after_data.resident - planned - 2 * batch - block},
        {"activations", resident_micro_batches(d) * planned},
        {"batches", (1 + PREFETCH_DEPTH + resident_micro_batches(d)) * batch},
        {"weights", block},
        {"gradients", block},
        {"optimizer", optimizer_state_count(d->optimizer) * block},
        {"peers", peers_bytes(d, block)},
        {NULL, 0},
    });
}

// All large blocks are on the GPU; the current batch is part of the activations.
static json_t *memory_on_gpu(const struct model_summary *d, int64_t block, int64_t planned)
{
    int64_t floats = block / (int64_t)sizeof(float), batch = batch_bytes_of(d);
    int64_t data = d->after_data.anonymous - d->at_start.anonymous;
    int64_t rounded = ops_floats_for_reals(floats) * (int64_t)sizeof(float);
    json_t *out = make_parts((const struct memory_part[]){
        {"program", d->after_pass.resident - data - batch},
        {"data", data},
        {"batches", (1 + PREFETCH_DEPTH + resident_micro_batches(d)) * batch},
        {NULL, 0},
    });
    json_t *gpu = make_parts((const struct memory_part[]){
        {"activations", resident_micro_batches(d) * planned},
        {"weights", block},
        {"rounded_weights", rounded < block ? rounded : 0},
        {"gradients", block},
        {"optimizer", optimizer_state_count(d->optimizer) * block},
        {NULL, 0},
    });
    json_object_set_new(out, "gpu", gpu);
    return out;
}

static json_t *make_memory(const struct model_summary *d, const json_t *model)
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

// --- the description -----------------------------------------------------------------------------

static json_t *make_buckets(const struct model_summary *d)
{
    int64_t size = jget_int(d->experiment.trainer, "fusion_bytes", 0);
    int64_t block = (int64_t)(model_block_size(d->model) * sizeof(float));
    int64_t cell = OPTIMIZER_CELL * (int64_t)sizeof(float), slots = d->experiment.slots;
    int64_t cells = size < cell ? 1 : size / cell;
    if (slots == 1)
        size = block;
    else if (size)
        size = (cells + slots - 1) / slots * slots * cell; // the same number of cells for each rank
    return json_pack("{s:I, s:I}", "bytes", (json_int_t)size, "count",
                     (json_int_t)(size ? (block + size - 1) / size : 0));
}

static json_t *make_other_plan(const struct model_summary *d)
{
    int64_t more = (int64_t)d->other_activations - (int64_t)model_memory(d->model);
    return json_pack("{s:I, s:i}", "activation_bytes",
                     (json_int_t)(jget_int(d->answer, "activation_bytes", 0) + more),
                     "recomputed_blocks", d->other_blocks);
}

static int describe_model(struct model_summary *d, struct error *e)
{
    int err = build_model(d, e);
    if (err)
        return err;
    if (model_describe(d->model, &d->answer))
        return error_set(e, ERR_INTERNAL, "cannot describe the model");
    json_object_set_new(d->answer, "memory", make_memory(d, d->answer));
    json_object_set_new(d->answer, "buckets", make_buckets(d));
    json_object_set_new(d->answer, "slots", json_integer(d->experiment.slots));
    json_object_set_new(d->answer, "micro_batch_size", json_integer(d->micro_batch));
    json_object_set_new(d->answer, "other_plan", make_other_plan(d));
    json_object_set_new(d->answer, "global_batch_size",
                        json_integer(experiment_file_batch(&d->experiment)));
    return 0;
}

// --- as a table ----------------------------------------------------------------------------------

// "61.7 k", "1.2 G": three digits and a prefix.
static const char *format_scaled(double x, char out[32])
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

static const char *format_mebibytes(int64_t bytes, char out[32])
{
    snprintf(out, 32, "%.2f", (double)bytes * 0x1p-20);
    return out;
}

static int column_width(const json_t *layers, const char *key, const char *title)
{
    size_t i, width = strlen(title);
    json_t *layer;
    json_array_foreach(layers, i, layer)
    {
        size_t length = strlen(jget_string(layer, key, ""));
        width = length > width ? length : width;
    }
    return (int)width;
}

static void print_layers(const json_t *answer)
{
    const json_t *layers = jget(answer, "layers");
    int names = column_width(layers, "name", "layer"), kinds = column_width(layers, "kind", "kind");
    int shapes = column_width(layers, "out", "output");
    char flops[32], memory[32];
    size_t i;
    json_t *layer;
    printf("%-*s  %-*s  %-*s  %12s  %12s  %10s\n", names, "layer", kinds, "kind", shapes, "output",
           "parameters", "FLOP", "MiB");
    json_array_foreach(layers, i, layer)
        printf("%-*s  %-*s  %-*s  %12lld  %12s  %10s\n", names, jget_string(layer, "name", ""),
               kinds, jget_string(layer, "kind", ""), shapes, jget_string(layer, "out", ""),
               (long long)jget_int(layer, "parameters", 0),
               format_scaled(jget_double(layer, "flops", 0), flops),
               format_mebibytes(jget_int(layer, "activation_bytes", 0), memory));
    printf("%-*s  %-*s  %-*s  %12lld  %12s  %10s\n", names, "total", kinds, "", shapes, "",
           (long long)jget_int(answer, "parameters", 0),
           format_scaled(jget_double(answer, "flops_per_sample", 0), flops),
           format_mebibytes(jget_int(answer, "activation_bytes", 0), memory));
    puts("FLOP: for one sample, forward and backward. MiB: the memory that a layer keeps for a\n"
         "micro-batch; the total is smaller than the sum where layers share memory.");
}

static void print_recomputation(const json_t *answer)
{
    const json_t *other = jget(answer, "other_plan");
    long long now = jget_int(answer, "recomputed_blocks", 0),
              then = jget_int(other, "recomputed_blocks", 0);
    char text[32];
    format_mebibytes(jget_int(other, "activation_bytes", 0), text);
    printf("a micro-batch has %lld samples\n", (long long)jget_int(answer, "micro_batch_size", 0));
    if (now > 0)
        printf("%lld blocks are recomputed; with trainer.recompute: none, the activations would "
               "take %s MiB\n",
               now, text);
    else if (then > 0)
        printf("with trainer.recompute: blocks, the activations would take %s MiB\n", text);
}

static void print_parts(const json_t *memory, const char *const (*lines)[2])
{
    char text[32];
    for (; (*lines)[0]; lines++)
        if (jget(memory, (*lines)[0]))
            printf("  %-40s  %10s\n", (*lines)[1],
                   format_mebibytes(jget_int(memory, (*lines)[0], 0), text));
}

static void print_memory(const json_t *answer)
{
    static const char *const lines[][2] = {
        {"program", "program and libraries"},
        {"operations", "compiled operations"},
        {"weights", "weights"},
        {"rounded_weights", "weights in the precision of products"},
        {"gradients", "sums of gradients"},
        {"optimizer", "state of the optimizer"},
        {"peers", "other ranks' parts of weights and sums"},
        {"activations", "activations"},
        {"batches", "samples in flight"},
        {"data", "data in memory"},
        {"total", "total of a rank"},
        {NULL, NULL},
    };
    static const char *const more[][2] = {
        {"snapshot", "+ rank 0's copy for checkpoints"},
        {"mapped_data", "+ data files, as far as they are read"},
    };
    const json_t *memory = jget(answer, "memory");
    char text[32];
    printf("\nresident memory of each rank (of %d), in MiB\n", (int)jget_int(answer, "slots", 1));
    print_parts(memory, lines);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (jget_int(memory, more[i][0], 0) > 0)
            printf("  %-40s  %10s\n", more[i][1],
                   format_mebibytes(jget_int(memory, more[i][0], 0), text));
    if (jget(memory, "gpu")) {
        puts("\nmemory of its GPU, in MiB, without CUDA and its libraries");
        print_parts(jget(memory, "gpu"), lines);
    }
}

static void print_buckets(const json_t *answer)
{
    char text[32];
    const json_t *buckets = jget(answer, "buckets");
    int64_t size = jget_int(buckets, "bytes", 0);
    if (size)
        printf("\ngradients are reduced in %lld bucket%s of at width %s MiB\n",
               (long long)jget_int(buckets, "count", 0),
               jget_int(buckets, "count", 0) == 1 ? "" : "s", format_mebibytes(size, text));
    else if (jget_int(answer, "slots", 1) > 1)
        puts("\ngradients are reduced in buckets whose size is measured when training starts; "
             "trainer.fusion_bytes sets it");
}

static const char help_head[] =
    "usage: muster-trainer describe FILE [FLAGS]\n\n"
    "Prints the model of an experiment file without training it: every layer with its shape,\n"
    "parameters, arithmetic and memory, and the memory that every rank will use.\n\n";
static const char help_tail[] =
    "\nexample:\n"
    "  muster-trainer describe examples/mnist.yaml --folder mnist --slots 4\n";

static int describe_rank_main(struct gang_member *member, void *ctx)
{
    struct model_summary *d = ctx;
    struct error e = {0};
    (void)member;
    int err = describe_model(d, &e);
    if (!err && d->json) {
        command_print_json(d->answer);
    } else if (!err) {
        print_layers(d->answer);
        print_recomputation(d->answer);
        print_memory(d->answer);
        print_buckets(d->answer);
    }
    json_decref(d->answer);
    optimizer_free(d->optimizer);
    model_free(d->model);
    dataset_close(d->validation);
    dataset_close(d->train);
    return err ? command_failed("describe", &e) : 0;
}

static void ignore_message(void *ctx, int rank, const json_t *message)
{
    (void)ctx, (void)rank, (void)message;
}

// Returns the exit code. The child has printed the error.
static int describe_in_child(struct model_summary *d)
{
    const struct gang_spec spec = {
        .world = 1, .rank = describe_rank_main, .message = ignore_message, .ctx = d};
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
    struct experiment_args args;
    struct error e = {0};
    int code = 0, err = experiment_args_parse(argc, argv, &help, &args, &e);
    if (!err && !args.help)
        err = command_check_output(format, &e);
    if (!err && !args.help)
        err = experiment_file_open(&args, &d.experiment, &e);
    if (err)
        code = command_failed("describe", &e);
    d.json = strcmp(format, "json") == 0;
    if (!err && !args.help)
        code = describe_in_child(&d);
    experiment_file_close(&d.experiment);
    return code;
}
