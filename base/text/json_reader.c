#include "base/text/json_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/decimal.h"

enum { REPLACEMENT = 0xfffd };

void jr_init(struct json_reader *r, char *text, size_t len, const char *source, struct error *e)
{
    *r = (struct json_reader){
        .start = text, .at = text, .end = text + len, .source = source, .e = e, .room = SIZE_MAX};
}

int jr_fail(struct json_reader *r, int err, const char *text)
{
    if (!r->err) {
        r->err = error_set(r->e, err, "%s, byte %zu: %s", r->source, (size_t)(r->at - r->start) + 1,
                           text);
        r->at = r->end;
    }
    return r->err;
}

static bool fail_invalid(struct json_reader *r, const char *text)
{
    jr_fail(r, ERR_INVALID, text);
    return false;
}

static void skip_blanks(struct json_reader *r)
{
    while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')
        r->at++;
}

char jr_peek(struct json_reader *r)
{
    skip_blanks(r);
    return *r->at;
}

static bool reader_consume(struct json_reader *r, char c)
{
    if (jr_peek(r) != c || r->at == r->end)
        return false;
    r->at++;
    return true;
}

bool jr_enter(struct json_reader *r, char bracket)
{
    if (r->err)
        return false;
    if (!reader_consume(r, bracket))
        return fail_invalid(r, bracket == '{' ? "expected an object" : "expected a list");
    if (++r->depth > LIMIT_JSON_DEPTH)
        return fail_invalid(r, "too many levels");
    r->fresh = true;
    return true;
}

// Moves to the next item of the innermost object or list. False: its end, `bracket`, was read.
static bool next_item(struct json_reader *r, char bracket)
{
    if (r->err)
        return false;
    if (reader_consume(r, bracket)) {
        r->depth--;
        r->fresh = false;
        return false;
    }
    if (!r->fresh && !reader_consume(r, ','))
        return fail_invalid(r, "expected a comma");
    r->fresh = false;
    return true;
}

bool jr_element(struct json_reader *r)
{
    return next_item(r, ']');
}

bool jr_member(struct json_reader *r, char **key)
{
    if (!next_item(r, '}'))
        return false;
    *key = jr_string(r, NULL);
    if (*key && !reader_consume(r, ':'))
        return fail_invalid(r, "expected a colon");
    return *key;
}

// --- strings -------------------------------------------------------------------------------------

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

// Reads the four digits after \u. Negative: they are not hexadecimal.
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

static char *write_utf8(char *to, int code)
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

// Reads the code of \uXXXX at r->at, together with the low surrogate if one follows.
static int read_code(struct json_reader *r)
{
    int unit = read_unit(r->at + 2);
    if (unit < 0)
        return -1;
    r->at += 6;
    if (unit < 0xd800 || unit > 0xdfff)
        return unit ? unit : REPLACEMENT;
    int second = r->at[0] == '\\' && r->at[1] == 'u' ? read_unit(r->at + 2) : -1;
    if (unit > 0xdbff || second < 0xdc00 || second > 0xdfff)
        return REPLACEMENT;
    r->at += 6;
    return 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
}

// Writes the character of the escape at r->at to `to`, which is never beyond r->at. NULL: not an
// escape.
static char *unescape(struct json_reader *r, char *to)
{
    static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
    if (r->at[1] == 'u') {
        int code = read_code(r);
        return code < 0 ? NULL : write_utf8(to, code);
    }
    const char *found = r->at[1] ? strchr(from, r->at[1]) : NULL;
    if (!found)
        return NULL;
    *to++ = is[found - from];
    r->at += 2;
    return to;
}

static bool is_plain(unsigned char c)
{
    return c != '"' && c != '\\' && c >= ' ';
}

char *jr_string(struct json_reader *r, size_t *len)
{
    if (r->err)
        return NULL;
    if (!reader_consume(r, '"')) {
        fail_invalid(r, "expected a string");
        return NULL;
    }
    char *text = r->at, *to = text;
    for (;;) {
        char *from = r->at;
        while (is_plain((unsigned char)*r->at))
            r->at++;
        size_t run = (size_t)(r->at - from);
        if (to != from)
            memmove(to, from, run);
        to += run;
        if (*r->at == '"')
            break;
        to = *r->at == '\\' ? unescape(r, to) : NULL;
        if (!to) {
            fail_invalid(r, "not a valid string");
            return NULL;
        }
    }
    r->at++;
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

static bool read_digits(struct json_reader *r)
{
    const char *from = r->at;
    while (is_digit(*r->at))
        r->at++;
    return r->at > from;
}

static bool skip_number(struct json_reader *r)
{
    skip_blanks(r);
    r->at += *r->at == '-';
    bool zero = *r->at == '0';
    const char *from = r->at;
    bool good = read_digits(r) && !(zero && r->at - from > 1);
    if (good && *r->at == '.') {
        r->at++;
        good = read_digits(r);
    }
    if (good && (*r->at | 32) == 'e') {
        r->at++;
        r->at += *r->at == '-' || *r->at == '+';
        good = read_digits(r);
    }
    return good || fail_invalid(r, "expected a value");
}

static bool skip_word(struct json_reader *r, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(r->at, word, len))
        return fail_invalid(r, "expected a value");
    r->at += len;
    return true;
}

bool jr_null(struct json_reader *r)
{
    return !r->err && jr_peek(r) == 'n' && skip_word(r, "null");
}

bool jr_int(struct json_reader *r, int64_t *out)
{
    char *text = NULL, *end = NULL;
    if (r->err)
        return false;
    if (jr_peek(r) == '"') {
        text = jr_string(r, NULL);
    } else {
        text = r->at;
        if (!skip_number(r))
            return false;
    }
    errno = 0;
    long long value = text && (is_digit(*text) || *text == '-') ? strtoll(text, &end, 10) : 0;
    if (!end || errno || is_digit(*end) || *end == '.' || (*end | 32) == 'e')
        return fail_invalid(r, "expected an integer");
    *out = value;
    return true;
}

bool jr_number(struct json_reader *r, double *out, bool *whole)
{
    if (r->err)
        return false;
    jr_peek(r);
    const char *text = r->at;
    if (!skip_number(r))
        return false;
    *out = decimal_to_double(text);
    *whole = !memchr(text, '.', (size_t)(r->at - text)) &&
             !memchr(text, 'e', (size_t)(r->at - text)) &&
             !memchr(text, 'E', (size_t)(r->at - text));
    return true;
}

void jr_skip(struct json_reader *r)
{
    char *key;
    switch (r->err ? 0 : jr_peek(r)) {
    case '{':
        if (jr_enter(r, '{'))
            while (jr_member(r, &key))
                jr_skip(r);
        break;
    case '[':
        if (jr_enter(r, '['))
            while (jr_element(r))
                jr_skip(r);
        break;
    case '"':
        jr_string(r, NULL);
        break;
    case 't':
        skip_word(r, "true");
        break;
    case 'f':
        skip_word(r, "false");
        break;
    case 'n':
        skip_word(r, "null");
        break;
    default:
        if (!r->err)
            skip_number(r);
    }
}

int jr_end(struct json_reader *r)
{
    if (!r->err && (jr_peek(r) || r->at != r->end))
        fail_invalid(r, "expected nothing more");
    return r->err;
}
