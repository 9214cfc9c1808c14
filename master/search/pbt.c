// Population based training (Jaderberg et al., 2017), asynchronous. At the end of each round a
// member compares itself with the others. One of the worst is stopped, and its place is taken by a
// copy of one of the best: the copy starts from that member's newest checkpoint with perturbed
// hyperparameters.
//
// Members are compared after the same number of rounds, so a member that started late is not worse
// for that.
#include "master/search/pbt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "master/search/method.h"

// The limit stops a program that rejects all hyperparameters.
enum { REFUSED_MAX = 100 };

// --- configuration -------------------------------------------------------------------------------

static int check_bounds(const struct pbt_search *p, struct error *e)
{
    if (p->size < 1 || p->size > LIMIT_PBT_MEMBERS || p->num_rounds < 1 ||
        p->num_rounds > LIMIT_PBT_ROUNDS || !(p->length > 0) || !(p->truncate_fraction >= 0) ||
        !(p->truncate_fraction <= 0.5) || !(p->resample_probability >= 0) ||
        !(p->resample_probability <= 1) || !(p->perturb_factor >= 0) || !(p->perturb_factor <= 1))
        return error_set(e, ERR_INVALID,
                         "searcher: population_size, num_rounds, length_per_round, "
                         "replace_function or explore_function is out of its bounds");
    if (p->size * p->num_rounds > LIMIT_PBT_SCORES)
        return error_set(e, ERR_TOO_LARGE,
                         "searcher: population_size times num_rounds is %" PRId64
                         ", more than %d; use fewer and longer rounds",
                         p->size * p->num_rounds, LIMIT_PBT_SCORES);
    return 0;
}

static int pbt_set_up(struct search *s, const json_t *config, struct error *e)
{
    struct pbt_search *p = &s->of.pbt;
    const json_t *searcher = jget(config, "searcher");
    const json_t *replace = jget(searcher, "replace_function");
    const json_t *explore = jget(searcher, "explore_function");
    int64_t concurrent = jget_int(searcher, "max_concurrent_trials", 0);
    p->size = jget_int(searcher, "population_size", 1);
    p->num_rounds = jget_int(searcher, "num_rounds", 1);
    p->length = search_amount(jget(searcher, "length_per_round"));
    p->truncate_fraction = jget_double(replace, "truncate_fraction", 0.2);
    p->resample_probability = jget_double(explore, "resample_probability", 0.25);
    p->perturb_factor = jget_double(explore, "perturb_factor", 0.2);
    p->smaller_is_better = jget_bool(searcher, "smaller_is_better", true);
    int err = check_bounds(p, e);
    if (err)
        return err;
    p->concurrent = concurrent > 0 && concurrent < p->size ? concurrent : p->size;
    p->members = xcalloc((size_t)p->size, sizeof *p->members);
    for (int64_t i = 0; i < p->size; i++)
        p->members[i].scores = xcalloc((size_t)p->num_rounds, sizeof *p->members->scores);
    return 0;
}

static void pbt_free(struct search *s)
{
    struct pbt_search *p = &s->of.pbt;
    for (int64_t i = 0; p->members && i < p->size; i++) {
        free(p->members[i].scores);
        json_decref(p->members[i].hparams);
    }
    free(p->members);
}

// --- comparison ----------------------------------------------------------------------------------

// Compares a and b after the last round that both have finished. A copy that is ahead of its source
// has the same score there, and neither beats the other.
static bool beats(const struct pbt_member *a, const struct pbt_member *b)
{
    int64_t common = a->rounds < b->rounds ? a->rounds : b->rounds;
    return a->scores[common - 1] < b->scores[common - 1];
}

static bool has_score(const struct pbt_member *m)
{
    return m->number && m->rounds > 0;
}

// Returns how many members with a score are better than m. *of: how many members have a score.
static int64_t rank_of(const struct pbt_search *p, const struct pbt_member *m, int64_t *of)
{
    int64_t better = 0;
    *of = 0;
    for (int64_t i = 0; i < p->size; i++) {
        const struct pbt_member *other = &p->members[i];
        if (!has_score(other))
            continue;
        ++*of;
        better += other != m && beats(other, m);
    }
    return better;
}

