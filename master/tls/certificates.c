#include "master/tls/certificates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "master/tls/local_names.h"

enum { PEM_MAX = 1 << 20, DAY_S = 86400 };

static const char authority_cert[] = "ca.pem", authority_key[] = "ca.key",
                  server_cert[] = "server.pem", server_key[] = "server.key";

char *certificates_path(const char *data_dir, const char *file)
{
    char *dir = path_join(data_dir, "tls"), *path = path_join(dir, file);
    free(dir);
    return path;
}

static bool has_file(const char *data_dir, const char *file)
{
    char *path = certificates_path(data_dir, file);
    bool there = path_exists(path);
    free(path);
    return there;
}

bool certificates_exist(const char *data_dir)
{
    return has_file(data_dir, authority_cert) || has_file(data_dir, server_cert);
}

// --- files ---------------------------------------------------------------------------------------

// Reads a file; *out NULL: there is none.
static int read_pem(const char *data_dir, const char *file, char **out, struct error *e)
{
    size_t len;
    char *path = certificates_path(data_dir, file);
    *out = NULL;
    int rc = path_exists(path) ? file_read(path, PEM_MAX, out, &len, e) : 0;
    free(path);
    return rc;
}

// Gives a file that root made to the owner of the data folder.
static int give_to_owner(const char *data_dir, const char *path, struct error *e)
{
    struct stat of_folder;
    if (geteuid() || stat(data_dir, &of_folder) || !of_folder.st_uid)
        return 0;
    // The owner may put a link there meanwhile, which must not lead to a file of root.
    if (lchown(path, of_folder.st_uid, of_folder.st_gid))
        return error_set_errno(e, ERR_IO, errno, "%s", path);
    return 0;
}

static int write_pem(const char *data_dir, const char *file, const char *text, unsigned mode,
                     struct error *e)
{
    char *path = certificates_path(data_dir, file);
    int rc = file_write_durable(path, text, strlen(text), mode, e);
    if (!rc)
        rc = give_to_owner(data_dir, path, e);
    free(path);
    return rc;
}

// The certificate is written last: it says that the pair is complete.
static int write_pair(const char *data_dir, const char *cert_file, const char *key_file,
                      const char *chain, const struct x509_identity *pair, struct error *e)
{
    char *text = xasprintf("%s%s", pair->cert, chain);
    int rc = write_pem(data_dir, key_file, pair->key, 0600, e);
    if (!rc)
        rc = write_pem(data_dir, cert_file, text, 0644, e);
    free(text);
    return rc;
}

static int make_folder(const char *data_dir, struct error *e)
{
    char *dir = path_join(data_dir, "tls");
    int rc = dir_make(data_dir, 0700, e);
    if (!rc)
        rc = dir_make(dir, 0755, e);
    if (!rc)
        rc = give_to_owner(data_dir, dir, e);
    free(dir);
    return rc;
}

// --- the authority -------------------------------------------------------------------------------

// A file of the authority was taken away, because it is written before the master's certificate.
static int authority_lacks(const char *data_dir, const char *file, const char *reason,
                           struct error *e)
{
    char *path = certificates_path(data_dir, file);
    int rc = error_set(e, ERR_STATE,
                       "%s, and %s is not there: put it back, or remove its folder and run "
                       "muster-master --init, which makes a new authority (all agents and users "
                       "must then trust that one)",
                       reason, path);
    free(path);
    return rc;
}

// Reads the authority, or makes one if there is none.
static int authority_open(const char *data_dir, int64_t now, struct x509_identity *out, bool *made,
                          struct error *e)
{
    char host[256] = "", *name;
    *made = false;
    *out = (struct x509_identity){0};
    int rc = read_pem(data_dir, authority_cert, &out->cert, e);
    if (!rc && out->cert)
        rc = read_pem(data_dir, authority_key, &out->key, e);
    if (rc || out->cert)
        return rc;
    if (has_file(data_dir, server_cert)) // a new one would replace its key
        return authority_lacks(data_dir, authority_cert, "the master has a certificate", e);
    gethostname(host, sizeof host - 1);
    name = xasprintf("Muster authority of %.32s", host); // a common name has up to 64 letters
    rc = x509_make_authority(name, now, AUTHORITY_DAYS, out, e);
    free(name);
    if (!rc)
        rc = write_pair(data_dir, authority_cert, authority_key, "", out, e);
    *made = !rc;
    return rc;
}

// --- the certificate of the master ---------------------------------------------------------------

// Why the certificate is to be made again; NULL: it is good. `wanted`: the names that the next one
// would have, among them all that it has.
static const char *renewal_reason(const struct x509_facts *facts, bool good, size_t wanted,
                                  int64_t authority_ends, int64_t now)
{
    bool ends_soon = facts->ends - now < (int64_t)SERVER_RENEW_DAYS * DAY_S;
    return !good                                       ? "missing or damaged"
           : ends_soon && facts->ends < authority_ends ? "it ends soon"
           : facts->begins > now                       ? "the clock was set back"
           : wanted > facts->names.count               ? "it lacks a name"
                                                       : NULL;
}

// Reads the pair; false: there is none that is whole and signed by the authority.
static bool server_read(const char *data_dir, const char *authority, struct x509_facts *facts)
{
    struct x509_identity pair = {0};
    bool good = !read_pem(data_dir, server_cert, &pair.cert, NULL) &&
                !read_pem(data_dir, server_key, &pair.key, NULL) && pair.cert && pair.key &&
                !x509_read(pair.cert, facts, NULL) && x509_belong(&pair, authority);
    x509_identity_free(&pair);
    return good;
}

