// Work that is replayed as graphs (ops/cuda/device/replay.c), on the emulation: training gives the
// same numbers as op by op, whatever varies between passes, and continues if nothing can be
// captured.
#include "tests/unit/trainer/model_fixture.h"

#include "tests/unit/trainer/cuda/emulated.h"
#include "trainer/reduction/reducer.h"

enum { STEPS = 4, MICRO_BATCHES = 4, MICRO_BATCH = 3, BLOCK_MAX = 8192 };

static const char *const gpt = "{\"family\": \"gpt\", \"layers\": 2, \"heads\": 2, \"width\": 16,"
                               " \"vocabulary\": 11, \"context\": 6, \"dropout\": 0.2}";
static const char *const wide =
    "[{\"layer\": \"linear\", \"out\": 64}, {\"layer\": \"tanh\"},"
    " {\"layer\": \"dropout\", \"rate\": 0.3}, {\"layer\": \"linear\", \"out\": 70},"
    " {\"layer\": \"relu\"}, {\"layer\": \"linear\", \"out\": 3}]";

static const struct sample_shape tokens_16 = {
    .kind = SAMPLE_TOKENS, .context = 16, .vocabulary = 11};
static const char *const quantised =
    "[{\"layer\": \"embedding\", \"width\": 16}, {\"layer\": \"residual\", \"layers\":"
    " [{\"layer\": \"layer_norm\"}, {\"layer\": \"linear\", \"out\": 64}, {\"layer\": \"gelu\"},"
    " {\"layer\": \"linear\", \"out\": 16}]}, {\"layer\": \"linear\", \"out\": 11}]";

struct replay_results {
    float gradients[STEPS][BLOCK_MAX], losses[STEPS][MICRO_BATCHES][MICRO_BATCH];
    int graphs;
};

struct replay_run {
    struct model_fixture f;
    struct comm *comm;
    struct reducer *sync;
    struct replay_results *out;
};

static void open_sync(struct replay_run *r, enum reduction_mode reduction)
{
    struct error e;
    int tensors;
    const struct fp8_tensor *fp8 = model_fp8_tensors(r->f.model, &tensors);
    const struct reducer_config config = {
        .reduction = reduction,
        .parameters = r->f.parameters,
        .parameter_count = r->f.count,
        .quantised = fp8,
        .quantised_count = tensors,
        .block_size = model_block_size(r->f.model),
        .micro_batches = MICRO_BATCHES,
        .global_batch = MICRO_BATCHES * MICRO_BATCH,
        .sums = 1,
        .fusion_bytes = 1, // one bucket for each cell
        .world = 1,
    };
    const struct comm_config open = {.world = 1, .arena_bytes = reducer_arena_bytes(&config)};
    assert_true(config.block_size <= BLOCK_MAX);
    assert_int_equal(comm_open(&open, &r->comm, &e), 0);
    r->sync = reducer_new(&config, r->comm);
}

static void begin_step(struct replay_run *r)
{
    model_begin_step(r->f.model, reducer_quantised_exponents(r->sync),
                     reducer_quantised_amaxes(r->sync));
}

static void pass(struct replay_run *r, int step, int m, const struct gradient_sink *sink)
{
    struct error e;
    const struct draw_key key = {.seed = 5, .step = step};
    r->f.a.rng.state = (uint64_t)(1 + step * MICRO_BATCHES + m);
    fill_batch(&r->f, r->f.batch, MICRO_BATCH);
    assert_int_equal(model_train(r->f.model, r->f.batch, &key, sink, r->out->losses[step][m], &e),
                     0);
}

// Some gradients are much larger at step 2, which has to be repeated.
static void change_weights(struct replay_run *r, int step)
{
    float *w = r->f.weights, factor = step == 1 ? 40.0f : step == 2 ? 0.1f : 1.0f;
    size_t size = model_block_size(r->f.model);
    for (size_t i = 0; i < size; i++)
        w[i] = factor * (w[i] - 0.1f * reducer_gradients(r->sync)[i]);
    model_set_parameters(r->f.model, w);
}

static void step_once(struct replay_run *r, int step)
{
    struct error e;
    struct reducer_totals totals = {0};
    const struct gradient_sink sink = reducer_sink(r->sync);
    bool again = true;
    while (again) {
        reducer_begin_step(r->sync);
        begin_step(r);
        for (int m = 0; m < MICRO_BATCHES; m++) {
            reducer_begin_micro_batch(r->sync, m == 0, m == MICRO_BATCHES - 1);
            pass(r, step, m, &sink);
        }
        if (reducer_finish_step(r->sync, &totals, &again, &e))
            fail_msg("%s", e.text);
    }
    memcpy(r->out->gradients[step], reducer_gradients(r->sync),
           model_block_size(r->f.model) * sizeof(float));
    change_weights(r, step);
}

