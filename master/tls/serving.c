#include "master/tls/serving.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "master/tls/certificates.h"

enum { PEM_MAX = 1 << 20, CHAIN_MAX = 16, LOOK_EVERY_S = 5, WARN_DAYS = 14, DAY_S = 86400 };

// A certificate with its chain, and its key. Handshakes under way use it, so it stays until the
// server stops: some hundred bytes for each renewal.
struct served {
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned count;
    gnutls_privkey_t key;
    char fingerprint[SHA256_HEX];
    int64_t ends; // seconds since 1970
    struct served *older;
};

struct serving {
    struct serving_options o;
    struct timespec seen[2];              // when the files were changed last
    bool stale;                           // the changed files have not been read yet
    int64_t told_of_end, told_of_failure; // monotonic; 0: never
    pthread_t thread;
    pthread_mutex_t lock; // protects `stopping`
    pthread_cond_t changed;
    bool stopping;
};

static _Atomic(struct served *) current; // see serving.h

int serving_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
                     int authority_count, const gnutls_pk_algorithm_t *algorithms,
                     int algorithm_count, gnutls_pcert_st **certs, unsigned *cert_count,
                     gnutls_privkey_t *key)
{
    struct served *now = atomic_load(&current);
    (void)session, (void)authorities, (void)authority_count, (void)algorithms,
        (void)algorithm_count;
    if (!now)
        return -1;
    *certs = now->chain;
    *cert_count = now->count;
    *key = now->key;
    return 0;
}

void serving_fingerprint(struct serving *s, char out[SHA256_HEX])
{
    (void)s;
    memcpy(out, atomic_load(&current)->fingerprint, SHA256_HEX);
}

// --- loading -------------------------------------------------------------------------------------

static void served_free(struct served *c)
{
    for (unsigned i = 0; i < c->count; i++)
        gnutls_pcert_deinit(&c->chain[i]);
    if (c->key)
        gnutls_privkey_deinit(c->key);
    free(c);
}

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

