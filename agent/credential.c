#include "agent/credential.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/http/client.h"
#include "api/http/trust.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"

enum { FILE_MAX = 1 << 20, SECRET_BYTES = 32, PATIENCE_US = 60 * 1000 * 1000 };

static const char pending_file[] = "credential.pending.json";

bool credential_exists(const char *work_dir)
{
    char *path = path_join(work_dir, CREDENTIAL_FILE);
    bool there = path_exists(path);
    free(path);
    return there;
}

void credential_free(struct credential *c)
{
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    free(c->master);
    free(c->agent);
    free(c->pool);
    free(c->token);
    free(c->ca_file);
    free(c->enrolment_hash);
    *c = (struct credential){0};
}

// --- files ---------------------------------------------------------------------------------------

static int read_json(const char *work_dir, const char *file, json_t **out, struct error *e)
{
    char *path = path_join(work_dir, file), *text = NULL;
    size_t len = 0;
    *out = NULL;
    int rc = path_exists(path) ? file_read(path, FILE_MAX, &text, &len, e) : 0;
    if (!rc && text && json_parse(text, len, path, out, e))
        rc = error_prefix(e, "the file is damaged; enrol this agent again");
    if (text)
        explicit_bzero(text, len);
    free(text);
    free(path);
    return rc;
}

static int write_json(const char *work_dir, const char *file, const json_t *value, struct error *e)
{
    char *path = path_join(work_dir, file), *text = json_text(value);
    int rc = file_write_durable(path, text, strlen(text), 0600, e);
    explicit_bzero(text, strlen(text));
    free(text);
    free(path);
    return rc;
}

static void remove_file(const char *work_dir, const char *file)
{
    char *path = path_join(work_dir, file);
    unlink(path);
    free(path);
}

// Puts the authority into ca.pem, from which libcurl and tasks read it, unless it is there.
static int write_authority(const char *work_dir, const char *pem, char **path, struct error *e)
{
    char *text = NULL;
    size_t len;
    *path = NULL;
    if (!*pem)
        return 0;
    *path = path_join(work_dir, "ca.pem");
    bool same =
        path_exists(*path) && !file_read(*path, FILE_MAX, &text, &len, NULL) && !strcmp(text, pem);
    free(text);
    return same ? 0 : file_write_durable(*path, pem, strlen(pem), 0644, e);
}

static int read_credential(const char *work_dir, const json_t *stored, struct credential *out,
                           struct error *e)
{
    const char *pem = jget_string(stored, "authority", "");
    *out = (struct credential){.master = xstrdup(jget_string(stored, "master", "")),
                               .agent = xstrdup(jget_string(stored, "agent", "")),
                               .pool = xstrdup(jget_string(stored, "pool", "")),
                               .token = xstrdup(jget_string(stored, "token", "")),
                               .enrolment_hash = xstrdup(jget_string(stored, "enrolment", ""))};
    if (!*out->master || !*out->agent || !*out->token)
        return error_set(e, ERR_CORRUPT, "%s/%s lacks a value; enrol this agent again", work_dir,
                         CREDENTIAL_FILE);
    return write_authority(work_dir, pem, &out->ca_file, e);
}

int credential_load(const char *work_dir, struct credential *out, struct error *e)
{
    json_t *stored = NULL;
    *out = (struct credential){0};
    int rc = read_json(work_dir, CREDENTIAL_FILE, &stored, e);
    if (!rc && stored)
        rc = read_credential(work_dir, stored, out, e);
    json_decref(stored);
    return rc;
}

// --- the exchange --------------------------------------------------------------------------------

static void hash_token(const char *token, char out[SHA256_HEX])
{
    sha256_hex(token, strlen(token), out);
}

