#include "master/http/query.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/text/json.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int query_decode(char *text, bool form)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from == '%') {
            int high = hex_digit(from[1]);
            int low = high < 0 ? -1 : hex_digit(from[2]);
            if (low < 0 || !(high | low))
                return ERR_INVALID;
            *to++ = (char)(high << 4 | low);
            from += 2;
        } else {
            *to++ = form && *from == '+' ? ' ' : *from;
        }
    }
    *to = '\0';
    return json_is_utf8(text) ? 0 : ERR_INVALID;
}

static size_t count_pairs(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == '&';
    return n;
}

int query_parse(struct arena *arena, char *text, struct query *out, struct error *e)
{
    *out = (struct query){0};
    if (!text || !*text)
        return 0;
    size_t max = count_pairs(text);
    if (max > QUERY_PAIRS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d query parameters", QUERY_PAIRS_MAX);
    out->pairs = arena_alloc(arena, max * sizeof *out->pairs);
    char *rest = NULL;
    for (char *part = strtok_r(text, "&", &rest); part; part = strtok_r(NULL, "&", &rest)) {
        char *value = strchr(part, '=');
        if (value)
            *value++ = '\0';
        if (query_decode(part, true) || (value && query_decode(value, true)))
            return error_set(e, ERR_INVALID,
                             "query parameter \"%.64s\": a broken %%-escape, or no UTF-8 text",
                             part);
        out->pairs[out->count++] = (struct query_pair){part, value ? value : ""};
    }
    return 0;
}

// Compares names without letter case and underscores: rankIds equals rank_ids.
static bool same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "_");
        b += strspn(b, "_");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

const char *query_get(const struct query *q, const char *name)
{
    for (size_t i = 0; i < q->count; i++)
        if (same_name(q->pairs[i].name, name))
            return q->pairs[i].value;
    return NULL;
}

size_t query_all(const struct query *q, const char *name, const char **out, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < q->count; i++)
        if (same_name(q->pairs[i].name, name) && n++ < max)
            out[n - 1] = q->pairs[i].value;
    return n;
}

bool query_flag(const struct query *q, const char *name)
{
    const char *value = query_get(q, name);
    return value && (!strcasecmp(value, "true") || !strcmp(value, "1"));
}
