// Folding: the arithmetic of reductions over buffers that lie in one address space.
//
// A sum grows in the buffer that receives it; where the order matters (float, more than two), in a
// scratch block of 8 KiB that stays in the first-level cache. The loops are plain so that the
// compiler makes vectors of them.
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/log.h"
#include "trainer/comm/backend.h"

enum { FOLD_BLOCK = 8192 }; // bytes

// Sums are taken on unsigned integers: overflow is excluded by the callers' number format, and
// must not be undefined behaviour here.
#define DEFINE_FOLD(name, type, expression)                                                        \
    static void name(void *restrict into, const void *restrict from, size_t n)                     \
    {                                                                                              \
        type *restrict a = into;                                                                   \
        const type *restrict b = from;                                                             \
        for (size_t i = 0; i < n; i++)                                                             \
            a[i] = (expression);                                                                   \
    }

DEFINE_FOLD(sum_int32, uint32_t, a[i] + b[i])
DEFINE_FOLD(sum_int64, uint64_t, a[i] + b[i])
DEFINE_FOLD(sum_float, float, a[i] + b[i])
DEFINE_FOLD(max_int32, int32_t, a[i] > b[i] ? a[i] : b[i])
DEFINE_FOLD(max_int64, int64_t, a[i] > b[i] ? a[i] : b[i])
DEFINE_FOLD(max_float, float, a[i] > b[i] ? a[i] : b[i])

typedef void fold_fn(void *restrict into, const void *restrict from, size_t n);

static fold_fn *const folds[2][3] = {
    [COMM_SUM] = {[COMM_INT32] = sum_int32, [COMM_INT64] = sum_int64, [COMM_FLOAT] = sum_float},
    [COMM_MAX] = {[COMM_INT32] = max_int32, [COMM_INT64] = max_int64, [COMM_FLOAT] = max_float},
};

// Whether the buffer may gather the sum itself: it is one of those that are added up, and the order
// does not matter.
static bool gathers(char *const *from, int count, const char *into, enum comm_type type)
{
    bool one_of_them = false;
    for (int i = 0; i < count; i++)
        one_of_them |= from[i] == into;
    return one_of_them && (type != COMM_FLOAT || count <= 2);
}

static void fold_directly(char *const *from, int count, char *into, size_t at, size_t elements,
                          fold_fn *fold)
{
    for (int i = 0; i < count; i++)
        if (from[i] != into)
            fold(into + at, from[i] + at, elements);
}

void comm_fold(char *const *from, int count, char *into, size_t first, size_t last,
               enum comm_type type, enum comm_op op)
{
    _Alignas(COMM_ALIGN) char scratch[FOLD_BLOCK];
    fold_fn *fold = folds[op][type];
    size_t size = comm_type_bytes(type);
    bool direct = gathers(from, count, into, type);
    for (size_t at = first * size; at < last * size; at += FOLD_BLOCK) {
        size_t bytes = last * size - at < FOLD_BLOCK ? last * size - at : FOLD_BLOCK;
        if (direct) {
            fold_directly(from, count, into, at, bytes / size, fold);
            continue;
        }
        memcpy(scratch, from[0] + at, bytes);
        for (int i = 1; i < count; i++)
            fold(scratch, from[i] + at, bytes / size);
        memcpy(into + at, scratch, bytes);
    }
}

void comm_stream(char *to, const char *from, size_t bytes)
{
#if defined(__SSE2__)
    enum { WORTH_IT = 4096, LINE = 64 };
    size_t at = bytes < WORTH_IT ? bytes : -(uintptr_t)to % LINE;
    memcpy(to, from, at);
    for (; bytes - at >= LINE; at += LINE)
        for (int i = 0; i < LINE; i += (int)sizeof(__m128i))
            _mm_stream_si128((__m128i *)(to + at + i),
                             _mm_loadu_si128((const __m128i *)(from + at + i)));
    memcpy(to + at, from + at, bytes - at);
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}
