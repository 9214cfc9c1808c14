#include "agent/supervisor/rank_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/failures/lines.h"
#include "agent/failures/memory.h"
#include "agent/tasks/task_spec.h"
#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/proc.h"
#include "base/text/json.h"

enum {
    CHUNK = 64 * 1024, // bytes of one read
    PIPE_BYTES = 1 << 20,
};

void rank_process_init(struct rank_process *r, int number, struct log_spool *spool)
{
    *r = (struct rank_process){.number = number};
    log_tail_init(&r->told_traceback);
    for (int i = 0; i < 2; i++) {
        r->outputs[i] = (struct rank_output){
            .fd = -1, .rank = number, .name = i == 0 ? "stdout" : "stderr", .spool = spool};
        line_splitter_init(&r->outputs[i].lines);
        log_tail_init(&r->outputs[i].tail);
    }
}

void rank_process_free(struct rank_process *r)
{
    for (int i = 0; i < 2; i++) {
        line_splitter_free(&r->outputs[i].lines);
        log_tail_free(&r->outputs[i].tail);
    }
    log_tail_free(&r->told_traceback);
    free(r->told_text);
    free(r->told_place);
}

const struct log_tail *rank_process_tail(const struct rank_process *r)
{
    const struct log_tail *err = &r->outputs[1].tail;
    return err->lines > 0 ? err : &r->outputs[0].tail;
}

// --- failures ------------------------------------------------------------------------------------

static void split_traceback(struct rank_process *r, const char *text)
{
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        log_tail_add(&r->told_traceback, text, len);
    }
}

void rank_process_tell(struct rank_process *r, const json_t *failure)
{
    if (r->told_text)
        return;
    r->told_text = xstrdup(jget_string(failure, "text", ""));
    r->told_place = xstrdup(jget_string(failure, "place", ""));
    split_traceback(r, jget_string(failure, "traceback", ""));
}

void rank_process_explain(const struct rank_process *r, const char *work_dir,
                          enum memory_verdict memory, struct failure *out)
{
    char last[512];
    const struct log_tail *tail = rank_process_tail(r);
    log_tail_last_line(tail, last, sizeof last);
    const struct failure_facts facts = {
        .wait_status = r->wait_status,
        .err_lines = log_tail_text(&r->outputs[1].tail),
        .out_lines = log_tail_text(&r->outputs[0].tail),
        .last_line = last,
        .last_of_stdout = tail == &r->outputs[0].tail,
        .work_dir = work_dir,
        .memory = memory,
        .peak_bytes = r->peak_bytes,
        .memory_bytes = memory_bytes(),
        .memory_limit = r->memory_limit,
        .told_text = r->told_text,
        .told_place = r->told_place,
    };
    failure_explain(&facts, out);
}

json_t *rank_process_last_lines(const struct rank_process *r, const char *work_dir,
                                const struct failure *f)
{
    const struct log_tail *tail = r->told_traceback.lines > 0 ? &r->told_traceback
                                  : f->of_stdout              ? &r->outputs[0].tail
                                                              : rank_process_tail(r);
    json_t *lines = log_tail_json(tail, f->end_line);
    char *folder = xasprintf("%s/", work_dir), *text = xstrdup(json_string_value(lines));
    text_remove(text, folder);
    must(json_string_set(lines, text) == 0);
    free(text);
    free(folder);
    return lines;
}

json_t *rank_process_json(const struct rank_process *r)
{
    bool ran = r->ended && r->pid > 0; // a rank that did not start has no status
    bool exited = ran && WIFEXITED(r->wait_status);
    bool killed = ran && WIFSIGNALED(r->wait_status);
    json_t *json =
        json_pack("{s:i, s:i, s:o, s:o}", "rank", r->number, "pid", (int)r->pid, "exitCode",
                  exited ? json_integer(WEXITSTATUS(r->wait_status)) : json_null(), "signal",
                  killed ? json_integer(WTERMSIG(r->wait_status)) : json_null());
    must(json);
    return json;
}

