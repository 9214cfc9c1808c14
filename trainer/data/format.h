// Inside trainer/data: what a format of files is. dataset.c has the table of formats and whatever
// all data sets share; a format opens files and makes the two parts, by rows.h (samples of numbers)
// or tokens.c (windows of tokens). Opening is for one thread; what is open is immutable.
#ifndef MUSTER_TRAINER_DATA_FORMAT_H
#define MUSTER_TRAINER_DATA_FORMAT_H

#include <jansson.h>
#include <stdbool.h>

#include "trainer/data/augment.h"
#include "trainer/data/dataset.h"
#include "trainer/data/file_content.h"

struct data_request {
    const json_t *spec, *model; // trainer.data, trainer.model
    const char *folder;         // where relative paths start
};

// Opens the file that trainer.data.`key` names; `unpack` as in file_content_open().
int data_open_file(const struct data_request *r, const char *key, bool unpack,
                   struct file_content **out, struct error *e);

struct dataset_kind { // how the samples of an open data set are had
    // Sample `index` becomes sample i of the batch. ERR_CORRUPT.
    int (*fetch)(const struct dataset *d, int64_t index, int64_t i, struct batch *out,
                 struct error *e);
    void (*close)(struct dataset *d); // frees d too
};

struct dataset { // the head of what a kind allocates
    const struct dataset_kind *kind;
    struct sample_shape shape;
    int64_t count;
    struct augment augment;
};

// A format's way to open both parts. On an error one part may be left open: the caller closes it.
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
