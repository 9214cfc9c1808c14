// Searches with many trials: which trial starts, which is stopped, and when the search is over.
//
// A trial that reaches a rung continues only if it is among the best trials that have reached the
// rung so far: one of `divisor`, and always the first (the stopping variant of ASHA: Li et al.,
// MLSys 2020, which pauses no trial). The next trial starts when one has ended.
#include "master/search/brackets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "master/search/method.h"

// The limit stops a program that rejects all hyperparameters.
enum { REFUSED_MAX = 100 };

// --- trials --------------------------------------------------------------------------------------

static struct active_search_trial *runner_of(struct bracket_search *bs, const char *request_id)
{
    int64_t number = strtoll(request_id, NULL, 10);
    for (size_t i = 0; i < bs->runner_count; i++)
        if (bs->runners[i].number == number)
            return &bs->runners[i];
    return NULL;
}

static struct active_search_trial *runner_add(struct bracket_search *bs,
                                              const struct active_search_trial *runner)
{
    if (bs->runner_count == bs->runner_cap) {
        bs->runner_cap = bs->runner_cap ? 2 * bs->runner_cap : 16;
        bs->runners = xrealloc(bs->runners, bs->runner_cap * sizeof *bs->runners);
    }
    bs->brackets[runner->bracket].running++;
    bs->runners[bs->runner_count] = *runner;
    return &bs->runners[bs->runner_count++];
}

static void runner_drop(struct bracket_search *bs, struct active_search_trial *runner)
{
    size_t at = (size_t)(runner - bs->runners);
    bs->brackets[runner->bracket].running--;
    bs->runner_count--;
    memmove(runner, runner + 1, (bs->runner_count - at) * sizeof *runner);
}

// Numbers the next trial and draws its values.
static json_t *draw_next(struct search *s, int64_t *seed)
{
    struct bracket_search *bs = &s->of.bracketed;
    json_t *point =
        bs->grid ? search_grid_point(s->space, bs->numbered) : search_draw(s->space, &s->rng);
    *seed = (int64_t)(rng_u32(&s->rng) >> 1);
    bs->numbered++;
    return point;
}

static struct search_command *trial_start(struct bracket_search *bs, enum search_command_kind kind,
                                          int64_t number, int bracket, struct search_commands *out)
{
    struct search_command *command = search_command_add(out, kind);
    runner_add(bs, &(struct active_search_trial){.number = number, .bracket = bracket});
    bs->brackets[bracket].created++;
    snprintf(command->request_id, sizeof command->request_id, "%" PRId64, number);
    return command;
}

static void trial_create_next(struct search *s, int bracket, struct search_commands *out)
{
    int64_t seed;
    json_t *point = draw_next(s, &seed);
    struct search_command *command =
        trial_start(&s->of.bracketed, SEARCH_CREATE, s->of.bracketed.numbered, bracket, out);
    command->hparams = point;
    command->seed = seed;
}

static void trial_restart_next(struct bracket_search *bs, struct search_commands *out)
{
    trial_start(bs, SEARCH_RESTART, bs->again[0], 0, out);
    memmove(bs->again, bs->again + 1, --bs->again_count * sizeof *bs->again);
}

static void search_end_with(struct bracket_search *bs, enum search_end outcome,
                            struct search_commands *out)
{
    bs->over = true;
    search_command_add(out, SEARCH_SHUTDOWN)->outcome = outcome;
}

// Starts as many trials as are allowed, and ends the search when no trial runs and none is left.
// The search has failed only if no trial completed.
static void start_trials(struct search *s, struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    for (int i = 0; i < bs->bracket_count; i++) {
        struct search_bracket *b = &bs->brackets[i];
        while (!i && bs->again_count && b->running < b->concurrent)
            trial_restart_next(bs, out);
        while (b->created < b->max_trials && b->running < b->concurrent)
            trial_create_next(s, i, out);
    }
    if (bs->runner_count)
        return;
    search_end_with(bs,
                    bs->completed ? SEARCH_END_COMPLETED
                    : bs->failed  ? SEARCH_END_ERROR
                                  : SEARCH_END_CANCELED,
                    out);
}

