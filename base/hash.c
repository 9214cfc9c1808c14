#include "base/hash.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"

struct sha256 {
    gnutls_hash_hd_t handle;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *s = xcalloc(1, sizeof(*s));
    must(gnutls_hash_init(&s->handle, GNUTLS_DIG_SHA256) == 0);
    return s;
}

void sha256_update(struct sha256 *s, const void *data, size_t len)
{
    must(len == 0 || gnutls_hash(s->handle, data, len) == 0);
}

void sha256_final(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    gnutls_hash_deinit(s->handle, out);
    free(s);
}

void sha256_hex(const void *data, size_t len, char out[SHA256_HEX])
{
    uint8_t digest[SHA256_BYTES];
    must(gnutls_hash_fast(GNUTLS_DIG_SHA256, data, len, digest) == 0);
    hex_encode(digest, sizeof(digest), out);
}

void sha512_hex(const void *data, size_t len, char out[SHA512_HEX])
{
    uint8_t digest[64];
    must(gnutls_hash_fast(GNUTLS_DIG_SHA512, data, len, digest) == 0);
    hex_encode(digest, sizeof(digest), out);
}

// CRC32C, reflected polynomial 0x82F63B78, eight bytes a turn ("slicing by 8").
static uint32_t crc_tables[8][256];

static void crc_fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) {
            c = (c >> 1) ^ (c & 1 ? 0x82F63B78u : 0);
        }
        crc_tables[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int t = 1; t < 8; t++) {
            uint32_t c = crc_tables[t - 1][i];
            crc_tables[t][i] = (c >> 8) ^ crc_tables[0][c & 0xFF];
        }
    }
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, crc_fill_tables);
    const uint8_t *p = data;
    uint32_t c = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= c;
        c = 0;
        for (int t = 0; t < 8; t++) {
            c ^= crc_tables[7 - t][word >> (8 * t) & 0xFF];
        }
    }
    for (; len > 0; len--, p++) {
        c = (c >> 8) ^ crc_tables[0][(c ^ *p) & 0xFF];
    }
    return ~c;
}

uint64_t hash64(const void *data, size_t len)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (const uint8_t *p = data, *end = p + len; p < end; p++) {
        h = (h ^ *p) * 0x100000001B3u;
    }
    return h;
}

void hex_encode(const void *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = data;
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[p[i] >> 4];
        *out++ = digits[p[i] & 15];
    }
    *out = '\0';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int hex_decode(const char *text, void *out, size_t len)
{
    uint8_t *p = out;
    if (strnlen(text, 2 * len + 1) != 2 * len) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return ERR_INVALID;
        }
        p[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len)
{
    const uint8_t *p = data;
    char *text = xrealloc(NULL, (len + 2) / 3 * 4 + 1), *q = text;
    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t w = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                     (n > 2 ? (uint32_t)p[i + 2] : 0);
        *q++ = base64_digits[w >> 18];
        *q++ = base64_digits[w >> 12 & 63];
        *q++ = n > 1 ? base64_digits[w >> 6 & 63] : '=';
        *q++ = n > 2 ? base64_digits[w & 63] : '=';
    }
    *q = '\0';
    return text;
}

static void base64_values(int8_t values[256])
{
    memset(values, -1, 256);
    for (int i = 0; i < 64; i++) {
        values[(unsigned char)base64_digits[i]] = (int8_t)i;
    }
}

int base64_decode(const char *text, size_t text_len, void **out, size_t *len)
{
    int8_t values[256];
    base64_values(values);
    size_t pad = 0;
    while (pad < 2 && pad < text_len && text[text_len - 1 - pad] == '=') {
        pad++;
    }
    if (text_len % 4 != 0) {
        return ERR_INVALID;
    }
    size_t digits = text_len - pad;
    uint8_t *data = xrealloc(NULL, text_len / 4 * 3 + 1);
    uint32_t word = 0;
    size_t used = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = values[(unsigned char)text[i]];
        if (value < 0) {
            free(data);
            return ERR_INVALID;
        }
        word = word << 6 | (uint32_t)value;
        if (i % 4 != 0) { // digits 1, 2, 3 of a group complete one byte each
            data[used++] = (uint8_t)(word >> (6 - 2 * (i % 4)));
        }
    }
    data[used] = 0;
    *out = data;
    *len = used;
    return 0;
}

int bytes_equal_constant_time(const void *a, const void *b, size_t len)
{
    const volatile uint8_t *p = a, *q = b;
    uint8_t difference = 0;
    for (size_t i = 0; i < len; i++) {
        difference |= (uint8_t)(p[i] ^ q[i]);
    }
    return difference == 0;
}
