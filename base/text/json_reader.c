#include "base/text/json_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/decimal.h"

enum { REPLACEMENT = 0xfffd };

void jr_init(struct json_reader *s, char *text, size_t len, const char *what, struct error *e)
{
    *s = (struct json_reader){
        .start = text, .at = text, .end = text + len, .what = what, .e = e, .room = SIZE_MAX};
}

int jr_fail(struct json_reader *s, int err, const char *text)
{
    if (!s->err) {
        s->err =
            error_set(s->e, err, "%s, byte %zu: %s", s->what, (size_t)(s->at - s->start) + 1, text);
        s->at = s->end;
    }
    return s->err;
}

static bool wrong(struct json_reader *s, const char *text)
{
    jr_fail(s, ERR_INVALID, text);
    return false;
}

static void skip_blanks(struct json_reader *s)
{
    while (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r')
        s->at++;
}

char jr_peek(struct json_reader *s)
{
    skip_blanks(s);
    return *s->at;
}

static bool take(struct json_reader *s, char c)
{
    if (jr_peek(s) != c || s->at == s->end)
        return false;
    s->at++;
    return true;
}

bool jr_enter(struct json_reader *s, char bracket)
{
    if (s->err)
        return false;
    if (!take(s, bracket))
        return wrong(s, bracket == '{' ? "expected an object" : "expected a list");
    if (++s->depth > LIMIT_JSON_DEPTH)
        return wrong(s, "too deep");
    s->fresh = true;
    return true;
}

// Whether something follows before `bracket`, which is read with the comma before it.
static bool next(struct json_reader *s, char bracket)
{
    if (s->err)
        return false;
    if (take(s, bracket)) {
        s->depth--;
        s->fresh = false;
        return false;
    }
    if (!s->fresh && !take(s, ','))
        return wrong(s, "expected a comma");
    s->fresh = false;
    return true;
}

bool jr_element(struct json_reader *s)
{
    return next(s, ']');
}

bool jr_member(struct json_reader *s, char **key)
{
    if (!next(s, '}'))
        return false;
    *key = jr_string(s, NULL);
    if (*key && !take(s, ':'))
        return wrong(s, "expected a colon");
    return *key;
}

// --- strings -------------------------------------------------------------------------------------

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

// The four digits after \u; negative: they are none.
static int read_unit(const char *at)
{
    int unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static char *put_utf8(char *to, int code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

// What \uXXXX at s->at says, with the second half of a pair where there is one.
static int read_code(struct json_reader *s)
{
    int unit = read_unit(s->at + 2);
    if (unit < 0)
        return -1;
    s->at += 6;
    if (unit < 0xd800 || unit > 0xdfff)
        return unit ? unit : REPLACEMENT;
    int second = s->at[0] == '\\' && s->at[1] == 'u' ? read_unit(s->at + 2) : -1;
    if (unit > 0xdbff || second < 0xdc00 || second > 0xdfff)
        return REPLACEMENT;
    s->at += 6;
    return 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
}

// One escape at s->at to `to`, which never overtakes it; NULL: it is none.
static char *unescape(struct json_reader *s, char *to)
{
    static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
    if (s->at[1] == 'u') {
        int code = read_code(s);
        return code < 0 ? NULL : put_utf8(to, code);
    }
    const char *found = s->at[1] ? strchr(from, s->at[1]) : NULL;
    if (!found)
        return NULL;
    *to++ = is[found - from];
    s->at += 2;
    return to;
}

static bool is_plain(unsigned char c)
{
    return c != '"' && c != '\\' && c >= ' ';
}

char *jr_string(struct json_reader *s, size_t *len)
{
    if (s->err)
        return NULL;
    if (!take(s, '"')) {
        wrong(s, "expected a string");
        return NULL;
    }
    char *text = s->at, *to = text;
    for (;;) {
        char *from = s->at;
        while (is_plain((unsigned char)*s->at))
            s->at++;
        size_t run = (size_t)(s->at - from);
        if (to != from)
            memmove(to, from, run);
        to += run;
        if (*s->at == '"')
            break;
        to = *s->at == '\\' ? unescape(s, to) : NULL;
        if (!to) {
            wrong(s, "not a valid string");
            return NULL;
        }
    }
    s->at++;
    *to = '\0';
    if (len)
        *len = (size_t)(to - text);
    return text;
}

// --- other values --------------------------------------------------------------------------------

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool read_digits(struct json_reader *s)
{
    const char *from = s->at;
    while (is_digit(*s->at))
        s->at++;
    return s->at > from;
}

static bool skip_number(struct json_reader *s)
{
    skip_blanks(s);
    s->at += *s->at == '-';
    bool zero = *s->at == '0';
    const char *from = s->at;
    bool good = read_digits(s) && !(zero && s->at - from > 1);
    if (good && *s->at == '.') {
        s->at++;
        good = read_digits(s);
    }
    if (good && (*s->at | 32) == 'e') {
        s->at++;
        s->at += *s->at == '-' || *s->at == '+';
        good = read_digits(s);
    }
    return good || wrong(s, "expected a value");
}

static bool skip_word(struct json_reader *s, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(s->at, word, len))
        return wrong(s, "expected a value");
    s->at += len;
    return true;
}

bool jr_null(struct json_reader *s)
{
    return !s->err && jr_peek(s) == 'n' && skip_word(s, "null");
}

bool jr_int(struct json_reader *s, int64_t *out)
{
    char *text = NULL, *end = NULL;
    if (s->err)
        return false;
    if (jr_peek(s) == '"') {
        text = jr_string(s, NULL);
    } else {
        text = s->at;
        if (!skip_number(s))
            return false;
    }
    errno = 0;
    long long value = text && (is_digit(*text) || *text == '-') ? strtoll(text, &end, 10) : 0;
    if (!end || errno || is_digit(*end) || *end == '.' || (*end | 32) == 'e')
        return wrong(s, "expected an integer");
    *out = value;
    return true;
}

bool jr_number(struct json_reader *s, double *out, bool *whole)
{
    if (s->err)
        return false;
    jr_peek(s);
    const char *text = s->at;
    if (!skip_number(s))
        return false;
    *out = decimal_to_double(text);
    *whole = !memchr(text, '.', (size_t)(s->at - text)) &&
             !memchr(text, 'e', (size_t)(s->at - text)) &&
             !memchr(text, 'E', (size_t)(s->at - text));
    return true;
}

void jr_skip(struct json_reader *s)
{
    char *key;
    switch (s->err ? 0 : jr_peek(s)) {
    case '{':
        if (jr_enter(s, '{'))
            while (jr_member(s, &key))
                jr_skip(s);
        break;
    case '[':
        if (jr_enter(s, '['))
            while (jr_element(s))
                jr_skip(s);
        break;
    case '"':
        jr_string(s, NULL);
        break;
    case 't':
        skip_word(s, "true");
        break;
    case 'f':
        skip_word(s, "false");
        break;
    case 'n':
        skip_word(s, "null");
        break;
    default:
        if (!s->err)
            skip_number(s);
    }
}

int jr_end(struct json_reader *s)
{
    if (!s->err && (jr_peek(s) || s->at != s->end))
        wrong(s, "expected nothing more");
    return s->err;
}
