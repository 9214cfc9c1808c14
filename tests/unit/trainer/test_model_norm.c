// batch_norm: running statistics in training and evaluation, and statistics over all micro-batches
// of a step.
#include "tests/unit/trainer/model_fixture.h"

#include <pthread.h>

enum { MICRO_BATCH = 4, ALL = 6, RANKS_MAX = 4 };

static const char *const plain =
    "[{\"layer\": \"batch_norm\", \"name\": \"norm\", \"momentum\": 0.3},"
    " {\"layer\": \"flatten\"}, {\"layer\": \"linear\", \"out\": 5}]";

static const struct parameter *find_parameter(const struct model_fixture *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->parameters[i].name, name) == 0)
            return &f->parameters[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

// Mean and biased variance of channel c of the images of a batch.
static void moments(const struct model_fixture *f, const struct batch *b, int64_t c, double out[2])
{
    const struct sample_shape *s = &f->shape;
    int64_t n = b->count * s->height * s->width;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++)
        mean += (double)b->images[i * s->channels + c] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)b->images[i * s->channels + c] - mean;
        variance += d * d / (double)n;
    }
    out[0] = mean;
    out[1] = variance;
}

static void test_statistics(void **state)
{
    (void)state;
    struct model_fixture f;
    model_fixture_begin(&f, plain, &image_6x6x4, MICRO_BATCH, 1);
    const struct parameter *mean = find_parameter(&f, "norm.running_mean");
    const struct parameter *variance = find_parameter(&f, "norm.running_var");
    assert_true(mean->momentum == 0.3 && variance->momentum == 0.3);
    assert_true(find_parameter(&f, "norm.weight")->momentum == 0 &&
                find_parameter(&f, "2.weight")->momentum == 0);
    assert_false(mean->decay || variance->decay || find_parameter(&f, "norm.weight")->decay);
    double n = MICRO_BATCH * 36, expected[2];
    model_fixture_train(&f, f.batch);
    for (int64_t c = 0; c < 4; c++) {
        assert_true(f.weights[mean->offset + (size_t)c] == 0);
        assert_true(f.weights[variance->offset + (size_t)c] == 1);
        moments(&f, f.batch, c, expected);
        expected[0] *= MICRO_BATCH;
        expected[1] *= MICRO_BATCH * n / (n - 1); // as in PyTorch
        assert_true(fabs((double)f.gradients[mean->offset + (size_t)c] - expected[0]) < 1e-6);
        assert_true(fabs((double)f.gradients[variance->offset + (size_t)c] - expected[1]) < 1e-5);
    }
    model_fixture_end(&f);
}

// If the running statistics are those of the batch, evaluation equals training; with others it does
// not. The result of a sample depends on no other sample.
static void test_evaluation(void **state)
{
    (void)state;
    struct model_fixture f;
    struct error e;
    float whole[MICRO_BATCH], one[MICRO_BATCH], first[MICRO_BATCH];
    int32_t correct[MICRO_BATCH];
    model_fixture_begin(&f, plain, &image_6x6x4, MICRO_BATCH, 2);
    model_fixture_train(&f, f.batch);
    assert_int_equal(model_evaluate(f.model, f.batch, first, correct, &e), 0);
    for (int64_t c = 0; c < 4; c++) {
        double batch[2];
        moments(&f, f.batch, c, batch);
        f.weights[find_parameter(&f, "norm.running_mean")->offset + (size_t)c] = (float)batch[0];
        f.weights[find_parameter(&f, "norm.running_var")->offset + (size_t)c] = (float)batch[1];
    }
    assert_int_equal(model_evaluate(f.model, f.batch, whole, correct, &e), 0);
    for (int i = 0; i < MICRO_BATCH; i++) {
        assert_true(fabsf(whole[i] - f.losses[i]) < 1e-5f);
        assert_true(fabsf(first[i] - f.losses[i]) > 1e-3f);
    }
    f.batch->count = 1;
    assert_int_equal(model_evaluate(f.model, f.batch, one, correct, &e), 0);
    expect_same_bits(one, whole, 1, "loss of the first sample alone");
    model_fixture_end(&f);
}

// --- batch_norm, residual and relu in one pass ---------------------------------------------------

#define HEAD                                                                                       \
    "[{\"layer\": \"conv2d\", \"kernel\": 3, \"padding\": 1, \"out\": 6},{\"layer\": "             \
    "\"batch_norm\"}"
