// Searches of many trials: who is started, who is stopped, when it is over.
//
// A trial that reaches a rung goes on only if it is among the best of those that have reached it so
// far, one of `divisor`, the first always (ASHA in the stopping form: Li et al., MLSys 2020; nobody
// is paused). The next trial starts when one has ended.
#include "master/search/crowd.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "master/search/method.h"

// A program that refuses whatever is drawn would be asked for ever.
enum { REFUSED_MAX = 100 };

// --- trials --------------------------------------------------------------------------------------

static struct runner *runner_of(struct crowd *crowd, const char *request_id)
{
    int64_t number = strtoll(request_id, NULL, 10);
    for (size_t i = 0; i < crowd->runner_count; i++)
        if (crowd->runners[i].number == number)
            return &crowd->runners[i];
    return NULL;
}

static struct runner *runner_add(struct crowd *crowd, const struct runner *runner)
{
    if (crowd->runner_count == crowd->runner_cap) {
        crowd->runner_cap = crowd->runner_cap ? 2 * crowd->runner_cap : 16;
        crowd->runners = xrealloc(crowd->runners, crowd->runner_cap * sizeof *crowd->runners);
    }
    crowd->brackets[runner->bracket].running++;
    crowd->runners[crowd->runner_count] = *runner;
    return &crowd->runners[crowd->runner_count++];
}

static void runner_drop(struct crowd *crowd, struct runner *runner)
{
    size_t at = (size_t)(runner - crowd->runners);
    crowd->brackets[runner->bracket].running--;
    crowd->runner_count--;
    memmove(runner, runner + 1, (crowd->runner_count - at) * sizeof *runner);
}

static void create(struct search *s, int bracket, struct search_commands *out)
{
    struct crowd *crowd = &s->of.crowd;
    struct search_command *command = search_command_add(out, SEARCH_CREATE);
    runner_add(crowd, &(struct runner){.number = ++crowd->numbered, .bracket = bracket});
    crowd->brackets[bracket].created++;
    snprintf(command->request_id, sizeof command->request_id, "%" PRId64, crowd->numbered);
    command->hparams = crowd->grid ? search_grid_point(s->space, crowd->numbered - 1)
                                   : search_draw(s->space, &s->rng);
    command->seed = (int64_t)(rng_u32(&s->rng) >> 1);
}

static void end(struct crowd *crowd, enum search_end outcome, struct search_commands *out)
{
    crowd->over = true;
    search_command_add(out, SEARCH_SHUTDOWN)->outcome = outcome;
}

// Starts what may start; ends the search when nothing runs and nothing is left to start. It has
// failed only if no trial has come to its end.
static void fill(struct search *s, struct search_commands *out)
{
    struct crowd *crowd = &s->of.crowd;
    for (int i = 0; i < crowd->bracket_count; i++) {
        struct bracket *b = &crowd->brackets[i];
        while (b->created < b->most && b->running < b->concurrent)
            create(s, i, out);
    }
    if (crowd->runner_count)
        return;
    end(crowd,
        crowd->completed ? SEARCH_END_COMPLETED
        : crowd->failed  ? SEARCH_END_ERROR
                         : SEARCH_END_CANCELED,
        out);
}

// --- rungs ---------------------------------------------------------------------------------------

// How many of those that have reached a rung go on.
static size_t kept_of(const struct crowd *crowd, size_t count)
{
    double kept = floor((double)count / crowd->divisor);
    return kept < 1 ? 1 : (size_t)kept;
}

// Puts a trial's metric into its place; whether that is among those who go on. Equals: the first;
// what is no number: never.
static bool enter_rung(const struct crowd *crowd, struct rung *rung, double metric, int64_t trial)
{
    size_t at = rung->count;
    if (rung->count == rung->cap) {
        rung->cap = rung->cap ? 2 * rung->cap : 16;
        rung->marks = xrealloc(rung->marks, rung->cap * sizeof *rung->marks);
    }
    for (; at && metric < rung->marks[at - 1].metric; at--)
        rung->marks[at] = rung->marks[at - 1];
    rung->marks[at] = (struct mark){metric, trial};
    return isfinite(metric) && at < kept_of(crowd, ++rung->count);
}

static void leave_rungs(struct bracket *b, int64_t trial)
{
    for (int r = 0; r < b->rung_count; r++) {
        struct rung *rung = &b->rungs[r];
        size_t kept = 0;
        for (size_t i = 0; i < rung->count; i++)
            if (rung->marks[i].trial != trial)
                rung->marks[kept++] = rung->marks[i];
        rung->count = kept;
    }
}

