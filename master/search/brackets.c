// Searches with many trials: which trial starts, which is stopped, and when the search is over.
//
// A trial that reaches a rung continues only if it is among the best trials that have reached the
// rung so far: one of `divisor`, and always the first (the stopping variant of ASHA: Li et al.,
// MLSys 2020, which pauses no trial). The next trial starts when one has ended.
//
// In a synchronous bracket (Hyperband: Li et al., JMLR 2018) every trial stops at its rung. When
// all have stopped, the best of them run again from their checkpoints up to the next rung. Its
// decisions do not depend on the order in which trials arrive.
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
#include "master/search/tpe.h"

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
    json_t *point = bs->grid  ? search_grid_point(s->space, bs->numbered)
                    : bs->tpe ? tpe_draw(bs->tpe, s->space, bs->numbered + 1, &s->rng)
                              : search_draw(s->space, &s->rng);
    *seed = (int64_t)(rng_u32(&s->rng) >> 1);
    bs->numbered++;
    return point;
}

static struct search_command *trial_start(struct bracket_search *bs, enum search_command_kind kind,
                                          const struct active_search_trial *runner,
                                          struct search_commands *out)
{
    struct search_command *command = search_command_add(out, kind);
    runner_add(bs, runner);
    bs->brackets[runner->bracket].created += !runner->rung;
    snprintf(command->request_id, sizeof command->request_id, "%" PRId64, runner->number);
    return command;
}

static void trial_create_next(struct search *s, int bracket, struct search_commands *out)
{
    int64_t seed;
    bool depends = s->of.bracketed.tpe && tpe_has_model(s->of.bracketed.tpe);
    json_t *point = draw_next(s, &seed);
    const struct active_search_trial runner = {.number = s->of.bracketed.numbered,
                                               .bracket = bracket};
    struct search_command *command = trial_start(&s->of.bracketed, SEARCH_CREATE, &runner, out);
    command->hparams = point;
    command->seed = seed;
    command->depends = depends;
}

static void again_add(struct bracket_search *bs, const struct active_search_trial *runner)
{
    bs->again = xrealloc(bs->again, (bs->again_count + 1) * sizeof *bs->again);
    bs->again[bs->again_count++] = *runner;
}

// Whether trials depend on results of others. Others are drawn once more when a search continues,
// so it need not save which trials failed.
static bool is_dependent(const struct bracket_search *bs)
{
    return bs->brackets->rung_count > 0 || bs->tpe;
}

static void lost_add(struct bracket_search *bs, const struct active_search_trial *runner)
{
    bs->lost = xrealloc(bs->lost, (bs->lost_count + 1) * sizeof *bs->lost);
    bs->lost[bs->lost_count++] = *runner;
}

// The next ended trial of the bracket that is to run again; NULL: none.
static struct active_search_trial *again_of(struct bracket_search *bs, int bracket)
{
    for (size_t i = 0; i < bs->again_count; i++)
        if (bs->again[i].bracket == bracket)
            return &bs->again[i];
    return NULL;
}

static void trial_restart(struct bracket_search *bs, struct active_search_trial *again,
                          struct search_commands *out)
{
    size_t at = (size_t)(again - bs->again);
    trial_start(bs, SEARCH_RESTART, again, out);
    memmove(again, again + 1, (--bs->again_count - at) * sizeof *again);
}

