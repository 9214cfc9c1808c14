#include "cli/common/trust.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/enrolment.h"
#include "api/http/trust.h"
#include "base/os/file.h"
#include "cli/output/output.h"

enum { PEM_MAX = 1 << 20 };

// --- files ---------------------------------------------------------------------------------------

// "https://head:8080" -> CONFIG/authorities/head_8080.pem
static const char *file_name(struct cli *c)
{
    char *dir = session_folder(), *name = arena_strdup(&c->arena, c->master + strlen("https://"));
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr(".-", *at))
            *at = '_';
    const char *path = arena_printf(&c->arena, "%s/authorities/%s.pem", dir, name);
    free(dir);
    return path;
}

const char *trust_file(struct cli *c)
{
    const char *path = strncmp(c->master, "https://", 8) ? NULL : file_name(c);
    return path && path_exists(path) ? path : NULL;
}

// The fingerprint of the authority that is stored for the master; false: there is none.
static bool stored_fingerprint(struct cli *c, char out[SHA256_HEX])
{
    const char *path = trust_file(c);
    char *pem = NULL;
    size_t len;
    bool found =
        path && !file_read(path, PEM_MAX, &pem, &len, NULL) && !trust_fingerprint(pem, out, NULL);
    free(pem);
    return found;
}

static int store_authority(struct cli *c, const char *pem, struct error *e)
{
    char *dir = session_folder(), *folder = path_join(dir, "authorities");
    int err = dir_make(folder, 0700, e);
    if (!err)
        err = file_write_durable(file_name(c), pem, strlen(pem), 0600, e);
    free(folder);
    free(dir);
    return err;
}

// --- asking --------------------------------------------------------------------------------------

static bool answer_is_yes(void)
{
    char answer[16];
    return fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y');
}

static int report_unknown(struct cli *c, int err, const char *fingerprint, struct error *e)
{
    return error_set(e, err,
                     "%s is not trusted yet: its authority has the fingerprint %s. Compare it "
                     "with the one that `muster-master --init` prints on the master's machine, "
                     "then: muster trust %s --fingerprint FINGERPRINT",
                     c->master, fingerprint, c->master);
}

// Asks the person at the terminal whether the authority is the right one.
static int ask(struct cli *c, const struct trust_chain *chain, struct error *e)
{
    char before[SHA256_HEX];
    const char *fingerprint = chain->items[chain->count - 1].fingerprint;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return report_unknown(c, ERR_PEER, fingerprint, e);
    if (stored_fingerprint(c, before) && strcmp(before, fingerprint) != 0)
        fprintf(stderr,
                "The authority of %s has CHANGED.\n  before: %s\n"
                "Either the master got a new one, or somebody else answers there.\n",
                c->master, before);
    fprintf(stderr,
            "The authority of %s has the fingerprint\n  %s\n"
            "`muster-master --init` prints it on the master's machine. Is it the same? [y/N] ",
            c->master, fingerprint);
    return answer_is_yes() ? 0 : error_set(e, ERR_PEER, "%s is not trusted", c->master);
}

int trust_pin(struct cli *c, const char *fingerprint, struct error *e)
{
    char wanted[SHA256_HEX], *pem = NULL;
    struct trust_chain chain = {0};
    int err = fingerprint ? fingerprint_parse(fingerprint, wanted, e) : 0;
    if (!err && fingerprint)
        err = trust_fetch_authority(c->master, wanted, &pem, e);
    else if (!err)
        err = trust_fetch(c->master, &chain, e);
    if (!err && !fingerprint)
        err = ask(c, &chain, e);
    if (!err)
        err = store_authority(c, pem ? pem : chain.items[chain.count - 1].pem, e);
    trust_free(&chain);
    free(pem);
    return err;
}

int trust_explain(struct cli *c, int err, struct error *e)
{
    char stored[SHA256_HEX];
    struct trust_chain chain;
    if (!err || !client_is_untrusted(c->client) || trust_fetch(c->master, &chain, NULL))
        return err;
    const char *shown = chain.items[chain.count - 1].fingerprint;
    bool known = stored_fingerprint(c, stored);
    if (!known && !c->options.ca_file)
        report_unknown(c, err, shown, e);
    else if (known && c->pinned && strcmp(stored, shown) != 0)
        error_set(e, err,
                  "the authority of %s has changed: it was %s and is now %s. Either the master got "
                  "a new one (ask its administrator for the fingerprint, then: muster trust %s "
                  "--fingerprint FINGERPRINT), or somebody else answers there. Nothing was sent",
                  c->master, stored, shown, c->master);
    trust_free(&chain);
    return err;
}

// --- the command ---------------------------------------------------------------------------------

int run_trust(struct cli *c, const struct command *self, struct error *e)
{
    char fingerprint[SHA256_HEX] = "";
    (void)self;
    c->options.ca_file = NULL; // the stored authority is what this command is about
    if (c->arg_count)
        c->options.master = c->args[0];
    int err = session_open(c, false, e);
    if (!err && strncmp(c->master, "https://", 8) != 0)
        err =
            error_set(e, ERR_INVALID, "%s: only a master with https has a certificate", c->master);
    if (!err)
        err = trust_pin(c, c->options.fingerprint, e);
    if (err)
        return err;
    stored_fingerprint(c, fingerprint);
    return cli_report(c,
                      json_pack("{s:s, s:s, s:s}", "master", c->master, "fingerprint", fingerprint,
                                "file", file_name(c)),
                      e, "%s is trusted by its authority %s", c->master, fingerprint);
}