// The credential that the exchange of this string began with, or a new one, stored in either case.
static int begin_exchange(const struct enrolling *o, const char *enrolment_hash, json_t **out,
                          struct error *e)
{
    char secret[2 * SECRET_BYTES + 1];
    unsigned char bytes[SECRET_BYTES];
    json_t *pending = NULL;
    int rc = read_json(o->work_dir, pending_file, &pending, NULL); // a damaged one was never sent
    bool same = !rc && pending && !strcmp(jget_string(pending, "enrolment", ""), enrolment_hash) &&
                !strcmp(jget_string(pending, "agent", ""), o->agent);
    rc = 0;
    if (!same) {
        json_decref(pending);
        rng_secret(bytes, sizeof bytes);
        hex_encode(bytes, sizeof bytes, secret);
        pending = json_pack("{s:s, s:s, s:s}", "enrolment", enrolment_hash, "agent", o->agent,
                            "token", secret);
        must(pending);
        rc = write_json(o->work_dir, pending_file, pending, e);
        explicit_bzero(bytes, sizeof bytes);
        explicit_bzero(secret, sizeof secret);
    }
    *out = pending;
    return rc;
}

// Asks the master to accept the credential; ca_file NULL: the system's authorities.
static int ask_master(const struct enrolment *s, const char *url, const char *ca_file,
                      const json_t *credential, json_t **answer, struct error *e)
{
    char hash[SHA256_HEX];
    struct client *client = NULL;
    hash_token(jget_string(credential, "token", ""), hash);
    const struct client_options options = {
        .url = url, .ca_file = ca_file, .only_ca_file = ca_file, .timeout_s = 10};
    json_t *body = json_pack("{s:s, s:s, s:s}", "token", s->token, "agentId",
                             jget_string(credential, "agent", ""), "credentialHash", hash);
    int rc = client_open(&options, &client, e);
    if (!rc)
        rc = client_call_retry(client, "POST", "/api/v1/agent-credentials", body,
                               clock_mono_us() + PATIENCE_US, answer, e);
    client_close(client);
    json_decref(body);
    return rc;
}

static int store_credential(const struct enrolling *o, json_t *credential, const char *url,
                            const char *pem, struct credential *out, struct error *e)
{
    json_object_set_new(credential, "master", json_string(url));
    json_object_set_new(credential, "authority", json_string(pem));
    int rc = write_json(o->work_dir, CREDENTIAL_FILE, credential, e);
    if (!rc) {
        remove_file(o->work_dir, pending_file);
        rc = read_credential(o->work_dir, credential, out, e);
    }
    return rc;
}

// The pool that the master names, else the one of the former credential.
static void keep_pool(json_t *credential, const json_t *answer, const char *former)
{
    const char *pool = jget_string(answer, "pool", "");
    json_object_set_new(credential, "pool", json_string(*pool || !former ? pool : former));
}

static int exchange(const struct enrolling *o, const struct enrolment *s, const char *former_pool,
                    struct credential *out, struct error *e)
{
    char hash[SHA256_HEX], *url = enrolment_url(s), *pem = NULL, *ca_file = NULL;
    json_t *credential = NULL, *answer = NULL;
    hash_token(s->token, hash);
    int rc =
        s->authority == ENROLMENT_PINNED ? trust_fetch_authority(url, s->fingerprint, &pem, e) : 0;
    if (!rc)
        rc = begin_exchange(o, hash, &credential, e);
    if (!rc)
        rc = write_authority(o->work_dir, pem ? pem : "", &ca_file, e);
    if (!rc)
        rc = ask_master(s, url, ca_file, credential, &answer, e);
    if (!rc) {
        keep_pool(credential, answer, former_pool);
        rc = store_credential(o, credential, url, pem ? pem : "", out, e);
    }
    json_decref(answer);
    json_decref(credential);
    free(ca_file);
    free(pem);
    free(url);
    return rc;
}

int credential_enrol(const struct enrolling *o, struct credential *out, struct error *e)
{
    struct enrolment s;
    char hash[SHA256_HEX];
    int rc = enrolment_parse(o->text, &s, e);
    if (rc)
        return rc;
    hash_token(s.token, hash);
    if (!credential_load(o->work_dir, out, NULL) && out->token &&
        !strcmp(out->enrolment_hash, hash)) {
        explicit_bzero(&s, sizeof s);
        return 0; // the same string once more, as in a unit of systemd
    }
    struct credential former = *out;
    *out = (struct credential){0};
    rc = exchange(o, &s, former.pool, out, e);
    credential_free(&former);
    explicit_bzero(&s, sizeof s);
    if (!rc)
        log_info("this machine is enrolled", "agent=%s master=%s", out->agent, out->master);
    return rc;
}
