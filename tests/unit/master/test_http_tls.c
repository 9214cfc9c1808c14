// The server over TLS with a self-made certificate: a call, the session of the web page, a parked
// call whose client disconnects, the stop.

#include "tests/unit/master/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/clock.h"
#include "base/os/file.h"

#define OK(call) assert_int_equal(call, GNUTLS_E_SUCCESS)

static void write_pem(const char *path, gnutls_datum_t pem)
{
    struct error e = {0};
    assert_int_equal(file_write_durable(path, pem.data, pem.size, 0600, &e), 0);
    gnutls_free(pem.data);
}

// Writes a self-signed certificate for 127.0.0.1 to NAME.cert and its key to NAME.key.
static void make_certificate(const char *cert_file, const char *key_file)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t pem;
    const unsigned char serial[] = {1}, address[] = {127, 0, 0, 1};
    OK(gnutls_x509_privkey_init(&key));
    OK(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                    GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    OK(gnutls_x509_crt_init(&cert));
    OK(gnutls_x509_crt_set_version(cert, 3));
    OK(gnutls_x509_crt_set_serial(cert, serial, sizeof serial));
    OK(gnutls_x509_crt_set_activation_time(cert, time(NULL) - 60));
    OK(gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600));
    OK(gnutls_x509_crt_set_dn(cert, "CN=muster test", NULL));
    OK(gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_IPADDRESS, address, sizeof address,
                                            GNUTLS_FSAN_SET));
    OK(gnutls_x509_crt_set_key(cert, key));
    OK(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0));
    OK(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem));
    write_pem(cert_file, pem);
    OK(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem));
    write_pem(key_file, pem);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

struct tls {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t trust;
};

// Connects and trusts only the test's certificate.
static struct tls tls_dial(void)
{
    struct tls t = {.fd = dial()};
    OK(gnutls_certificate_allocate_credentials(&t.trust));
    assert_true(gnutls_certificate_set_x509_trust_file(t.trust, "cert", GNUTLS_X509_FMT_PEM) == 1);
    OK(gnutls_init(&t.session, GNUTLS_CLIENT));
    OK(gnutls_set_default_priority(t.session));
    OK(gnutls_credentials_set(t.session, GNUTLS_CRD_CERTIFICATE, t.trust));
    gnutls_session_set_verify_cert(t.session, "127.0.0.1", 0);
    gnutls_transport_set_int(t.session, t.fd);
    int rc;
    do {
        rc = gnutls_handshake(t.session);
    } while (rc < 0 && !gnutls_error_is_fatal(rc));
    OK(rc);
    return t;
}

static void tls_close(struct tls *t)
{
    gnutls_bye(t->session, GNUTLS_SHUT_WR);
    gnutls_deinit(t->session);
    gnutls_certificate_free_credentials(t->trust);
    close(t->fd);
}

static void tls_send(struct tls *t, const char *call, const char *header)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n", call, header);
    assert_true(gnutls_record_send(t->session, text, (size_t)n) == n);
}

// Logs out with the cookie of the web page, from a page of `origin`; returns the start of the
// answer.
static void log_out(const char *origin, char *text, size_t max)
{
    char headers[256];
    struct tls t = tls_dial();
    snprintf(headers, sizeof headers,
             "Content-Length: 0\r\nOrigin: %s\r\nCookie: muster_session=%s\r\n", origin, fx.user);
    tls_send(&t, "POST /api/v1/auth/logout", headers);
    ssize_t n = gnutls_record_recv(t.session, text, max - 1);
    assert_true(n > 0);
    text[n] = '\0';
    tls_close(&t);
}

// Anybody may have changed a page that came without TLS, so its cookie is never accepted without
// TLS.
static void check_session(void)
{
    char text[4096];
    log_out("http://x", text, sizeof text);
    assert_non_null(strstr(text, " 403 "));
    log_out("https://x", text, sizeof text);
    assert_non_null(strstr(text, " 200 "));
    assert_non_null(strstr(text, "\r\nSet-Cookie: muster_session=; "));
    assert_non_null(strstr(text, "; Secure\r\n"));
}

static void test_over_tls(void **state)
{
    (void)state;
    struct error e = {0};
    make_certificate("cert", "key");
    struct server_options options = {.db = fx.db,
                                     .core = fx.core,
                                     .log_followers = fx.log_followers,
                                     .hub = fx.hub,
                                     .cluster_id = "id",
                                     .cluster_name = "over tls",
                                     .config = "{}",
                                     .bind = "127.0.0.1",
                                     .cert_file = "cert",
                                     .key_file = "key"};
    stop_server();
    if (server_start(&options, &fx.server, &e))
        fail_msg("%s", e.text);
    assert_int_equal(strncmp(server_url(fx.server), "https://127.0.0.1:", 18), 0);
    fx.port = (int)strtol(strrchr(server_url(fx.server), ':') + 1, NULL, 10);

    char text[4096] = "";
    struct tls t = tls_dial();
    tls_send(&t, "GET /info", "");
    ssize_t n = gnutls_record_recv(t.session, text, sizeof text - 1);
    assert_true(n > 0);
    assert_non_null(strstr(text, "200 OK"));
    tls_close(&t);
    check_session();

    char header[256];
    snprintf(header, sizeof header, "Grpc-Metadata-x-allocation-token: Bearer %s\r\n", fx.task);
    for (int i = 0; i < 2; i++) {
        t = tls_dial();
        tls_send(&t, "GET /api/v1/allocations/1.task.1/signals/preemption", header);
        assert_true(reaches(&stub_of(fx.core)->parked_count, 1));
        if (i == 0) { // closes TLS properly and disconnects
            tls_close(&t);
            assert_true(reaches(&stub_of(fx.core)->parked_count, 0));
        }
    }
    stop_server(); // while the second call is parked
    n = gnutls_record_recv(t.session, text, sizeof text - 1);
    assert_true(n > 0 && strstr(text, "503"));
    tls_close(&t);

    options.key_file = "cert"; // not a key
    assert_int_equal(server_start(&options, &fx.server, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "certificate"));
    start_server();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_over_tls)};
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
