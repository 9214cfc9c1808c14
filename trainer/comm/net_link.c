#include "trainer/comm/net_link.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trainer/comm/net_tls.h"

ssize_t net_link_send(struct net_link *l, const struct iovec *list, int count)
{
    if (l->tls)
        return net_tls_send(l->tls, list, count);
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)list,
                                   .msg_iovlen = (size_t)count};
    return sendmsg(l->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t net_link_receive(struct net_link *l, const struct iovec *list, int count)
{
    if (l->tls)
        return net_tls_receive(l->tls, list, count);
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)list,
                             .msg_iovlen = (size_t)count};
    ssize_t got = recvmsg(l->fd, &message, MSG_DONTWAIT);
    if (got != 0)
        return got;
    errno = ECONNRESET;
    return -1;
}

void net_link_close(struct net_link *l)
{
    net_tls_free(l->tls);
    if (l->fd >= 0)
        close(l->fd);
    *l = (struct net_link){.fd = -1};
}
