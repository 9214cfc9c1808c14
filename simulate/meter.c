#include "simulate/meter.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"

static const int64_t step_width = METER_STEP_S * SIMULATE_SECOND;

void meter_init(struct simulate_meter *m, int64_t slots, int64_t window, size_t team_count)
{
    *m = (struct simulate_meter){.slots = slots, .window = window, .team_count = team_count};
    m->bin_width = SIMULATE_SECOND;
    m->teams = xcalloc(team_count + 1, sizeof *m->teams);
    for (size_t i = 0; i < team_count; i++)
        m->teams[i].worst = NAN;
}

void meter_free(struct simulate_meter *m)
{
    free(m->teams);
    m->teams = NULL;
}

void meter_wait(struct simulate_meter *m, size_t team, int max_slots)
{
    m->teams[team].demand += max_slots;
    m->teams[team].waiting++;
    m->gangs++;
    m->wanted += max_slots;
    m->changed = true;
}

void meter_hold(struct simulate_meter *m, size_t team, int max_slots, int slots)
{
    m->teams[team].held += slots;
    m->teams[team].waiting--;
    m->held += slots;
    m->gangs--;
    m->wanted -= max_slots;
}

void meter_release(struct simulate_meter *m, size_t team, int max_slots, int slots)
{
    m->teams[team].held -= slots;
    m->teams[team].demand -= max_slots;
    m->held -= slots;
    m->changed = true;
}

// --- entitlement ---------------------------------------------------------------------------------

static double limit_of(const struct meter_team *t)
{
    return fmin((double)t->demand, t->maximum);
}

// Weighted max-min fairness (water filling) over the teams below the root: guarantees first, the
// rest by weight, no team more than it can use. The meter computes it independently, because the
// scheduler is what it measures.
static void teams_entitle(struct simulate_meter *m)
{
    double guaranteed = 0, rest = (double)m->slots;
    for (size_t i = 0; i < m->team_count; i++)
        guaranteed += fmin(m->teams[i].guaranteed, limit_of(&m->teams[i]));
    double scale = guaranteed > rest ? rest / guaranteed : 1;
    for (size_t i = 0; i < m->team_count; i++) {
        struct meter_team *t = &m->teams[i];
        t->entitled = scale * fmin(t->guaranteed, limit_of(t));
        rest -= t->entitled;
    }
    for (bool filled = true; filled && rest > 1e-9;) {
        double weights = 0, level = rest;
        for (size_t i = 0; i < m->team_count; i++)
            weights += m->teams[i].entitled < limit_of(&m->teams[i]) ? m->teams[i].weight : 0;
        filled = false;
        for (size_t i = 0; i < m->team_count && weights > 0; i++) {
            struct meter_team *t = &m->teams[i];
            double room = limit_of(t) - t->entitled;
            double more = room > 0 ? fmin(room, level * t->weight / weights) : 0;
            bool is_full = room > 0 && more >= room;
            t->entitled = is_full ? limit_of(t) : t->entitled + more;
            rest -= more;
            filled |= is_full;
        }
    }
    m->changed = false;
}

// --- windows of 24 hours -------------------------------------------------------------------------

static void end_step(struct meter_team *t, int64_t end)
{
    size_t at = t->steps % METER_STEPS;
    if (t->did_not_wait) {
        t->steps = 0;
        t->sum_held = t->sum_entitled = 0;
    } else {
        if (t->steps >= METER_STEPS) {
            t->sum_held -= t->step_held[at];
            t->sum_entitled -= t->step_entitled[at];
        }
        t->sum_held += t->step_held[at] = t->now_held;
        t->sum_entitled += t->step_entitled[at] = t->now_entitled;
        t->steps++;
        double share = t->sum_held / t->sum_entitled;
        if (t->steps >= METER_STEPS && t->sum_entitled > 0 && !(share >= t->worst)) {
            t->worst = share;
            t->worst_at = (double)end / SIMULATE_SECOND;
        }
    }
    t->now_held = t->now_entitled = 0;
    t->did_not_wait = false;
}

static bool any_team_waits(const struct simulate_meter *m)
{
    for (size_t i = 0; i < m->team_count; i++)
        if (m->teams[i].waiting)
            return true;
    return false;
}

