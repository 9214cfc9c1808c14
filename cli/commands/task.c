// Commands and generic tasks: run one and see it through, list, end.
//
// What is run is shown as it prints, its standard output on ours; the master may be away for a
// while, the lines go on where they stopped. Ctrl-C ends the watching, not the program.
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

struct noun {
    const char *name, *title, *list, *path, *act; // of one: path/ID; verbs: act/ID/VERB
};

static const struct noun *noun_of(const struct command *self)
{
    static const struct noun nouns[] = {
        {"command", "Command", "commands", "commands", "commands"},
        {"task", "Task", "tasks", "generic-tasks", "tasks"},
    };
    return &nouns[strcmp(self->noun, "task") == 0];
}

// --- ids -----------------------------------------------------------------------------------------

// An id is a number, a dot and letters that tell it from those of other masters: "7" will do.
static bool is_meant(const char *whole, const char *given)
{
    size_t len = strlen(given);
    return strncmp(whole, given, len) == 0 &&
           (strchr(given, '.') || whole[len] == '.' || whole[len] == '\0');
}

static int expand(struct cli *c, const struct noun *noun, const char *given, const char **id,
                  struct error *e)
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
        if (is_meant(whole, given)) {
            *id = arena_strdup(&c->arena, whole);
            found++;
        }
    }
    json_decref(list);
    return err || found == 1 ? err
                             : error_set(e, ERR_NOT_FOUND, "there is no %s %s; see: muster %s list",
                                         noun->name, given, noun->name);
}

// --- following -----------------------------------------------------------------------------------

static char hint[256]; // of the handler

static void interrupted(int sig)
{
    (void)sig;
    ssize_t n = write(STDERR_FILENO, hint, strlen(hint));
    _exit(n < 0 ? 1 : 130);
}

struct lines {
    struct cli *c;
    char last[24]; // the number of the line that was shown last
};

