// Explains why the scheduler preempts an allocation: by a word for the store, and by a sentence for
// the trial's log and for the list of its starts. Ends programs that cannot be asked to leave.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "master/kernel/module.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/teams.h"

static const char *const cause_words[SCHED_CAUSES] = {
    [SCHED_FOR_PRIORITY] = "PRIORITY", [SCHED_FOR_SHARE] = "SHARE", [SCHED_FOR_SERVICE] = "SERVICE",
    [SCHED_TO_SHRINK] = "SHRINK",      [SCHED_TO_GROW] = "GROW",    [SCHED_TO_MOVE] = "MOVE",
    [SCHED_TO_RESIZE] = "RESIZE",
};

// Writes "experiment 12", or a general phrase when the favoured trial has ended meanwhile.
static void favoured_write(const struct active_experiment *l, struct buf *out)
{
    if (l)
        active_experiment_write_name(l, out);
    else
        buf_puts(out, "another experiment");
}

static void share_write(struct core *c, const struct active_experiment *l,
                        const struct active_experiment *other, struct buf *out)
{
    const struct workspace *own = core_workspace_of(c, l->experiment);
    const struct workspace *its = other ? core_workspace_of(c, other->experiment) : NULL;
    if (its == own && other->experiment->user_id == l->experiment->user_id) {
        buf_puts(out, ", which comes before it in their team");
        return;
    }
    if (its && its != own)
        buf_printf(out, " of team %s", its->name);
    else if (its)
        buf_printf(out, " of %s", other->owner);
    buf_puts(out, ", which is below its share");
}

static void cause_write(struct core *c, const struct active_experiment *l, enum sched_cause cause,
                        const struct active_experiment *other, struct buf *out)
{
    static const char *const openings[SCHED_CAUSES] = {
        [SCHED_FOR_PRIORITY] = "makes room for ",
        [SCHED_FOR_SHARE] = "makes room for ",
        [SCHED_FOR_SERVICE] = "makes room for ",
        [SCHED_TO_SHRINK] = "continues with fewer slots, in favour of ",
        [SCHED_TO_GROW] = "continues with more slots, which nobody else wants",
        [SCHED_TO_MOVE] = "continues elsewhere, in favour of ",
        [SCHED_TO_RESIZE] = "continues with another number of slots: its experiment was resized",
    };
    if (cause == SCHED_TO_MOVE && !other) {
        buf_printf(out, "continues in resource pool %s, to which its experiment was moved",
                   l->pool->name);
        return;
    }
    buf_puts(out, openings[cause]);
    if (cause == SCHED_TO_GROW || cause == SCHED_TO_RESIZE)
        return;
    favoured_write(other, out);
    if (cause == SCHED_FOR_PRIORITY && other && other->priority < l->priority)
        buf_printf(out, ", which has priority %d before its %d", other->priority, l->priority);
    else if (cause == SCHED_FOR_PRIORITY)
        buf_puts(out, ", which comes before it");
    if (cause == SCHED_FOR_SHARE)
        share_write(c, l, other, out);
    if (cause == SCHED_FOR_SERVICE)
        buf_puts(out, ", which has had less so far, or has waited for too long");
    if (cause == SCHED_TO_MOVE)
        buf_puts(out, ", which needs adjacent slots");
}

static void reason_set(struct core *c, struct allocation *a, enum sched_cause cause,
                       int64_t favoured)
{
    const struct trial *other = favoured > 0 ? core_trial_find(c, favoured) : NULL;
    struct buf text;
    buf_init(&text, ERROR_TEXT_MAX);
    cause_write(c, a->trial->active, cause, other ? other->active : NULL, &text);
    free(a->preempt_reason);
    a->preempt_reason = buf_take(&text);
}

