// The rules of media items: each field, at its limit and one past it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "api/media.h"
#include "base/arena.h"
#include "base/limits.h"

#define DIGEST "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ITEM   "{\"step\":1,\"name\":\"a\",\"type\":\"table\",\"digest\":\"" DIGEST "\",\"size\":3"

static struct error e;

static int read_item(const char *text, int64_t now)
{
    struct media_item item;
    json_t *from = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(from);
    e = (struct error){0};
    int err = media_item_read(from, now, &item, &e);
    json_decref(from);
    return err;
}

static void assert_refused(const char *text, int64_t now, const char *why)
{
    if (read_item(text, now) != ERR_INVALID || !strstr(e.text, why))
        fail_msg("%s: \"%s\" lacks \"%s\"", text, e.text, why);
}

static void an_item_is_read(void **state)
{
    (void)state;
    struct media_item item;
    json_t *from = json_loads(ITEM ",\"format\":\"json\",\"time\":7}", 0, NULL);
    assert_int_equal(media_item_read(from, 9, &item, NULL), 0);
    assert_string_equal(item.name, "a");
    assert_string_equal(item.type, "table");
    assert_string_equal(item.digest, DIGEST);
    assert_int_equal(item.step, 1);
    assert_int_equal(item.size, 3);
    assert_int_equal(item.time, 7);
    json_decref(from);
}

static void format_and_time_may_be_absent(void **state)
{
    (void)state;
    assert_int_equal(read_item(ITEM "}", 9), 0);
    assert_refused(ITEM "}", 0, "time: ");
    assert_refused(ITEM ",\"format\":\"png\"}", 9, "the format of type table is json");
    assert_refused(ITEM ",\"format\":3}", 9, "format: ");
}

static void the_size_has_a_limit(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        char *text = xasprintf("{\"step\":0,\"name\":\"a\",\"type\":\"text\",\"digest\":\"" DIGEST
                               "\",\"size\":%d,\"time\":1}",
                               LIMIT_MEDIA_ITEM + over);
        assert_int_equal(read_item(text, 0), over ? ERR_TOO_LARGE : 0);
        free(text);
    }
}

static int read_item_at(long long step, long long time)
{
    char *text = xasprintf("{\"step\":%lld,\"name\":\"a\",\"type\":\"text\",\"digest\":\"" DIGEST
                           "\",\"size\":1,\"time\":%lld}",
                           step, time);
    int err = read_item(text, 0);
    free(text);
    return err;
}

static void step_and_time_have_a_limit(void **state)
{
    (void)state;
    assert_int_equal(read_item_at(LIMIT_REPORTED_INTEGER, LIMIT_REPORTED_INTEGER), 0);
    assert_int_equal(read_item_at(LIMIT_REPORTED_INTEGER + 1, 1), ERR_INVALID);
    assert_int_equal(read_item_at(1, LIMIT_REPORTED_INTEGER + 1), ERR_INVALID);
}

static void every_type_has_a_format(void **state)
{
    (void)state;
    static const char *const names[] = {"image", "histogram", "table", "text"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(media_type_check(names[i], &e), 0);
        assert_string_equal(media_type_find(names[i])->name, names[i]);
        assert_int_equal(*media_type_find(names[i])->suffix, '.');
    }
    assert_null(media_type_find("video"));
    assert_int_equal(media_type_check("video", &e), ERR_INVALID);
}

static void a_digest_has_64_lower_case_digits(void **state)
{
    (void)state;
    assert_true(media_is_digest(DIGEST));
    assert_false(media_is_digest(DIGEST "0"));
    assert_false(media_is_digest(&DIGEST[1]));
    assert_false(media_is_digest(""));
    char upper[] = DIGEST;
    upper[0] = 'B';
    assert_false(media_is_digest(upper));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_is_read),
        cmocka_unit_test(format_and_time_may_be_absent),
        cmocka_unit_test(the_size_has_a_limit),
        cmocka_unit_test(step_and_time_have_a_limit),
        cmocka_unit_test(every_type_has_a_format),
        cmocka_unit_test(a_digest_has_64_lower_case_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
