#include "master/core/listing.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/json.h"
#include "master/core/lives.h"
#include "master/core/loop.h"

enum { AGAIN_US = 100 * 1000 };

static struct trial *trial_of(struct ring *r)
{
    return (struct trial *)((char *)r - offsetof(struct trial, due));
}

static void unlink_trial(struct trial *t)
{
    if (!t->due.next)
        return;
    t->due.prev->next = t->due.next;
    t->due.next->prev = t->due.prev;
    t->due = (struct ring){0};
}

static void link_trial(struct core *c, struct trial *t)
{
    struct ring *head = &c->metrics_listing.due;
    if (!head->next)
        head->prev = head->next = head;
    t->due = (struct ring){head->prev, head};
    head->prev->next = &t->due;
    head->prev = &t->due;
}

// The metrics of a group of the summary; how many.
static size_t write_group(struct core *c, const struct trial *t, const char *group,
                          const char *prefix)
{
    const char *name;
    json_t *metric;
    json_t *metrics = json_object_get(t->summary, group);
    json_object_foreach(metrics, name, metric)
    {
        char *full = xasprintf("%s.%s", prefix, name);
        double last = jget_double(metric, "last", 0);
        STORE(c, EXPERIMENT_METRIC_SET, "isddd", t->live->experiment->id, full, last,
              jget_double(metric, "min", last), jget_double(metric, "max", last));
        free(full);
    }
    return json_object_size(metrics);
}

static size_t write_trial(struct core *c, struct trial *t)
{
    unlink_trial(t);
    return write_group(c, t, "avg_metrics", "training") +
           write_group(c, t, "validation_metrics", "validation");
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
    struct listing *l = &c->metrics_listing;
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
