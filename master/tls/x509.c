#include "master/tls/x509.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"

enum {
    SERIAL_BYTES = 16,
    CHAIN_MAX = 16,
    BEGINS_EARLIER_S = 3600, // for clients whose clock is slow
    DAY_S = 86400,
};

// --- names ---------------------------------------------------------------------------------------

// The bytes of an IP address; 0: it is none.
static unsigned address_bytes(const char *name, unsigned char out[16])
{
    return inet_pton(AF_INET, name, out) == 1 ? 4 : inet_pton(AF_INET6, name, out) == 1 ? 16 : 0;
}

static bool is_dns_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t len = strlen(name);
    return len && len < X509_NAME && strspn(name, letters) == len && *name != '.' && *name != '-';
}

bool x509_names_has(const struct x509_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (!strcasecmp(names->items[i], name))
            return true;
    return false;
}

bool x509_names_add(struct x509_names *names, const char *name)
{
    unsigned char bytes[16];
    char text[X509_NAME];
    unsigned len = address_bytes(name, bytes);
    if (!len && !is_dns_name(name))
        return false;
    if (len) // an address has one spelling here
        inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
    else
        memcpy(text, name, strlen(name) + 1);
    if (x509_names_has(names, text))
        return true;
    if (names->count == X509_NAMES_MAX)
        return false;
    memcpy(names->items[names->count++], text, sizeof text);
    return true;
}

// --- making --------------------------------------------------------------------------------------

static int failed(int code, struct error *e)
{
    return code >= 0 ? 0
                     : error_set(e, ERR_INTERNAL, "GnuTLS cannot make the certificate: %s",
                                 gnutls_strerror(code));
}

static char *text_of(gnutls_datum_t pem)
{
    char *text = xasprintf("%.*s", (int)pem.size, (const char *)pem.data);
    explicit_bzero(pem.data, pem.size);
    gnutls_free(pem.data);
    return text;
}

static int make_key(gnutls_x509_privkey_t *key)
{
    int rc = gnutls_x509_privkey_init(key);
    return rc ? rc
              : gnutls_x509_privkey_generate(*key, GNUTLS_PK_ECDSA,
                                             GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
}

// Sets what every certificate has.
static int describe(gnutls_x509_crt_t cert, gnutls_x509_privkey_t key, const char *common_name,
                    int64_t begins, int64_t ends)
{
    unsigned char serial[SERIAL_BYTES], id[32];
    size_t id_len = sizeof id;
    rng_secret(serial, sizeof serial);
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40); // positive, and of this length
    int rc = gnutls_x509_crt_set_version(cert, 3);
    rc = rc ? rc : gnutls_x509_crt_set_serial(cert, serial, sizeof serial);
    rc = rc ? rc : gnutls_x509_crt_set_activation_time(cert, (time_t)begins);
    rc = rc ? rc : gnutls_x509_crt_set_expiration_time(cert, (time_t)ends);
    rc = rc ? rc
            : gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, common_name,
                                            (unsigned)strlen(common_name));
    rc = rc ? rc : gnutls_x509_crt_set_key(cert, key);
    rc = rc ? rc : gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA1, id, &id_len);
    return rc ? rc : gnutls_x509_crt_set_subject_key_id(cert, id, id_len);
}

static int export_both(gnutls_x509_crt_t cert, gnutls_x509_privkey_t key, struct x509_identity *out)
{
    gnutls_datum_t pem;
    int rc = gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem);
    if (rc)
        return rc;
    out->cert = text_of(pem);
    rc = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &pem);
    if (!rc)
        out->key = text_of(pem);
    return rc;
}

