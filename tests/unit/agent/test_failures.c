// The explanations of failures, over outputs of real programs: each file of failures/ has the way
// the program ended, the expected explanation, and the output. "shown" is the last line of the
// excerpt that users see.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/failures/failure.h"
#include "agent/failures/lines.h"
#include "agent/failures/memory.h"
#include "agent/logs/log_tail.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"

// Statuses of waitpid(2) on Linux.
#define EXITED(code)   ((code) << 8)
#define KILLED(signal) (signal)

struct sample {
    char *text;
    int status;
    char kind[32], sentence[800], shown[600];
    struct log_tail err, out;
};

static void read_value(const char *header, const char *name, char *out, size_t cap)
{
    const char *at = strstr(header, name);
    out[0] = '\0';
    if (at) {
        at += strlen(name);
        snprintf(out, cap, "%.*s", (int)strcspn(at, "\n"), at);
    }
}

static void feed(struct log_tail *tail, const char *from, const char *to)
{
    log_tail_init(tail);
    while (from < to) {
        size_t len = strcspn(from, "\n");
        log_tail_add(tail, from, len);
        from += len + 1;
    }
}

static void sample_read(const char *name, struct sample *s)
{
    static const char out[] = "--- stdout\n", err[] = "--- stderr\n";
    char status[32];
    size_t len = 0;
    char *path = xasprintf(FAILURES_FOLDER "/%s", name);
    assert_int_equal(file_read(path, 1 << 20, &s->text, &len, NULL), 0);
    free(path);
    char *stdout_at = strstr(s->text, out), *stderr_at = strstr(s->text, err);
    assert_non_null(stdout_at);
    assert_non_null(stderr_at);
    feed(&s->out, stdout_at + sizeof out - 1, stderr_at);
    feed(&s->err, stderr_at + sizeof err - 1, s->text + len);
    stdout_at[0] = '\0';
    read_value(s->text, "status: ", status, sizeof status);
    read_value(s->text, "kind: ", s->kind, sizeof s->kind);
    read_value(s->text, "sentence: ", s->sentence, sizeof s->sentence);
    read_value(s->text, "shown: ", s->shown, sizeof s->shown);
    int number = (int)strtol(strchr(status, ' '), NULL, 10);
    s->status = status[0] == 'e' ? EXITED(number) : KILLED(number);
}

static void sample_free(struct sample *s)
{
    free(s->text);
    log_tail_free(&s->err);
    log_tail_free(&s->out);
}

static void explain_sample(const struct sample *s, struct failure *out)
{
    char last[256];
    log_tail_last_line(s->err.lines > 0 ? &s->err : &s->out, last, sizeof last);
    const struct failure_facts facts = {
        .wait_status = s->status,
        .err_lines = log_tail_text(&s->err),
        .out_lines = log_tail_text(&s->out),
        .last_line = last,
        .last_of_stdout = s->err.lines == 0,
        .work_dir = "/task/code",
    };
    failure_explain(&facts, out);
}

static const char *last_shown(const struct sample *s, const struct failure *f, json_t **shown)
{
    bool of_stdout = f->of_stdout || s->err.lines == 0;
    *shown = log_tail_json(of_stdout ? &s->out : &s->err, f->end_line);
    const char *text = json_string_value(*shown), *last = strrchr(text, '\n');
    return last ? last + 1 : text;
}

static bool is_as_expected(const char *name)
{
    struct sample s = {0};
    struct failure f;
    json_t *shown;
    sample_read(name, &s);
    explain_sample(&s, &f);
    const char *last = last_shown(&s, &f, &shown);
    bool same = !strcmp(failure_kind_word(f.kind), s.kind) && !strcmp(f.sentence, s.sentence) &&
                !strcmp(last, s.shown);
    if (!same)
        print_error("%s\nkind: %s\nsentence: %s\nshown: %s\n", name, failure_kind_word(f.kind),
                    f.sentence, last);
    json_decref(shown);
    sample_free(&s);
    return same;
}

static void programs_that_failed(void **state)
{
    (void)state;
    int wrong = 0, count = 0;
    DIR *folder = opendir(FAILURES_FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strstr(entry->d_name, ".txt")) {
            count++;
            wrong += !is_as_expected(entry->d_name);
        }
    closedir(folder);
    assert_true(count >= 60);
    assert_int_equal(wrong, 0);
}

static void expect_sentence(const struct failure_facts *facts, enum failure_kind kind,
                            const char *sentence)
{
    struct failure_facts all = *facts;
    struct failure f;
    all.err_lines = all.err_lines ? all.err_lines : "";
    all.out_lines = all.out_lines ? all.out_lines : "";
    all.last_line = all.last_line ? all.last_line : "";
    all.work_dir = all.work_dir ? all.work_dir : "";
    failure_explain(&all, &f);
    assert_string_equal(f.sentence, sentence);
    assert_int_equal(f.kind, kind);
}

