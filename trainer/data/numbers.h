// Numbers in files: little-endian, of any width, at any address. Pure functions, any thread.
#ifndef MUSTER_TRAINER_DATA_NUMBERS_H
#define MUSTER_TRAINER_DATA_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_type {
    NUMBER_U8,
    NUMBER_I8,
    NUMBER_U16,
    NUMBER_I16,
    NUMBER_U32,
    NUMBER_I32,
    NUMBER_U64,
    NUMBER_I64,
    NUMBER_F32,
    NUMBER_F64,
};

size_t number_size(enum number_type type);
bool number_is_float(enum number_type type);
double number_at(enum number_type type, const uint8_t *first, int64_t i);
// For integer types only. An unsigned value above INT64_MAX becomes INT64_MAX.
int64_t number_integer_at(enum number_type type, const uint8_t *first, int64_t i);

// to[i] = (x[i] - mean[i mod period]) * factor[i mod period], where each operation rounds to float;
// n is a multiple of the period. Returns whether all results are finite. The bits do not depend on
// the instruction set, because no product is followed by a sum.
bool numbers_scale(enum number_type type, const uint8_t *first, int64_t n, const float *mean,
                   const float *factor, int64_t period, float *to);

// to[i] = x[i] for an unsigned type of at most 32 bits. Returns the largest.
uint32_t numbers_tokens(enum number_type type, const uint8_t *first, int64_t n, int32_t *to);

#endif