static bool bracket_has_room(const struct bracket_search *bs, const struct search_bracket *b)
{
    return (bs->synchronous ? (int64_t)bs->runner_count : b->running) < b->concurrent;
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
        struct active_search_trial *again;
        while (bracket_has_room(bs, b) && (again = again_of(bs, i)))
            trial_restart(bs, again, out);
        while (b->created < b->max_trials && bracket_has_room(bs, b))
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

// The first of several equal metrics is better. In a synchronous bracket, where the order of
// arrival does not count, the metric of the trial with the lower number is better.
static bool is_before(const struct bracket_search *bs, double metric, int64_t trial,
                      const struct rung_entry *other)
{
    return metric < other->metric ||
           (bs->synchronous && metric == other->metric && trial < other->trial);
}

// Inserts the metric of a trial; returns whether the trial continues, which no metric does that is
// not finite.
static bool enter_rung(const struct bracket_search *bs, struct search_rung *rung, double metric,
                       int64_t trial)
{
    size_t at = rung->count;
    if (rung->count == rung->cap) {
        rung->cap = rung->cap ? 2 * rung->cap : 16;
        rung->entries = xrealloc(rung->entries, rung->cap * sizeof *rung->entries);
    }
    for (; at && is_before(bs, metric, trial, &rung->entries[at - 1]); at--)
        rung->entries[at] = rung->entries[at - 1];
    rung->entries[at] = (struct rung_entry){metric, trial};
    return isfinite(metric) && at < rung_promotions(bs, ++rung->count);
}

static void rung_leave(struct search_rung *rung, int64_t trial)
{
    size_t kept = 0;
    for (size_t i = 0; i < rung->count; i++)
        if (rung->entries[i].trial != trial)
            rung->entries[kept++] = rung->entries[i];
    rung->count = kept;
}

static void leave_rungs(struct search_bracket *b, int64_t trial)
{
    for (int r = 0; r < b->rung_count; r++)
        rung_leave(&b->rungs[r], trial);
}

static double bracket_search_metric(const struct bracket_search *bs, double metric)
{
    return !isfinite(metric) ? INFINITY : bs->smaller_is_better ? metric : -metric;
}

// One report may pass several rungs. The top rung always stops the trial, and so does each rung of
// a synchronous bracket; there a rung counts that was passed too early if the trial is promoted.
static void trial_reach_rungs(struct search *s, struct active_search_trial *runner,
                              const struct search_event *event, struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    struct search_bracket *b = &bs->brackets[runner->bracket];
    double metric = bracket_search_metric(bs, event->metric);
    bool stops = false;
    while ((!stops || bs->synchronous) && runner->rung < b->rung_count &&
           event->time >= b->rungs[runner->rung].needs) {
        stops |= !enter_rung(bs, &b->rungs[runner->rung++], metric, runner->number) ||
                 runner->rung == b->rung_count || bs->synchronous;
        s->changed = true;
    }
    if (!stops)
        return;
    runner->rung = b->rung_count;
    struct search_command *stop = search_command_add(out, SEARCH_STOP);
    snprintf(stop->request_id, sizeof stop->request_id, "%" PRId64, runner->number);
}

// --- synchronous brackets ------------------------------------------------------------------------

static const struct rung_entry *rung_find(const struct search_rung *rung, size_t count,
                                          int64_t trial)
{
    for (size_t i = 0; i < count; i++)
        if (rung->entries[i].trial == trial)
            return &rung->entries[i];
    return NULL;
}

// Removes the entries of trials that were not promoted to the rung but passed it too early.
static void rung_keep_promoted(struct search_rung *rung, const struct search_rung *below,
                               size_t promoted)
{
    size_t kept = 0;
    for (size_t i = 0; i < rung->count; i++)
        if (rung_find(below, promoted, rung->entries[i].trial))
            rung->entries[kept++] = rung->entries[i];
    rung->count = kept;
}

// Promotes the best trials of the rung at which all trials of the bracket have arrived.
static void bracket_promote(struct bracket_search *bs, int bracket)
{
    struct search_bracket *b = &bs->brackets[bracket];
    const struct search_rung *rung = &b->rungs[b->level++];
    size_t promoted = 0;
    while (promoted < rung->count && (int64_t)promoted < b->rungs[b->level].size &&
           isfinite(rung->entries[promoted].metric))
        promoted++;
    for (int r = b->level; r < b->rung_count; r++)
        rung_keep_promoted(&b->rungs[r], rung, promoted);
    for (size_t i = 0; i < promoted; i++) {
        const struct active_search_trial next = {
            .number = rung->entries[i].trial, .bracket = bracket, .rung = b->level};
        if (!rung_find(&b->rungs[b->level], b->rungs[b->level].count, next.number))
            again_add(bs, &next);
    }
}

// No trial of the bracket runs or waits: all have arrived.
static bool bracket_is_idle(struct bracket_search *bs, int bracket)
{
    const struct search_bracket *b = &bs->brackets[bracket];
    return !b->running && b->created >= b->max_trials && !again_of(bs, bracket);
}

static void bracket_advance(struct bracket_search *bs, int bracket)
{
    const struct search_bracket *b = &bs->brackets[bracket];
    while (bracket_is_idle(bs, bracket) && b->level + 1 < b->rung_count)
        bracket_promote(bs, bracket);
}

// A trial that has ended by itself before its rung has its best result at all of its rungs.
static void trial_pass_rungs(struct bracket_search *bs, struct active_search_trial *runner,
                             double best)
{
    struct search_bracket *b = &bs->brackets[runner->bracket];
    while (runner->rung < b->rung_count)
        enter_rung(bs, &b->rungs[runner->rung++], bracket_search_metric(bs, best), runner->number);
}

// --- events --------------------------------------------------------------------------------------

static void trial_ended(struct search *s, struct active_search_trial *runner,
                        const struct search_event *event, struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    int bracket = runner->bracket;
    struct search_bracket *b = &bs->brackets[bracket];
    enum search_end how = event->end;
    bs->completed += how == SEARCH_END_COMPLETED;
    bs->failed += how == SEARCH_END_ERROR || how == SEARCH_END_INVALID_HP;
    bs->canceled += how == SEARCH_END_CANCELED;
    bs->refused = how == SEARCH_END_INVALID_HP ? bs->refused + 1 : 0;
    if (is_dependent(bs) && (how == SEARCH_END_ERROR || how == SEARCH_END_CANCELED))
        lost_add(bs, runner);
    bool replaced = how == SEARCH_END_INVALID_HP && !bs->grid && !b->level;
    // At the rungs that it has not passed, a failed trial counts as the worst.
    if ((how == SEARCH_END_ERROR || (how == SEARCH_END_INVALID_HP && b->level)) &&
        runner->rung < b->rung_count)
        enter_rung(bs, &b->rungs[runner->rung], INFINITY, runner->number);
    if (how == SEARCH_END_COMPLETED && bs->synchronous)
        trial_pass_rungs(bs, runner, event->best);
    if (how == SEARCH_END_INVALID_HP && !b->level) {
        leave_rungs(b, runner->number);
        b->created -= replaced;
    }
    if (bs->tpe)
        tpe_end(bs->tpe, runner->number,
                bracket_search_metric(bs, how == SEARCH_END_INVALID_HP || how == SEARCH_END_ERROR
                                              ? INFINITY
                                              : event->best));
    runner_drop(bs, runner);
    if (bs->synchronous)
        bracket_advance(bs, bracket);
    if (bs->refused < REFUSED_MAX || bs->grid)
        start_trials(s, out);
    else
        search_end_with(bs, SEARCH_END_ERROR, out);
}

// --- continuation --------------------------------------------------------------------------------

static bool bracket_search_covers(const struct search *s, size_t trials)
{
    const struct bracket_search *bs = &s->of.bracketed;
    return !is_dependent(bs) || bs->numbered >= (int64_t)trials;
}

// A search whose trials do not depend on each other: the completed trials have ended and the others
// are to run again. All values are drawn once more, so that later trials get the values that they
// would have had.
static void search_draw_again(struct search *s, const struct search_event *event)
{
    struct bracket_search *bs = &s->of.bracketed;
    rng_seed(&s->rng, (uint64_t)s->seed, 1);
    bs->numbered = bs->completed = bs->failed = bs->canceled = 0;
    bs->brackets->created = bs->brackets->running = 0;
    bs->runner_count = bs->again_count = bs->lost_count = 0;
    for (size_t i = 0; i < event->trials; i++) {
        int64_t seed;
        json_decref(draw_next(s, &seed));
        bs->completed += event->completed[i];
        bs->brackets->created += event->completed[i];
        if (!event->completed[i])
            again_add(bs, &(struct active_search_trial){.number = bs->numbered});
    }
}

// A trial that failed or was canceled runs again, as if it had not ended; but not in a synchronous
// bracket that has gone on without it.
static void lost_try_again(struct bracket_search *bs, struct active_search_trial lost)
{
    struct search_bracket *b = &bs->brackets[lost.bracket];
    lost.fraction = 0;
    if (bs->synchronous && b->level != lost.rung)
        return;
    for (int r = lost.rung; r < b->rung_count; r++)
        rung_leave(&b->rungs[r], lost.number);
    b->created -= !lost.rung; // starting it counts it again
    again_add(bs, &lost);
}

static bool is_completed(const struct search_event *event, int64_t number)
{
    return number > 0 && (size_t)number <= event->trials && event->completed[number - 1];
}

// Older masters went on with the search while its experiment ended, and numbered trials that were
// never created.
static void runners_forget_later(struct bracket_search *bs, size_t trials)
{
    for (size_t i = bs->runner_count; i-- > 0;)
        if (bs->runners[i].number > (int64_t)trials) {
            bs->brackets[bs->runners[i].bracket].created--;
            runner_drop(bs, &bs->runners[i]);
        }
    bs->numbered = (int64_t)trials;
}

// Runs the trials again that were running when the experiment ended. Those that completed since,
// and those that the search had stopped, end now.
static void runners_resume(struct search *s, const struct search_event *event,
                           struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    size_t count = bs->runner_count;
    struct active_search_trial *before = xcalloc(count + 1, sizeof *before);
    if (count)
        memcpy(before, bs->runners, count * sizeof *before);
    for (size_t i = 0; i < count; i++) {
        const struct search_bracket *b = &bs->brackets[before[i].bracket];
        bool stopped = b->rung_count && before[i].rung == b->rung_count;
        if (stopped || is_completed(event, before[i].number))
            continue;
        bs->runners[i].fraction = before[i].fraction = 0;
        before[i].number = 0; // it does not end
        snprintf(search_command_add(out, SEARCH_RESTART)->request_id, SEARCH_REQUEST_ID, "%" PRId64,
                 bs->runners[i].number);
    }
    for (size_t i = 0; i < count; i++) {
        char id[SEARCH_REQUEST_ID];
        snprintf(id, sizeof id, "%" PRId64, before[i].number);
        struct active_search_trial *runner = before[i].number ? runner_of(bs, id) : NULL;
        const struct search_event ended = {
            .kind = SEARCH_TRIAL_ENDED,
            .end = SEARCH_END_COMPLETED,
            .best = runner && event->bests ? event->bests[before[i].number - 1] : NAN};
        if (runner)
            trial_ended(s, runner, &ended, out);
    }
    free(before);
}

static void search_continue(struct search *s, const struct search_event *event,
                            struct search_commands *out)
{
    struct bracket_search *bs = &s->of.bracketed;
    bs->over = false;
    bs->refused = 0;
    if (!bracket_search_covers(s, event->trials))
        return;
    if (!is_dependent(bs)) {
        search_draw_again(s, event);
        start_trials(s, out);
        return;
    }
    struct active_search_trial *lost = bs->lost;
    size_t count = bs->lost_count;
    bs->lost = NULL;
    bs->failed = bs->canceled = 0;
    bs->lost_count = 0;
    for (size_t i = 0; i < count; i++)
        lost_try_again(bs, lost[i]);
    free(lost);
    runners_forget_later(bs, event->trials);
    runners_resume(s, event, out);
    if (!bs->over)
        start_trials(s, out);
}

// --- progress ------------------------------------------------------------------------------------

// The training time of the trials that have arrived at rungs, of the time of the whole plan.
static double synchronous_progress(const struct bracket_search *bs)
{
    double done = 0, all = 0;
    for (int i = 0; i < bs->bracket_count; i++)
        for (int r = 0; r < bs->brackets[i].rung_count; r++) {
            const struct search_rung *rung = &bs->brackets[i].rungs[r];
            double time = rung->needs - (r ? rung[-1].needs : 0);
            int64_t arrived = (int64_t)rung->count < rung->size ? (int64_t)rung->count : rung->size;
            done += time * (double)arrived;
            all += time * (double)rung->size;
        }
    return all > 0 ? done / all : 0;
}

static void set_progress(struct search *s)
{
    const struct bracket_search *bs = &s->of.bracketed;
    if (bs->synchronous) {
        s->progress = bs->over ? 1 : synchronous_progress(bs);
        return;
    }
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
    if ((bs->over && event->kind != SEARCH_CONTINUE) || (of_trial && !runner))
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
        if (bs->synchronous)
            set_progress(s);
        return;
    case SEARCH_PROGRESS:
        runner->fraction = event->fraction;
        set_progress(s);
        return;
    case SEARCH_TRIAL_ENDED:
        trial_ended(s, runner, event, out);
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
    return json_pack("{s:I, s:i, s:o}", "created", b->created, "level", b->level, "rungs", rungs);
}

static json_t *save_runners(const struct active_search_trial *runners, size_t count)
{
    json_t *saved = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct active_search_trial *r = &runners[i];
        must(!json_array_append_new(saved, json_pack("[I, i, i]", r->number, r->bracket, r->rung)));
    }
    return saved;
}

