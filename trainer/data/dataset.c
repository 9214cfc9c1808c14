#include "trainer/data/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"
#include "trainer/data/content.h"

struct dataset {
    struct sample_shape shape;
    int64_t count;
    struct content *values, *labels; // labels: idx only
    const uint8_t *first;            // first pixel of sample 0; first byte of sample 0
    const uint8_t *first_label;
    int64_t stride;   // bytes from one sample to the next
    float level[256]; // idx: value of each pixel
};

// --- batches

static void *aligned(int64_t count, size_t size)
{
    size_t bytes = ((size_t)count * size + 63) / 64 * 64;
    void *p = aligned_alloc(64, bytes ? bytes : 64);
    must(p != NULL);
    memset(p, 0, bytes);
    return p;
}

struct batch *batch_new(const struct sample_shape *s, int64_t capacity)
{
    struct batch *b = xcalloc(1, sizeof *b);
    if (s->kind == SAMPLE_IMAGE) {
        b->images = aligned(capacity * s->height * s->width * s->channels, sizeof *b->images);
        b->labels = aligned(capacity, sizeof *b->labels);
    } else {
        b->tokens = aligned(capacity * s->context, sizeof *b->tokens);
        b->targets = aligned(capacity * s->context, sizeof *b->targets);
    }
    b->samples = aligned(capacity, sizeof *b->samples);
    return b;
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    free(b->images);
    free(b->labels);
    free(b->tokens);
    free(b->targets);
    free(b->samples);
    free(b);
}

// --- bytes

static int check_vocabulary(const struct content *c, int64_t vocabulary, struct error *e)
{
    for (size_t i = 0; i < c->size && vocabulary < 256; i++)
        if (c->data[i] >= vocabulary)
            return error_set(e, ERR_CORRUPT,
                             "%s: offset %zu: byte %d is outside the model's vocabulary of %lld "
                             "(trainer.model.vocabulary)",
                             c->path, i, c->data[i], (long long)vocabulary);
    return 0;
}

static int open_bytes(const char *name, const char *path, const char *folder,
                      const struct sample_shape *shape, struct content **out, struct error *e)
{
    int rc = content_open(name, path, folder, false, out, e);
    return rc ? rc : check_vocabulary(*out, shape->vocabulary, e);
}

// Samples of bytes [from, to) of `c`, `stride` apart.
static int new_bytes(struct content *c, size_t from, size_t to, int64_t stride, const char *part,
                     const struct sample_shape *shape, struct dataset **out, struct error *e)
{
    int64_t windows = (int64_t)(to - from) - shape->context;
    if (windows < 1)
        return error_set(e, ERR_CORRUPT,
                         "%s: %zu bytes from offset %zu are for %s, but one sample is context + 1 "
                         "= %lld bytes; give more text or a smaller trainer.model.context",
                         c->path, to - from, from, part, (long long)shape->context + 1);
    struct dataset *d = xcalloc(1, sizeof *d);
    d->shape = *shape;
    d->values = content_keep(c);
    d->first = c->data + from;
    d->stride = stride;
    d->count = (windows - 1) / stride + 1;
    *out = d;
    return 0;
}

static int bytes_shape(const json_t *model, struct sample_shape *shape, struct error *e)
{
    *shape = (struct sample_shape){.kind = SAMPLE_TOKENS,
                                   .context = jget_int(model, "context", 0),
                                   .vocabulary = jget_int(model, "vocabulary", 256)};
    if (shape->context > 0 && shape->context <= 65536 && shape->vocabulary > 0)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.data.format bytes needs a model with a context of 1 to 65536 bytes "
                     "(family gpt); trainer.model has %lld",
                     (long long)shape->context);
}