// --- rungs ---------------------------------------------------------------------------------------

// Returns how many of the trials that reached a rung continue.
static size_t rung_promotions(const struct bracket_search *bs, size_t count)
{
    double kept = floor((double)count / bs->divisor);
    return kept < 1 ? 1 : (size_t)kept;
}

// Inserts the metric of a trial; returns whether the trial continues. Of equal metrics the first is
// better; a metric that is not finite never continues.
static bool enter_rung(const struct bracket_search *bs, struct search_rung *rung, double metric,
                       int64_t trial)
{
    size_t at = rung->count;
    if (rung->count == rung->cap) {
        rung->cap = rung->cap ? 2 * rung->cap : 16;
        rung->entries = xrealloc(rung->entries, rung->cap * sizeof *rung->entries);
    }
    for (; at && metric < rung->entries[at - 1].metric; at--)
        rung->entries[at] = rung->entries[at - 1];
    rung->entries[at] = (struct rung_entry){metric, trial};
    return isfinite(metric) && at < rung_promotions(bs, ++rung->count);
}

static void leave_rungs(struct search_bracket *b, int64_t trial)
{
    for (int r = 0; r < b->rung_count; r++) {
        struct search_rung *rung = &b->rungs[r];
        size_t kept = 0;
        for (size_t i = 0; i < rung->count; i++)
            if (rung->entries[i].trial != trial)
                rung->entries[kept++] = rung->entries[i];
        rung->count = kept;
    }
}

// One report may pass several rungs. The top rung always stops the trial.
static void trial_reach_rungs(struct search *s, struct active_search_trial *runner,
                              const struct search_event *event, struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    struct search_bracket *b = &bs->brackets[runner->bracket];
    double metric = !isfinite(event->metric) ? INFINITY
                    : bs->smaller_is_better  ? event->metric
                                             : -event->metric;
    bool stops = false;
    while (!stops && runner->rung < b->rung_count && event->time >= b->rungs[runner->rung].needs) {
        stops = !enter_rung(bs, &b->rungs[runner->rung++], metric, runner->number) ||
                runner->rung == b->rung_count;
        s->changed = true;
    }
    if (!stops)
        return;
    runner->rung = b->rung_count;
    struct search_command *stop = search_command_add(out, SEARCH_STOP);
    snprintf(stop->request_id, sizeof stop->request_id, "%" PRId64, runner->number);
}

// --- events --------------------------------------------------------------------------------------

static void trial_ended(struct search *s, struct active_search_trial *runner, enum search_end how,
                        struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    struct search_bracket *b = &bs->brackets[runner->bracket];
    bs->completed += how == SEARCH_END_COMPLETED;
    bs->failed += how == SEARCH_END_ERROR || how == SEARCH_END_INVALID_HP;
    bs->canceled += how == SEARCH_END_CANCELED;
    bs->refused = how == SEARCH_END_INVALID_HP ? bs->refused + 1 : 0;
    // At the rungs that it has not passed, a failed trial counts as the worst.
    if (how == SEARCH_END_ERROR && runner->rung < b->rung_count)
        enter_rung(bs, &b->rungs[runner->rung], INFINITY, runner->number);
    if (how == SEARCH_END_INVALID_HP) {
        leave_rungs(b, runner->number);
        b->created -= !bs->grid; // another point replaces it
    }
    runner_drop(bs, runner);
    if (bs->refused < REFUSED_MAX || bs->grid)
        start_trials(s, out);
    else
        search_end_with(bs, SEARCH_END_ERROR, out);
}

// Makes the state in which the completed trials have ended and the others are to run again. All
// values are drawn once more, so that later trials get the values that they would have had.
static void search_continue(struct search *s, const struct search_event *event,
                            struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    bs->again = xcalloc(event->trials + 1, sizeof *bs->again);
    for (size_t i = 0; i < event->trials; i++) {
        int64_t seed;
        json_decref(draw_next(s, &seed));
        bs->completed += event->completed[i];
        bs->brackets->created += event->completed[i];
        if (!event->completed[i])
            bs->again[bs->again_count++] = bs->numbered;
    }
    start_trials(s, out);
}

