// Messages of a daemon to systemd, as sd_notify(3) documents them: a datagram of "NAME=value" lines
// to the socket that NOTIFY_SOCKET names. A daemon that systemd did not start sends nothing.
#ifndef MUSTER_BASE_OS_SYSTEMD_H
#define MUSTER_BASE_OS_SYSTEMD_H

#include <stdint.h>

// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the environment, so
// that child processes do not inherit them. Main thread, before it starts others.
void systemd_open(void);

// Sends lines such as "READY=1" or "STOPPING=1". Any thread; does not wait. A message that cannot
// be sent is logged.
void systemd_notify(const char *lines);

// The time between two "WATCHDOG=1", in microseconds: half of the time after which systemd kills a
// daemon that is silent. 0: systemd does not watch this process.
int64_t systemd_watchdog_us(void);

#endif
