// The entitlements in a pool: weighted max-min fairness over the tree of teams. Each level divides
// the entitlement of its parent: guarantees first, the rest by weight, and no team gets more than
// it wants.
#include "master/sched/internal.h"

// Slots that a team holds or waits for in the pool, up to its maximum.
int64_t share_wanted(const struct sched *s, const struct sched_pool *p, int team)
{
    const struct team_share *share = &p->shares[team];
    int64_t wanted = share->held + share->waiting, maximum = s->teams[team].spec.maximum;
    return maximum && wanted > maximum ? maximum : wanted;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Gives the guarantees; if their sum exceeds the amount, all are cut in proportion. Returns the
// rest.
static int64_t give_guarantees(const struct sched *s, struct sched_pool *p, int first,
                               int64_t amount)
{
    int64_t sum = 0;
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling) {
        p->shares[t].entitled =
            MILLISLOTS * smaller(s->teams[t].spec.guaranteed, share_wanted(s, p, t));
        sum += p->shares[t].entitled;
    }
    if (sum <= amount)
        return amount - sum;
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling)
        p->shares[t].entitled =
            (int64_t)((double)p->shares[t].entitled * (double)amount / (double)sum);
    return 0;
}

// One round of division by weight: each team that wants more gets its part, up to what it wants.
// Returns what the satisfied teams left over; 0 ends the division.
static int64_t give_by_weight(const struct sched *s, struct sched_pool *p, int first,
                              int64_t amount)
{
    int64_t weights = 0, left = amount;
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling)
        if (p->shares[t].entitled < p->shares[t].wanted)
            weights += s->teams[t].spec.weight;
    if (!weights)
        return 0;
    bool sated = false;
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling) {
        struct team_share *share = &p->shares[t];
        int64_t missing = share->wanted - share->entitled;
        if (missing <= 0)
            continue;
        int64_t part = amount * s->teams[t].spec.weight / weights;
        sated |= missing <= part;
        share->entitled += smaller(missing, part);
        left -= smaller(missing, part);
    }
    return sated ? left : 0;
}

static void divide_among_children(struct sched *s, struct sched_pool *p, int parent, int64_t amount)
{
    int first = s->teams[parent].first_child;
    if (first == SCHED_NONE || !p->shares[parent].wanted)
        return;
    int64_t left = give_guarantees(s, p, first, amount);
    while (left > 0)
        left = give_by_weight(s, p, first, left);
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling)
        divide_among_children(s, p, t, p->shares[t].entitled);
}

// A debt grows while a team has less than it is entitled to and wants, and shrinks while it has
// more.
void share_count_debt(struct sched *s, struct sched_pool *p, int team)
{
    struct team_share *share = &p->shares[team];
    struct sched_team *t = &s->teams[team];
    int64_t passed = s->now - share->counted_at;
    share->counted_at = s->now;
    if (p->policy != SCHED_POLICY_FAIR_SHARE || passed <= 0 || (!share->nominal && !share->held))
        return;
    team_count(s, team, s->now);
    t->debt += (share->nominal - MILLISLOTS * share->held) * (passed / 1000);
    if (t->debt < 0)
        t->debt = 0;
}

void shares_divide(struct sched *s, struct sched_pool *p, int64_t amount)
{
    struct team_share *all = &p->shares[SCHED_ROOT];
    all->entitled = smaller(all->wanted, amount);
    divide_among_children(s, p, SCHED_ROOT, all->entitled);
}

void shares_begin(struct sched *s, struct sched_pool *p)
{
    for (int t = 0; t < s->team_handles.count; t++) {
        if (s->teams[t].used)
            share_count_debt(s, p, t);
        p->shares[t].wanted = MILLISLOTS * share_wanted(s, p, t);
        p->shares[t].entitled = 0;
    }
    shares_divide(s, p, MILLISLOTS * p->capacity);
    for (int t = 0; t < s->team_handles.count; t++)
        p->shares[t].nominal = p->shares[t].entitled;
}

int64_t share_entitled(const struct sched_pool *p, int team)
{
    return (p->shares[team].nominal + MILLISLOTS / 2) / MILLISLOTS;
}
