#include "master/lifecycle/retries.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "master/kernel/module.h"
#include "master/lifecycle/lifecycle.h"

enum {
    WAIT_MOST_US = 300 * 1000 * 1000, // a longer run also ends the row of failures
    AT_ONCE_US = 10 * 1000 * 1000,    // a failure within this time comes right after the start
};

static void retry_store(struct core *c, const struct trial *t)
{
    STORE(c, TRIAL_SET_RETRY, t->retry.at, t->retry.failures, t->retry.same_failures, t->id);
}

static bool was_reported_in(const struct latest_report *r, int64_t run)
{
    return r->present && r->run == run;
}

void retry_count_failure(struct core *c, const struct allocation *a)
{
    struct trial *t = a->trial;
    int64_t ran = a->runs_since ? c->wall - a->runs_since : 0;
    bool saved = t->checkpoint[0] && strcmp(t->checkpoint, a->resume) != 0;
    bool worked = saved || was_reported_in(&t->training, a->epoch) ||
                  was_reported_in(&t->validation, a->epoch) || ran >= AT_ONCE_US;
    bool same = t->retry.same_failures && t->exit_reason && !strcmp(t->exit_reason, a->reason);
    t->retry.same_failures = worked ? 0 : same ? t->retry.same_failures + 1 : 1;
    t->retry.failures = saved || ran >= WAIT_MOST_US ? 1 : t->retry.failures + 1;
    retry_store(c, t);
}

static int64_t wait_length(const struct core *c, const struct trial *t)
{
    int64_t wait = c->options.restart_backoff_us;
    for (int64_t i = 1; i < t->retry.failures && wait < WAIT_MOST_US; i++)
        wait *= 2;
    return wait < WAIT_MOST_US ? wait : WAIT_MOST_US;
}

static void count_write(const struct trial *t, struct buf *out)
{
    buf_printf(out, " (restart %lld of %lld)", (long long)t->restarts,
               (long long)t->active->max_restarts);
}

static void failure_write(const struct trial *t, struct buf *out)
{
    if (t->retry.same_failures > 1)
        buf_printf(out, "it has failed %lld times in the same way, right after its start: ",
                   (long long)t->retry.same_failures);
    buf_puts(out, t->exit_reason ? t->exit_reason : "it has failed");
}

static void wait_write(int64_t wait, struct buf *out)
{
    char span[32];
    if (wait > 0)
        buf_printf(out, "starts again in %s", duration_format(wait, span, sizeof span));
    else
        buf_puts(out, "starts again now");
}

static void log_message(struct core *c, const struct trial *t, const char *level, struct buf *text)
{
    CORE_DISPATCH(c, trial_message, c, t, "", level, buf_str(text));
    buf_free(text);
}

static void wait_announce(struct core *c, const struct trial *t, int64_t wait)
{
    struct buf text;
    buf_init(&text, LIMIT_BODY_SMALL);
    failure_write(t, &text);
    buf_puts(&text, "; ");
    wait_write(wait, &text);
    count_write(t, &text);
    if (t->retry.same_failures > 1)
        buf_printf(&text,
                   "; unless it waits for something outside, its program or configuration needs a "
                   "fix: muster experiment kill %lld ends it",
                   (long long)t->active->experiment->id);
    log_message(c, t, "WARNING", &text);
}

void retry_give_up(struct core *c, struct trial *t)
{
    struct buf text;
    if (active_experiment_runs_once(t->active) || (!t->active->max_restarts && !t->no_retries))
        return; // nobody expects a restart
    buf_init(&text, LIMIT_BODY_SMALL);
    failure_write(t, &text);
    if (t->no_retries)
        buf_puts(&text, "; it is not started again: its log matched a don't retry policy");
    else
        buf_printf(&text,
                   "; it is not started again: it has failed %lld times (max_restarts: %lld)",
                   (long long)t->restarts + 1, (long long)t->active->max_restarts);
    log_message(c, t, "ERROR", &text);
    if (t->retry.same_failures < 2)
        return;
    char *reason = xasprintf("%s (%lld times in the same way, right after its start)",
                             t->exit_reason, (long long)t->retry.same_failures);
    trial_set_reason(c, t, reason);
    free(reason);
}

// A log policy may have forbidden restarts during the wait: the last lines of a program come after
// its end.
static void wait_over(struct core *c, void *arg)
{
    struct trial *t = arg;
    if (t->no_retries) {
        t->restarts--; // it was counted, but does not take place
        STORE(c, TRIAL_SET_RESTARTS, t->restarts, t->id);
        retry_give_up(c, t);
    }
    trial_event(c, t, t->no_retries ? TRIAL_EV_OUT_OF_RESTARTS : TRIAL_EV_IDLE);
}

static void wait_start(struct core *c, struct trial *t, int64_t wait)
{
    t->retry.timer.fire = wait_over;
    t->retry.timer.arg = t;
    timer_set(&c->timers, &t->retry.timer, c->now + wait);
}

bool retry_wait(struct core *c, struct trial *t)
{
    int64_t wait = t->state == TRIAL_ACTIVE ? wait_length(c, t) : 0;
    if (t->state == TRIAL_ACTIVE)
        wait_announce(c, t, wait);
    if (!wait)
        return false;
    t->retry.at = c->wall + wait;
    retry_store(c, t);
    wait_start(c, t, wait);
    return true;
}

// The wall clock may have been set back. A wait that is over ends in the first turn.
bool retry_resume(struct core *c, struct trial *t)
{
    int64_t wait = t->retry.at - c->wall;
    if (t->state != TRIAL_ACTIVE || !t->retry.at)
        return false;
    wait_start(c, t, wait < 0 ? 0 : wait < WAIT_MOST_US ? wait : WAIT_MOST_US);
    return true;
}

void retry_clear(struct core *c, struct trial *t)
{
    if (!t->retry.at)
        return;
    t->retry.at = 0;
    timer_clear(&c->timers, &t->retry.timer);
    retry_store(c, t);
}

void retry_describe(const struct core *c, const struct trial *t, struct buf *out)
{
    int64_t wait = t->retry.at - c->wall;
    wait_write(wait > 0 ? wait : 0, out);
    count_write(t, out);
    buf_puts(out, " after ");
    failure_write(t, out);
}
