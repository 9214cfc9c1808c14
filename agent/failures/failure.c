#include "agent/failures/failure.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/failures/lines.h"
#include "agent/failures/traceback.h"
#include "base/text/size.h"

enum {
    SHELL_SIGNAL_BASE = 128, // the exit code of a shell is this plus the signal of its child
    TEXT_SHOWN = 260,        // bytes of a longer text that a sentence shows
    AFTER_MOST = 15,         // lines after a traceback; the exception was handled if there are more
    ABORT_MOST = 60,         // lines after the message of a program that aborts, such as its stack
};

const char *failure_kind_word(enum failure_kind kind)
{
    static const char *const words[FAILURE_KINDS] = {"exit", "exception", "out_of_memory",
                                                     "signal"};
    return words[kind];
}

// --- memory --------------------------------------------------------------------------------------

static bool has_any(const char *text, const char *const *signs)
{
    for (; *signs; signs++)
        if (strcasestr(text, *signs))
            return true;
    return false;
}

static bool is_out_of_memory(const char *text)
{
    static const char *const signs[] = {"out of memory",         "MemoryError",
                                        "std::bad_alloc",        "cannot allocate memory",
                                        "can't allocate memory", "unable to allocate",
                                        "RESOURCE_EXHAUSTED",    "ALLOC_FAILED",
                                        "OutOfMemoryError",      NULL};
    return has_any(text, signs);
}

static double gib(int64_t bytes)
{
    return (double)bytes / (1 << 30);
}

// The kernel kills with SIGKILL. Its counter says so where it can be read; a process that used half
// of the memory was probably the victim.
static void explain_kill(const struct failure_facts *f, struct failure *out)
{
    char limit[SIZE_TEXT];
    bool large = f->memory_bytes > 0 && f->peak_bytes >= f->memory_bytes / 2;
    bool counted = f->memory != MEMORY_NOT_KILLED;
    const char *cause = f->memory == MEMORY_KILLED ? "out of memory: the kernel killed it (SIGKILL)"
                        : counted ? "out of memory: the kernel probably killed it (SIGKILL)"
                        : large   ? "killed by SIGKILL, probably because it used up the memory"
                                  : "killed by SIGKILL, and not by Muster";
    out->kind = counted ? FAILURE_OUT_OF_MEMORY : FAILURE_SIGNAL;
    snprintf(out->text, sizeof out->text, "%s", cause);
    if (f->memory == MEMORY_KILLED && f->memory_limit)
        snprintf(out->text, sizeof out->text,
                 "%s; the task may use %s (--task-memory of the agent)", cause,
                 size_text((uint64_t)f->memory_limit, limit));
    else if (counted || large)
        snprintf(out->text, sizeof out->text,
                 "%s; its largest process used %.1f GiB, the machine has %.1f GiB", cause,
                 gib(f->peak_bytes), gib(f->memory_bytes));
}

// --- signals -------------------------------------------------------------------------------------

static int fatal_signal(int wait_status)
{
    static const int by_shell[] = {SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGSYS};
    if (WIFSIGNALED(wait_status))
        return WTERMSIG(wait_status);
    for (size_t i = 0; WIFEXITED(wait_status) && i < sizeof by_shell / sizeof *by_shell; i++)
        if (WEXITSTATUS(wait_status) == SHELL_SIGNAL_BASE + by_shell[i])
            return by_shell[i];
    return 0;
}

static void describe_signal(int signal, char *out, size_t cap)
{
    const char *name = sigabbrev_np(signal), *meaning = sigdescr_np(signal);
    if (!name)
        snprintf(out, cap, "killed by signal %d", signal);
    else if (!meaning || !strcasecmp(meaning, name))
        snprintf(out, cap, "killed by SIG%s", name);
    else
        snprintf(out, cap, "killed by SIG%s (%c%s)", name, tolower((unsigned char)meaning[0]),
                 meaning + 1);
}

// The handler of Python's module faulthandler writes the frames, the innermost one first.
static void find_fatal_place(const struct output_lines *l, const char *work_dir, char *out,
                             size_t cap)
{
    char place[TRACEBACK_PLACE];
    bool of_library = false, any = false;
    size_t i = l->count;
    while (i > 0 && !line_starts(&l->at[i - 1], "Fatal Python error: "))
        i--;
    for (; i > 0 && i < l->count; i++) {
        if (!traceback_read_frame(&l->at[i], work_dir, place, sizeof place, &of_library))
            continue;
        if (!any || !of_library)
            snprintf(out, cap, "%s", place);
        any = true;
        if (!of_library)
            return;
    }
}

