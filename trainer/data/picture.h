// Pictures: reads PNG, JPEG and PNM (P5, P6) files and resizes them. Pure functions of the files,
// any thread; the caller frees.
#ifndef MUSTER_TRAINER_DATA_PICTURE_H
#define MUSTER_TRAINER_DATA_PICTURE_H

#include <stdint.h>

#include "base/error.h"

struct picture {
    int64_t height, width;
    int64_t channels; // 1 (grey) or 3 (red, green, blue)
    uint8_t *pixels;  // [height, width, channels]
};

// The first bytes tell the format. Transparent pixels become black, 16 bits become 8, CMYK becomes
// RGB; orientation tags are ignored. ERR_CORRUPT: not a picture, damaged or cut short.
// ERR_TOO_LARGE: more than 2^27 pixels.
int picture_read(const char *path, struct picture *out, struct error *e);
void picture_free(struct picture *p);

// Crops the middle of the picture to the aspect ratio of the result and resizes it. Each pixel is
// the weighted mean of its surroundings; the weight is a triangle as wide as a pixel of the coarser
// image (bilinear when enlarging, an area average when shrinking). out: [height, width, channels].
void picture_fit(const struct picture *p, int64_t height, int64_t width, int64_t channels,
                 uint8_t *out);

#endif