static void set_progress(struct search *s)
{
    const struct bracket_search *bs = &s->of.bracketed;
    double done = 0, all = 0;
    for (int i = 0; i < bs->bracket_count; i++) {
        all += (double)bs->brackets[i].max_trials;
        done += (double)(bs->brackets[i].created - bs->brackets[i].running);
    }
    for (size_t i = 0; i < bs->runner_count; i++)
        done += bs->runners[i].fraction;
    s->progress = bs->over ? 1 : all > 0 ? done / all : 0;
}

static void bracket_search_tell(struct search *s, const struct search_event *event,
                                struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    bool of_trial = event->kind != SEARCH_BEGIN && event->kind != SEARCH_CONTINUE;
    struct active_search_trial *runner = of_trial ? runner_of(bs, event->request_id) : NULL;
    if (bs->over || (of_trial && !runner))
        return;
    switch (event->kind) {
    case SEARCH_BEGIN:
        start_trials(s, out);
        break;
    case SEARCH_CONTINUE:
        search_continue(s, event, out);
        break;
    case SEARCH_VALIDATED:
        trial_reach_rungs(s, runner, event, out);
        return;
    case SEARCH_PROGRESS:
        runner->fraction = event->fraction;
        set_progress(s);
        return;
    case SEARCH_TRIAL_ENDED:
        trial_ended(s, runner, event->end, out);
        break;
    }
    s->changed = true;
    set_progress(s);
}

// --- saved state ---------------------------------------------------------------------------------

static json_t *save_rung(const struct search_rung *rung)
{
    json_t *marks = json_array();
    for (size_t i = 0; i < rung->count; i++) {
        const struct rung_entry *m = &rung->entries[i];
        json_t *metric = isfinite(m->metric) ? json_real(m->metric) : json_null();
        must(metric && !json_array_append_new(marks, json_pack("[o, I]", metric, m->trial)));
    }
    return marks;
}

static json_t *save_bracket(const struct search_bracket *b)
{
    json_t *rungs = json_array();
    for (int r = 0; r < b->rung_count; r++)
        must(!json_array_append_new(rungs, save_rung(&b->rungs[r])));
    return json_pack("{s:I, s:o}", "created", b->created, "rungs", rungs);
}

static json_t *bracket_search_save(const struct search *s)
{
    const struct bracket_search *bs = &s->of.bracketed;
    json_t *brackets = json_array(), *runners = json_array();
    for (int i = 0; i < bs->bracket_count; i++)
        must(!json_array_append_new(brackets, save_bracket(&bs->brackets[i])));
    for (size_t i = 0; i < bs->runner_count; i++) {
        const struct active_search_trial *r = &bs->runners[i];
        must(!json_array_append_new(runners,
                                    json_pack("[I, i, i]", r->number, r->bracket, r->rung)));
    }
    json_t *saved =
        json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:i, s:b}", "brackets", brackets, "running",
                  runners, "numbered", bs->numbered, "completed", bs->completed, "failed",
                  bs->failed, "canceled", bs->canceled, "refused", bs->refused, "over", bs->over);
    must(saved);
    if (bs->again_count) {
        json_t *again = json_array();
        for (size_t i = 0; i < bs->again_count; i++)
            must(!json_array_append_new(again, json_integer(bs->again[i])));
        must(!json_object_set_new(saved, "again", again));
    }
    return saved;
}

static void load_rung(const struct bracket_search *bs, struct search_rung *rung,
                      const json_t *saved)
{
    size_t i;
    json_t *mark;
    json_array_foreach((json_t *)saved, i, mark)
    {
        const json_t *metric = json_array_get(mark, 0);
        enter_rung(bs, rung, json_is_number(metric) ? json_number_value(metric) : INFINITY,
                   json_integer_value(json_array_get(mark, 1)));
    }
}

static void load_bracket(const struct bracket_search *bs, struct search_bracket *b,
                         const json_t *saved)
{
    b->created = jget_int(saved, "created", 0);
    for (int r = 0; r < b->rung_count; r++)
        load_rung(bs, &b->rungs[r], json_array_get(jget(saved, "rungs"), (size_t)r));
}

