// Compares trainings with PyTorch. Every file of tests/golden names a model, generated samples, an
// optimizer, and the losses that PyTorch computed. This program runs the parts of the trainer in
// one process: the model, exact and float sums over micro-batches, and the optimizer.
#include "tests/unit/trainer/arithmetic.h"

#include <jansson.h>

#include "base/text/json.h"
#include "trainer/comm/comm.h"
#include "trainer/model/model.h"
#include "trainer/ops/ops.h"
#include "trainer/optim/optimizer.h"
#include "trainer/reduction/reducer.h"

enum { STEPS = 50 };
enum { SAMPLES = 1000, LABELS = 2000, VALUES = 3000, TOKENS = 4000 }; // streams of random numbers
static const double tolerance = 1e-4;

struct golden_run {
    json_t *golden;
    struct sample_shape shape;
    int64_t samples, batch_size, micro_batch;
    struct compiled_model *model;
    const struct parameter *parameters;
    int parameter_count;
    struct arithmetic a;
    float *weights, *losses;
    int32_t *correct;
    struct batch *batch;
    struct comm *comm;
    struct reducer *sync;
    struct optimizer *optimizer;
};

// --- generated numbers, as in golden.py ----------------------------------------------------------

// The upper 48 bits of splitmix64 of (stream, place).
static uint64_t draw_bits(uint64_t stream, uint64_t place)
{
    uint64_t z = ((stream << 32) + place + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) >> 16;
}

static double uniform(uint64_t stream, uint64_t place) // [-1, 1)
{
    return (double)(draw_bits(stream, place) >> 24) * 0x1p-23 - 1;
}

static int32_t draw_below(uint64_t stream, uint64_t place, int64_t limit)
{
    return (int32_t)(draw_bits(stream, place) % (uint64_t)limit);
}

static void fill_sample(const struct golden_run *r, int64_t sample, int64_t at)
{
    const struct sample_shape *s = &r->shape;
    struct batch *b = r->batch;
    int64_t size = s->height * s->width * s->channels, length = s->context + 1;
    b->samples[at] = sample;
    for (int64_t i = 0; i < size; i++)
        b->images[at * size + i] = (float)uniform(SAMPLES, (uint64_t)(sample * size + i));
    for (int64_t i = 0; i < s->outputs; i++)
        b->values[at * s->outputs + i] =
            (float)uniform(VALUES, (uint64_t)(sample * s->outputs + i));
    if (s->classes > 0)
        b->labels[at] = draw_below(LABELS, (uint64_t)sample, s->classes);
    for (int64_t i = 0; i < s->context; i++) {
        uint64_t place = (uint64_t)(sample * length + i);
        b->tokens[at * s->context + i] = draw_below(TOKENS, place, s->vocabulary);
        b->targets[at * s->context + i] = draw_below(TOKENS, place + 1, s->vocabulary);
    }
}

// Fills micro-batch m of a step.
static void fill_batch(const struct golden_run *r, int64_t step, int64_t m)
{
    r->batch->count = r->micro_batch;
    for (int64_t i = 0; i < r->micro_batch; i++)
        fill_sample(r, (step * r->batch_size + m * r->micro_batch + i) % r->samples, i);
}

static void fill_weights(const struct golden_run *r)
{
    const json_t *facts = jget(r->golden, "parameters"), *fact;
    size_t i;
    assert_int_equal(json_array_size(facts), r->parameter_count);
    memset(r->weights, 0, model_block_size(r->model) * sizeof *r->weights);
    json_array_foreach(facts, i, fact)
    {
        const struct parameter *p = &r->parameters[i];
        const json_t *shape = jget(fact, "shape");
        assert_string_equal(p->name, jget_string(fact, "name", ""));
        assert_int_equal(p->rank, json_array_size(shape));
        for (int d = 0; d < p->rank; d++)
            assert_int_equal(p->shape[d], json_integer_value(json_array_get(shape, (size_t)d)));
        assert_int_equal(p->decay, jget_bool(fact, "decay", false));
        assert_true(p->momentum == jget_double(fact, "momentum", -1));
        double offset = jget_double(fact, "offset", 0), scale = jget_double(fact, "scale", 0);
        for (size_t k = 0; k < p->count; k++)
            r->weights[p->offset + k] = (float)(offset + scale * uniform(i, k));
    }
}

