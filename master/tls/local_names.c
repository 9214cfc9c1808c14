#include "master/tls/local_names.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static bool address_text(const struct sockaddr *a, char out[INET6_ADDRSTRLEN])
{
    if (a->sa_family == AF_INET)
        return inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, out,
                         INET6_ADDRSTRLEN);
    if (a->sa_family != AF_INET6)
        return false;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
    return !IN6_IS_ADDR_LINKLOCAL(six) && inet_ntop(AF_INET6, six, out, INET6_ADDRSTRLEN);
}

void local_names_add_addresses(struct x509_names *names)
{
    struct ifaddrs *all = NULL;
    x509_names_add(names, "localhost");
    x509_names_add(names, "127.0.0.1");
    x509_names_add(names, "::1");
    if (getifaddrs(&all))
        return;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        char text[INET6_ADDRSTRLEN];
        if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) || !address_text(one->ifa_addr, text))
            continue;
        x509_names_add(names, text);
    }
    freeifaddrs(all);
}

void local_names_add_host(struct x509_names *names)
{
    char name[256];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM};
    if (gethostname(name, sizeof name - 1))
        return;
    name[sizeof name - 1] = '\0';
    x509_names_add(names, name);
    if (getaddrinfo(name, NULL, &hints, &found))
        return;
    if (found->ai_canonname)
        x509_names_add(names, found->ai_canonname);
    freeaddrinfo(found);
}