#define BETWEEN "{\"layer\": \"dropout\", \"rate\": 0}"
#define END     ",{\"layer\": \"global_pool\"},{\"layer\": \"linear\", \"out\": 5}]"
#define INNER(more)                                                                                \
    "{\"layer\": \"residual\", \"layers\": [{\"layer\": \"relu\"},"                                \
    "{\"layer\": \"conv2d\", \"kernel\": 1, \"out\": 6},{\"layer\": \"batch_norm\"}" more "]}"

// Fused layers equal the same layers with a layer in between that does nothing.
static void test_fused(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {HEAD ",{\"layer\": \"relu\"}" END, HEAD "," BETWEEN ",{\"layer\": \"relu\"}" END},
        {HEAD "," INNER("") ",{\"layer\": \"relu\"}" END,
         HEAD "," BETWEEN "," INNER("," BETWEEN) ",{\"layer\": \"relu\"}" END},
        {HEAD "," INNER("") "," INNER("") END,
         HEAD "," BETWEEN "," INNER("," BETWEEN) "," INNER("," BETWEEN) END},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct model_fixture f, g;
        model_fixture_begin(&f, pairs[i][0], &image_6x6x4, MICRO_BATCH, 5);
        model_fixture_begin(&g, pairs[i][1], &image_6x6x4, MICRO_BATCH, 5);
        model_fixture_train(&f, f.batch);
        model_fixture_train(&g, g.batch);
        for (int k = 0; k < MICRO_BATCH; k++)
            assert_true(fabsf(f.losses[k] - g.losses[k]) < 1e-5f);
        for (size_t k = 0; k < model_block_size(f.model); k++)
            assert_true(fabsf(f.gradients[k] - g.gradients[k]) < 1e-4f);
        model_fixture_end(&f);
        model_fixture_end(&g);
    }
}

// --- in sync -------------------------------------------------------------------------------------

#define CONV(more) "{\"layer\": \"conv2d\", \"kernel\": 3, \"padding\": 1, \"bias\": false" more "}"
#define NORM(sync) "{\"layer\": \"batch_norm\", \"sync\": " sync "}"
#define RELU       "{\"layer\": \"relu\"}"
#define POOL       "{\"layer\": \"max_pool\", \"kernel\": 2}"
#define OUT(n)     ", \"out\": " #n
#define BLOCK(sync)                                                                                \
    "{\"layer\": \"residual\", \"layers\": [" CONV(OUT(6)) "," NORM(                               \
        sync) "," RELU                                                                             \
              "," CONV(OUT(6)) "," NORM(                                                           \
                  sync) "], \"shortcut\": [{\"layer\": \"conv2d\", \"kernel\": 1, \"out\": 6}]}"
#define NETWORK(sync)                                                                              \
    "[" NORM(sync) "," CONV(OUT(4)) "," NORM(sync) "," RELU "," POOL "," BLOCK(                    \
        sync) "," RELU ",{\"layer\": \"flatten\"},{\"layer\": \"linear\", \"out\": 5}]"

static const char *const in_sync = NETWORK("true");
static const char *const not_in_sync = NETWORK("false");

// A step of ALL micro-batches; the ranks are threads.
struct step {
    pthread_barrier_t met;
    pthread_mutex_t lock;
    int64_t *gathered; // sums of the values' bits over the ranks
    struct model_fixture data;
    const struct batch *batches[ALL];
    float *gradients[ALL], losses[ALL * MICRO_BATCH]; // of each micro-batch
    int delivered[ALL];
};
struct seat {
    struct step *step;
    int64_t first, count;
    struct compiled_model *model;
    pthread_t thread;
};
struct norm_place {
    struct step *step;
    int64_t micro_batch;
};

static int gather_over_threads(void *ctx, double *values, size_t count, struct error *e)
{
    struct seat *seat = ctx;
    struct step *s = seat->step;
    int64_t bits;
    (void)e;
    must(count <= model_lockstep_doubles(s->data.model, ALL));
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, &values[i], sizeof bits);
        s->gathered[i] += bits;
    }
    pthread_mutex_unlock(&s->lock);
    pthread_barrier_wait(&s->met);
    memcpy(values, s->gathered, count * sizeof *values);
    if (pthread_barrier_wait(&s->met) == PTHREAD_BARRIER_SERIAL_THREAD)
        memset(s->gathered, 0, count * sizeof *s->gathered);
    pthread_barrier_wait(&s->met);
    return 0;
}

