// The published examples of the searchers: the brackets of Hyperband, the toy problem of population
// based training, and TPE against a second implementation.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/search/search.h"

static struct search *search_of(const char *config_text, int64_t seed)
{
    json_t *config = NULL;
    struct search *s = NULL;
    struct error e = {0};
    assert_int_equal(json_parse(config_text, strlen(config_text), "config", &config, &e), 0);
    if (search_new(config, seed, &s, &e))
        fail_msg("%s", e.text);
    json_decref(config);
    return s;
}

static struct search_commands tell(struct search *s, int64_t trial, struct search_event event)
{
    struct search_commands commands;
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)trial);
    event.request_id = id;
    search_handle_event(s, &event, &commands);
    return commands;
}

static int64_t number_of(const struct search_command *command)
{
    return strtoll(command->request_id, NULL, 10);
}

// --- Hyperband -----------------------------------------------------------------------------------

#define HYPERBAND "{\"searcher\":{\"name\":\"hyperband\",\"metric\":\"loss\",%s}}"

// "trials@time .." of each rung, "; " between brackets.
static char *brackets_of(const char *keys)
{
    char *config = xasprintf(HYPERBAND, keys), *text = xstrdup("");
    struct search *s = search_of(config, 1);
    json_t *brackets = search_rungs(s), *bracket, *rung;
    size_t i, k;
    json_array_foreach(brackets, i, bracket)
    {
        json_array_foreach(jget(bracket, "rungs"), k, rung)
        {
            char *longer =
                xasprintf("%s%s%lld@%g", text,
                          k   ? " "
                          : i ? "; "
                              : "",
                          (long long)jget_int(rung, "size", 0), jget_double(rung, "time", 0));
            free(text);
            text = longer;
        }
    }
    json_decref(brackets);
    search_free(s);
    free(config);
    return text;
}

// Table 1 of Li et al. (JMLR 2018), with R = 81 and eta = 3; both are our defaults.
static void test_hyperband_table(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *brackets;
    } cases[] = {
        {"\"max_time\":81", "81@1 27@3 9@9 3@27 1@81; 34@3 11@9 3@27 1@81; 15@9 5@27 1@81; "
                            "8@27 2@81; 5@81"},
        {"\"max_time\":81,\"divisor\":3,\"max_rungs\":2", "3@27 1@81; 2@81"},
        {"\"max_time\":80,\"divisor\":3", "27@2 9@8 3@26 1@80; 12@8 4@26 1@80; 6@26 2@80; 4@80"},
        {"\"max_time\":1", "1@1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found = brackets_of(cases[i].keys);
        assert_string_equal(found, cases[i].brackets);
        free(found);
    }
}

enum { TABLE_TRIALS = 81 + 34 + 15 + 8 + 5 };

static double hyperband_metric(int64_t trial)
{
    return (double)(trial * 7919 % 1009);
}

// Runs all trials to their rungs, always the running trial that `order` prefers. Returns the total
// training time and the set of trials that were trained to the end.
static double hyperband_play(int order, bool whole[TABLE_TRIALS + 1])
{
    char *config = xasprintf(HYPERBAND, "\"max_time\":81,\"max_concurrent_trials\":10");
    struct search *s = search_of(config, 1);
    double times[TABLE_TRIALS + 1] = {0}, total = 0;
    bool running[TABLE_TRIALS + 1] = {false}, over = false;
    struct search_commands commands = tell(s, 0, (struct search_event){.kind = SEARCH_BEGIN});
    while (!over) {
        int64_t next = 0, stopped = 0;
        for (size_t i = 0; i < commands.count; i++) {
            const struct search_command *c = &commands.items[i];
            over |= c->kind == SEARCH_SHUTDOWN;
            stopped = c->kind == SEARCH_STOP ? number_of(c) : stopped;
            if (c->kind == SEARCH_CREATE || c->kind == SEARCH_RESTART)
                running[number_of(c)] = true;
        }
        search_commands_free(&commands);
        for (int64_t i = 1; i <= TABLE_TRIALS; i++)
            if (running[i] && (!next || order > 0))
                next = i;
        if (stopped) {
            running[stopped] = false;
            commands = tell(s, stopped, (struct search_event){.kind = SEARCH_TRIAL_ENDED});
        } else if (!over) {
            total++;
            whole[next] = ++times[next] == 81;
            commands = tell(s, next,
                            (struct search_event){.kind = SEARCH_VALIDATED,
                                                  .metric = hyperband_metric(next),
                                                  .time = times[next]});
        }
    }
    search_free(s);
    free(config);
    return total;
}

