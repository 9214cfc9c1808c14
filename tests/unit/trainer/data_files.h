// Makes data files in the working folder of a test and opens them as data sets.
#ifndef MUSTER_TESTS_TRAINER_DATA_FILES_H
#define MUSTER_TESTS_TRAINER_DATA_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/os/file.h"
#include "trainer/data/dataset.h"

static char folder[512]; // working folder of the test

// cmocka group set-up.
static inline int data_begin(void **state)
{
    (void)state;
    return getcwd(folder, sizeof folder) ? 0 : -1;
}

static inline void write_file(const char *name, const void *data, size_t len)
{
    char *path = path_join(folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    free(path);
}

static inline void write_buf(const char *name, struct buf b)
{
    write_file(name, b.data, b.len);
    buf_free(&b);
}

static struct dataset *train, *validation;

// A batch whose images are floats, also if the samples are bytes.
static inline struct batch *batch_of_floats(const struct sample_shape *shape, int64_t capacity)
{
    struct sample_shape floats = *shape;
    floats.pixels = false;
    return batch_new(&floats, capacity);
}

static inline int open_text(const char *spec_text, const char *model_text, struct error *e)
{
    json_t *spec = json_loads(spec_text, 0, NULL), *model = json_loads(model_text, 0, NULL);
    assert_non_null(spec);
    assert_non_null(model);
    int rc = dataset_open(spec, model, folder, &train, &validation, e);
    json_decref(spec);
    json_decref(model);
    return rc;
}

static inline void open_good(const char *spec, const char *model)
{
    struct error e;
    if (open_text(spec, model, &e))
        fail_msg("%s", e.text);
}

static inline void fetch(const struct dataset *d, const int64_t *indices, int64_t n,
                         struct batch *out)
{
    struct error e;
    if (dataset_fetch(d, indices, n, NULL, out, &e))
        fail_msg("%s", e.text);
}

static inline void close_both(void)
{
    dataset_close(train);
    dataset_close(validation);
}

// `expected` contains % in place of the folder.
static inline void expect_refused(const char *spec, const char *model, int code,
                                  const char *expected)
{
    struct error e = {0};
    struct buf text;
    buf_init(&text, 4096);
    for (const char *p = expected; *p; p++)
        *p == '%' ? buf_puts(&text, folder) : buf_append(&text, p, 1);
    int rc = open_text(spec, model, &e);
    if (rc != code || strcmp(e.text, buf_str(&text)) != 0)
        fail_msg("\nexpected %d: %s\nfound    %d: %s", code, buf_str(&text), rc, e.text);
    assert_null(train);
    assert_null(validation);
    buf_free(&text);
}

static inline void put_le(struct buf *b, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        buf_append(b, &(uint8_t){(uint8_t)(value >> (8 * i))}, 1);
}

// The device makes the same bits of bytes and their changes as the host makes of floats.
static inline void expect_same_numbers(const struct dataset *d, const struct draw_key *key)
{
    enum { COUNT = 40 };
    struct error e;
    int64_t indices[COUNT];
    const struct sample_shape *s = dataset_shape(d);
    size_t numbers = (size_t)(COUNT * s->height * s->width * s->channels);
    struct batch *floats = batch_of_floats(s, COUNT), *bytes = batch_new(s, COUNT);
    float *made = xcalloc(numbers, sizeof *made);
    for (int64_t i = 0; i < COUNT; i++)
        indices[i] = i % dataset_count(d);
    assert_true(s->pixels && !bytes->images);
    assert_int_equal(dataset_fetch(d, indices, COUNT, key, floats, &e), 0);
    assert_int_equal(dataset_fetch(d, indices, COUNT, key, bytes, &e), 0);
    assert_memory_equal(floats->labels, bytes->labels, COUNT * sizeof *bytes->labels);
    ops_upload_pixels(COUNT, &bytes->pixels, made);
    assert_memory_equal(floats->images, made, numbers * sizeof *made);
    free(made);
    batch_free(floats);
    batch_free(bytes);
}

#endif
