// An optimizer step shared among ranks gives the same bits, however the block is cut and whoever
// owns its parts. Every rank is a thread with an optimizer of its own; parameters and gradients are
// one block, of which each rank writes its own parts.
#include "tests/unit/trainer/arithmetic.h"

#include <jansson.h>
#include <pthread.h>

#include "trainer/optim/optimizer.h"

// Eleven cells: tensors over several cells, several in one cell, a statistic across a border.
enum { TENSORS = 7, CELLS = 11, BLOCK = 10 * OPTIMIZER_CELL + 592, STEPS = 2, RANKS_MAX = 13 };
static const struct parameter parameters[TENSORS] = {
    {"a.weight", 2, {100, 150}, 0, 15000, true, 0},
    {"a.bias", 1, {150}, 15008, 150, false, 0},
    {"norm.mean", 1, {2000}, 15168, 2000, false, 0.1},
    {"norm.gain", 1, {100}, 17168, 100, false, 0},
    {"b.weight", 2, {4096, 5}, 20480, 20480, true, 0},
    {"c.weight", 2, {20, 20}, 40960, 400, true, 0},
    {"c.bias", 1, {19}, 41360, 19, false, 0},
};

struct optimizer_world { // shared by the ranks
    int size;
    bool scattered; // cells are dealt out in turn; otherwise each rank has a contiguous part
    const char *spec;
    double clip;
    float *parameters, *gradients[STEPS], *states[OPTIMIZER_STATES_MAX];
    double norms[STEPS];
    pthread_barrier_t barrier;
    pthread_mutex_t lock;
    double *sums; // of the combination in progress
};

struct optimizer_rank {
    struct optimizer_world *w;
    int rank, err;
    struct optimizer *optimizer;
    struct optimizer_range ranges[CELLS];
    int range_count;
    double norms[STEPS];
    struct error error;
};

