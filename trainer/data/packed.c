// Format images: reads the files that `muster-trainer pack` writes (packed.h).
#include "trainer/data/packed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text/json.h"
#include "trainer/data/rows.h"

struct packed_file { // one open file
    struct sample_rows rows;
    const uint8_t *header;
    size_t names; // bytes of the names and the zeros after them
};

static int64_t word_at(const uint8_t *p, size_t offset)
{
    return number_integer_at(NUMBER_U32, p + offset, 0);
}

static int fail_corrupt(const struct file_content *c, size_t offset, const char *what,
                        struct error *e)
{
    return error_set(e, ERR_CORRUPT, "%s: offset %zu: %s; pack the folder again", c->path, offset,
                     what);
}

static int check_header(const struct file_content *c, size_t *header, struct error *e)
{
    if (c->size >= 8 && memcmp(c->data, PACKED_MAGIC, 8) != 0)
        return error_set(e, ERR_CORRUPT,
                         "%s: offset 0: not a file of packed images (\"" PACKED_MAGIC
                         "\" is missing); "
                         "`muster-trainer pack` makes such files",
                         c->path);
    if (c->size < PACKED_NAMES_AT)
        return error_set(e, ERR_CORRUPT, "%s: ends at offset %zu, within its header", c->path,
                         c->size);
    if (word_at(c->data, 8) != PACKED_VERSION)
        return error_set(e, ERR_VERSION,
                         "%s: offset 8: version %lld of packed images; this program reads %d",
                         c->path, (long long)word_at(c->data, 8), PACKED_VERSION);
    *header = (size_t)word_at(c->data, 12);
    if (*header <= PACKED_NAMES_AT || *header > PACKED_HEADER_MAX || *header > c->size)
        return fail_corrupt(c, 12, "the length of the header is wrong", e);
    uint32_t crc = crc32c(0, c->data, PACKED_CRC_AT);
    crc = crc32c(crc, c->data + PACKED_CRC_AT + 4, *header - PACKED_CRC_AT - 4);
    return crc == word_at(c->data, PACKED_CRC_AT)
               ? 0
               : fail_corrupt(c, PACKED_CRC_AT, "the checksum of the header is wrong", e);
}

// The checksum shows that the header is unchanged, but its author may have been wrong.
static int check_shape(const struct file_content *c, struct sample_rows *out, struct error *e)
{
    int64_t *dims = out->inputs.dims, count = number_integer_at(NUMBER_U64, c->data + 40, 0);
    dims[0] = count;
    for (int i = 1; i < 4; i++)
        dims[i] = word_at(c->data, 20 + 4 * (size_t)i);
    out->classes = word_at(c->data, 36);
    if (dims[1] < 1 || dims[1] > PACKED_SIDE_MAX || dims[2] < 1 || dims[2] > PACKED_SIDE_MAX ||
        (dims[3] != 1 && dims[3] != 3))
        return fail_corrupt(c, 24, "the shape of the images is impossible", e);
    if (out->classes < 1 || out->classes > PACKED_CLASSES_MAX)
        return fail_corrupt(c, 36, "the number of classes is impossible", e);
    if (count < 1 || count > INT64_MAX / (dims[1] * dims[2] * dims[3] + 8) / 2)
        return fail_corrupt(c, 40, "the number of images is impossible", e);
    return 0;
}

static int read_packed(const struct data_request *r, const char *key, struct packed_file *out,
                       struct error *e)
{
    struct sample_rows *rows = &out->rows;
    struct file_array *x = &rows->inputs, *y = &rows->targets;
    struct file_content *c = NULL;
    size_t header = 0;
    int rc = data_open_file(r, key, false, &c, e);
    x->content = c;
    if (!rc)
        rc = check_header(c, &header, e);
    if (!rc)
        rc = check_shape(c, rows, e);
    if (rc)
        return rc;
    size_t n = (size_t)x->dims[0], pixels = n * (size_t)(x->dims[1] * x->dims[2] * x->dims[3]);
    *x = (struct file_array){
        c, c->data + header, NUMBER_U8, 4, {x->dims[0], x->dims[1], x->dims[2], x->dims[3]}};
    *y = (struct file_array){file_content_ref(c), x->first + pixels, NUMBER_U32, 1, {x->dims[0]}};
    rows->sums = y->first + 4 * n;
    out->header = c->data;
    out->names = header - PACKED_NAMES_AT;
    rc = file_content_check_end(c, header + pixels + 8 * n, e);
    if (!rc && crc32c(0, y->first, 8 * n) != word_at(c->data, 20))
        rc = fail_corrupt(c, header + pixels, "the checksum of the labels is wrong", e);
    return rc;
}

static int check_classes(const struct packed_file *a, const struct packed_file *b, struct error *e)
{
    size_t shorter = a->names < b->names ? a->names : b->names;
    if (a->rows.classes == b->rows.classes &&
        memcmp(a->header + PACKED_NAMES_AT, b->header + PACKED_NAMES_AT, shorter) == 0)
        return 0;
    return error_set(e, ERR_CORRUPT, "%s and %s contain different classes (folder names)",
                     a->rows.inputs.content->path, b->rows.inputs.content->path);
}

// Mean and deviation of each channel from the sums in the header. A constant channel keeps
// deviation 1.
static struct scaling packed_scaling(const struct packed_file *p)
{
    const int64_t *dims = p->rows.inputs.dims;
    struct scaling s = scaling_new(dims[3], 0, 1);
    double n = (double)dims[0] * (double)dims[1] * (double)dims[2];
    for (int64_t c = 0; c < dims[3]; c++) {
        double mean = number_at(NUMBER_U64, p->header + 48, c) / n;
        double variance = number_at(NUMBER_U64, p->header + 72, c) / n - mean * mean;
        s.mean[c] = mean / 255;
        s.deviation[c] = variance > 1e-6 ? sqrt(variance) / 255 : 1;
    }
    return s;
}

int packed_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
                struct error *e)
{
    struct packed_file a = {0}, b = {0};
    struct scaling scaling = {0};
    bool separate = jget(r->spec, "validation_path") != NULL;
    int rc = read_packed(r, "path", &a, e);
    if (!rc && separate)
        rc = read_packed(r, "validation_path", &b, e);
    if (!rc && separate)
        rc = check_classes(&a, &b, e);
    if (!rc) {
        scaling = packed_scaling(&a);
        rc = scaling_read(r, &scaling, e);
    }
    if (!rc)
        rc = rows_open(r, &a.rows, separate ? &b.rows : NULL, &scaling, train, validation, e);
    scaling_free(&scaling);
    sample_rows_close(&a.rows);
    sample_rows_close(&b.rows);
    return rc;
}
