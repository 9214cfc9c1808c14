#include "trainer/data/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text/json.h"

static const int64_t max_sample_numbers = (int64_t)1 << 28; // numbers

struct rows_dataset {
    struct dataset base;
    struct sample_rows rows;
    int64_t first; // row of sample 0
    int64_t inputs, period;
    float *mean, *factor; // [period]
};

void sample_rows_close(struct sample_rows *r)
{
    file_content_unref(r->inputs.content);
    file_content_unref(r->targets.content);
}

static int64_t per_row(const struct file_array *a)
{
    int64_t n = 1;
    for (int i = 1; i < a->rank; i++)
        n *= a->dims[i];
    return n;
}

static const uint8_t *row_of(const struct file_array *a, int64_t row)
{
    return a->first + (size_t)(row * per_row(a)) * number_size(a->type);
}

static size_t offset_in_file(const struct file_array *a, int64_t row, int64_t i)
{
    return (size_t)(row_of(a, row) - a->content->data) + (size_t)i * number_size(a->type);
}

// --- scaling -------------------------------------------------------------------------------------

void scaling_free(struct scaling *s)
{
    free(s->mean);
    free(s->deviation);
    *s = (struct scaling){0};
}

struct scaling scaling_new(int64_t count, double mean, double deviation)
{
    struct scaling s = {.mean = xcalloc((size_t)count, sizeof *s.mean),
                        .deviation = xcalloc((size_t)count, sizeof *s.deviation),
                        .count = count};
    for (int64_t i = 0; i < count; i++) {
        s.mean[i] = mean;
        s.deviation[i] = deviation;
    }
    return s;
}

static int read_scaling_value(const struct data_request *r, const char *key, int64_t count,
                              double *out, struct error *e)
{
    const json_t *given = jget(r->spec, key);
    if (json_is_array(given) && (int64_t)json_array_size(given) != count)
        return error_set(e, ERR_INVALID,
                         "trainer.data.%s: a list of %zu numbers, but there are %lld channels; "
                         "give one number, or one for each channel",
                         key, json_array_size(given), (long long)count);
    for (int64_t i = 0; i < count && given; i++)
        out[i] = json_number_value(json_is_array(given) ? json_array_get(given, (size_t)i) : given);
    return 0;
}

int scaling_read(const struct data_request *r, struct scaling *s, struct error *e)
{
    int rc = read_scaling_value(r, "mean", s->count, s->mean, e);
    if (!rc)
        rc = read_scaling_value(r, "deviation", s->count, s->deviation, e);
    for (int64_t i = 0; i < s->count && !rc; i++)
        if (!(s->deviation[i] > 0))
            rc = error_set(e, ERR_INVALID, "trainer.data.deviation: must be above 0");
    return rc;
}

// The table is as long as a row of pixels, so that the loop over it is long enough to be fast.
static void set_scaling(struct rows_dataset *d, const struct scaling *s)
{
    bool bytes = d->rows.inputs.type == NUMBER_U8;
    bool images = d->rows.inputs.rank > 2;
    d->period = s->count == 1 ? 1 : images ? d->base.shape.width * s->count : s->count;
    d->mean = xcalloc((size_t)d->period, sizeof *d->mean);
    d->factor = xcalloc((size_t)d->period, sizeof *d->factor);
    for (int64_t i = 0; i < d->period; i++) {
        double unit = bytes ? 255.0 : 1.0;
        d->mean[i] = (float)(s->mean[i % s->count] * unit);
        d->factor[i] = (float)(1 / (s->deviation[i % s->count] * unit));
    }
}

// --- checks --------------------------------------------------------------------------------------

static int check_input(const struct sample_rows *r, struct error *e)
{
    const struct file_array *a = &r->inputs;
    int64_t size = 1;
    if (a->rank < 2 || a->rank > 4)
        return error_set(e, ERR_CORRUPT,
                         "%s has %d dimensions; expected [samples, features], [samples, height, "
                         "width] or [samples, height, width, channels]",
                         a->content->path, a->rank);
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] < 1)
            return error_set(e, ERR_CORRUPT, "%s: dimension %d is %lld", a->content->path, i,
                             (long long)a->dims[i]);
        if (i > 0 && (__builtin_mul_overflow(size, a->dims[i], &size) || size > max_sample_numbers))
            return error_set(e, ERR_TOO_LARGE, "%s: a sample has more than %lld numbers",
                             a->content->path, (long long)max_sample_numbers);
    }
    return 0;
}

