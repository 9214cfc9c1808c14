// The spool: sequence numbers after crashes, cursors, a full disk, and released disk space.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/logs/log_spool.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"

static const char path[] = "log.spool";

static void append_line(struct log_spool *s, const char *text)
{
    const struct log_entry line = {
        .wall_us = 1000000,
        .rank = 2,
        .level = "INFO",
        .stream = "stdout",
        .source = "task",
        .text = text,
        .len = strlen(text),
    };
    log_spool_append(s, &line);
}

static void append_number(struct log_spool *s, int64_t n)
{
    char *text = xasprintf("line %lld", (long long)n);
    append_line(s, text);
    free(text);
}

static void open_new(struct log_spool *s)
{
    unlink(path);
    assert_int_equal(log_spool_open(s, path, 0, LOG_SPOOL_DISK_MAX, NULL), 0);
}

// Reads all lines after the cursor and moves it.
static json_t *read_all(struct spool_cursor *c)
{
    char *scratch = xcalloc(SPOOL_BYTES_PER_BATCH, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    json_t *all = json_array(), *lines;
    struct spool_cursor next;
    for (;;) {
        assert_int_equal(spool_read(fd, c, scratch, &lines, &next, NULL), 0);
        assert_true(json_array_size(lines) <= SPOOL_LINES_PER_BATCH);
        json_array_extend(all, lines);
        json_decref(lines);
        if (next.offset == c->offset)
            break;
        *c = next;
    }
    close(fd);
    free(scratch);
    return all;
}

static int64_t sequence_of(const json_t *lines, size_t i)
{
    return jget_int(json_array_get(lines, i), "sequence", -1);
}

static const char *text_of(const json_t *lines, size_t i)
{
    return jget_string(json_array_get(lines, i), "log", "");
}

static void lines_come_back(void **state)
{
    (void)state;
    struct log_spool s;
    struct spool_cursor c = {0};
    open_new(&s);
    append_line(&s, "hello \"world\"\t\x01 \xC3\xA9");
    append_line(&s, "broken \xFF byte");
    json_t *lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 2);
    const json_t *first = json_array_get(lines, 0);
    assert_string_equal(text_of(lines, 0), "hello \"world\"\t\x01 \xC3\xA9");
    assert_string_equal(text_of(lines, 1), "broken \xEF\xBF\xBD byte");
    assert_int_equal(jget_int(first, "rank", -1), 2);
    assert_string_equal(jget_string(first, "timestamp", ""), "1970-01-01T00:00:01.000000Z");
    assert_string_equal(jget_string(first, "stdtype", ""), "stdout");
    assert_int_equal(sequence_of(lines, 1), 2);
    json_decref(lines);
    lines = read_all(&c); // nothing new
    assert_int_equal(json_array_size(lines), 0);
    json_decref(lines);
    log_spool_close(&s);
}

static void batches_are_bounded(void **state)
{
    (void)state;
    struct log_spool s;
    struct spool_cursor c = {0};
    open_new(&s);
    for (int64_t n = 1; n <= 2 * SPOOL_LINES_PER_BATCH + 1; n++)
        append_number(&s, n);
    json_t *lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 2 * SPOOL_LINES_PER_BATCH + 1);
    for (size_t i = 0; i < json_array_size(lines); i++)
        assert_int_equal(sequence_of(lines, i), i + 1);
    json_decref(lines);
    log_spool_close(&s);
}

// A writer is killed within a line, and the next writer continues.
static void a_torn_line_is_taken_away(void **state)
{
    (void)state;
    struct log_spool s;
    struct spool_cursor c = {0};
    open_new(&s);
    append_number(&s, 1);
    append_number(&s, 2);
    log_spool_close(&s);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "{\"sequence\": 3, \"lo", 19), 19);
    close(fd);
    json_t *lines = read_all(&c); // without the incomplete line
    assert_int_equal(json_array_size(lines), 2);
    json_decref(lines);
    assert_int_equal(log_spool_open(&s, path, 0, LOG_SPOOL_DISK_MAX, NULL), 0);
    append_number(&s, 3);
    lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 1);
    assert_int_equal(sequence_of(lines, 0), 3);
    assert_string_equal(text_of(lines, 0), "line 3");
    json_decref(lines);
    log_spool_close(&s);
}

