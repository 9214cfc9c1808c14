// Optimizers compared with straightforward formulas in double; schedules, clipping, refused input.
#include "tests/unit/trainer/arithmetic.h"

#include <jansson.h>

#include "trainer/optim/optimizer.h"

// Three tensors, the second without weight decay, and a statistic, with gaps like the model's
// padding.
enum { TENSORS = 4, BLOCK = 160, STEPS = 6 };
static const struct parameter parameters[TENSORS] = {
    {"a.weight", 2, {7, 3}, 0, 21, true, 0},
    {"a.bias", 1, {5}, 32, 5, false, 0},
    {"b.weight", 2, {9, 10}, 48, 90, true, 0},
    {"b.mean", 1, {7}, 144, 7, false, 0.25},
};

static struct optimizer *make(const char *spec_text, const char *schedule_text, double clip)
{
    json_t *spec = json_loads(spec_text, 0, NULL);
    json_t *schedule = schedule_text ? json_loads(schedule_text, 0, NULL) : NULL;
    struct optimizer *o;
    struct error e;
    assert_non_null(spec);
    const struct optimizer_config config = {.spec = spec,
                                            .schedule = schedule,
                                            .steps = STEPS,
                                            .clip_norm = clip,
                                            .parameters = parameters,
                                            .parameter_count = TENSORS,
                                            .block_size = BLOCK};
    if (optimizer_new(&config, &o, &e))
        fail_msg("%s", e.text);
    json_decref(spec);
    json_decref(schedule);
    return o;
}

// One optimizer in double, written from the papers.
struct reference_optimizer {
    double rate, decay, momentum, beta1, beta2, epsilon, trust, clip;
    double p[BLOCK], m[BLOCK], v[BLOCK];
};

// Step t >= 1 of one tensor: its elements first..last - 1, its decay, and its gradient g.
typedef void plain_step(struct reference_optimizer *o, int t, int first, int last, double decay,
                        const double *g);