static int check_targets(const struct sample_rows *r, struct error *e)
{
    const struct file_array *x = &r->inputs, *a = &r->targets;
    const char *what = r->values ? "values" : "labels";
    if (a->rank < 1 || a->rank > (r->values ? 2 : 1) ||
        (a->rank == 2 && (a->dims[1] < 1 || a->dims[1] > max_sample_numbers)))
        return error_set(e, ERR_CORRUPT, "%s has %d dimensions; %s are [samples]%s",
                         a->content->path, a->rank, what,
                         r->values ? " or [samples, outputs]" : "");
    if (!r->values && number_is_float(a->type))
        return error_set(
            e, ERR_CORRUPT,
            "%s holds real numbers, but labels are whole; give values to predict as `values`",
            a->content->path);
    if (a->dims[0] != x->dims[0])
        return error_set(e, ERR_CORRUPT, "%s holds %lld samples, but %s holds %lld %s",
                         x->content->path, (long long)x->dims[0], a->content->path,
                         (long long)a->dims[0], what);
    return 0;
}

static int check_rows(const struct sample_rows *r, struct error *e)
{
    int rc = check_input(r, e);
    return rc ? rc : check_targets(r, e);
}

// At most INT32_MAX.
static int64_t largest_label(const struct sample_rows *r)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < r->targets.dims[0]; i++) {
        int64_t label = number_integer_at(r->targets.type, r->targets.first, i);
        largest = label > largest ? label : largest;
    }
    return largest < INT32_MAX ? largest : INT32_MAX;
}

static int check_labels(const struct sample_rows *r, int64_t classes, struct error *e)
{
    for (int64_t i = 0; i < r->targets.dims[0]; i++) {
        int64_t label = number_integer_at(r->targets.type, r->targets.first, i);
        if (label < 0 || label >= classes)
            return error_set(e, ERR_CORRUPT,
                             "%s: offset %zu: label %lld of sample %lld is outside 0..%lld "
                             "(trainer.model.classes)",
                             r->targets.content->path, offset_in_file(&r->targets, i, 0),
                             (long long)label, (long long)i, (long long)classes - 1);
    }
    return 0;
}

// The number of classes comes from the model or, if it names none, from the training data.
static int count_classes(const struct data_request *r, const struct sample_rows *train,
                         const struct sample_rows *validation, int64_t *out, struct error *e)
{
    *out = 0;
    if (train->values)
        return 0;
    int64_t seen = train->classes ? train->classes : largest_label(train) + 1;
    *out = jget_int(r->model, "classes", seen);
    if (*out > INT32_MAX)
        return error_set(e, ERR_CORRUPT, "%s: there are labels above %d, which is too many classes",
                         train->targets.content->path, INT32_MAX - 1);
    int rc = check_labels(train, *out, e);
    return rc || !validation ? rc : check_labels(validation, *out, e);
}

static void format_shape(const struct file_array *a, char *out, size_t cap)
{
    int n = 0;
    for (int i = 1; i < a->rank && n < (int)cap; i++)
        n += snprintf(out + n, cap - (size_t)n, "%s%lld", i > 1 ? "x" : "", (long long)a->dims[i]);
}

static int check_same_shape(const struct file_array *a, const struct file_array *b,
                            const char *what, struct error *e)
{
    if (a->rank == b->rank &&
        !memcmp(a->dims + 1, b->dims + 1, sizeof *a->dims * (size_t)(a->rank - 1)))
        return 0;
    char one[96] = "1", other[96] = "1";
    format_shape(a, one, sizeof one);
    format_shape(b, other, sizeof other);
    return error_set(e, ERR_CORRUPT, "%s holds %s of %s, but %s of %s", a->content->path, what, one,
                     b->content->path, other);
}

// --- samples -------------------------------------------------------------------------------------

// Reports the first of n numbers of a row that is not finite, by name and place.
static int fail_not_finite(const struct rows_dataset *d, const struct file_array *a, int64_t row,
                           int64_t n, const char *what, struct error *e)
{
    int64_t i = 0;
    while (i < n - 1 && isfinite((float)number_at(a->type, row_of(a, row), i)))
        i++;
    return error_set(e, ERR_CORRUPT,
                     "%s: offset %zu: %s %lld of sample %lld is %g%s; training needs finite "
                     "numbers",
                     a->content->path, offset_in_file(a, row, i), what, (long long)i,
                     (long long)row, number_at(a->type, row_of(a, row), i),
                     d->period > 1 || d->mean[0] != 0.0f ? ", or scaling makes it infinite" : "");
}

