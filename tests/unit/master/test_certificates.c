// The authority and the certificate of the master: names, files, renewal, damage.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/arena.h"
#include "base/os/file.h"
#include "master/tls/certificates.h"
#include "master/tls/serving.h"

#define DIR      "data"
#define OK(call) assert_int_equal(call, GNUTLS_E_SUCCESS)

enum { DAY = 86400 };
static const int64_t start = 1790000000; // September 2026

static struct certificates_report init_with(const char *name, int64_t now)
{
    struct certificates_report r;
    struct error e = {0};
    if (certificates_init(DIR, &name, name ? 1 : 0, now, &r, &e))
        fail_msg("%s", e.text);
    return r;
}

static int begin(void **state)
{
    (void)state;
    return dir_remove_tree(DIR, NULL);
}

static char *content(const char *file)
{
    char *text;
    size_t len;
    struct error e;
    char *path = certificates_path(DIR, file);
    assert_int_equal(file_read(path, 1 << 20, &text, &len, &e), 0);
    free(path);
    return text;
}

static void put(const char *file, const char *text)
{
    struct error e;
    char *path = certificates_path(DIR, file);
    assert_int_equal(file_write_durable(path, text, strlen(text), 0600, &e), 0);
    free(path);
}

static void take_away(const char *file)
{
    char *path = certificates_path(DIR, file);
    assert_int_equal(unlink(path), 0);
    free(path);
}

static unsigned mode_of(const char *file)
{
    struct stat info;
    char *path = certificates_path(DIR, file);
    assert_int_equal(stat(path, &info), 0);
    free(path);
    return info.st_mode & 0777;
}

// The verdict of a GnuTLS client about the chain in server.pem; 0: it is good for this host.
static unsigned verdict(const char *host)
{
    gnutls_x509_trust_list_t trust;
    gnutls_x509_crt_t chain[4];
    unsigned count = 4, status;
    char *server = content("server.pem"), *authority = content("ca.pem");
    gnutls_datum_t text = {(unsigned char *)server, (unsigned)strlen(server)};
    gnutls_datum_t trusted = {(unsigned char *)authority, (unsigned)strlen(authority)};
    gnutls_typed_vdata_st asks[] = {
        {GNUTLS_DT_DNS_HOSTNAME, (unsigned char *)host, 0},
        {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)GNUTLS_KP_TLS_WWW_SERVER, 0}};
    OK(gnutls_x509_trust_list_init(&trust, 0));
    assert_int_equal(
        gnutls_x509_trust_list_add_trust_mem(trust, &trusted, NULL, GNUTLS_X509_FMT_PEM, 0, 0), 1);
    assert_int_equal(gnutls_x509_crt_list_import(chain, &count, &text, GNUTLS_X509_FMT_PEM, 0), 2);
    OK(gnutls_x509_trust_list_verify_crt2(trust, chain, count, asks, 2,
                                          GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &status, NULL));
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
    gnutls_x509_trust_list_deinit(trust, 1);
    free(server);
    free(authority);
    return status;
}

static void test_init(void **state)
{
    (void)state;
    assert_false(certificates_exist(DIR));
    struct certificates_report r = init_with("head.example.org", start);
    assert_true(r.made_authority && r.made_server);
    assert_true(certificates_exist(DIR));
    assert_int_equal(strlen(r.fingerprint), 64);
    assert_true(x509_names_has(&r.names, "head.example.org"));
    assert_true(x509_names_has(&r.names, "localhost"));
    assert_true(x509_names_has(&r.names, "127.0.0.1"));
    assert_true(x509_names_has(&r.names, "::1"));
    assert_true(r.authority_ends == start + (int64_t)AUTHORITY_DAYS * DAY);
    assert_true(r.server_ends == start + (int64_t)SERVER_DAYS * DAY);
    assert_int_equal(mode_of("ca.key"), 0600);
    assert_int_equal(mode_of("server.key"), 0600);
    assert_int_equal(verdict("head.example.org"), 0);
    assert_int_equal(verdict("127.0.0.1"), 0);
    assert_int_not_equal(verdict("other.example.org"), 0);
}

