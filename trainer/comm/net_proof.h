// How two leaders prove to each other that they belong to the same training. Internal to comm/.
//
// The caller sends a hello, the callee an answer, the caller a proof. A proof is an HMAC-SHA256
// over the whole greeting, keyed with the keys that both leaders have published through the
// rendezvous. No key is sent. A recorded proof is worth nothing, because each side contributes
// fresh random bytes to every greeting, and the purpose keeps the proof of one side from being sent
// back to it.
//
// The keys: every leader draws one when it opens a communicator, so each start of a trial (epoch)
// has its own, and so has every process. They pass through the master's all_gather, which requires
// a token of this allocation and exists in memory alone, so they are known to the master and to
// whoever has the token: the ranks and other programs of this allocation, and the agents that start
// them. Whoever can listen to the connection between the trainer and a master without TLS can read
// them.
//
// Proofs identify the peer when the connection begins. They do not protect the bytes that follow:
// encryption does (net_tls.h).
#ifndef MUSTER_TRAINER_COMM_NET_PROOF_H
#define MUSTER_TRAINER_COMM_NET_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NET_KEY = 32 }; // bytes of a key, of a contribution (nonce) and of a proof

enum net_channel { NET_DATA, NET_CONTROL, NET_CHANNELS };

struct net_hello {
    char magic[8];
    uint32_t machine; // index of the caller's machine
    uint32_t channel; // enum net_channel
    uint8_t nonce[NET_KEY];
};

struct net_answer {
    uint8_t nonce[NET_KEY], proof[NET_KEY];
};

// The values on which both sides of a connection must agree.
struct net_greeting {
    uint8_t callee_key[NET_KEY], caller_key[NET_KEY];
    uint8_t callee_nonce[NET_KEY], caller_nonce[NET_KEY];
    uint32_t callee, caller; // indices of machines
    uint32_t channel;
    bool encrypted;
    const char *allocation; // borrowed; NULL is the same as ""
};

enum net_purpose {
    NET_PROOF_OF_CALLEE = 1,
    NET_PROOF_OF_CALLER,
    NET_KEY_OF_ENCRYPTION, // is never sent
};

void net_prove(const struct net_greeting *g, enum net_purpose purpose, uint8_t out[NET_KEY]);

// Compares in constant time.
bool net_proof_is_right(const struct net_greeting *g, enum net_purpose purpose,
                        const uint8_t proof[NET_KEY]);

void net_hello_make(struct net_hello *hello, const struct net_greeting *g);
bool net_hello_is_known(const struct net_hello *hello); // this version of the protocol

#endif