// --- output --------------------------------------------------------------------------------------

static void append_line(void *ctx, const char *text, size_t len)
{
    struct rank_output *o = ctx;
    struct parsed_line v = line_parse_prefix(text, len);
    log_tail_add(&o->tail, text, len);
    const struct log_entry line = {
        .wall_us = clock_wall_us(),
        .rank = v.rank >= 0 ? v.rank : o->rank,
        .level = v.level,
        .stream = o->name,
        .source = "task",
        .text = v.text,
        .len = v.len,
    };
    log_spool_append(o->spool, &line);
}

static void close_output(struct rank_output *o)
{
    if (o->fd < 0)
        return;
    line_splitter_end(&o->lines, append_line, o);
    close(o->fd);
    o->fd = -1;
}

bool rank_output_read(struct rank_output *o)
{
    char chunk[CHUNK];
    ssize_t n = read(o->fd, chunk, sizeof chunk);
    if (n > 0)
        line_splitter_feed(&o->lines, chunk, (size_t)n, append_line, o);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_output(o);
    return n > 0;
}

void rank_output_read_rest(struct rank_output *o)
{
    for (int left = PIPE_BYTES / CHUNK; left > 0 && o->fd >= 0 && rank_output_read(o); left--)
        ;
}

// A program of another task may hold the other end and write for ever.
void rank_output_drain(struct rank_output *o)
{
    rank_output_read_rest(o);
    close_output(o);
}

// --- start ---------------------------------------------------------------------------------------

static int open_pipe(struct rank_output *o, int *write_fd, struct error *e)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create a pipe");
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    o->fd = fds[0];
    *write_fd = fds[1];
    return 0;
}

static int spawn_rank(struct rank_process *r, const char *dir, const char *const *argv,
                      const char *const *envp, int fd_in, struct error *e)
{
    int out_fd = -1, err_fd = -1;
    char *work = path_join(dir, TASKDIR_WORK);
    int err = open_pipe(&r->outputs[0], &out_fd, e);
    if (!err)
        err = open_pipe(&r->outputs[1], &err_fd, e);
    if (err)
        goto out;
    const struct proc_spec spec = {
        .argv = argv,
        .envp = envp,
        .cwd = work,
        .fd_in = fd_in,
        .fd_out = out_fd,
        .fd_err = err_fd,
        .new_group = true,
        .die_with_parent = true,
        .prepare = r->confinement ? confine_process : NULL,
        .prepare_ctx = r->confinement,
    };
    err = proc_spawn(&spec, &r->pid, NULL, e);
out:
    if (out_fd >= 0)
        close(out_fd);
    if (err_fd >= 0)
        close(err_fd);
    free(work);
    return err;
}

static const char **make_argv(const json_t *words)
{
    const char **argv = xcalloc(json_array_size(words) + 1, sizeof *argv);
    size_t i;
    json_t *word;
    json_array_foreach(words, i, word) argv[i] = json_string_value(word);
    return argv;
}

static char **make_envp(const json_t *env)
{
    char **envp = xcalloc(json_object_size(env) + 1, sizeof *envp);
    size_t i = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)env, name, value) envp[i++] =
        xasprintf("%s=%s", name, json_string_value(value));
    return envp;
}

int rank_process_spawn(struct rank_process *r, const char *dir, const json_t *argv,
                       const json_t *env, int fd_in, struct error *e)
{
    char **envp = make_envp(env);
    const char **words = make_argv(argv);
    int err = spawn_rank(r, dir, words, (const char *const *)envp, fd_in, e);
    for (char **p = envp; *p; p++)
        free(*p);
    free(envp);
    free(words);
    return err;
}

int rank_process_start(struct rank_process *r, const char *dir, const json_t *spec,
                       const json_t *entry, struct error *e)
{
    json_t *env = task_spec_environment(spec, entry);
    int err = rank_process_spawn(r, dir, jget(spec, "argv"), env, -1, e);
    json_decref(env);
    return err ? error_prefix(e, "rank %d could not be started", r->number) : 0;
}