// The whole plan takes the time of its table, and promotes the same trials in any order of arrival.
static void test_hyperband_order(void **state)
{
    (void)state;
    bool first[TABLE_TRIALS + 1] = {false}, last[TABLE_TRIALS + 1] = {false};
    double wanted = (81 * 1 + 27 * 2 + 9 * 6 + 3 * 18 + 1 * 54) +
                    (34 * 3 + 11 * 6 + 3 * 18 + 1 * 54) + (15 * 9 + 5 * 18 + 1 * 54) +
                    (8 * 27 + 2 * 54) + 5 * 81;
    assert_true(hyperband_play(-1, first) == wanted);
    assert_true(hyperband_play(+1, last) == wanted);
    int finished = 0, best = 1;
    for (int i = 1; i <= 81; i++)
        best = hyperband_metric(i) < hyperband_metric(best) ? i : best;
    for (int i = 1; i <= TABLE_TRIALS; i++) {
        assert_int_equal(first[i], last[i]);
        finished += first[i];
    }
    assert_int_equal(finished, 1 + 1 + 1 + 2 + 5);
    assert_true(first[best]);
}

// A failed trial is not promoted, and a trial that ended by itself is not trained again.
static void test_hyperband_ends(void **state)
{
    (void)state;
    char *config = xasprintf(HYPERBAND, "\"max_time\":3,\"max_concurrent_trials\":0");
    struct search *s = search_of(config, 1);
    struct search_commands commands = tell(s, 0, (struct search_event){.kind = SEARCH_BEGIN});
    assert_int_equal(commands.count, 3 + 2);
    search_commands_free(&commands);
    static const double metrics[] = {5, 1, 3};
    for (int i = 0; i < 3; i++) {
        const struct search_event validated = {
            .kind = SEARCH_VALIDATED, .metric = metrics[i], .time = 1};
        commands = tell(s, i + 1, validated);
        assert_int_equal(commands.count, 1);
        assert_int_equal(commands.items[0].kind, SEARCH_STOP);
        search_commands_free(&commands);
        commands = tell(s, i + 1, (struct search_event){.kind = SEARCH_TRIAL_ENDED});
        assert_int_equal(commands.count, i == 2);
        if (i == 2) {
            assert_int_equal(commands.items[0].kind, SEARCH_RESTART);
            assert_null(commands.items[0].hparams);
            assert_string_equal(commands.items[0].request_id, "2");
        }
        search_commands_free(&commands);
    }
    commands = tell(s, 2, (struct search_event){.kind = SEARCH_TRIAL_ENDED, .best = 1});
    assert_int_equal(commands.count, 0);
    commands =
        tell(s, 4,
             (struct search_event){.kind = SEARCH_TRIAL_ENDED, .end = SEARCH_END_ERROR, .best = 1});
    assert_int_equal(commands.count, 0);
    commands = tell(s, 5, (struct search_event){.kind = SEARCH_TRIAL_ENDED, .best = 2});
    assert_int_equal(commands.count, 1);
    assert_int_equal(commands.items[0].kind, SEARCH_SHUTDOWN);
    assert_int_equal(commands.items[0].outcome, SEARCH_END_COMPLETED);
    search_commands_free(&commands);
    search_free(s);
    free(config);
}

static int hyperband_open(const char *keys, struct error *e)
{
    struct search *s = NULL;
    char *text = xasprintf(HYPERBAND, keys);
    json_t *config = json_loads(text, 0, NULL);
    assert_non_null(config);
    int err = search_new(config, 1, &s, e);
    search_free(s);
    json_decref(config);
    free(text);
    return err;
}

// Two brackets, of divisor and 2 trials.
static void test_hyperband_too_large(void **state)
{
    (void)state;
    struct error e = {0};
    assert_int_equal(hyperband_open("\"max_time\":1000000,\"max_rungs\":2,\"divisor\":9998", &e),
                     0);
    assert_int_equal(hyperband_open("\"max_time\":1000000,\"max_rungs\":2,\"divisor\":9999", &e),
                     ERR_TOO_LARGE);
    assert_non_null(strstr(e.text, "max_rungs"));
}

