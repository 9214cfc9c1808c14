// Generated data and small models for tests of whole trainings.
#ifndef MUSTER_TESTS_TRAINER_TOYS_H
#define MUSTER_TESTS_TRAINER_TOYS_H

#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"

static inline void toys_put_be32(unsigned char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(v >> (24 - 8 * i));
}

// cmocka group set-up: makes the files images, labels and text in the current folder.
static inline int toys_make(void **state)
{
    enum { IMAGES = 200, SIDE = 8, PIXELS = SIDE * SIDE, TEXT = 3000 };
    static unsigned char images[16 + IMAGES * PIXELS], labels[8 + IMAGES], text[TEXT];
    struct rng r;
    (void)state;
    rng_seed(&r, 3, 1);
    toys_put_be32(images, 0x00000803);
    toys_put_be32(images + 4, IMAGES);
    toys_put_be32(images + 8, SIDE);
    toys_put_be32(images + 12, SIDE);
    toys_put_be32(labels, 0x00000801);
    toys_put_be32(labels + 4, IMAGES);
    for (int i = 0; i < IMAGES; i++) {
        labels[8 + i] = (unsigned char)rng_below(&r, 4);
        for (int p = 0; p < PIXELS; p++) // a class is a bright quarter
            images[16 + i * PIXELS + p] =
                (unsigned char)(rng_below(&r, 100) + (p / 16 == labels[8 + i] ? 120 : 0));
    }
    for (int i = 0; i < TEXT; i++)
        text[i] = (unsigned char)("the quick brown fox "[i % 20] + (rng_below(&r, 9) == 0));
    must(file_write_durable("images", images, sizeof images, 0666, NULL) == 0);
    must(file_write_durable("labels", labels, sizeof labels, 0666, NULL) == 0);
    must(file_write_durable("text", text, sizeof text, 0666, NULL) == 0);
    return 0;
}

#define TOYS_HEAD "name: test\nsearcher: {name: single, metric: validation_loss}\n"
#define TOYS_IDX  "  data: {format: idx, images: images, labels: labels, validation_count: 37}\n"

static const char toys_mlp[] __attribute__((unused)) =
    TOYS_HEAD "trainer:\n"
              "  model: {family: mlp, hidden: [24], classes: 4, dropout: 0.1}\n" TOYS_IDX
              "  global_batch_size: 32\n  micro_batch_size: 4\n  steps: 12\n" // V = 8
              "  optimizer: {name: adamw, learning_rate: 0.01}\n"
              "  validate_every: 6\n  checkpoint_every: 4\n  report_every: 5\n"
              "  checkpoint_best: false\n";

static const char toys_gpt[] __attribute__((unused)) =
    TOYS_HEAD "trainer:\n"
              "  model: {family: gpt, layers: 1, heads: 2, width: 16, context: 12, dropout: 0.1}\n"
              "  data: {format: bytes, path: text}\n"
              "  global_batch_size: 24\n  micro_batch_size: 2\n  steps: 12\n" // V = 12
              "  optimizer: {name: momentum, learning_rate: 0.05, nesterov: true}\n"
              "  schedule: {name: warmup_cosine, warmup_steps: 3}\n"
              "  clip_norm: 1.0\n";

#endif