static int open_bytes_parts(const json_t *spec, const json_t *model, const char *folder,
                            struct dataset **train, struct dataset **validation, struct error *e)
{
    struct content *a = NULL, *b = NULL;
    struct sample_shape shape;
    const char *path = jget_string(spec, "path", NULL);
    const char *other = jget_string(spec, "validation_path", NULL);
    double fraction = jget_double(spec, "validation_fraction", 0.1);
    if (!path)
        return error_set(e, ERR_INVALID, "trainer.data.path: missing");
    if (!other && !(fraction > 0 && fraction < 1))
        return error_set(e, ERR_INVALID,
                         "trainer.data.validation_fraction: must lie between 0 "
                         "and 1");
    int rc = bytes_shape(model, &shape, e);
    if (!rc)
        rc = open_bytes("trainer.data.path", path, folder, &shape, &a, e);
    if (!rc && other)
        rc = open_bytes("trainer.data.validation_path", other, folder, &shape, &b, e);
    if (rc)
        goto out;
    size_t end = other ? a->size : (size_t)((1 - fraction) * (double)a->size);
    rc = new_bytes(a, 0, end, 1, "training", &shape, train, e);
    if (!rc)
        rc = new_bytes(b ? b : a, b ? 0 : end, b ? b->size : a->size, shape.context, "validation",
                       &shape, validation, e);
out:
    content_drop(a);
    content_drop(b);
    return rc;
}

// --- idx

struct idx { // a pair of files
    struct content *images, *labels;
    int64_t dims[3];
    const uint8_t *pixels, *label_values;
};

static void drop_idx(struct idx *x)
{
    content_drop(x->images);
    content_drop(x->labels);
}

static int check_labels(const struct idx *x, int64_t classes, struct error *e)
{
    for (int64_t i = 0; i < x->dims[0]; i++)
        if (x->label_values[i] >= classes)
            return error_set(e, ERR_CORRUPT,
                             "%s: offset %lld: label %d is outside 0..%lld (trainer.model.classes)",
                             x->labels->path, (long long)(x->label_values + i - x->labels->data),
                             x->label_values[i], (long long)classes - 1);
    return 0;
}

static int open_idx(const json_t *spec, const char *prefix, const char *folder, int64_t classes,
                    struct idx *x, struct error *e)
{
    const char *const kinds[] = {"images", "labels"};
    struct content **contents[] = {&x->images, &x->labels};
    int64_t labels;
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++) {
        char *name = xasprintf("trainer.data.%s%s", prefix, kinds[i]);
        const char *path = jget_string(spec, strrchr(name, '.') + 1, NULL);
        rc = path ? content_open(name, path, folder, true, contents[i], e)
                  : error_set(e, ERR_INVALID, "%s: missing", name);
        free(name);
    }
    if (rc || (rc = content_check_idx(x->images, 3, x->dims, &x->pixels, e)) ||
        (rc = content_check_idx(x->labels, 1, &labels, &x->label_values, e)))
        return rc;
    if (labels != x->dims[0])
        return error_set(e, ERR_CORRUPT, "%s holds %lld images, but %s holds %lld labels",
                         x->images->path, (long long)x->dims[0], x->labels->path,
                         (long long)labels);
    return check_labels(x, classes, e);
}

static struct dataset *new_idx(const struct idx *x, const json_t *spec, int64_t from, int64_t to,
                               int64_t classes)
{
    struct dataset *d = xcalloc(1, sizeof *d);
    d->shape = (struct sample_shape){.kind = SAMPLE_IMAGE,
                                     .height = x->dims[1],
                                     .width = x->dims[2],
                                     .channels = 1,
                                     .classes = classes};
    d->values = content_keep(x->images);
    d->labels = content_keep(x->labels);
    d->stride = x->dims[1] * x->dims[2];
    d->first = x->pixels + from * d->stride;
    d->first_label = x->label_values + from;
    d->count = to - from;
    double mean = jget_double(spec, "mean", 0.1307);
    double deviation = jget_double(spec, "deviation", 0.3081);
    for (int i = 0; i < 256; i++)
        d->level[i] = (float)((i / 255.0 - mean) / deviation);
    return d;
}

