#include "api/http/trust.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/http/client_parts.h"
#include "base/arena.h"
#include "base/log.h"

static const char begin[] = "-----BEGIN CERTIFICATE-----", end[] = "-----END CERTIFICATE-----";

// The SHA-256 of the certificate (DER) that a PEM text begins with.
static int fingerprint_at(const char *pem, char out[SHA256_HEX], struct error *e)
{
    const char *text = strncmp(pem, begin, sizeof begin - 1) ? NULL : pem + sizeof begin - 1;
    const char *last = text ? strstr(text, end) : NULL;
    char *packed = last ? xcalloc(1, (size_t)(last - text) + 1) : NULL;
    size_t len = 0, der_len = 0;
    void *der = NULL;
    for (const char *c = text; packed && c < last; c++)
        if (!strchr(" \t\r\n", *c))
            packed[len++] = *c;
    int rc = packed ? base64_decode(packed, len, &der, &der_len) : ERR_INVALID;
    if (!rc)
        sha256_hex(der, der_len, out);
    free(packed);
    free(der);
    return rc ? error_set(e, ERR_INVALID, "not a certificate (PEM)") : 0;
}

int trust_fingerprint(const char *pem, char out[SHA256_HEX], struct error *e)
{
    const char *last = pem;
    for (const char *at = strstr(pem, begin); at; at = strstr(at + 1, begin))
        last = at;
    return fingerprint_at(last, out, e);
}

// The text of a field of a certificate: libcurl writes "NAME:TEXT"; NULL: absent.
static const char *field_of(const struct curl_slist *fields, const char *name)
{
    size_t len = strlen(name);
    for (; fields; fields = fields->next)
        if (!strncmp(fields->data, name, len) && fields->data[len] == ':')
            return fields->data + len + 1;
    return NULL;
}

static int read_chain(CURL *easy, struct trust_chain *out, struct error *e)
{
    struct curl_certinfo *found = NULL;
    int rc = 0;
    curl_easy_getinfo(easy, CURLINFO_CERTINFO, &found);
    for (int i = 0; !rc && found && i < found->num_of_certs && i < TRUST_CHAIN_MAX; i++) {
        const char *pem = field_of(found->certinfo[i], "Cert");
        rc = fingerprint_at(pem ? pem : "", out->items[i].fingerprint, e);
        if (rc)
            break;
        out->items[i].pem = xstrdup(pem);
        out->count++;
    }
    if (!rc && !out->count)
        rc = error_set(e, ERR_PEER, "the server shows no certificate");
    return rc;
}

int trust_fetch(const char *url, struct trust_chain *out, struct error *e)
{
    struct client *c = NULL;
    *out = (struct trust_chain){0};
    if (strncasecmp(url, "https://", 8) != 0)
        return error_set(e, ERR_INVALID, "%.200s: only a master with https has a certificate", url);
    int rc = client_open(&(struct client_options){.url = url}, &c, e);
    if (rc)
        return rc;
    curl_easy_setopt(c->easy, CURLOPT_URL, c->url);
    curl_easy_setopt(c->easy, CURLOPT_CONNECT_ONLY, 1L); // no request leaves
    curl_easy_setopt(c->easy, CURLOPT_CERTINFO, 1L);
    curl_easy_setopt(c->easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(c->easy, CURLOPT_SSL_VERIFYHOST, 0L);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT, c->timeout_s);
    CURLcode code = curl_easy_perform(c->easy);
    rc = code ? client_transport_failed(c, code, e) : read_chain(c->easy, out, e);
    client_close(c);
    if (rc)
        trust_free(out);
    return rc;
}

void trust_free(struct trust_chain *chain)
{
    for (size_t i = 0; i < chain->count; i++)
        free(chain->items[i].pem);
    *chain = (struct trust_chain){0};
}

int trust_fetch_authority(const char *url, const char *fingerprint, char **pem, struct error *e)
{
    struct trust_chain chain;
    *pem = NULL;
    int rc = trust_fetch(url, &chain, e);
    if (rc)
        return rc;
    for (size_t i = 0; i < chain.count && !*pem; i++)
        if (!strcmp(chain.items[i].fingerprint, fingerprint))
            *pem = xstrdup(chain.items[i].pem);
    if (!*pem)
        rc = error_set(e, ERR_PEER,
                       "%s is not the master that was expected: its authority has the fingerprint "
                       "%s instead of %s. Either the authority was replaced (then get a new line "
                       "or fingerprint from the administrator), or another server answers there. "
                       "Nothing was sent to it",
                       url, chain.items[chain.count - 1].fingerprint, fingerprint);
    trust_free(&chain);
    return rc;
}
