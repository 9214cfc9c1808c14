// Stored passwords (yescrypt), and the limits on guessing them.

#include <crypt.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "master/http/auth/auth.h"

enum { YESCRYPT_COST = 7 }; // about 66 ms and 16 MB per hash

int auth_password_hash(const char *sent, char out[PASSWORD_HASH_MAX], struct error *e)
{
    char setting[CRYPT_GENSALT_OUTPUT_SIZE];
    out[0] = '\0';
    if (!*sent)
        return 0;
    if (!crypt_gensalt_rn("$y$", YESCRYPT_COST, NULL, 0, setting, sizeof setting))
        return error_set_errno(e, ERR_INTERNAL, errno, "libcrypt knows no yescrypt");
    struct crypt_data *work = xcalloc(1, sizeof *work);
    const char *hash = crypt_r(sent, setting, work);
    int rc = 0;
    if (!hash || *hash == '*' || strlen(hash) >= PASSWORD_HASH_MAX)
        rc = error_set(e, ERR_INTERNAL, "libcrypt cannot hash the password");
    else
        memcpy(out, hash, strlen(hash) + 1);
    explicit_bzero(work, sizeof *work);
    free(work);
    return rc;
}

bool auth_password_matches(const char *sent, const char *stored)
{
    // The hash of a password that no user has, at the same cost.
    static const char nobody[] = "$y$jBT$Wz07z/8dex0Snyv9NYTRi1$"
                                 "0000000000000000000000000000000000000000000";
    bool blank = stored && !*stored;
    const char *setting = stored && *stored ? stored : nobody;
    struct crypt_data *work = xcalloc(1, sizeof *work);
    const char *hash = crypt_r(*sent ? sent : "-", setting, work);
    bool same = hash && strlen(hash) == strlen(setting) &&
                bytes_equal_constant_time(hash, setting, strlen(setting));
    explicit_bzero(work, sizeof *work);
    free(work);
    return blank ? !*sent : same && *sent && stored;
}

bool auth_password_sent(const char *password, bool hashed, char out[SHA512_HEX])
{
    if (!hashed || !*password) {
        wire_password_hash(password, out);
        return true;
    }
    if (strspn(password, "0123456789abcdefABCDEF") != SHA512_HEX - 1 || password[SHA512_HEX - 1])
        return false;
    memcpy(out, password, SHA512_HEX);
    return true;
}

// Limits on password guessing. Failures are counted per pair of user and address, per address, and
// per user. Only the first count refuses logins, and only those of that user at that address, so
// nobody can lock out other users behind a proxy or a user at another address. The two wide counts
// lower the limit: an address that guesses for many users, and a user whose password many addresses
// guess, have LOGIN_FAILURES_SLOW failures per pair instead of LOGIN_FAILURES.
//
// The table has a fixed size: a new entry whose place is taken replaces the old entry, which at
// worst forgets some failures. Places depend on a secret, so no caller can choose names that
// replace a certain entry.
enum { THROTTLE_PLACES = 4096, SECRET_BYTES = 16 };

enum brake { OF_PAIR, OF_ADDRESS, OF_USER, BRAKES };

struct throttle_entry {
    uint64_t key;
    int64_t since; // monotonic microseconds of the first counted failure
    int failures;
};

struct throttle {
    pthread_mutex_t lock;
    uint8_t secret[SECRET_BYTES];
    struct throttle_entry places[BRAKES][THROTTLE_PLACES];
};

struct throttle *throttle_new(void)
{
    struct throttle *t = xcalloc(1, sizeof *t);
    rng_secret(t->secret, sizeof t->secret);
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

void throttle_free(struct throttle *t)
{
    if (!t)
        return;
    pthread_mutex_destroy(&t->lock);
    free(t);
}

// The entry of a user and an address; empty if it is new or its window has ended. Needs the lock.
static void find_entries(struct throttle *t, const char *user, const char *address,
                         struct throttle_entry *out[BRAKES])
{
    int64_t now = clock_mono_us();
    for (int i = 0; i < BRAKES; i++) {
        uint8_t digest[SHA256_BYTES];
        uint64_t key;
        struct sha256 *hash = sha256_new();
        sha256_update(hash, t->secret, sizeof t->secret);
        if (i != OF_ADDRESS)
            sha256_update(hash, user, strlen(user) + 1);
        if (i != OF_USER)
            sha256_update(hash, address, strlen(address) + 1);
        sha256_final(hash, digest);
        memcpy(&key, digest, sizeof key);
        out[i] = &t->places[i][key % THROTTLE_PLACES];
        if (out[i]->key != key || now - out[i]->since > LOGIN_WINDOW_S * 1000000LL)
            *out[i] = (struct throttle_entry){.key = key, .since = now};
    }
}

int throttle_enter(struct throttle *t, const char *user, const char *address, int *retry_after,
                   struct error *e)
{
    struct throttle_entry *of[BRAKES];
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    find_entries(t, user, address, of);
    bool slow = of[OF_ADDRESS]->failures >= LOGIN_FAILURES_ADDRESS ||
                of[OF_USER]->failures >= LOGIN_FAILURES_USER;
    int failures = of[OF_PAIR]->failures;
    if (failures < (slow ? LOGIN_FAILURES_SLOW : LOGIN_FAILURES)) {
        for (int i = 0; i < BRAKES; i++)
            of[i]->failures++;
    } else {
        int64_t left = LOGIN_WINDOW_S - (clock_mono_us() - of[OF_PAIR]->since) / 1000000;
        *retry_after = left < 1 ? 1 : (int)left;
        rc = error_set(e, ERR_BUSY,
                       "%d failed logins of this user from this address; try again in %d s",
                       failures, *retry_after);
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

void throttle_passed(struct throttle *t, const char *user, const char *address)
{
    struct throttle_entry *of[BRAKES];
    pthread_mutex_lock(&t->lock);
    find_entries(t, user, address, of);
    of[OF_PAIR]->failures = 0;
    for (int i = OF_ADDRESS; i < BRAKES; i++)
        of[i]->failures -= of[i]->failures > 0;
    pthread_mutex_unlock(&t->lock);
}