// In the second half of the steps the weights have other addresses.
static void train_model(const char *text, const struct sample_shape *shape,
                        enum reduction_mode reduction, struct replay_results *out)
{
    struct replay_run r = {.out = out};
    struct error e;
    int before = emulated_graphs();
    memset(out, 0, sizeof *out);
    model_fixture_begin(&r.f, text, shape, MICRO_BATCH, 7);
    open_sync(&r, reduction);
    if (reducer_needs_calibration(r.sync)) {
        const struct gradient_sink probe = reducer_calibration_begin(r.sync);
        begin_step(&r);
        pass(&r, 0, 0, &probe);
        assert_int_equal(reducer_calibration_end(r.sync, &e), 0);
    }
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS / 2) {
            int64_t size = (int64_t)model_block_size(r.f.model);
            float *moved = floats_new(&r.f.a, size);
            memcpy(moved, r.f.weights, (size_t)size * sizeof *moved);
            memset(r.f.weights, 0, (size_t)size * sizeof *moved);
            r.f.weights = moved;
            model_set_parameters(r.f.model, moved);
        }
        step_once(&r, step);
    }
    reducer_free(r.sync);
    comm_close(r.comm);
    model_fixture_end(&r.f);
    out->graphs = emulated_graphs() - before;
}

static void op_by_op(const char *text, const struct sample_shape *shape,
                     enum reduction_mode reduction, struct replay_results *out)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1); // the op that fails must be named
    train_model(text, shape, reduction, out);
    unsetenv("CUDA_LAUNCH_BLOCKING");
    assert_int_equal(out->graphs, 0);
}

static void assert_same(const struct replay_results *a, const struct replay_results *b)
{
    assert_memory_equal(a->gradients, b->gradients, sizeof a->gradients);
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
}

static struct replay_results plain, repeated;

static void test_same_bits(void **state)
{
    (void)state;
    const enum reduction_mode reductions[] = {REDUCTION_EXACT, REDUCTION_FLOAT};
    for (int i = 0; i < 2; i++) {
        op_by_op(gpt, &tokens_6, reductions[i], &plain);
        train_model(gpt, &tokens_6, reductions[i], &repeated);
        assert_same(&plain, &repeated);
        assert_true(plain.losses[0][0][0] != plain.losses[1][0][0]);
        op_by_op(wide, &features_7, reductions[i], &plain);
        train_model(wide, &features_7, reductions[i], &repeated);
        assert_same(&plain, &repeated);
        assert_true(repeated.graphs > 20); // forward, and backward in some buckets
    }
}

// The scales of each step are read from device memory.
static void test_scales_vary(void **state)
{
    (void)state;
    assert_int_equal(ops_open(OPS_FP8, NULL), 0);
    op_by_op(quantised, &tokens_16, REDUCTION_EXACT, &plain);
    train_model(quantised, &tokens_16, REDUCTION_EXACT, &repeated);
    assert_same(&plain, &repeated);
    assert_true(repeated.graphs > 20);
    ops_close();
}

// --- host calls within the work ------------------------------------------------------------------

struct replay_relay {
    float *a, *b, *c;
    float seen[3];
    int count;
};

static void look(void *ctx)
{
    struct replay_relay *r = ctx;
    r->seen[r->count++] = *r->b; // here device memory is host memory
}

static void hand_on(void *ctx)
{
    struct replay_relay *r = ctx;
    ops_call_host(look, r); // before any op
    ops_copy(r->b, r->a, sizeof *r->b);
    ops_call_host(look, r);
    ops_zero(r->b, sizeof *r->b);
    ops_copy(r->c, r->a, sizeof *r->c);
    ops_call_host(look, r);
}

static void test_host_has_its_turns(void **state)
{
    (void)state;
    struct ops_recording *recording = NULL;
    float a, b = 7, c;
    struct replay_relay r = {.a = &a, .b = &b, .c = &c};
    int before = emulated_graphs();
    for (int i = 1; i <= 5; i++) {
        a = (float)i;
        r.count = 0;
        ops_replay(&recording, hand_on, &r);
        assert_int_equal(r.count, 3);
        assert_true(r.seen[0] == (i == 1 ? 7.0f : 0.0f));
        assert_true(r.seen[1] == (float)i && r.seen[2] == 0 && c == (float)i);
    }
    assert_int_equal(emulated_graphs() - before, 2 * 4); // the first time was op by op
    ops_recording_free(recording);
}

// --- work that cannot be captured; the last test, because graphs are off afterwards --------------

static void test_goes_on_without(void **state)
{
    (void)state;
    op_by_op(gpt, &tokens_6, REDUCTION_EXACT, &plain);
    emulated_captures(150); // fails in the middle of the second recording
    train_model(gpt, &tokens_6, REDUCTION_EXACT, &repeated);
    emulated_captures(-1);
    assert_same(&plain, &repeated);
    train_model(gpt, &tokens_6, REDUCTION_EXACT, &repeated);
    assert_same(&plain, &repeated);
    assert_int_equal(repeated.graphs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_scales_vary),
        cmocka_unit_test(test_host_has_its_turns),
        cmocka_unit_test(test_goes_on_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