// --- PBT -----------------------------------------------------------------------------------------

// Figure 2 of Jaderberg et al. (2017): Q(theta) = 1.2 - theta0^2 - theta1^2 is to be maximised, but
// training only sees the surrogate 1.2 - h0 theta0^2 - h1 theta1^2. One worker starts with h = (1,
// 0), the other with (0, 1), both with theta = (0.9, 0.9). Each alone gets stuck at Q = 0.39.
#define TOY                                                                                        \
    "{\"searcher\":{\"name\":\"pbt\",\"metric\":\"q\",\"smaller_is_better\":false,"                \
    "\"population_size\":2,\"num_rounds\":100,\"length_per_round\":{\"batches\":4},"               \
    "\"replace_function\":{\"truncate_fraction\":0.5}},\"hyperparameters\":{"                      \
    "\"h0\":{\"type\":\"double\",\"minval\":0,\"maxval\":1},"                                      \
    "\"h1\":{\"type\":\"double\",\"minval\":0,\"maxval\":1}}}"

struct toy_worker {
    int64_t trial;
    int time;
    double theta[2], h[2];
};

static double toy_quality(const struct toy_worker *w)
{
    return 1.2 - w->theta[0] * w->theta[0] - w->theta[1] * w->theta[1];
}

static void toy_train(struct toy_worker *w)
{
    for (int i = 0; i < 2; i++)
        w->theta[i] -= 0.02 * 2 * w->h[i] * w->theta[i];
    w->time++;
}

// Restores the search after its first trials were created, with other values for them.
static struct search *toy_begin(int64_t seed, struct toy_worker workers[2])
{
    struct search *s = search_of(TOY, seed), *restored = NULL;
    struct search_commands commands = tell(s, 0, (struct search_event){.kind = SEARCH_BEGIN});
    struct error e = {0};
    json_t *saved, *config = json_loads(TOY, 0, NULL);
    assert_int_equal(commands.count, 2);
    search_commands_free(&commands);
    char *text = search_snapshot(s);
    search_free(s);
    saved = json_loads(text, 0, NULL);
    free(text);
    for (int i = 0; i < 2; i++) {
        workers[i] =
            (struct toy_worker){.trial = i + 1, .theta = {0.9, 0.9}, .h = {i == 0, i == 1}};
        json_t *member = json_array_get(jget(jget(saved, "method"), "members"), (size_t)i);
        json_object_set_new(member, "hparams",
                            json_pack("{s:f, s:f}", "h0", workers[i].h[0], "h1", workers[i].h[1]));
    }
    text = json_dumps(saved, JSON_REAL_PRECISION(17));
    assert_int_equal(search_restore(config, seed, text, &restored, &e), 0);
    free(text);
    json_decref(saved);
    json_decref(config);
    return restored;
}

// The two workers of the example are mirror images, and only unequal metrics have a worst, so the
// reports differ a little. A worker that is stopped goes on as a copy of the other. Returns whether
// it was replaced.
static bool toy_report(struct search *s, struct toy_worker *w, const struct toy_worker *other,
                       bool *over)
{
    struct search_commands commands =
        tell(s, w->trial,
             (struct search_event){.kind = SEARCH_VALIDATED,
                                   .metric = toy_quality(w) - 1e-9 * (double)w->trial,
                                   .time = w->time});
    bool stopped = commands.count == 1, copied = false;
    search_commands_free(&commands);
    if (!stopped)
        return false;
    commands = tell(s, w->trial, (struct search_event){.kind = SEARCH_TRIAL_ENDED});
    for (size_t i = 0; i < commands.count; i++) {
        const struct search_command *c = &commands.items[i];
        *over |= c->kind == SEARCH_SHUTDOWN;
        if (c->kind != SEARCH_CREATE)
            continue;
        copied = true;
        assert_int_equal(strtoll(c->source, NULL, 10), other->trial);
        memcpy(w->theta, other->theta, sizeof w->theta);
        w->time = other->time;
        w->trial = number_of(c);
        w->h[0] = jget_double(c->hparams, "h0", -1);
        w->h[1] = jget_double(c->hparams, "h1", -1);
        assert_true(w->h[0] >= 0 && w->h[0] <= 1 && w->h[1] >= 0 && w->h[1] <= 1);
    }
    search_commands_free(&commands);
    if (!copied)
        w->trial = 0;
    return copied;
}

