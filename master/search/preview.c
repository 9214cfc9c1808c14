// Simulates a search. The metric of a trial is its random quality plus a learning curve that all
// trials share, so the same trial leads at every rung. A trial validates at each rung.
#include "master/search/preview.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "master/search/method.h"

enum {
    SIMULATIONS = 15,
    SIMULATIONS_LARGE = 3, // of a search with more than
    LARGE = 200,           // trials
    SIMULATIONS_TPE = 2,   // the fewest that tell which trials are certain
    EVENTS_MAX = 100000,   // of one simulation: a limit for a search that does not end
    TPE_DRAWS = 200000,    // candidates of all trials and dimensions; drawing them takes seconds
};

struct simulated_trial {
    struct preview_trial shown;
    double began, from;   // the clock at its start; the training time that it starts with
    double quality, best; // best: of its metrics; NaN: none
    size_t mark;          // its next one
    bool stopped, ended;
};

struct simulation {
    struct search *search;
    struct rng rng;
    double *marks; // training times of validations, lowest first; the last is the length
    size_t mark_count, most_trials;
    struct simulated_trial *trials;
    size_t count, cap, running, most_at_once;
    double clock;
    bool over, truncated;
};

// The training time between two comparisons of population based training; 0: another method.
static double round_of(const json_t *config)
{
    return search_amount(jget_path(config, "searcher.length_per_round"));
}

// The length of a complete training; 0: the configuration does not say it.
static double length_of(const json_t *config)
{
    const json_t *searcher = jget(config, "searcher"), *steps = jget_path(config, "trainer.steps");
    if (round_of(config) > 0)
        return round_of(config) * jget_double(searcher, "num_rounds", 1);
    if (jget(searcher, "max_time") || jget(searcher, "max_length"))
        return search_whole_time(searcher);
    return json_is_integer(steps) ? (double)json_integer_value(steps) : 0;
}

// --- one simulation ------------------------------------------------------------------------------

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The rungs of all brackets, the ends of rounds, and the end of the training.
static void set_marks(struct simulation *m, double length, double round)
{
    json_t *brackets = search_rungs(m->search), *bracket, *rung;
    size_t i, r, kept = 0, rounds = round > 0 ? (size_t)(length / round) : 0, most = 1 + rounds;
    double top = 0;
    json_array_foreach(brackets, i, bracket) most += json_array_size(jget(bracket, "rungs"));
    m->marks = xcalloc(most, sizeof *m->marks);
    json_array_foreach(brackets, i, bracket)
    {
        json_array_foreach(jget(bracket, "rungs"), r, rung)
        {
            m->marks[m->mark_count] = jget_double(rung, "time", 0);
            top = m->marks[m->mark_count] > top ? m->marks[m->mark_count] : top;
            m->mark_count++;
        }
    }
    for (i = 1; i <= rounds; i++)
        m->marks[m->mark_count++] = (double)i * round;
    m->marks[m->mark_count++] = length > top ? length : top > 0 ? top : 1;
    qsort(m->marks, m->mark_count, sizeof *m->marks, compare_times);
    for (size_t k = 1; k < m->mark_count; k++)
        if (m->marks[k] > m->marks[kept])
            m->marks[++kept] = m->marks[k];
    m->mark_count = kept + 1;
    json_decref(brackets);
}

static struct simulated_trial *trial_find(struct simulation *m, const char *request_id)
{
    int64_t number = strtoll(request_id, NULL, 10);
    for (size_t i = m->count; i-- > 0;)
        if (m->trials[i].shown.number == number)
            return &m->trials[i];
    return NULL;
}

// The trial starts from the checkpoint of the last validation of another one, and resembles it.
static void set_source(struct simulation *m, struct simulated_trial *t, const char *request_id)
{
    const struct simulated_trial *source = trial_find(m, request_id);
    if (!source)
        return;
    t->shown.source = source->shown.number;
    t->quality = source->quality + (t->quality - 0.5) / 10;
    t->mark = source->mark;
    t->from = source->mark ? m->marks[source->mark - 1] : 0;
}

static void running_add(struct simulation *m)
{
    m->running++;
    m->most_at_once = m->running > m->most_at_once ? m->running : m->most_at_once;
}

