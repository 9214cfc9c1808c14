// Digests and encodings (SHA-2 by nettle; CRC32C of RFC 3720, table or SSE4.2).
#ifndef MUSTER_BASE_HASH_H
#define MUSTER_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX = 65, SHA512_HEX = 129 };

struct sha256; // opaque incremental state
struct sha256 *sha256_new(void);
void sha256_update(struct sha256 *s, const void *data, size_t len);
void sha256_final(struct sha256 *s, uint8_t out[SHA256_BYTES]); // frees s

void sha256_hex(const void *data, size_t len, char out[SHA256_HEX]);
void sha512_hex(const void *data, size_t len, char out[SHA512_HEX]);
void hmac_sha256(const void *key, size_t key_len, const void *message, size_t len,
                 uint8_t out[SHA256_BYTES]);
void hmac_sha256_hex(const char *key, const char *message, char out[SHA256_HEX]);
uint32_t crc32c(uint32_t crc, const void *data, size_t len); // the first call passes 0
uint64_t hash64(const void *data, size_t len); // FNV-1a; for hash tables, not for secrets

void hex_encode(const void *data, size_t len, char *out); // 2 * len + 1 bytes
int hex_decode(const char *text, void *out, size_t len);  // exactly len bytes; ERR_INVALID
char *base64_encode(const void *data, size_t len);        // heap string
int base64_decode(const char *text, size_t text_len, void **out, size_t *len); // heap; ERR_INVALID
int bytes_equal_constant_time(const void *a, const void *b, size_t len);       // 1 if equal

#endif