static int import_pair(struct served *c, const struct x509_identity *pem)
{
    gnutls_datum_t cert = datum(pem->cert), key = datum(pem->key);
    c->count = CHAIN_MAX;
    int rc = gnutls_pcert_list_import_x509_raw(c->chain, &c->count, &cert, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        c->count = 0;
    rc = rc < 0 ? rc : gnutls_privkey_init(&c->key);
    return rc < 0 ? rc : gnutls_privkey_import_x509_raw(c->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
}

static int served_check(struct served *c, const struct x509_identity *pem, struct error *e)
{
    struct x509_facts facts;
    bool of_its_own;
    int code = import_pair(c, pem);
    if (code < 0)
        return error_set(e, ERR_INVALID, "cannot serve https with this certificate and key: %s",
                         gnutls_strerror(code));
    if (!x509_keys_match(pem))
        return error_set(e, ERR_INVALID,
                         "cannot serve https with this certificate and key: they do not belong "
                         "together");
    int rc = x509_read(pem->cert, &facts, e);
    if (!rc)
        rc = x509_read_top(pem->cert, c->fingerprint, &of_its_own, e);
    c->ends = facts.ends;
    if (!rc && !of_its_own)
        *c->fingerprint = '\0';
    return rc;
}

static int served_load(const struct serving_options *o, struct served **out, struct error *e)
{
    struct x509_identity pem = {0};
    struct served *c = xcalloc(1, sizeof *c);
    size_t len;
    int rc = file_read(o->cert_file, PEM_MAX, &pem.cert, &len, e);
    if (!rc)
        rc = file_read(o->key_file, PEM_MAX, &pem.key, &len, e);
    if (!rc && (rc = served_check(c, &pem, e)))
        error_prefix(e, "%s, %s", o->cert_file, o->key_file);
    x509_identity_free(&pem);
    if (rc) {
        served_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

// --- the thread ----------------------------------------------------------------------------------

static bool files_changed(struct serving *s)
{
    const char *paths[] = {s->o.cert_file, s->o.key_file};
    bool changed = false;
    for (int i = 0; i < 2; i++) {
        struct stat info;
        if (stat(paths[i], &info) || (info.st_mtim.tv_sec == s->seen[i].tv_sec &&
                                      info.st_mtim.tv_nsec == s->seen[i].tv_nsec))
            continue;
        s->seen[i] = info.st_mtim;
        changed = true;
    }
    return changed;
}

// A file that cannot be read now is read again later; `changed`: for the first time, so tell it.
static void reload(struct serving *s, bool changed)
{
    struct served *fresh;
    struct error e;
    char quoted[ERROR_TEXT_MAX];
    s->stale = served_load(&s->o, &fresh, &e);
    if (s->stale && changed)
        log_warn("the changed certificate cannot be used; the former one stays", "err=%s",
                 log_quote(quoted, sizeof quoted, e.text));
    if (s->stale)
        return;
    fresh->older = atomic_load(&current);
    atomic_store(&current, fresh);
    log_info("new connections get the changed certificate", "file=%s", s->o.cert_file);
}

static bool is_time_to_tell(int64_t *told)
{
    int64_t now = clock_mono_us();
    if (*told && now - *told < (int64_t)DAY_S * 1000000)
        return false;
    *told = now;
    return true;
}

// Renews the certificate if it is the master's own and that is due. A failure is no reason to stop:
// the present certificate may be good for months, and the authority's key may be kept elsewhere.
static int renew(struct serving *s, struct error *e)
{
    char quoted[ERROR_TEXT_MAX];
    bool renewed;
    int rc = s->o.data_dir
                 ? certificates_renew(s->o.data_dir, clock_wall_us() / 1000000, &renewed, e)
                 : 0;
    if (rc && is_time_to_tell(&s->told_of_failure))
        log_warn("the certificate of the master cannot be renewed", "err=%s",
                 log_quote(quoted, sizeof quoted, e->text));
    return rc;
}

static void warn_of_end(struct serving *s)
{
    int64_t left = atomic_load(&current)->ends - clock_wall_us() / 1000000;
    if (left > (int64_t)WARN_DAYS * DAY_S || !is_time_to_tell(&s->told_of_end))
        return;
    log_warn(left < 0 ? "the certificate of the master has ended, so nobody can connect"
                      : "the certificate of the master ends soon, and then nobody can connect",
             "file=%s days=%lld advice=\"%s\"", s->o.cert_file, (long long)(left / DAY_S),
             s->o.data_dir ? "see HTTPS in docs/operating.md" : "replace the files");
}

static void look(struct serving *s)
{
    struct error e;
    renew(s, &e);
    bool changed = files_changed(s);
    if (changed || s->stale)
        reload(s, changed);
    warn_of_end(s);
}

// Waits until it is time to look again; false: the server stops. The clock is monotonic, because a
// wall clock that is set back would stretch the wait.
static bool wait_for_time(struct serving *s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOOK_EVERY_S;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping && !pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &until))
        ;
    bool go_on = !s->stopping;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void *run(void *arg)
{
    while (wait_for_time(arg))
        look(arg);
    return NULL;
}

int serving_start(const struct serving_options *options, struct serving **out, struct error *e)
{
    struct serving *s = xcalloc(1, sizeof *s);
    struct served *first = NULL;
    struct error why;
    s->o = *options;
    must(!atomic_load(&current));
    int renewal = renew(s, &why);
    files_changed(s);
    int rc = served_load(&s->o, &first, e);
    if (rc) {
        free(s);
        return renewal ? error_set(e, renewal, "%s", why.text) : rc; // it says what to do
    }
    atomic_store(&current, first);
    warn_of_end(s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    must(!pthread_create(&s->thread, NULL, run, s));
    *out = s;
    return 0;
}

void serving_stop(struct serving *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    for (struct served *c = atomic_exchange(&current, NULL), *older; c; c = older) {
        older = c->older;
        served_free(c);
    }
    free(s);
}