// It trains on from the validation at which it was stopped.
static void trial_resume(struct simulation *m, struct simulated_trial *t)
{
    t->stopped = t->ended = false;
    t->from = t->mark ? m->marks[t->mark - 1] : 0;
    t->mark -= t->mark == m->mark_count; // it validates at the end again
    t->began = m->clock;
    running_add(m);
}

static void trial_begin(struct simulation *m, const struct search_command *command)
{
    if (m->count == m->most_trials) {
        m->truncated = true;
        return;
    }
    if (m->count == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->trials = xrealloc(m->trials, m->cap * sizeof *m->trials);
    }
    struct simulated_trial trial = {.shown = {.number = strtoll(command->request_id, NULL, 10),
                                              .hparams = json_incref(command->hparams),
                                              .seed = command->seed,
                                              .certain = !command->depends},
                                    .began = m->clock,
                                    .quality = rng_double(&m->rng),
                                    .best = NAN};
    set_source(m, &trial, command->source);
    m->trials[m->count++] = trial;
    running_add(m);
}

static void obey(struct simulation *m, struct search_commands *commands)
{
    for (size_t i = 0; i < commands->count; i++) {
        const struct search_command *command = &commands->items[i];
        struct simulated_trial *t = NULL;
        switch (command->kind) {
        case SEARCH_CREATE:
            trial_begin(m, command);
            break;
        case SEARCH_STOP:
            t = trial_find(m, command->request_id);
            if (t)
                t->stopped = true;
            break;
        case SEARCH_RESTART:
            t = trial_find(m, command->request_id);
            if (t)
                trial_resume(m, t);
            break;
        case SEARCH_SHUTDOWN:
            m->over = true;
            break;
        }
    }
    search_commands_free(commands);
}

static void tell(struct simulation *m, const struct simulated_trial *t, struct search_event event)
{
    struct search_commands commands;
    char id[SEARCH_REQUEST_ID] = "";
    if (t)
        snprintf(id, sizeof id, "%" PRId64, t->shown.number);
    event.request_id = id;
    search_handle_event(m->search, &event, &commands);
    obey(m, &commands);
}

static void trial_end(struct simulation *m, struct simulated_trial *t)
{
    t->ended = true;
    t->shown.time += m->clock - t->began;
    m->running--;
    tell(m, t,
         (struct search_event){
             .kind = SEARCH_TRIAL_ENDED, .end = SEARCH_END_COMPLETED, .best = t->best});
}

static double next_validation(const struct simulation *m, const struct simulated_trial *t)
{
    return t->began + m->marks[t->mark] - t->from;
}

// Returns the trial that stops now, or the one that validates next; NULL: none runs.
static struct simulated_trial *trial_next(struct simulation *m)
{
    struct simulated_trial *next = NULL;
    for (size_t i = 0; i < m->count; i++) {
        struct simulated_trial *t = &m->trials[i];
        if (t->stopped && !t->ended)
            return t;
        if (!t->ended && (!next || next_validation(m, t) < next_validation(m, next)))
            next = t;
    }
    return next;
}

static void trial_validate(struct simulation *m, struct simulated_trial *t)
{
    double time = m->marks[t->mark], metric = t->quality + 1 / (1 + time);
    m->clock = next_validation(m, t);
    t->best = isnan(t->best) || metric < t->best ? metric : t->best;
    t->mark++;
    t->stopped = t->mark == m->mark_count;
    tell(m, t, (struct search_event){.kind = SEARCH_VALIDATED, .metric = metric, .time = time});
}

static void simulate(struct simulation *m, double length, double round)
{
    set_marks(m, length, round);
    tell(m, NULL, (struct search_event){.kind = SEARCH_BEGIN});
    for (int i = 0; i < EVENTS_MAX && !m->over && !m->truncated; i++) {
        struct simulated_trial *t = trial_next(m);
        if (!t)
            break;
        if (t->stopped)
            trial_end(m, t);
        else
            trial_validate(m, t);
    }
}

