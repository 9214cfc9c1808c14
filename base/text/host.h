// Names of hosts as they stand in addresses. Pure; any thread.
#ifndef MUSTER_BASE_HOST_H
#define MUSTER_BASE_HOST_H

#include <stdbool.h>

// Whether a host is this machine: localhost, an address of 127.0.0.0/8, or ::1, also in brackets or
// as an IPv4 address within IPv6 (::ffff:127.0.0.1). A name such as 127.example.org is none.
bool host_is_loopback(const char *host);

#endif