static int check_checksum(const struct rows_dataset *d, int64_t row, struct error *e)
{
    const struct file_array *a = &d->rows.inputs;
    size_t bytes = (size_t)d->inputs * number_size(a->type);
    int64_t expected = number_integer_at(NUMBER_U32, d->rows.sums, row);
    if (crc32c(0, row_of(a, row), bytes) == expected)
        return 0;
    return error_set(e, ERR_CORRUPT,
                     "%s: offset %zu: sample %lld is damaged (its checksum is wrong); pack the "
                     "folder again",
                     a->content->path, offset_in_file(a, row, 0), (long long)row);
}

static int fetch_row(const struct dataset *base, int64_t index, int64_t i, struct batch *out,
                     struct error *e)
{
    static const float zero = 0, one = 1;
    const struct rows_dataset *d = (const struct rows_dataset *)base;
    const struct file_array *x = &d->rows.inputs, *a = &d->rows.targets;
    int64_t row = d->first + index, outputs = base->shape.outputs;
    int rc = d->rows.sums ? check_checksum(d, row, e) : 0;
    if (rc)
        return rc;
    if (out->pixels.bytes) {
        memcpy(out->pixels.bytes + i * d->inputs, row_of(x, row), (size_t)d->inputs);
    } else if (!numbers_scale(x->type, row_of(x, row), d->inputs, d->mean, d->factor, d->period,
                              out->images + i * d->inputs)) {
        return fail_not_finite(d, x, row, d->inputs, "number", e);
    }
    if (!d->rows.values)
        out->labels[i] = (int32_t)number_integer_at(a->type, a->first, row);
    else if (!numbers_scale(a->type, row_of(a, row), outputs, &zero, &one, 1,
                            out->values + i * outputs))
        return fail_not_finite(d, a, row, outputs, "value", e);
    return 0;
}

static void close_rows(struct dataset *base)
{
    struct rows_dataset *d = (struct rows_dataset *)base;
    sample_rows_close(&d->rows);
    free(d->mean);
    free(d->factor);
    free(base->mean);
    free(base->factor);
    free(d);
}

static const struct dataset_ops rows_ops = {fetch_row, close_rows};

// Whether the images are bytes that the device can turn into finite numbers (a mean and a deviation
// of the specification may be anything).
static bool can_stay_bytes(const struct sample_rows *r, const struct rows_dataset *d)
{
    bool finite = true;
    for (int64_t i = 0; i < d->period; i++)
        finite &= isfinite((0.0f - d->mean[i]) * d->factor[i]) &&
                  isfinite((255.0f - d->mean[i]) * d->factor[i]);
    return finite && r->inputs.type == NUMBER_U8 && d->base.shape.kind == SAMPLE_IMAGE &&
           d->inputs <= OPS_PIXELS_MAX && d->base.shape.channels <= OPS_PIXEL_CHANNELS_MAX;
}

// The scaling by channel: the first `channels` numbers of a row's, which repeat.
static void keep_pixels(struct dataset *base)
{
    struct rows_dataset *d = (struct rows_dataset *)base;
    size_t n = (size_t)base->shape.channels;
    base->shape.pixels = true;
    base->mean = xcalloc(n, sizeof *base->mean);
    base->factor = xcalloc(n, sizeof *base->factor);
    for (size_t i = 0; i < n; i++) {
        base->mean[i] = d->mean[i % (size_t)d->period];
        base->factor[i] = d->factor[i % (size_t)d->period];
    }
}

static struct dataset *new_part(const struct sample_rows *r, int64_t first, int64_t count,
                                int64_t classes, const struct scaling *scaling)
{
    struct rows_dataset *d = xcalloc(1, sizeof *d);
    const struct file_array *x = &r->inputs;
    bool image = x->rank > 2;
    d->rows = *r;
    file_content_ref(r->inputs.content);
    file_content_ref(r->targets.content);
    d->first = first;
    d->inputs = per_row(x);
    d->base = (struct dataset){
        .ops = &rows_ops,
        .shape = {.kind = image ? SAMPLE_IMAGE : SAMPLE_FEATURES,
                  .height = image ? x->dims[1] : 1,
                  .width = image ? x->dims[2] : 1,
                  .channels = x->rank == 4 ? x->dims[3]
                              : image      ? 1
                                           : x->dims[1],
                  .classes = classes,
                  .outputs = r->values ? per_row(&r->targets) : 0},
        .count = count,
    };
    set_scaling(d, scaling);
    return &d->base;
}