// One report may pass several rungs. The top one has nothing above it: it always stops.
static void climb(struct search *s, struct runner *runner, const struct search_event *event,
                  struct search_commands *out)
{
    struct crowd *crowd = &s->of.crowd;
    struct bracket *b = &crowd->brackets[runner->bracket];
    double metric = !isfinite(event->metric)   ? INFINITY
                    : crowd->smaller_is_better ? event->metric
                                               : -event->metric;
    bool stops = false;
    while (!stops && runner->rung < b->rung_count && event->time >= b->rungs[runner->rung].needs) {
        stops = !enter_rung(crowd, &b->rungs[runner->rung++], metric, runner->number) ||
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

static void ended(struct search *s, struct runner *runner, enum search_end how,
                  struct search_commands *out)
{
    struct crowd *crowd = &s->of.crowd;
    struct bracket *b = &crowd->brackets[runner->bracket];
    crowd->completed += how == SEARCH_END_COMPLETED;
    crowd->failed += how == SEARCH_END_ERROR || how == SEARCH_END_INVALID_HP;
    crowd->canceled += how == SEARCH_END_CANCELED;
    crowd->refused = how == SEARCH_END_INVALID_HP ? crowd->refused + 1 : 0;
    // The others are measured against one that has failed as against the worst.
    if (how == SEARCH_END_ERROR && runner->rung < b->rung_count)
        enter_rung(crowd, &b->rungs[runner->rung], INFINITY, runner->number);
    if (how == SEARCH_END_INVALID_HP) {
        leave_rungs(b, runner->number);
        b->created -= !crowd->grid; // another point is drawn in its place
    }
    runner_drop(crowd, runner);
    if (crowd->refused < REFUSED_MAX || crowd->grid)
        fill(s, out);
    else
        end(crowd, SEARCH_END_ERROR, out);
}

static void set_progress(struct search *s)
{
    const struct crowd *crowd = &s->of.crowd;
    double done = 0, all = 0;
    for (int i = 0; i < crowd->bracket_count; i++) {
        all += (double)crowd->brackets[i].most;
        done += (double)(crowd->brackets[i].created - crowd->brackets[i].running);
    }
    for (size_t i = 0; i < crowd->runner_count; i++)
        done += crowd->runners[i].fraction;
    s->progress = crowd->over ? 1 : all > 0 ? done / all : 0;
}

static void crowd_tell(struct search *s, const struct search_event *event,
                       struct search_commands *out)
{
    struct crowd *crowd = &s->of.crowd;
    struct runner *runner =
        event->kind == SEARCH_BEGIN ? NULL : runner_of(crowd, event->request_id);
    if (crowd->over || (event->kind != SEARCH_BEGIN && !runner))
        return;
    switch (event->kind) {
    case SEARCH_BEGIN:
        fill(s, out);
        break;
    case SEARCH_VALIDATED:
        climb(s, runner, event, out);
        return;
    case SEARCH_PROGRESS:
        runner->fraction = event->fraction;
        set_progress(s);
        return;
    case SEARCH_TRIAL_ENDED:
        ended(s, runner, event->end, out);
        break;
    }
    s->changed = true;
    set_progress(s);
}

// --- saved state ---------------------------------------------------------------------------------

static json_t *save_rung(const struct rung *rung)
{
    json_t *marks = json_array();
    for (size_t i = 0; i < rung->count; i++) {
        const struct mark *m = &rung->marks[i];
        json_t *metric = isfinite(m->metric) ? json_real(m->metric) : json_null();
        must(metric && !json_array_append_new(marks, json_pack("[o, I]", metric, m->trial)));
    }
    return marks;
}

static json_t *save_bracket(const struct bracket *b)
{
    json_t *rungs = json_array();
    for (int r = 0; r < b->rung_count; r++)
        must(!json_array_append_new(rungs, save_rung(&b->rungs[r])));
    return json_pack("{s:I, s:o}", "created", b->created, "rungs", rungs);
}

static json_t *crowd_save(const struct search *s)
{
    const struct crowd *crowd = &s->of.crowd;
    json_t *brackets = json_array(), *runners = json_array();
    for (int i = 0; i < crowd->bracket_count; i++)
        must(!json_array_append_new(brackets, save_bracket(&crowd->brackets[i])));
    for (size_t i = 0; i < crowd->runner_count; i++) {
        const struct runner *r = &crowd->runners[i];
        must(!json_array_append_new(runners,
                                    json_pack("[I, i, i]", r->number, r->bracket, r->rung)));
    }
    json_t *saved = json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:i, s:b}", "brackets", brackets,
                              "running", runners, "numbered", crowd->numbered, "completed",
                              crowd->completed, "failed", crowd->failed, "canceled",
                              crowd->canceled, "refused", crowd->refused, "over", crowd->over);
    must(saved);
    return saved;
}

