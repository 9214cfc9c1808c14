// Format idx, as published with MNIST: bytes 0, 0, type, rank; the dimensions, big-endian; the
// values. Images are [samples, height, width] of bytes, labels are [samples].
#include "base/log.h"
#include "trainer/data/rows.h"

static uint32_t read_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int read_array(struct file_content *c, bool is_input, struct file_array *out,
                      struct error *e)
{
    int rank = is_input ? 3 : 1;
    size_t header = 4 + 4 * (size_t)rank, size = 1;
    uint32_t magic = 0x0800u | (uint32_t)rank;
    if (c->size >= 4 && read_be32(c->data) != magic)
        return error_set(e, ERR_CORRUPT,
                         "%s: offset 0: expected 0x%08x (IDX, unsigned bytes, %d dimensions), "
                         "found 0x%08x",
                         c->path, magic, rank, read_be32(c->data));
    if (c->size < header)
        return error_set(e, ERR_CORRUPT, "%s: ends at offset %zu, within its header of %zu bytes",
                         c->path, c->size, header);
    *out = (struct file_array){.first = c->data + header, .type = NUMBER_U8, .rank = rank};
    for (int i = 0; i < rank; i++) {
        out->dims[i] = read_be32(c->data + 4 + 4 * i);
        if (out->dims[i] == 0 || (i > 0 && out->dims[i] > 65536))
            return error_set(e, ERR_CORRUPT, "%s: offset %d: dimension %d is %lld", c->path,
                             4 + 4 * i, i, (long long)out->dims[i]);
        must(!__builtin_mul_overflow(size, (size_t)out->dims[i], &size));
    }
    return file_content_check_end(c, header + size, e);
}

int idx_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
             struct error *e)
{
    static const struct pair_format format = {
        .input_key = "images", .mean = 0.1307, .deviation = 0.3081, .read = read_array};
    return rows_open_pairs(r, &format, train, validation, e);
}
