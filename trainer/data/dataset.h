// Data sets: memory-mapped or loaded once, immutable afterwards. Any thread may fetch.
//
// A data set is a sequence of samples 0..count-1 of one shape: an image or a row of features
// (scaled as the specification says) with a class or with values to predict, or a window of context
// + 1 tokens. Each file format is described where it is read: idx.c, npy.c, csv.c, packed.h,
// tokens.c; synthetic.c reads no files.
#ifndef MUSTER_TRAINER_DATA_DATASET_H
#define MUSTER_TRAINER_DATA_DATASET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trainer/ops/image.h"

enum sample_kind { SAMPLE_IMAGE, SAMPLE_FEATURES, SAMPLE_TOKENS };

struct sample_shape {
    enum sample_kind kind;
    int64_t height, width, channels; // SAMPLE_IMAGE: NHWC; SAMPLE_FEATURES: 1, 1, features
    int64_t classes;                 // labels are 0..classes-1; 0: no classes
    int64_t outputs;                 // number of values to predict for each sample; 0: none
    int64_t context;                 // SAMPLE_TOKENS: tokens per sample
    int64_t vocabulary;              // SAMPLE_TOKENS: tokens are 0..vocabulary-1
    bool pixels;                     // SAMPLE_IMAGE: the images of a batch stay bytes
};

// The samples of a micro-batch. The memory belongs to the caller of batch_new().
struct batch {
    int64_t count;
    float *images;            // [count, height, width, channels]; NULL for tokens and for pixels
    struct ops_pixels pixels; // if the shape says so; the changes are those of the augmentation
    int32_t *labels;          // [count], if classes > 0
    float *values;            // [count, outputs], if outputs > 0
    int32_t *tokens;          // [count, context]
    int32_t *targets;         // [count, context], the next token of each token
    int64_t *samples; // [count], index of each sample in its data set; keys its random draws
};

struct draw_key { // keys of random draws (dropout, augmentation), besides the sample
    uint64_t seed;
    int64_t step;
};

struct batch *batch_new(const struct sample_shape *shape, int64_t capacity);
void batch_free(struct batch *b);

struct dataset; // opaque

// Opens the training and the validation part of `spec` (trainer.data of the experiment); relative
// paths start at `folder`. `model` is trainer.model (for its context, vocabulary and classes). Each
// part holds at least one sample. An error about a file that is missing, short, corrupt or of the
// wrong shape names the file and the offset.
int dataset_open(const json_t *spec, const json_t *model, const char *folder,
                 struct dataset **train, struct dataset **validation, struct error *e);
void dataset_close(struct dataset *d);

const struct sample_shape *dataset_shape(const struct dataset *d);
int64_t dataset_count(const struct dataset *d);

// Fills `out` with n samples (n <= its capacity; indices < count), as floats or as pixels,
// whichever `out` was made for; both lead to the same numbers on the device. With a key, images of
// a training part are augmented as the specification says, each with the draws of (key, sample).
// Faults that show only now are ERR_CORRUPT with the place of the sample: numbers that are not
// finite, tokens outside the vocabulary, a packed image with a wrong checksum.
int dataset_fetch(const struct dataset *d, const int64_t *indices, int64_t n,
                  const struct draw_key *key, struct batch *out, struct error *e);

#endif
