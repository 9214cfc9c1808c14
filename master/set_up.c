#include "master/set_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/tls/certificates.h"

enum { DAY_CHARS = 10 }; // of 2026-11-23

static const char *day_of(int64_t seconds, char out[CLOCK_RFC3339_MAX])
{
    clock_format(seconds * 1000000, out);
    out[DAY_CHARS] = '\0';
    return out;
}

// The name that other machines are likely to know: the first one that is no address.
static const char *likely_host(const struct x509_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], "localhost") && !strchr(names->items[i], ':') &&
            names->items[i][strspn(names->items[i], "0123456789.")])
            return names->items[i];
    return "localhost";
}

static void print_next(const struct master_options *o, const struct certificates_report *r)
{
    const char *host = o->host_names.count ? o->host_names.items[0] : likely_host(&r->names);
    const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
    const long long port = o->port ? o->port : 8080LL;
    printf("\nfingerprint: %s\n\n"
           "Next:\n"
           "  muster-master --data-dir %s\n"
           "      serves https from now on (a running one: restart it)\n"
           "  muster trust https://%s%s%s:%lld --fingerprint %s\n"
           "      lets the muster command of a user trust it; browsers import %s/tls/ca.pem\n"
           "  muster login admin --master https://%s%s%s:%lld\n"
           "  muster agent enroll\n"
           "      prints the line that brings a machine into the cluster\n",
           r->fingerprint, o->data_dir, open, host, close, port, r->fingerprint, o->data_dir, open,
           host, close, port);
}

int set_up_tls(const struct master_options *o, struct error *e)
{
    struct certificates_report r;
    char day[CLOCK_RFC3339_MAX];
    int rc = certificates_init(o->data_dir, o->host_names.items, (size_t)o->host_names.count,
                               clock_wall_us() / 1000000, &r, e);
    if (rc)
        return error_prefix(e, "--init");
    if (!r.made_authority && !r.made_server)
        printf("unchanged: %s/tls has an authority and a certificate already\n", o->data_dir);
    if (r.made_authority)
        printf("made the authority of this cluster: %s/tls/ca.pem\n", o->data_dir);
    if (r.made_server)
        printf("made the certificate of this master: %s/tls/server.pem\n", o->data_dir);
    printf("the authority is valid until %s", day_of(r.authority_ends, day));
    printf(", the certificate until %s; the master renews it before\n", day_of(r.server_ends, day));
    printf("names:");
    for (size_t i = 0; i < r.names.count; i++)
        printf(" %s", r.names.items[i]);
    print_next(o, &r);
    return 0;
}

void listening_choose(const struct master_options *o, struct listening *out)
{
    *out = (struct listening){.cert_file = o->tls_cert, .key_file = o->tls_key};
    if (!o->tls_cert && !o->tls_key && certificates_exist(o->data_dir)) {
        out->cert_file = out->own_cert_file = certificates_path(o->data_dir, "server.pem");
        out->key_file = out->own_key_file = certificates_path(o->data_dir, "server.key");
        out->own_certificate_of = o->data_dir;
    }
    bool everywhere = out->cert_file || o->insecure;
    out->bind = o->bind ? o->bind : everywhere ? "0.0.0.0" : "127.0.0.1";
    if (!o->bind && !everywhere)
        log_warn("listening on this machine only, because there is no certificate for https",
                 "advice=\"run muster-master --init, then start the master again; or give "
                 "--insecure\"");
    if (o->insecure && !out->cert_file)
        log_warn("--insecure: passwords and tokens travel as plain text, which everybody on the "
                 "network can read",
                 "bind=%s advice=\"run muster-master --init\"", out->bind);
}

void listening_free(struct listening *l)
{
    free(l->own_cert_file);
    free(l->own_key_file);
}
