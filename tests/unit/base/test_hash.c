// Digests and encodings: published test vectors and invalid input.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

#define SHA256_ABC   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define SHA256_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SHA512_ABC                                                                                 \
    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"                             \
    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"

static void sha(void **state)
{
    (void)state;
    char hex[SHA512_HEX];
    sha256_hex("abc", 3, hex);
    assert_string_equal(hex, SHA256_ABC);
    sha256_hex(NULL, 0, hex);
    assert_string_equal(hex, SHA256_EMPTY);
    sha512_hex("abc", 3, hex);
    assert_string_equal(hex, SHA512_ABC);
}

// RFC 4231, test cases 2 and 6: a short key, and one longer than a block.
static void hmac(void **state)
{
    (void)state;
    char hex[SHA256_HEX], key[132] = {0};
    hmac_sha256_hex("Jefe", "what do ya want for nothing?", hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key - 1);
    hmac_sha256_hex(key, "Test Using Larger Than Block-Size Key - Hash Key First", hex);
    assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void sha_in_parts(void **state)
{
    (void)state;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX];
    struct sha256 *s = sha256_new();
    sha256_update(s, "a", 1);
    sha256_update(s, NULL, 0);
    sha256_update(s, "bc", 2);
    sha256_final(s, digest);
    hex_encode(digest, sizeof digest, hex);
    assert_string_equal(hex, SHA256_ABC);
}

// RFC 3720, appendix B.4.
static void crc_vectors(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    static const uint8_t read_pdu[48] = {
        [0] = 0x01,  [1] = 0xc0,  [16] = 0x14, [22] = 0x04,
        [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02,
    };
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aa);
    assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(crc32c(0, up, 32), 0x46dd794e);
    assert_int_equal(crc32c(0, down, 32), 0x113fdb5c);
    assert_int_equal(crc32c(0, read_pdu, 48), 0xd9963a56);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
}

// Single bytes use the table and long runs the instruction, if the processor has it. Both must
// agree for every length and alignment.
static void crc_table_and_instruction_agree(void **state)
{
    (void)state;
    uint8_t data[300];
    rng_secret(data, sizeof data);
    for (size_t from = 0; from < 9; from++) {
        for (size_t len = 0; len + from < sizeof data; len += 5) {
            uint32_t by_bytes = 0;
            for (size_t i = 0; i < len; i++)
                by_bytes = crc32c(by_bytes, data + from + i, 1);
            assert_int_equal(crc32c(0, data + from, len), by_bytes);
        }
    }
}

static void fnv(void **state)
{
    (void)state;
    assert_true(hash64("", 0) == 0xcbf29ce484222325u);
    assert_true(hash64("a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(hash64("foobar", 6) == 0x85944171f73967e8u);
}

static void hex(void **state)
{
    (void)state;
    char text[9];
    uint8_t bytes[4];
    hex_encode("\x00\x7f\xa0\xff", 4, text);
    assert_string_equal(text, "007fa0ff");
    assert_int_equal(hex_decode("007FA0ff", bytes, 4), 0);
    assert_memory_equal(bytes, "\x00\x7f\xa0\xff", 4);
    assert_int_equal(hex_decode("", bytes, 0), 0);
    static const char *const bad[] = {"",         "0",        "007fa0f",  "007fa0fff", "007fa0ff0",
                                      "007fa0fg", "007fa0f ", "0x7fa0ff", "-07fa0ff"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(hex_decode(bad[i], bytes, 4), ERR_INVALID);
}

// RFC 4648, section 10.
static void base64_vectors(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xfb\xff", "+/8="},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = base64_encode(rows[i][0], strlen(rows[i][0]));
        assert_string_equal(text, rows[i][1]);
        void *bytes;
        size_t len;
        assert_int_equal(base64_decode(text, strlen(text), &bytes, &len), 0);
        assert_int_equal(len, strlen(rows[i][0]));
        assert_memory_equal(bytes, rows[i][0], len);
        free(bytes);
        free(text);
    }
}

static void base64_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Z",    "Zg",   "Zg=",  "Zm9vY", "Zg==Zg==", "=AAA", "A=AA", "AA=A",
        "====", "A===", "Zm9 ", "Zm9\n", "Zm-_",     "Zh==", "Zm9=", "Zm9vZ===",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        void *bytes = (void *)bad;
        size_t len = 9;
        assert_int_equal(base64_decode(bad[i], strlen(bad[i]), &bytes, &len), ERR_INVALID);
        assert_null(bytes);
        assert_int_equal(len, 0);
    }
}

static void base64_there_and_back(void **state)
{
    (void)state;
    uint8_t data[200];
    rng_secret(data, sizeof data);
    for (size_t len = 0; len <= sizeof data; len++) {
        char *text = base64_encode(data, len);
        void *bytes;
        size_t again;
        assert_int_equal(base64_decode(text, strlen(text), &bytes, &again), 0);
        assert_int_equal(again, len);
        assert_memory_equal(bytes, data, len);
        free(bytes);
        free(text);
    }
}

static void equality(void **state)
{
    (void)state;
    assert_int_equal(bytes_equal_constant_time("abc", "abc", 3), 1);
    assert_int_equal(bytes_equal_constant_time("abc", "abd", 3), 0);
    assert_int_equal(bytes_equal_constant_time("abc", "xyz", 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha),
        cmocka_unit_test(hmac),
        cmocka_unit_test(sha_in_parts),
        cmocka_unit_test(crc_vectors),
        cmocka_unit_test(crc_table_and_instruction_agree),
        cmocka_unit_test(fnv),
        cmocka_unit_test(hex),
        cmocka_unit_test(base64_vectors),
        cmocka_unit_test(base64_refuses),
        cmocka_unit_test(base64_there_and_back),
        cmocka_unit_test(equality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