static void test_pbt_toy(void **state)
{
    (void)state;
    for (int64_t seed = 0; seed < 20; seed++) {
        struct toy_worker workers[2], alone[2];
        struct search *s = toy_begin(seed, workers);
        bool over = false;
        int copies = 0;
        memcpy(alone, workers, sizeof alone);
        for (int step = 0; step < 400 && !over; step++)
            for (int i = 0; i < 2; i++) {
                toy_train(&alone[i]);
                if (!workers[i].trial)
                    continue;
                toy_train(&workers[i]);
                copies += toy_report(s, &workers[i], &workers[1 - i], &over);
            }
        assert_true(over);
        assert_true(copies > 5);
        assert_true(fabs(toy_quality(&alone[0]) - 0.39) < 0.01); // grid search
        assert_true(toy_quality(&workers[0]) > 1.1 && toy_quality(&workers[1]) > 1.1);
        search_free(s);
    }
}

// --- TPE -----------------------------------------------------------------------------------------

#define TPE                                                                                        \
    "{\"searcher\":{\"name\":\"tpe\",\"metric\":\"loss\",\"max_trials\":40,"                       \
    "\"max_concurrent_trials\":2,\"startup_trials\":6,\"candidates\":8,\"gamma\":0.2},"            \
    "\"hyperparameters\":{"                                                                        \
    "\"x\":{\"type\":\"double\",\"minval\":-5,\"maxval\":10},"                                     \
    "\"lr\":{\"type\":\"log\",\"base\":10,\"minval\":-4,\"maxval\":-1},"                           \
    "\"fixed\":{\"type\":\"const\",\"val\":1},"                                                    \
    "\"net\":{\"layers\":{\"type\":\"int\",\"minval\":1,\"maxval\":8},"                            \
    "\"act\":{\"type\":\"categorical\",\"vals\":[0,1,2]}}}}"

struct tpe_point {
    double x, lr;
    int layers, act;
};

// Printed by tests/bench/search/tpe_reference.py, which shares no code with the searcher.
static const struct tpe_point tpe_points[] = {
    {2.7374879352771746, 0.0023190621197633041, 4, 1},
    {7.0970738162075495, 0.021158282122329411, 1, 2},
    {8.1270715528691753, 0.00058817827033693683, 8, 1},
    {4.8664936373686452, 0.018235177950201277, 4, 1},
    {3.3421997090543396, 0.0095899984596729531, 2, 1},
    {3.3228716783648515, 0.00099500023349889232, 8, 0},
    {-0.23061553956182035, 0.00024910430397444283, 5, 2},
    {-2.4862594076655578, 0.0047742382527816655, 1, 1},
    {2.4292298461739783, 0.093041657752237189, 3, 1},
    {0.29684985674630626, 0.0064107976278045811, 6, 1},
    {-0.33787795103343754, 0.0023227911556645275, 3, 1},
    {5.6595881834900892, 0.024419423491093523, 2, 0},
    {1.1792960403106243, 0.0043825417891664459, 7, 1},
    {-2.1960168863732465, 0.0053674461404049738, 4, 1},
    {2.800799744453121, 0.00085326064361328463, 6, 1},
    {-4.6592736001964878, 0.0018119528356920938, 6, 1},
    {1.2601691273855598, 0.0001217714250359863, 7, 1},
    {3.4927293206348109, 0.0095037570530156126, 5, 1},
    {5.0188025683299724, 0.00043529155570993144, 6, 1},
    {2.3849556019585609, 0.0013643947680151052, 5, 1},
    {4.2654792844487979, 0.0033509541548669142, 7, 1},
    {6.5880812239524085, 0.0011518446872092443, 5, 1},
    {3.4555513256292398, 0.0024753197916488603, 5, 1},
    {2.106929423492625, 0.0008119826254362727, 7, 1},
    {2.0854767671468415, 0.0010483067612493116, 4, 1},
    {3.6753143340903955, 0.0019904148074461193, 5, 1},
    {2.0337893532480882, 0.0017803850090008669, 4, 1},
    {3.8715477399581832, 0.0017180179099888033, 5, 1},
    {0.99429316139751989, 0.0028961580348121608, 5, 1},
    {5.0682082405659319, 0.0018786791575699019, 5, 1},
    {3.4815135323951409, 0.0016126860888848826, 5, 1},
    {4.4510669028337508, 0.0031664601628859134, 5, 0},
    {3.8739167087528581, 0.0019687576799439221, 5, 1},
    {3.1506569707243726, 0.010778956144941133, 4, 1},
    {2.6694078072261034, 0.0012718697448117567, 5, 1},
    {5.7050965912100722, 0.0013318996633701918, 5, 2},
    {3.9079917628067116, 0.0014535560403259823, 6, 1},
    {3.9727722467820712, 0.00232145661176591, 5, 1},
    {3.2091827221363789, 0.0021125921720083875, 4, 1},
    {3.9580835597237138, 0.0006699967148921565, 5, 1},
};