static json_t *bracket_search_save(const struct search *s)
{
    const struct bracket_search *bs = &s->of.bracketed;
    json_t *brackets = json_array(), *runners = save_runners(bs->runners, bs->runner_count);
    for (int i = 0; i < bs->bracket_count; i++)
        must(!json_array_append_new(brackets, save_bracket(&bs->brackets[i])));
    json_t *saved =
        json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:i, s:b}", "brackets", brackets, "running",
                  runners, "numbered", bs->numbered, "completed", bs->completed, "failed",
                  bs->failed, "canceled", bs->canceled, "refused", bs->refused, "over", bs->over);
    must(saved);
    if (bs->again_count)
        must(!json_object_set_new(saved, "again", save_runners(bs->again, bs->again_count)));
    if (bs->lost_count)
        must(!json_object_set_new(saved, "lost", save_runners(bs->lost, bs->lost_count)));
    if (bs->tpe)
        must(!json_object_set_new(saved, "tpe", tpe_save(bs->tpe)));
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
    int64_t level = jget_int(saved, "level", 0);
    b->created = jget_int(saved, "created", 0);
    b->level = level > 0 && level < b->rung_count ? (int)level : 0;
    for (int r = 0; r < b->rung_count; r++)
        load_rung(bs, &b->rungs[r], json_array_get(jget(saved, "rungs"), (size_t)r));
}

