#include "trainer/data/picture.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> // after stdio.h, which it needs

#include <jerror.h>

#include "base/arena.h"
#include "base/os/file.h"

static const size_t file_max = (size_t)1 << 30;
static const int64_t pixels_max = (int64_t)1 << 27;

struct picture_bytes { // the file in hand
    const char *path;
    const uint8_t *data;
    size_t size;
};

static int allocate(const struct picture_bytes *s, int64_t height, int64_t width, int64_t channels,
                    struct picture *out, struct error *e)
{
    if (height < 1 || width < 1 || height > pixels_max || width > pixels_max / height)
        return error_set(e, height < 1 || width < 1 ? ERR_CORRUPT : ERR_TOO_LARGE,
                         "%s: a picture of %lldx%lld pixels; 1 to 2^27 are read", s->path,
                         (long long)height, (long long)width);
    *out = (struct picture){height, width, channels,
                            xcalloc((size_t)(height * width), (size_t)channels)};
    return 0;
}

// --- PNG

static int read_png(const struct picture_bytes *s, struct picture *out, struct error *e)
{
    static const png_color black = {0, 0, 0};
    png_image image = {.version = PNG_IMAGE_VERSION};
    int rc = 0;
    if (!png_image_begin_read_from_memory(&image, s->data, s->size))
        return error_set(e, ERR_CORRUPT, "%s: damaged PNG: %s", s->path, image.message);
    bool color = image.format & PNG_FORMAT_FLAG_COLOR;
    image.format = color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    rc = allocate(s, image.height, image.width, color ? 3 : 1, out, e);
    if (!rc && !png_image_finish_read(&image, &black, out->pixels, 0, NULL))
        rc = error_set(e, ERR_CORRUPT, "%s: damaged PNG: %s", s->path, image.message);
    png_image_free(&image);
    return rc;
}

// --- JPEG

struct jpeg_decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    jmp_buf failed;
    char text[JMSG_LENGTH_MAX];
    uint8_t *line; // of CMYK
};

static void jpeg_fails(j_common_ptr info)
{
    struct jpeg_decoder *j = info->client_data;
    info->err->format_message(info, j->text);
    longjmp(j->failed, 1);
}

// Warnings are of data that is damaged; the library would make up the rest.
static void jpeg_says(j_common_ptr info, int level)
{
    if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA)
        jpeg_fails(info);
}

// Adobe's CMYK is stored inverted.
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
    int rc = allocate(s, info->image_height, info->image_width, grey ? 1 : 3, out, e);
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
    j->errors.error_exit = jpeg_fails;
    j->errors.emit_message = jpeg_says;
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

// --- PNM (netpbm): "P5" or "P6", width, height, largest value, one blank, then bytes

static int64_t pnm_number(const struct picture_bytes *s, size_t *at)
{
    int64_t n = 0;
    size_t begin;
    for (;; (*at)++) { // blanks, and comments to the end of their line
        if (*at < s->size && s->data[*at] == '#')
            while (*at < s->size && s->data[*at] != '\n')
                (*at)++;
        if (*at >= s->size || !strchr(" \t\r\n", s->data[*at]) || !s->data[*at])
            break;
    }
    for (begin = *at; *at < s->size && s->data[*at] >= '0' && s->data[*at] <= '9'; (*at)++)
        n = n > pixels_max ? n : 10 * n + s->data[*at] - '0';
    return *at > begin ? n : -1;
}

