// The report socket: answers in order, bad lines, limits, a full spool, and a spool that is opened
// again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/reports/report_server.h"
#include "agent/spool/spool.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/os/unix_socket.h"
#include "base/text/json.h"

#define PROGRESS "{\"kind\":\"progress\",\"progress\":0.5}\n"

static struct report_server *open_server(struct report_server_options options)
{
    struct report_server *s = NULL;
    options.dir = ".";
    options.disk_max = options.disk_max ? options.disk_max : LIMIT_REPORT_SPOOL;
    options.idle_us = options.idle_us ? options.idle_us : INT64_MAX;
    unlink(TASKDIR_REPORT_SPOOL);
    assert_int_equal(report_server_open(&options, &s, NULL), 0);
    return s;
}

static int connect_client(void)
{
    int fd = -1;
    assert_int_equal(unix_socket_connect(".", TASKDIR_REPORT_SOCKET, &fd, NULL), 0);
    return fd;
}

// Sends all bytes and reads `lines` answers, while the server runs.
static json_t *exchange(struct report_server *s, int fd, const char *text, size_t len, size_t lines)
{
    struct buf in;
    char chunk[4096];
    json_t *answers = json_array();
    buf_init(&in, 64 << 20);
    for (size_t sent = 0; json_array_size(answers) < lines;) {
        ssize_t n = sent < len ? send(fd, text + sent, len - sent, MSG_NOSIGNAL) : 0;
        sent += n > 0 ? (size_t)n : 0;
        report_server_handle(s);
        while ((n = recv(fd, chunk, sizeof chunk, 0)) > 0)
            buf_append(&in, chunk, (size_t)n);
        const char *stop;
        while (in.len > 0 && (stop = memchr(in.data, '\n', in.len))) {
            json_t *answer = json_loadb(in.data, (size_t)(stop - in.data), 0, NULL);
            assert_non_null(answer);
            json_array_append_new(answers, answer);
            buf_drop_front(&in, (size_t)(stop - in.data) + 1);
        }
    }
    assert_int_equal(json_array_size(answers), lines);
    assert_int_equal(in.len, 0);
    buf_free(&in);
    return answers;
}

static int64_t sequence_of(const json_t *answers, size_t i)
{
    return jget_int(json_array_get(answers, i), "sequence", -1);
}

static const char *error_of(const json_t *answers, size_t i)
{
    return jget_string(json_array_get(answers, i), "error", "");
}

