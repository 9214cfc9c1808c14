// Authentication: tokens and passwords. Tokens are 256 random bits, stored as SHA-256; passwords
// are stored as yescrypt (libcrypt) of the text that det sends (wire_password_hash). Any thread.
#ifndef MUSTER_MASTER_HTTP_AUTH_AUTH_H
#define MUSTER_MASTER_HTTP_AUTH_AUTH_H

#include <stdbool.h>

#include "base/hash.h"
#include "db/db.h"
#include "master/common/request.h"

struct auth_headers { // as received; NULL: absent
    const char *authorization, *allocation;
    const char *cookie; // counts only without the others, and only for users
};

// Authenticates the caller by a token. `allowed` are AUTH_ bits (routes.h). ERR_AUTH: no token, or
// an unknown one; ERR_FORBIDDEN: the call is not for such a caller, or the allocation has ended.
int auth_check(struct db_reader *db, unsigned allowed, const struct auth_headers *given,
               struct principal *out, struct error *e);

// The same for a caller that auth_check() has authenticated, by the token's hash in the principal.
// of_task: the caller was a task, so an unknown token means that its allocation has ended.
int auth_check_hash(struct db_reader *db, unsigned allowed, bool of_task, const char *token_hash,
                    struct principal *out, struct error *e);

// Checks that the caller may see the object of the first {..} part of the route's path: a
// workspace, project, experiment, trial, task or checkpoint. ERR_NOT_FOUND otherwise. A short task
// id in the path becomes the id of the task. ERR_FORBIDDEN: an agent names another agent, or a task
// that does not run on it.
struct route;
int auth_check_object(struct db_reader *db, const struct route *route, struct request *rq,
                      struct error *e);

enum { TOKEN_TEXT = 65, PASSWORD_HASH_MAX = 384 };

void auth_token_make(char token[TOKEN_TEXT], char hash[SHA256_HEX]);

// The yescrypt hash of a password as clients send it (hex SHA-512); takes about 66 ms. A blank
// password stays blank.
int auth_password_hash(const char *sent, char out[PASSWORD_HASH_MAX], struct error *e);

// Takes the same time whether the user exists (`stored` NULL: no) and whatever is stored.
bool auth_password_matches(const char *sent, const char *stored);

// The client-side form of the password in a request body: unchanged if it is hashed already, else
// hashed here. False: it claims to be hashed and is not a hex SHA-512.
bool auth_password_sent(const char *password, bool hashed, char out[SHA512_HEX]);

// Limits failed logins of a user from an address within LOGIN_WINDOW_S seconds, then answers 429.
// If an address, or a user, has exceeded the wide limits, the slow limit applies instead: guessing
// is slowed down, and nobody is locked out by the actions of others.
enum {
    LOGIN_FAILURES = 10,
    LOGIN_FAILURES_SLOW = 2,
    LOGIN_FAILURES_ADDRESS = 60,
    LOGIN_FAILURES_USER = 100,
    LOGIN_WINDOW_S = 60,
};
struct throttle;
struct throttle *throttle_new(void);
void throttle_free(struct throttle *t);

// Call it before a password is checked. The login counts as failed until throttle_passed(), so
// parallel logins cannot exceed the limit. The text of ERR_BUSY says when to try again.
int throttle_enter(struct throttle *t, const char *user, const char *address, int *retry_after,
                   struct error *e);
void throttle_passed(struct throttle *t, const char *user, const char *address);

#endif