void preemption_order(struct core *c, struct allocation *a, const struct sched_command *command)
{
    const struct trial *t = a->trial;
    int64_t favoured = command->beneficiary == SCHED_NONE ? 0 : command->beneficiary;
    reason_set(c, a, command->cause, favoured);
    STORE(c, ALLOCATION_SET_CAUSE, cause_words[command->cause], favoured, a->id);
    CORE_DISPATCH(c, trial_message, c, t, a->id, "INFO", a->preempt_reason);
    log_info("allocation ordered to leave", "exp=%lld trial=%lld alloc=%s cause=%s for=%lld",
             (long long)t->active->experiment->id, (long long)t->id, a->id,
             cause_words[command->cause], (long long)favoured);
}

void preemption_load(struct core *c, struct allocation *a, const char *cause, int64_t favoured)
{
    for (int i = 0; i < SCHED_CAUSES; i++)
        if (!strcmp(cause, cause_words[i]))
            reason_set(c, a, (enum sched_cause)i, favoured);
}

// --- programs that are not asked -----------------------------------------------------------------

int64_t preemption_timeout(const struct active_experiment *l)
{
    if (l->preemption_timeout_us > 0 || l->experiment->kind != KIND_EXPERIMENT)
        return l->preemption_timeout_us;
    return l->pool->preemption_timeout_us;
}

void preemption_note_poll(struct core *c, struct allocation *a)
{
    if (a->polls)
        return;
    a->polls = true;
    STORE(c, ALLOCATION_SET_POLLS, a->id);
}

// The reason why the program has to leave its slots at once. NULL: it is about to end by itself,
// because the searcher has stopped its trial, or because it has reported that no restart can help.
static const char *leave_reason(const struct allocation *a)
{
    enum trial_state state = a->trial->state;
    if (state == TRIAL_STOPPING_CANCELED)
        return "canceled";
    if (active_experiment_runs_once(a->trial->active) ||
        (state != TRIAL_ACTIVE && state != TRIAL_PAUSED))
        return NULL;
    if (state == TRIAL_PAUSED)
        return "paused";
    return a->preempt_reason ? a->preempt_reason : "its slots were withdrawn";
}

// Says what is lost. The program starts again later from its newest checkpoint, or from the
// beginning. One that has reported no step was perhaps still starting, or reports none.
static void warn_of_lost_work(struct core *c, const struct allocation *a)
{
    const struct trial *t = a->trial;
    bool reported = t->steps > (*t->checkpoint ? t->checkpoint_steps : 0);
    char *text =
        !reported && *t->checkpoint
            ? xasprintf(
                  "the program has reported no step after its newest checkpoint, of step %lld, "
                  "from which its next start continues",
                  (long long)t->checkpoint_steps)
        : !reported
            ? xasprintf(
                  "the program has reported no step yet: if it had not begun to train, nothing is "
                  "lost; if it had, all its work is, because the trial has no checkpoint. A "
                  "program that polls for preemption and saves a checkpoint keeps its work")
        : *t->checkpoint
            ? xasprintf(
                  "work since its last checkpoint, of step %lld, is lost unless the program saves "
                  "one on SIGTERM; its next start continues from the newest checkpoint",
                  (long long)t->checkpoint_steps)
            : xasprintf(
                  "the trial has no checkpoint, so all its work is lost unless the program saves "
                  "one on SIGTERM; a program that polls for preemption and saves a checkpoint "
                  "keeps its work");
    CORE_DISPATCH(c, trial_message, c, a->trial, a->id, "WARNING", text);
    free(text);
}

bool preemption_end_unasked(struct core *c, struct allocation *a)
{
    char span[32];
    const char *reason = leave_reason(a);
    if (a->polls || !reason)
        return false;
    char *text = xasprintf("%s: the program has not polled for preemption yet, so it is ended: "
                           "SIGTERM now, SIGKILL after %s",
                           reason, duration_format(c->options.kill_grace_us, span, sizeof span));
    CORE_DISPATCH(c, trial_message, c, a->trial, a->id, "INFO", text);
    if (a->trial->state != TRIAL_STOPPING_CANCELED)
        warn_of_lost_work(c, a);
    allocation_kill(c, a, OUTCOME_PREEMPTED, reason);
    free(text);
    return true;
}
