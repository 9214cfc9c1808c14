// SSH connections, by libssh2: sign-in by key, strict host keys, commands with input and output.
// Blocking; one thread at a time may use a connection.
#ifndef MUSTER_CLI_CLUSTER_SSH_SSH_H
#define MUSTER_CLI_CLUSTER_SSH_SSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct ssh_options {
    const char *host; // name or address
    const char *user;
    int port;
    const char *key; // path of the private key; NULL: those of ssh-agent and the usual files
    bool accept_new; // adds the key of an unknown host to ~/.ssh/known_hosts
};

struct ssh; // opaque

// Connects and signs in. ERR_UNAVAILABLE: no SSH server answers. ERR_FORBIDDEN: the host key is not
// known, or has changed. ERR_AUTH: the server refuses the key. The text says what to do.
int ssh_open(const struct ssh_options *o, struct ssh **out, struct error *e);
void ssh_close(struct ssh *s); // NULL is fine

// How long a command may be silent, and how long it may print after its input, before its
// connection counts as lost.
void ssh_set_patience(struct ssh *s, int seconds);

struct ssh_result {
    struct buf out, err; // the caller frees both with ssh_result_free(), also after an error
    int exit_code;
};
void ssh_result_free(struct ssh_result *r);

// Runs a command of the user's shell with `input` as its standard input. ERR_UNAVAILABLE: the
// connection is lost; later commands fail at once.
int ssh_run(struct ssh *s, const char *command, const char *input, size_t len,
            struct ssh_result *out, struct error *e);

// Runs a command that reads the rest of the file `fd`; on_sent tells the bytes that were sent.
int ssh_send_file(struct ssh *s, const char *command, int fd,
                  void (*on_sent)(void *arg, int64_t bytes), void *arg, struct ssh_result *out,
                  struct error *e);

#endif
