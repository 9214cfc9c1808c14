// While points come in they are kept as stretches of equal width, up to two points of each, which
// are twice as many as will be shown at most; a new stretch too many doubles the width. At the end,
// half of what is shown are extremes of wider stretches, the other half is chosen by LTTB.

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
    *t = (struct downsampler){.width = 1, .max = max};
    t->stretches = xcalloc(2 * max, sizeof *t->stretches);
}

// How many stretches there may be; those of one point have but one.
static size_t room_for(const struct downsampler *t)
{
    return t->width == 1 ? 2 * t->max : t->max;
}

void downsampler_free(struct downsampler *t)
{
    free(t->stretches);
    free(t->points);
}

static bool is_less(double a, double b)
{
    return isnan(a) ? !isnan(b) : a < b;
}

static void join(struct downsample_interval *into, const struct downsample_interval *next)
{
    if (is_less(next->least.value, into->least.value)) {
        into->least = next->least;
        into->least_at = next->least_at;
    }
    if (is_less(into->greatest.value, next->greatest.value)) {
        into->greatest = next->greatest;
        into->greatest_at = next->greatest_at;
    }
}

// Twice as wide, half as many.
static void widen(struct downsampler *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i += 2, n++) {
        struct downsample_interval joined = t->stretches[i];
        if (i + 1 < t->count)
            join(&joined, &t->stretches[i + 1]);
        t->stretches[n] = joined;
    }
    t->count = n;
    t->width *= 2;
}

static void take(struct downsample_interval *s, const struct downsample_point *p, uint64_t at)
{
    if (is_less(p->value, s->least.value)) {
        s->least = *p;
        s->least_at = at;
    }
    if (is_less(s->greatest.value, p->value)) {
        s->greatest = *p;
        s->greatest_at = at;
    }
}

static struct downsample_point point(const struct downsample_input *r, size_t i)
{
    return (struct downsample_point){r->steps[i], r->times[i], r->values[i]};
}

// Points that go into the last stretch, which most of them change nothing of.
static void take_run(struct downsampler *t, const struct downsample_input *r, size_t from,
                     size_t end)
{
    struct downsample_interval *s = &t->stretches[t->count - 1];
    double least = s->least.value, greatest = s->greatest.value;
    for (size_t i = from; i < end; i++) {
        if (r->values[i] >= least && r->values[i] <= greatest)
            continue;
        struct downsample_point p = point(r, i);
        take(s, &p, t->total + (i - from));
        least = s->least.value;
        greatest = s->greatest.value;
    }
    t->total += end - from;
}

static void begin_stretch(struct downsampler *t, struct downsample_point p)
{
    t->stretches[t->count++] = (struct downsample_interval){p, p, t->total, t->total};
    t->total++;
}

void downsampler_add(struct downsampler *t, const struct downsample_input *r)
{
    if (!r->count)
        return;
    if (!t->total)
        t->first = point(r, 0);
    t->last = point(r, r->count - 1);
    for (size_t i = 0; i < r->count;) {
        uint64_t in = t->total & (t->width - 1);
        if (!in && t->count >= room_for(t)) {
            widen(t); // after which this point may belong to the last stretch
            continue;
        }
        if (!in) {
            begin_stretch(t, point(r, i++));
            continue;
        }
        size_t left = r->count - i, fits = (size_t)(t->width - in);
        size_t end = i + (left < fits ? left : fits);
        take_run(t, r, i, end);
        i = end;
    }
}

// --- the choice ----------------------------------------------------------------------------------

struct choice {
    struct downsample_point *points; // first, the extremes of stretches, last
    bool *chosen;
    size_t count;
};

static void gather(const struct downsampler *t, struct choice *c)
{
    c->points = xcalloc(2 * t->count + 2, sizeof *c->points);
    c->chosen = xcalloc(2 * t->count + 2, sizeof *c->chosen);
    c->points[c->count++] = t->first;
    for (size_t i = 0; i < t->count; i++) {
        const struct downsample_interval *s = &t->stretches[i];
        bool least_first = s->least_at <= s->greatest_at;
        uint64_t at[] = {least_first ? s->least_at : s->greatest_at,
                         least_first ? s->greatest_at : s->least_at};
        for (int k = 0; k < 2; k++)
            if (at[k] && at[k] != t->total - 1 && (k == 0 || at[1] != at[0]))
                c->points[c->count++] = (k == 0) == least_first ? s->least : s->greatest;
    }
    if (t->total > 1)
        c->points[c->count++] = t->last;
}

// Where part `i` of `parts` begins, of what lies between the first and the last.
static size_t part(const struct choice *c, size_t i, size_t parts)
{
    return 1 + (c->count - 2) * i / parts;
}

static void choose_extremes(struct choice *c, size_t parts)
{
    for (size_t i = 0; i < parts; i++) {
        size_t begin = part(c, i, parts), end = part(c, i + 1, parts), low = begin, high = begin;
        for (size_t k = begin; k < end; k++) {
            low = is_less(c->points[k].value, c->points[low].value) ? k : low;
            high = is_less(c->points[high].value, c->points[k].value) ? k : high;
        }
        c->chosen[low] = c->chosen[high] = true;
    }
}

static struct downsample_point middle_of(const struct choice *c, size_t begin, size_t end)
{
    double step = 0, value = 0;
    for (size_t k = begin; k < end; k++) {
        step += (double)c->points[k].step / (double)(end - begin);
        value += c->points[k].value / (double)(end - begin);
    }
    return (struct downsample_point){.step = (int64_t)step, .value = value};
}

// Of each part the point that makes the largest triangle with the one before it and the middle of
// the part after it.
static void choose_shape(struct choice *c, size_t parts)
{
    size_t last = 0;
    for (size_t i = 0; i < parts; i++) {
        size_t begin = part(c, i, parts), end = part(c, i + 1, parts), best = begin;
        size_t after = i + 1 < parts ? part(c, i + 2, parts) : c->count;
        struct downsample_point next = middle_of(c, end, after), *before = &c->points[last];
        double largest = -1;
        for (size_t k = begin; k < end; k++) {
            double area =
                fabs((double)(before->step - next.step) * (c->points[k].value - before->value) -
                     (double)(before->step - c->points[k].step) * (next.value - before->value));
            if (area > largest) { // not where a value is no number
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
    struct choice c = {0};
    if (!t->total)
        return;
    gather(t, &c);
    if (c.count > t->max) {
        size_t extremes = t->max / 4;
        choose_extremes(&c, extremes);
        choose_shape(&c, t->max - 2 - 2 * extremes);
        c.chosen[0] = c.chosen[c.count - 1] = true;
    } else {
        memset(c.chosen, true, c.count);
    }
    t->points = c.points;
    for (size_t i = 0; i < c.count; i++)
        if (c.chosen[i])
            t->points[t->shown++] = c.points[i];
    free(c.chosen);
}
