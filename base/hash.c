#include "base/hash.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"

#undef sha256_update // nettle defines a macro of this name

struct sha256 {
    struct sha256_ctx state;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *s = xcalloc(1, sizeof *s);
    nettle_sha256_init(&s->state);
    return s;
}

void sha256_update(struct sha256 *s, const void *data, size_t len)
{
    nettle_sha256_update(&s->state, len, data);
}

void sha256_final(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    nettle_sha256_digest(&s->state, SHA256_BYTES, out);
    free(s);
}

void sha256_hex(const void *data, size_t len, char out[SHA256_HEX])
{
    uint8_t digest[SHA256_BYTES];
    struct sha256_ctx state;
    nettle_sha256_init(&state);
    nettle_sha256_update(&state, len, data);
    nettle_sha256_digest(&state, sizeof digest, digest);
    hex_encode(digest, sizeof digest, out);
}

void sha512_hex(const void *data, size_t len, char out[SHA512_HEX])
{
    uint8_t digest[SHA512_HEX / 2];
    struct sha512_ctx state;
    nettle_sha512_init(&state);
    nettle_sha512_update(&state, len, data);
    nettle_sha512_digest(&state, sizeof digest, digest);
    hex_encode(digest, sizeof digest, out);
}

void hmac_sha256(const void *key, size_t key_len, const void *message, size_t len,
                 uint8_t out[SHA256_BYTES])
{
    struct hmac_sha256_ctx state;
    nettle_hmac_sha256_set_key(&state, key_len, key);
    nettle_hmac_sha256_update(&state, len, message);
    nettle_hmac_sha256_digest(&state, SHA256_BYTES, out);
}

void hmac_sha256_hex(const char *key, const char *message, char out[SHA256_HEX])
{
    uint8_t mac[SHA256_BYTES];
    hmac_sha256(key, strlen(key), message, strlen(message), mac);
    hex_encode(mac, sizeof mac, out);
}

// The CRC of each 4-bit value; polynomial 0x1EDC6F41, reflected.
static const uint32_t crc_of_nibble[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t crc_by_table(uint32_t crc, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ crc_of_nibble[crc & 15];
        crc = crc >> 4 ^ crc_of_nibble[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p,
                                                                     size_t words)
{
    uint64_t state = crc;
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, p + 8 * i, sizeof word);
        state = __builtin_ia32_crc32di(state, word);
    }
    return (uint32_t)state;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t done = 0;
    crc = ~crc;
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) {
        crc = crc_by_instruction(crc, p, len / 8);
        done = len - len % 8;
    }
#endif
    return ~crc_by_table(crc, p + done, len - done);
}

uint64_t hash64(const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
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

// Returns -1 for a character that is not a hexadecimal digit.
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int hex_decode(const char *text, void *out, size_t len)
{
    uint8_t *p = out;
    if (strlen(text) != 2 * len)
        return ERR_INVALID;
    for (size_t i = 0; i < len; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return ERR_INVALID;
        p[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

// Uses the standard alphabet with padding (RFC 4648 section 4).
char *base64_encode(const void *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = data;
    char *text = xcalloc((len + 2) / 3 * 4 + 1, 1), *out = text;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)p[i] << 16;
        bits |= left > 1 ? (uint32_t)p[i + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)p[i + 2] : 0;
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[bits & 63] : '=';
    }
    return text;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Decodes four digits, the last `padding` of which are "=", to 3 - padding bytes. The unused bits
// must be 0, so that each value has exactly one encoding.
static bool decode_quad(const char *quad, int padding, uint8_t *out)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) {
        int value = i < 4 - padding ? base64_value(quad[i]) : 0;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
    }
    for (int i = 0; i < 3 - padding; i++)
        out[i] = (uint8_t)(bits >> (16 - 8 * i));
    return (bits & ((UINT32_C(1) << 8 * padding) - 1)) == 0;
}

int base64_decode(const char *text, size_t text_len, void **out, size_t *len)
{
    *out = NULL;
    *len = 0;
    if (text_len % 4 != 0)
        return ERR_INVALID;
    int padding = 0;
    while (padding < 2 && text_len > 0 && text[text_len - 1 - (size_t)padding] == '=')
        padding++;
    uint8_t *bytes = xrealloc(NULL, text_len / 4 * 3);
    for (size_t i = 0; i < text_len / 4; i++) {
        bool last = i + 1 == text_len / 4;
        if (!decode_quad(text + 4 * i, last ? padding : 0, bytes + 3 * i)) {
            free(bytes);
            return ERR_INVALID;
        }
    }
    *out = bytes;
    *len = text_len / 4 * 3 - (size_t)padding;
    return 0;
}

int bytes_equal_constant_time(const void *a, const void *b, size_t len)
{
    return nettle_memeql_sec(a, b, len);
}