static void test_again(void **state)
{
    (void)state;
    struct certificates_report first = init_with("head", start);
    char *cert = content("server.pem"), *key = content("ca.key");
    struct certificates_report second = init_with("HEAD", start + 3 * DAY);
    assert_false(second.made_authority || second.made_server);
    assert_string_equal(first.fingerprint, second.fingerprint);
    char *cert_now = content("server.pem"), *key_now = content("ca.key");
    assert_string_equal(cert, cert_now);
    assert_string_equal(key, key_now);
    free(cert_now);
    free(key_now);
    // A further name: another certificate, which keeps the former names.
    second = init_with("192.0.2.77", start + 3 * DAY);
    assert_true(second.made_server && !second.made_authority);
    assert_true(x509_names_has(&second.names, "head"));
    assert_int_equal(verdict("192.0.2.77"), 0);
    assert_string_equal(first.fingerprint, second.fingerprint);
    free(cert);
    free(key);
}

static void expect_renewal(int64_t now, bool expected)
{
    struct error e = {0};
    bool renewed;
    if (certificates_renew(DIR, now, &renewed, &e))
        fail_msg("%s", e.text);
    assert_int_equal(renewed, expected);
}

static void test_renewal(void **state)
{
    (void)state;
    int64_t due = start + (int64_t)(SERVER_DAYS - SERVER_RENEW_DAYS) * DAY;
    struct certificates_report first = init_with("head", start);
    expect_renewal(start, false);
    expect_renewal(due, false);
    expect_renewal(due + 1, true);
    expect_renewal(due + 1, false);
    struct certificates_report second = init_with(NULL, due + 1);
    assert_false(second.made_server);
    assert_true(second.server_ends == due + 1 + (int64_t)SERVER_DAYS * DAY);
    assert_true(x509_names_has(&second.names, "head"));
    assert_string_equal(first.fingerprint, second.fingerprint);
    // Near its end the authority bounds the certificate, which is not made again and again.
    int64_t late = start + (int64_t)(AUTHORITY_DAYS - 10) * DAY;
    expect_renewal(late, true);
    expect_renewal(late, false);
    assert_true(init_with(NULL, late).server_ends == first.authority_ends);
}

static void test_damage(void **state)
{
    (void)state;
    struct certificates_report first = init_with("head", start);
    char *old_key = content("server.key");
    char host[256];
    assert_int_equal(gethostname(host, sizeof host), 0);
    put("server.pem", "not a certificate");
    expect_renewal(start, true);
    assert_int_equal(verdict(host), 0); // the name by which agents may know the master
    put("server.key", old_key);         // as after a crash between the two files
    expect_renewal(start, true);
    assert_int_equal(verdict("127.0.0.1"), 0);
    take_away("server.key");
    expect_renewal(start, true);
    expect_renewal(start, false);
    assert_string_equal(init_with(NULL, start).fingerprint, first.fingerprint);
    free(old_key);
}

// An authority may be kept elsewhere: its key is needed for a renewal only.
static void test_authority_without_key(void **state)
{
    (void)state;
    struct error e = {0};
    bool renewed;
    init_with("head", start);
    take_away("ca.key");
    expect_renewal(start, false);
    assert_int_equal(certificates_renew(DIR, start + 350LL * DAY, &renewed, &e), ERR_STATE);
    assert_non_null(strstr(e.text, DIR "/tls/ca.key is not there: put it back"));
    assert_false(renewed);
}

