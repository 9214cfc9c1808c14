// Thinning of a long series for a chart: at most `max` points that keep the first and the last, of
// every stretch the least and the greatest, and between them those that make the shape (LTTB:
// Steinarsson, "Downsampling Time Series for Visual Representation", 2013). One pass over the
// series, memory in proportion to `max`. A NaN counts as the least, so that it is not lost.
#ifndef MUSTER_MASTER_VIEWS_THIN_H
#define MUSTER_MASTER_VIEWS_THIN_H

#include <stddef.h>
#include <stdint.h>

struct downsample_point {
    int64_t step, time;
    double value;
};

struct downsample_input { // points of a series that follow each other
    const int64_t *steps, *times;
    const double *values;
    size_t count;
};

struct downsample_interval {
    struct downsample_point least, greatest;
    uint64_t least_at, greatest_at; // place in the series
};

struct downsampler {
    struct downsample_interval *stretches; // owned, as are the points
    size_t count, max;
    uint64_t width, total; // points of a stretch; points seen
    struct downsample_point first, last;
    struct downsample_point *points; // what is left, in order, after downsampler_finish()
    size_t shown;
};

enum { DOWNSAMPLE_MIN = 8 };

void downsampler_init(struct downsampler *t, size_t max); // max >= DOWNSAMPLE_MIN
void downsampler_free(struct downsampler *t);
void downsampler_add(struct downsampler *t, const struct downsample_input *r);
void downsampler_finish(struct downsampler *t); // once, after the last point

#endif
