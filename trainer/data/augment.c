#include "trainer/data/augment.h"

#include <string.h>

#include "base/rng.h"

#define AUGMENT_DRAW UINT64_C(0x6175676d656e74) // key of these draws, distinct from all others

// A whole number in [0, n) made from 32 random bits.
static int64_t random_below(uint32_t bits, int64_t n)
{
    return (int64_t)((uint64_t)bits * (uint64_t)n >> 32);
}

struct augment_draw augment_draw(const struct augment *a, const struct sample_shape *shape,
                                 const struct draw_key *key, int64_t sample)
{
    uint32_t of_step[4], bits[4];
    philox4x32(key->seed, AUGMENT_DRAW, (uint64_t)key->step, of_step);
    uint64_t own = (uint64_t)of_step[0] << 32 | of_step[1];
    philox4x32(own, 0, (uint64_t)sample, bits);
    return (struct augment_draw){
        .flip = a->flip && bits[0] >> 31,
        .down = random_below(bits[1], 2 * a->crop + 1) - a->crop,
        .right = random_below(bits[2], 2 * a->crop + 1) - a->crop,
        .row = random_below(bits[3] & 0xffff0000, shape->height),
        .column = random_below(bits[3] << 16, shape->width),
    };
}

// Moves the rows in an order in which no row is overwritten before it was moved.
static void shift_image(const struct sample_shape *s, int64_t down, int64_t right, float *image)
{
    int64_t pixel = s->channels, row = s->width * pixel;
    int64_t aside = (right < 0 ? -right : right) * pixel, kept = row - aside;
    for (int64_t i = 0; i < s->height; i++) {
        int64_t y = down > 0 ? s->height - 1 - i : i, from_y = y - down;
        float *to = image + y * row;
        const float *from = image + from_y * row;
        if (from_y < 0 || from_y >= s->height || kept <= 0) {
            memset(to, 0, (size_t)row * sizeof *to);
            continue;
        }
        memmove(right > 0 ? to + aside : to, right > 0 ? from : from + aside,
                (size_t)kept * sizeof *to);
        memset(right > 0 ? to : to + kept, 0, (size_t)aside * sizeof *to);
    }
}

static void mirror_image(const struct sample_shape *s, float *image)
{
    for (int64_t y = 0; y < s->height; y++) {
        float *left = image + y * s->width * s->channels;
        float *right = left + (s->width - 1) * s->channels;
        for (; left < right; left += s->channels, right -= s->channels)
            for (int64_t c = 0; c < s->channels; c++) {
                float kept = left[c];
                left[c] = right[c];
                right[c] = kept;
            }
    }
}

struct square { // the part of a cut-out that is in the image
    int64_t top, bottom, left, right;
};

static struct square cut_out(const struct sample_shape *s, int64_t side,
                             const struct augment_draw *draw)
{
    int64_t top = draw->row - side / 2, left = draw->column - side / 2;
    int64_t bottom = top + side, right = left + side;
    return (struct square){top < 0 ? 0 : top, bottom > s->height ? s->height : bottom,
                           left < 0 ? 0 : left, right > s->width ? s->width : right};
}

static void cut_out_square(const struct sample_shape *s, int64_t side,
                           const struct augment_draw *draw, float *image)
{
    struct square cut = cut_out(s, side, draw);
    for (int64_t y = cut.top; y < cut.bottom; y++)
        memset(image + (y * s->width + cut.left) * s->channels, 0,
               (size_t)((cut.right - cut.left) * s->channels) * sizeof *image);
}

void augment_apply(const struct augment *a, const struct sample_shape *shape,
                   const struct augment_draw *draw, float *image)
{
    if (draw->down || draw->right)
        shift_image(shape, draw->down, draw->right, image);
    if (draw->flip)
        mirror_image(shape, image);
    if (a->cutout)
        cut_out_square(shape, a->cutout, draw, image);
}

struct ops_pixel_change augment_change(const struct augment *a, const struct sample_shape *shape,
                                       const struct augment_draw *draw)
{
    struct square cut = a->cutout ? cut_out(shape, a->cutout, draw) : (struct square){0};
    return (struct ops_pixel_change){
        .down = (int32_t)draw->down,
        .right = (int32_t)draw->right,
        .flip = draw->flip,
        .top = (int32_t)cut.top,
        .bottom = (int32_t)cut.bottom,
        .left = (int32_t)cut.left,
        .right_end = (int32_t)cut.right,
    };
}
