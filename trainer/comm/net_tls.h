// Encryption of one connection: TLS 1.3 by GnuTLS, with a pre-shared key and an ephemeral exchange
// of keys (psk_dhe_ke, RFC 8446 section 2.2). Internal to comm/; net_link.h is the interface of
// connections. The socket stays the caller's. No call waits.
//
// The pre-shared key is NET_KEY_OF_ENCRYPTION of the connection's greeting, so every connection has
// its own. The ephemeral exchange keeps recorded bytes secret even from someone who learns the keys
// of the rendezvous later.
#ifndef MUSTER_TRAINER_COMM_NET_TLS_H
#define MUSTER_TRAINER_COMM_NET_TLS_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/error.h"
#include "trainer/comm/net_proof.h"

struct net_tls; // opaque

int net_tls_new(int fd, bool callee, const uint8_t key[NET_KEY], struct net_tls **out,
                struct error *e);
void net_tls_free(struct net_tls *t); // NULL is fine

// Returns 0 once both sides have the keys, or -1 and errno as net_link_send() does. After EAGAIN
// the call must be repeated when the socket has net_tls_awaits(), POLLIN or POLLOUT.
int net_tls_shake_hands(struct net_tls *t);
short net_tls_awaits(const struct net_tls *t);

// As net_link_send() and net_link_receive().
ssize_t net_tls_send(struct net_tls *t, const struct iovec *list, int count);
ssize_t net_tls_receive(struct net_tls *t, const struct iovec *list, int count);

const char *net_tls_why(const struct net_tls *t);    // GnuTLS's words for the last EBADMSG
const char *net_tls_cipher(const struct net_tls *t); // such as "AES-128-GCM"

#endif
