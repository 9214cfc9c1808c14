// The bytes of whole samples go through the workspace, behind the changes and the scaling; a thread
// makes one number of the result.
#include "trainer/ops/cuda/kernels/vectors.h"

extern "C" {
#include "trainer/ops/image.h"
}

enum { THREADS = 256, ALIGNMENT = 256 };

struct pixel_part { // in the memory of the device
    int64_t count, height, width, channels;
    const uint8_t *bytes;
    const struct ops_pixel_change *changes;
    const float *mean, *factor;
};

static __device__ float pixel_at(const struct pixel_part &p, const struct ops_pixel_change &change,
                                 int64_t sample, int64_t row, int64_t column, int64_t channel)
{
    if (row >= change.top && row < change.bottom && column >= change.left &&
        column < change.right_end)
        return 0;
    int64_t from_row = row - change.down;
    int64_t from_column = (change.flip ? p.width - 1 - column : column) - change.right;
    if (from_row < 0 || from_row >= p.height || from_column < 0 || from_column >= p.width)
        return 0;
    int64_t at = ((sample * p.height + from_row) * p.width + from_column) * p.channels + channel;
    return ((float)p.bytes[at] - p.mean[channel]) * p.factor[channel];
}

template <typename T> static __global__ void pixels_kernel(struct pixel_part p, T *y)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.count)
        return;
    struct quotient place = divide(i, p.channels);
    struct quotient row = divide(place.quotient, p.width);
    struct quotient sample = divide(row.quotient, p.height);
    struct ops_pixel_change change = p.changes[sample.quotient];
    store_rounded(y + i, pixel_at(p, change, sample.quotient, sample.rest, row.rest, place.rest));
}

template <typename T> static void make_reals(const struct pixel_part &p, T *y)
{
    LAUNCH((pixels_kernel<T>), blocks_for(p.count, THREADS), THREADS, 0, p, y);
}

static size_t padded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// Places of the workspace: mean, factor, the changes of `samples` samples, their bytes.
static size_t part_bytes(const struct ops_pixels *p, int64_t samples)
{
    size_t image = (size_t)(p->height * p->width * p->channels), n = (size_t)samples;
    return 2 * padded((size_t)p->channels * sizeof(float)) + padded(n * sizeof *p->changes) +
           n * image;
}

static void upload_part(const struct ops_pixels *p, int64_t first, int64_t samples, real *y)
{
    size_t channels = (size_t)p->channels * sizeof(float);
    size_t image = (size_t)(p->height * p->width * p->channels), n = (size_t)samples;
    char *mean = (char *)cuda_workspace(), *factor = mean + padded(channels);
    char *changes = factor + padded(channels), *bytes = changes + padded(n * sizeof *p->changes);
    ops_upload(mean, p->mean, channels);
    ops_upload(factor, p->factor, channels);
    ops_upload(changes, p->changes + first, n * sizeof *p->changes);
    ops_upload(bytes, p->bytes + (size_t)first * image, n * image);
    const struct pixel_part part = {(int64_t)(n * image),
                                    p->height,
                                    p->width,
                                    p->channels,
                                    (const uint8_t *)bytes,
                                    (const struct ops_pixel_change *)changes,
                                    (const float *)mean,
                                    (const float *)factor};
    real *to = (real *)ops_reals_at(y, (size_t)first * image);
    DISPATCH(T, make_reals(part, reals<T>(to)));
}

void ops_upload_pixels(int64_t samples, const struct ops_pixels *p, real *y)
{
    int64_t image = p->height * p->width * p->channels, fitting = samples;
    int64_t most = CUDA_WORKSPACE_BYTES / image;
    if (fitting > most)
        fitting = most;
    while (fitting > 1 && part_bytes(p, fitting) > CUDA_WORKSPACE_BYTES)
        fitting--;
    for (int64_t first = 0; first < samples; first += fitting) {
        int64_t left = samples - first;
        upload_part(p, first, left < fitting ? left : fitting, y);
    }
}
