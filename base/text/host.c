#include "base/text/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool host_is_loopback(const char *host)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    size_t len = strlen(host);
    bool bracketed = len > 2 && *host == '[' && host[len - 1] == ']';
    snprintf(text, sizeof(text), "%.*s", (int)(bracketed ? len - 2 : len), host + bracketed);
    if (!strcasecmp(host, "localhost"))
        return true;
    if (!bracketed && inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    if (len >= sizeof(text) || inet_pton(AF_INET6, text, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) ||
           (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}