enum { TPE_POINTS = sizeof tpe_points / sizeof *tpe_points };

static double tpe_loss(const struct tpe_point *p)
{
    static const double of_act[] = {0.5, 0, 1};
    double exponent = log10(p->lr);
    return 0.1 * (p->x - 3) * (p->x - 3) + (exponent + 2.5) * (exponent + 2.5) +
           0.2 * abs(p->layers - 5) + of_act[p->act];
}

static bool is_near(double found, double wanted)
{
    return fabs(found - wanted) <= 1e-9 * fabs(wanted);
}

static void tpe_expect(const struct search_command *c)
{
    int64_t number = number_of(c);
    assert_in_range(number, 1, TPE_POINTS);
    const struct tpe_point *p = &tpe_points[number - 1];
    const json_t *net = jget(c->hparams, "net");
    assert_true(is_near(jget_double(c->hparams, "x", NAN), p->x));
    assert_true(is_near(jget_double(c->hparams, "lr", NAN), p->lr));
    assert_int_equal(jget_int(net, "layers", -1), p->layers);
    assert_int_equal(jget_int(net, "act", -1), p->act);
    assert_int_equal(jget_int(c->hparams, "fixed", -1), 1);
}

static void test_tpe_reference(void **state)
{
    (void)state;
    struct search *s = search_of(TPE, 7);
    struct search_commands commands = tell(s, 0, (struct search_event){.kind = SEARCH_BEGIN});
    int64_t created = 0;
    for (int64_t ended = 0; ended <= TPE_POINTS; ended++) {
        for (size_t i = 0; i < commands.count; i++) {
            if (commands.items[i].kind == SEARCH_SHUTDOWN)
                continue;
            tpe_expect(&commands.items[i]);
            created++;
        }
        search_commands_free(&commands);
        if (ended < TPE_POINTS)
            commands = tell(s, ended + 1,
                            (struct search_event){.kind = SEARCH_TRIAL_ENDED,
                                                  .best = tpe_loss(&tpe_points[ended])});
    }
    assert_int_equal(created, TPE_POINTS);
    search_free(s);
}

// With `dimensions` hyperparameters that vary, and one that does not.
static int tpe_open(int dimensions, int candidates, struct error *e)
{
    struct search *s = NULL;
    json_t *config =
        json_pack("{s:{s:s, s:s, s:i, s:i}, s:{s:i}}", "searcher", "name", "tpe", "metric", "m",
                  "max_trials", 5, "candidates", candidates, "hyperparameters", "constant", 1);
    assert_non_null(config);
    for (int i = 0; i < dimensions; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        json_object_set_new(
            json_object_get(config, "hyperparameters"), name,
            json_pack("{s:s, s:i, s:i}", "type", "double", "minval", 0, "maxval", 1));
    }
    int err = search_new(config, 1, &s, e);
    search_free(s);
    json_decref(config);
    return err;
}

// The draw of a trial must not hold up the master.
static void test_tpe_too_large(void **state)
{
    (void)state;
    struct error e = {0};
    assert_int_equal(tpe_open(10, 1000, &e), 0);
    assert_int_equal(tpe_open(11, 1000, &e), ERR_TOO_LARGE);
    assert_non_null(strstr(e.text, "searcher.candidates: 1000 candidates for each of 11"));
    assert_int_equal(tpe_open(416, 24, &e), 0);
    assert_int_equal(tpe_open(417, 24, &e), ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hyperband_table), cmocka_unit_test(test_hyperband_order),
        cmocka_unit_test(test_hyperband_ends),  cmocka_unit_test(test_hyperband_too_large),
        cmocka_unit_test(test_pbt_toy),         cmocka_unit_test(test_tpe_reference),
        cmocka_unit_test(test_tpe_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
