// How ranks on several machines connect: strangers, wrong keys, recorded greetings, wrong
// addresses.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "tests/unit/trainer/placed_ranks.h"
#include "tests/unit/trainer/wire_tap.h"
#include "trainer/comm/net_proof.h"

static struct tap *tap; // set before the ranks are forked

// --- proofs --------------------------------------------------------------------------------------

static struct net_greeting a_greeting(void)
{
    struct net_greeting g = {
        .callee = 1, .caller = 4, .channel = NET_CONTROL, .allocation = "7.1.2"};
    memset(g.callee_key, 0x11, NET_KEY);
    memset(g.caller_key, 0x22, NET_KEY);
    memset(g.callee_nonce, 0x33, NET_KEY);
    memset(g.caller_nonce, 0x44, NET_KEY);
    return g;
}

// Computed by Python:
//   from hmac import digest; from hashlib import sha256; from struct import pack
//   digest(b"\x11" * 32 + b"\x22" * 32, b"muster ranks 2".ljust(24, b"\0")
//          + pack("<6I", 2, 0, 1, 4, 1, 0) + b"\x33" * 32 + b"\x44" * 32
//          + sha256(b"7.1.2").digest(), "sha256").hex()
static void test_proof_of_a_known_greeting(void **state)
{
    (void)state;
    uint8_t proof[NET_KEY];
    char hex[2 * NET_KEY + 1];
    const struct net_greeting g = a_greeting();
    net_prove(&g, NET_PROOF_OF_CALLER, proof);
    hex_encode(proof, NET_KEY, hex);
    assert_string_equal(hex, "e9f9a1f3c16291ea00eee7beb7f5c5b60f105efb58444b1c3baa02c016ddb09f");
}

static void test_every_part_of_a_greeting_counts(void **state)
{
    (void)state;
    enum { CHANGES = 9 };
    uint8_t proof[NET_KEY];
    const struct net_greeting right = a_greeting();
    struct net_greeting wrong[CHANGES];
    for (int i = 0; i < CHANGES; i++)
        wrong[i] = right;
    wrong[0].callee_key[31] ^= 1;
    wrong[1].caller_key[0] ^= 0x80;
    wrong[2].callee_nonce[0] ^= 1;
    wrong[3].caller_nonce[31] ^= 1;
    wrong[4].callee++;
    wrong[5].caller++;
    wrong[6].channel = NET_DATA;
    wrong[7].encrypted = true;
    wrong[8].allocation = "7.1.3";
    net_prove(&right, NET_PROOF_OF_CALLER, proof);
    assert_true(net_proof_is_right(&right, NET_PROOF_OF_CALLER, proof));
    assert_false(net_proof_is_right(&right, NET_PROOF_OF_CALLEE, proof)); // nor can it be sent back
    assert_false(net_proof_is_right(&right, NET_KEY_OF_ENCRYPTION, proof));
    for (int i = 0; i < CHANGES; i++)
        if (net_proof_is_right(&wrong[i], NET_PROOF_OF_CALLER, proof))
            fail_msg("change %d of the greeting went unnoticed", i);
    proof[17] ^= 4;
    assert_false(net_proof_is_right(&right, NET_PROOF_OF_CALLER, proof));
}

// --- strangers -----------------------------------------------------------------------------------

static int connect_and_send(int port, const void *words, size_t bytes)
{
    int fd = connect_to_port(port);
    if (fd >= 0 && bytes)
        send(fd, words, bytes, MSG_NOSIGNAL);
    return fd;
}

