#include "trainer/data/picture.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> // needs stdio.h

#include <jerror.h>

#include "base/arena.h"
#include "base/os/file.h"

static const size_t max_file_bytes = (size_t)1 << 30;
static const int64_t max_pixels = (int64_t)1 << 27;

struct picture_bytes { // a file in memory
    const char *path;
    const uint8_t *data;
    size_t size;
};

static int alloc_pixels(const struct picture_bytes *s, int64_t height, int64_t width,
                        int64_t channels, struct picture *out, struct error *e)
{
    if (height < 1 || width < 1 || height > max_pixels || width > max_pixels / height)
        return error_set(e, height < 1 || width < 1 ? ERR_CORRUPT : ERR_TOO_LARGE,
                         "%s: a picture of %lldx%lld pixels; 1 to 2^27 are read", s->path,
                         (long long)height, (long long)width);
    *out = (struct picture){height, width, channels,
                            xcalloc((size_t)(height * width), (size_t)channels)};
    return 0;
}

// --- PNG -----------------------------------------------------------------------------------------

static int read_png(const struct picture_bytes *s, struct picture *out, struct error *e)
{
    static const png_color black = {0, 0, 0};
    png_image image = {.version = PNG_IMAGE_VERSION};
    int rc = 0;
    if (!png_image_begin_read_from_memory(&image, s->data, s->size))
        return error_set(e, ERR_CORRUPT, "%s: damaged PNG: %s", s->path, image.message);
    bool color = image.format & PNG_FORMAT_FLAG_COLOR;
    image.format = color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    rc = alloc_pixels(s, image.height, image.width, color ? 3 : 1, out, e);
    if (!rc && !png_image_finish_read(&image, &black, out->pixels, 0, NULL))
        rc = error_set(e, ERR_CORRUPT, "%s: damaged PNG: %s", s->path, image.message);
    png_image_free(&image);
    return rc;
}

// --- JPEG ----------------------------------------------------------------------------------------

struct jpeg_decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    jmp_buf failed;
    char text[JMSG_LENGTH_MAX];
    uint8_t *line; // one line of CMYK pixels
};

static void jpeg_on_error(j_common_ptr info)
{
    struct jpeg_decoder *j = info->client_data;
    info->err->format_message(info, j->text);
    longjmp(j->failed, 1);
}

// Negative levels are warnings about damaged data, which the library would fill in; treat them as
// errors.
static void jpeg_on_message(j_common_ptr info, int level)
{
    if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA)
        jpeg_on_error(info);
}

// Adobe stores CMYK inverted.
static void line_from_cmyk(const struct jpeg_decoder *j, int64_t width, uint8_t *to)
{
    for (int64_t x = 0; x < width; x++) {
        const uint8_t *from = j->line + 4 * x;
        for (int c = 0; c < 3; c++) {
            int light = j->info.saw_Adobe_marker ? from[c] : 255 - from[c];
            int not_black = j->info.saw_Adobe_marker ? from[3] : 255 - from[3];
            to[3 * x + c] = (uint8_t)(light * not_black / 255);
        }
    }
}

static int decode_jpeg(struct jpeg_decoder *j, const struct picture_bytes *s, struct picture *out,
                       struct error *e)
{
    struct jpeg_decompress_struct *info = &j->info;
    jpeg_mem_src(info, s->data, s->size);
    jpeg_read_header(info, TRUE);
    bool cmyk = info->num_components == 4, grey = info->num_components == 1;
    info->out_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    info->dct_method = JDCT_ISLOW;
    int rc = alloc_pixels(s, info->image_height, info->image_width, grey ? 1 : 3, out, e);
    if (rc)
        return rc;
    jpeg_start_decompress(info);
    if (cmyk)
        j->line = xcalloc((size_t)out->width, 4);
    while (info->output_scanline < info->output_height) {
        uint8_t *to = out->pixels + info->output_scanline * out->width * out->channels;
        uint8_t *line = cmyk ? j->line : to;
        jpeg_read_scanlines(info, &line, 1);
        if (cmyk)
            line_from_cmyk(j, out->width, to);
    }
    jpeg_finish_decompress(info);
    return 0;
}

