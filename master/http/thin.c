#include "master/http/thin.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"

void thin_init(struct thin *t, size_t max)
{
    must(max >= THIN_MIN);
    *t = (struct thin){.width = 1, .max = max};
    t->stretches = xcalloc(max, sizeof *t->stretches);
}

// How many stretches there may be: two points of each are kept, and the first and the last.
static size_t room_for(const struct thin *t)
{
    return t->width == 1 ? t->max : (t->max - 2) / 2;
}

void thin_free(struct thin *t)
{
    free(t->stretches);
}

static bool is_less(double a, double b)
{
    return isnan(a) ? !isnan(b) : a < b;
}

static void join(struct thin_stretch *into, const struct thin_stretch *next)
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
static void widen(struct thin *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i += 2, n++) {
        struct thin_stretch joined = t->stretches[i];
        if (i + 1 < t->count)
            join(&joined, &t->stretches[i + 1]);
        t->stretches[n] = joined;
    }
    t->count = n;
    t->width *= 2;
}

void thin_add(struct thin *t, struct thin_point p)
{
    struct thin_stretch one = {p, p, t->total, t->total};
    if (t->total && t->total % t->width) {
        join(&t->stretches[t->count - 1], &one);
    } else {
        while (t->count >= room_for(t))
            widen(t);
        // After widening, this point may belong to the last stretch.
        if (t->total % t->width)
            join(&t->stretches[t->count - 1], &one);
        else
            t->stretches[t->count++] = one;
    }
    if (!t->total)
        t->first = p;
    t->last = p;
    t->total++;
}

static void emit_stretch(const struct thin *t, const struct thin_stretch *s,
                         void (*emit)(void *ctx, const struct thin_point *p), void *ctx)
{
    bool least_first = s->least_at <= s->greatest_at;
    const uint64_t at[] = {least_first ? s->least_at : s->greatest_at,
                           least_first ? s->greatest_at : s->least_at};
    const struct thin_point *points[] = {least_first ? &s->least : &s->greatest,
                                         least_first ? &s->greatest : &s->least};
    for (int i = 0; i < 2; i++)
        if (at[i] && at[i] != t->total - 1 && (i == 0 || at[1] != at[0]))
            emit(ctx, points[i]);
}

void thin_each(const struct thin *t, void (*emit)(void *ctx, const struct thin_point *p), void *ctx)
{
    if (t->total)
        emit(ctx, &t->first);
    for (size_t i = 0; i < t->count; i++)
        emit_stretch(t, &t->stretches[i], emit, ctx);
    if (t->total > 1)
        emit(ctx, &t->last);
}