int x509_make_authority(const char *common_name, int64_t now, int days, struct x509_identity *out,
                        struct error *e)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_x509_crt_t cert = NULL;
    *out = (struct x509_identity){0};
    int rc = make_key(&key);
    rc = rc ? rc : gnutls_x509_crt_init(&cert);
    rc = rc ? rc
            : describe(cert, key, common_name, now - BEGINS_EARLIER_S, now + (int64_t)days * DAY_S);
    // It signs servers alone, and no further authority.
    rc = rc ? rc : gnutls_x509_crt_set_basic_constraints(cert, 1, 0);
    rc = rc ? rc
            : gnutls_x509_crt_set_key_usage(cert, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN);
    rc = rc ? rc : gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0);
    rc = rc ? rc : export_both(cert, key, out);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
    return failed(rc, e);
}

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

static int load_cert(const char *pem, gnutls_x509_crt_t *out)
{
    gnutls_datum_t text = datum(pem);
    int rc = gnutls_x509_crt_init(out);
    return rc ? rc : gnutls_x509_crt_import(*out, &text, GNUTLS_X509_FMT_PEM);
}

static int load_key(const char *pem, gnutls_x509_privkey_t *out)
{
    gnutls_datum_t text = datum(pem);
    int rc = gnutls_x509_privkey_init(out);
    return rc ? rc : gnutls_x509_privkey_import2(*out, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
}

static int add_names(gnutls_x509_crt_t cert, const struct x509_names *names)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < names->count; i++) {
        unsigned char bytes[16];
        unsigned len = address_bytes(names->items[i], bytes);
        rc = len ? gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_IPADDRESS, bytes, len,
                                                        GNUTLS_FSAN_APPEND)
                 : gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_DNSNAME, names->items[i],
                                                        (unsigned)strlen(names->items[i]),
                                                        GNUTLS_FSAN_APPEND);
    }
    return rc;
}

// Names the key that signed, so that a client with several authorities finds the right one.
static int name_signer(gnutls_x509_crt_t cert, gnutls_x509_crt_t signer)
{
    unsigned char id[32];
    size_t len = sizeof id;
    int rc = gnutls_x509_crt_get_subject_key_id(signer, id, &len, NULL);
    return rc ? rc : gnutls_x509_crt_set_authority_key_id(cert, id, len);
}

int x509_make_server(const struct x509_identity *authority, const struct x509_names *names,
                     int64_t now, int days, struct x509_identity *out, struct error *e)
{
    gnutls_x509_privkey_t key = NULL, signer_key = NULL;
    gnutls_x509_crt_t cert = NULL, signer = NULL;
    int64_t ends = now + (int64_t)days * DAY_S;
    *out = (struct x509_identity){0};
    int rc = load_cert(authority->cert, &signer);
    rc = rc ? rc : load_key(authority->key, &signer_key);
    rc = rc ? rc : make_key(&key);
    rc = rc ? rc : gnutls_x509_crt_init(&cert);
    if (!rc && ends > gnutls_x509_crt_get_expiration_time(signer))
        ends = gnutls_x509_crt_get_expiration_time(signer);
    rc = rc ? rc : describe(cert, key, "muster-master", now - BEGINS_EARLIER_S, ends);
    rc = rc ? rc : gnutls_x509_crt_set_basic_constraints(cert, 0, -1);
    rc = rc ? rc : gnutls_x509_crt_set_key_usage(cert, GNUTLS_KEY_DIGITAL_SIGNATURE);
    rc = rc ? rc : gnutls_x509_crt_set_key_purpose_oid(cert, GNUTLS_KP_TLS_WWW_SERVER, 0);
    rc = rc ? rc : add_names(cert, names);
    rc = rc ? rc : name_signer(cert, signer);
    rc = rc ? rc : gnutls_x509_crt_sign2(cert, signer, signer_key, GNUTLS_DIG_SHA256, 0);
    rc = rc ? rc : export_both(cert, key, out);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_crt_deinit(signer);
    gnutls_x509_privkey_deinit(key);
    gnutls_x509_privkey_deinit(signer_key);
    return failed(rc, e);
}

// --- reading -------------------------------------------------------------------------------------

