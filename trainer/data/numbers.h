// Numbers as they stand in files: little-endian, of any width, at any address. Pure functions, any
// thread.
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
// Of a type that is not real. An unsigned value beyond INT64_MAX is given as INT64_MAX.
int64_t number_integer_at(enum number_type type, const uint8_t *first, int64_t i);

// to[i] = (x[i] - mean[i mod period]) * factor[i mod period], each step rounded to float; n is a
// multiple of the period. Tells whether all of them are finite. Bits do not depend on the
// instruction set: there is no product followed by a sum.
bool numbers_scale(enum number_type type, const uint8_t *first, int64_t n, const float *mean,
                   const float *factor, int64_t period, float *to);

// to[i] = x[i] of an unsigned type of up to 32 bits; gives the largest.
uint32_t numbers_tokens(enum number_type type, const uint8_t *first, int64_t n, int32_t *to);

#endif