// The report socket tries to open its spool again for each line.
static void a_failed_open_leaves_no_descriptor(void **state)
{
    (void)state;
    struct log_spool s;
    struct error e = {0};
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); // it can be opened, but not read at an offset
    assert_int_equal(log_spool_open(&s, path, 0, LOG_SPOOL_DISK_MAX, &e), ERR_IO);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(s.file.fd, -1);
    unlink(path);
    log_spool_close(&s);
}

// After a power failure the file may lack lines that the master has received.
static void sequence_numbers_are_never_used_again(void **state)
{
    (void)state;
    struct log_spool s;
    struct spool_cursor c = {.offset = 0, .sequence = 7};
    open_new(&s);
    append_number(&s, 1);
    log_spool_close(&s);
    assert_int_equal(log_spool_open(&s, path, 7, LOG_SPOOL_DISK_MAX, NULL), 0);
    append_number(&s, 8);
    json_t *lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 1);
    assert_int_equal(sequence_of(lines, 0), 8);
    json_decref(lines);
    log_spool_close(&s);
}

static void damage_is_stepped_over(void **state)
{
    (void)state;
    struct log_spool s;
    struct spool_cursor c = {0};
    open_new(&s);
    append_number(&s, 1);
    log_spool_close(&s);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    char *zeros = xcalloc(3 * SPOOL_BYTES_PER_BATCH, 1);
    assert_int_equal(write(fd, zeros, 3 * SPOOL_BYTES_PER_BATCH), 3 * SPOOL_BYTES_PER_BATCH);
    assert_int_equal(write(fd, "\nnot json\n{\"sequence\":9,\"log\":\"after\"}\n", 39), 39);
    free(zeros);
    close(fd);
    json_t *lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 2);
    assert_string_equal(text_of(lines, 1), "after");
    json_decref(lines);
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// A limit on the file size simulates a full disk: a write is incomplete, and the next one fails.
static void a_full_disk_costs_lines_and_says_so(void **state)
{
    (void)state;
    struct log_spool s;
    struct spool_cursor c = {0};
    signal(SIGXFSZ, SIG_IGN);
    open_new(&s);
    append_number(&s, 1);
    limit_file_size((rlim_t)s.file.end + 10);
    for (int64_t n = 2; n <= 6; n++)
        append_number(&s, n);
    json_t *lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 1);
    json_decref(lines);
    limit_file_size(RLIM_INFINITY);
    append_number(&s, 7);
    lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 2);
    assert_non_null(strstr(text_of(lines, 0), "5 lines of output were dropped here: "));
    assert_string_equal(text_of(lines, 1), "line 7");
    assert_int_equal(sequence_of(lines, 0), 2);
    assert_int_equal(sequence_of(lines, 1), 3);
    json_decref(lines);
    log_spool_close(&s);
}

static void fill_spool(struct log_spool *s, int64_t bytes)
{
    char *text = xcalloc(1001, 1);
    memset(text, 'x', 1000);
    for (int64_t end = s->file.end + bytes; s->file.end < end && s->dropped == 0;)
        append_line(s, text);
    free(text);
}

// The size of the unsent part is limited, and shipping releases space.
static void waiting_output_is_bounded(void **state)
{
    (void)state;
    struct log_spool s;
    struct spool_cursor c = {0};
    unlink(path);
    assert_int_equal(log_spool_open(&s, path, 0, 4 << 20, NULL), 0);
    fill_spool(&s, 64 << 20);
    assert_true(s.dropped > 0);
    assert_true(s.file.end <= 6 << 20);
    json_decref(read_all(&c));
    spool_release(s.file.fd, &c);
    struct stat st;
    assert_int_equal(fstat(s.file.fd, &st), 0);
    if (st.st_blocks * 512 > 1 << 20) {
        log_spool_close(&s);
        skip(); // the file system has no holes
    }
    append_line(&s, "again");
    assert_int_equal(s.dropped, 0);
    json_t *lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 2);
    assert_non_null(strstr(text_of(lines, 0), "too much output waits"));
    assert_string_equal(text_of(lines, 1), "again");
    json_decref(lines);
    log_spool_close(&s);
    assert_int_equal(log_spool_open(&s, path, c.sequence, 4 << 20, NULL), 0); // with a hole
    append_line(&s, "once more");
    lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 1);
    json_decref(lines);
    log_spool_close(&s);
}