// A trial is [number, bracket, rung]; older masters saved the number alone of one that is to run
// again.
static bool load_runner(const struct bracket_search *bs, const json_t *saved,
                        struct active_search_trial *out)
{
    int64_t bracket = json_integer_value(json_array_get(saved, 1));
    *out = (struct active_search_trial){
        .number = json_is_integer(saved) ? json_integer_value(saved)
                                         : json_integer_value(json_array_get(saved, 0)),
        .bracket = (int)bracket,
        .rung = (int)json_integer_value(json_array_get(saved, 2))};
    return bracket >= 0 && bracket < bs->bracket_count;
}

static void bracket_search_load(struct search *s, const json_t *saved)
{
    struct bracket_search *bs = &s->of.bracketed;
    size_t i;
    json_t *runner;
    for (int b = 0; b < bs->bracket_count; b++)
        load_bracket(bs, &bs->brackets[b], json_array_get(jget(saved, "brackets"), (size_t)b));
    struct active_search_trial loaded;
    json_array_foreach(jget(saved, "running"), i, runner) if (load_runner(bs, runner, &loaded))
        runner_add(bs, &loaded);
    json_array_foreach(jget(saved, "again"), i, runner) if (load_runner(bs, runner, &loaded))
        again_add(bs, &loaded);
    json_array_foreach(jget(saved, "lost"), i,
                       runner) if (is_dependent(bs) && load_runner(bs, runner, &loaded))
        lost_add(bs, &loaded);
    if (bs->tpe)
        tpe_load(bs->tpe, jget(saved, "tpe"));
    bs->numbered = jget_int(saved, "numbered", 0);
    bs->completed = jget_int(saved, "completed", 0);
    bs->failed = jget_int(saved, "failed", 0);
    bs->canceled = jget_int(saved, "canceled", 0);
    bs->refused = (int)jget_int(saved, "refused", 0);
    bs->over = jget_bool(saved, "over", false);
    set_progress(s);
}

