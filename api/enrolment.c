#include "api/enrolment.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text/host.h"

static const char form[] = "muster1:";
static const char advice[] = "copy all of the line that `muster agent enroll` printed";

// A part of the text that is being read.
struct enrolment_part {
    const char *text;
    size_t len;
};

static bool part_is(struct enrolment_part p, const char *word)
{
    return strlen(word) == p.len && !strncmp(p.text, word, p.len);
}

// Reads up to the next colon, which is left out, or to the end.
static struct enrolment_part take_part(const char **at)
{
    struct enrolment_part p = {*at, strcspn(*at, ":")};
    *at += p.len + ((*at)[p.len] == ':');
    return p;
}

static bool take_hex(struct enrolment_part p, char *out, size_t cap)
{
    if (p.len != cap - 1)
        return false;
    for (size_t i = 0; i < p.len; i++) {
        if (!isxdigit((unsigned char)p.text[i]))
            return false;
        out[i] = (char)tolower((unsigned char)p.text[i]);
    }
    out[p.len] = '\0';
    return true;
}

static bool take_host(const char **at, char out[ENROLMENT_HOST])
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    static const char ipv6[] = "0123456789abcdefABCDEF:.";
    bool bracketed = **at == '[';
    const char *text = *at + bracketed;
    size_t len = strspn(text, bracketed ? ipv6 : name);
    const char *end = text + len + bracketed;
    if (!len || len >= ENROLMENT_HOST || (bracketed && text[len] != ']') || *end != ':')
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    *at = end + 1;
    return true;
}

static bool take_port(struct enrolment_part p, int *out)
{
    *out = 0;
    if (!p.len || p.len > 5 || *p.text == '0')
        return false;
    for (size_t i = 0; i < p.len; i++) {
        if (!isdigit((unsigned char)p.text[i]))
            return false;
        *out = *out * 10 + (p.text[i] - '0');
    }
    return *out <= 65535;
}

static bool take_authority(struct enrolment_part p, struct enrolment *out)
{
    out->authority = part_is(p, "public")  ? ENROLMENT_PUBLIC
                     : part_is(p, "plain") ? ENROLMENT_PLAIN
                                           : ENROLMENT_PINNED;
    return out->authority != ENROLMENT_PINNED ||
           take_hex(p, out->fingerprint, sizeof out->fingerprint);
}

int enrolment_parse(const char *text, struct enrolment *out, struct error *e)
{
    const char *wrong = NULL;
    *out = (struct enrolment){0};
    text += strspn(text, " \t\r\n");
    size_t len = strcspn(text, " \t\r\n");
    if (text[len + strspn(text + len, " \t\r\n")] || len > ENROLMENT_TEXT_MAX)
        return error_set(e, ERR_INVALID, "the enrolment string is more than one word; %s", advice);
    if (strncmp(text, form, sizeof form - 1))
        return error_set(e, ERR_INVALID, "an enrolment string begins with %s; %s", form, advice);
    char *copy = xasprintf("%.*s", (int)len, text);
    const char *at = copy + sizeof form - 1;
    if (!take_host(&at, out->host))
        wrong = "host";
    else if (!take_port(take_part(&at), &out->port))
        wrong = "port";
    else if (!take_authority(take_part(&at), out))
        wrong = "fingerprint";
    else if (!take_hex((struct enrolment_part){at, strlen(at)}, out->token, sizeof out->token))
        wrong = "token";
    explicit_bzero(copy, len);
    free(copy);
    return wrong ? error_set(e, ERR_INVALID, "the %s in the enrolment string is damaged; %s", wrong,
                             advice)
                 : 0;
}

static char *format_host(const struct enrolment *s)
{
    bool ipv6 = strchr(s->host, ':');
    return xasprintf("%s%s%s:%d", ipv6 ? "[" : "", s->host, ipv6 ? "]" : "", s->port);
}

char *enrolment_format(const struct enrolment *s)
{
    const char *authority = s->authority == ENROLMENT_PUBLIC  ? "public"
                            : s->authority == ENROLMENT_PLAIN ? "plain"
                                                              : s->fingerprint;
    char *host = format_host(s);
    char *text = xasprintf("%s%s:%s:%s", form, host, authority, s->token);
    free(host);
    return text;
}

char *enrolment_url(const struct enrolment *s)
{
    char *host = format_host(s);
    char *url = xasprintf("%s://%s", s->authority == ENROLMENT_PLAIN ? "http" : "https", host);
    free(host);
    return url;
}

int enrolment_set_url(struct enrolment *s, const char *url, const char *fingerprint,
                      struct error *e)
{
    bool tls = !strncasecmp(url, "https://", 8), plain = !strncasecmp(url, "http://", 7);
    const char *host = url + (tls ? 8 : plain ? 7 : 0);
    size_t len = strlen(host);
    while (len && host[len - 1] == '/')
        len--;
    bool with_port = len && memrchr(host, ':', len) && host[len - 1] != ']';
    char *text = xasprintf("%.*s%s", (int)len, host, with_port ? "" : tls ? ":443" : ":80");
    const char *at = text;
    bool good = (tls || plain) && take_host(&at, s->host) &&
                take_port((struct enrolment_part){at, strlen(at)}, &s->port);
    free(text);
    if (!good)
        return error_set(e, ERR_INVALID,
                         "\"%.200s\" is not the address of a master; write it as "
                         "https://HOST:PORT",
                         url);
    s->authority = plain ? ENROLMENT_PLAIN : *fingerprint ? ENROLMENT_PINNED : ENROLMENT_PUBLIC;
    snprintf(s->fingerprint, sizeof s->fingerprint, "%s", plain ? "" : fingerprint);
    return 0;
}

bool enrolment_is_loopback(const struct enrolment *s)
{
    return host_is_loopback(s->host);
}

int fingerprint_parse(const char *text, char out[SHA256_HEX], struct error *e)
{
    size_t len = 0;
    const char *at = strncasecmp(text, "sha256:", 7) ? text : text + 7;
    for (; *at && len < SHA256_HEX; at++) {
        if (isxdigit((unsigned char)*at))
            out[len++] = (char)tolower((unsigned char)*at);
        else if (*at != ':' || !len)
            break;
    }
    if (len != SHA256_HEX - 1 || *at)
        return error_set(e, ERR_INVALID,
                         "\"%.80s\" is no fingerprint: expected the 64 hex digits that "
                         "`muster-master --init` prints",
                         text);
    out[len] = '\0';
    return 0;
}
