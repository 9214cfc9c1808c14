#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/os/file.h"
#include "trainer/data/packed.h"

static int io_error(const struct packed_writer *w, struct error *e)
{
    return error_set_errno(e, ERR_IO, errno, "cannot write %s", w->temporary);
}

static void put_le(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void free_writer(struct packed_writer *w)
{
    buf_free(&w->names);
    free(w->path);
    free(w->temporary);
    free(w->labels);
    free(w->sums);
    *w = (struct packed_writer){0};
}

static int set_class_names(struct packed_writer *w, char *const *classes, int64_t count,
                           struct error *e)
{
    buf_init(&w->names, PACKED_HEADER_MAX - PACKED_NAMES_AT - PACKED_ALIGN);
    for (int64_t i = 0; i < count; i++)
        buf_append(&w->names, classes[i], strlen(classes[i]) + 1);
    if (w->names.err || count < 1 || count > PACKED_CLASSES_MAX)
        return error_set(e, ERR_INVALID, "%lld classes; 1 to %d with short names can be packed",
                         (long long)count, PACKED_CLASSES_MAX);
    w->classes = (uint32_t)count;
    w->header = (uint32_t)((PACKED_NAMES_AT + w->names.len + PACKED_ALIGN - 1) / PACKED_ALIGN *
                           PACKED_ALIGN);
    return 0;
}

int packed_begin(struct packed_writer *w, const char *path, const struct packed_shape *shape,
                 char *const *classes, int64_t class_count, struct error *e)
{
    *w = (struct packed_writer){.shape = *shape};
    w->path = xstrdup(path);
    w->temporary = xasprintf("%s.tmp.%d", path, (int)getpid());
    int rc = set_class_names(w, classes, class_count, e);
    if (rc)
        return rc;
    w->file = fopen(w->temporary, "wbe");
    if (!w->file || fseek(w->file, w->header, SEEK_SET))
        return io_error(w, e);
    return 0;
}

int packed_add(struct packed_writer *w, const uint8_t *pixels, int64_t label, struct error *e)
{
    int64_t channels = w->shape.channels;
    size_t bytes = (size_t)(w->shape.height * w->shape.width * channels);
    for (size_t i = 0; i < bytes; i++) {
        uint64_t v = pixels[i];
        w->total[i % (size_t)channels] += v;
        w->squares[i % (size_t)channels] += v * v;
    }
    if ((w->count & (w->count - 1)) == 0) { // grow to the next power of two
        size_t room = w->count ? 2 * w->count : 1;
        w->labels = xrealloc(w->labels, room * sizeof *w->labels);
        w->sums = xrealloc(w->sums, room * sizeof *w->sums);
    }
    put_le((uint8_t *)&w->labels[w->count], (uint64_t)label, sizeof *w->labels);
    put_le((uint8_t *)&w->sums[w->count], crc32c(0, pixels, bytes), sizeof *w->sums);
    w->count++;
    return fwrite(pixels, 1, bytes, w->file) == bytes ? 0 : io_error(w, e);
}

static uint8_t *make_header(const struct packed_writer *w)
{
    uint8_t *h = xcalloc(w->header, 1);
    size_t table = w->count * sizeof *w->labels;
    const int64_t shape[] = {w->shape.height, w->shape.width, w->shape.channels, w->classes};
    memcpy(h, PACKED_MAGIC, 8);
    put_le(h + 8, PACKED_VERSION, 4);
    put_le(h + 12, w->header, 4);
    put_le(h + 20, crc32c(crc32c(0, w->labels, table), w->sums, table), 4);
    for (size_t i = 0; i < 4; i++)
        put_le(h + 24 + 4 * i, (uint64_t)shape[i], 4);
    put_le(h + 40, w->count, 8);
    for (size_t c = 0; c < 3; c++) {
        put_le(h + 48 + 8 * c, w->total[c], 8);
        put_le(h + 72 + 8 * c, w->squares[c], 8);
    }
    memcpy(h + PACKED_NAMES_AT, w->names.data, w->names.len);
    uint32_t crc = crc32c(0, h, PACKED_CRC_AT);
    put_le(h + PACKED_CRC_AT, crc32c(crc, h + PACKED_CRC_AT + 4, w->header - PACKED_CRC_AT - 4), 4);
    return h;
}

static int write_tables_and_header(struct packed_writer *w, struct error *e)
{
    uint8_t *header = make_header(w);
    bool good = fwrite(w->labels, sizeof *w->labels, w->count, w->file) == w->count &&
                fwrite(w->sums, sizeof *w->sums, w->count, w->file) == w->count &&
                fseek(w->file, 0, SEEK_SET) == 0 &&
                fwrite(header, 1, w->header, w->file) == w->header && fflush(w->file) == 0 &&
                fsync(fileno(w->file)) == 0;
    int rc = good ? 0 : io_error(w, e);
    free(header);
    return rc;
}

int packed_end(struct packed_writer *w, struct error *e)
{
    int rc = write_tables_and_header(w, e);
    if (fclose(w->file) && !rc)
        rc = io_error(w, e);
    w->file = NULL;
    if (!rc && rename(w->temporary, w->path))
        rc = error_set_errno(e, ERR_IO, errno, "cannot rename %s to %s", w->temporary, w->path);
    if (rc) {
        packed_abort(w);
        return rc;
    }
    rc = file_sync_dir(dirname(w->path), e); // dirname() modifies the path
    free_writer(w);
    return rc;
}

void packed_abort(struct packed_writer *w)
{
    if (w->file)
        fclose(w->file);
    if (w->temporary)
        unlink(w->temporary);
    free_writer(w);
}
