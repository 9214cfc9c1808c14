// Authorities of masters that the user trusts: one file for each address in
// $XDG_CONFIG_HOME/muster/authorities. A command for such a master accepts this authority alone.
#ifndef MUSTER_CLI_COMMON_TRUST_H
#define MUSTER_CLI_COMMON_TRUST_H

#include "cli/cli.h"

// The file for the address c->master, in the arena; NULL: none, or no https.
const char *trust_file(struct cli *c);

// Stores the authority of the server at c->master: the one with this fingerprint, or, if it is
// NULL, the one that a person at the terminal accepts. ERR_PEER: the server shows another one.
int trust_pin(struct cli *c, const char *fingerprint, struct error *e);

// After a call that failed: if the reason is that the server is not trusted, replaces the message
// by one that says what changed and what to do. Returns the code of the error.
int trust_explain(struct cli *c, int err, struct error *e);

#endif