// Ends all windows: no team waits from m->at to `to`.
static void windows_end(struct simulate_meter *m, int64_t to)
{
    bool is_new = to / step_width != m->step;
    for (size_t i = 0; i < m->team_count; i++) {
        m->teams[i].did_not_wait = true;
        if (is_new)
            end_step(&m->teams[i], to);
        m->teams[i].did_not_wait = to % step_width || !is_new;
    }
    m->step = to / step_width;
}

static void shares_advance(struct simulate_meter *m, int64_t to)
{
    if (!any_team_waits(m)) {
        windows_end(m, to);
        return;
    }
    if (m->changed)
        teams_entitle(m);
    for (int64_t from = m->at; from < to;) {
        int64_t end = (m->step + 1) * step_width, until = end < to ? end : to;
        double seconds = (double)(until - from) / SIMULATE_SECOND;
        for (size_t i = 0; i < m->team_count; i++) {
            struct meter_team *t = &m->teams[i];
            t->now_held += (double)t->held * seconds;
            t->now_entitled += t->entitled * seconds;
            t->did_not_wait |= !t->waiting;
            if (until == end)
                end_step(t, end);
        }
        m->step += until == end;
        from = until;
    }
}

// --- use and queue over time ---------------------------------------------------------------------

// The factor 2 keeps `to` within the last bin.
static void bins_widen(struct simulate_meter *m, int64_t to)
{
    while (to > SIMULATE_BINS * m->bin_width) {
        for (size_t i = 0; i < SIMULATE_BINS; i++) {
            struct simulate_bin sum = {0};
            for (size_t k = 2 * i; k < 2 * i + 2 && k < SIMULATE_BINS; k++) {
                sum.held += m->bins[k].held;
                sum.working += m->bins[k].working;
                sum.gangs += m->bins[k].gangs;
                sum.wanted += m->bins[k].wanted;
            }
            m->bins[i] = sum;
        }
        m->bin_width *= 2;
    }
}

static void bins_advance(struct simulate_meter *m, int64_t to)
{
    bins_widen(m, to);
    for (int64_t from = m->at; from < to;) {
        int64_t bin = from / m->bin_width, end = (bin + 1) * m->bin_width;
        end = end < to ? end : to;
        double span = (double)(end - from);
        m->bins[bin].held += (double)m->held * span;
        m->bins[bin].working += (double)m->working * span;
        m->bins[bin].gangs += (double)m->gangs * span;
        m->bins[bin].wanted += (double)m->wanted * span;
        from = end;
    }
}

size_t meter_bins(struct simulate_meter *m, struct simulate_bin *out)
{
    size_t count = (size_t)((m->at + m->bin_width - 1) / m->bin_width);
    for (size_t i = 0; i < count; i++) {
        int64_t begin = (int64_t)i * m->bin_width, end = begin + m->bin_width;
        double span = (double)((end < m->at ? end : m->at) - begin);
        out[i] = (struct simulate_bin){m->bins[i].held / span, m->bins[i].working / span,
                                       m->bins[i].gangs / span, m->bins[i].wanted / span};
    }
    return count;
}

void meter_advance(struct simulate_meter *m, int64_t to)
{
    if (to == m->at)
        return;
    double working = (double)m->working / SIMULATE_SECOND;
    m->work_all += working * (double)(to - m->at);
    if (m->at < m->window)
        m->work_window += working * (double)((to < m->window ? to : m->window) - m->at);
    bins_advance(m, to);
    shares_advance(m, to);
    m->at = to;
}

// --- spreads -------------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Linear interpolation between the two nearest values.
static double percentile(const double *sorted, size_t count, double share)
{
    double at = share * (double)(count - 1);
    size_t low = (size_t)at;
    if (low + 1 >= count)
        return sorted[count - 1];
    return sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low]);
}

struct simulate_spread spread_of(double *values, size_t count)
{
    struct simulate_spread spread = {.count = count};
    if (!count)
        return spread;
    qsort(values, count, sizeof *values, compare_doubles);
    for (size_t i = 0; i < count; i++)
        spread.mean += values[i];
    spread.mean /= (double)count;
    spread.p50 = percentile(values, count, 0.5);
    spread.p99 = percentile(values, count, 0.99);
    spread.max = values[count - 1];
    return spread;
}