// Strangers: silent ones, garbage of several lengths, half a hello, a hello of a machine that does
// not exist, and good hellos followed by nothing, by a wrong proof and by too much. They stay.
static void strangers_come(struct placed_rank *p, json_t *all)
{
    unsigned char words[4096];
    struct net_hello hello;
    const struct net_greeting g = {.caller = (uint32_t)p->seat->world - 1};
    if (p->seat->rank != 0)
        return;
    for (int r = 0; r < p->seat->world; r++) {
        int port = (int)jget_int(json_array_get(all, (size_t)r), "port", 0);
        memset(words, 0xa5, sizeof words);
        for (int i = 0; port && i < 30; i++)
            must(connect_and_send(port, words, (size_t)(i % 4) * 1000) >= 0);
        net_hello_make(&hello, &g);
        memcpy(words, &hello, sizeof hello);
        const size_t lengths[] = {20, sizeof hello, sizeof hello + NET_KEY, sizeof words};
        for (int i = 0; port && i < 4; i++)
            must(connect_and_send(port, words, lengths[i]) >= 0);
        ((struct net_hello *)words)->machine = UINT32_MAX;
        must(!port || connect_and_send(port, words, sizeof hello) >= 0);
    }
}

static int rank_visited(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat, .places_known = strangers_come};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    struct comm_work w = {
        .type = COMM_INT32, .data = comm_alloc(c, 4000 * sizeof(int32_t)), .count = 4000};
    CHECK(check_all_reduce(c, w) == 0);
    comm_close(c);
    return 0;
}

static void test_strangers_disturb_nothing(void **state)
{
    (void)state;
    assert_int_equal(run_placed("ABC", rank_visited, NULL).failed_rank, -1);
}

static int port_of_0;

static void remember_port(struct placed_rank *p, json_t *all)
{
    (void)p;
    port_of_0 = (int)jget_int(json_array_get(all, 0), "port", 0);
}

static int rank_that_knocks(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat, .places_known = remember_port};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_and_warm(&place, 0, &c) == 0);
    CHECK(connect_and_send(port_of_0, "", 0) < 0);
    CHECK(comm_barrier(c, &e) == 0);
    comm_close(c);
    return 0;
}

static void test_nobody_listens_after_the_meeting(void **state)
{
    (void)state;
    assert_int_equal(run_placed("AB", rank_that_knocks, NULL).failed_rank, -1);
}

// --- many machines -------------------------------------------------------------------------------

enum { TLS_HANDSHAKE = 22 }; // the first byte of a record (RFC 8446)

// Set before the ranks are forked: the first leader accepts faster than callers answer it, so all
// of them are its guests at once.
static bool far_away;
static bool hangs_in_tls; // this rank, before its first record

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags); // -Wl,--wrap=send
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    if (far_away && bytes == NET_KEY)
        clock_sleep_us(20000);
    if (hangs_in_tls && *(const uint8_t *)data == TLS_HANDSHAKE)
        clock_sleep_us(9 * SECOND);
    return __real_send(fd, data, bytes, flags);
}

static int rank_of_many(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    CHECK(comm_barrier(c, &e) == 0);
    comm_close(c);
    return 0;
}

static void test_many_machines_call_at_once(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // 90 processes with shadow memory
#endif
    enum { MACHINES = 90 };
    char where[MACHINES + 1] = "";
    for (int i = 0; i < MACHINES; i++)
        where[i] = (char)('!' + i);
    far_away = true;
    assert_int_equal(run_placed(where, rank_of_many, NULL).failed_rank, -1);
    far_away = false;
}

// --- failed meetings -----------------------------------------------------------------------------

static int report_opening(struct placed_rank *place)
{
    struct error e = {0};
    struct comm *c = NULL;
    int err = open_comm(place, 6 * SECOND, &c, &e);
    if (!err)
        err = comm_barrier(c, &e);
    comm_close(c);
    return report_outcome(place->seat, err, e.text);
}

static void assert_says(const struct rank_outcomes *outcomes, int rank, const char *text)
{
    assert_int_equal(outcomes->codes[rank], ERR_PEER);
    if (!strstr(outcomes->errors[rank], text))
        fail_msg("rank %d said \"%s\"", rank, outcomes->errors[rank]);
}

static void lose_the_way(struct placed_rank *p, json_t *all)
{
    if (p->seat->rank == 1) // nobody listens at the port that all ranks were given
        json_object_set_new(json_array_get(all, 0), "port", json_integer(1));
}

static int rank_unreachable(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    return report_opening(&(struct placed_rank){.seat = seat, .places_known = lose_the_way});
}