static int combine(void *ctx, double *sums, size_t count, struct error *e)
{
    struct optimizer_rank *r = ctx;
    struct optimizer_world *w = r->w;
    (void)e;
    must(count <= optimizer_sums(r->optimizer));
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < count; i++)
        w->sums[i] += sums[i];
    pthread_mutex_unlock(&w->lock);
    pthread_barrier_wait(&w->barrier);
    memcpy(sums, w->sums, count * sizeof *sums);
    if (pthread_barrier_wait(&w->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        memset(w->sums, 0, count * sizeof *sums);
    pthread_barrier_wait(&w->barrier);
    return 0;
}

static struct optimizer *make(const char *text, double clip)
{
    json_t *spec = json_loads(text, 0, NULL);
    const struct optimizer_config config = {.spec = spec,
                                            .steps = STEPS,
                                            .clip_norm = clip,
                                            .parameters = parameters,
                                            .parameter_count = TENSORS,
                                            .block_size = BLOCK};
    struct optimizer *o = NULL;
    struct error e;
    must(spec && optimizer_new(&config, &o, &e) == 0);
    json_decref(spec);
    return o;
}

static void add_range(struct optimizer_rank *r, int first_cell, int last_cell)
{
    size_t last = (size_t)last_cell * OPTIMIZER_CELL;
    r->ranges[r->range_count++] =
        (struct optimizer_range){(size_t)first_cell * OPTIMIZER_CELL, last < BLOCK ? last : BLOCK};
}

static void own(struct optimizer_rank *r)
{
    int size = r->w->size;
    if (!r->w->scattered)
        add_range(r, CELLS * r->rank / size, CELLS * (r->rank + 1) / size);
    for (int cell = r->rank; cell < CELLS && r->w->scattered; cell += size)
        add_range(r, cell, cell + 1);
}

static void *run_rank(void *arg)
{
    struct optimizer_rank *r = arg;
    struct optimizer_world *w = r->w;
    const struct optimizer_peers peers = {combine, r};
    own(r);
    for (int step = 0; step < STEPS && !r->err; step++) {
        r->err = optimizer_step(r->optimizer, step, w->parameters, w->gradients[step], r->ranges,
                                r->range_count, &peers, &r->norms[step], &r->error);
        pthread_barrier_wait(&w->barrier);
    }
    for (int i = 0; i < optimizer_state_count(r->optimizer); i++)
        for (int k = 0; k < r->range_count; k++)
            memcpy(w->states[i] + r->ranges[k].first,
                   optimizer_state(r->optimizer, i) + r->ranges[k].first,
                   (r->ranges[k].last - r->ranges[k].first) * sizeof(float));
    return NULL;
}

static void run_world(struct optimizer_world *w, struct optimizer_rank *ranks)
{
    pthread_t threads[RANKS_MAX];
    pthread_barrier_init(&w->barrier, NULL, (unsigned)w->size);
    pthread_mutex_init(&w->lock, NULL);
    for (int r = 0; r < w->size; r++) {
        ranks[r] = (struct optimizer_rank){.w = w, .rank = r, .optimizer = make(w->spec, w->clip)};
        must(pthread_create(&threads[r], NULL, run_rank, &ranks[r]) == 0);
    }
    for (int r = 0; r < w->size; r++) {
        pthread_join(threads[r], NULL);
        optimizer_free(ranks[r].optimizer);
    }
    pthread_mutex_destroy(&w->lock);
    pthread_barrier_destroy(&w->barrier);
}

static struct optimizer_world new_world(struct arithmetic *a, const char *spec, double clip)
{
    struct optimizer_world w = {.spec = spec, .clip = clip};
    w.parameters = floats_random(a, BLOCK, 1);
    for (int step = 0; step < STEPS; step++)
        w.gradients[step] = floats_random(a, BLOCK, 0.1);
    for (int i = 0; i < OPTIMIZER_STATES_MAX; i++)
        w.states[i] = floats_new(a, BLOCK);
    w.sums = doubles_new(a, 3 * (CELLS + TENSORS));
    memset(w.sums, 0, 3 * (CELLS + TENSORS) * sizeof *w.sums);
    return w;
}

// The result of a single process.
static struct optimizer_world reference(struct arithmetic *a, const char *spec, double clip,
                                        uint64_t seed)
{
    rng_seed(&a->rng, seed, 1);
    struct optimizer_world w = new_world(a, spec, clip);
    struct optimizer *o = make(spec, clip);
    struct error e;
    for (int step = 0; step < STEPS; step++)
        assert_int_equal(optimizer_step(o, step, w.parameters, w.gradients[step], NULL, 0, NULL,
                                        &w.norms[step], &e),
                         0);
    for (int i = 0; i < optimizer_state_count(o); i++)
        memcpy(w.states[i], optimizer_state(o, i), BLOCK * sizeof(float));
    optimizer_free(o);
    return w;
}

static void check_optimizer(const char *spec, int states, double clip)
{
    static const int sizes[] = {1, 2, 3, 5, 8, RANKS_MAX};
    struct optimizer_rank ranks[RANKS_MAX];
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        struct arithmetic a = arithmetic_begin(0);
        struct optimizer_world alone = reference(&a, spec, clip, 11);
        rng_seed(&a.rng, 11, 1);
        struct optimizer_world w = new_world(&a, spec, clip);
        w.size = sizes[i / 2];
        w.scattered = i % 2 > 0;
        run_world(&w, ranks);
        expect_same_bits(w.parameters, alone.parameters, BLOCK, spec);
        for (int k = 0; k < states; k++)
            expect_same_bits(w.states[k], alone.states[k], BLOCK, spec);
        for (int r = 0; r < w.size; r++) {
            assert_int_equal(ranks[r].err, 0);
            assert_memory_equal(ranks[r].norms, alone.norms, sizeof alone.norms);
        }
        arithmetic_end(&a);
    }
}

static void test_any_world(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int states;
    } kinds[] = {{"sgd", 0},  {"momentum", 1}, {"nesterov", 1}, {"lars", 1},
                 {"adam", 2}, {"adamw", 2},    {"lamb", 2}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char spec[128];
        snprintf(spec, sizeof spec,
                 "{\"name\": \"%s\", \"learning_rate\": 0.1, \"weight_decay\": 0.01}",
                 kinds[i].name);
        check_optimizer(spec, kinds[i].states, 0);
        check_optimizer(spec, kinds[i].states, 1);
    }
}

