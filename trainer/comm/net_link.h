// A connection between two leaders: a socket, with encryption if the training wants it. Internal to
// comm/. No call waits. Any thread may use a connection, one at a time.
#ifndef MUSTER_TRAINER_COMM_NET_LINK_H
#define MUSTER_TRAINER_COMM_NET_LINK_H

#include <sys/types.h>
#include <sys/uio.h>

struct net_tls; // net_tls.h

struct net_link {
    int fd;              // -1: there is no connection
    struct net_tls *tls; // NULL: the bytes travel in clear
};

// Both return the number of bytes that were moved, at least 1, or -1 and errno: EAGAIN; ECONNRESET,
// also if the peer has closed its end; EBADMSG if an encrypted connection received anything but the
// bytes that its peer has encrypted; or another error of the socket. After EAGAIN the next call
// must send the same bytes.
ssize_t net_link_send(struct net_link *l, const struct iovec *list, int count);
ssize_t net_link_receive(struct net_link *l, const struct iovec *list, int count);

void net_link_close(struct net_link *l);

#endif
