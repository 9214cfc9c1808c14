// Random numbers. `struct rng` is a seeded generator (PCG-XSH-RR 64/32, O'Neill 2014) for decisions
// that must replay. philox4x32() is counter-based (Philox4x32-10, Salmon et al., SC 2011): a pure
// function of key and counter, for results that must not depend on the number of slots.
// rng_secret() is for tokens and ids.
#ifndef MUSTER_BASE_RNG_H
#define MUSTER_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state, inc;
};

void rng_seed(struct rng *r, uint64_t seed, uint64_t stream);
uint32_t rng_u32(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t bound); // unbiased, bound > 0
double rng_double(struct rng *r);                  // [0, 1)

void philox4x32(uint64_t key, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4]);

// The image of i < n under a permutation of [0, n) that the key selects, in O(1): a Feistel network
// with cycle walking (Black & Rogaway 2002).
uint64_t keyed_permutation(uint64_t key, uint64_t n, uint64_t i);

void rng_secret(void *out, size_t len); // by getrandom(2); cannot fail

enum { UUID_TEXT = 37 };
void uuid_make(char out[UUID_TEXT]); // version 4, lower case

#endif