int rows_validation_count(const struct data_request *r, const struct sample_rows *all,
                          int64_t *held_out, struct error *e)
{
    int64_t count = all->inputs.dims[0];
    *held_out = jget_int(r->spec, "validation_count", 0);
    if (*held_out >= 1 && *held_out < count)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.data.validation_count: %lld of the %lld samples of %s; choose 1 to "
                     "%lld, or give files for validation",
                     (long long)*held_out, (long long)count, all->inputs.content->path,
                     (long long)count - 1);
}

int rows_open(const struct data_request *r, const struct sample_rows *train,
              const struct sample_rows *validation, const struct scaling *scaling,
              struct dataset **out_train, struct dataset **out_validation, struct error *e)
{
    int64_t classes, held_out = 0, count = train->inputs.dims[0];
    int rc = check_rows(train, e);
    if (!rc && validation)
        rc = check_rows(validation, e);
    if (!rc && validation)
        rc = check_same_shape(&train->inputs, &validation->inputs, "samples", e);
    if (!rc && validation && per_row(&train->targets) != per_row(&validation->targets))
        rc = check_same_shape(&train->targets, &validation->targets, "values", e);
    if (!rc)
        rc = count_classes(r, train, validation, &classes, e);
    if (!rc && !validation)
        rc = rows_validation_count(r, train, &held_out, e);
    if (rc)
        return rc;
    *out_train = new_part(train, 0, count - held_out, classes, scaling);
    *out_validation = validation
                          ? new_part(validation, 0, validation->inputs.dims[0], classes, scaling)
                          : new_part(train, count - held_out, held_out, classes, scaling);
    // One batch serves both parts, so both keep their bytes or none.
    if (can_stay_bytes(train, (struct rows_dataset *)*out_train) &&
        can_stay_bytes(validation ? validation : train, (struct rows_dataset *)*out_validation)) {
        keep_pixels(*out_train);
        keep_pixels(*out_validation);
    }
    return 0;
}

// --- pairs of files ------------------------------------------------------------------------------

static int read_file(const struct data_request *r, const struct pair_format *f, const char *prefix,
                     const char *key, bool is_input, struct file_array *out, struct error *e)
{
    char *name = xasprintf("%s%s", prefix, key);
    struct file_content *c = NULL;
    int rc = data_open_file(r, name, true, &c, e);
    if (!rc)
        rc = f->read(c, is_input, out, e);
    out->content = c;
    free(name);
    return rc;
}

static int read_pair(const struct data_request *r, const struct pair_format *f, const char *prefix,
                     bool values, struct sample_rows *out, struct error *e)
{
    out->values = values;
    int rc = read_file(r, f, prefix, f->input_key, true, &out->inputs, e);
    if (!rc)
        rc = read_file(r, f, prefix, values ? "values" : "labels", false, &out->targets, e);
    return rc ? rc : check_rows(out, e);
}

static bool has_validation(const struct data_request *r, const struct pair_format *f)
{
    char *name = xasprintf("validation_%s", f->input_key);
    bool has = jget(r->spec, name) || jget(r->spec, "validation_labels") ||
               jget(r->spec, "validation_values");
    free(name);
    return has;
}

int rows_open_pairs(const struct data_request *r, const struct pair_format *f,
                    struct dataset **train, struct dataset **validation, struct error *e)
{
    struct sample_rows a = {0}, b = {0};
    struct scaling scaling = {0};
    bool values = f->values && jget(r->spec, "values"), separate = has_validation(r, f);
    int rc = read_pair(r, f, "", values, &a, e);
    if (!rc && separate)
        rc = read_pair(r, f, "validation_", values, &b, e);
    if (!rc) {
        scaling = scaling_new(a.inputs.rank == 4 ? a.inputs.dims[3] : 1, f->mean, f->deviation);
        rc = scaling_read(r, &scaling, e);
    }
    if (!rc)
        rc = rows_open(r, &a, separate ? &b : NULL, &scaling, train, validation, e);
    scaling_free(&scaling);
    sample_rows_close(&a);
    sample_rows_close(&b);
    return rc;
}
