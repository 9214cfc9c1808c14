#include "trainer/comm/net_proof.h"

#include <string.h>

#include "base/hash.h"

static const char magic[8] = "muster\2";

// Fields of fixed size, so that no two greetings have the same bytes.
struct transcript {
    char label[24];
    uint32_t purpose, encrypted, callee, caller, channel, unused;
    uint8_t callee_nonce[NET_KEY], caller_nonce[NET_KEY];
    uint8_t allocation[SHA256_BYTES];
};

void net_prove(const struct net_greeting *g, enum net_purpose purpose, uint8_t out[NET_KEY])
{
    _Static_assert((int)NET_KEY == (int)SHA256_BYTES, "a proof is a SHA-256");
    _Static_assert(sizeof(struct transcript) == 24 + 6 * 4 + 3 * NET_KEY, "no padding");
    const char *allocation = g->allocation ? g->allocation : "";
    uint8_t keys[2 * NET_KEY];
    struct transcript t = {.label = "muster ranks 2",
                           .purpose = purpose,
                           .encrypted = g->encrypted,
                           .callee = g->callee,
                           .caller = g->caller,
                           .channel = g->channel};
    memcpy(t.callee_nonce, g->callee_nonce, NET_KEY);
    memcpy(t.caller_nonce, g->caller_nonce, NET_KEY);
    struct sha256 *digest = sha256_new();
    sha256_update(digest, allocation, strlen(allocation));
    sha256_final(digest, t.allocation);
    memcpy(keys, g->callee_key, NET_KEY);
    memcpy(keys + NET_KEY, g->caller_key, NET_KEY);
    hmac_sha256(keys, sizeof keys, &t, sizeof t, out);
}

bool net_proof_is_right(const struct net_greeting *g, enum net_purpose purpose,
                        const uint8_t proof[NET_KEY])
{
    uint8_t right[NET_KEY];
    net_prove(g, purpose, right);
    return bytes_equal_constant_time(right, proof, NET_KEY);
}

void net_hello_make(struct net_hello *hello, const struct net_greeting *g)
{
    *hello = (struct net_hello){.machine = g->caller, .channel = g->channel};
    memcpy(hello->magic, magic, sizeof magic);
    memcpy(hello->nonce, g->caller_nonce, NET_KEY);
}

bool net_hello_is_known(const struct net_hello *hello)
{
    return memcmp(hello->magic, magic, sizeof magic) == 0;
}
