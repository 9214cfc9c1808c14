#include "base/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

// Well-formed UTF-8 byte sequences (The Unicode Standard, table 3-7).
static const struct {
    unsigned char first, last; // lead bytes
    unsigned char min, max;    // of the second byte; the later bytes are 80..bf
    unsigned char bytes;
} leads[] = {
    {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
    {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
    {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

// Characters that act on a terminal, on the direction of text, or on lines.
static const struct {
    uint32_t first, last;
} control[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200e, 0x200f},
    {0x2028, 0x202e}, {0x2066, 0x206f}, {0xfff9, 0xfffb},
};

static bool is_control(uint32_t code)
{
    for (size_t i = 0; i < sizeof control / sizeof control[0]; i++)
        if (code >= control[i].first && code <= control[i].last)
            return true;
    return false;
}

// Returns the code point of a well-formed character.
static uint32_t decode_utf8(const char *text, size_t bytes)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)text[0] & masks[bytes];
    for (size_t i = 1; i < bytes; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    return code;
}

enum printability printable_classify(const char *text, size_t len, size_t *size)
{
    must(len > 0);
    unsigned char lead = (unsigned char)text[0];
    *size = 1;
    if (lead >= 0x20 && lead < 0x7f)
        return CHAR_PRINTABLE;
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        if (lead < leads[i].first || lead > leads[i].last)
            continue;
        for (size_t at = 1; at < leads[i].bytes; at++) {
            unsigned char byte = at < len ? (unsigned char)text[at] : 0;
            if (at == len) {
                *size = len;
                return CHAR_INCOMPLETE;
            }
            if (byte < (at == 1 ? leads[i].min : 0x80) || byte > (at == 1 ? leads[i].max : 0xbf))
                return CHAR_INVALID;
        }
        *size = leads[i].bytes;
        return is_control(decode_utf8(text, *size)) ? CHAR_CONTROL : CHAR_PRINTABLE;
    }
    return CHAR_INVALID;
}

size_t printable_escape(enum printability kind, const char *text, size_t size,
                        char out[PRINTABLE_ESCAPE_MAX + 1])
{
    uint32_t code = kind == CHAR_CONTROL ? decode_utf8(text, size) : (unsigned char)text[0];
    return (size_t)snprintf(out, PRINTABLE_ESCAPE_MAX + 1,
                            kind == CHAR_CONTROL ? "\\u%04x" : "\\x%02x", (unsigned)code);
}

void printable_append(struct buf *out, const char *text, size_t len, const char *kept)
{
    size_t size, plain = 0; // plain: printable bytes before `text` that are not yet appended
    for (const char *end = text + len; text < end; text += size) {
        char escape[PRINTABLE_ESCAPE_MAX + 1];
        enum printability kind = printable_classify(text, (size_t)(end - text), &size);
        if (kind == CHAR_PRINTABLE || (kind == CHAR_CONTROL && *text && strchr(kept, *text))) {
            plain += size;
            continue;
        }
        size = kind == CHAR_INCOMPLETE ? 1 : size;
        buf_append(out, text - plain, plain);
        buf_append(out, escape, printable_escape(kind, text, size, escape));
        plain = 0;
    }
    buf_append(out, text - plain, plain);
}

char *printable_text(const char *text, const char *kept)
{
    struct buf out;
    size_t len = strlen(text);
    buf_init(&out, len * PRINTABLE_ESCAPE_MAX + 1);
    printable_append(&out, text, len, kept);
    return buf_take(&out);
}