// --- the parts -----------------------------------------------------------------------------------

static json_t *load_case(const char *name)
{
    char path[512];
    json_error_t e;
    snprintf(path, sizeof path, "%s/%s.json", GOLDEN_FOLDER, name);
    json_t *golden = json_load_file(path, 0, &e);
    if (!golden)
        fail_msg("%s:%d: %s", path, e.line, e.text);
    return golden;
}

static struct sample_shape read_shape(const json_t *shape)
{
    struct sample_shape s = {.height = jget_int(shape, "height", 0),
                             .width = jget_int(shape, "width", 0),
                             .channels = jget_int(shape, "channels", 0),
                             .classes = jget_int(shape, "classes", 0),
                             .outputs = jget_int(shape, "outputs", 0),
                             .context = jget_int(shape, "context", 0),
                             .vocabulary = jget_int(shape, "vocabulary", 0)};
    bool features = jget_bool(shape, "features", false);
    s.kind = s.context > 0 ? SAMPLE_TOKENS : features ? SAMPLE_FEATURES : SAMPLE_IMAGE;
    return s;
}

// Creates the reducer and the optimizer.
static void open_step(struct golden_run *r, int64_t micro_batches, enum reduction_mode reduction)
{
    struct error e;
    const struct optimizer_config optimizer = {
        .spec = jget(r->golden, "optimizer"),
        .schedule = jget(r->golden, "schedule"),
        .steps = STEPS,
        .global_batch = r->batch_size,
        .clip_norm = jget_double(r->golden, "clip_norm", 0),
        .parameters = r->parameters,
        .parameter_count = r->parameter_count,
        .block_size = model_block_size(r->model),
    };
    if (optimizer_new(&optimizer, &r->optimizer, &e))
        fail_msg("%s", e.text);
    const struct reducer_config sync = {.reduction = reduction,
                                        .parameters = r->parameters,
                                        .parameter_count = r->parameter_count,
                                        .block_size = optimizer.block_size,
                                        .micro_batches = micro_batches,
                                        .global_batch = r->batch_size,
                                        .sums = optimizer_sums(r->optimizer),
                                        .world = 1};
    const struct comm_config comm = {.world = 1, .arena_bytes = reducer_arena_bytes(&sync)};
    if (comm_open(&comm, &r->comm, &e))
        fail_msg("%s", e.text);
    r->sync = reducer_new(&sync, r->comm);
    r->weights = reducer_weights(r->sync);
}

static void golden_run_begin(struct golden_run *r, const char *name, int64_t micro_batches,
                             enum reduction_mode reduction)
{
    struct error e;
    *r = (struct golden_run){.golden = load_case(name), .a = arithmetic_begin(0)};
    r->shape = read_shape(jget(r->golden, "shape"));
    r->samples = jget_int(r->golden, "samples", 0);
    r->batch_size = jget_int(r->golden, "batch", 0);
    r->micro_batch = r->batch_size / micro_batches;
    if (model_compile(jget(r->golden, "model"), jget(r->golden, "loss"), &r->shape, r->micro_batch,
                      &r->model, &e))
        fail_msg("%s: %s", name, e.text);
    r->parameters = model_parameters(r->model, &r->parameter_count);
    open_step(r, micro_batches, reduction);
    r->losses = floats_new(&r->a, r->micro_batch);
    r->correct = aligned_block(&r->a, (size_t)r->micro_batch * sizeof *r->correct);
    r->batch = batch_new(&r->shape, r->micro_batch);
    fill_weights(r);
    model_set_parameters(r->model, r->weights);
}

static void golden_run_end(struct golden_run *r)
{
    batch_free(r->batch);
    optimizer_free(r->optimizer);
    reducer_free(r->sync);
    comm_close(r->comm);
    model_free(r->model);
    arithmetic_end(&r->a);
    json_decref(r->golden);
}

static void run_micro_batch(const struct golden_run *r, int64_t step, int64_t m,
                            const struct gradient_sink *sink)
{
    const struct draw_key key = {.seed = 1, .step = step};
    struct error e;
    fill_batch(r, step, m);
    if (model_train(r->model, r->batch, &key, sink, r->losses, &e))
        fail_msg("%s", e.text);
}