static void the_kernel_kills_when_memory_runs_out(void **state)
{
    (void)state;
    const int64_t gib = 1 << 30;
    const struct failure_facts counted = {.wait_status = KILLED(SIGKILL),
                                          .memory = MEMORY_KILLED,
                                          .peak_bytes = 3 * gib,
                                          .memory_bytes = 16 * gib};
    expect_sentence(&counted, FAILURE_OUT_OF_MEMORY,
                    "out of memory: the kernel killed it (SIGKILL); its largest process used 3.0 "
                    "GiB, the machine has 16.0 GiB");
    struct failure_facts limited = counted;
    limited.memory_limit = 4 * gib;
    expect_sentence(&limited, FAILURE_OUT_OF_MEMORY,
                    "out of memory: the kernel killed it (SIGKILL); the task may use 4.0 GiB "
                    "(--task-memory of the agent)");
    const struct failure_facts by_shell = {.wait_status = EXITED(137),
                                           .err_lines = "Killed\n",
                                           .memory = MEMORY_MAYBE_KILLED,
                                           .peak_bytes = gib,
                                           .memory_bytes = 2 * gib};
    expect_sentence(&by_shell, FAILURE_OUT_OF_MEMORY,
                    "exit 137: out of memory: the kernel probably killed it (SIGKILL); its largest "
                    "process used 1.0 GiB, the machine has 2.0 GiB");
    const struct failure_facts large = {
        .wait_status = KILLED(SIGKILL), .peak_bytes = 8 * gib, .memory_bytes = 16 * gib};
    expect_sentence(&large, FAILURE_SIGNAL,
                    "killed by SIGKILL, probably because it used up the memory; its largest "
                    "process used 8.0 GiB, the machine has 16.0 GiB");
    const struct failure_facts small = {
        .wait_status = KILLED(SIGKILL), .peak_bytes = 8 * gib - 1, .memory_bytes = 16 * gib};
    expect_sentence(&small, FAILURE_SIGNAL, "killed by SIGKILL, and not by Muster");
    // Another process may have been the victim.
    const struct failure_facts other = {
        .wait_status = EXITED(3), .memory = MEMORY_KILLED, .last_line = "no data"};
    expect_sentence(&other, FAILURE_EXIT, "exit 3: no data");
}

static void the_program_reports_its_exception(void **state)
{
    (void)state;
    const struct failure_facts told = {
        .wait_status = EXITED(1),
        .err_lines = "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n",
        .work_dir = "/task/code",
        .told_text = "ValueError: bad shape",
        .told_place = "/task/code/train.py:31",
    };
    expect_sentence(&told, FAILURE_EXCEPTION, "exit 1: ValueError: bad shape (train.py:31)");
    struct failure_facts memory = told;
    memory.told_text = "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB";
    memory.told_place = NULL;
    expect_sentence(&memory, FAILURE_OUT_OF_MEMORY,
                    "exit 1: RuntimeError: CUDA out of memory. Tried to allocate 2 GiB");
}

static void a_handled_exception_is_no_cause(void **state)
{
    (void)state;
    struct buf lines;
    buf_init(&lines, 1 << 16);
    buf_puts(&lines, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    x\n"
                     "KeyError: 'x'\n");
    for (int i = 0; i < 15; i++)
        buf_printf(&lines, "step %d\n", i);
    struct failure_facts facts = {
        .wait_status = EXITED(1), .err_lines = buf_str(&lines), .last_line = "no data"};
    expect_sentence(&facts, FAILURE_EXCEPTION, "exit 1: KeyError: 'x' (a.py:1)");
    buf_puts(&lines, "no data\n");
    facts.err_lines = buf_str(&lines);
    expect_sentence(&facts, FAILURE_EXIT, "exit 1: no data");
    facts.wait_status = KILLED(SIGSEGV);
    expect_sentence(&facts, FAILURE_SIGNAL, "killed by SIGSEGV (segmentation fault)");
    buf_free(&lines);
}

static void stdout_is_searched_if_stderr_has_no_error(void **state)
{
    (void)state;
    const struct failure_facts facts = {
        .wait_status = EXITED(1),
        .err_lines = "warning: slow disk\n",
        .out_lines = "  File \"a.py\", line 3, in f\n    x\nKeyError: 'x'\n",
        .last_line = "warning: slow disk",
    };
    expect_sentence(&facts, FAILURE_EXCEPTION, "exit 1: KeyError: 'x' (a.py:3)");
}

// Cuts an output at every byte, as a program that dies while it writes does.
static void torn_outputs(void **state)
{
    (void)state;
    struct sample s = {0};
    struct failure f;
    sample_read("torchrun.txt", &s);
    char *text = xstrdup(log_tail_text(&s.err));
    for (size_t len = strlen(text); len-- > 0;) {
        text[len] = '\0';
        const struct failure_facts facts = {.wait_status = EXITED(1),
                                            .err_lines = text,
                                            .out_lines = text + len / 2,
                                            .last_line = "",
                                            .work_dir = "/task/code"};
        failure_explain(&facts, &f);
        assert_true(strlen(f.sentence) < sizeof f.sentence);
    }
    free(text);
    sample_free(&s);
}

