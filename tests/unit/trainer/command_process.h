// Runs commands of muster-trainer as processes. A test program that includes this starts itself
// again as the command: its main() begins with `if (argc > 1) return command_dispatch(argc,
// argv);`.
#ifndef MUSTER_TESTS_TRAINER_COMMAND_H
#define MUSTER_TESTS_TRAINER_COMMAND_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/os/file.h"
#include "base/os/proc.h"
#include "trainer/commands/commands.h"

enum { OUTPUT_MAX = 1 << 20, WORDS_MAX = 32 };

struct command_process {
    pid_t pid;
    const char *log;
    int code;
    char *output;
};

static inline void process_start(struct command_process *c, const char *log, ...)
{
    const char *argv[WORDS_MAX] = {"/proc/self/exe"};
    struct error e = {0};
    va_list words;
    int count = 1;
    va_start(words, log);
    while ((argv[count] = va_arg(words, const char *)))
        count++;
    va_end(words);
    *c = (struct command_process){.log = log};
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const struct proc_spec spec = {
        .argv = argv, .fd_in = -1, .fd_out = fd, .fd_err = fd, .die_with_parent = true};
    if (proc_spawn(&spec, &c->pid, NULL, &e))
        fail_msg("%s", e.text);
    close(fd);
}

static inline void process_finish(struct command_process *c)
{
    int status;
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    assert_int_equal(file_read(c->log, OUTPUT_MAX, &c->output, NULL, NULL), 0);
}

#define RUN(c, log, ...)                                                                           \
    do {                                                                                           \
        process_start(c, log, __VA_ARGS__, NULL);                                                  \
        process_finish(c);                                                                         \
    } while (0)

static inline void assert_says(const struct command_process *c, int code, const char *text)
{
    if (c->code != code || !strstr(c->output, text))
        fail_msg("exit code %d, not %d with \"%s\":\n%s", c->code, code, text, c->output);
}

// Waits until the log contains the text.
static inline void process_wait_for(const struct command_process *c, const char *text)
{
    for (int i = 0; i < 6000; i++) {
        char *output = NULL;
        file_read(c->log, OUTPUT_MAX, &output, NULL, NULL);
        bool found = output && strstr(output, text);
        free(output);
        if (found)
            return;
        clock_sleep_us(10 * 1000);
    }
    fail_msg("%s never said \"%s\"", c->log, text);
}

// The output line with the digest of the state.
static inline char *state_digest_line(const struct command_process *c)
{
    const char *line = strstr(c->output, "  state ");
    if (!line)
        fail_msg("no digest in:\n%s", c->output);
    return xasprintf("%.*s", (int)strcspn(line, "\n"), line);
}

// The children of a process in the order of their start; at most `most`.
static inline int list_children(pid_t pid, pid_t *out, int most)
{
    char path[64], *text = NULL;
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    assert_int_equal(file_read(path, 4096, &text, NULL, NULL), 0);
    for (char *at = text, *end; *at && count < most; at = end + (*end == ' ')) {
        long number = strtol(at, &end, 10);
        if (end == at)
            break;
        out[count++] = (pid_t)number;
    }
    free(text);
    return count;
}

static inline pid_t last_child(pid_t pid)
{
    pid_t all[64];
    int count = list_children(pid, all, 64);
    return count ? all[count - 1] : 0;
}

static inline int command_dispatch(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {
        {"bench", command_bench},   {"describe", command_describe}, {"run", command_run},
        {"export", command_export}, {"sample", command_sample},     {"worker", command_worker},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return -1;
}

#endif