static int server_make(const char *data_dir, const struct x509_identity *authority,
                       const struct x509_names *names, const char *reason, int64_t now,
                       struct error *e)
{
    struct x509_identity pair = {0};
    char what[128];
    snprintf(what, sizeof what, "the certificate of the master must be made again (%s)", reason);
    if (!authority->key)
        return authority_lacks(data_dir, authority_key, what, e);
    int rc = x509_make_server(authority, names, now, SERVER_DAYS, &pair, e);
    if (!rc)
        rc = write_pair(data_dir, server_cert, server_key, authority->cert, &pair, e);
    x509_identity_free(&pair);
    return rc;
}

// Makes the certificate again if there is a reason. It keeps its names and gets those of `names`
// for which there is room.
static int server_renew(const char *data_dir, const struct x509_identity *authority,
                        const struct x509_names *names, int64_t now, bool *made, struct error *e)
{
    struct x509_facts facts = {0}, of_authority;
    *made = false;
    int rc = x509_read(authority->cert, &of_authority, e);
    if (rc)
        return error_prefix(e, "tls/%s", authority_cert);
    bool good = server_read(data_dir, authority->cert, &facts);
    struct x509_names all = facts.names;
    size_t left_out = 0;
    for (size_t i = 0; i < names->count; i++)
        left_out += !x509_names_add(&all, names->items[i]);
    if (!facts.names.count) // they are lost
        local_names_add_host(&all);
    const char *reason = renewal_reason(&facts, good, all.count, of_authority.ends, now);
    if (!reason)
        return 0;
    rc = server_make(data_dir, authority, &all, reason, now, e);
    *made = !rc;
    if (!rc && good)
        log_info("the certificate of the master was renewed", "reason=\"%s\"", reason);
    if (!rc && left_out)
        log_warn("the certificate of the master has no room for all addresses of this machine",
                 "names=%zu left_out=%zu advice=\"see HTTPS in docs/operating.md\"", all.count,
                 left_out);
    return rc;
}

// --- calls ---------------------------------------------------------------------------------------

static int add_wanted(struct x509_names *names, const char *const *wanted, size_t count,
                      struct error *e)
{
    for (size_t i = 0; i < count; i++) {
        if (names->count == X509_NAMES_MAX)
            return error_set(e, ERR_TOO_LARGE, "--host-name: at most %d names", X509_NAMES_MAX);
        if (!x509_names_add(names, wanted[i]))
            return error_set(e, ERR_INVALID,
                             "--host-name: \"%.80s\" is neither a host name nor an IP address "
                             "(no port, no http://)",
                             wanted[i]);
    }
    return 0;
}

// Names that were asked for must not be left out.
static int check_wanted(const struct x509_names *names, const char *const *wanted, size_t count,
                        struct error *e)
{
    struct x509_names all = *names;
    for (size_t i = 0; i < count; i++)
        if (!x509_names_add(&all, wanted[i]) || all.count > names->count)
            return error_set(e, ERR_TOO_LARGE,
                             "the certificate has %d names, and no room for %s: remove "
                             "tls/%s in the data folder to begin with the present names alone",
                             X509_NAMES_MAX, wanted[i], server_cert);
    return 0;
}

static int report(const char *data_dir, const struct x509_identity *authority,
                  struct certificates_report *out, struct error *e)
{
    struct x509_facts facts;
    char *pem = NULL;
    int rc = x509_read(authority->cert, &facts, e);
    out->authority_ends = facts.ends;
    memcpy(out->fingerprint, facts.fingerprint, sizeof facts.fingerprint);
    if (!rc)
        rc = read_pem(data_dir, server_cert, &pem, e);
    if (!rc)
        rc = x509_read(pem ? pem : "", &facts, e);
    out->names = facts.names;
    out->server_ends = facts.ends;
    free(pem);
    return rc;
}

int certificates_init(const char *data_dir, const char *const *names, size_t name_count,
                      int64_t now, struct certificates_report *out, struct error *e)
{
    struct x509_identity authority = {0};
    struct x509_names all = {0};
    *out = (struct certificates_report){0};
    int rc = add_wanted(&all, names, name_count, e);
    if (!rc)
        rc = make_folder(data_dir, e);
    if (!rc)
        rc = authority_open(data_dir, now, &authority, &out->made_authority, e);
    if (!rc) {
        local_names_add_host(&all);
        local_names_add_addresses(&all);
        rc = server_renew(data_dir, &authority, &all, now, &out->made_server, e);
    }
    if (!rc)
        rc = report(data_dir, &authority, out, e);
    if (!rc)
        rc = check_wanted(&out->names, names, name_count, e);
    x509_identity_free(&authority);
    return rc;
}

int certificates_renew(const char *data_dir, int64_t now, bool *renewed, struct error *e)
{
    struct x509_identity authority = {0};
    struct x509_names names = {0};
    *renewed = false;
    int rc = read_pem(data_dir, authority_cert, &authority.cert, e);
    if (!rc && !authority.cert)
        rc = authority_lacks(data_dir, authority_cert,
                             "the certificate of the master cannot be checked", e);
    if (!rc)
        rc = read_pem(data_dir, authority_key, &authority.key, e);
    if (!rc) {
        local_names_add_addresses(&names);
        rc = server_renew(data_dir, &authority, &names, now, renewed, e);
    }
    x509_identity_free(&authority);
    return rc;
}