static void load_rung(const struct crowd *crowd, struct rung *rung, const json_t *saved)
{
    size_t i;
    json_t *mark;
    json_array_foreach((json_t *)saved, i, mark)
    {
        const json_t *metric = json_array_get(mark, 0);
        enter_rung(crowd, rung, json_is_number(metric) ? json_number_value(metric) : INFINITY,
                   json_integer_value(json_array_get(mark, 1)));
    }
}

static void load_bracket(const struct crowd *crowd, struct bracket *b, const json_t *saved)
{
    b->created = jget_int(saved, "created", 0);
    for (int r = 0; r < b->rung_count; r++)
        load_rung(crowd, &b->rungs[r], json_array_get(jget(saved, "rungs"), (size_t)r));
}

static void crowd_load(struct search *s, const json_t *saved)
{
    struct crowd *crowd = &s->of.crowd;
    size_t i;
    json_t *runner;
    for (int b = 0; b < crowd->bracket_count; b++)
        load_bracket(crowd, &crowd->brackets[b],
                     json_array_get(jget(saved, "brackets"), (size_t)b));
    json_array_foreach(jget(saved, "running"), i, runner)
    {
        int64_t bracket = json_integer_value(json_array_get(runner, 1));
        if (bracket < 0 || bracket >= crowd->bracket_count)
            continue;
        runner_add(crowd,
                   &(struct runner){.number = json_integer_value(json_array_get(runner, 0)),
                                    .bracket = (int)bracket,
                                    .rung = (int)json_integer_value(json_array_get(runner, 2))});
    }
    crowd->numbered = jget_int(saved, "numbered", 0);
    crowd->completed = jget_int(saved, "completed", 0);
    crowd->failed = jget_int(saved, "failed", 0);
    crowd->canceled = jget_int(saved, "canceled", 0);
    crowd->refused = (int)jget_int(saved, "refused", 0);
    crowd->over = jget_bool(saved, "over", false);
    set_progress(s);
}

// --- for people ----------------------------------------------------------------------------------

static json_t *show_rung(const struct crowd *crowd, const struct rung *rung, bool top)
{
    json_t *marks = json_array();
    for (size_t i = 0; i < rung->count; i++) {
        const struct mark *m = &rung->marks[i];
        json_t *mark = json_pack("{s:I}", "trial", (json_int_t)m->trial);
        if (isfinite(m->metric))
            json_object_set_new(mark, "metric",
                                json_real(crowd->smaller_is_better ? m->metric : -m->metric));
        must(!json_array_append_new(marks, mark));
    }
    size_t kept = top || !rung->count ? 0 : kept_of(crowd, rung->count);
    return json_pack("{s:f, s:I, s:o}", "time", rung->needs, "goOn", (json_int_t)kept, "marks",
                     marks);
}

static json_t *crowd_ladder(const struct search *s)
{
    const struct crowd *crowd = &s->of.crowd;
    json_t *brackets = json_array();
    for (int i = 0; i < crowd->bracket_count; i++) {
        const struct bracket *b = &crowd->brackets[i];
        json_t *rungs = json_array();
        for (int r = 0; r < b->rung_count; r++)
            must(!json_array_append_new(rungs,
                                        show_rung(crowd, &b->rungs[r], r + 1 == b->rung_count)));
        if (b->rung_count)
            must(!json_array_append_new(
                brackets, json_pack("{s:I, s:I, s:I, s:o}", "trials", (json_int_t)b->most,
                                    "concurrent", (json_int_t)b->concurrent, "created",
                                    (json_int_t)b->created, "rungs", rungs)));
        else
            json_decref(rungs);
    }
    return brackets;
}

static int crowd_set_up(struct search *s, const json_t *config, struct error *e)
{
    return crowd_plan(&s->of.crowd, config, e);
}

static void crowd_drop(struct search *s)
{
    crowd_free(&s->of.crowd);
}

#define CROWD(name_)                                                                               \
    {                                                                                              \
        .name = name_, .set_up = crowd_set_up, .tell = crowd_tell, .save = crowd_save,             \
        .load = crowd_load, .ladder = crowd_ladder, .drop = crowd_drop                             \
    }
const struct search_method search_random = CROWD("random"), search_grid = CROWD("grid"),
                           search_halving = CROWD("async_halving"),
                           search_adaptive = CROWD("adaptive_asha");
