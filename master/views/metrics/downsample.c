// Input points go into intervals of equal width, each of which keeps its smallest and its largest
// point. The number of intervals is limited; when it is reached, neighbors merge and the width
// doubles. At the end, half of the points that are kept are extremes of larger parts; LTTB chooses
// the other half.

#include "master/views/metrics/downsample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

void downsampler_init(struct downsampler *t, size_t max)
{
    must(max >= DOWNSAMPLE_MIN);
    *t = (struct downsampler){.width = 1, .max_points = max};
    t->intervals = xcalloc(2 * max, sizeof *t->intervals);
}

// Intervals of one point hold one candidate each, so twice as many fit.
static size_t interval_capacity(const struct downsampler *t)
{
    return t->width == 1 ? 2 * t->max_points : t->max_points;
}

void downsampler_free(struct downsampler *t)
{
    free(t->intervals);
    free(t->points);
}

static bool is_less(double a, double b)
{
    return isnan(a) ? !isnan(b) : a < b;
}

static void interval_merge(struct downsample_interval *into, const struct downsample_interval *next)
{
    if (is_less(next->min.value, into->min.value)) {
        into->min = next->min;
        into->min_at = next->min_at;
    }
    if (is_less(into->max.value, next->max.value)) {
        into->max = next->max;
        into->max_at = next->max_at;
    }
}

// Merges neighboring intervals.
static void double_width(struct downsampler *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i += 2, n++) {
        struct downsample_interval joined = t->intervals[i];
        if (i + 1 < t->count)
            interval_merge(&joined, &t->intervals[i + 1]);
        t->intervals[n] = joined;
    }
    t->count = n;
    t->width *= 2;
}

static void interval_add_point(struct downsample_interval *s, const struct downsample_point *p,
                               uint64_t at)
{
    if (is_less(p->value, s->min.value)) {
        s->min = *p;
        s->min_at = at;
    }
    if (is_less(s->max.value, p->value)) {
        s->max = *p;
        s->max_at = at;
    }
}

static struct downsample_point point_at(const struct downsample_input *r, size_t i)
{
    return (struct downsample_point){r->steps[i], r->times[i], r->values[i]};
}

// Adds points to the last interval. Most points change neither extreme, so that case is fast.
static void downsampler_add_run(struct downsampler *t, const struct downsample_input *r,
                                size_t from, size_t end)
{
    struct downsample_interval *s = &t->intervals[t->count - 1];
    double min = s->min.value, max = s->max.value;
    for (size_t i = from; i < end; i++) {
        if (r->values[i] >= min && r->values[i] <= max)
            continue;
        struct downsample_point p = point_at(r, i);
        interval_add_point(s, &p, t->total + (i - from));
        min = s->min.value;
        max = s->max.value;
    }
    t->total += end - from;
}

static void begin_interval(struct downsampler *t, struct downsample_point p)
{
    t->intervals[t->count++] = (struct downsample_interval){p, p, t->total, t->total};
    t->total++;
}

void downsampler_add(struct downsampler *t, const struct downsample_input *r)
{
    if (!r->count)
        return;
    if (!t->total)
        t->first = point_at(r, 0);
    t->last = point_at(r, r->count - 1);
    for (size_t i = 0; i < r->count;) {
        uint64_t in = t->total & (t->width - 1);
        if (!in && t->count >= interval_capacity(t)) {
            double_width(t); // this point may belong to the last interval now
            continue;
        }
        if (!in) {
            begin_interval(t, point_at(r, i++));
            continue;
        }
        size_t left = r->count - i, fits = (size_t)(t->width - in);
        size_t end = i + (left < fits ? left : fits);
        downsampler_add_run(t, r, i, end);
        i = end;
    }
}

// --- the choice ----------------------------------------------------------------------------------

struct downsample_selection {
    struct downsample_point *points; // first, the extremes of all intervals, last
    bool *chosen;
    size_t count;
};

static void collect_candidates(const struct downsampler *t, struct downsample_selection *c)
{
    c->points = xcalloc(2 * t->count + 2, sizeof *c->points);
    c->chosen = xcalloc(2 * t->count + 2, sizeof *c->chosen);
    c->points[c->count++] = t->first;
    for (size_t i = 0; i < t->count; i++) {
        const struct downsample_interval *s = &t->intervals[i];
        bool min_first = s->min_at <= s->max_at;
        uint64_t at[] = {min_first ? s->min_at : s->max_at, min_first ? s->max_at : s->min_at};
        for (int k = 0; k < 2; k++)
            if (at[k] && at[k] != t->total - 1 && (k == 0 || at[1] != at[0]))
                c->points[c->count++] = (k == 0) == min_first ? s->min : s->max;
    }
    if (t->total > 1)
        c->points[c->count++] = t->last;
}

// Returns where part `i` of `parts` begins; the first and the last point belong to no part.
static size_t part_begin(const struct downsample_selection *c, size_t i, size_t parts)
{
    return 1 + (c->count - 2) * i / parts;
}

static void choose_extremes(struct downsample_selection *c, size_t parts)
{
    for (size_t i = 0; i < parts; i++) {
        size_t begin = part_begin(c, i, parts), end = part_begin(c, i + 1, parts), low = begin,
               high = begin;
        for (size_t k = begin; k < end; k++) {
            low = is_less(c->points[k].value, c->points[low].value) ? k : low;
            high = is_less(c->points[high].value, c->points[k].value) ? k : high;
        }
        c->chosen[low] = c->chosen[high] = true;
    }
}

static struct downsample_point average_of(const struct downsample_selection *c, size_t begin,
                                          size_t end)
{
    double step = 0, value = 0;
    for (size_t k = begin; k < end; k++) {
        step += (double)c->points[k].step / (double)(end - begin);
        value += c->points[k].value / (double)(end - begin);
    }
    return (struct downsample_point){.step = (int64_t)step, .value = value};
}

// LTTB: chooses from each part the point that forms the largest triangle with the chosen point
// before it and the average of the next part.
static void choose_shape(struct downsample_selection *c, size_t parts)
{
    size_t last = 0;
    for (size_t i = 0; i < parts; i++) {
        size_t begin = part_begin(c, i, parts), end = part_begin(c, i + 1, parts), best = begin;
        size_t after = i + 1 < parts ? part_begin(c, i + 2, parts) : c->count;
        struct downsample_point next = average_of(c, end, after), *before = &c->points[last];
        double largest = -1;
        for (size_t k = begin; k < end; k++) {
            double area =
                fabs((double)(before->step - next.step) * (c->points[k].value - before->value) -
                     (double)(before->step - c->points[k].step) * (next.value - before->value));
            if (area > largest) { // false for a NaN
                largest = area;
                best = k;
            }
        }
        c->chosen[best] = true;
        last = best;
    }
}

void downsampler_finish(struct downsampler *t)
{
    struct downsample_selection c = {0};
    if (!t->total)
        return;
    collect_candidates(t, &c);
    if (c.count > t->max_points) {
        size_t extremes = t->max_points / 4;
        choose_extremes(&c, extremes);
        choose_shape(&c, t->max_points - 2 - 2 * extremes);
        c.chosen[0] = c.chosen[c.count - 1] = true;
    } else {
        memset(c.chosen, true, c.count);
    }
    t->points = c.points;
    for (size_t i = 0; i < c.count; i++)
        if (c.chosen[i])
            t->points[t->point_count++] = c.points[i];
    free(c.chosen);
}