static void explain_signal(const struct failure_facts *f, const struct output_lines *err,
                           int signal, struct failure *out)
{
    out->kind = FAILURE_SIGNAL;
    if (signal == SIGKILL) {
        explain_kill(f, out);
        return;
    }
    describe_signal(signal, out->text, sizeof out->text);
    find_fatal_place(err, f->work_dir, out->place, sizeof out->place);
}

// --- what programs print -------------------------------------------------------------------------

static bool find_exception(const struct output_lines *l, const char *work_dir, struct failure *out)
{
    struct traceback t;
    if (!traceback_find(l, work_dir, &t) || t.after > AFTER_MOST)
        return false;
    snprintf(out->text, sizeof out->text, "%s", t.text);
    snprintf(out->place, sizeof out->place, "%s", t.place);
    out->end_line = t.end;
    return true;
}

// libstdc++: "terminate called after throwing an instance of 'TYPE'", "  what():  TEXT".
static bool find_terminate(const struct output_lines *l, size_t i, struct failure *out)
{
    char type[TRACEBACK_TEXT], what[TRACEBACK_TEXT] = "";
    if (!line_find(&l->at[i], "terminate called after throwing"))
        return false;
    line_copy(&l->at[i], "an instance of '", type, sizeof type);
    type[strcspn(type, "'")] = '\0';
    if (i + 1 < l->count && line_starts(&l->at[i + 1], "what():"))
        line_copy(&l->at[i + 1], "what():  ", what, sizeof what);
    bool more = what[0] && strcmp(what, type) != 0;
    snprintf(out->text, sizeof out->text, "%s%s%s", type, more ? ": " : "", more ? what : "");
    return true;
}

// glibc: "PROGRAM: FILE:LINE: FUNCTION: Assertion `TEXT' failed."
static bool find_assertion(const struct output_lines *l, size_t i, struct failure *out)
{
    static const char sign[] = ": Assertion `";
    const char *at = line_find(&l->at[i], sign), *file = line_find(&l->at[i], ": ");
    if (!at || !line_find(&l->at[i], "' failed.") || !file || file >= at)
        return false;
    char text[TRACEBACK_TEXT];
    file += 2;
    snprintf(text, sizeof text, "%.*s", (int)(at - file), file);
    char *end = strstr(text, ": ");
    if (end)
        *end = '\0';
    snprintf(out->place, sizeof out->place, "%.*s", (int)sizeof out->place - 1, text);
    line_copy(&l->at[i], ": Assertion ", text, sizeof text);
    char *quote = strchr(text, '\''); // a long text is cut before it
    if (quote)
        quote[1] = '\0';
    snprintf(out->text, sizeof out->text, "assertion %s failed", text);
    return true;
}

// Rust, Go and the sanitizers of compilers.
static bool find_panic(const struct output_lines *l, size_t i, struct failure *out)
{
    const struct output_line *line = &l->at[i];
    bool sanitizer = line_starts(line, "SUMMARY: ") && line_find(line, "Sanitizer: ");
    if (!sanitizer && !line_starts(line, "panic: ") && !line_find(line, "' panicked at "))
        return false;
    line_copy(line, sanitizer ? "SUMMARY: " : NULL, out->text, sizeof out->text);
    size_t used = strlen(out->text);
    bool room = used + 2 < sizeof out->text;
    if (used > 0 && out->text[used - 1] == ':' && i + 1 < l->count && room) {
        out->text[used++] = ' '; // since 1.73 Rust prints the text on the next line
        line_copy(&l->at[i + 1], NULL, out->text + used, sizeof out->text - used);
    }
    return true;
}

static bool find_abort(const struct output_lines *l, struct failure *out)
{
    for (size_t i = l->count; i-- > 0 && l->count - i <= ABORT_MOST;)
        if (find_terminate(l, i, out) || find_assertion(l, i, out) || find_panic(l, i, out)) {
            out->end_line = i + 2 < l->count ? i + 2 : l->count;
            return true;
        }
    return false;
}

// torchrun's table of failures names the signal that killed a process.
static void name_torchrun_signal(const struct output_lines *l, struct failure *out)
{
    for (size_t i = l->count; i-- > 0;) {
        const char *at = line_find(&l->at[i], "traceback : Signal ");
        if (!at)
            continue;
        int signal = (int)strtol(at + strlen("traceback : Signal "), NULL, 10);
        describe_signal(signal, out->text, sizeof out->text);
        out->kind = FAILURE_SIGNAL;
        out->place[0] = '\0';
        out->end_line = 0;
        return;
    }
}

