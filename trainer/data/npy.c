// Format npy, the .npy files of NumPy: "\x93NUMPY", version, length of the header, a Python literal
// {'descr': '<f4', 'fortran_order': False, 'shape': (10, 28, 28), } and the values
// (numpy.lib.format). Inputs are images [N, H, W] or [N, H, W, C] or features [N, F] of bytes or
// floating-point numbers; targets are labels [N] of any integer type, or values [N] or [N, K].
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "trainer/data/rows.h"

enum { HEADER_MAX = 65536, WORD_MAX = 32 };

struct npy_header {
    const struct file_content *c;
    const char *at, *end;
    char descr[WORD_MAX], order[WORD_MAX];
    bool has_shape;
};

static int fail_in_header(const struct npy_header *h, const char *expected, struct error *e)
{
    return error_set(e, ERR_CORRUPT,
                     "%s: offset %zu: the header of a .npy file should have %s here", h->c->path,
                     (size_t)(h->at - (const char *)h->c->data), expected);
}

// --- the literal in the header -------------------------------------------------------------------

static bool accept_char(struct npy_header *h, char wanted)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n'))
        h->at++;
    bool there = h->at < h->end && *h->at == wanted;
    h->at += there;
    return there;
}

static int parse_quoted(struct npy_header *h, char out[WORD_MAX], struct error *e)
{
    size_t n = 0;
    char quote = accept_char(h, '\'') ? '\'' : '"';
    if (quote == '"' && !accept_char(h, '"'))
        return fail_in_header(h, "text in quotes", e);
    while (h->at < h->end && *h->at != quote && n < WORD_MAX - 1)
        out[n++] = *h->at++;
    out[n] = '\0';
    return accept_char(h, quote) ? 0 : fail_in_header(h, "the end of a short text", e);
}

static int parse_word(struct npy_header *h, char out[WORD_MAX], struct error *e)
{
    size_t n = 0;
    accept_char(h, ' ');
    while (h->at < h->end && n < WORD_MAX - 1 &&
           ((*h->at >= 'a' && *h->at <= 'z') || (*h->at >= 'A' && *h->at <= 'Z')))
        out[n++] = *h->at++;
    out[n] = '\0';
    return n ? 0 : fail_in_header(h, "True or False", e);
}

static int parse_dimension(struct npy_header *h, struct file_array *a, struct error *e)
{
    int64_t n = 0;
    const char *begin = h->at;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *h->at - '0', &n))
            return fail_in_header(h, "a number below 2^63", e);
    if (h->at == begin)
        return fail_in_header(h, "a number", e);
    if (a->rank == ARRAY_RANK_MAX)
        return error_set(e, ERR_CORRUPT, "%s: more than %d dimensions", h->c->path, ARRAY_RANK_MAX);
    a->dims[a->rank++] = n;
    return 0;
}

static int parse_shape(struct npy_header *h, struct file_array *a, struct error *e)
{
    int rc = 0;
    if (!accept_char(h, '('))
        return fail_in_header(h, "a shape in brackets", e);
    while (!rc && !accept_char(h, ')')) {
        rc = parse_dimension(h, a, e);
        if (!rc && !accept_char(h, ',') && (h->at == h->end || *h->at != ')'))
            rc = fail_in_header(h, "a comma", e);
    }
    h->has_shape = true;
    return rc;
}

static int parse_entry(struct npy_header *h, struct file_array *a, struct error *e)
{
    char key[WORD_MAX];
    int rc = parse_quoted(h, key, e);
    if (rc)
        return rc;
    if (!accept_char(h, ':'))
        return fail_in_header(h, "a colon", e);
    if (strcmp(key, "shape") == 0)
        return a->rank ? fail_in_header(h, "one shape only", e) : parse_shape(h, a, e);
    if (strcmp(key, "fortran_order") == 0)
        return parse_word(h, h->order, e);
    if (strcmp(key, "descr") != 0)
        return fail_in_header(h, "none but the keys descr, fortran_order and shape", e);
    if (accept_char(h, '['))
        return error_set(e, ERR_CORRUPT,
                         "%s: holds records of several fields; expected plain numbers", h->c->path);
    return parse_quoted(h, h->descr, e);
}

