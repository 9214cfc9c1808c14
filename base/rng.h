// Random numbers. `rng` is a seeded stream (PCG-XSH-RR 64/32, O'Neill 2014) for decisions that must
// replay; `philox` is counter-based (Philox4x32-10, Salmon et al., SC 2011): a pure function of key
// and counter, for whatever must not depend on the number of slots. `rng_secret` is for tokens and
// ids.
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

// O(1) keyed permutation of [0, n): a bijection for every key (Feistel network with cycle walking;
// Black & Rogaway 2002). i < n.
uint64_t keyed_permutation(uint64_t key, uint64_t n, uint64_t i);

void rng_secret(void *out, size_t len); // getrandom(2), cannot fail

enum { UUID_TEXT = 37 };
void uuid_make(char out[UUID_TEXT]); // version 4, lower case

#endif
