// The enrolment string: one line that tells an agent where its master is, how to recognize it, and
// with which token it gets a credential of its own. Pure; any thread.
//
//   muster1:HOST:PORT:AUTHORITY:TOKEN
//
// HOST is a name or an address (IPv6 in brackets). AUTHORITY is the SHA-256 of the certificate of
// the master's authority (DER) in hex; or "public": https with a certificate that the system's
// authorities vouch for; or "plain": http. TOKEN is 64 hex digits. The number after "muster" is
// that of the form.
#ifndef MUSTER_API_ENROLMENT_H
#define MUSTER_API_ENROLMENT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/hash.h"

enum {
    ENROLMENT_TOKEN = 65,
    ENROLMENT_HOST = 256,
    ENROLMENT_TEXT_MAX = 8 + ENROLMENT_HOST + 8 + SHA256_HEX + ENROLMENT_TOKEN,
};

enum enrolment_authority {
    ENROLMENT_PINNED, // https; the fingerprint is that of the master's authority
    ENROLMENT_PUBLIC, // https; the system's authorities decide
    ENROLMENT_PLAIN,  // http
};

struct enrolment {
    char host[ENROLMENT_HOST]; // without brackets
    int port;
    enum enrolment_authority authority;
    char fingerprint[SHA256_HEX]; // lower case; "" unless pinned
    char token[ENROLMENT_TOKEN];
};

// Reads the string; blanks and newlines around it do not count. ERR_INVALID says which part is
// wrong, and never repeats the token.
int enrolment_parse(const char *text, struct enrolment *out, struct error *e);

// Writes the string; heap.
char *enrolment_format(const struct enrolment *s);

// "https://HOST:PORT" or "http://HOST:PORT"; heap.
char *enrolment_url(const struct enrolment *s);

// Sets host, port and authority from the address of a master, http://HOST[:PORT] or
// https://HOST[:PORT], and from the fingerprint of its authority ("": a public one). ERR_INVALID.
int enrolment_set_url(struct enrolment *s, const char *url, const char *fingerprint,
                      struct error *e);

// Whether the host is this machine (base/text/host.h).
bool enrolment_is_loopback(const struct enrolment *s);

// Reads a fingerprint as people copy it: 64 hex digits in either case, perhaps after "sha256:",
// perhaps with colons between bytes. ERR_INVALID.
int fingerprint_parse(const char *text, char out[SHA256_HEX], struct error *e);

#endif
