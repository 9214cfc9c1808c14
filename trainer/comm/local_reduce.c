// The arithmetic of reductions over buffers in one address space.
//
// A sum accumulates in the destination buffer. Where the order matters (float, more than two
// buffers) it accumulates in a scratch block of 8 KiB that stays in the first-level cache. The
// loops are plain, so that the compiler vectorises them.
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/log.h"
#include "trainer/comm/backend.h"

enum { BLOCK_BYTES = 8192 };

// Integer sums use unsigned types, so that overflow is defined. (The callers' number format rules
// it out.)
#define DEFINE_REDUCE(name, type, expression)                                                      \
    static void name(void *restrict into, const void *restrict from, size_t n)                     \
    {                                                                                              \
        type *restrict a = into;                                                                   \
        const type *restrict b = from;                                                             \
        for (size_t i = 0; i < n; i++)                                                             \
            a[i] = (expression);                                                                   \
    }

DEFINE_REDUCE(sum_int32, uint32_t, a[i] + b[i])
DEFINE_REDUCE(sum_int64, uint64_t, a[i] + b[i])
DEFINE_REDUCE(sum_float, float, a[i] + b[i])
DEFINE_REDUCE(max_int32, int32_t, a[i] > b[i] ? a[i] : b[i])
DEFINE_REDUCE(max_int64, int64_t, a[i] > b[i] ? a[i] : b[i])
DEFINE_REDUCE(max_float, float, a[i] > b[i] ? a[i] : b[i])

typedef void reduce_fn(void *restrict into, const void *restrict from, size_t n);

static reduce_fn *const reduce_functions[2][3] = {
    [COMM_SUM] = {[COMM_INT32] = sum_int32, [COMM_INT64] = sum_int64, [COMM_FLOAT] = sum_float},
    [COMM_MAX] = {[COMM_INT32] = max_int32, [COMM_INT64] = max_int64, [COMM_FLOAT] = max_float},
};

// Returns whether the sum may accumulate in `into`: it is one of the inputs, and the order does not
// matter.
static bool accumulates_in_place(char *const *from, int count, const char *into,
                                 enum comm_type type)
{
    bool one_of_them = false;
    for (int i = 0; i < count; i++)
        one_of_them |= from[i] == into;
    return one_of_them && (type != COMM_FLOAT || count <= 2);
}

static void reduce_in_place(char *const *from, int count, char *into, size_t at, size_t elements,
                            reduce_fn *reduce)
{
    for (int i = 0; i < count; i++)
        if (from[i] != into)
            reduce(into + at, from[i] + at, elements);
}

void comm_reduce_local(char *const *from, int count, char *into, size_t first, size_t last,
                       enum comm_type type, enum comm_op op)
{
    _Alignas(COMM_ALIGN) char scratch[BLOCK_BYTES];
    reduce_fn *reduce = reduce_functions[op][type];
    size_t size = comm_type_bytes(type);
    bool direct = accumulates_in_place(from, count, into, type);
    for (size_t at = first * size; at < last * size; at += BLOCK_BYTES) {
        size_t bytes = last * size - at < BLOCK_BYTES ? last * size - at : BLOCK_BYTES;
        if (direct) {
            reduce_in_place(from, count, into, at, bytes / size, reduce);
            continue;
        }
        memcpy(scratch, from[0] + at, bytes);
        for (int i = 1; i < count; i++)
            reduce(scratch, from[i] + at, bytes / size);
        memcpy(into + at, scratch, bytes);
    }
}

void comm_copy_nontemporal(char *to, const char *from, size_t bytes)
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
