// Names, error bodies, paging and the password hash of the API (docs/wire.md).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/wire.h"
#include "base/log.h"

static void bad_names_are_refused_with_what_is_near(void **state)
{
    const char *word = "";
    struct error e;
    (void)state;
    assert_int_equal(wire_parse(WIRE_TRIAL_STATE, "STATE_COMPLETD", &word, &e), ERR_INVALID);
    assert_null(word);
    assert_string_equal(e.text, "\"STATE_COMPLETD\" is not a valid trial state; did you mean "
                                "\"STATE_COMPLETED\"?");
    assert_int_equal(wire_parse(WIRE_LOG_LEVEL, "INFI", &word, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "did you mean \"INFO\""));
    assert_int_equal(wire_parse(WIRE_DEVICE_TYPE, "typewriter", &word, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "valid are TYPE_CPU, TYPE_CUDA, TYPE_ROCM"));
    assert_int_equal(wire_parse(WIRE_DEVICE_TYPE, NULL, &word, &e), ERR_INVALID);
    assert_int_equal(wire_parse(WIRE_TRIAL_STATE, "STATE_DELETING", &word, &e), ERR_INVALID);
    assert_null(wire_word(WIRE_TRIAL_STATE, "completed"));
    assert_string_equal(wire_name(WIRE_TRIAL_STATE, "NONSENSE"), "STATE_UNSPECIFIED");
    assert_string_equal(wire_name(WIRE_LOG_LEVEL, NULL), "LOG_LEVEL_UNSPECIFIED");
}

static void every_name_goes_both_ways(void **state)
{
    (void)state;
    for (enum wire_names table = 0; table < WIRE_NAMES_COUNT; table++) {
        const char *const *words = wire_words(table);
        const char *prefix = wire_prefix(table);
        assert_non_null(words[0]);
        for (int i = 0; words[i]; i++) {
            const char *name = wire_name(table, words[i]), *back;
            assert_int_equal(strncmp(name, prefix, strlen(prefix)), 0);
            assert_string_equal(name + strlen(prefix), words[i]);
            assert_ptr_equal(wire_word(table, name), words[i]);
            assert_int_equal(wire_parse(table, words[i], &back, NULL), 0);
            assert_ptr_equal(back, words[i]);
        }
    }
    assert_string_equal(wire_name(WIRE_ALLOCATION_STATE, "ASSIGNED"), "STATE_WAITING");
}

static void only_three_states_are_final(void **state)
{
    int terminal = 0;
    (void)state;
    for (const char *const *w = wire_words(WIRE_EXPERIMENT_STATE); *w; w++)
        terminal += wire_state_is_terminal(*w);
    assert_int_equal(terminal, 3);
    assert_true(wire_state_is_terminal("CANCELED"));
    assert_false(wire_state_is_terminal("STOPPING_CANCELED"));
    assert_false(wire_state_is_terminal(NULL));
}

static void error_bodies_carry_the_sentence_twice(void **state)
{
    struct json_writer w;
    struct buf out;
    (void)state;
    buf_init(&out, 4096);
    jw_init(&w, &out);
    wire_write_error(&w, ERR_NOT_FOUND, "no trial \"7\"");
    assert_string_equal(buf_str(&out),
                        "{\"error\":{\"code\":5,\"reason\":\"NotFound\",\"error\":"
                        "\"no trial \\\"7\\\"\"},\"message\":\"no trial \\\"7\\\"\"}");
    buf_reset(&out);
    wire_write_stream_error(&out, ERR_UNAVAILABLE, "the master stops");
    assert_string_equal(buf_str(&out),
                        "{\"error\":{\"grpcCode\":14,\"httpCode\":503,\"message\":\"the master "
                        "stops\",\"httpStatus\":\"Unavailable\"}}\n");
    buf_free(&out);
}

static void every_error_has_a_status_for_clients(void **state)
{
    static const int codes[] = {
#define CODE(symbol, code, http, exit_code, name) symbol,
        ERR_TABLE(CODE)
#undef CODE
    };
    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        struct json_writer w;
        struct buf out;
        json_t *body;
        buf_init(&out, 4096);
        jw_init(&w, &out);
        wire_write_error(&w, codes[i], "x");
        assert_int_equal(json_parse(buf_str(&out), out.len, "body", &body, NULL), 0);
        assert_in_range(jget_int(jget(body, "error"), "code", -1), 1, 16);
        assert_true(*jget_string(jget(body, "error"), "reason", ""));
        json_decref(body);
        buf_free(&out);
    }
}

static void check_page(int64_t offset, int64_t count, int64_t total, const char *expected)
{
    struct json_writer w;
    struct buf out;
    buf_init(&out, 4096);
    jw_init(&w, &out);
    jw_object(&w);
    wire_write_pagination(&w, offset, 10, count, total);
    jw_object_end(&w);
    assert_string_equal(buf_str(&out), expected);
    buf_free(&out);
}

static void pages_end_at_their_total(void **state)
{
    (void)state;
    check_page(0, 10, 25,
               "{\"pagination\":{\"offset\":0,\"limit\":10,\"startIndex\":0,\"endIndex\":10,"
               "\"total\":25}}");
    check_page(20, 5, 25,
               "{\"pagination\":{\"offset\":20,\"limit\":10,\"startIndex\":20,\"endIndex\":25,"
               "\"total\":25}}");
    check_page(90, 0, 25,
               "{\"pagination\":{\"offset\":90,\"limit\":10,\"startIndex\":25,\"endIndex\":25,"
               "\"total\":25}}");
}

static void passwords_are_salted_and_blank_stays_blank(void **state)
{
    char hash[SHA512_HEX];
    (void)state;
    wire_password_hash("", hash);
    assert_string_equal(hash, "");
    wire_password_hash(NULL, hash);
    assert_string_equal(hash, "");
    wire_password_hash("secret", hash);
    assert_string_equal(hash, "f6b1a15b3e3f6c5978ad185a85efc1c91f2da442e66c4ce48b12a36b5b4c04a4"
                              "dbfe79f4fe07bf1eb0016e63d7613827e4c0ed3c8e3c305755792a556866a723");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_names_are_refused_with_what_is_near),
        cmocka_unit_test(every_name_goes_both_ways),
        cmocka_unit_test(only_three_states_are_final),
        cmocka_unit_test(error_bodies_carry_the_sentence_twice),
        cmocka_unit_test(every_error_has_a_status_for_clients),
        cmocka_unit_test(pages_end_at_their_total),
        cmocka_unit_test(passwords_are_salted_and_blank_stays_blank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