static void test_unreachable_machine_is_named(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AB", rank_unreachable, &outcomes).failed_rank, -1);
    assert_says(&outcomes, 0, "rank 1 on");
    assert_says(&outcomes, 0, "has not connected");
    assert_says(&outcomes, 1, "rank 0 on");
    assert_says(&outcomes, 1, "cannot be reached at 127.0.0.1 port 1");
}

static void mistake_the_key(struct placed_rank *p, json_t *all)
{
    const char *wrong = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    if (p->seat->rank == 1)
        json_object_set_new(json_array_get(all, 0), "key", json_string(wrong));
}

static int rank_with_wrong_key(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    return report_opening(&(struct placed_rank){.seat = seat, .places_known = mistake_the_key});
}

static void test_wrong_key_is_refused(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AB", rank_with_wrong_key, &outcomes).failed_rank, -1);
    assert_says(&outcomes, 1, "does not know the keys of this training, so it is not rank 0");
    assert_says(&outcomes, 0, "did not prove that they know its keys: 1");
}

// --- taps ----------------------------------------------------------------------------------------

// Rank 1 calls the tap. The tap's memory also receives the published keys.
static void call_the_tap(struct placed_rank *p, json_t *all)
{
    json_t *first = json_array_get(all, 0);
    if (p->seat->rank != 1)
        return;
    for (int r = 0; r < 2; r++) {
        const char *key = jget_string(json_array_get(all, (size_t)r), "key", "");
        must(hex_decode(key, tap->keys[r], sizeof tap->keys[r]) == 0);
    }
    int port = tap_start(tap, (int)jget_int(first, "port", 0));
    json_object_set_new(first, "port", json_integer(port));
}

static int rank_replayed(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    return report_opening(&(struct placed_rank){.seat = seat, .places_known = call_the_tap});
}

// The recorded proof was genuine. If it could be used again, rank 0 would find both connections
// there and go on.
static void test_recorded_greeting_is_worth_nothing(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    tap = tap_new(TAP_REPLAYS);
    assert_int_equal(run_placed("AB", rank_replayed, &outcomes).failed_rank, -1);
    assert_says(&outcomes, 0, "rank 1 on");
    assert_says(&outcomes, 0, "did not prove that they know its keys: 2");
    assert_int_equal(outcomes.codes[1], ERR_PEER);
}

