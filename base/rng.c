#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/log.h"

// PCG-XSH-RR 64/32: a 64-bit linear congruential state, permuted to 32 bits of output.
uint32_t rng_u32(struct rng *r)
{
    uint64_t old = r->state;
    r->state = old * 6364136223846793005u + r->inc;
    uint32_t shifted = (uint32_t)(((old >> 18) ^ old) >> 27);
    uint32_t turn = (uint32_t)(old >> 59);
    return (shifted >> turn) | (shifted << (-turn & 31));
}

void rng_seed(struct rng *r, uint64_t seed, uint64_t stream)
{
    r->state = 0;
    r->inc = (stream << 1) | 1;
    rng_u32(r);
    r->state += seed;
    rng_u32(r);
}

uint32_t rng_below(struct rng *r, uint32_t bound)
{
    must(bound > 0);
    // 2^32 mod bound. Without the values below it, every residue is equally likely.
    uint32_t threshold = -bound % bound;
    uint32_t value;
    do
        value = rng_u32(r);
    while (value < threshold);
    return value % bound;
}

double rng_double(struct rng *r)
{
    uint64_t high = rng_u32(r) >> 5, low = rng_u32(r) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

void philox4x32(uint64_t key, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4])
{
    // The low half comes first, as in Random123: counter_lo is c[0], c[1].
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

enum { FEISTEL_ROUNDS = 6 }; // even, so that both halves end in their first position

// A Feistel network over left_bits + right_bits bits: a bijection for any round function.
static uint64_t feistel_permute(uint64_t key, uint64_t value, int left_bits, int right_bits)
{
    uint64_t left = value >> right_bits;
    uint64_t right = value & ((UINT64_C(1) << right_bits) - 1);
    for (int round = 0; round < FEISTEL_ROUNDS; round++) {
        uint32_t mixed[4];
        philox4x32(key, (uint64_t)round, right, mixed);
        uint64_t mask = (UINT64_C(1) << left_bits) - 1;
        uint64_t next = (left ^ mixed[0]) & mask;
        left = right;
        right = next;
        int bits = left_bits;
        left_bits = right_bits;
        right_bits = bits;
    }
    return left << right_bits | right;
}

uint64_t keyed_permutation(uint64_t key, uint64_t n, uint64_t i)
{
    must(i < n);
    if (n == 1)
        return 0;
    int bits = n > 2 ? 64 - __builtin_clzll(n - 1) : 2;
    // The network permutes [0, 2^bits), and 2^bits is less than 2n. A value outside [0, n) is
    // mapped again; its cycle must return to [0, n).
    do
        i = feistel_permute(key, i, bits / 2, bits - bits / 2);
    while (i >= n);
    return i;
}

void rng_secret(void *out, size_t len)
{
    unsigned char *p = out;
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);
        must(n > 0 || errno == EINTR);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
}

void uuid_make(char out[UUID_TEXT])
{
    unsigned char b[16];
    rng_secret(b, sizeof b);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); // version 4
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80); // variant of RFC 9562
    snprintf(out, UUID_TEXT, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}