static void keep_step_gradient(void *ctx, int parameter, const float *gradient)
{
    const struct norm_place *place = ctx;
    const struct parameter *p = &place->step->data.parameters[parameter];
    memcpy(place->step->gradients[place->micro_batch] + p->offset, gradient,
           p->count * sizeof *gradient);
    place->step->delivered[place->micro_batch]++;
}

static void *run_rank(void *arg)
{
    struct seat *seat = arg;
    struct step *s = seat->step;
    struct norm_place places[ALL];
    struct gradient_sink sinks[ALL];
    struct error e;
    for (int64_t k = 0; k < seat->count; k++) {
        places[k] = (struct norm_place){s, seat->first + k};
        sinks[k] = (struct gradient_sink){.ready = keep_step_gradient, .ctx = &places[k]};
    }
    const struct model_lockstep t = {.batches = s->batches + seat->first,
                                     .sinks = sinks,
                                     .losses = s->losses + seat->first * MICRO_BATCH,
                                     .count = seat->count,
                                     .first = seat->first,
                                     .step_count = ALL,
                                     .gather = gather_over_threads,
                                     .ctx = seat};
    if (model_train_lockstep(seat->model, &t, &s->data.key, &e))
        log_die(__FILE__, __LINE__, e.text);
    return NULL;
}

static void step_begin(struct step *s, const char *text)
{
    *s = (struct step){0};
    model_fixture_begin(&s->data, text, &image_6x6x4, MICRO_BATCH, 3);
    for (int k = 0; k < ALL; k++) {
        struct batch *b = batch_new(&s->data.shape, MICRO_BATCH);
        fill_batch(&s->data, b, MICRO_BATCH);
        for (int64_t i = 0; i < MICRO_BATCH * 144; i++)
            b->images[i] += (float)k; // to make the statistics differ
        s->batches[k] = b;
        s->gradients[k] = floats_new(&s->data.a, (int64_t)model_block_size(s->data.model));
    }
    s->gathered = xcalloc(model_lockstep_doubles(s->data.model, ALL) + 1, sizeof *s->gathered);
    pthread_mutex_init(&s->lock, NULL);
}

static void step_end(struct step *s)
{
    for (int k = 0; k < ALL; k++) {
        struct batch *b;
        memcpy(&b, &s->batches[k], sizeof b);
        batch_free(b);
    }
    pthread_mutex_destroy(&s->lock);
    free(s->gathered);
    model_fixture_end(&s->data);
}

static void step_run(struct step *s, const int64_t *shares, int ranks)
{
    struct seat seats[RANKS_MAX] = {0};
    int64_t first = 0;
    memset(s->delivered, 0, sizeof s->delivered);
    pthread_barrier_init(&s->met, NULL, (unsigned)ranks);
    for (int r = 0; r < ranks; r++) {
        struct error e;
        seats[r] = (struct seat){.step = s, .first = first, .count = shares[r]};
        first += shares[r];
        assert_int_equal(compile_text(in_sync, &s->data.shape, MICRO_BATCH, &seats[r].model, &e),
                         0);
        model_set_parameters(seats[r].model, s->data.weights);
    }
    for (int r = 0; r < ranks; r++)
        must(pthread_create(&seats[r].thread, NULL, run_rank, &seats[r]) == 0);
    for (int r = 0; r < ranks; r++)
        pthread_join(seats[r].thread, NULL);
    for (int r = 0; r < ranks; r++)
        model_free(seats[r].model);
    pthread_barrier_destroy(&s->met);
    for (int k = 0; k < ALL; k++)
        assert_int_equal(s->delivered[k], s->data.count);
}

// Any split of the micro-batches over ranks gives the same bits, even if a rank gets none.
static void test_any_split(void **state)
{
    (void)state;
    static const int64_t splits[][RANKS_MAX] = {{2, 4},    {5, 1},    {0, 6},
                                                {1, 2, 3}, {2, 2, 2}, {3, 0, 1, 2}};
    struct step one, many;
    step_begin(&one, in_sync);
    step_run(&one, (const int64_t[]){ALL}, 1);
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        step_begin(&many, in_sync);
        step_run(&many, splits[i], i < 3 ? 2 : i < 5 ? 3 : 4);
        expect_same_bits(many.losses, one.losses, ALL * MICRO_BATCH, "losses");
        for (int k = 0; k < ALL; k++)
            for (int p = 0; p < one.data.count; p++) {
                const struct parameter *q = &one.data.parameters[p];
                expect_same_bits(many.gradients[k] + q->offset, one.gradients[k] + q->offset,
                                 (int64_t)q->count, q->name);
            }
        step_end(&many);
    }
    step_end(&one);
}

