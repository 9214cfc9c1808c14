// Plays searchers against simulated trainings on known surfaces. For each searcher and problem it
// prints one line per seed: the regret of the model that a user would take after the budget is
// spent, which is the one with the best reported metric.
//
// A training has a state, its loss s, which approaches a floor f(h) that the hyperparameters h set:
// s' = s - k(h) * (s - f(h))^p. p = 1 gives an exponential learning curve, p = 1 + 1/a a power law
// with exponent a, the two families that fit measured curves best (Viering & Loog, 2022). A copied
// checkpoint is a copied state.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "master/search/search.h"

enum { WHOLE = 81, TRIALS_MAX = 8192, DIMENSIONS_MAX = 6 };

static const double start_loss = 3;

// --- surfaces ------------------------------------------------------------------------------------

// All map the unit cube to a value whose smallest is 0.
static double branin(const double *u)
{
    double x = 15 * u[0] - 5, y = 15 * u[1];
    double a = y - 5.1 / (4 * M_PI * M_PI) * x * x + 5 / M_PI * x - 6;
    return (a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x) + 10 - 0.397887357729739) / 50;
}

static double hartmann6(const double *u)
{
    static const double alpha[4] = {1, 1.2, 3, 3.2};
    static const double a[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                   {0.05, 10, 17, 0.1, 8, 14},
                                   {3, 3.5, 1.7, 10, 17, 8},
                                   {17, 8, 0.05, 10, 0.1, 14}};
    static const double p[4][6] = {{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
                                   {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
                                   {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650},
                                   {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}};
    double sum = 3.32236801141551;
    for (int i = 0; i < 4; i++) {
        double inner = 0;
        for (int j = 0; j < 6; j++)
            inner += a[i][j] * (u[j] - p[i][j]) * (u[j] - p[i][j]);
        sum -= alpha[i] * exp(-inner);
    }
    return sum / 3;
}

static double rosenbrock4(const double *u)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double x = 4 * u[i] - 2, y = 4 * u[i + 1] - 2;
        sum += 100 * (y - x * x) * (y - x * x) + (1 - x) * (1 - x);
    }
    return log10(1 + sum) / 3;
}

// Two numbers, an integer and a category: half of the categories cannot be good.
static double mixed(const double *u)
{
    static const double of[4] = {0, 0.15, 0.5, 0.8};
    double layers = floor(u[2] * 8 < 8 ? u[2] * 8 : 7),
           category = floor(u[3] * 4 < 4 ? u[3] * 4 : 3);
    return (u[0] - 0.3) * (u[0] - 0.3) * 2 + fabs(u[1] - 0.7) * 0.5 + 0.08 * fabs(layers - 5) +
           of[(int)category];
}

static double unit_speed(const double *u, double floor_)
{
    (void)floor_;
    return 0.03 * pow(10, u[0]); // 0.03 .. 0.3
}

// The better the result, the slower the training, so early results mislead.
static double misleading_speed(const double *u, double floor_)
{
    (void)u;
    return 0.02 + 0.25 * (floor_ < 1 ? floor_ : 1);
}

// A large learning rate is fast and ends at a high floor, as in SGD: the best is to lower it.
static double sgd_floor(const double *u)
{
    double rate = pow(10, 3 * u[0] - 3), decay = 6 * u[1] - 3;
    return 0.5 * rate + 0.02 * (decay - 1) * (decay - 1);
}

static double sgd_speed(const double *u, double floor_)
{
    (void)floor_;
    return 0.5 * pow(10, 3 * u[0] - 3);
}

struct problem {
    const char *name;
    int dimensions;
    double (*floor)(const double *u);
    double (*speed)(const double *u, double floor); // NULL: it reports its result at its end alone
    double power;
};

static const struct problem problems[] = {
    {"branin, result at the end", 2, branin, NULL, 1},
    {"hartmann6, result at the end", 6, hartmann6, NULL, 1},
    {"rosenbrock4, result at the end", 4, rosenbrock4, NULL, 1},
    {"mixed, result at the end", 4, mixed, NULL, 1},
    {"branin, exponential curves", 2, branin, unit_speed, 1},
    {"hartmann6, power-law curves", 6, hartmann6, unit_speed, 2},
    {"rosenbrock4, power-law curves", 4, rosenbrock4, unit_speed, 1.5},
    {"mixed, misleading curves", 4, mixed, misleading_speed, 1},
    {"sgd, best with a falling rate", 2, sgd_floor, sgd_speed, 1},
};

static const struct {
    const char *name, *keys;
} searchers[] = {
    {"random", "\"max_trials\":100000,\"max_concurrent_trials\":10"},
    {"tpe", "\"max_trials\":2000,\"max_concurrent_trials\":4"},
    {"async_halving", "\"num_rungs\":5,\"divisor\":3,\"max_trials\":100000,\"max_time\":81,"
                      "\"max_concurrent_trials\":10"},
    {"adaptive_asha", "\"divisor\":3,\"max_trials\":300,\"max_time\":81,"
                      "\"max_concurrent_trials\":10"},
    {"hyperband", "\"max_time\":81,\"max_concurrent_trials\":10"},
    {"pbt", "\"population_size\":20,\"num_rounds\":9,\"length_per_round\":{\"batches\":9}"},
};

// --- one play ------------------------------------------------------------------------------------

struct player {
    double u[DIMENSIONS_MAX];
    double loss, floor, speed;
    int time;
    double best;
    bool running, stopping;
};

struct surface_play {
    const struct problem *problem;
    struct search *search;
    struct rng noise;
    struct player *trials; // of the current search, by number - 1
    size_t count, running;
    long spent, budget;
    double best_seen, result; // the best reported metric, and the true loss behind it
    bool over;
};