static void simulation_free(struct simulation *m)
{
    for (size_t i = 0; i < m->count; i++)
        json_decref(m->trials[i].shown.hparams);
    free(m->trials);
    free(m->marks);
    search_free(m->search);
}

// --- the preview ---------------------------------------------------------------------------------

static double total_time(const struct simulation *m)
{
    double time = 0;
    for (size_t i = 0; i < m->count; i++)
        time += m->trials[i].shown.time;
    return time;
}

static int compare_simulations(const void *a, const void *b)
{
    double x = total_time(a), y = total_time(b);
    return (x > y) - (x < y);
}

static bool is_certain(const struct simulation *all, size_t count, const struct preview_trial *t,
                       size_t at)
{
    for (size_t i = 0; i < count; i++) {
        const struct preview_trial *other = at < all[i].count ? &all[i].trials[at].shown : NULL;
        if (!other || !other->certain || other->number != t->number || other->seed != t->seed ||
            other->source != t->source || !json_equal(other->hparams, t->hparams))
            return false;
    }
    return true;
}

// Copies the median of the simulations, which are sorted by their training time. The trials after
// the first one that depends on results draw from a generator whose state depends on them, too.
static void describe(struct search_preview *out, const struct simulation *all, size_t count)
{
    const struct simulation *m = &all[count / 2];
    out->trials = xcalloc(m->count + 1, sizeof *out->trials);
    out->count = m->count;
    for (size_t i = 0; i < m->count; i++) {
        struct preview_trial *t = &out->trials[i];
        *t = m->trials[i].shown;
        json_incref(t->hparams);
        t->certain = (!i || t[-1].certain) && is_certain(all, count, t, i);
    }
    out->whole = m->over;
    out->most_at_once = m->most_at_once;
    out->time = out->length > 0 ? total_time(m) : 0;
    out->most_time = (double)m->count * out->length;
    out->elapsed = out->length > 0 ? m->clock : 0;
    out->brackets = search_rungs(m->search);
}

static void count_varied(const json_t *leaf, void *ctx)
{
    size_t *count = ctx;
    *count += strcmp(jget_string(leaf, "type", "const"), "const") != 0;
}

// Each trial of tpe costs its candidates in each dimension, so a preview of it may be shorter.
static size_t limit_trials(const json_t *config, bool tpe, size_t most_trials)
{
    size_t varied = 0;
    if (!tpe)
        return most_trials;
    search_visit(jget(config, "hyperparameters"), count_varied, &varied);
    int64_t candidates = jget_int(jget(config, "searcher"), "candidates", 24);
    size_t cost = (varied ? varied : 1) * (size_t)(candidates > 0 ? candidates : 1);
    size_t allowed = cost < TPE_DRAWS ? TPE_DRAWS / cost : 1;
    return allowed < most_trials ? allowed : most_trials;
}

int search_preview(const json_t *config, int64_t seed, size_t most_trials,
                   struct search_preview *out, struct error *e)
{
    struct simulation all[SIMULATIONS] = {0};
    size_t count = 0, wanted = SIMULATIONS;
    int err = 0;
    bool tpe = !strcmp(jget_string(jget(config, "searcher"), "name", ""), "tpe");
    *out = (struct search_preview){.length = length_of(config)};
    while (count < wanted && !err) {
        struct simulation *m = &all[count];
        m->most_trials = limit_trials(config, tpe, most_trials);
        rng_seed(&m->rng, (uint64_t)count, 2);
        err = search_new(config, seed, &m->search, e);
        if (err)
            break;
        simulate(m, out->length, round_of(config));
        count++;
        wanted = tpe ? SIMULATIONS_TPE : m->count > LARGE ? SIMULATIONS_LARGE : SIMULATIONS;
    }
    if (!err) {
        qsort(all, count, sizeof *all, compare_simulations);
        describe(out, all, count);
    }
    for (size_t i = 0; i < count; i++)
        simulation_free(&all[i]);
    return err;
}

void search_preview_free(struct search_preview *preview)
{
    for (size_t i = 0; i < preview->count; i++)
        json_decref(preview->trials[i].hparams);
    free(preview->trials);
    json_decref(preview->brackets);
    *preview = (struct search_preview){0};
}
