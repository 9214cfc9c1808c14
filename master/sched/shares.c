// Who is entitled to how much: weighted max-min over the tree of teams. Each level divides what its
// parent is entitled to: first the guarantees, then the rest by weight, nobody more than it wants.
#include "master/sched/internal.h"

// Slots that a team wants in the pool: what it has and waits for, up to its maximum.
int64_t share_wanted(const struct sched *s, const struct pool *p, int team)
{
    const struct share *share = &p->shares[team];
    int64_t wanted = share->held + share->waiting, maximum = s->teams[team].spec.maximum;
    return maximum && wanted > maximum ? maximum : wanted;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Guarantees first; more of them than there is are cut in proportion. Returns what is left.
static int64_t give_guarantees(const struct sched *s, struct pool *p, int first, int64_t amount)
{
    int64_t sum = 0;
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling) {
        p->shares[t].entitled = FINE * smaller(s->teams[t].spec.guaranteed, share_wanted(s, p, t));
        sum += p->shares[t].entitled;
    }
    if (sum <= amount)
        return amount - sum;
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling)
        p->shares[t].entitled =
            (int64_t)((double)p->shares[t].entitled * (double)amount / (double)sum);
    return 0;
}

// One round: everybody who wants more gets his part by weight, at most what he wants. Returns what
// those have left over who wanted less; 0 ends it.
static int64_t give_by_weight(const struct sched *s, struct pool *p, int first, int64_t amount)
{
    int64_t weights = 0, left = amount;
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling)
        if (p->shares[t].entitled < p->shares[t].wanted)
            weights += s->teams[t].spec.weight;
    if (!weights)
        return 0;
    bool sated = false;
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling) {
        struct share *share = &p->shares[t];
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

static void divide(struct sched *s, struct pool *p, int parent, int64_t amount)
{
    int first = s->teams[parent].first_child;
    if (first == SCHED_NONE || !p->shares[parent].wanted)
        return;
    int64_t left = give_guarantees(s, p, first, amount);
    while (left > 0)
        left = give_by_weight(s, p, first, left);
    for (int t = first; t != SCHED_NONE; t = s->teams[t].next_sibling)
        divide(s, p, t, p->shares[t].entitled);
}

// A debt is what a team was entitled to, wanted and did not have; having more later pays it back.
void share_count_debt(struct sched *s, struct pool *p, int team)
{
    struct share *share = &p->shares[team];
    struct team *t = &s->teams[team];
    int64_t passed = s->now - share->counted_at;
    share->counted_at = s->now;
    if (p->policy != SCHED_POLICY_FAIR_SHARE || passed <= 0 || (!share->nominal && !share->held))
        return;
    team_count(s, team, s->now);
    t->debt += (share->nominal - FINE * share->held) * (passed / 1000);
    if (t->debt < 0)
        t->debt = 0;
}

void shares_divide(struct sched *s, struct pool *p, int64_t amount)
{
    struct share *all = &p->shares[SCHED_ROOT];
    all->entitled = smaller(all->wanted, amount);
    divide(s, p, SCHED_ROOT, all->entitled);
}

void shares_begin(struct sched *s, struct pool *p)
{
    for (int t = 0; t < s->team_handles.count; t++) {
        if (s->teams[t].used)
            share_count_debt(s, p, t);
        p->shares[t].wanted = FINE * share_wanted(s, p, t);
        p->shares[t].entitled = 0;
    }
    shares_divide(s, p, FINE * p->capacity);
    for (int t = 0; t < s->team_handles.count; t++)
        p->shares[t].nominal = p->shares[t].entitled;
}

int64_t share_entitled(const struct pool *p, int team)
{
    return (p->shares[team].nominal + FINE / 2) / FINE;
}
