// Passwords at rest (yescrypt), and the brake on guessing them.

#include <crypt.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/log.h"
#include "master/http/auth.h"

enum { YESCRYPT_COST = 7 }; // about 66 ms and 16 MB a hash

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
    // Of a password nobody has, at the same cost.
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

// Three brakes: on one user from one address, on an address that tries many users, and on a user
// whom many addresses try. The last is wide, since whoever fills it keeps the user out as well.
//
// Entries lie in a table of fixed size: whoever comes to a place that is taken by another takes it
// over, which at worst forgets some failures.
enum { THROTTLE_PLACES = 4096 };

static const struct {
    bool user, address;
    int most;
    const char *what;
} brakes[] = {
    {true, true, LOGIN_FAILURES, "of this user from this address"},
    {false, true, LOGIN_FAILURES_ADDRESS, "from this address"},
    {true, false, LOGIN_FAILURES_USER, "of this user"},
};
enum { BRAKES = sizeof brakes / sizeof *brakes };

struct throttle_entry {
    uint64_t key;
    int64_t since; // monotonic microseconds of the first failure that counts
    int failures;
};

struct throttle {
    pthread_mutex_t lock;
    struct throttle_entry places[BRAKES][THROTTLE_PLACES];
};

struct throttle *throttle_new(void)
{
    struct throttle *t = xcalloc(1, sizeof *t);
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

// The entry of a brake; empty when it is new or its window is over. Locked.
static struct throttle_entry *entry_of(struct throttle *t, int brake, const char *user,
                                       const char *address)
{
    uint64_t key = (brakes[brake].user ? hash64(user, strlen(user)) * 31 : 0) +
                   (brakes[brake].address ? hash64(address, strlen(address)) : 0);
    struct throttle_entry *entry = &t->places[brake][key % THROTTLE_PLACES];
    int64_t now = clock_mono_us();
    if (entry->key != key || now - entry->since > LOGIN_WINDOW_S * 1000000LL)
        *entry = (struct throttle_entry){.key = key, .since = now};
    return entry;
}

int throttle_check(struct throttle *t, const char *user, const char *address, int *retry_after,
                   struct error *e)
{
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; !rc && i < BRAKES; i++) {
        const struct throttle_entry *entry = entry_of(t, i, user, address);
        int64_t left = LOGIN_WINDOW_S - (clock_mono_us() - entry->since) / 1000000;
        if (entry->failures < brakes[i].most)
            continue;
        *retry_after = left < 1 ? 1 : (int)left;
        rc = error_set(e, ERR_BUSY, "%d failed logins %s; try again in %d s", brakes[i].most,
                       brakes[i].what, *retry_after);
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

void throttle_failed(struct throttle *t, const char *user, const char *address)
{
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < BRAKES; i++)
        entry_of(t, i, user, address)->failures++;
    pthread_mutex_unlock(&t->lock);
}

void throttle_passed(struct throttle *t, const char *user, const char *address)
{
    pthread_mutex_lock(&t->lock);
    entry_of(t, 0, user, address)->failures = 0;
    pthread_mutex_unlock(&t->lock);
}
