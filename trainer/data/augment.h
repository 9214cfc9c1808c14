// Augmentation of training images: random shifts, mirroring and cut-outs. Pure functions of (seed,
// step, sample) for any thread; the order of the draws changes nothing.
#ifndef MUSTER_TRAINER_DATA_AUGMENT_H
#define MUSTER_TRAINER_DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/data/dataset.h"

struct augment { // all zero: no augmentation
    bool flip;
    int64_t crop;   // pixels of zero padding around the image before a part of its size is cut out
    int64_t cutout; // side of the square that is set to zero (DeVries & Taylor 2017)
};

struct augment_draw {    // the changes of one sample
    bool flip;           // swap left and right
    int64_t down, right; // distance of the shift, -crop..crop; new pixels are zero
    int64_t row, column; // middle of the cut-out, which may extend beyond the edge
};

// The draws of (key, sample) for images of that shape.
struct augment_draw augment_draw(const struct augment *a, const struct sample_shape *shape,
                                 const struct draw_key *key, int64_t sample);

// Applies the draw to a scaled image [height, width, channels], in which zero is the mean: shift,
// then mirror, then cut out.
void augment_apply(const struct augment *a, const struct sample_shape *shape,
                   const struct augment_draw *draw, float *image);

// The same as a change of pixels, which the device applies.
struct ops_pixel_change augment_change(const struct augment *a, const struct sample_shape *shape,
                                       const struct augment_draw *draw);

#endif