// Returns how many of `count` members are among the best or the worst. Where the fraction is less
// than one member of the population, it counts as one: otherwise no member would ever be replaced.
static int64_t truncated(const struct pbt_search *p, int64_t count)
{
    double fraction = p->truncate_fraction, one = 1 / (double)p->size;
    if (fraction > 0 && fraction < one && p->size > 1)
        fraction = one;
    return (int64_t)floor(fraction * (double)count + 1e-9);
}

static bool is_among_worst(const struct pbt_search *p, const struct pbt_member *m)
{
    int64_t count, rank = rank_of(p, m, &count);
    return !isfinite(m->scores[m->rounds - 1]) || rank >= count - truncated(p, count);
}

// A copy of a finished member would have nothing to train.
static bool can_be_copied(const struct pbt_search *p, const struct pbt_member *m)
{
    return has_score(m) && isfinite(m->scores[m->rounds - 1]) && m->rounds < p->num_rounds &&
           m->state != PBT_REPLACED && m->state != PBT_WAITING;
}

static int by_rank(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

static bool has_source(const struct pbt_search *p, const struct pbt_member *but)
{
    for (int64_t i = 0; i < p->size; i++)
        if (&p->members[i] != but && can_be_copied(p, &p->members[i]))
            return true;
    return false;
}

// The ranks of all members that have a score. Every member is compared with every other, so an
// event does this once at most. Heap.
static int64_t *rank_all(const struct pbt_search *p)
{
    int64_t *ranks = xcalloc((size_t)p->size, sizeof *ranks), of;
    for (int64_t i = 0; i < p->size; i++)
        if (has_score(&p->members[i]))
            ranks[i] = rank_of(p, &p->members[i], &of);
    return ranks;
}

// One of the best members, at random; NULL: none can be copied.
static const struct pbt_member *choose_source(const struct pbt_search *p, const int64_t *ranks,
                                              const struct pbt_member *but, struct rng *rng)
{
    int64_t(*ranked)[2] = xcalloc((size_t)p->size, sizeof *ranked), count = 0;
    for (int64_t i = 0; i < p->size; i++)
        if (&p->members[i] != but && can_be_copied(p, &p->members[i])) {
            ranked[count][0] = ranks[i];
            ranked[count++][1] = i;
        }
    if (count)
        qsort(ranked, (size_t)count, sizeof *ranked, by_rank);
    int64_t best = truncated(p, p->size);
    best = best < 1 ? 1 : best < count ? best : count;
    const struct pbt_member *chosen =
        count ? &p->members[ranked[rng_below(rng, (uint32_t)best)][1]] : NULL;
    free(ranked);
    return chosen;
}

// --- hyperparameters -----------------------------------------------------------------------------

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

struct exploration {
    const struct pbt_search *pbt;
    struct rng *rng;
};

// A number becomes larger or smaller by perturb_factor, within its range; an integer changes by at
// least 1. A category changes only when it is drawn anew.
static json_t *explore(const json_t *leaf, const json_t *old, void *ctx)
{
    const struct exploration *x = ctx;
    const char *type = jget_string(leaf, "type", "const");
    double low = jget_double(leaf, "minval", 0), high = jget_double(leaf, "maxval", 0);
    double base = jget_double(leaf, "base", 10), value = json_number_value(old);
    if (!strcmp(type, "const") || !old)
        return search_leaf_value(leaf, 0);
    if (rng_double(x->rng) < x->pbt->resample_probability)
        return search_draw_leaf(leaf, x->rng);
    if (!strcmp(type, "categorical"))
        return json_deep_copy(old);
    bool up = rng_double(x->rng) < 0.5;
    value *= up ? 1 + x->pbt->perturb_factor : 1 - x->pbt->perturb_factor;
    if (!strcmp(type, "int"))
        return json_integer((int64_t)clamp(up ? ceil(value) : floor(value), low, high));
    if (!strcmp(type, "log"))
        return json_real(clamp(value, pow(base, low), pow(base, high)));
    return json_real(clamp(value, low, high));
}

// --- trials --------------------------------------------------------------------------------------

static struct pbt_member *member_of(struct pbt_search *p, const char *request_id)
{
    int64_t number = strtoll(request_id, NULL, 10);
    for (int64_t i = 0; i < p->size; i++)
        if (p->members[i].number == number &&
            (p->members[i].state == PBT_RUNNING || p->members[i].state == PBT_REPLACED ||
             p->members[i].state == PBT_STOPPING))
            return &p->members[i];
    return NULL;
}

// Takes over the training of the source: its scores, and its hyperparameters perturbed.
static void member_copy(struct search *s, struct pbt_member *m, const struct pbt_member *source)
{
    struct exploration x = {&s->of.pbt, &s->rng};
    json_t *hparams = search_make_point(s->space, source->hparams, explore, &x);
    json_decref(m->hparams);
    m->hparams = hparams;
    m->rounds = source->rounds;
    memcpy(m->scores, source->scores, (size_t)m->rounds * sizeof *m->scores);
}

// *ranks: those at the start of this event; NULL: not known yet. A copy has the rank of its source.
static void trial_create(struct search *s, struct pbt_member *m, int64_t **ranks,
                         struct search_commands *out)
{
    struct pbt_search *p = &s->of.pbt;
    if (m->copies && !*ranks)
        *ranks = rank_all(p);
    const struct pbt_member *source = m->copies ? choose_source(p, *ranks, m, &s->rng) : NULL;
    struct search_command *create = search_command_add(out, SEARCH_CREATE);
    if (source) {
        member_copy(s, m, source);
        create->depends = true;
        (*ranks)[m - p->members] = (*ranks)[source - p->members];
        snprintf(create->source, sizeof create->source, "%" PRId64, source->number);
    } else {
        json_decref(m->hparams);
        m->hparams = search_draw(s->space, &s->rng);
        m->rounds = 0;
    }
    create->hparams = json_incref(m->hparams);
    create->seed = (int64_t)(rng_u32(&s->rng) >> 1);
    m->number = ++p->numbered;
    m->state = PBT_RUNNING;
    snprintf(create->request_id, sizeof create->request_id, "%" PRId64, m->number);
}

static void trial_stop(struct pbt_member *m, enum pbt_state state, struct search_commands *out)
{
    struct search_command *stop = search_command_add(out, SEARCH_STOP);
    snprintf(stop->request_id, sizeof stop->request_id, "%" PRId64, m->number);
    m->state = state;
}

static void search_end_with(struct pbt_search *p, enum search_end outcome,
                            struct search_commands *out)
{
    p->over = true;
    search_command_add(out, SEARCH_SHUTDOWN)->outcome = outcome;
}

// Starts as many trials as are allowed, and ends the search when all members are done.
static void start_trials(struct search *s, struct search_commands *out)
{
    struct pbt_search *p = &s->of.pbt;
    int64_t running = 0, done = 0, *ranks = NULL;
    for (int64_t i = 0; i < p->size; i++) {
        done += p->members[i].state == PBT_DONE;
        running += p->members[i].state != PBT_DONE && p->members[i].state != PBT_WAITING;
    }
    for (int64_t i = 0; i < p->size && running < p->concurrent; i++)
        if (p->members[i].state == PBT_WAITING) {
            trial_create(s, &p->members[i], &ranks, out);
            running++;
        }
    free(ranks);
    if (done == p->size)
        search_end_with(p,
                        p->completed ? SEARCH_END_COMPLETED
                        : p->failed  ? SEARCH_END_ERROR
                                     : SEARCH_END_CANCELED,
                        out);
}

// --- events --------------------------------------------------------------------------------------

// A report may finish several rounds.
static void member_finish_rounds(struct search *s, struct pbt_member *m,
                                 const struct search_event *event, struct search_commands *out)
{
    struct pbt_search *p = &s->of.pbt;
    double reached = floor(event->time / p->length + 1e-9);
    int64_t rounds = reached >= (double)p->num_rounds ? p->num_rounds
                     : reached > 0                    ? (int64_t)reached
                                                      : 0;
    if (m->state != PBT_RUNNING || rounds <= m->rounds)
        return;
    double score = !isfinite(event->metric) ? INFINITY
                   : p->smaller_is_better   ? event->metric
                                            : -event->metric;
    m->spent += rounds - m->rounds;
    while (m->rounds < rounds)
        m->scores[m->rounds++] = score;
    s->changed = true;
    if (m->rounds >= p->num_rounds || m->spent >= p->num_rounds)
        trial_stop(m, PBT_STOPPING, out);
    else if (is_among_worst(p, m))
        trial_stop(m, PBT_REPLACED, out);
}

// A failed member loses a round, and a copy of a better one takes its place.
static enum pbt_state member_after(struct search *s, struct pbt_member *m, enum search_end how)
{
    struct pbt_search *p = &s->of.pbt;
    if (how == SEARCH_END_INVALID_HP)
        return PBT_WAITING;
    if (how == SEARCH_END_CANCELED || m->state == PBT_STOPPING)
        return PBT_DONE;
    if (m->state == PBT_RUNNING && how == SEARCH_END_COMPLETED)
        return PBT_DONE;
    m->spent += m->state == PBT_RUNNING;
    m->copies = true;
    bool goes_on = m->spent < p->num_rounds && (m->state == PBT_REPLACED || has_source(p, m));
    return goes_on ? PBT_WAITING : PBT_DONE;
}

static void trial_ended(struct search *s, struct pbt_member *m, enum search_end how,
                        struct search_commands *out)
{
    struct pbt_search *p = &s->of.pbt;
    p->completed += how == SEARCH_END_COMPLETED;
    p->failed += how == SEARCH_END_ERROR || how == SEARCH_END_INVALID_HP;
    p->canceled += how == SEARCH_END_CANCELED;
    p->refused = how == SEARCH_END_INVALID_HP ? p->refused + 1 : 0;
    m->state = member_after(s, m, how);
    if (p->refused < REFUSED_MAX)
        start_trials(s, out);
    else
        search_end_with(p, SEARCH_END_ERROR, out);
}

static bool pbt_covers(const struct search *s, size_t trials)
{
    return s->of.pbt.numbered >= (int64_t)trials;
}

// Whether the newest trial of a member has trained as far as the search wanted.
static bool member_is_through(const struct pbt_member *m, const struct search_event *event)
{
    return m->state == PBT_WAITING || m->state == PBT_REPLACED || m->state == PBT_STOPPING ||
           m->number < 1 || (size_t)m->number > event->trials || event->completed[m->number - 1];
}

// The trials that were running when the experiment ended run again, and so do those that failed for
// good or were canceled. Those that completed since, or were stopped by the search, end now.
static void search_continue(struct search *s, const struct search_event *event,
                            struct search_commands *out)
{
    struct pbt_search *p = &s->of.pbt;
    p->over = false;
    p->refused = 0;
    p->failed = p->canceled = 0;
    if (!pbt_covers(s, event->trials))
        return;
    for (int64_t i = 0; i < p->size; i++) {
        struct pbt_member *m = &p->members[i];
        if (member_is_through(m, event))
            continue;
        m->state = PBT_RUNNING;
        snprintf(search_command_add(out, SEARCH_RESTART)->request_id, SEARCH_REQUEST_ID, "%" PRId64,
                 m->number);
    }
    for (int64_t i = 0; i < p->size; i++) {
        struct pbt_member *m = &p->members[i];
        bool ended = m->state == PBT_REPLACED || m->state == PBT_STOPPING ||
                     (m->state == PBT_RUNNING && member_is_through(m, event));
        p->completed += ended;
        if (ended)
            m->state = member_after(s, m, SEARCH_END_COMPLETED);
    }
    start_trials(s, out);
}

static void set_progress(struct search *s)
{
    const struct pbt_search *p = &s->of.pbt;
    int64_t done = 0;
    for (int64_t i = 0; i < p->size; i++)
        done += p->members[i].state == PBT_DONE || p->members[i].spent > p->num_rounds
                    ? p->num_rounds
                    : p->members[i].spent;
    s->progress = p->over ? 1 : (double)done / (double)(p->size * p->num_rounds);
}

static void pbt_tell(struct search *s, const struct search_event *event,
                     struct search_commands *out)
{
    struct pbt_search *p = &s->of.pbt;
    bool of_trial = event->kind != SEARCH_BEGIN && event->kind != SEARCH_CONTINUE;
    struct pbt_member *m = of_trial ? member_of(p, event->request_id) : NULL;
    if ((p->over && event->kind != SEARCH_CONTINUE) || (of_trial && !m))
        return;
    switch (event->kind) {
    case SEARCH_BEGIN:
        start_trials(s, out);
        s->changed = true;
        break;
    case SEARCH_VALIDATED:
        member_finish_rounds(s, m, event, out);
        break;
    case SEARCH_TRIAL_ENDED:
        trial_ended(s, m, event->end, out);
        s->changed = true;
        break;
    case SEARCH_CONTINUE:
        search_continue(s, event, out);
        s->changed = true;
        break;
    case SEARCH_PROGRESS:
        return;
    }
    set_progress(s);
}

// --- saved state ---------------------------------------------------------------------------------

static json_t *save_member(const struct pbt_member *m)
{
    json_t *scores = json_array();
    for (int64_t i = 0; i < m->rounds; i++)
        must(!json_array_append_new(scores, isfinite(m->scores[i]) ? json_real(m->scores[i])
                                                                   : json_null()));
    json_t *saved =
        json_pack("{s:i, s:I, s:b, s:I, s:o, s:O?}", "state", (int)m->state, "trial", m->number,
                  "copies", m->copies, "spent", m->spent, "scores", scores, "hparams", m->hparams);
    must(saved);
    return saved;
}

static json_t *pbt_save(const struct search *s)
{
    const struct pbt_search *p = &s->of.pbt;
    json_t *members = json_array();
    for (int64_t i = 0; i < p->size; i++)
        must(!json_array_append_new(members, save_member(&p->members[i])));
    json_t *saved = json_pack("{s:o, s:I, s:I, s:I, s:I, s:i, s:b}", "members", members, "numbered",
                              p->numbered, "completed", p->completed, "failed", p->failed,
                              "canceled", p->canceled, "refused", p->refused, "over", p->over);
    must(saved);
    return saved;
}

static void load_member(const struct pbt_search *p, struct pbt_member *m, const json_t *saved)
{
    const json_t *scores = jget(saved, "scores");
    int64_t state = jget_int(saved, "state", PBT_WAITING);
    m->state = state >= PBT_WAITING && state <= PBT_DONE ? (enum pbt_state)state : PBT_WAITING;
    m->number = jget_int(saved, "trial", 0);
    m->copies = jget_bool(saved, "copies", false);
    m->spent = jget_int(saved, "spent", 0);
    m->hparams = json_deep_copy(jget(saved, "hparams"));
    m->rounds = (int64_t)json_array_size(scores);
    m->rounds = m->rounds < p->num_rounds ? m->rounds : p->num_rounds;
    for (int64_t i = 0; i < m->rounds; i++) {
        const json_t *score = json_array_get(scores, (size_t)i);
        m->scores[i] = json_is_number(score) ? json_number_value(score) : INFINITY;
    }
}

static void pbt_load(struct search *s, const json_t *saved)
{
    struct pbt_search *p = &s->of.pbt;
    for (int64_t i = 0; i < p->size; i++)
        load_member(p, &p->members[i], json_array_get(jget(saved, "members"), (size_t)i));
    p->numbered = jget_int(saved, "numbered", 0);
    p->completed = jget_int(saved, "completed", 0);
    p->failed = jget_int(saved, "failed", 0);
    p->canceled = jget_int(saved, "canceled", 0);
    p->refused = (int)jget_int(saved, "refused", 0);
    p->over = jget_bool(saved, "over", false);
    set_progress(s);
}

const struct search_method search_pbt = {.name = "pbt",
                                         .set_up = pbt_set_up,
                                         .handle_event = pbt_tell,
                                         .save = pbt_save,
                                         .load = pbt_load,
                                         .covers = pbt_covers,
                                         .free = pbt_free};