static int on_line(void *ctx, const json_t *line, struct error *e)
{
    (void)e;
    struct lines *l = ctx;
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

static int fetch(struct cli *c, const struct noun *noun, const char *id, json_t **answer,
                 struct error *e)
{
    return cli_call(c, "GET", NULL, answer, e, "/api/v1/%s/%s", noun->path, id);
}

// The program's exit code becomes ours.
static int ended(struct cli *c, const struct noun *noun, const char *id, const json_t *task,
                 struct error *e)
{
    const json_t *code = jget(task, "exitCode");
    if (json_is_integer(code)) {
        c->exit_code = (int)json_integer_value(code);
        return 0;
    }
    return error_set(e, ERR_FAILED, "%s %s has ended: %s", noun->name, id,
                     jget_string(task, "exitStatus", "killed"));
}

// Its lines until it has ended. A stream that breaks is opened again, behind the line that was
// shown last.
static int follow(struct cli *c, const struct noun *noun, const char *id, struct error *e)
{
    struct lines l = {.c = c, .last = "0"};
    int64_t away_since = 0;
    int err = 0;
    for (bool over = false; !over && !err;) {
        json_t *answer = NULL;
        char *path = xasprintf("/api/v1/tasks/%s/logs?follow=true&after=%s", id, l.last);
        err = client_stream(c->client, path, on_line, &l, e);
        free(path);
        err = err ? err : fetch(c, noun, id, &answer, e);
        const json_t *task = jget(answer, noun->name);
        over = !err && jget(task, "endTime");
        if (over)
            err = ended(c, noun, id, task, e);
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

static int started(struct cli *c, const struct noun *noun, const char *id, const json_t *answer,
                   struct error *e)
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
    char *shown = printable_text(id, ""); // the handler writes past the streams
    snprintf(hint, sizeof(hint),
             "\nStopped watching; the program goes on. To see more: muster %s logs %s --follow; to "
             "end it: muster %s kill %s\n",
             noun->name, shown, noun->name, shown);
    free(shown);
    signal(SIGINT, interrupted);
    int err = follow(c, noun, id, e);
    signal(SIGINT, SIG_DFL);
    return err;
}

// --- run -----------------------------------------------------------------------------------------

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *list_of(const char *const *words, int count)
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
    set(config, "entrypoint", list_of(c->args, c->arg_count));
    set(config, "resources", needs);
    if (o->slots >= 0)
        set(needs, "slots", json_integer(o->slots));
    if (o->pool)
        set(needs, "resource_pool", json_string(o->pool));
    if (o->priority > 0)
        set(needs, "priority", json_integer(o->priority));
    if (o->env.count > 0) {
        set(config, "environment",
            json_pack("{s:o}", "environment_variables", list_of(o->env.items, o->env.count)));
    }
    if (o->work_dir)
        set(config, "work_dir", json_string(o->work_dir));
    if (o->name)
        set(config, "description", json_string(o->name));
    return config;
}

// Sent again when its answer is lost: its name lets it be made once.
static int submit(struct cli *c, const char *path, json_t *body, json_t **answer, struct error *e)
{
    char name[UUID_TEXT];
    uuid_make(name);
    set(body, "externalTaskId", json_string(name));
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
        set(body, "templateName", json_string(c->options.template));
    err = err ? err : submit(c, "/api/v1/commands", body, &answer, e);
    const char *id = arena_strdup(&c->arena, jget_string(jget(answer, "command"), "id", NULL));
    err = err ? err : started(c, noun_of(self), id, answer, e);
    json_decref(answer);
    json_decref(body);
    return err;
}

int run_task_run(struct cli *c, const struct command *self, struct error *e)
{
    const struct cli_options *o = &c->options;
    const struct noun *noun = noun_of(self);
    const char *parent = NULL, *fork_of = NULL;
    char *text = NULL;
    size_t len;
    json_t *files = NULL, *answer = NULL;
    int err = file_read(c->args[0], LIMIT_CONFIG, &text, &len, e);
    err = err ? err : read_folder(c->arg_count > 1 ? c->args[1] : NULL, &files, e);
    if (!err && o->parent)
        err = expand(c, noun, o->parent, &parent, e);
    if (!err && o->fork)
        err = expand(c, noun, o->fork, &fork_of, e);
    json_t *body =
        json_pack("{s:s*, s:o*, s:b, s:s*, s:s*}", "config", text, "contextDirectory", files,
                  "noPause", o->no_pause, "parentId", parent, "forkedFrom", fork_of);
    if (o->project_id > 0)
        set(body, "projectId", json_integer(o->project_id));
    err = err ? err : submit(c, "/api/v1/generic-tasks", body, &answer, e);
    const char *id = arena_strdup(&c->arena, jget_string(answer, "taskId", NULL));
    err = err ? err : started(c, noun, id, answer, e);
    json_decref(answer);
    json_decref(body);
    free(text);
    return err;
}

// --- list, describe, logs ------------------------------------------------------------------------

int run_task_list(struct cli *c, const struct command *self, struct error *e)
{
    const struct noun *noun = noun_of(self);
    const char *path = arena_printf(&c->arena, "/api/v1/%s?%s", noun->path,
                                    cli_query(c, "users", c->options.user));
    return output_list(c, self, noun->list, row_task, e, path);
}

int run_task_describe(struct cli *c, const struct command *self, struct error *e)
{
    const struct noun *noun = noun_of(self);
    const char *id;
    json_t *answer = NULL;
    int err = expand(c, noun, c->args[0], &id, e);
    err = err ? err : fetch(c, noun, id, &answer, e);
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
    int err = expand(c, noun_of(self), c->args[0], &id, e);
    return err ? err : print_logs(c, "tasks", id, e);
}

// --- kill, pause, unpause, set, delete -----------------------------------------------------------

int run_task_act(struct cli *c, const struct command *self, struct error *e)
{
    const struct noun *noun = noun_of(self);
    json_t *body = c->options.tree ? json_pack("{s:b}", "killFromRoot", true) : NULL;
    int err = 0;
    for (int i = 0; i < c->arg_count && !err; i++) {
        const char *id;
        err = expand(c, noun, c->args[i], &id, e);
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
    const struct noun *noun = noun_of(self);
    const char *id;
    if (c->options.priority == 0)
        return error_set(e, ERR_INVALID, "nothing to set; give --priority N");
    json_t *body = json_pack("{s:I}", "priority", (json_int_t)c->options.priority);
    int err = expand(c, noun, c->args[0], &id, e);
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
    const struct noun *noun = noun_of(self);
    int err = 0;
    for (int i = 0; i < c->arg_count && !err; i++) {
        const char *id;
        err = expand(c, noun, c->args[i], &id, e);
        err = err ? err : cli_confirm(c, e, "Delete %s %s with its log?", noun->name, id);
        err = err ? err : cli_call(c, "DELETE", NULL, NULL, e, "/api/v1/tasks/%s", id);
        err = err ? err
                  : cli_report(c, json_pack("{s:s, s:s}", "id", id, "done", "delete"), e,
                               "%s %s: delete accepted", noun->title, id);
    }
    return err;
}