static int parse_literal(struct npy_header *h, struct file_array *a, struct error *e)
{
    int rc = 0;
    if (!accept_char(h, '{'))
        return fail_in_header(h, "a brace", e);
    while (!rc && !accept_char(h, '}')) {
        rc = parse_entry(h, a, e);
        if (!rc && !accept_char(h, ',') && (h->at == h->end || *h->at != '}'))
            rc = fail_in_header(h, "a comma", e);
    }
    if (!rc && !(h->has_shape && h->descr[0] && h->order[0]))
        rc = error_set(e, ERR_CORRUPT, "%s: its header lacks descr, fortran_order or shape",
                       h->c->path);
    return rc;
}

// --- the file ------------------------------------------------------------------------------------

static int find_literal(struct npy_header *h, size_t *values, struct error *e)
{
    const struct file_content *c = h->c;
    if (c->size >= 6 && memcmp(c->data, "\x93NUMPY", 6) != 0)
        return error_set(e, ERR_CORRUPT,
                         "%s: offset 0: not a .npy file (\"\\x93NUMPY\" is missing)", c->path);
    if (c->size < 12)
        return error_set(e, ERR_CORRUPT, "%s: ends at offset %zu, within its header", c->path,
                         c->size);
    int version = c->data[6];
    if (version < 1 || version > 3)
        return error_set(e, ERR_CORRUPT,
                         "%s: offset 6: version %d of .npy; this program reads 1 to 3", c->path,
                         version);
    size_t begin = version == 1 ? 10 : 12;
    size_t length =
        (size_t)number_integer_at(version == 1 ? NUMBER_U16 : NUMBER_U32, c->data + 8, 0);
    if (length > HEADER_MAX)
        return error_set(e, ERR_CORRUPT, "%s: offset 8: a header of %zu bytes; at most %d are read",
                         c->path, length, HEADER_MAX);
    if (c->size < begin + length)
        return error_set(e, ERR_CORRUPT, "%s: ends at offset %zu, within its header of %zu bytes",
                         c->path, c->size, begin + length);
    h->at = (const char *)c->data + begin;
    h->end = h->at + length;
    *values = begin + length;
    return 0;
}

static int read_type(const struct npy_header *h, enum number_type *out, struct error *e)
{
    static const struct {
        const char *descr;
        enum number_type type;
    } types[] = {
        {"|u1", NUMBER_U8},  {"|i1", NUMBER_I8},  {"|b1", NUMBER_U8},  {"<u2", NUMBER_U16},
        {"<i2", NUMBER_I16}, {"<u4", NUMBER_U32}, {"<i4", NUMBER_I32}, {"<u8", NUMBER_U64},
        {"<i8", NUMBER_I64}, {"<f4", NUMBER_F32}, {"<f8", NUMBER_F64},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(h->descr, types[i].descr) == 0) {
            *out = types[i].type;
            return 0;
        }
    return error_set(e, ERR_CORRUPT,
                     "%s: holds numbers of type %s%s; little-endian integers, float32 and float64 "
                     "are read: save it with .astype()",
                     h->c->path, h->descr, h->descr[0] == '>' ? " (big-endian)" : "");
}

static int read_array(struct file_content *c, bool is_input, struct file_array *out,
                      struct error *e)
{
    struct npy_header h = {.c = c};
    size_t values = 0, bytes;
    *out = (struct file_array){0};
    int rc = find_literal(&h, &values, e);
    if (!rc)
        rc = parse_literal(&h, out, e);
    if (!rc)
        rc = read_type(&h, &out->type, e);
    if (rc)
        return rc;
    if (strcmp(h.order, "False") != 0)
        return error_set(e, ERR_CORRUPT,
                         "%s: holds its numbers in Fortran order; save it with "
                         "numpy.ascontiguousarray()",
                         c->path);
    if (is_input && out->type != NUMBER_U8 && !number_is_float(out->type))
        return error_set(e, ERR_CORRUPT,
                         "%s: inputs are of type %s; uint8, float32 and float64 are read", c->path,
                         h.descr);
    out->first = c->data + values;
    bytes = number_size(out->type);
    for (int i = 0; i < out->rank; i++)
        if (__builtin_mul_overflow(bytes, (size_t)out->dims[i], &bytes) || bytes > SIZE_MAX / 2)
            return error_set(e, ERR_CORRUPT, "%s: its header promises more than 2^63 bytes",
                             c->path);
    return file_content_check_end(c, values + bytes, e);
}

int npy_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
             struct error *e)
{
    static const struct pair_format format = {
        .input_key = "inputs", .values = true, .mean = 0, .deviation = 1, .read = read_array};
    return rows_open_pairs(r, &format, train, validation, e);
}
