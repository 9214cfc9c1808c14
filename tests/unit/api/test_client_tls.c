// The HTTP client against a server with TLS in the test: connections that break during the
// handshake, and certificates that expire.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "api/http/client.h"
#include "base/arena.h"
#include "base/clock.h"

#define AUTHORITY "authority.pem" // both certificates, which have signed themselves
#define OK(call)  assert_int_equal(call, GNUTLS_E_SUCCESS)

enum { DAY_S = 86400, PATIENCE_US = 60 * 1000 * 1000 };

// How the server meets a connection.
enum meeting { MEET_GOOD, MEET_EXPIRED, MEET_BREAK, MEETINGS };

// --- certificates --------------------------------------------------------------------------------

// Makes a certificate for 127.0.0.1 that is valid for a day, and adds it to the file.
static gnutls_certificate_credentials_t make_certificate(time_t begins, unsigned char serial,
                                                         FILE *file)
{
    static const unsigned char loopback[] = {127, 0, 0, 1};
    gnutls_certificate_credentials_t credentials;
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t pem;
    OK(gnutls_x509_privkey_init(&key));
    OK(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                    GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    OK(gnutls_x509_crt_init(&cert));
    OK(gnutls_x509_crt_set_version(cert, 3));
    OK(gnutls_x509_crt_set_serial(cert, &serial, 1));
    OK(gnutls_x509_crt_set_activation_time(cert, begins));
    OK(gnutls_x509_crt_set_expiration_time(cert, begins + DAY_S));
    OK(gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_IPADDRESS, loopback, sizeof(loopback),
                                            GNUTLS_FSAN_SET));
    OK(gnutls_x509_crt_set_key(cert, key));
    OK(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0));
    OK(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem));
    assert_int_equal(fwrite(pem.data, 1, pem.size, file), pem.size);
    OK(gnutls_certificate_allocate_credentials(&credentials));
    OK(gnutls_certificate_set_x509_key(credentials, &cert, 1, key));
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
    return credentials;
}

// --- the server ----------------------------------------------------------------------------------

struct tls_server {
    gnutls_certificate_credentials_t credentials[MEETINGS]; // MEET_BREAK: none
    const enum meeting *meetings;
    size_t count;
    int listener, port;
    pthread_t thread;
    atomic_int met;
};

static void answer_request(gnutls_session_t session)
{
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    char request[4096];
    size_t len = 0;
    while (len < sizeof(request) - 1) {
        ssize_t n = gnutls_record_recv(session, request + len, sizeof(request) - 1 - len);
        if (n <= 0)
            return;
        len += (size_t)n;
        request[len] = '\0';
        if (strstr(request, "\r\n\r\n"))
            break;
    }
    gnutls_record_send(session, answer, sizeof(answer) - 1);
    gnutls_bye(session, GNUTLS_SHUT_WR);
}

static void meet(struct tls_server *s, int fd, enum meeting how)
{
    gnutls_session_t session;
    char byte;
    if (how == MEET_BREAK) { // as a master does that is being stopped
        (void)!read(fd, &byte, 1);
        return;
    }
    gnutls_init(&session, GNUTLS_SERVER);
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, s->credentials[how]);
    gnutls_transport_set_int(session, fd);
    if (!gnutls_handshake(session))
        answer_request(session);
    gnutls_deinit(session);
}

static void *serve(void *ctx)
{
    struct tls_server *s = ctx;
    for (size_t i = 0; i < s->count; i++) {
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0)
            break;
        atomic_fetch_add(&s->met, 1);
        meet(s, fd, s->meetings[i]);
        close(fd);
    }
    return NULL;
}

static void start(struct tls_server *s, const enum meeting *meetings, size_t count)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    FILE *file = fopen(AUTHORITY, "w");
    assert_non_null(file);
    memset(s, 0, sizeof(*s));
    s->credentials[MEET_GOOD] = make_certificate(time(NULL) - DAY_S / 2, 1, file);
    s->credentials[MEET_EXPIRED] = make_certificate(time(NULL) - 2 * DAY_S, 2, file);
    assert_int_equal(fclose(file), 0);
    s->meetings = meetings;
    s->count = count;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->listener >= 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(listen(s->listener, 8), 0);
    s->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

// Returns the number of connections.
static int stop(struct tls_server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    close(s->listener);
    for (size_t i = 0; i < MEETINGS; i++)
        if (s->credentials[i])
            gnutls_certificate_free_credentials(s->credentials[i]);
    return atomic_load(&s->met);
}

// --- the client ----------------------------------------------------------------------------------

static struct client *client_of(const struct tls_server *s)
{
    struct client *c;
    struct error e;
    char *url = xasprintf("https://127.0.0.1:%d", s->port);
    const struct client_options o = {.url = url, .ca_file = AUTHORITY, .only_ca_file = true};
    if (client_open(&o, &c, &e))
        fail_msg("%s", e.text);
    free(url);
    return c;
}

static int call(struct client *c, struct error *e)
{
    return client_call(c, "GET", "/info", NULL, NULL, e);
}

static int call_patiently(struct client *c, struct error *e)
{
    return client_call_retry(c, "GET", "/info", NULL, clock_mono_us() + PATIENCE_US, NULL, e);
}

static void a_broken_handshake_may_pass(void **state)
{
    static const enum meeting meetings[] = {MEET_BREAK, MEET_BREAK, MEET_GOOD};
    struct tls_server s;
    struct error e = {0};
    (void)state;
    start(&s, meetings, 3);
    struct client *c = client_of(&s);
    assert_int_equal(call(c, &e), ERR_UNAVAILABLE);
    if (call_patiently(c, &e))
        fail_msg("%s", e.text);
    client_close(c);
    assert_int_equal(stop(&s), 3);
}

static void an_expired_certificate_may_be_renewed(void **state)
{
    static const enum meeting meetings[] = {MEET_GOOD, MEET_EXPIRED, MEET_EXPIRED, MEET_GOOD};
    struct tls_server s;
    struct error e = {0};
    (void)state;
    start(&s, meetings, 4);
    struct client *c = client_of(&s);
    assert_int_equal(call(c, &e), 0);
    assert_int_equal(call(c, &e), ERR_PEER);
    assert_true(client_is_untrusted(c));
    assert_non_null(strstr(e.text, "If it has expired"));
    if (call_patiently(c, &e))
        fail_msg("%s", e.text);
    assert_false(client_is_untrusted(c));
    client_close(c);
    assert_int_equal(stop(&s), 4);
}

static void a_certificate_that_was_never_trusted_is_an_error(void **state)
{
    static const enum meeting meetings[] = {MEET_EXPIRED, MEET_GOOD};
    struct tls_server s;
    struct error e = {0};
    (void)state;
    start(&s, meetings, 2);
    struct client *c = client_of(&s);
    assert_int_equal(call_patiently(c, &e), ERR_PEER);
    client_close(c);
    assert_int_equal(stop(&s), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_handshake_may_pass),
        cmocka_unit_test(an_expired_certificate_may_be_renewed),
        cmocka_unit_test(a_certificate_that_was_never_trusted_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
