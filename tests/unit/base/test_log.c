// Logs: every record is one line, for all values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

enum { CAPTURE_MAX = 1 << 20 };

static char captured[CAPTURE_MAX];

// Runs `act` with stderr in a file and returns the contents of the file.
static const char *capture(void (*act)(void))
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    act();
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    size_t len = fread(captured, 1, sizeof captured - 1, file);
    captured[len] = '\0';
    fclose(file);
    return captured;
}

static void write_plain(void)
{
    log_info("allocation \"started\"", "exp=%d alloc=%s", 1, "1.1.0");
}

static void write_forged(void)
{
    log_warn("m", "value=%s",
             "a\nts=forged level=error \xc2\x85\xc2\x9b"
             "31m\x7f\u00a0\xc2\u202e\x9b\u2028.");
}

static void write_long(void)
{
    static char text[20000];
    memset(text, 'y', sizeof text - 1);
    log_info("long", "value=%s", text);
}

static void write_bare(void)
{
    log_info("bare", "%s", "");
}

static void write_all_levels(void)
{
    log_debug("d", "n=%d", 1);
    log_info("i", "n=%d", 1);
    log_warn("w", "n=%d", 1);
    log_error("e", "n=%d", 1);
}

static void lines(void **state)
{
    (void)state;
    const char *line = capture(write_plain);
    assert_memory_equal(line, "ts=20", 5);
    // ts=2026-11-21T09:00:00.123Z
    assert_int_equal(line[26], 'Z');
    assert_string_equal(line + 27,
                        " level=info msg=\"allocation \\\"started\\\"\" exp=1 alloc=1.1.0\n");
    const char *bare = capture(write_bare);
    assert_string_equal(bare + 27, " level=info msg=\"bare\"\n");
}

static void no_value_begins_a_line(void **state)
{
    (void)state;
    const char *line = capture(write_forged);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_non_null(strstr(line, "value=a ts=forged level=error     31m \u00a0        .\n"));
}

static void long_lines_are_cut_and_say_so(void **state)
{
    (void)state;
    const char *line = capture(write_long);
    size_t len = strlen(line);
    assert_int_equal(len, 8192);
    assert_string_equal(line + len - 5, "y...\n");
}

static void levels(void **state)
{
    (void)state;
    enum log_level level;
    assert_int_equal(log_parse_level("warn", &level), 0);
    assert_int_equal(level, LOG_LEVEL_WARN);
    assert_int_equal(log_parse_level("loud", &level), ERR_INVALID);
    log_set_level(LOG_LEVEL_WARN);
    const char *text = capture(write_all_levels);
    log_set_level(LOG_LEVEL_INFO);
    assert_null(strstr(text, "level=info"));
    assert_null(strstr(text, "level=debug"));
    assert_non_null(strstr(text, "level=warn"));
    assert_non_null(strstr(text, "level=error"));
}

static void quoting(void **state)
{
    (void)state;
    char out[64];
    assert_string_equal(log_quote(out, sizeof out, "a b"), "\"a b\"");
    assert_string_equal(log_quote(out, sizeof out, "\"\\\n\t\r\x01\x7f"),
                        "\"\\\"\\\\\\n\\t\\r\\u0001\\u007f\"");
    assert_string_equal(log_quote(out, sizeof out, NULL), "\"\"");
    assert_string_equal(log_quote(out, sizeof out, "gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"");
    assert_string_equal(log_quote(out, sizeof out, "\xc3"), "\"\\xc3\""); // an incomplete character
    assert_string_equal(log_quote(out, sizeof out, "\u202e\xc2\x9b"), "\"\\u202e\\u009b\"");
}

static void quoting_is_cut_between_characters(void **state)
{
    (void)state;
    char out[8];
    assert_string_equal(log_quote(out, 6, "abc"), "\"abc\"");
    assert_string_equal(log_quote(out, 6, "abcd"), "\"abc\"");
    assert_string_equal(log_quote(out, 6, "ab\xc3\xbc"), "\"ab\"");
    assert_string_equal(log_quote(out, 6, "ab\n"), "\"ab\"");
    assert_string_equal(log_quote(out, 3, "a"), "\"\"");
}

static void *write_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++)
        log_info("thread", "n=%d tail=end", i);
    return NULL;
}

static void write_from_threads(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, write_many, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void threads_do_not_mix_lines(void **state)
{
    (void)state;
    char *text = strdup(capture(write_from_threads)), *rest = text, *line;
    int count = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        assert_memory_equal(line, "ts=", 3);
        assert_string_equal(line + strlen(line) - 9, " tail=end");
        count++;
    }
    free(text);
    assert_int_equal(count, 800);
}

static int died_of;

static void die_in_child(void)
{
    pid_t child = fork();
    if (child == 0)
        must(1 + 1 == 3);
    int status;
    waitpid(child, &status, 0);
    died_of = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void broken_invariants_abort(void **state)
{
    (void)state;
    const char *line = capture(die_in_child);
    assert_int_equal(died_of, SIGABRT);
    assert_non_null(strstr(line, "what=\"1 + 1 == 3\""));
    assert_non_null(strstr(line, "test_log.c:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(no_value_begins_a_line),
        cmocka_unit_test(long_lines_are_cut_and_say_so),
        cmocka_unit_test(levels),
        cmocka_unit_test(quoting),
        cmocka_unit_test(quoting_is_cut_between_characters),
        cmocka_unit_test(threads_do_not_mix_lines),
        cmocka_unit_test(broken_invariants_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