static void bracket_search_load(struct search *s, const json_t *saved)
{
    struct bracket_search *bs = &s->of.bracketed;
    size_t i;
    json_t *runner;
    for (int b = 0; b < bs->bracket_count; b++)
        load_bracket(bs, &bs->brackets[b], json_array_get(jget(saved, "brackets"), (size_t)b));
    json_array_foreach(jget(saved, "running"), i, runner)
    {
        int64_t bracket = json_integer_value(json_array_get(runner, 1));
        if (bracket < 0 || bracket >= bs->bracket_count)
            continue;
        runner_add(bs, &(struct active_search_trial){
                           .number = json_integer_value(json_array_get(runner, 0)),
                           .bracket = (int)bracket,
                           .rung = (int)json_integer_value(json_array_get(runner, 2))});
    }
    const json_t *again = jget(saved, "again");
    bs->again_count = json_array_size(again);
    bs->again = xcalloc(bs->again_count + 1, sizeof *bs->again);
    for (i = 0; i < bs->again_count; i++)
        bs->again[i] = json_integer_value(json_array_get(again, i));
    bs->numbered = jget_int(saved, "numbered", 0);
    bs->completed = jget_int(saved, "completed", 0);
    bs->failed = jget_int(saved, "failed", 0);
    bs->canceled = jget_int(saved, "canceled", 0);
    bs->refused = (int)jget_int(saved, "refused", 0);
    bs->over = jget_bool(saved, "over", false);
    set_progress(s);
}

// --- for people ----------------------------------------------------------------------------------

static json_t *show_rung(const struct bracket_search *bs, const struct search_rung *rung, bool top)
{
    json_t *marks = json_array();
    for (size_t i = 0; i < rung->count; i++) {
        const struct rung_entry *m = &rung->entries[i];
        json_t *mark = json_pack("{s:I}", "trial", (json_int_t)m->trial);
        if (isfinite(m->metric))
            json_object_set_new(mark, "metric",
                                json_real(bs->smaller_is_better ? m->metric : -m->metric));
        must(!json_array_append_new(marks, mark));
    }
    size_t kept = top || !rung->count ? 0 : rung_promotions(bs, rung->count);
    return json_pack("{s:f, s:I, s:o}", "time", rung->needs, "goOn", (json_int_t)kept, "marks",
                     marks);
}

static json_t *bracket_search_ladder(const struct search *s)
{
    const struct bracket_search *bs = &s->of.bracketed;
    json_t *brackets = json_array();
    for (int i = 0; i < bs->bracket_count; i++) {
        const struct search_bracket *b = &bs->brackets[i];
        json_t *rungs = json_array();
        for (int r = 0; r < b->rung_count; r++)
            must(
                !json_array_append_new(rungs, show_rung(bs, &b->rungs[r], r + 1 == b->rung_count)));
        if (b->rung_count)
            must(!json_array_append_new(
                brackets, json_pack("{s:I, s:I, s:I, s:o}", "trials", (json_int_t)b->max_trials,
                                    "concurrent", (json_int_t)b->concurrent, "created",
                                    (json_int_t)b->created, "rungs", rungs)));
        else
            json_decref(rungs);
    }
    return brackets;
}

static int bracket_search_set_up(struct search *s, const json_t *config, struct error *e)
{
    return bracket_search_plan(&s->of.bracketed, config, e);
}

static void bracket_search_drop(struct search *s)
{
    bracket_search_free(&s->of.bracketed);
}

#define CROWD(name_, continues_)                                                                   \
    {                                                                                              \
        .name = name_, .continues = continues_, .set_up = bracket_search_set_up,                   \
        .handle_event = bracket_search_tell, .save = bracket_search_save,                          \
        .load = bracket_search_load, .rungs = bracket_search_ladder, .free = bracket_search_drop   \
    }
const struct search_method search_random = CROWD("random", true), search_grid = CROWD("grid", true),
                           search_halving = CROWD("async_halving", false),
                           search_adaptive = CROWD("adaptive_asha", false);
