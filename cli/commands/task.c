// Commands and generic tasks: run and follow one, list, kill.
//
// The output of a running program is shown as it comes, its standard output on ours. The master may
// be unreachable for a while: the output continues where it stopped. Ctrl-C ends the following, not
// the program.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "api/wire.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/printable.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

enum { AWAY_US = 500 * 1000, LOST_US = 60 * 1000000, REPEAT_US = 15 * 1000000 };

struct task_noun {
    const char *name, *title, *list, *path, *act; // one task: path/ID; verbs: act/ID/VERB
};

static const struct task_noun *task_noun_of(const struct command *self)
{
    static const struct task_noun nouns[] = {
        {"command", "Command", "commands", "commands", "commands"},
        {"task", "Task", "tasks", "generic-tasks", "tasks"},
    };
    return &nouns[strcmp(self->noun, "task") == 0];
}

// --- ids -----------------------------------------------------------------------------------------

// A full id is a number, a dot and a UUID. The number alone is enough.
static bool id_matches(const char *whole, const char *given)
{
    size_t len = strlen(given);
    return strncmp(whole, given, len) == 0 &&
           (strchr(given, '.') || whole[len] == '.' || whole[len] == '\0');
}

static int expand_id(struct cli *c, const struct task_noun *noun, const char *given,
                     const char **id, struct error *e)
{
    const char *dot = strchr(given, '.');
    json_t *list = NULL;
    size_t i, found = 0;
    json_t *task;
    *id = given;
    if (dot && strlen(dot) == UUID_TEXT)
        return 0;
    int err = cli_list(c, noun->list, 0, &list, e, "/api/v1/%s", noun->path);
    json_array_foreach(list, i, task)
    {
        const char *whole = jget_string(task, "id", "");
        if (id_matches(whole, given)) {
            *id = arena_strdup(&c->arena, whole);
            found++;
        }
    }
    json_decref(list);
    return err || found == 1
               ? err
               : error_set(e, ERR_NOT_FOUND,
                           "there is no %s %s, or several ids match; see: muster %s list",
                           noun->name, given, noun->name);
}

// --- following -----------------------------------------------------------------------------------

static char interrupt_hint[256]; // printed by on_interrupt()

static void on_interrupt(int sig)
{
    (void)sig;
    ssize_t n = write(STDERR_FILENO, interrupt_hint, strlen(interrupt_hint));
    _exit(n < 0 ? 1 : 130);
}

struct task_output {
    struct cli *c;
    char last[24]; // id of the last printed line
};

