// Private to trainer/data: data sets of rows. A row has the input numbers of a sample (image or
// features) and its target (a class or values). The formats idx, npy, csv and images find the
// numbers in their files; this module does the rest: checks of counts, shapes and labels, the split
// into training and validation, and scaling.
//
// Labels are checked when the data is opened. Inputs and values may be larger than memory, so they
// are checked when a sample is fetched: a NaN, an infinity or a packed image with a wrong checksum
// fails that fetch with the number and place of the sample.
#ifndef MUSTER_TRAINER_DATA_ROWS_H
#define MUSTER_TRAINER_DATA_ROWS_H

#include "trainer/data/format.h"
#include "trainer/data/numbers.h"

enum { ARRAY_RANK_MAX = 4 };

struct file_array { // numbers in a file, row-major; dims[0] is the number of samples
    struct file_content *content;
    const uint8_t *first;
    enum number_type type;
    int rank;
    int64_t dims[ARRAY_RANK_MAX];
};

struct sample_rows { // of one file or of a pair of files; zero-initialised: none
    struct file_array inputs, targets;
    bool values;         // the targets are values to predict, not classes
    const uint8_t *sums; // CRC32C of the inputs of each sample (4 bytes, little-endian); NULL: none
    int64_t classes;     // as declared by the file; 0: the largest label + 1
};
void sample_rows_close(struct sample_rows *r); // unreferences the contents

// Inputs are scaled to (x - mean) / deviation. There is one pair of numbers, or one per channel or
// feature.
struct scaling {
    double *mean, *deviation;
    int64_t count;
};
struct scaling scaling_new(int64_t count, double mean, double deviation);
void scaling_free(struct scaling *s);
// Replaces the numbers by trainer.data.mean and .deviation if they are given. ERR_INVALID if a list
// has another length.
int scaling_read(const struct data_request *r, struct scaling *s, struct error *e);

// The number of samples at the end of `all` that are kept for validation
// (trainer.data.validation_count).
int rows_validation_count(const struct data_request *r, const struct sample_rows *all,
                          int64_t *held_out, struct error *e);

// Makes the two parts. If `validation` is NULL, the end of `train` becomes the validation part.
// Bytes are first scaled to 0..1. References the contents it needs; the caller still closes the
// rows.
int rows_open(const struct data_request *r, const struct sample_rows *train,
              const struct sample_rows *validation, const struct scaling *scaling,
              struct dataset **out_train, struct dataset **out_validation, struct error *e);

// Formats with two files, inputs and targets: keys `input_key`, "labels" or (if `values` allows it)
// "values", and the same with the prefix "validation_". `read` finds the array in a file.
struct pair_format {
    const char *input_key;
    bool values;
    double mean, deviation; // used if trainer.data does not set them
    int (*read)(struct file_content *c, bool is_input, struct file_array *out, struct error *e);
};
int rows_open_pairs(const struct data_request *r, const struct pair_format *f,
                    struct dataset **train, struct dataset **validation, struct error *e);

#endif