static int rank_overheard(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    enum { COUNT = 1000 };
    struct placed_rank place = {.seat = seat, .places_known = call_the_tap};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    int32_t *a = comm_alloc(c, COUNT * sizeof *a);
    for (int i = 0; i < COUNT; i++)
        a[i] = 0x5eed0000 + i;
    CHECK(comm_all_reduce(c, a, COUNT, COMM_INT32, COMM_MAX, &e) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(a[i] == 0x5eed0000 + i);
    comm_close(c);
    return 0;
}

static int rank_disturbed(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    struct placed_rank place = {.seat = seat, .places_known = call_the_tap};
    struct error e = {0};
    struct comm *c = NULL;
    CHECK(open_comm(&place, 0, &c, &e) == 0);
    int32_t *a = comm_alloc(c, 4 << 20);
    int err = 0;
    for (int i = 0; i < 8 && !err; i++)
        err = comm_all_reduce(c, a, 1 << 20, COMM_INT32, COMM_MAX, &e);
    comm_close(c);
    return report_outcome(seat, err, e.text);
}

static bool tap_heard(const void *words, size_t bytes)
{
    return memmem(tap->bytes, tap->kept, words, bytes) != NULL;
}

static void test_keys_are_never_sent(void **state)
{
    (void)state;
    const int32_t gradients[] = {0x5eed0100, 0x5eed0101, 0x5eed0102, 0x5eed0103};
    tap = tap_new(TAP_LISTENS);
    assert_int_equal(run_placed("AB", rank_overheard, NULL).failed_rank, -1);
    assert_true(tap_heard("muster\2", 8));
    assert_true(tap_heard(gradients, sizeof gradients));
    for (int r = 0; r < 2; r++)
        assert_false(tap_heard(tap->keys[r], NET_KEY));
}

static void test_encryption_hides_everything(void **state)
{
    (void)state;
    const int32_t gradients[] = {0x5eed0100, 0x5eed0101, 0x5eed0102, 0x5eed0103};
    const int32_t one = 0x5eed0200;
    encrypted = true;
    tap = tap_new(TAP_LISTENS);
    assert_int_equal(run_placed("AB", rank_overheard, NULL).failed_rank, -1);
    assert_true(tap_heard("muster\2", 8));
    assert_true(tap->kept > 2 * 4000); // two buffers of COUNT numbers
    assert_false(tap_heard(gradients, sizeof gradients));
    assert_false(tap_heard(&one, sizeof one));
    for (int r = 0; r < 2; r++)
        assert_false(tap_heard(tap->keys[r], NET_KEY));
}

// One bit of the data towards rank 0 is wrong. Without encryption nobody would know.
static void test_changed_bytes_end_the_ranks(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    encrypted = true;
    tap = tap_new(TAP_CHANGES);
    tap->after = 1 << 20;
    assert_int_equal(run_placed("AB", rank_disturbed, &outcomes).failed_rank, -1);
    for (int r = 0; r < 2; r++) { // rank 0 tells rank 1
        assert_says(&outcomes, r, "the bytes from rank 1 on");
        assert_says(&outcomes, r, "are not those that it has encrypted");
    }
}

// The first changed byte is in the handshake.
static void test_changed_handshake_ends_the_ranks(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    encrypted = true;
    tap = tap_new(TAP_CHANGES);
    tap->after = sizeof(struct net_hello) + NET_KEY + 60;
    assert_int_equal(run_placed("AB", rank_replayed, &outcomes).failed_rank, -1);
    assert_says(&outcomes, 0, "rank 1 on");
    assert_says(&outcomes, 1, "rank 0 on");
    if (!strstr(outcomes.errors[0], "encrypted") || !strstr(outcomes.errors[1], "encrypted"))
        fail_msg("they said \"%s\" and \"%s\"", outcomes.errors[0], outcomes.errors[1]);
}

static int rank_that_hangs(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    hangs_in_tls = seat->rank == 1;
    return report_opening(&(struct placed_rank){.seat = seat});
}

static void test_hanging_handshake_names_the_rank(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    encrypted = true;
    assert_int_equal(run_placed("AB", rank_that_hangs, &outcomes).failed_rank, -1);
    assert_says(&outcomes, 0, "the connection to rank 1 on");
    assert_says(&outcomes, 0, "was not encrypted in time");
}

static int rank_of_two_minds(struct gang_member *seat, void *ctx)
{
    (void)ctx;
    encrypted = seat->rank == 1;
    return report_opening(&(struct placed_rank){.seat = seat});
}

static void test_one_rank_cannot_encrypt_alone(void **state)
{
    (void)state;
    struct rank_outcomes outcomes = {0};
    assert_int_equal(run_placed("AB", rank_of_two_minds, &outcomes).failed_rank, -1);
    assert_int_equal(outcomes.codes[0], ERR_PEER);
    assert_int_equal(outcomes.codes[1], ERR_PEER);
}

static int in_clear(void **state)
{
    (void)state;
    encrypted = false;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proof_of_a_known_greeting),
        cmocka_unit_test(test_every_part_of_a_greeting_counts),
        cmocka_unit_test(test_strangers_disturb_nothing),
        cmocka_unit_test(test_nobody_listens_after_the_meeting),
        cmocka_unit_test(test_many_machines_call_at_once),
        cmocka_unit_test(test_unreachable_machine_is_named),
        cmocka_unit_test(test_wrong_key_is_refused),
        cmocka_unit_test(test_recorded_greeting_is_worth_nothing),
        cmocka_unit_test(test_keys_are_never_sent),
        cmocka_unit_test_teardown(test_encryption_hides_everything, in_clear),
        cmocka_unit_test_teardown(test_changed_bytes_end_the_ranks, in_clear),
        cmocka_unit_test_teardown(test_changed_handshake_ends_the_ranks, in_clear),
        cmocka_unit_test_teardown(test_hanging_handshake_names_the_rank, in_clear),
        cmocka_unit_test_teardown(test_one_rank_cannot_encrypt_alone, in_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