static size_t spooled(void)
{
    struct spool_cursor at = {0}, next;
    char *scratch = xcalloc(SPOOL_BYTES_PER_BATCH, 1);
    int fd = open(TASKDIR_REPORT_SPOOL, O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    for (json_t *lines; fd >= 0; json_decref(lines), at = next) {
        assert_int_equal(spool_read(fd, &at, scratch, &lines, &next, NULL), 0);
        count += json_array_size(lines);
        if (next.offset == at.offset) {
            json_decref(lines);
            break;
        }
    }
    if (fd >= 0)
        close(fd);
    free(scratch);
    return count;
}

static void lines_are_answered_in_order(void **state)
{
    (void)state;
    static const char text[] =
        PROGRESS "nonsense\n" PROGRESS "\n{\"kind\":\"progress\"}\n" PROGRESS;
    struct report_server *s = open_server((struct report_server_options){0});
    int fd = connect_client(), other = connect_client();
    json_t *answers = exchange(s, fd, text, strlen(text), 6);
    assert_int_equal(sequence_of(answers, 0), 1);
    assert_non_null(strstr(error_of(answers, 1), "report:1:"));
    assert_int_equal(sequence_of(answers, 2), 2);
    assert_string_not_equal(error_of(answers, 3), "");
    assert_string_equal(error_of(answers, 4), "progress: expected a number from 0 to 1");
    assert_false(jget_bool(json_array_get(answers, 4), "retry", false));
    assert_int_equal(sequence_of(answers, 5), 3);
    json_decref(answers);
    answers = exchange(s, other, PROGRESS, strlen(PROGRESS), 1);
    assert_int_equal(sequence_of(answers, 0), 4);
    json_decref(answers);
    assert_int_equal(spooled(), 4);
    close(fd);
    close(other);
    report_server_close(s);
}

// A program that has ended may leave lines in the socket, the last of them without its end.
static void lines_of_an_ended_program_count(void **state)
{
    (void)state;
    struct report_server *s = open_server((struct report_server_options){0});
    static const char torn[] = PROGRESS "{\"kind\":\"progress\",\"progr";
    static const char whole[] = PROGRESS "{\"kind\":\"progress\",\"progress\":0.6}";
    int first = connect_client(), second = connect_client();
    assert_int_equal(send(first, torn, strlen(torn), 0), strlen(torn));
    assert_int_equal(send(second, whole, strlen(whole), 0), strlen(whole));
    close(first);
    close(second);
    report_server_drain(s);
    assert_int_equal(spooled(), 3);
    report_server_close(s);
}

static char *line_of(size_t bytes)
{
    static const char start[] = "{\"kind\":\"progress\",\"progress\":0.5,\"text\":\"";
    char *line = xcalloc(bytes + 2, 1);
    memset(line, 'x', bytes);
    memcpy(line, start, sizeof start - 1);
    memcpy(line + bytes - 2, "\"}\n", 3);
    return line;
}

static void long_lines_are_refused(void **state)
{
    (void)state;
    struct report_server *s = open_server((struct report_server_options){0});
    int fd = connect_client();
    for (size_t bytes = LIMIT_REPORT_LINE; bytes <= LIMIT_REPORT_LINE + (200 << 10);
         bytes = bytes == LIMIT_REPORT_LINE ? bytes + 1 : bytes + (100 << 10)) {
        char *line = line_of(bytes), *text = xasprintf("%s" PROGRESS, line);
        json_t *answers = exchange(s, fd, text, strlen(text), 2);
        assert_int_equal(sequence_of(answers, 0) > 0, bytes == LIMIT_REPORT_LINE);
        if (bytes > LIMIT_REPORT_LINE)
            assert_non_null(strstr(error_of(answers, 0), "longer than 1048576 bytes"));
        assert_true(sequence_of(answers, 1) > 0);
        json_decref(answers);
        free(text);
        free(line);
    }
    close(fd);
    report_server_close(s);
}

// A spool without room answers that the program shall try again, and takes lines when there is.
static void a_full_spool_says_so(void **state)
{
    (void)state;
    struct report_server *s = open_server((struct report_server_options){.disk_max = 2 << 20});
    int fd = connect_client();
    char *line = line_of(LIMIT_REPORT_LINE / 2);
    json_t *answers = NULL;
    for (int i = 0; i < 8; i++) {
        json_decref(answers);
        answers = exchange(s, fd, line, strlen(line), 1);
    }
    assert_non_null(strstr(error_of(answers, 0), "try again later: 2 MiB wait to be sent"));
    assert_true(jget_bool(json_array_get(answers, 0), "retry", false));
    json_decref(answers);
    size_t count = spooled();
    assert_true(count >= 3 && count <= 6);
    int spool = open(TASKDIR_REPORT_SPOOL, O_RDWR | O_CLOEXEC);
    struct spool_cursor shipped = {.offset = lseek(spool, 0, SEEK_END)};
    spool_release(spool, &shipped);
    close(spool);
    answers = exchange(s, fd, line, strlen(line), 1);
    assert_int_equal(sequence_of(answers, 0), count + 1);
    json_decref(answers);
    free(line);
    close(fd);
    report_server_close(s);
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_says_so(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct report_server *s = open_server((struct report_server_options){0});
    int fd = connect_client();
    limit_file_size(80);
    json_t *answers = exchange(s, fd, PROGRESS PROGRESS, 2 * strlen(PROGRESS), 2);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(sequence_of(answers, 0), 1);
    assert_non_null(strstr(error_of(answers, 1), "try again later: "));
    assert_true(jget_bool(json_array_get(answers, 1), "retry", false));
    json_decref(answers);
    assert_int_equal(spooled(), 1);
    answers = exchange(s, fd, PROGRESS, strlen(PROGRESS), 1);
    assert_int_equal(sequence_of(answers, 0), 2);
    json_decref(answers);
    assert_int_equal(spooled(), 2);
    close(fd);
    report_server_close(s);
}

// A later line that would fit does not overtake one that is to be sent again.
static void lines_that_are_sent_again_keep_their_order(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct report_server *s = open_server((struct report_server_options){0});
    int fd = connect_client(), other = connect_client();
    char *line = line_of(1000), *text = xasprintf("%snonsense\n" PROGRESS, line);
    limit_file_size(200);
    json_t *answers = exchange(s, fd, text, strlen(text), 3);
    assert_true(jget_bool(json_array_get(answers, 0), "retry", false));
    assert_false(jget_bool(json_array_get(answers, 1), "retry", false));
    assert_true(jget_bool(json_array_get(answers, 2), "retry", false));
    assert_non_null(strstr(error_of(answers, 2), "send the line again"));
    json_decref(answers);
    limit_file_size(RLIM_INFINITY);
    answers = exchange(s, other, PROGRESS, strlen(PROGRESS), 1); // of another program
    assert_int_equal(sequence_of(answers, 0), 1);
    json_decref(answers);
    answers = exchange(s, fd, PROGRESS, strlen(PROGRESS), 1);
    assert_true(jget_bool(json_array_get(answers, 0), "retry", false));
    json_decref(answers);
    free(text);
    text = xasprintf("%s" PROGRESS, line);
    answers = exchange(s, fd, text, strlen(text), 2);
    assert_int_equal(sequence_of(answers, 0), 2);
    assert_int_equal(sequence_of(answers, 1), 3);
    json_decref(answers);
    assert_int_equal(spooled(), 3);
    free(line);
    free(text);
    close(fd);
    close(other);
    report_server_close(s);
}

static void count_failure(void *ctx, const json_t *failure)
{
    assert_string_equal(jget_string(failure, "text", ""), "KeyError: 'x'");
    ++*(int *)ctx;
}

static void failures_stay_here(void **state)
{
    (void)state;
    static const char text[] =
        "{\"kind\":\"failure\",\"rank\":1,\"text\":\"KeyError: 'x'\"}\n" PROGRESS;
    int failures = 0;
    struct report_server *s = open_server((struct report_server_options){
        .refusal = "this task is no trial", .on_failure = count_failure, .ctx = &failures});
    int fd = connect_client();
    json_t *answers = exchange(s, fd, text, strlen(text), 2);
    assert_int_equal(failures, 1);
    assert_int_equal(sequence_of(answers, 0), 0);
    assert_string_equal(error_of(answers, 1), "this task is no trial");
    json_decref(answers);
    assert_int_equal(spooled(), 0);
    close(fd);
    report_server_close(s);
}

static void further_programs_wait(void **state)
{
    (void)state;
    int fds[LIMIT_REPORT_CLIENTS + 1];
    struct report_server *s = open_server((struct report_server_options){0});
    for (size_t i = 0; i <= LIMIT_REPORT_CLIENTS; i++) {
        fds[i] = connect_client();
        assert_int_equal(send(fds[i], PROGRESS, strlen(PROGRESS), 0), strlen(PROGRESS));
    }
    for (int i = 0; i < 100; i++)
        report_server_handle(s);
    assert_int_equal(spooled(), LIMIT_REPORT_CLIENTS);
    close(fds[0]);
    for (int i = 0; i < 100; i++)
        report_server_handle(s);
    assert_int_equal(spooled(), LIMIT_REPORT_CLIENTS + 1);
    for (size_t i = 1; i <= LIMIT_REPORT_CLIENTS; i++)
        close(fds[i]);
    report_server_close(s);
}

static void handle_often(struct report_server *s)
{
    for (int i = 0; i < 100; i++)
        report_server_handle(s);
}

// With all places taken, the connection that was idle for longest is closed when another one comes.
static void an_idle_program_gives_its_place(void **state)
{
    (void)state;
    enum { ALL = LIMIT_REPORT_CLIENTS, IDLE = 2 };
    int fds[ALL + 1];
    struct report_server *s = open_server((struct report_server_options){.idle_us = 1});
    for (size_t i = 0; i < ALL; i++)
        fds[i] = connect_client();
    handle_often(s);
    for (size_t i = 0; i < IDLE; i++)
        assert_int_equal(send(fds[i], PROGRESS, strlen(PROGRESS), 0), strlen(PROGRESS));
    handle_often(s);
    assert_int_equal(spooled(), IDLE);
    fds[ALL] = connect_client();
    handle_often(s);
    for (size_t i = 0; i <= ALL; i++) {
        bool closed = send(fds[i], PROGRESS, strlen(PROGRESS), MSG_NOSIGNAL) < 0 && errno == EPIPE;
        assert_int_equal(closed, i == IDLE);
    }
    handle_often(s);
    assert_int_equal(spooled(), IDLE + ALL);
    for (size_t i = 0; i <= ALL; i++)
        close(fds[i]);
    report_server_close(s);
}

// The check frees a place after the time, without another event.
static void a_program_that_waits_gets_a_place_later(void **state)
{
    (void)state;
    int fds[LIMIT_REPORT_CLIENTS + 1];
    struct report_server *s = open_server((struct report_server_options){.idle_us = 200000});
    for (size_t i = 0; i <= LIMIT_REPORT_CLIENTS; i++)
        fds[i] = connect_client();
    assert_int_equal(send(fds[LIMIT_REPORT_CLIENTS], PROGRESS, strlen(PROGRESS), 0),
                     strlen(PROGRESS));
    for (int i = 0; i < 500 && spooled() == 0; i++) {
        clock_sleep_us(10000);
        report_server_check(s);
        report_server_handle(s);
    }
    assert_int_equal(spooled(), 1);
    for (size_t i = 0; i <= LIMIT_REPORT_CLIENTS; i++)
        close(fds[i]);
    report_server_close(s);
}

static void *write_for_ever(void *fd)
{
    static char lines[256 << 10];
    memset(lines, 'x', sizeof lines);
    while (send(*(int *)fd, lines, sizeof lines, MSG_NOSIGNAL) > 0 || errno == EAGAIN)
        ;
    return NULL;
}

// A process of another task may write without end; the end of this task does not wait for it.
static void an_endless_writer_does_not_hold_the_end(void **state)
{
    (void)state;
    enum { WRITERS = 2 };
    pthread_t writers[WRITERS];
    struct report_server *s = open_server((struct report_server_options){0});
    int fd = connect_client(), late = -1;
    for (size_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, write_for_ever, &fd), 0);
    report_server_drain(s);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    assert_int_equal(unix_socket_connect(".", TASKDIR_REPORT_SOCKET, &late, NULL), ERR_UNAVAILABLE);
    report_server_close(s);
    close(fd);
}

// The rest of its lines counts, too, if a program ends without having read its answers.
static void unread_answers_do_not_hide_the_rest(void **state)
{
    (void)state;
    enum { BLOCKED = 200 };
    struct report_server *s = open_server((struct report_server_options){0});
    int fd = connect_client();
    size_t size = strlen(PROGRESS), sent = 0, still = 0;
    while (still < BLOCKED) {
        const char *rest = PROGRESS + sent % size;
        ssize_t n = send(fd, rest, strlen(rest), MSG_NOSIGNAL);
        still = n > 0 ? 0 : still + 1;
        sent += n > 0 ? (size_t)n : 0;
        report_server_handle(s);
    }
    close(fd);
    assert_true(spooled() < sent / size);
    report_server_drain(s);
    assert_true(sent % size == 0);
    assert_int_equal(spooled(), sent / size);
    report_server_close(s);
}

// A program that reads no answers is not read either, and loses nothing.
static void unread_answers_stop_a_program(void **state)
{
    (void)state;
    enum { LINES = 40000 };
    struct report_server *s = open_server((struct report_server_options){0});
    int fd = connect_client();
    char *text = xcalloc(LINES, strlen(PROGRESS) + 1);
    for (size_t i = 0; i < LINES; i++)
        memcpy(text + i * strlen(PROGRESS), PROGRESS, strlen(PROGRESS));
    size_t sent = 0, still = 0;
    while (still < 100) {
        ssize_t n = send(fd, text + sent, strlen(text) - sent, MSG_NOSIGNAL);
        still = n > 0 ? 0 : still + 1;
        sent += n > 0 ? (size_t)n : 0;
        report_server_handle(s);
    }
    assert_true(sent < strlen(text));
    json_t *answers = exchange(s, fd, text + sent, strlen(text) - sent, LINES);
    assert_int_equal(sequence_of(answers, LINES - 1), LINES);
    json_decref(answers);
    assert_int_equal(spooled(), LINES);
    free(text);
    close(fd);
    report_server_close(s);
}

static int64_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

// Sends as much of the text as the server takes.
static size_t send_much(struct report_server *s, int fd, const char *text, size_t len)
{
    size_t sent = 0;
    for (int still = 0; sent < len && still < 100; still++) {
        ssize_t n = send(fd, text + sent, len - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        still = n > 0 ? 0 : still;
        report_server_handle(s);
    }
    report_server_handle(s);
    return sent;
}

// Each program holds a line that does not end. Those that were idle for longest give way.
static void half_lines_have_a_limit_together(void **state)
{
    (void)state;
    enum { PROGRAMS = 100, FIT = LIMIT_REPORT_MEMORY / LIMIT_REPORT_LINE - 1 };
    int fds[PROGRAMS];
    struct report_server *s = open_server((struct report_server_options){0});
    char *line = line_of(LIMIT_REPORT_LINE), answer[ERROR_TEXT_MAX];
    int64_t before = heap_bytes();
    for (size_t i = 0; i < PROGRAMS; i++) {
        fds[i] = connect_client();
        assert_int_equal(send_much(s, fds[i], line, LIMIT_REPORT_LINE - 1), LIMIT_REPORT_LINE - 1);
        assert_true(heap_bytes() - before < LIMIT_REPORT_MEMORY + (2 << 20));
    }
    for (size_t i = 0; i < PROGRAMS; i++) {
        bool closed = send(fds[i], "\n", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE;
        assert_int_equal(closed, i < PROGRAMS - FIT);
    }
    ssize_t n = recv(fds[0], answer, sizeof answer - 1, 0);
    assert_true(n > 0);
    answer[n] = '\0';
    assert_non_null(strstr(answer, "hold more than 64 MiB"));
    assert_non_null(strstr(answer, "\"retry\":true}\n"));
    json_t *answers = exchange(s, fds[PROGRAMS - 1], "", 0, 1); // its line has ended
    assert_string_not_equal(error_of(answers, 0), "");
    json_decref(answers);
    answers = exchange(s, fds[PROGRAMS - 1], PROGRESS, strlen(PROGRESS), 1);
    assert_int_equal(sequence_of(answers, 0), 1);
    json_decref(answers);
    for (size_t i = 0; i < PROGRAMS; i++)
        close(fds[i]);
    assert_int_equal(spooled(), 1);
    free(line);
    report_server_close(s);
}

// Short lines have long answers; a program that does not read them gets a few of them at a time.
static void unread_answers_need_little_memory(void **state)
{
    (void)state;
    enum { LINES = 32 << 10, MOST = 512 << 10 };
    struct report_server *s = open_server((struct report_server_options){0});
    int fd = connect_client();
    char *lines = xcalloc(LINES, 1);
    memset(lines, '\n', LINES);
    int64_t before = heap_bytes();
    size_t sent = send_much(s, fd, lines, LINES);
    assert_true(heap_bytes() - before < MOST);
    json_t *answers = exchange(s, fd, lines + sent, LINES - sent, LINES);
    json_decref(answers);
    free(lines);
    close(fd);
    report_server_close(s);
}

// A program that has sent a long line keeps no memory for it.
static void idle_programs_need_little_memory(void **state)
{
    (void)state;
    enum { PROGRAMS = 20, MOST = 512 << 10 };
    int fds[PROGRAMS];
    struct report_server *s = open_server((struct report_server_options){0});
    char *line = line_of(LIMIT_REPORT_LINE);
    json_decref(exchange(s, fds[0] = connect_client(), line, strlen(line), 1));
    int64_t before = heap_bytes();
    for (size_t i = 1; i < PROGRAMS; i++)
        json_decref(exchange(s, fds[i] = connect_client(), line, strlen(line), 1));
    assert_true(heap_bytes() - before < MOST);
    for (size_t i = 0; i < PROGRAMS; i++)
        close(fds[i]);
    free(line);
    report_server_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_answered_in_order),
        cmocka_unit_test(lines_of_an_ended_program_count),
        cmocka_unit_test(long_lines_are_refused),
        cmocka_unit_test(a_full_spool_says_so),
        cmocka_unit_test(a_full_disk_says_so),
        cmocka_unit_test(lines_that_are_sent_again_keep_their_order),
        cmocka_unit_test(failures_stay_here),
        cmocka_unit_test(further_programs_wait),
        cmocka_unit_test(an_idle_program_gives_its_place),
        cmocka_unit_test(a_program_that_waits_gets_a_place_later),
        cmocka_unit_test(an_endless_writer_does_not_hold_the_end),
        cmocka_unit_test(unread_answers_do_not_hide_the_rest),
        cmocka_unit_test(unread_answers_stop_a_program),
        cmocka_unit_test(half_lines_have_a_limit_together),
        cmocka_unit_test(unread_answers_need_little_memory),
        cmocka_unit_test(idle_programs_need_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