// The norm covers all gradients except statistics, and clipping respects it.
static void test_norm(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(0);
    struct optimizer_world w = reference(&a, "{\"name\": \"sgd\", \"learning_rate\": 1}", 0.5, 12);
    double sum = 0;
    for (int k = 0; k < TENSORS; k++)
        for (size_t i = 0; i < parameters[k].count && parameters[k].momentum == 0; i++)
            sum += pow((double)w.gradients[STEPS - 1][parameters[k].offset + i], 2);
    assert_true(fabs(w.norms[STEPS - 1] / sqrt(sum) - 1) < 1e-12);
    float *before = floats_new(&a, BLOCK);
    memcpy(before, w.parameters, BLOCK * sizeof *before);
    struct optimizer *o = make(w.spec, w.clip);
    struct error e;
    assert_int_equal(optimizer_step(o, 0, w.parameters, w.gradients[0], NULL, 0, NULL, NULL, &e),
                     0);
    double moved = 0;
    for (int k = 0; k < TENSORS; k++)
        for (size_t i = parameters[k].offset; i < parameters[k].offset + parameters[k].count; i++)
            if (parameters[k].momentum == 0)
                moved += pow((double)before[i] - (double)w.parameters[i], 2);
    assert_true(fabs(sqrt(moved) / 0.5 - 1) < 1e-5);
    optimizer_free(o);
    arithmetic_end(&a);
}

// Every rank reports the error, also the ranks that do not own the tensor.
static void test_not_finite(void **state)
{
    (void)state;
    static const char *const specs[] = {"{\"name\": \"adamw\", \"learning_rate\": 0.1}",
                                        "{\"name\": \"lars\", \"learning_rate\": 0.1}",
                                        "{\"name\": \"lamb\", \"learning_rate\": 0.1}"};
    for (size_t i = 0; i < 6; i++) {
        struct arithmetic a = arithmetic_begin(13);
        struct optimizer_rank ranks[RANKS_MAX];
        struct optimizer_world w = new_world(&a, specs[i % 3], i < 3 ? 0 : 1);
        w.size = 3;
        w.gradients[1][41361] = NAN;
        w.gradients[1][30000] = INFINITY;
        run_world(&w, ranks);
        for (int r = 0; r < w.size; r++) {
            assert_int_equal(ranks[r].err, ERR_CORRUPT);
            assert_non_null(strstr(ranks[r].error.text, "the gradient of b.weight is not finite"));
        }
        arithmetic_end(&a);
    }
}

// Weights whose norm for LAMB is not finite are named too.
static void test_weights_not_finite(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(14);
    struct optimizer_world w = new_world(&a, "{\"name\": \"lamb\", \"learning_rate\": 0.1}", 0);
    struct optimizer *o = make(w.spec, 0);
    struct error e;
    w.parameters[20] = INFINITY;
    assert_int_equal(optimizer_step(o, 0, w.parameters, w.gradients[0], NULL, 0, NULL, NULL, &e),
                     ERR_CORRUPT);
    assert_non_null(strstr(e.text, "the value of a.weight is not finite"));
    optimizer_free(o);
    arithmetic_end(&a);
}

static int lose_peer(void *ctx, double *sums, size_t count, struct error *e)
{
    (void)sums, (void)count;
    ++*(int *)ctx;
    return error_set(e, ERR_PEER, "rank 1 is gone");
}

static void test_lost_peer(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(15);
    struct optimizer_world w = new_world(&a, "{\"name\": \"lamb\", \"learning_rate\": 0.1}", 1);
    struct optimizer *o = make(w.spec, w.clip);
    int calls = 0;
    const struct optimizer_peers peers = {lose_peer, &calls};
    struct error e;
    assert_int_equal(optimizer_step(o, 0, w.parameters, w.gradients[0], NULL, 0, &peers, NULL, &e),
                     ERR_PEER);
    assert_string_equal(e.text, "rank 1 is gone");
    assert_int_equal(calls, 1);
    optimizer_free(o);
    arithmetic_end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_world),  cmocka_unit_test(test_norm),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_weights_not_finite),
        cmocka_unit_test(test_lost_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
