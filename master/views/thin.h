// Thinning of a long series for a chart: at most `max` points that keep the first and the last, of
// every stretch the least and the greatest, and between them those that make the shape (LTTB:
// Steinarsson, "Downsampling Time Series for Visual Representation", 2013). One pass over the
// series, memory in proportion to `max`. A NaN counts as the least, so that it is not lost.
#ifndef MUSTER_MASTER_VIEWS_THIN_H
#define MUSTER_MASTER_VIEWS_THIN_H

#include <stddef.h>
#include <stdint.h>

struct thin_point {
    int64_t step, time;
    double value;
};

struct thin_run { // points of a series that follow each other
    const int64_t *steps, *times;
    const double *values;
    size_t count;
};

struct thin_stretch {
    struct thin_point least, greatest;
    uint64_t least_at, greatest_at; // place in the series
};

struct thin {
    struct thin_stretch *stretches; // owned, as are the points
    size_t count, max;
    uint64_t width, total; // points of a stretch; points seen
    struct thin_point first, last;
    struct thin_point *points; // what is left, in order, after thin_finish()
    size_t shown;
};

enum { THIN_MIN = 8 };

void thin_init(struct thin *t, size_t max); // max >= THIN_MIN
void thin_free(struct thin *t);
void thin_add(struct thin *t, const struct thin_run *r);
void thin_finish(struct thin *t); // once, after the last point

#endif
