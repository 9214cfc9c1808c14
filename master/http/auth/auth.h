// Who calls: tokens and passwords. Tokens are 256 random bits, stored as their SHA-256; passwords
// are stored as yescrypt (libcrypt) of what det sends for them (wire_password_hash). Any thread.
#ifndef MUSTER_MASTER_HTTP_AUTH_AUTH_H
#define MUSTER_MASTER_HTTP_AUTH_AUTH_H

#include <stdbool.h>

#include "base/hash.h"
#include "db/db.h"
#include "master/common/request.h"

struct auth_headers { // as they came; NULL: absent
    const char *authorization, *allocation;
    const char *cookie; // counts without the others, and for users alone
};

// Proves the caller by token. `allowed` are AUTH_ bits (routes.h). ERR_AUTH: no token, or none of
// ours; ERR_FORBIDDEN: not for such a caller, or an allocation that has ended.
int auth_check(struct db_reader *db, unsigned allowed, const struct auth_headers *given,
               struct principal *out, char token_hash[SHA256_HEX], struct error *e);

// The same for one that was proved before, by the hash that auth_check() left.
int auth_check_hash(struct db_reader *db, unsigned allowed, const char *token_hash,
                    struct principal *out, struct error *e);

// Whether the caller may know of what the first {..} part of the route's path names: a workspace,
// project, experiment, trial, task or checkpoint. ERR_NOT_FOUND: there is none, for him.
struct route;
int auth_check_sight(struct db_reader *db, const struct route *route, const struct request *rq,
                     struct error *e);

enum { TOKEN_TEXT = 65, PASSWORD_HASH_MAX = 384 };

void auth_token_make(char token[TOKEN_TEXT], char hash[SHA256_HEX]);

// yescrypt of a password as the wire sends it (hex SHA-512); about 66 ms. Blank stays blank.
int auth_password_hash(const char *sent, char out[PASSWORD_HASH_MAX], struct error *e);

// Takes the same time whether the user exists (`stored` NULL: not) and whatever is stored.
bool auth_password_matches(const char *sent, const char *stored);

// What the wire sends for the password in a request body: as it is when hashed, else hashed here.
// False: it says hashed and is no hex SHA-512.
bool auth_password_sent(const char *password, bool hashed, char out[SHA512_HEX]);

// Failed logins of a user from an address within LOGIN_WINDOW_S seconds, then 429. Where an
// address, or a user, has had more failures than the wide limits, the slow limit holds instead:
// guessing is slowed down, and nobody is locked out by what others do.
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

// Call it before a password is checked. The login counts as failed until throttle_passed(), so that
// parallel logins cannot exceed the limit. ERR_BUSY says after how many seconds to try again.
int throttle_enter(struct throttle *t, const char *user, const char *address, int *retry_after,
                   struct error *e);
void throttle_passed(struct throttle *t, const char *user, const char *address);

#endif
