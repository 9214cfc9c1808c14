#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "trainer/ops/image.h"
#include "trainer/ops/loops.h"

// mean and factor of every number of a row, so that the loop is long enough to be fast; and room
// for a row of bytes.
struct row_scaling {
    float *mean, *factor; // [width, channels]
    uint8_t *mirrored;    // [width, channels]
};

static struct row_scaling row_scaling_new(const struct ops_pixels *p)
{
    size_t n = (size_t)(p->width * p->channels);
    struct row_scaling s = {xcalloc(n, sizeof *s.mean), xcalloc(n, sizeof *s.factor),
                            xcalloc(n, 1)};
    for (size_t i = 0; i < n; i++) {
        s.mean[i] = p->mean[i % (size_t)p->channels];
        s.factor[i] = p->factor[i % (size_t)p->channels];
    }
    return s;
}

LOOPS_CLONED static void scale_bytes(const uint8_t *x, int64_t n, const float *mean,
                                     const float *factor, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = ((float)x[i] - mean[i]) * factor[i];
}

LOOPS_CLONED static void scale_grey(const uint8_t *x, int64_t n, float mean, float factor, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = ((float)x[i] - mean) * factor;
}

// Grey and coloured images have loops of their own, which the compiler vectorises.
LOOPS_CLONED static void mirror_bytes(const uint8_t *x, int64_t pixels, int64_t channels,
                                      uint8_t *y)
{
    const uint8_t *last = x + (pixels - 1) * channels;
    if (channels == 1)
        for (int64_t i = 0; i < pixels; i++)
            y[i] = last[-i];
    else if (channels == 3)
        for (int64_t i = 0; i < pixels; i++) {
            y[3 * i] = last[-3 * i];
            y[3 * i + 1] = last[-3 * i + 1];
            y[3 * i + 2] = last[-3 * i + 2];
        }
    else
        for (int64_t i = 0; i < pixels; i++)
            memcpy(y + i * channels, last - i * channels, (size_t)channels);
}

// One row of the result, of the row `from` of the sample; NULL: it was shifted in.
static void fill_row(const struct ops_pixels *p, const struct row_scaling *s,
                     const struct ops_pixel_change *change, const uint8_t *from, float *y)
{
    int64_t right = change->flip ? -change->right : change->right; // of the mirrored row
    int64_t row = p->width * p->channels, aside = (right < 0 ? -right : right) * p->channels;
    int64_t kept = row - aside;
    if (!from || kept <= 0) {
        memset(y, 0, (size_t)row * sizeof *y);
        return;
    }
    if (change->flip) {
        mirror_bytes(from, p->width, p->channels, s->mirrored);
        from = s->mirrored;
    }
    scale_bytes(right < 0 ? from + aside : from, kept, s->mean, s->factor,
                right > 0 ? y + aside : y);
    if (aside > 0)
        memset(right > 0 ? y : y + kept, 0, (size_t)aside * sizeof *y);
}

static void fill_rows(const struct ops_pixels *p, const struct row_scaling *s,
                      const struct ops_pixel_change *change, const uint8_t *bytes, float *y)
{
    int64_t row = p->width * p->channels;
    for (int64_t i = 0; i < p->height; i++) {
        int64_t from = i - change->down;
        fill_row(p, s, change, from >= 0 && from < p->height ? bytes + from * row : NULL,
                 y + i * row);
    }
}

static void fill_sample(const struct ops_pixels *p, const struct row_scaling *s, int64_t sample,
                        float *y)
{
    const struct ops_pixel_change *change = &p->changes[sample];
    int64_t row = p->width * p->channels;
    const uint8_t *bytes = p->bytes + sample * p->height * row;
    if (p->channels == 1 && !change->down && !change->right && !change->flip)
        scale_grey(bytes, p->height * row, *p->mean, *p->factor, y);
    else
        fill_rows(p, s, change, bytes, y);
    for (int64_t i = change->top; i < change->bottom; i++)
        memset(y + i * row + change->left * p->channels, 0,
               (size_t)((change->right_end - change->left) * p->channels) * sizeof *y);
}

void ops_upload_pixels(int64_t samples, const struct ops_pixels *p, real *y)
{
    struct row_scaling s = row_scaling_new(p);
    for (int64_t i = 0; i < samples; i++)
        fill_sample(p, &s, i, y + i * p->height * p->width * p->channels);
    free(s.mean);
    free(s.factor);
    free(s.mirrored);
}
