// Private to trainer/data: the interface of file formats. dataset.c has the table of formats and
// the code that all data sets share. A format opens files and makes the two parts with rows.h
// (samples of numbers) or tokens.c (windows of tokens). One thread opens a data set; it is
// immutable afterwards.
#ifndef MUSTER_TRAINER_DATA_FORMAT_H
#define MUSTER_TRAINER_DATA_FORMAT_H

#include <jansson.h>
#include <stdbool.h>

#include "trainer/data/augment.h"
#include "trainer/data/dataset.h"
#include "trainer/data/file_content.h"

struct data_request {
    const json_t *spec, *model; // trainer.data, trainer.model
    const char *folder;         // base of relative paths
};

// Opens the file that trainer.data.`key` names. `unpack`: see file_content_open().
int data_open_file(const struct data_request *r, const char *key, bool unpack,
                   struct file_content **out, struct error *e);

struct dataset_ops { // the operations of an open data set
    // Stores sample `index` of the data set as sample i of the batch. ERR_CORRUPT.
    int (*fetch)(const struct dataset *d, int64_t index, int64_t i, struct batch *out,
                 struct error *e);
    void (*close)(struct dataset *d); // also frees d
};

struct dataset { // the first member of each format's own struct
    const struct dataset_ops *ops;
    struct sample_shape shape;
    int64_t count;
    struct augment augment;
    float *mean, *factor; // [channels] of pixels, if the shape has them; freed by `close`
};

// The formats: each opens both parts. After an error one part may remain open; the caller closes
// it.
int idx_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
             struct error *e);
int npy_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
             struct error *e);
int csv_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
             struct error *e);
int packed_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
                struct error *e);
int bytes_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
               struct error *e);
int tokens_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
                struct error *e);
int synthetic_open(const struct data_request *r, struct dataset **train,
                   struct dataset **validation, struct error *e);

#endif