static int read_jpeg(const struct picture_bytes *s, struct picture *out, struct error *e)
{
    struct jpeg_decoder *j = xcalloc(1, sizeof *j);
    int rc;
    j->info.err = jpeg_std_error(&j->errors);
    j->info.client_data = j;
    j->errors.error_exit = jpeg_on_error;
    j->errors.emit_message = jpeg_on_message;
    jpeg_create_decompress(&j->info);
    if (setjmp(j->failed))
        rc = error_set(e, ERR_CORRUPT, "%s: damaged JPEG: %s", s->path, j->text);
    else
        rc = decode_jpeg(j, s, out, e);
    jpeg_destroy_decompress(&j->info);
    free(j->line);
    free(j);
    return rc;
}

// --- PNM (netpbm): "P5" or "P6", width, height, largest value, one space, bytes ------------------

static int64_t pnm_number(const struct picture_bytes *s, size_t *at)
{
    int64_t n = 0;
    size_t begin;
    for (;; (*at)++) { // skips spaces, and comments to the end of their line
        if (*at < s->size && s->data[*at] == '#')
            while (*at < s->size && s->data[*at] != '\n')
                (*at)++;
        if (*at >= s->size || !strchr(" \t\r\n", s->data[*at]) || !s->data[*at])
            break;
    }
    for (begin = *at; *at < s->size && s->data[*at] >= '0' && s->data[*at] <= '9'; (*at)++)
        n = n > max_pixels ? n : 10 * n + s->data[*at] - '0';
    return *at > begin ? n : -1;
}

static int read_pnm(const struct picture_bytes *s, struct picture *out, struct error *e)
{
    size_t at = 2;
    int64_t channels = s->data[1] == '6' ? 3 : 1;
    int64_t width = pnm_number(s, &at), height = pnm_number(s, &at), max_value = pnm_number(s, &at);
    if (width < 0 || height < 0 || max_value != 255)
        return error_set(e, ERR_CORRUPT, "%s: offset %zu: damaged PNM, or one of 16 bits", s->path,
                         at);
    int rc = alloc_pixels(s, height, width, channels, out, e);
    if (rc)
        return rc;
    size_t bytes = (size_t)(height * width * channels);
    if (s->size < at + 1 + bytes)
        return error_set(e, ERR_CORRUPT,
                         "%s: ends at offset %zu, but its header promises %zu bytes", s->path,
                         s->size, at + 1 + bytes);
    memcpy(out->pixels, s->data + at + 1, bytes);
    return 0;
}

// --- all formats ---------------------------------------------------------------------------------

static const struct picture_format {
    const char *first;
    int (*read)(const struct picture_bytes *s, struct picture *out, struct error *e);
} formats[] = {{"\x89PNG\r\n\x1a\n", read_png},
               {"\xff\xd8\xff", read_jpeg},
               {"P5", read_pnm},
               {"P6", read_pnm}};

int picture_read(const char *path, struct picture *out, struct error *e)
{
    char *data = NULL;
    size_t size = 0;
    *out = (struct picture){0};
    int rc = file_read(path, max_file_bytes, &data, &size, e);
    if (rc)
        return rc;
    const struct picture_bytes s = {path, (const uint8_t *)data, size};
    rc = error_set(e, ERR_CORRUPT, "%s: not a PNG, JPEG or PNM (P5, P6) picture", path);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (size > strlen(formats[i].first) &&
            memcmp(data, formats[i].first, strlen(formats[i].first)) == 0)
            rc = formats[i].read(&s, out, e);
    if (rc)
        picture_free(out);
    free(data);
    return rc;
}

void picture_free(struct picture *p)
{
    free(p->pixels);
    *p = (struct picture){0};
}

