#include "trainer/reduction/sampler.h"

#include "base/log.h"
#include "base/rng.h"

#define ORDER_DRAW UINT64_C(0x6f72646572) // separates these draws from all other draws of the seed

struct sampler_share sampler_share(int64_t items, int world, int rank)
{
    int64_t each = items / world, more = items % world;
    return (struct sampler_share){.first = each * rank + (rank < more ? rank : more),
                                  .count = each + (rank < more)};
}

void sampler_indices(uint64_t seed, int64_t count, int64_t cursor, int64_t n, int64_t *indices)
{
    must(count > 0 && cursor >= 0);
    int64_t epoch = -1;
    uint64_t key = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = cursor + i;
        if (at / count != epoch) {
            uint32_t draw[4];
            epoch = at / count;
            philox4x32(seed, ORDER_DRAW, (uint64_t)epoch, draw);
            key = (uint64_t)draw[0] << 32 | draw[1];
        }
        indices[i] = (int64_t)keyed_permutation(key, (uint64_t)count, (uint64_t)(at % count));
    }
}