// A step with sync equals one large micro-batch without sync.
static void test_like_one_large_micro_batch(void **state)
{
    (void)state;
    struct step s;
    struct model_fixture large;
    step_begin(&s, in_sync);
    step_run(&s, (const int64_t[]){ALL}, 1);
    model_fixture_begin(&large, not_in_sync, &image_6x6x4, ALL * MICRO_BATCH, 3);
    for (int k = 0; k < ALL; k++) {
        memcpy(large.batch->images + k * MICRO_BATCH * 144, s.batches[k]->images,
               MICRO_BATCH * 144 * sizeof(float));
        memcpy(large.batch->labels + k * MICRO_BATCH, s.batches[k]->labels,
               MICRO_BATCH * sizeof(int32_t));
    }
    model_fixture_train(&large, large.batch);
    for (int i = 0; i < ALL * MICRO_BATCH; i++)
        assert_true(fabsf(large.losses[i] - s.losses[i]) < 2e-5f);
    for (int p = 0; p < large.count; p++) {
        const struct parameter *q = &large.parameters[p];
        double apart = 0, length = 0;
        for (size_t i = q->offset; i < q->offset + q->count; i++) {
            double sum = 0;
            for (int k = 0; k < ALL; k++)
                sum += (double)s.gradients[k][i];
            apart += (sum - (double)large.gradients[i]) * (sum - (double)large.gradients[i]);
            length += (double)large.gradients[i] * (double)large.gradients[i];
        }
        if (!(sqrt(apart) <= 1e-4 * sqrt(length) + 1e-5))
            fail_msg("%s: %g apart, of length %g", q->name, sqrt(apart), sqrt(length));
    }
    model_fixture_end(&large);
    step_end(&s);
}

// A single micro-batch is the whole step. Without sync layers nothing is gathered.
static void test_alone(void **state)
{
    (void)state;
    struct model_fixture f, g;
    struct error e;
    model_fixture_begin(&f, in_sync, &image_6x6x4, MICRO_BATCH, 4);
    model_fixture_begin(&g, not_in_sync, &image_6x6x4, MICRO_BATCH, 4);
    assert_true(model_needs_lockstep(f.model));
    assert_false(model_needs_lockstep(g.model));
    assert_int_equal(model_lockstep_doubles(g.model, ALL), 0);
    assert_int_equal(model_lockstep_doubles(f.model, ALL), ALL * 2 * 6);
    model_fixture_train(&f, f.batch);
    model_fixture_train(&g, g.batch);
    expect_same_bits(f.losses, g.losses, MICRO_BATCH, "losses");
    for (int p = 0; p < f.count; p++)
        expect_same_bits(f.gradients + f.parameters[p].offset, g.gradients + f.parameters[p].offset,
                         (int64_t)f.parameters[p].count, f.parameters[p].name);
    float losses[2 * MICRO_BATCH], *alone = floats_new(&g.a, (int64_t)model_block_size(g.model));
    const struct batch *twice[] = {g.batch, g.batch};
    const struct gradient_sink sinks[] = {{.ready = keep_gradient, .ctx = &g},
                                          {.ready = keep_gradient, .ctx = &f}};
    const struct model_lockstep t = {
        .batches = twice, .sinks = sinks, .losses = losses, .count = 2, .step_count = 2};
    f.delivered = g.delivered = 0;
    memcpy(alone, g.gradients, model_block_size(g.model) * sizeof *alone);
    assert_int_equal(model_train_lockstep(g.model, &t, &g.key, &e), 0);
    expect_same_bits(losses, g.losses, MICRO_BATCH, "losses of the first");
    expect_same_bits(losses + MICRO_BATCH, g.losses, MICRO_BATCH, "losses of the second");
    for (int p = 0; p < g.count; p++)
        for (int k = 0; k < 2; k++)
            expect_same_bits((k ? &f : &g)->gradients + g.parameters[p].offset,
                             alone + g.parameters[p].offset, (int64_t)g.parameters[p].count,
                             g.parameters[p].name);
    model_fixture_end(&f);
    model_fixture_end(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_any_split),
        cmocka_unit_test(test_like_one_large_micro_batch),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