static int split_idx(const struct idx *x, const json_t *spec, int64_t classes,
                     struct dataset **train, struct dataset **validation, struct error *e)
{
    int64_t kept = jget_int(spec, "validation_count", 0);
    if (kept < 1 || kept >= x->dims[0])
        return error_set(e, ERR_INVALID,
                         "trainer.data.validation_count: %lld of the %lld samples of %s; choose 1 "
                         "to %lld, or give validation_images and validation_labels",
                         (long long)kept, (long long)x->dims[0], x->images->path,
                         (long long)x->dims[0] - 1);
    *train = new_idx(x, spec, 0, x->dims[0] - kept, classes);
    *validation = new_idx(x, spec, x->dims[0] - kept, x->dims[0], classes);
    return 0;
}

static int open_idx_parts(const json_t *spec, const json_t *model, const char *folder,
                          struct dataset **train, struct dataset **validation, struct error *e)
{
    struct idx a = {0}, b = {0};
    int64_t classes = jget_int(model, "classes", 10);
    int rc = 0;
    if (!(jget_double(spec, "deviation", 1) > 0))
        return error_set(e, ERR_INVALID, "trainer.data.deviation: must be above 0");
    rc = open_idx(spec, "", folder, classes, &a, e);
    if (rc)
        goto out;
    if (!jget(spec, "validation_images") && !jget(spec, "validation_labels")) {
        rc = split_idx(&a, spec, classes, train, validation, e);
        goto out;
    }
    rc = open_idx(spec, "validation_", folder, classes, &b, e);
    if (rc)
        goto out;
    if (a.dims[1] != b.dims[1] || a.dims[2] != b.dims[2]) {
        rc = error_set(e, ERR_CORRUPT, "%s holds images of %lldx%lld, but %s of %lldx%lld",
                       a.images->path, (long long)a.dims[1], (long long)a.dims[2], b.images->path,
                       (long long)b.dims[1], (long long)b.dims[2]);
        goto out;
    }
    *train = new_idx(&a, spec, 0, a.dims[0], classes);
    *validation = new_idx(&b, spec, 0, b.dims[0], classes);
out:
    drop_idx(&a);
    drop_idx(&b);
    return rc;
}

// --- the whole

int dataset_open(const json_t *spec, const json_t *model, const char *folder,
                 struct dataset **train, struct dataset **validation, struct error *e)
{
    const char *format = jget_string(spec, "format", "");
    *train = *validation = NULL;
    int rc;
    if (strcmp(format, "idx") == 0)
        rc = open_idx_parts(spec, model, folder, train, validation, e);
    else if (strcmp(format, "bytes") == 0)
        rc = open_bytes_parts(spec, model, folder, train, validation, e);
    else
        rc = error_set(e, ERR_INVALID, "trainer.data.format: expected idx or bytes, found \"%s\"",
                       format);
    if (rc) {
        dataset_close(*train);
        dataset_close(*validation);
        *train = *validation = NULL;
    }
    return rc;
}

void dataset_close(struct dataset *d)
{
    if (!d)
        return;
    content_drop(d->values);
    content_drop(d->labels);
    free(d);
}

const struct sample_shape *dataset_shape(const struct dataset *d)
{
    return &d->shape;
}

int64_t dataset_count(const struct dataset *d)
{
    return d->count;
}

static void fetch_image(const struct dataset *d, int64_t index, int64_t i, struct batch *out)
{
    const uint8_t *from = d->first + index * d->stride;
    float *to = out->images + i * d->stride;
    for (int64_t p = 0; p < d->stride; p++)
        to[p] = d->level[from[p]];
    out->labels[i] = d->first_label[index];
}

static void fetch_tokens(const struct dataset *d, int64_t index, int64_t i, struct batch *out)
{
    const uint8_t *from = d->first + index * d->stride;
    int64_t context = d->shape.context;
    for (int64_t p = 0; p < context; p++) {
        out->tokens[i * context + p] = from[p];
        out->targets[i * context + p] = from[p + 1];
    }
}

void dataset_fetch(const struct dataset *d, const int64_t *indices, int64_t n, struct batch *out)
{
    out->count = n;
    for (int64_t i = 0; i < n; i++) {
        must(indices[i] >= 0 && indices[i] < d->count);
        out->samples[i] = indices[i];
        if (d->shape.kind == SAMPLE_IMAGE)
            fetch_image(d, indices[i], i, out);
        else
            fetch_tokens(d, indices[i], i, out);
    }
}