// Only whole blocks are released; the next line may begin within a block.
static void releasing_keeps_what_is_unsent(void **state)
{
    (void)state;
    enum { LINES = 150 };
    struct log_spool s;
    struct spool_cursor at[LINES + 1] = {0};
    char *scratch = xcalloc(SPOOL_BYTES_PER_BATCH, 1);
    open_new(&s);
    for (int i = 0; i < LINES; i++) {
        append_number(&s, i + 1);
        at[i + 1] = (struct spool_cursor){.offset = s.file.end, .sequence = i + 1};
    }
    assert_true(s.file.end > 3 * 4096);
    for (int shipped = 0; shipped <= LINES; shipped++) {
        struct spool_cursor next;
        json_t *lines;
        spool_release(s.file.fd, &at[shipped]);
        assert_int_equal(spool_read(s.file.fd, &at[shipped], scratch, &lines, &next, NULL), 0);
        assert_int_equal(json_array_size(lines), LINES - shipped);
        for (size_t i = 0; i < json_array_size(lines); i++)
            assert_int_equal(sequence_of(lines, i), shipped + (int)i + 1);
        json_decref(lines);
    }
    free(scratch);
    log_spool_close(&s);
}

// A cursor without its offset reads from the start and skips the lines that it has seen.
static void lines_that_were_seen_are_passed_over(void **state)
{
    (void)state;
    struct log_spool s;
    struct spool_cursor c = {.offset = 0, .sequence = 2};
    open_new(&s);
    for (int64_t n = 1; n <= 4; n++)
        append_number(&s, n);
    json_t *lines = read_all(&c);
    assert_int_equal(json_array_size(lines), 2);
    assert_int_equal(sequence_of(lines, 0), 3);
    json_decref(lines);
    log_spool_close(&s);
}

static void cursors(void **state)
{
    (void)state;
    struct spool_cursor c = {.offset = 5, .sequence = 6};
    spool_cursor_load("no.cursor", &c);
    assert_true(c.offset == 0 && c.sequence == 0);
    c = (struct spool_cursor){.offset = INT64_C(1) << 40, .sequence = 77};
    assert_int_equal(spool_cursor_save("log.cursor", &c, NULL), 0);
    c = (struct spool_cursor){0};
    spool_cursor_load("log.cursor", &c);
    assert_true(c.offset == INT64_C(1) << 40 && c.sequence == 77);
    assert_int_equal(file_write_durable("log.cursor", "{\"offset\": -4}", 14, 0600, NULL), 0);
    spool_cursor_load("log.cursor", &c);
    assert_true(c.offset == 0 && c.sequence == 0);
    assert_int_equal(file_write_durable("log.cursor", "{{{", 3, 0600, NULL), 0);
    spool_cursor_load("log.cursor", &c);
    assert_true(c.offset == 0 && c.sequence == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_back),
        cmocka_unit_test(batches_are_bounded),
        cmocka_unit_test(a_torn_line_is_taken_away),
        cmocka_unit_test(a_failed_open_leaves_no_descriptor),
        cmocka_unit_test(sequence_numbers_are_never_used_again),
        cmocka_unit_test(damage_is_stepped_over),
        cmocka_unit_test(a_full_disk_costs_lines_and_says_so),
        cmocka_unit_test(waiting_output_is_bounded),
        cmocka_unit_test(releasing_keeps_what_is_unsent),
        cmocka_unit_test(lines_that_were_seen_are_passed_over),
        cmocka_unit_test(cursors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