static int on_task_line(void *ctx, const json_t *line, struct error *e)
{
    (void)e;
    struct task_output *l = ctx;
    snprintf(l->last, sizeof(l->last), "%s", jget_string(line, "id", l->last));
    bool is_out = strcmp(jget_string(line, "stdtype", "stdout"), "stdout") == 0;
    FILE *to = is_out ? stdout : stderr;
    if (l->c->format == OUTPUT_JSON || l->c->format == OUTPUT_JSONL) {
        json_dumpf(line, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        const char *text = jget_string(line, "log", "");
        size_t len = strlen(text);
        fputs(text, to);
        if (len == 0 || text[len - 1] != '\n')
            fputc('\n', to);
    }
    fflush(to);
    return 0;
}

static bool is_away(int err)
{
    return err == ERR_UNAVAILABLE || err == ERR_TIMEOUT || err == ERR_PEER || err == ERR_IO;
}

static int fetch_task(struct cli *c, const struct task_noun *noun, const char *id, json_t **answer,
                      struct error *e)
{
    return cli_call(c, "GET", NULL, answer, e, "/api/v1/%s/%s", noun->path, id);
}

// The program's exit code becomes the exit code of this command.
static int set_exit_code(struct cli *c, const struct task_noun *noun, const char *id,
                         const json_t *task, struct error *e)
{
    const json_t *code = jget(task, "exitCode");
    if (json_is_integer(code)) {
        c->exit_code = (int)json_integer_value(code);
        return 0;
    }
    return error_set(e, ERR_FAILED, "%s %s has ended: %s", noun->name, id,
                     jget_string(task, "exitStatus", "killed"));
}

// Prints the output until the task has ended. A broken stream is opened again after the last
// printed line.
static int follow_task(struct cli *c, const struct task_noun *noun, const char *id, struct error *e)
{
    struct task_output l = {.c = c, .last = "0"};
    int64_t away_since = 0;
    int err = 0;
    for (bool over = false; !over && !err;) {
        json_t *answer = NULL;
        char *path = xasprintf("/api/v1/tasks/%s/logs?follow=true&after=%s", id, l.last);
        err = client_stream(c->client, path, on_task_line, &l, e);
        free(path);
        err = err ? err : fetch_task(c, noun, id, &answer, e);
        const json_t *task = jget(answer, noun->name);
        over = !err && jget(task, "endTime");
        if (over)
            err = set_exit_code(c, noun, id, task, e);
        json_decref(answer);
        int64_t now = clock_mono_us();
        away_since = !is_away(err) ? 0 : away_since != 0 ? away_since : now;
        if (away_since != 0 && now - away_since < LOST_US) {
            err = 0;
            usleep(AWAY_US);
        }
    }
    return err;
}

static int report_started(struct cli *c, const struct task_noun *noun, const char *id,
                          const json_t *answer, struct error *e)
{
    size_t i;
    json_t *warning;
    json_array_foreach(jget(answer, "warningTexts"), i, warning)
    {
        fprintf(stderr, "warning: %s\n", json_string_value(warning));
    }
    if (c->options.detach && c->options.quiet && c->format == OUTPUT_TABLE) {
        puts(id);
        return 0;
    }
    if (c->options.detach)
        return cli_report(c, json_pack("{s:s}", "id", id), e, "Started %s %s", noun->name, id);
    if (!c->options.quiet)
        fprintf(stderr, "Started %s %s\n", noun->name, id);
    char *shown = printable_text(id, ""); // the handler bypasses the terminal filter
    snprintf(
        interrupt_hint, sizeof(interrupt_hint),
        "\nStopped watching; the program continues. To watch again: muster %s logs %s --follow; to "
        "end it: muster %s kill %s\n",
        noun->name, shown, noun->name, shown);
    free(shown);
    signal(SIGINT, on_interrupt);
    int err = follow_task(c, noun, id, e);
    signal(SIGINT, SIG_DFL);
    return err;
}

// --- run -----------------------------------------------------------------------------------------

static void set_key(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *word_list(const char *const *words, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_string(words[i]));
    return list;
}

static json_t *command_config(const struct cli *c)
{
    const struct cli_options *o = &c->options;
    json_t *config = json_object(), *needs = json_object();
    set_key(config, "entrypoint", word_list(c->args, c->arg_count));
    set_key(config, "resources", needs);
    if (o->slots >= 0)
        set_key(needs, "slots", json_integer(o->slots));
    if (o->pool)
        set_key(needs, "resource_pool", json_string(o->pool));
    if (o->priority > 0)
        set_key(needs, "priority", json_integer(o->priority));
    if (o->env.count > 0) {
        set_key(config, "environment",
                json_pack("{s:o}", "environment_variables", word_list(o->env.items, o->env.count)));
    }
    if (o->work_dir)
        set_key(config, "work_dir", json_string(o->work_dir));
    if (o->name)
        set_key(config, "description", json_string(o->name));
    return config;
}

// Repeats the call if the answer is lost; the external id makes the master create the task only
// once.
static int submit_task(struct cli *c, const char *path, json_t *body, json_t **answer,
                       struct error *e)
{
    char name[UUID_TEXT];
    uuid_make(name);
    set_key(body, "externalTaskId", json_string(name));
    return client_call_retry(c->client, "POST", path, body, clock_mono_us() + REPEAT_US, answer, e);
}

static int read_folder(const char *folder, json_t **files, struct error *e)
{
    *files = NULL;
    int err = folder ? archive_list_folder(folder, files, e) : 0;
    *files = *files ? *files : json_array();
    return err;
}

int run_command_run(struct cli *c, const struct command *self, struct error *e)
{
    json_t *files, *answer = NULL;
    int err = read_folder(c->options.folder, &files, e);
    json_t *body = json_pack("{s:o, s:o}", "config", command_config(c), "files", files);
    if (c->options.template)
        set_key(body, "templateName", json_string(c->options.template));
    err = err ? err : submit_task(c, "/api/v1/commands", body, &answer, e);
    const char *id = arena_strdup(&c->arena, jget_string(jget(answer, "command"), "id", NULL));
    err = err ? err : report_started(c, task_noun_of(self), id, answer, e);
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_task_run(struct cli *c, const struct command *self, struct error *e)
{
    const struct cli_options *o = &c->options;
    const struct task_noun *noun = task_noun_of(self);
    const char *parent = NULL, *fork_of = NULL;
    char *text = NULL;
    size_t len;
    json_t *files = NULL, *answer = NULL;
    int err = file_read(c->args[0], LIMIT_CONFIG, &text, &len, e);
    err = err ? err : read_folder(c->arg_count > 1 ? c->args[1] : NULL, &files, e);
    if (!err && o->parent)
        err = expand_id(c, noun, o->parent, &parent, e);
    if (!err && o->fork)
        err = expand_id(c, noun, o->fork, &fork_of, e);
    json_t *body =
        json_pack("{s:s*, s:o*, s:b, s:s*, s:s*}", "config", text, "contextDirectory", files,
                  "noPause", o->no_pause, "parentId", parent, "forkedFrom", fork_of);
    if (o->project_id > 0)
        set_key(body, "projectId", json_integer(o->project_id));
    err = err ? err : submit_task(c, "/api/v1/generic-tasks", body, &answer, e);
    const char *id = arena_strdup(&c->arena, jget_string(answer, "taskId", NULL));
    err = err ? err : report_started(c, noun, id, answer, e);
    json_decref(answer);
    json_decref(body);
    free(text);
    return err;
}

// --- list, describe, logs ------------------------------------------------------------------------

int run_task_list(struct cli *c, const struct command *self, struct error *e)
{
    const struct task_noun *noun = task_noun_of(self);
    const char *path = arena_printf(&c->arena, "/api/v1/%s?%s", noun->path,
                                    cli_query(c, "users", c->options.user));
    return output_list(c, self, noun->list, row_task, e, path);
}

int run_task_describe(struct cli *c, const struct command *self, struct error *e)
{
    const struct task_noun *noun = task_noun_of(self);
    const char *id;
    json_t *answer = NULL;
    int err = expand_id(c, noun, c->args[0], &id, e);
    err = err ? err : fetch_task(c, noun, id, &answer, e);
    if (!err) {
        const json_t *task = jget(answer, noun->name);
        json_t *row = row_task(task);
        json_object_set(row, "config", jget(answer, "config"));
        err = output_object(c, row,
                            "id,name,state,exit,exit_status,user,pool,started,ended,duration,"
                            "parent,forked_from,config",
                            e);
        json_decref(row);
    }
    json_decref(answer);
    return err;
}

int run_task_logs(struct cli *c, const struct command *self, struct error *e)
{
    const char *id;
    int err = expand_id(c, task_noun_of(self), c->args[0], &id, e);
    return err ? err : print_logs(c, "tasks", id, e);
}

// --- kill, pause, unpause, set, delete
// ---------------------------------------------------------------

int run_task_act(struct cli *c, const struct command *self, struct error *e)
{
    const struct task_noun *noun = task_noun_of(self);
    json_t *body = c->options.tree ? json_pack("{s:b}", "killFromRoot", true) : NULL;
    int err = 0;
    for (int i = 0; i < c->arg_count && !err; i++) {
        const char *id;
        err = expand_id(c, noun, c->args[i], &id, e);
        err =
            err ? err
                : cli_call(c, "POST", body, NULL, e, "/api/v1/%s/%s/%s", noun->act, id, self->verb);
        err = err ? err
                  : cli_report(c, json_pack("{s:s, s:s}", "id", id, "done", self->verb), e,
                               "%s %s: %s accepted", noun->title, id, self->verb);
    }
    json_decref(body);
    return err;
}

int run_task_set(struct cli *c, const struct command *self, struct error *e)
{
    const struct task_noun *noun = task_noun_of(self);
    const char *id;
    if (c->options.priority == 0)
        return error_set(e, ERR_INVALID, "nothing to change: give --priority N");
    json_t *body = json_pack("{s:I}", "priority", (json_int_t)c->options.priority);
    int err = expand_id(c, noun, c->args[0], &id, e);
    err =
        err ? err : cli_call(c, "POST", body, NULL, e, "/api/v1/%s/%s/set_priority", noun->act, id);
    json_decref(body);
    return err ? err
               : cli_report(
                     c,
                     json_pack("{s:s, s:I}", "id", id, "priority", (json_int_t)c->options.priority),
                     e, "%s %s has priority %lld", noun->title, id, c->options.priority);
}

int run_task_delete(struct cli *c, const struct command *self, struct error *e)
{
    const struct task_noun *noun = task_noun_of(self);
    int err = 0;
    for (int i = 0; i < c->arg_count && !err; i++) {
        const char *id;
        err = expand_id(c, noun, c->args[i], &id, e);
        err = err ? err : cli_confirm(c, e, "Delete %s %s with its log?", noun->name, id);
        err = err ? err : cli_call(c, "DELETE", NULL, NULL, e, "/api/v1/tasks/%s", id);
        err = err ? err
                  : cli_report(c, json_pack("{s:s, s:s}", "id", id, "done", "delete"), e,
                               "%s %s: delete accepted", noun->title, id);
    }
    return err;
}
