// Downsampling of a long series for a chart: keeps the first and the last point, the extremes of
// all parts, and the points that form the shape, `max` points at most. (LTTB: Steinarsson,
// "Downsampling Time Series for Visual Representation", 2013.) One pass over the series; memory is
// proportional to `max`. A NaN counts as the smallest value, so that it is not lost.
#ifndef MUSTER_MASTER_VIEWS_METRICS_DOWNSAMPLE_H
#define MUSTER_MASTER_VIEWS_METRICS_DOWNSAMPLE_H

#include <stddef.h>
#include <stdint.h>

struct downsample_point {
    int64_t step, time;
    double value;
};

struct downsample_input { // consecutive points of a series
    const int64_t *steps, *times;
    const double *values;
    size_t count;
};

struct downsample_interval {
    struct downsample_point min, max;
    uint64_t min_at, max_at; // index in the series
};

struct downsampler {
    struct downsample_interval *intervals; // owned, like `points`
    size_t count, max_points;
    uint64_t width, total; // points of an interval; points added
    struct downsample_point first, last;
    struct downsample_point *points; // the result in order, after downsampler_finish()
    size_t point_count;
};

enum { DOWNSAMPLE_MIN = 8 };

void downsampler_init(struct downsampler *t, size_t max); // max >= DOWNSAMPLE_MIN
void downsampler_free(struct downsampler *t);
void downsampler_add(struct downsampler *t, const struct downsample_input *r);
void downsampler_finish(struct downsampler *t); // once, after the last point

#endif