static int read_pnm(const struct picture_bytes *s, struct picture *out, struct error *e)
{
    size_t at = 2;
    int64_t channels = s->data[1] == '6' ? 3 : 1;
    int64_t width = pnm_number(s, &at), height = pnm_number(s, &at), most = pnm_number(s, &at);
    if (width < 0 || height < 0 || most != 255)
        return error_set(e, ERR_CORRUPT, "%s: offset %zu: damaged PNM, or one of 16 bits", s->path,
                         at);
    int rc = allocate(s, height, width, channels, out, e);
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

// --- any

static const struct picture_format {
    const char *first;
    int (*read)(const struct picture_bytes *s, struct picture *out, struct error *e);
} kinds[] = {{"\x89PNG\r\n\x1a\n", read_png},
             {"\xff\xd8\xff", read_jpeg},
             {"P5", read_pnm},
             {"P6", read_pnm}};

int picture_read(const char *path, struct picture *out, struct error *e)
{
    char *data = NULL;
    size_t size = 0;
    *out = (struct picture){0};
    int rc = file_read(path, file_max, &data, &size, e);
    if (rc)
        return rc;
    const struct picture_bytes s = {path, (const uint8_t *)data, size};
    rc = error_set(e, ERR_CORRUPT, "%s: is no PNG, JPEG or PNM (P5, P6) picture", path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (size > strlen(kinds[i].first) &&
            memcmp(data, kinds[i].first, strlen(kinds[i].first)) == 0)
            rc = kinds[i].read(&s, out, e);
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

// --- fitting

struct resize_axis {    // of one direction: what each output pixel is the sum of
    int64_t size, most; // output pixels; weights of each, at most
    int64_t *first;     // [size], the first input pixel
    int64_t *count;     // [size]
    float *weights;     // [size, most]
};

// `step` input pixels per output pixel, in the middle of `from`.
static struct resize_axis resize_axis_new(int64_t from, int64_t size, double step)
{
    double reach = step > 1 ? step : 1;
    struct resize_axis a = {.size = size, .most = (int64_t)(2 * reach) + 2};
    a.first = xcalloc((size_t)size, sizeof *a.first);
    a.count = xcalloc((size_t)size, sizeof *a.count);
    a.weights = xcalloc((size_t)(size * a.most), sizeof *a.weights);
    double begin = ((double)from - step * (double)size) / 2;
    for (int64_t i = 0; i < size; i++) {
        double middle = begin + step * ((double)i + 0.5), sum = 0;
        int64_t low = (int64_t)(middle - reach + 0.5), high = (int64_t)(middle + reach + 0.5);
        low = low < 0 || middle < reach ? 0 : low;
        high = high > from ? from : high;
        a.first[i] = low;
        a.count[i] = high - low < a.most ? high - low : a.most;
        for (int64_t k = 0; k < a.count[i]; k++) {
            double off = ((double)(low + k) + 0.5 - middle) / reach;
            double weight = 1 - (off < 0 ? -off : off);
            sum += weight = weight > 0 ? weight : 0;
            a.weights[i * a.most + k] = (float)weight;
        }
        for (int64_t k = 0; k < a.count[i]; k++)
            a.weights[i * a.most + k] /= (float)sum;
    }
    return a;
}

static void resize_axis_free(struct resize_axis *a)
{
    free(a->first);
    free(a->count);
    free(a->weights);
}

// Every line of the picture in its new width: [height, width, channels].
static float *fit_lines(const struct picture *p, const struct resize_axis *across)
{
    int64_t n = p->channels;
    float *out = xcalloc((size_t)(p->height * across->size * n), sizeof *out), *to = out;
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t x = 0; x < across->size; x++, to += n) {
            const uint8_t *from = p->pixels + (y * p->width + across->first[x]) * n;
            for (int64_t k = 0; k < across->count[x]; k++)
                for (int64_t c = 0; c < n; c++)
                    to[c] += across->weights[x * across->most + k] * (float)from[k * n + c];
        }
    return out;
}

static uint8_t rounded(float v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5f);
}

// Luma of Rec. 601.
static void put_pixel(const float *pixel, int64_t from, int64_t to, uint8_t *out)
{
    if (from == 3 && to == 1)
        *out = rounded(0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2]);
    else
        for (int64_t c = 0; c < to; c++)
            out[c] = rounded(pixel[from == to ? c : 0]);
}

void picture_fit(const struct picture *p, int64_t height, int64_t width, int64_t channels,
                 uint8_t *out)
{
    double down = (double)p->height / (double)height, right = (double)p->width / (double)width;
    double step = down < right ? down : right;
    struct resize_axis across = resize_axis_new(p->width, width, step),
                       along = resize_axis_new(p->height, height, step);
    float *lines = fit_lines(p, &across);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++, out += channels) {
            float pixel[3] = {0};
            for (int64_t k = 0; k < along.count[y]; k++)
                for (int64_t c = 0; c < p->channels; c++)
                    pixel[c] += along.weights[y * along.most + k] *
                                lines[((along.first[y] + k) * width + x) * p->channels + c];
            put_pixel(pixel, p->channels, channels, out);
        }
    free(lines);
    resize_axis_free(&across);
    resize_axis_free(&along);
}
