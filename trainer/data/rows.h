// Inside trainer/data: data sets of rows, each a sample's input numbers (image or features) and its
// answer (a class or values). The formats idx, npy, csv and images find the numbers in their files;
// what follows is the same for all: counts and shapes that must agree, labels within the classes,
// the split into parts, scaling, and numbers that are none.
//
// Labels are checked when the data is opened. Inputs and values may be larger than memory, so they
// are looked at when a sample is fetched: a NaN or an infinity, or a packed image that is not what
// was packed, fails that fetch with the sample's number and place.
#ifndef MUSTER_TRAINER_DATA_ROWS_H
#define MUSTER_TRAINER_DATA_ROWS_H

#include "trainer/data/format.h"
#include "trainer/data/numbers.h"

enum { ARRAY_RANK_MAX = 4 };

struct file_array { // numbers of a file, row-major; dims[0] is the samples
    struct file_content *content;
    const uint8_t *first;
    enum number_type type;
    int rank;
    int64_t dims[ARRAY_RANK_MAX];
};

struct sample_rows { // of one file or pair of files; zero: there is none
    struct file_array inputs, targets;
    bool values;         // the answers are values to predict, not classes
    const uint8_t *sums; // CRC32C of each sample's inputs (4 bytes, little-endian); NULL: none
    int64_t classes;     // that the file declares; 0: as many as its labels show
};
void sample_rows_close(struct sample_rows *r); // the contents

// What inputs are scaled by, (x - mean) / deviation: one of each, or one per channel or feature.
struct scaling {
    double *mean, *deviation;
    int64_t count;
};
struct scaling scaling_new(int64_t count, double mean, double deviation);
void scaling_free(struct scaling *s);
// What trainer.data.mean and .deviation say in the place of what is there. ERR_INVALID where a list
// is not of as many numbers.
int scaling_read(const struct data_request *r, struct scaling *s, struct error *e);

// Samples at the end of `all` that are kept for validation (trainer.data.validation_count).
int rows_validation_count(const struct data_request *r, const struct sample_rows *all,
                          int64_t *kept, struct error *e);

// Makes the two parts; without rows for validation it is the last of `train`. Bytes are first
// scaled to 0..1. Keeps the contents it needs; the rows remain the caller's.
int rows_open(const struct data_request *r, const struct sample_rows *train,
              const struct sample_rows *validation, const struct scaling *scaling,
              struct dataset **out_train, struct dataset **out_validation, struct error *e);

// Formats of two files, inputs and answers: keys `input_key`, "labels" or (where `values` says so)
// "values", and the same with "validation_" before. `read` finds the array in a file.
struct pair_format {
    const char *input_key;
    bool values;
    double mean, deviation; // unless trainer.data has them
    int (*read)(struct file_content *c, bool is_input, struct file_array *out, struct error *e);
};
int rows_open_pairs(const struct data_request *r, const struct pair_format *f,
                    struct dataset **train, struct dataset **validation, struct error *e);

#endif
