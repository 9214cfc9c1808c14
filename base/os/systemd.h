// Messages of a daemon to systemd, as sd_notify(3) documents them: a datagram of "NAME=value" lines
// to the socket that NOTIFY_SOCKET names. A daemon that systemd did not start sends nothing.
#ifndef MUSTER_BASE_OS_SYSTEMD_H
#define MUSTER_BASE_OS_SYSTEMD_H

#include <stdint.h>

// Reads NOTIFY_SOCKET and the variables WATCHDOG_* and LISTEN_* of systemd, and removes them from
// the environment, so that child processes do not inherit them. Main thread, before it starts
// others.
void systemd_open(void);

// Sends lines such as "READY=1" or "STOPPING=1". Any thread; does not wait. A message that cannot
// be sent is logged.
void systemd_notify(const char *lines);

// systemd keeps one listening socket of a service open until the service stops, also while it
// restarts (FileDescriptorStoreMax=1), so that no other program takes its address meanwhile.
// systemd_take_socket() returns the socket that an earlier process of the service gave to
// systemd_keep_socket(), to be closed by the caller; -1: there is none, or it was taken already.
// systemd_keep_socket() replaces it; the caller keeps `fd`. Main thread.
int systemd_take_socket(void);
void systemd_keep_socket(int fd);

// The time between two "WATCHDOG=1", in microseconds: half of the time after which systemd kills a
// daemon that is silent. 0: systemd does not watch this process.
int64_t systemd_watchdog_us(void);

#endif
