// A line of a file of known hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT), as far as libssh2 does
// not read it: patterns such as *.lab and !bad.lab, and the marker @revoked. Pure; any thread.
#ifndef MUSTER_CLI_CLUSTER_SSH_KNOWN_HOSTS_LINE_H
#define MUSTER_CLI_CLUSTER_SSH_KNOWN_HOSTS_LINE_H

// The meaning of a line for a host and its key. Where lines disagree, the highest value counts.
enum known_line { LINE_OTHER_HOST, LINE_OTHER_KEY, LINE_KEY, LINE_REVOKED };

// `name`: "HOST" or "[HOST]:PORT". `key`: in base64.
enum known_line known_hosts_line_read(const char *line, const char *name, const char *key);

#endif