static int update_weights(const struct golden_run *r, int64_t step, struct reducer_totals *totals,
                          struct error *e)
{
    bool again = false;
    int range_count, err = reducer_finish_step(r->sync, totals, &again, e);
    const struct optimizer_range *ranges = reducer_ranges(r->sync, &range_count);
    const struct optimizer_peers peers = reducer_peers(r->sync);
    if (!err)
        err = optimizer_step(r->optimizer, step, r->weights, reducer_gradients(r->sync), ranges,
                             range_count, &peers, NULL, e);
    if (!err)
        err = reducer_gather_weights(r->sync, e);
    return err ? err : reducer_wait_weights(r->sync, e);
}

static double train_step(const struct golden_run *r, int64_t step)
{
    int64_t count = r->batch_size / r->micro_batch;
    struct reducer_totals totals = {0};
    struct error e = {0};
    if (reducer_needs_calibration(r->sync)) {
        const struct gradient_sink probe = reducer_calibration_begin(r->sync);
        for (int64_t m = 0; m < count; m++)
            run_micro_batch(r, step, m, &probe);
        assert_int_equal(reducer_calibration_end(r->sync, &e), 0);
    }
    const struct gradient_sink sink = reducer_sink(r->sync);
    reducer_begin_step(r->sync);
    for (int64_t m = 0; m < count; m++) {
        reducer_begin_micro_batch(r->sync, m == 0, m == count - 1);
        run_micro_batch(r, step, m, &sink);
        loss_add(&totals.loss, r->losses, r->micro_batch);
    }
    if (update_weights(r, step, &totals, &e))
        fail_msg("step %lld: %s", (long long)step, e.text);
    return loss_mean(&totals.loss, r->batch_size);
}

static double evaluate(const struct golden_run *r)
{
    struct loss_sum sum = {0};
    struct error e;
    for (int64_t m = 0; m < r->batch_size / r->micro_batch; m++) {
        fill_batch(r, 0, m);
        assert_int_equal(model_evaluate(r->model, r->batch, r->losses, r->correct, &e), 0);
        loss_add(&sum, r->losses, r->micro_batch);
    }
    return loss_mean(&sum, r->batch_size);
}

// --- comparing -----------------------------------------------------------------------------------

static void expect_loss(const char *name, const char *when, double found, double expected)
{
    if (!(fabs(found / expected - 1) <= tolerance))
        fail_msg("%s, %s: expected a loss of %.9g, found %.9g (%.1e of it away)", name, when,
                 expected, found, fabs(found / expected - 1));
}

static void check_case(const char *name, int64_t micro_batches, enum reduction_mode reduction)
{
    struct golden_run r;
    golden_run_begin(&r, name, micro_batches, reduction);
    const json_t *losses = jget(r.golden, "losses");
    assert_int_equal(json_array_size(losses), STEPS);
    for (int step = 0; step < STEPS; step++) {
        char when[64];
        snprintf(when, sizeof when, "%lld micro-batches, %s, step %d", (long long)micro_batches,
                 reduction == REDUCTION_EXACT ? "exact" : "float", step + 1);
        expect_loss(name, when, train_step(&r, step),
                    json_number_value(json_array_get(losses, (size_t)step)));
    }
    expect_loss(name, "evaluated at the end", evaluate(&r), jget_double(r.golden, "after", 0));
    golden_run_end(&r);
}

static void test_case(void **state)
{
    const char *name = *state;
    json_t *golden = load_case(name), *count;
    size_t i;
    json_array_foreach(jget(golden, "micro_batches"), i, count)
    {
        check_case(name, json_integer_value(count), REDUCTION_EXACT);
        if (json_integer_value(count) > 1)
            check_case(name, json_integer_value(count), REDUCTION_FLOAT);
    }
    assert_true(i > 0);
    json_decref(golden);
}

#define CASE(word)                                                                                 \
    {                                                                                              \
        .name = word, .test_func = test_case, .initial_state = word                                \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE("mlp_sgd"),   CASE("mlp_momentum"), CASE("mlp_nesterov"),   CASE("mlp_adam"),
        CASE("mlp_adamw"), CASE("mlp_clip"),     CASE("mlp_cosine"),     CASE("mlp_step"),
        CASE("values"),    CASE("lenet"),        CASE("mlp_polynomial"), CASE("cnn"),
        CASE("resnet"),    CASE("gpt"),          CASE("gpt_bias"),       CASE("rotary"),
    };
    ops_init_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
