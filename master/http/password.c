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

// One entry for each (user, address), in a table of fixed size: whoever comes to a place that is
// taken by another takes it over, which at worst forgets some failures.
enum { THROTTLE_PLACES = 4096 };

struct throttle_entry {
    uint64_t key;
    int64_t since; // monotonic microseconds of the first failure that counts
    int failures;
};

struct throttle {
    pthread_mutex_t lock;
    struct throttle_entry places[THROTTLE_PLACES];
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

// The entry of (user, address), locked; empty when it is new or its window is over.
static struct throttle_entry *throttle_find(struct throttle *t, const char *user,
                                            const char *address)
{
    uint64_t key = hash64(user, strlen(user)) * 31 + hash64(address, strlen(address));
    pthread_mutex_lock(&t->lock);
    struct throttle_entry *entry = &t->places[key % THROTTLE_PLACES];
    int64_t now = clock_mono_us();
    if (entry->key != key || now - entry->since > LOGIN_WINDOW_S * 1000000LL)
        *entry = (struct throttle_entry){.key = key, .since = now};
    return entry;
}

int throttle_check(struct throttle *t, const char *user, const char *address, struct error *e)
{
    struct throttle_entry *entry = throttle_find(t, user, address);
    bool blocked = entry->failures >= LOGIN_FAILURES;
    int64_t left = LOGIN_WINDOW_S - (clock_mono_us() - entry->since) / 1000000;
    pthread_mutex_unlock(&t->lock);
    if (blocked)
        return error_set(e, ERR_BUSY,
                         "%d failed logins of this user from this address; try again "
                         "in %lld s",
                         LOGIN_FAILURES, (long long)left);
    return 0;
}

void throttle_failed(struct throttle *t, const char *user, const char *address)
{
    throttle_find(t, user, address)->failures++;
    pthread_mutex_unlock(&t->lock);
}

void throttle_passed(struct throttle *t, const char *user, const char *address)
{
    throttle_find(t, user, address)->failures = 0;
    pthread_mutex_unlock(&t->lock);
}
