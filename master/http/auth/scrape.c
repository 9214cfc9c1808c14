#include "master/http/auth/scrape.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/host.h"

enum { FILE_MAX = 1024, TOKEN_BYTES = 32 };

int scrape_from_parse(const char *word, enum scrape_from *out, struct error *e)
{
    static const char *const words[] = {"loopback", "token", "all"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(word, words[i])) {
            *out = (enum scrape_from)i;
            return 0;
        }
    return error_set(e, ERR_INVALID, "\"%.32s\" is none of loopback, token, all", word);
}

static int make_token(const char *path, struct error *e)
{
    uint8_t secret[TOKEN_BYTES];
    char line[2 * TOKEN_BYTES + 2];
    rng_secret(secret, sizeof secret);
    hex_encode(secret, sizeof secret, line);
    line[2 * TOKEN_BYTES] = '\n';
    int rc = file_write_durable(path, line, sizeof line - 1, 0600, e);
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(line, sizeof line);
    return rc;
}

int scrape_read_token(const char *path, struct scrape_access *out, struct error *e)
{
    char *text = NULL;
    size_t len;
    int rc = path_exists(path) ? 0 : make_token(path, e);
    if (!rc)
        rc = file_read(path, FILE_MAX, &text, &len, e);
    if (rc)
        return rc;
    text[strcspn(text, " \r\n")] = '\0';
    if (*text)
        sha256_hex(text, strlen(text), out->token);
    else
        rc = error_set(e, ERR_INVALID, "%s contains no token; remove the file to get a new one",
                       path);
    explicit_bzero(text, len);
    free(text);
    return rc;
}

static bool is_token(const struct scrape_access *a, const char *authorization)
{
    char hash[SHA256_HEX];
    if (!*a->token || !authorization || strncasecmp(authorization, "Bearer ", 7))
        return false;
    authorization += 7 + strspn(authorization + 7, " ");
    sha256_hex(authorization, strlen(authorization), hash);
    return bytes_equal_constant_time(hash, a->token, SHA256_HEX);
}

bool scrape_may(const struct scrape_access *a, const struct scrape_caller *who)
{
    if (a->from == SCRAPE_ALL || is_token(a, who->authorization))
        return true;
    return a->from == SCRAPE_LOOPBACK && host_is_loopback(who->address) && !who->is_forwarded &&
           !who->authorization && !who->has_other_token;
}
