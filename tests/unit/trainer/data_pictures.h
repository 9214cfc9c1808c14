// Makes picture files.
#ifndef MUSTER_TESTS_TRAINER_DATA_PICTURES_H
#define MUSTER_TESTS_TRAINER_DATA_PICTURES_H

#include <png.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h> // after stdio.h, which it needs

#include "base/log.h"

static inline void make_png(const char *name, int width, int height, png_uint_32 format,
                            const uint8_t *pixels)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = format};
    must(png_image_write_to_file(&image, name, 0, pixels, 0, NULL));
}

static inline void make_jpeg(const char *name, int width, int height, int channels,
                             J_COLOR_SPACE space, const uint8_t *pixels)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(name, "wb");
    must(file);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_stdio_dest(&info, file);
    info.image_width = (JDIMENSION)width;
    info.image_height = (JDIMENSION)height;
    info.input_components = channels;
    info.in_color_space = space;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 100, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPLE line[64 * 4];
        memcpy(line, pixels + (int)info.next_scanline * width * channels,
               (size_t)(width * channels));
        JSAMPROW row = line;
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    fclose(file);
}

#endif