// Neither a new authority nor http replaces an authority whose certificate was lost.
static void test_key_without_authority(void **state)
{
    (void)state;
    struct certificates_report r, first = init_with("head", start);
    struct error e = {0};
    bool renewed;
    char *authority = content("ca.pem");
    take_away("ca.pem");
    assert_true(certificates_exist(DIR));
    assert_int_equal(certificates_renew(DIR, start, &renewed, &e), ERR_STATE);
    assert_int_equal(certificates_init(DIR, NULL, 0, start, &r, &e), ERR_STATE);
    assert_non_null(strstr(e.text, DIR "/tls/ca.pem is not there: put it back"));
    put("ca.pem", authority);
    assert_string_equal(init_with(NULL, start).fingerprint, first.fingerprint);
    free(authority);
}

static void test_bad_names(void **state)
{
    static const char *const bad[] = {"",      "http://head", "head:8080", "a b",
                                      "-head", ".head",       "[::1]",     "h\xc3\xa4t"};
    struct certificates_report r;
    struct error e;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(certificates_init(DIR, &bad[i], 1, start, &r, &e), ERR_INVALID);
    assert_false(certificates_exist(DIR)); // nothing is made before the names are checked
}

static void test_names_limit(void **state)
{
    struct certificates_report r;
    struct error e;
    char texts[X509_NAMES_MAX + 1][16];
    const char *names[X509_NAMES_MAX + 1];
    (void)state;
    for (int i = 0; i <= X509_NAMES_MAX; i++) {
        snprintf(texts[i], sizeof texts[i], "h%d", i);
        names[i] = texts[i];
    }
    assert_int_equal(certificates_init(DIR, names, X509_NAMES_MAX + 1, start, &r, &e),
                     ERR_TOO_LARGE);
    assert_int_equal(certificates_init(DIR, names, X509_NAMES_MAX, start, &r, &e), 0);
    assert_int_equal(r.names.count, X509_NAMES_MAX);
    assert_int_equal(certificates_init(DIR, names + X509_NAMES_MAX, 1, start, &r, &e),
                     ERR_TOO_LARGE);
    expect_renewal(start, false); // addresses without room do not make certificates for ever
}

// The server reads the fingerprint of the authority from the chain that it sends.
static void test_serving(void **state)
{
    (void)state;
    struct certificates_report r = init_with(NULL, start);
    struct serving *s = NULL;
    struct error e = {0};
    char found[SHA256_HEX];
    struct serving_options o = {DIR "/tls/server.pem", DIR "/tls/server.key", NULL};
    assert_int_equal(serving_start(&o, &s, &e), 0);
    serving_fingerprint(s, found);
    assert_string_equal(found, r.fingerprint);
    serving_stop(s);
    o.key_file = DIR "/tls/ca.key";
    assert_int_equal(serving_start(&o, &s, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "do not belong together"));
}

// A certificate that is valid must be served, although it cannot be renewed.
static void test_serving_without_the_key_of_the_authority(void **state)
{
    (void)state;
    struct serving *s = NULL;
    struct error e = {0};
    const struct serving_options o = {DIR "/tls/server.pem", DIR "/tls/server.key", DIR};
    init_with("head", time(NULL) - (SERVER_DAYS - SERVER_RENEW_DAYS + 1LL) * DAY); // it is due
    take_away("ca.key");
    if (serving_start(&o, &s, &e))
        fail_msg("%s", e.text);
    serving_stop(s);
    take_away("server.key");
    assert_int_equal(serving_start(&o, &s, &e), ERR_STATE);
    assert_non_null(strstr(e.text, DIR "/tls/ca.key is not there: put it back"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_init, begin),
        cmocka_unit_test_setup(test_again, begin),
        cmocka_unit_test_setup(test_renewal, begin),
        cmocka_unit_test_setup(test_damage, begin),
        cmocka_unit_test_setup(test_authority_without_key, begin),
        cmocka_unit_test_setup(test_key_without_authority, begin),
        cmocka_unit_test_setup(test_bad_names, begin),
        cmocka_unit_test_setup(test_names_limit, begin),
        cmocka_unit_test_setup(test_serving, begin),
        cmocka_unit_test_setup(test_serving_without_the_key_of_the_authority, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
