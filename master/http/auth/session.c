#include "master/http/auth/session.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"

#define COOKIE "muster_session"

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return len == TOKEN_TEXT - 1;
}

// Reads one "name=value" of the header; the value may be quoted.
static bool is_ours(const char *pair, size_t len, const char **value, size_t *value_len)
{
    size_t name = strlen(COOKIE);
    if (len <= name || strncmp(pair, COOKIE, name) || pair[name] != '=')
        return false;
    *value = pair + name + 1;
    *value_len = len - name - 1;
    if (*value_len >= 2 && **value == '"' && (*value)[*value_len - 1] == '"') {
        *value += 1;
        *value_len -= 2;
    }
    return true;
}

// Another service on this host may set a cookie with the same name. The two cannot be
// distinguished, so neither counts.
bool session_token(const char *cookies, char out[TOKEN_TEXT])
{
    bool found = false;
    *out = '\0';
    for (const char *p = cookies; p && *p;) {
        p += strspn(p, " \t;");
        size_t len = strcspn(p, ";"), next = len, value_len;
        const char *value;
        while (len && strchr(" \t", p[len - 1]))
            len--;
        if (is_ours(p, len, &value, &value_len)) {
            if (!is_token(value, value_len) || (found && strncmp(out, value, value_len)))
                return false;
            memcpy(out, value, value_len);
            out[value_len] = '\0';
            found = true;
        }
        p += next;
    }
    return found;
}

bool session_needs_origin(const char *method)
{
    return strcmp(method, "GET") && strcmp(method, "HEAD");
}

int session_check_origin(struct request *rq, bool tls, struct error *e)
{
    const char *from = rq->header(rq, "Origin"), *to = rq->header(rq, "Host");
    if (!from) { // some browsers do not send it with each call
        const char *site = rq->header(rq, "Sec-Fetch-Site");
        if (site && !strcmp(site, "same-origin"))
            return 0;
        return error_set(e, ERR_FORBIDDEN,
                         "a call with the cookie of the web page says in Origin which page it "
                         "comes from; programs use a token (Authorization: Bearer ...)");
    }
    // A proxy before this master may speak https for it, but not the reverse.
    const char *host = !strncasecmp(from, "https://", 8)          ? from + 8
                       : !tls && !strncasecmp(from, "http://", 7) ? from + 7
                                                                  : NULL;
    if (host && to && !strcasecmp(host, to))
        return 0;
    return error_set(e, ERR_FORBIDDEN,
                     "this call comes from a page of %.128s, not of this master (%.128s); sign in "
                     "there and do it there",
                     from, to ? to : "no host named");
}

const char *session_cookie(struct request *rq, const char *token, bool tls)
{
    const char *from = rq->header(rq, "Origin");
    bool secure = tls || (from && !strncasecmp(from, "https://", 8)); // a proxy may speak https
    return arena_printf(&rq->arena, COOKIE "=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Strict%s",
                        token, *token ? LIMIT_TOKEN_DAYS * 86400LL : 0LL, secure ? "; Secure" : "");
}