static int unreadable(int code, struct error *e)
{
    return code >= 0
               ? 0
               : error_set(e, ERR_INVALID, "not a certificate (PEM): %s", gnutls_strerror(code));
}

static int read_fingerprint(gnutls_x509_crt_t cert, char out[SHA256_HEX])
{
    gnutls_datum_t der;
    int rc = gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_DER, &der);
    if (rc)
        return rc;
    sha256_hex(der.data, der.size, out);
    gnutls_free(der.data);
    return 0;
}

static void read_names(gnutls_x509_crt_t cert, struct x509_names *out)
{
    for (unsigned i = 0; i < X509_NAMES_MAX; i++) {
        char text[X509_NAME];
        unsigned char value[X509_NAME];
        size_t len = sizeof value - 1;
        int kind = gnutls_x509_crt_get_subject_alt_name(cert, i, value, &len, NULL);
        if (kind == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return;
        if (kind == GNUTLS_SAN_DNSNAME) {
            value[len] = '\0';
            x509_names_add(out, (const char *)value);
        } else if (kind == GNUTLS_SAN_IPADDRESS && (len == 4 || len == 16)) {
            inet_ntop(len == 4 ? AF_INET : AF_INET6, value, text, sizeof text);
            x509_names_add(out, text);
        }
    }
}

int x509_read(const char *pem, struct x509_facts *out, struct error *e)
{
    gnutls_x509_crt_t cert = NULL;
    *out = (struct x509_facts){0};
    int rc = load_cert(pem, &cert);
    rc = rc ? rc : read_fingerprint(cert, out->fingerprint);
    if (!rc) {
        read_names(cert, &out->names);
        out->begins = gnutls_x509_crt_get_activation_time(cert);
        out->ends = gnutls_x509_crt_get_expiration_time(cert);
    }
    gnutls_x509_crt_deinit(cert);
    return unreadable(rc, e);
}

int x509_read_top(const char *pem, char fingerprint[SHA256_HEX], bool *self_signed, struct error *e)
{
    gnutls_x509_crt_t chain[CHAIN_MAX];
    unsigned count = CHAIN_MAX;
    gnutls_datum_t text = datum(pem);
    int rc = gnutls_x509_crt_list_import(chain, &count, &text, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        return unreadable(rc, e);
    rc = read_fingerprint(chain[count - 1], fingerprint);
    *self_signed = gnutls_x509_crt_check_issuer(chain[count - 1], chain[count - 1]);
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
    return unreadable(rc, e);
}

static bool have_one_key(gnutls_x509_crt_t cert, gnutls_x509_privkey_t key)
{
    unsigned char of_cert[32], of_key[32];
    size_t len = sizeof of_cert, key_len = sizeof of_key;
    return !gnutls_x509_crt_get_key_id(cert, GNUTLS_KEYID_USE_SHA256, of_cert, &len) &&
           !gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, of_key, &key_len) &&
           len == key_len && !memcmp(of_cert, of_key, len);
}

bool x509_keys_match(const struct x509_identity *i)
{
    gnutls_x509_crt_t cert = NULL;
    gnutls_x509_privkey_t key = NULL;
    bool match = !load_cert(i->cert, &cert) && !load_key(i->key, &key) && have_one_key(cert, key);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
    return match;
}

bool x509_belong(const struct x509_identity *server, const char *authority_cert)
{
    gnutls_x509_crt_t cert = NULL, authority = NULL;
    unsigned status = 1;
    bool good =
        x509_keys_match(server) && !load_cert(server->cert, &cert) &&
        !load_cert(authority_cert, &authority) &&
        !gnutls_x509_crt_verify(cert, &authority, 1, GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &status) &&
        !status;
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_crt_deinit(authority);
    return good;
}

void x509_identity_free(struct x509_identity *i)
{
    if (i->key)
        explicit_bzero(i->key, strlen(i->key));
    free(i->key);
    free(i->cert);
    *i = (struct x509_identity){0};
}
