// The credential with which an enrolled agent speaks to its master: DIR/credential.json (0600), and
// the master's authority in DIR/ca.pem, which tasks read, too. Main thread, while the work folder
// is locked.
#ifndef MUSTER_AGENT_CREDENTIAL_H
#define MUSTER_AGENT_CREDENTIAL_H

#include <stdbool.h>

#include "api/enrolment.h"
#include "base/error.h"

#define CREDENTIAL_FILE "credential.json" // in the work folder

struct credential { // heap strings; all NULL: there is none
    char *master;   // its address
    char *agent;    // the name that it is for
    char *pool;     // "": as the flag says
    char *token;
    char *ca_file;        // path of ca.pem; NULL: the system's authorities, or http
    char *enrolment_hash; // SHA-256 of the token with which it was got
};

void credential_free(struct credential *c); // clears the token

// Whether the folder has a credential.
bool credential_exists(const char *work_dir);

// Reads the credential; none: *out is empty. ERR_CORRUPT: the file is damaged.
int credential_load(const char *work_dir, struct credential *out, struct error *e);

struct enrolling {
    const char *work_dir, *agent; // the name that the agent has
    const char *text;             // the enrolment string
};

// Exchanges the string for a credential and stores it; does nothing if the credential in the folder
// is the one of this string. The credential is made and stored before it is sent, so a start after
// a crash repeats the exchange with the same one. ERR_PEER: another server answers, and nothing was
// sent. ERR_AUTH, ERR_FORBIDDEN, ERR_CONFLICT: the master refuses.
int credential_enrol(const struct enrolling *o, struct credential *out, struct error *e);

#endif
