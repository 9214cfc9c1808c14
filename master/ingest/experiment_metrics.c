#include "master/ingest/experiment_metrics.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/arena.h"
#include "master/ingest/metric_summary.h"
#include "master/ingest/reports.h"

enum { RETRY_US = 100 * 1000 };

static struct trial *trial_of_node(struct list_node *r)
{
    return (struct trial *)((char *)r - offsetof(struct trial, due));
}

static void queue_remove(struct trial *t)
{
    if (!t->due.next)
        return;
    t->due.prev->next = t->due.next;
    t->due.next->prev = t->due.prev;
    t->due = (struct list_node){0};
}

static void queue_append(struct core *c, struct trial *t)
{
    struct list_node *head = &c->metrics->experiments.due;
    if (!head->next)
        head->prev = head->next = head;
    t->due = (struct list_node){head->prev, head};
    head->prev->next = &t->due;
    head->prev = &t->due;
}

struct summary_target {
    struct core *c;
    int64_t experiment;
    const char *group;
};

static void write_value(void *ctx, const struct summary_value *v)
{
    const struct summary_target *to = ctx;
    char *full = xasprintf("%s.%s", to->group, v->name);
    STORE(to->c, EXPERIMENT_METRIC_SET, to->experiment, full, v->last, v->low, v->high);
    free(full);
}

static size_t write_trial(struct core *c, struct trial *t)
{
    static const char *const groups[] = {"training", "validation"};
    size_t count = 0;
    queue_remove(t);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct summary_target to = {c, t->active->experiment->id, groups[i]};
        count += summary_each(t->summary, groups[i], write_value, &to);
    }
    return count;
}

void experiment_metrics_report(struct core *c, struct trial *t)
{
    if (trial_is_terminal(t->state))
        write_trial(c, t);
    else if (!t->due.next)
        queue_append(c, t);
}

void experiment_metrics_end_trial(struct core *c, struct trial *t)
{
    if (t->due.next)
        write_trial(c, t);
}

void experiment_metrics_forget_trial(struct trial *t)
{
    queue_remove(t);
}

static void cause_turn(struct core *c, void *arg)
{
    (void)c; // the end of the turn flushes the queue
    (void)arg;
}

void experiment_metrics_flush(struct core *c)
{
    struct experiment_metrics_queue *l = &c->metrics->experiments;
    l->credit += (double)(c->now - l->at) / 1e6 * EXPERIMENT_METRICS_RATE;
    l->credit = l->credit > EXPERIMENT_METRICS_BURST ? EXPERIMENT_METRICS_BURST : l->credit;
    l->at = c->now;
    while (l->due.next && l->due.next != &l->due && l->credit > 0)
        l->credit -= (double)write_trial(c, trial_of_node(l->due.next));
    if (l->due.next && l->due.next != &l->due && !l->again.place) {
        l->again.fire = cause_turn;
        timer_set(&c->timers, &l->again, c->now + RETRY_US);
    }
}