static double length(const double *x, int first, int last)
{
    double sum = 0;
    for (int i = first; i < last; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void plain_sgd(struct reference_optimizer *o, int t, int first, int last, double decay,
                      const double *g)
{
    (void)t;
    for (int i = first; i < last; i++)
        o->p[i] -= o->rate * (g[i] + decay * o->p[i]);
}

static void plain_momentum(struct reference_optimizer *o, int t, int first, int last, double decay,
                           const double *g)
{
    (void)t;
    for (int i = first; i < last; i++) {
        o->m[i] = o->momentum * o->m[i] + g[i] + decay * o->p[i];
        o->p[i] -= o->rate * o->m[i];
    }
}

// Sutskever et al. 2013, equations 3 and 4, where the parameters are their theta + mu v.
static void plain_nesterov(struct reference_optimizer *o, int t, int first, int last, double decay,
                           const double *g)
{
    (void)t;
    for (int i = first; i < last; i++) {
        double velocity = o->momentum * o->m[i] - o->rate * (g[i] + decay * o->p[i]);
        double theta = o->p[i] - o->momentum * o->m[i] + velocity;
        o->m[i] = velocity;
        o->p[i] = theta + o->momentum * velocity;
    }
}

// You, Gitman & Ginsburg 2017, algorithm 1.
static void plain_lars(struct reference_optimizer *o, int t, int first, int last, double decay,
                       const double *g)
{
    (void)t;
    double w = length(o->p, first, last), slope = length(g, first, last);
    double local = decay > 0 ? o->trust * w / (slope + decay * w) : 1;
    for (int i = first; i < last; i++) {
        o->m[i] = o->momentum * o->m[i] + o->rate * local * (g[i] + decay * o->p[i]);
        o->p[i] -= o->m[i];
    }
}

// Kingma & Ba 2015, algorithm 1: the direction from the moments of g.
static double plain_moments(struct reference_optimizer *o, int t, int i, double g)
{
    o->m[i] = o->beta1 * o->m[i] + (1 - o->beta1) * g;
    o->v[i] = o->beta2 * o->v[i] + (1 - o->beta2) * g * g;
    double m = o->m[i] / (1 - pow(o->beta1, t)), v = o->v[i] / (1 - pow(o->beta2, t));
    return m / (sqrt(v) + o->epsilon);
}

static void plain_adam(struct reference_optimizer *o, int t, int first, int last, double decay,
                       const double *g)
{
    for (int i = first; i < last; i++)
        o->p[i] -= o->rate * plain_moments(o, t, i, g[i] + decay * o->p[i]);
}

// Loshchilov & Hutter 2019, algorithm 2.
static void plain_adamw(struct reference_optimizer *o, int t, int first, int last, double decay,
                        const double *g)
{
    for (int i = first; i < last; i++)
        o->p[i] -= o->rate * (plain_moments(o, t, i, g[i]) + decay * o->p[i]);
}

// You et al. 2019, algorithm 2, with the identity for phi.
static void plain_lamb(struct reference_optimizer *o, int t, int first, int last, double decay,
                       const double *g)
{
    double direction[BLOCK];
    for (int i = first; i < last; i++)
        direction[i] = plain_moments(o, t, i, g[i]) + decay * o->p[i];
    double ratio = length(o->p, first, last) / length(direction, first, last);
    for (int i = first; i < last; i++)
        o->p[i] -= o->rate * (decay > 0 ? ratio : 1) * direction[i];
}

// One step of all tensors; returns the norm of the gradient.
static double plain_step_all(struct reference_optimizer *o, plain_step *one, int t,
                             const float *gradients)
{
    double g[BLOCK] = {0}, norm = 0;
    for (int k = 0; k < TENSORS; k++)
        for (size_t i = 0; i < parameters[k].count && parameters[k].momentum == 0; i++) {
            g[parameters[k].offset + i] = (double)gradients[parameters[k].offset + i];
            norm = hypot(norm, g[parameters[k].offset + i]);
        }
    for (int i = 0; i < BLOCK && o->clip > 0 && norm > o->clip; i++)
        g[i] *= o->clip / norm;
    for (int k = 0; k < TENSORS; k++) {
        const struct parameter *p = &parameters[k];
        int first = (int)p->offset, last = (int)(p->offset + p->count);
        for (int i = first; i < last && p->momentum > 0; i++)
            o->p[i] = (1 - p->momentum) * o->p[i] + p->momentum * (double)gradients[i];
        if (p->momentum == 0)
            one(o, t, first, last, p->decay ? o->decay : 0, g);
    }
    return norm;
}

static void check_optimizer(const char *spec, struct reference_optimizer o, plain_step *one,
                            uint64_t seed)
{
    struct arithmetic a = arithmetic_begin(seed);
    struct optimizer *found = make(spec, NULL, o.clip);
    float *p = floats_random(&a, BLOCK, 1), *before = floats_new(&a, BLOCK);
    memcpy(before, p, BLOCK * sizeof *p);
    for (int i = 0; i < BLOCK; i++)
        o.p[i] = (double)p[i];
    for (int step = 0; step < STEPS; step++) {
        float *g = floats_random(&a, BLOCK, step % 2 ? 0.3 : 2);
        double norm, expected = plain_step_all(&o, one, step + 1, g);
        struct error e;
        assert_int_equal(optimizer_step(found, step, p, g, NULL, 0, NULL, &norm, &e), 0);
        assert_true(fabs(norm / expected - 1) < 1e-12);
        for (int k = 0; k < TENSORS; k++)
            expect_close(p + parameters[k].offset, o.p + parameters[k].offset,
                         (int64_t)parameters[k].count, 2e-6, spec);
    }
    expect_same_bits(p + 21, before + 21, 11, "padding");
    expect_same_bits(p + 151, before + 151, BLOCK - 151, "padding at the end");
    optimizer_free(found);
    arithmetic_end(&a);
}

static void test_gradient_descent(void **state)
{
    (void)state;
    const struct reference_optimizer nesterov = {
        .rate = 0.05, .momentum = 0.8, .decay = 0.01, .clip = 1};
    check_optimizer("{\"name\": \"sgd\", \"learning_rate\": 0.1}",
                    (struct reference_optimizer){.rate = 0.1}, plain_sgd, 1);
    check_optimizer("{\"name\": \"sgd\", \"learning_rate\": 0.1, \"weight_decay\": 0.2}",
                    (struct reference_optimizer){.rate = 0.1, .decay = 0.2, .clip = 3}, plain_sgd,
                    2);
    check_optimizer("{\"name\": \"momentum\", \"learning_rate\": 0.05}",
                    (struct reference_optimizer){.rate = 0.05, .momentum = 0.9}, plain_momentum, 3);
    check_optimizer(
        "{\"name\": \"momentum\", \"learning_rate\": 0.05, \"weight_decay\": 0.1}",
        (struct reference_optimizer){.rate = 0.05, .momentum = 0.9, .decay = 0.1, .clip = 2},
        plain_momentum, 4);
    check_optimizer(
        "{\"name\": \"momentum\", \"learning_rate\": 0.05, \"momentum\": 0.8, \"nesterov\": true,"
        " \"weight_decay\": 0.01}",
        nesterov, plain_nesterov, 5);
    check_optimizer("{\"name\": \"nesterov\", \"learning_rate\": 0.05, \"momentum\": 0.8,"
                    " \"weight_decay\": 0.01}",
                    nesterov, plain_nesterov, 6);
}

static void test_moments(void **state)
{
    (void)state;
    const struct reference_optimizer usual = {
        .rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
    const struct reference_optimizer other = {
        .rate = 0.01, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3, .decay = 0.1, .clip = 2};
    struct reference_optimizer decayed = usual;
    decayed.decay = 0.01;
    check_optimizer("{\"name\": \"adam\", \"learning_rate\": 0.01}", usual, plain_adam, 1);
    check_optimizer("{\"name\": \"adam\", \"learning_rate\": 0.01, \"beta1\": 0.8, \"beta2\": 0.99,"
                    " \"epsilon\": 1e-3, \"weight_decay\": 0.1}",
                    other, plain_adam, 2);
    check_optimizer("{\"name\": \"adamw\", \"learning_rate\": 0.01}", decayed, plain_adamw, 3);
    check_optimizer(
        "{\"name\": \"adamw\", \"learning_rate\": 0.01, \"beta1\": 0.8, \"beta2\": 0.99,"
        " \"epsilon\": 1e-3, \"weight_decay\": 0.1}",
        other, plain_adamw, 4);
}

static void test_trust_ratios(void **state)
{
    (void)state;
    struct reference_optimizer lamb = {
        .rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .decay = 0.01};
    check_optimizer(
        "{\"name\": \"lars\", \"learning_rate\": 2}",
        (struct reference_optimizer){.rate = 2, .momentum = 0.9, .trust = 0.001, .decay = 0.0005},
        plain_lars, 1);
    check_optimizer(
        "{\"name\": \"lars\", \"learning_rate\": 0.5, \"momentum\": 0.5, \"weight_decay\": 0.1,"
        " \"trust_coefficient\": 0.1}",
        (struct reference_optimizer){
            .rate = 0.5, .momentum = 0.5, .trust = 0.1, .decay = 0.1, .clip = 2},
        plain_lars, 2);
    check_optimizer("{\"name\": \"lamb\", \"learning_rate\": 0.01}", lamb, plain_lamb, 3);
    lamb.clip = 1;
    lamb.decay = 0.1;
    check_optimizer("{\"name\": \"lamb\", \"learning_rate\": 0.01, \"weight_decay\": 0.1}", lamb,
                    plain_lamb, 4);
}

// A tensor whose weights or gradient are zero has no trust ratio: it uses the plain rate.
static void test_no_trust_ratio(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(3);
    float *p = floats_random(&a, BLOCK, 1), *g = floats_random(&a, BLOCK, 1);
    struct error e;
    memset(p, 0, 21 * sizeof *p);
    memset(g + 48, 0, 90 * sizeof *g);
    float before = p[48];
    struct optimizer *o =
        make("{\"name\": \"lars\", \"learning_rate\": 0.5, \"weight_decay\": 0.125}", NULL, 0);
    assert_int_equal(optimizer_step(o, 0, p, g, NULL, 0, NULL, NULL, &e), 0);
    assert_true(p[0] == -0.5f * g[0]);
    assert_true(fabsf(p[48] - before * (1 - 0.5f * 0.125f)) < 1e-7f);
    optimizer_free(o);
    memset(p, 0, 21 * sizeof *p);
    o = make("{\"name\": \"lamb\", \"learning_rate\": 0.5}", NULL, 0);
    assert_int_equal(optimizer_step(o, 0, p, g, NULL, 0, NULL, NULL, &e), 0);
    assert_true(fabsf(fabsf(p[0]) - 0.5f) < 1e-4f); // the first direction is the gradient's sign
    optimizer_free(o);
    arithmetic_end(&a);
}

static void test_states(void **state)
{
    (void)state;
    struct optimizer *o = make("{\"name\": \"sgd\", \"learning_rate\": 1}", NULL, 0);
    assert_int_equal(optimizer_state_count(o), 0);
    optimizer_free(o);
    o = make("{\"name\": \"momentum\", \"learning_rate\": 1}", NULL, 0);
    assert_int_equal(optimizer_state_count(o), 1);
    assert_string_equal(optimizer_state_name(o, 0), "momentum");
    optimizer_free(o);
    o = make("{\"name\": \"adamw\", \"learning_rate\": 1}", NULL, 0);
    assert_int_equal(optimizer_state_count(o), 2);
    assert_string_equal(optimizer_state_name(o, 0), "moment1");
    assert_string_equal(optimizer_state_name(o, 1), "moment2");
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < BLOCK; k++)
            assert_true(optimizer_state(o, i)[k] == 0);
    assert_true((uintptr_t)optimizer_state(o, 1) % 64 == 0);
    optimizer_free(o);
}

// The state is complete: training continues identically after copying it into a new optimizer.
static void test_resuming(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(9);
    const char *spec = "{\"name\": \"adamw\", \"learning_rate\": 0.01}";
    struct optimizer *whole = make(spec, NULL, 1), *second = make(spec, NULL, 1);
    float *p = floats_random(&a, BLOCK, 1), *q = floats_new(&a, BLOCK);
    struct error e;
    for (int step = 0; step < STEPS; step++) {
        float *g = floats_random(&a, BLOCK, 1);
        if (step == 3) {
            memcpy(q, p, BLOCK * sizeof *p);
            for (int i = 0; i < 2; i++)
                memcpy(optimizer_state(second, i), optimizer_state(whole, i), BLOCK * sizeof *p);
        }
        assert_int_equal(optimizer_step(whole, step, p, g, NULL, 0, NULL, NULL, &e), 0);
        if (step >= 3)
            assert_int_equal(optimizer_step(second, step, q, g, NULL, 0, NULL, NULL, &e), 0);
    }
    expect_same_bits(q, p, BLOCK, "parameters");
    optimizer_free(whole);
    optimizer_free(second);
    arithmetic_end(&a);
}

static void test_clipping(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(4);
    float *p = floats_new(&a, BLOCK), *g = floats_new(&a, BLOCK);
    struct error e;
    double norm;
    memset(p, 0, BLOCK * sizeof *p);
    memset(g, 0, BLOCK * sizeof *g);
    g[0] = 3;
    g[50] = 4;
    struct optimizer *o = make("{\"name\": \"sgd\", \"learning_rate\": 1}", NULL, 2.5);
    assert_int_equal(optimizer_step(o, 0, p, g, NULL, 0, NULL, &norm, &e), 0);
    assert_true(norm == 5); // before clipping
    assert_true(p[0] == -1.5f && p[50] == -2);
    optimizer_free(o);
    o = make("{\"name\": \"sgd\", \"learning_rate\": 1}", NULL, 5); // at the limit: not clipped
    p[0] = 0;
    g[0] = 3;
    g[50] = 4;
    assert_int_equal(optimizer_step(o, 0, p, g, NULL, 0, NULL, &norm, &e), 0);
    assert_true(p[0] == -3);
    optimizer_free(o);
    arithmetic_end(&a);
}

static void test_not_finite(void **state)
{
    (void)state;
    struct arithmetic a = arithmetic_begin(5);
    float *p = floats_random(&a, BLOCK, 1), *g = floats_random(&a, BLOCK, 1);
    struct error e;
    g[32 + 4] = INFINITY;
    g[60] = NAN;
    struct optimizer *o = make("{\"name\": \"adamw\", \"learning_rate\": 1}", NULL, 1);
    assert_int_equal(optimizer_step(o, 0, p, g, NULL, 0, NULL, NULL, &e), ERR_CORRUPT);
    assert_string_equal(e.text,
                        "the gradient of a.bias is not finite; try a lower learning rate, a longer "
                        "warm-up or clip_norm");
    g[32 + 4] = 3e38f; // large, but its square is finite in double
    g[60] = 0;
    g[147] = NAN;
    assert_int_equal(optimizer_step(o, 0, p, g, NULL, 0, NULL, NULL, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "the gradient of b.mean is not finite"));
    g[147] = 0;
    double norm;
    assert_int_equal(optimizer_step(o, 0, p, g, NULL, 0, NULL, &norm, &e), 0);
    assert_true(norm > 2.9e38 && isfinite(norm));
    optimizer_free(o);
    arithmetic_end(&a);
}

static void expect_refused(const char *spec_text, double clip, const char *expected)
{
    json_t *spec = json_loads(spec_text, 0, NULL), *schedule = NULL;
    struct optimizer *o;
    struct error e = {0};
    const struct optimizer_config config = {.spec = spec,
                                            .schedule = schedule,
                                            .steps = STEPS,
                                            .clip_norm = clip,
                                            .parameters = parameters,
                                            .parameter_count = TENSORS,
                                            .block_size = BLOCK};
    int rc = optimizer_new(&config, &o, &e);
    assert_int_equal(rc, ERR_INVALID);
    assert_string_equal(e.text, expected);
    assert_null(o);
    json_decref(spec);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refused("{\"name\": \"adagrad\", \"learning_rate\": 0.1}", 0,
                   "trainer.optimizer.name: there is no optimizer \"adagrad\"; `muster help "
                   "config` lists them");
    expect_refused("{\"name\": \"sgd\"}", 0,
                   "trainer.optimizer.learning_rate: must be a number of at least 0");
    expect_refused("{\"name\": \"sgd\", \"learning_rate\": -1}", 0,
                   "trainer.optimizer.learning_rate: must be a number of at least 0");
    expect_refused("{\"name\": \"adamw\", \"learning_rate\": 1, \"beta2\": 1}", 0,
                   "trainer.optimizer.beta2: must be a number of at least 0 and below 1");
    expect_refused("{\"name\": \"momentum\", \"learning_rate\": 1, \"momentum\": \"x\"}", 0,
                   "trainer.optimizer.momentum: must be a number of at least 0 and below 1");
    expect_refused("{\"name\": \"lars\", \"learning_rate\": 1, \"trust_coefficient\": -1}", 0,
                   "trainer.optimizer.trust_coefficient: must be a number of at least 0");
    expect_refused("{\"name\": \"sgd\", \"learning_rate\": 0.1}", -1,
                   "trainer.clip_norm: must be 0 (off) or a positive number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_descent), cmocka_unit_test(test_moments),
        cmocka_unit_test(test_trust_ratios),     cmocka_unit_test(test_no_trust_ratio),
        cmocka_unit_test(test_states),           cmocka_unit_test(test_resuming),
        cmocka_unit_test(test_clipping),         cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
