#include "cli/import/copy_text.h"

#include <stdio.h>
#include <string.h>

static const char copy_word[] = "COPY ", last_word[] = " stdin;";

// --- the first line of a block -------------------------------------------------------------------

bool copy_is_header(const char *line)
{
    return !strncmp(line, copy_word, sizeof copy_word - 1) && strstr(line, last_word);
}

// Reads an identifier, quoted or not; returns the text behind it, or NULL.
static const char *read_name(const char *at, char out[COPY_NAME_MAX])
{
    bool quoted = *at == '"';
    size_t n = 0;
    at += quoted;
    for (; *at; at++) {
        if (quoted && *at == '"' && at[1] == '"')
            at++; // a doubled quote stands for one
        else if (quoted ? *at == '"' : strchr(" .,()", *at) != NULL)
            break;
        if (n + 1 >= COPY_NAME_MAX)
            return NULL;
        out[n++] = *at;
    }
    out[n] = '\0';
    if (quoted && *at++ != '"')
        return NULL;
    return n ? at : NULL;
}

static const char *read_columns(const char *at, struct copy_header *out)
{
    while (at && *at != ')') {
        if (out->column_count == COPY_COLUMNS_MAX)
            return NULL;
        at = read_name(at, out->columns[out->column_count++]);
        if (at && *at == ',')
            at += 1 + strspn(at + 1, " ");
        else if (at && *at != ')')
            return NULL;
    }
    return at;
}

int copy_read_header(const char *line, struct copy_header *out, struct error *e)
{
    *out = (struct copy_header){.column_count = 0};
    const char *at = read_name(line + sizeof copy_word - 1, out->table);
    if (at && *at == '.') // the schema stood before the table
        at = read_name(at + 1, out->table);
    if (at && !strncmp(at, " (", 2))
        at = read_columns(at + 2, out);
    if (!at || strcmp(at, ") FROM stdin;") || !out->column_count)
        return error_set(e, ERR_INVALID, "this COPY command cannot be read: %.80s", line);
    return 0;
}

int copy_find_column(const struct copy_header *h, const char *name)
{
    for (int i = 0; i < h->column_count; i++)
        if (!strcmp(h->columns[i], name))
            return i;
    return -1;
}

// --- rows ----------------------------------------------------------------------------------------

static int digit_of(char c, int base)
{
    int value = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : base;
    return value < base ? value : -1;
}

// Reads up to `max` digits of a character code; returns the text behind them.
static char *read_code(char *at, const char *end, int base, int max, char *out)
{
    int code = 0, digit;
    for (int n = 0; n < max && at < end && (digit = digit_of(*at, base)) >= 0; n++, at++)
        code = code * base + digit;
    *out = (char)code;
    return at;
}

// Decodes the escape behind a backslash into *out; returns the text behind it.
static char *read_escape(char *at, const char *end, char *out)
{
    static const char letters[] = "bfnrtv", codes[] = "\b\f\n\r\t\v";
    const char *letter = strchr(letters, *at);
    if (*at && letter) {
        *out = codes[letter - letters];
        return at + 1;
    }
    if (digit_of(*at, 8) >= 0)
        return read_code(at, end, 8, 3, out);
    if (*at == 'x' && at + 1 < end && digit_of(at[1], 16) >= 0)
        return read_code(at + 1, end, 16, 2, out);
    *out = *at; // any other character stands for itself
    return at + 1;
}

// Decodes the field that begins at `at`; returns the tab or end behind it. NULL: a lone backslash.
static char *decode_field(char *at, const char *end, struct copy_field *out)
{
    char *to = at;
    *out = (struct copy_field){.text = at};
    if (at + 1 < end && at[0] == '\\' && at[1] == 'N' && (at + 2 == end || at[2] == '\t')) {
        out->text = NULL;
        return at + 2;
    }
    while (at < end && *at != '\t') {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        if (at + 1 == end)
            return NULL;
        at = read_escape(at + 1, end, to++);
    }
    out->len = (size_t)(to - out->text);
    return at;
}

int copy_split(char *line, size_t len, struct copy_field *out, int count, struct error *e)
{
    char *at = line, *end = line + len;
    int n = 0;
    for (;; at++) {
        if (n == count)
            return error_set(e, ERR_INVALID, "a row of more than %d fields", count);
        at = decode_field(at, end, &out[n]);
        if (!at)
            return error_set(e, ERR_INVALID, "field %d ends with a backslash", n + 1);
        bool last = at == end;
        if (out[n].text)
            out[n].text[out[n].len] = '\0'; // on the tab at the latest
        n++;
        if (last)
            break;
    }
    if (n < count)
        return error_set(e, ERR_INVALID, "a row of %d fields instead of %d", n, count);
    return 0;
}

const char *copy_raw_field(const char *line, size_t len, int column, size_t *field_len)
{
    const char *at = line, *end = line + len;
    for (int i = 0; i < column && at; i++) {
        at = memchr(at, '\t', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    const char *tab = at ? memchr(at, '\t', (size_t)(end - at)) : NULL;
    *field_len = at ? (size_t)((tab ? tab : end) - at) : 0;
    return at;
}
