#include "trainer/data/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/data/format.h"

// --- batches -------------------------------------------------------------------------------------

static void *alloc_aligned(int64_t count, size_t size)
{
    size_t bytes = ((size_t)count * size + 63) / 64 * 64;
    void *p = aligned_alloc(64, bytes ? bytes : 64);
    must(p);
    memset(p, 0, bytes);
    return p;
}

struct batch *batch_new(const struct sample_shape *s, int64_t capacity)
{
    struct batch *b = xcalloc(1, sizeof *b);
    if (s->kind == SAMPLE_TOKENS) {
        b->tokens = alloc_aligned(capacity * s->context, sizeof *b->tokens);
        b->targets = alloc_aligned(capacity * s->context, sizeof *b->targets);
    } else {
        int64_t image = s->height * s->width * s->channels;
        if (s->pixels)
            b->pixels = (struct ops_pixels){
                .height = s->height,
                .width = s->width,
                .channels = s->channels,
                .bytes = alloc_aligned(capacity * image, 1),
                .changes = alloc_aligned(capacity, sizeof *b->pixels.changes),
                .mean = alloc_aligned(s->channels, sizeof *b->pixels.mean),
                .factor = alloc_aligned(s->channels, sizeof *b->pixels.factor),
            };
        else
            b->images = alloc_aligned(capacity * image, sizeof *b->images);
        b->labels = s->classes ? alloc_aligned(capacity, sizeof *b->labels) : NULL;
        b->values = s->outputs ? alloc_aligned(capacity * s->outputs, sizeof *b->values) : NULL;
    }
    b->samples = alloc_aligned(capacity, sizeof *b->samples);
    return b;
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    free(b->images);
    free(b->pixels.bytes);
    free(b->pixels.changes);
    free(b->pixels.mean);
    free(b->pixels.factor);
    free(b->labels);
    free(b->values);
    free(b->tokens);
    free(b->targets);
    free(b->samples);
    free(b);
}

// --- formats -------------------------------------------------------------------------------------

static const struct format {
    const char *name;
    int (*open)(const struct data_request *r, struct dataset **train, struct dataset **validation,
                struct error *e);
} formats[] = {
    {"bytes", bytes_open},   {"csv", csv_open}, {"idx", idx_open},
    {"images", packed_open}, {"npy", npy_open}, {"synthetic", synthetic_open},
    {"tokens", tokens_open},
};

static const struct format *find_format(const char *word)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, word) == 0)
            return &formats[i];
    return NULL;
}

static int unknown_format(const char *word, struct error *e)
{
    struct buf known;
    buf_init(&known, 512);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", formats[i].name);
    int rc = error_set(e, ERR_INVALID, "trainer.data.format: expected one of %s; found \"%s\"",
                       buf_str(&known), word);
    buf_free(&known);
    return rc;
}

int data_open_file(const struct data_request *r, const char *key, bool unpack,
                   struct file_content **out, struct error *e)
{
    const char *path = jget_string(r->spec, key, NULL);
    if (!path)
        return error_set(e, ERR_INVALID, "trainer.data.%s: missing", key);
    char *name = xasprintf("trainer.data.%s", key);
    int rc = file_content_open(name, path, r->folder, unpack, out, e);
    free(name);
    return rc;
}

static int read_augmentation(const struct data_request *r, struct dataset *train, struct error *e)
{
    const json_t *spec = jget(r->spec, "augment");
    const struct sample_shape *s = &train->shape;
    if (!spec)
        return 0;
    if (s->kind != SAMPLE_IMAGE)
        return error_set(e, ERR_INVALID, "trainer.data.augment: needs images");
    train->augment = (struct augment){.flip = jget_bool(spec, "flip", false),
                                      .crop = jget_int(spec, "crop", 0),
                                      .cutout = jget_int(spec, "cutout", 0)};
    int64_t side = s->height < s->width ? s->height : s->width;
    if (train->augment.crop < 0 || train->augment.crop >= side)
        return error_set(
            e, ERR_INVALID,
            "trainer.data.augment.crop: %lld pixels move images of %lldx%lld out of view",
            (long long)train->augment.crop, (long long)s->height, (long long)s->width);
    return 0;
}

int dataset_open(const json_t *spec, const json_t *model, const char *folder,
                 struct dataset **train, struct dataset **validation, struct error *e)
{
    const struct data_request r = {.spec = spec, .model = model, .folder = folder};
    const char *word = jget_string(spec, "format", "");
    const struct format *format = find_format(word);
    *train = *validation = NULL;
    int rc = format ? format->open(&r, train, validation, e) : unknown_format(word, e);
    if (!rc)
        rc = read_augmentation(&r, *train, e);
    if (rc) {
        dataset_close(*train);
        dataset_close(*validation);
        *train = *validation = NULL;
    }
    return rc;
}

void dataset_close(struct dataset *d)
{
    if (d)
        d->ops->close(d);
}

const struct sample_shape *dataset_shape(const struct dataset *d)
{
    return &d->shape;
}

int64_t dataset_count(const struct dataset *d)
{
    return d->count;
}

static void augment_sample(const struct dataset *d, const struct draw_key *key, int64_t i,
                           struct batch *out)
{
    const struct sample_shape *s = &d->shape;
    struct augment_draw draw = augment_draw(&d->augment, s, key, out->samples[i]);
    if (out->images)
        augment_apply(&d->augment, s, &draw, out->images + i * s->height * s->width * s->channels);
    else
        out->pixels.changes[i] = augment_change(&d->augment, s, &draw);
}

int dataset_fetch(const struct dataset *d, const int64_t *indices, int64_t n,
                  const struct draw_key *key, struct batch *out, struct error *e)
{
    const struct augment *a = &d->augment;
    bool augmented = key && (a->flip || a->crop || a->cutout);
    int rc = 0;
    out->count = n;
    if (out->pixels.bytes) {
        size_t channels = (size_t)d->shape.channels;
        memcpy(out->pixels.mean, d->mean, channels * sizeof *d->mean);
        memcpy(out->pixels.factor, d->factor, channels * sizeof *d->factor);
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        must(indices[i] >= 0 && indices[i] < d->count);
        out->samples[i] = indices[i];
        if (out->pixels.bytes)
            out->pixels.changes[i] = (struct ops_pixel_change){0};
        rc = d->ops->fetch(d, indices[i], i, out, e);
        if (!rc && augmented)
            augment_sample(d, key, i, out);
    }
    return rc;
}
