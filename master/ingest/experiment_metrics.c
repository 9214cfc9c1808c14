#include "master/ingest/experiment_metrics.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/arena.h"
#include "master/ingest/metric_summary.h"
#include "master/ingest/reports.h"

enum { AGAIN_US = 100 * 1000 };

static struct trial *trial_of(struct list_node *r)
{
    return (struct trial *)((char *)r - offsetof(struct trial, due));
}

static void unlink_trial(struct trial *t)
{
    if (!t->due.next)
        return;
    t->due.prev->next = t->due.next;
    t->due.next->prev = t->due.prev;
    t->due = (struct list_node){0};
}

static void link_trial(struct core *c, struct trial *t)
{
    struct list_node *head = &c->metrics->listing.due;
    if (!head->next)
        head->prev = head->next = head;
    t->due = (struct list_node){head->prev, head};
    head->prev->next = &t->due;
    head->prev = &t->due;
}

struct writing {
    struct core *c;
    int64_t experiment;
    const char *group;
};

static void write_value(void *ctx, const struct summary_value *v)
{
    const struct writing *to = ctx;
    char *full = xasprintf("%s.%s", to->group, v->name);
    STORE(to->c, EXPERIMENT_METRIC_SET, to->experiment, full, v->last, v->low, v->high);
    free(full);
}

static size_t write_trial(struct core *c, struct trial *t)
{
    static const char *const groups[] = {"training", "validation"};
    size_t count = 0;
    unlink_trial(t);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct writing to = {c, t->active->experiment->id, groups[i]};
        count += summary_each(t->summary, groups[i], write_value, &to);
    }
    return count;
}

void listing_report(struct core *c, struct trial *t)
{
    if (trial_is_terminal(t->state))
        write_trial(c, t);
    else if (!t->due.next)
        link_trial(c, t);
}

void listing_end(struct core *c, struct trial *t)
{
    if (t->due.next)
        write_trial(c, t);
}

void listing_forget(struct trial *t)
{
    unlink_trial(t);
}

static void have_a_turn(struct core *c, void *arg)
{
    (void)c; // its end does the work
    (void)arg;
}

void listing_flush(struct core *c)
{
    struct listing *l = &c->metrics->listing;
    l->credit += (double)(c->now - l->at) / 1e6 * LISTING_RATE;
    l->credit = l->credit > LISTING_BURST ? LISTING_BURST : l->credit;
    l->at = c->now;
    while (l->due.next && l->due.next != &l->due && l->credit > 0)
        l->credit -= (double)write_trial(c, trial_of(l->due.next));
    if (l->due.next && l->due.next != &l->due && !l->again.place) {
        l->again.fire = have_a_turn;
        timer_set(&c->timers, &l->again, c->now + AGAIN_US);
    }
}