static bool find_error(const struct output_lines *l, const char *work_dir, struct failure *out)
{
    out->kind = FAILURE_EXCEPTION;
    if (!find_exception(l, work_dir, out))
        return find_abort(l, out);
    if (strstr(out->text, "ChildFailedError"))
        name_torchrun_signal(l, out);
    return true;
}

// --- the explanation -----------------------------------------------------------------------------

static void explain_lines(const struct failure_facts *f, const struct output_lines *err,
                          struct failure *out)
{
    static _Thread_local struct output_lines printed;
    lines_split(f->out_lines, &printed);
    if (find_error(err, f->work_dir, out))
        return;
    out->of_stdout = find_error(&printed, f->work_dir, out);
    if (out->of_stdout)
        return;
    out->kind = FAILURE_EXIT;
    if (!f->last_of_stdout)
        snprintf(out->text, sizeof out->text, "%s", f->last_line);
}

// An abort without a message of the program has the last line, such as that of malloc.
static void explain_abort(const struct failure_facts *f, const struct output_lines *err,
                          struct failure *out)
{
    char said[sizeof out->text];
    explain_lines(f, err, out);
    snprintf(said, sizeof said, "%s", out->text);
    describe_signal(SIGABRT, out->text, sizeof out->text);
    size_t used = strlen(out->text);
    if (said[0] && strncmp(said, "Aborted", 7) != 0) // the last line of a shell
        snprintf(out->text + used, sizeof out->text - used, ": %.400s", said);
    if (out->kind == FAILURE_EXIT)
        out->kind = FAILURE_SIGNAL;
    find_fatal_place(err, f->work_dir, out->place, sizeof out->place);
}

// A rank that wrote no error has at least its last line of progress.
static void add_last_line(const struct failure_facts *f, struct failure *out)
{
    char last[TEXT_SHOWN + 1];
    size_t used = strlen(out->sentence);
    snprintf(last, sizeof last, "%.*s", TEXT_SHOWN, f->last_line);
    text_shorten(last, TEXT_SHOWN);
    if (!out->text[0] && f->last_line[0])
        snprintf(out->sentence + used, sizeof out->sentence - used, "; its last line: %s", last);
    else if (!out->text[0])
        snprintf(out->sentence + used, sizeof out->sentence - used, "; it printed nothing");
}

static void write_sentence(struct failure *out, int wait_status)
{
    char how[32] = "";
    bool names_memory = strcasestr(out->text, "out of memory");
    bool memory = out->kind == FAILURE_OUT_OF_MEMORY && !names_memory;
    if (WIFEXITED(wait_status))
        snprintf(how, sizeof how, "exit %d%s", WEXITSTATUS(wait_status), out->text[0] ? ": " : "");
    bool brackets = out->text[0] && out->text[strlen(out->text) - 1] != ')';
    snprintf(out->sentence, sizeof out->sentence, "%s%s%s%s%s%s", how,
             memory ? "out of memory: " : "", out->text,
             !out->place[0] ? ""
             : brackets     ? " ("
                            : " at ",
             out->place, out->place[0] && brackets ? ")" : "");
}

void failure_explain(const struct failure_facts *f, struct failure *out)
{
    static _Thread_local struct output_lines err; // too large for the stack of a small thread
    int signal = fatal_signal(f->wait_status);
    *out = (struct failure){0};
    lines_split(f->err_lines, &err);
    if (f->told_text) {
        out->kind = FAILURE_EXCEPTION;
        snprintf(out->text, sizeof out->text, "%s", f->told_text);
        snprintf(out->place, sizeof out->place, "%s", f->told_place ? f->told_place : "");
        traceback_shorten_path(out->place, f->work_dir);
    } else if (signal == SIGABRT) {
        explain_abort(f, &err, out);
    } else if (signal) {
        explain_signal(f, &err, signal, out);
    } else {
        explain_lines(f, &err, out);
    }
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/", f->work_dir);
    text_remove(out->text, f->work_dir[0] ? folder : "");
    text_shorten(out->text, TEXT_SHOWN);
    if (out->kind != FAILURE_SIGNAL && is_out_of_memory(out->text))
        out->kind = FAILURE_OUT_OF_MEMORY;
    write_sentence(out, f->wait_status);
    add_last_line(f, out);
}
