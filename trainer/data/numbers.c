#include "trainer/data/numbers.h"

#include <float.h>
#include <string.h>

#include "base/log.h"
#include "trainer/ops/loops.h"

// Types for values at any address that the compiler can still vectorise.
typedef uint16_t any_u16 __attribute__((aligned(1), may_alias));
typedef uint32_t any_u32 __attribute__((aligned(1), may_alias));
typedef float any_f32 __attribute__((aligned(1), may_alias));
typedef double any_f64 __attribute__((aligned(1), may_alias));

size_t number_size(enum number_type type)
{
    static const size_t sizes[] = {
        [NUMBER_U8] = 1,  [NUMBER_I8] = 1,  [NUMBER_U16] = 2, [NUMBER_I16] = 2, [NUMBER_U32] = 4,
        [NUMBER_I32] = 4, [NUMBER_U64] = 8, [NUMBER_I64] = 8, [NUMBER_F32] = 4, [NUMBER_F64] = 8,
    };
    return sizes[type];
}

bool number_is_float(enum number_type type)
{
    return type == NUMBER_F32 || type == NUMBER_F64;
}

int64_t number_integer_at(enum number_type type, const uint8_t *first, int64_t i)
{
    size_t size = number_size(type);
    uint64_t bits = 0;
    must(!number_is_float(type));
    memcpy(&bits, first + (size_t)i * size, size);
    switch (type) {
    case NUMBER_I8:
        return (int8_t)bits;
    case NUMBER_I16:
        return (int16_t)bits;
    case NUMBER_I32:
        return (int32_t)bits;
    case NUMBER_U64:
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    default:
        return (int64_t)bits;
    }
}

double number_at(enum number_type type, const uint8_t *first, int64_t i)
{
    if (type == NUMBER_F32)
        return (double)((const any_f32 *)first)[i];
    if (type == NUMBER_F64)
        return ((const any_f64 *)first)[i];
    return (double)number_integer_at(type, first, i);
}

// The loops, compiled once per instruction set. A period of one is the common case and needs no
// table.

#define SCALE(name, element)                                                                       \
    LOOPS_CLONED static bool name##_by_one(const element *x, int64_t n, float mean, float factor,  \
                                           float *to)                                              \
    {                                                                                              \
        int strange = 0;                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            float y = ((float)x[i] - mean) * factor;                                               \
            strange |= !(__builtin_fabsf(y) <= FLT_MAX);                                           \
            to[i] = y;                                                                             \
        }                                                                                          \
        return !strange;                                                                           \
    }                                                                                              \
    LOOPS_CLONED static bool name##_by_table(const element *x, int64_t n, const float *mean,       \
                                             const float *factor, float *to)                       \
    {                                                                                              \
        int strange = 0;                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            float y = ((float)x[i] - mean[i]) * factor[i];                                         \
            strange |= !(__builtin_fabsf(y) <= FLT_MAX);                                           \
            to[i] = y;                                                                             \
        }                                                                                          \
        return !strange;                                                                           \
    }                                                                                              \
    static bool name(const uint8_t *first, int64_t n, const float *mean, const float *factor,      \
                     int64_t period, float *to)                                                    \
    {                                                                                              \
        const element *x = (const element *)first;                                                 \
        bool finite = true;                                                                        \
        if (period == 1)                                                                           \
            return name##_by_one(x, n, mean[0], factor[0], to);                                    \
        for (int64_t at = 0; at < n; at += period)                                                 \
            finite &= name##_by_table(x + at, period, mean, factor, to + at);                      \
        return finite;                                                                             \
    }

SCALE(scale_u8, uint8_t)
SCALE(scale_f32, any_f32)
SCALE(scale_f64, any_f64)

bool numbers_scale(enum number_type type, const uint8_t *first, int64_t n, const float *mean,
                   const float *factor, int64_t period, float *to)
{
    must(n % period == 0);
    if (type == NUMBER_U8)
        return scale_u8(first, n, mean, factor, period, to);
    if (type == NUMBER_F32)
        return scale_f32(first, n, mean, factor, period, to);
    if (type == NUMBER_F64)
        return scale_f64(first, n, mean, factor, period, to);
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        to[i] = ((float)number_integer_at(type, first, i) - mean[i % period]) * factor[i % period];
        finite &= __builtin_isfinite(to[i]) != 0;
    }
    return finite;
}

#define TOKENS(name, element)                                                                      \
    LOOPS_CLONED static uint32_t name(const element *x, int64_t n, int32_t *to)                    \
    {                                                                                              \
        uint32_t largest = 0;                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                          \
            uint32_t token = x[i];                                                                 \
            largest = token > largest ? token : largest;                                           \
            to[i] = (int32_t)token;                                                                \
        }                                                                                          \
        return largest;                                                                            \
    }

TOKENS(tokens_u8, uint8_t)
TOKENS(tokens_u16, any_u16)
TOKENS(tokens_u32, any_u32)

uint32_t numbers_tokens(enum number_type type, const uint8_t *first, int64_t n, int32_t *to)
{
    if (type == NUMBER_U8)
        return tokens_u8(first, n, to);
    if (type == NUMBER_U16)
        return tokens_u16((const any_u16 *)first, n, to);
    must(type == NUMBER_U32);
    return tokens_u32((const any_u32 *)first, n, to);
}