// --- resizing ------------------------------------------------------------------------------------

struct resize_axis {           // how each output pixel of one direction is computed
    int64_t size, max_weights; // output pixels; largest number of weights of one pixel
    int64_t *first;            // [size] first input pixel
    int64_t *count;            // [size] number of input pixels
    float *weights;            // [size, max_weights]
};

// `step` input pixels per output pixel, centred in `from`.
static struct resize_axis resize_axis_new(int64_t from, int64_t size, double step)
{
    double reach = step > 1 ? step : 1;
    struct resize_axis a = {.size = size, .max_weights = (int64_t)(2 * reach) + 2};
    a.first = xcalloc((size_t)size, sizeof *a.first);
    a.count = xcalloc((size_t)size, sizeof *a.count);
    a.weights = xcalloc((size_t)(size * a.max_weights), sizeof *a.weights);
    double begin = ((double)from - step * (double)size) / 2;
    for (int64_t i = 0; i < size; i++) {
        double middle = begin + step * ((double)i + 0.5), sum = 0;
        int64_t low = (int64_t)(middle - reach + 0.5), high = (int64_t)(middle + reach + 0.5);
        low = low < 0 || middle < reach ? 0 : low;
        high = high > from ? from : high;
        a.first[i] = low;
        a.count[i] = high - low < a.max_weights ? high - low : a.max_weights;
        for (int64_t k = 0; k < a.count[i]; k++) {
            double off = ((double)(low + k) + 0.5 - middle) / reach;
            double weight = 1 - (off < 0 ? -off : off);
            sum += weight = weight > 0 ? weight : 0;
            a.weights[i * a.max_weights + k] = (float)weight;
        }
        for (int64_t k = 0; k < a.count[i]; k++)
            a.weights[i * a.max_weights + k] /= (float)sum;
    }
    return a;
}

static void resize_axis_free(struct resize_axis *a)
{
    free(a->first);
    free(a->count);
    free(a->weights);
}

// Resizes every line of the picture to its new width: [height, width, channels].
static float *resize_lines(const struct picture *p, const struct resize_axis *across)
{
    int64_t n = p->channels;
    float *out = xcalloc((size_t)(p->height * across->size * n), sizeof *out), *to = out;
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t x = 0; x < across->size; x++, to += n) {
            const uint8_t *from = p->pixels + (y * p->width + across->first[x]) * n;
            for (int64_t k = 0; k < across->count[x]; k++)
                for (int64_t c = 0; c < n; c++)
                    to[c] += across->weights[x * across->max_weights + k] * (float)from[k * n + c];
        }
    return out;
}

static uint8_t round_to_byte(float v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5f);
}

// Converts colour to grey by the luma of Rec. 601.
static void write_pixel(const float *pixel, int64_t from, int64_t to, uint8_t *out)
{
    if (from == 3 && to == 1)
        *out = round_to_byte(0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2]);
    else
        for (int64_t c = 0; c < to; c++)
            out[c] = round_to_byte(pixel[from == to ? c : 0]);
}

void picture_fit(const struct picture *p, int64_t height, int64_t width, int64_t channels,
                 uint8_t *out)
{
    double down = (double)p->height / (double)height, right = (double)p->width / (double)width;
    double step = down < right ? down : right;
    struct resize_axis across = resize_axis_new(p->width, width, step),
                       along = resize_axis_new(p->height, height, step);
    float *lines = resize_lines(p, &across);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++, out += channels) {
            float pixel[3] = {0};
            for (int64_t k = 0; k < along.count[y]; k++)
                for (int64_t c = 0; c < p->channels; c++)
                    pixel[c] += along.weights[y * along.max_weights + k] *
                                lines[((along.first[y] + k) * width + x) * p->channels + c];
            write_pixel(pixel, p->channels, channels, out);
        }
    free(lines);
    resize_axis_free(&across);
    resize_axis_free(&along);
}