static void player_set(const struct surface_play *p, struct player *t, const json_t *hparams)
{
    char key[16];
    for (int i = 0; i < p->problem->dimensions; i++) {
        snprintf(key, sizeof key, "x%d", i);
        t->u[i] = jget_double(hparams, key, 0);
    }
    t->floor = p->problem->floor(t->u);
    t->speed = p->problem->speed ? p->problem->speed(t->u, t->floor) : 0;
}

static struct player *player_of(struct surface_play *p, const char *request_id)
{
    return &p->trials[strtol(request_id, NULL, 10) - 1];
}

static void obey(struct surface_play *p, struct search_commands *commands)
{
    for (size_t i = 0; i < commands->count; i++) {
        const struct search_command *c = &commands->items[i];
        if (c->kind == SEARCH_SHUTDOWN) {
            p->over = true;
            continue;
        }
        struct player *t = player_of(p, c->request_id);
        if (c->kind == SEARCH_STOP) {
            t->stopping = true;
            continue;
        }
        if (c->kind == SEARCH_CREATE) {
            must(++p->count <= TRIALS_MAX);
            *t = (struct player){.loss = start_loss, .best = NAN};
            if (*c->source) {
                t->loss = player_of(p, c->source)->loss;
                t->time = player_of(p, c->source)->time;
            }
            player_set(p, t, c->hparams);
        }
        t->running = true;
        t->stopping = false;
        p->running++;
    }
    search_commands_free(commands);
}

static void tell(struct surface_play *p, const struct player *t, struct search_event event)
{
    struct search_commands commands;
    char id[24];
    snprintf(id, sizeof id, "%d", t ? (int)(t - p->trials) + 1 : 0);
    event.request_id = id;
    search_handle_event(p->search, &event, &commands);
    obey(p, &commands);
}

static double draw_noise(struct surface_play *p)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += rng_double(&p->noise);
    return 0.005 * sum;
}

static void validate(struct surface_play *p, struct player *t)
{
    double metric = t->loss + draw_noise(p);
    if (metric < p->best_seen) {
        p->best_seen = metric;
        p->result = t->loss;
    }
    t->best = t->best <= metric ? t->best : metric;
    tell(p, t, (struct search_event){.kind = SEARCH_VALIDATED, .metric = metric, .time = t->time});
}

// One unit of training.
static void train(struct surface_play *p, struct player *t)
{
    double gap = t->loss - t->floor;
    t->time++;
    p->spent++;
    if (p->problem->speed)
        t->loss -= t->speed * gap * pow(fabs(gap), p->problem->power - 1);
    else if (t->time == WHOLE)
        t->loss = t->floor;
    if (p->problem->speed || t->time == WHOLE)
        validate(p, t);
    if (t->stopping || t->time >= WHOLE) {
        t->running = false;
        p->running--;
        tell(p, t, (struct search_event){.kind = SEARCH_TRIAL_ENDED, .best = t->best});
    }
}

static json_t *config_of(const struct problem *problem, const char *name, const char *keys)
{
    json_t *space = json_object();
    char key[16],
        *text = xasprintf("{\"searcher\":{\"name\":\"%s\",\"metric\":\"loss\",%s}}", name, keys);
    json_t *config = json_loads(text, 0, NULL);
    must(config);
    for (int i = 0; i < problem->dimensions; i++) {
        snprintf(key, sizeof key, "x%d", i);
        json_object_set_new(
            space, key, json_pack("{s:s, s:i, s:i}", "type", "double", "minval", 0, "maxval", 1));
    }
    json_object_set_new(config, "hyperparameters", space);
    free(text);
    return config;
}

// A search that ends before the budget is spent is repeated with another seed.
static double play(const struct problem *problem, size_t searcher, int64_t seed, long budget)
{
    struct surface_play p = {.problem = problem, .budget = budget, .best_seen = INFINITY};
    json_t *config = config_of(problem, searchers[searcher].name, searchers[searcher].keys);
    struct error e = {0};
    p.trials = xcalloc(TRIALS_MAX, sizeof *p.trials);
    rng_seed(&p.noise, (uint64_t)seed, 9);
    for (int64_t again = 0; p.spent < budget; again++) {
        p.over = false;
        p.count = p.running = 0;
        if (search_new(config, seed + 1000 * again, &p.search, &e)) {
            fprintf(stderr, "%s\n", e.text);
            exit(1);
        }
        tell(&p, NULL, (struct search_event){.kind = SEARCH_BEGIN});
        while (!p.over && p.spent < budget)
            for (size_t i = 0; i < p.count && !p.over && p.spent < budget; i++)
                if (p.trials[i].running)
                    train(&p, &p.trials[i]);
        search_free(p.search);
    }
    json_decref(config);
    free(p.trials);
    return p.result;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s SEEDS TRAININGS\n", argv[0]);
        return 2;
    }
    long seeds = strtol(argv[1], NULL, 10), budget = strtol(argv[2], NULL, 10) * WHOLE;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (size_t s = 0; s < sizeof searchers / sizeof *searchers; s++) {
            // Without curves there is nothing that these could compare before the end.
            if (!problems[i].speed && s > 1)
                continue;
            for (long seed = 0; seed < seeds; seed++)
                printf("{\"problem\":\"%s\",\"searcher\":\"%s\",\"seed\":%ld,\"regret\":%.17g}\n",
                       problems[i].name, searchers[s].name, seed,
                       play(&problems[i], s, seed, budget));
        }
    return 0;
}