// --- for people ----------------------------------------------------------------------------------

// Returns how many trials of the rung go on. In an asynchronous bracket the number is an upper
// bound so far; in a synchronous one it is the number after all trials have arrived.
static int64_t rung_goes_on(const struct bracket_search *bs, const struct search_rung *rung,
                            bool top)
{
    if (top)
        return 0;
    if (bs->synchronous)
        return rung[1].size;
    return rung->count ? (int64_t)rung_promotions(bs, rung->count) : 0;
}

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
    json_t *shown = json_pack("{s:f, s:I, s:o}", "time", rung->needs, "goOn",
                              (json_int_t)rung_goes_on(bs, rung, top), "marks", marks);
    if (bs->synchronous)
        must(!json_object_set_new(shown, "size", json_integer(rung->size)));
    return shown;
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

#define CROWD(name_, resumes_)                                                                     \
    {                                                                                              \
        .name = name_, .resumes = resumes_, .set_up = bracket_search_set_up,                       \
        .handle_event = bracket_search_tell, .save = bracket_search_save,                          \
        .load = bracket_search_load, .covers = bracket_search_covers,                              \
        .rungs = bracket_search_ladder, .free = bracket_search_drop                                \
    }
const struct search_method search_random = CROWD("random", false),
                           search_grid = CROWD("grid", false),
                           search_halving = CROWD("async_halving", false),
                           search_adaptive = CROWD("adaptive_asha", false),
                           search_hyperband = CROWD("hyperband", true),
                           search_tpe = CROWD("tpe", false);