static void long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    char text[600];
    struct failure f;
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    struct failure_facts facts = {.wait_status = EXITED(1),
                                  .err_lines = "",
                                  .out_lines = "",
                                  .last_line = text,
                                  .work_dir = ""};
    failure_explain(&facts, &f);
    assert_int_equal(strlen(f.text), 260);
    assert_string_equal(f.text + 256, "\xc3\xa9..");
}

static void lines_lose_their_prefixes(void **state)
{
    (void)state;
    static struct output_lines l;
    lines_split("[rank12]:   File \"x\"\n[default0]:a\n  | b\n\n[rank]: c", &l);
    assert_int_equal(l.count, 5);
    assert_int_equal(l.at[0].indent, 2);
    assert_true(line_starts(&l.at[0], "File \"x\""));
    assert_true(line_starts(&l.at[1], "a"));
    assert_true(line_starts(&l.at[2], "b"));
    assert_int_equal(l.at[3].len, 0);
    assert_true(line_starts(&l.at[4], "[rank]: c"));
}

static void counters_of_the_kernel(void **state)
{
    (void)state;
    const char *events = "low 0\nhigh 3\noom 4\noom_kill 17\noom_group_kill 2\n";
    assert_int_equal(memory_read_field(events, "oom_kill "), 17);
    assert_int_equal(memory_read_field(events, "oom "), 4);
    assert_int_equal(memory_read_field(events, "absent "), -1);
    assert_int_equal(memory_read_field("MemTotal:       16384 kB\n", "MemTotal:"), 16384);
    assert_int_equal(memory_read_field("max\n", ""), -1);
    assert_int_equal(memory_read_field("4096\n", ""), 4096);
    assert_int_equal(memory_read_field("", ""), -1);
    assert_true(memory_bytes() > 0);
}

static void a_long_assertion_is_cut(void **state)
{
    (void)state;
    char line[1200];
    struct failure f;
    snprintf(line, sizeof line, "prog: a.c:3: main: Assertion `%0900d' failed.\n", 0);
    const struct failure_facts facts = {.wait_status = KILLED(SIGABRT),
                                        .err_lines = line,
                                        .out_lines = "",
                                        .last_line = "",
                                        .work_dir = ""};
    failure_explain(&facts, &f);
    assert_non_null(strstr(f.sentence, "assertion `0000"));
    assert_non_null(strstr(f.sentence, "(a.c:3)"));
}

// The text has no room for the next line, which Rust prints after a colon.
static void a_long_panic_is_cut(void **state)
{
    (void)state;
    char line[1200];
    struct failure f;
    for (int more = -3; more <= 3; more++) {
        int len = (int)sizeof f.text + more;
        snprintf(line, sizeof line, "panic: %0*d:\nnext\n", len - 8, 0);
        const struct failure_facts facts = {.wait_status = EXITED(2),
                                            .err_lines = line,
                                            .out_lines = "",
                                            .last_line = "",
                                            .work_dir = ""};
        failure_explain(&facts, &f);
        assert_non_null(strstr(f.sentence, "panic: 0000"));
    }
}

static void kills_of_other_tasks_do_not_count(void **state)
{
    (void)state;
    const struct memory_kills before = {.cgroup = 3, .machine = 8};
    const struct memory_kills own = {.cgroup = 4, .machine = 9},
                              other = {.cgroup = 3, .machine = 9};
    assert_int_equal(memory_judge(&before, &before), MEMORY_NOT_KILLED);
    assert_int_equal(memory_judge(&before, &own), MEMORY_KILLED);
    assert_int_equal(memory_judge(&before, &other), MEMORY_NOT_KILLED);
    // Without the counter of the cgroup, that of the machine is a hint.
    const struct memory_kills some = {.cgroup = -1, .machine = 8};
    const struct memory_kills more = {.cgroup = -1, .machine = 9};
    const struct memory_kills unknown = {.cgroup = -1, .machine = -1};
    assert_int_equal(memory_judge(&some, &some), MEMORY_NOT_KILLED);
    assert_int_equal(memory_judge(&some, &more), MEMORY_MAYBE_KILLED);
    assert_int_equal(memory_judge(&unknown, &unknown), MEMORY_NOT_KILLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_that_failed),
        cmocka_unit_test(the_kernel_kills_when_memory_runs_out),
        cmocka_unit_test(kills_of_other_tasks_do_not_count),
        cmocka_unit_test(a_long_assertion_is_cut),
        cmocka_unit_test(a_long_panic_is_cut),
        cmocka_unit_test(the_program_reports_its_exception),
        cmocka_unit_test(a_handled_exception_is_no_cause),
        cmocka_unit_test(stdout_is_searched_if_stderr_has_no_error),
        cmocka_unit_test(torn_outputs),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(lines_lose_their_prefixes),
        cmocka_unit_test(counters_of_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
