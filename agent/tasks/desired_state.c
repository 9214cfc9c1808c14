#include "agent/tasks/desired_state.h"

#include <stdlib.h>
#include <string.h>

#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"

static bool is_argv(const json_t *list)
{
    size_t i;
    json_t *word;
    json_array_foreach(list, i, word)
    {
        if (!json_is_string(word))
            return false;
    }
    return json_array_size(list) > 0;
}

static bool is_environment(json_t *env)
{
    const char *name;
    json_t *value;
    if (env && !json_is_object(env))
        return false;
    json_object_foreach(env, name, value)
    {
        if (!json_is_string(value) || *name == '\0' || strchr(name, '='))
            return false;
    }
    return true;
}

static bool is_slot_list(const json_t *slots)
{
    size_t i;
    json_t *slot;
    json_array_foreach(slots, i, slot)
    {
        if (!json_is_integer(slot))
            return false;
    }
    return !slots || json_is_array(slots);
}

static int check_run_task(const json_t *task, size_t index, struct error *e)
{
    const json_t *ranks = jget(task, "ranks");
    size_t count = json_array_size(ranks), i;
    json_t *rank;
    if (!is_argv(jget(task, "argv")))
        return error_set(e, ERR_PEER, "tasks.%zu.argv: not a list of strings", index);
    if (!is_environment(jget(task, "env")))
        return error_set(e, ERR_PEER, "tasks.%zu.env: not an object of strings", index);
    if (count == 0 || count > LIMIT_SLOTS_PER_AGENT)
        return error_set(e, ERR_PEER, "tasks.%zu.ranks: %zu ranks; 1 to %d are allowed", index,
                         count, LIMIT_SLOTS_PER_AGENT);
    json_array_foreach(ranks, i, rank)
    {
        if (jget_int(rank, "rank", -1) < 0 || jget_int(rank, "localRank", -1) < 0 ||
            !is_environment(jget(rank, "env")) || !is_slot_list(jget(rank, "slots")))
            return error_set(
                e, ERR_PEER,
                "tasks.%zu.ranks.%zu: rank, localRank, slots or env is missing or invalid", index,
                i);
    }
    return 0;
}

static int parse_task(const json_t *json, size_t index, struct desired_task *out, struct error *e)
{
    const char *action = jget_string(json, "action", "");
    *out = (struct desired_task){
        .id = jget_string(json, "allocationId", ""),
        .kill = strcmp(action, "KILL") == 0,
        .grace_s = jget_int(json, "graceSeconds", DESIRED_DEFAULT_GRACE_S),
        .json = json,
    };
    if (!taskdir_id_valid(out->id))
        return error_set(e, ERR_PEER, "tasks.%zu.allocationId: \"%s\" is not a valid id", index,
                         out->id);
    if (!out->kill && strcmp(action, "RUN") != 0)
        return error_set(e, ERR_PEER, "tasks.%zu.action: \"%s\" is neither RUN nor KILL", index,
                         action);
    if (out->grace_s < 0)
        return error_set(e, ERR_PEER, "tasks.%zu.graceSeconds: negative", index);
    return out->kill ? 0 : check_run_task(json, index, e);
}

static int parse_tasks(struct desired_state *d, struct error *e)
{
    const json_t *tasks = jget(d->root, "tasks");
    size_t i;
    json_t *task;
    if (!json_is_array(tasks))
        return error_set(e, ERR_PEER, "tasks: not a list");
    d->tasks = xcalloc(json_array_size(tasks) + 1, sizeof *d->tasks);
    json_array_foreach(tasks, i, task)
    {
        int err = parse_task(task, i, &d->tasks[i], e);
        if (err)
            return err;
        d->count++;
    }
    return 0;
}

static int parse_forget(struct desired_state *d, struct error *e)
{
    const json_t *forget = jget(d->root, "forget");
    size_t i;
    json_t *id;
    d->forget = xcalloc(json_array_size(forget) + 1, sizeof *d->forget);
    json_array_foreach(forget, i, id)
    {
        if (!json_is_string(id))
            return error_set(e, ERR_PEER, "forget.%zu: not a string", i);
        d->forget[d->forget_count++] = json_string_value(id);
    }
    return 0;
}

int desired_state_parse(json_t *answer, struct desired_state *out, struct error *e)
{
    *out = (struct desired_state){.root = answer, .version = jget_int(answer, "version", -1)};
    int err = out->version < 0 ? error_set(e, ERR_PEER, "version: not a number") : 0;
    if (!err)
        err = parse_tasks(out, e);
    if (!err)
        err = parse_forget(out, e);
    if (err)
        desired_state_free(out);
    return err;
}

void desired_state_free(struct desired_state *d)
{
    free(d->tasks);
    free(d->forget);
    json_decref(d->root);
    *d = (struct desired_state){0};
}

const struct desired_task *desired_state_find(const struct desired_state *d, const char *id)
{
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->tasks[i].id, id) == 0)
            return &d->tasks[i];
    return NULL;
}

bool desired_state_forgets(const struct desired_state *d, const char *id)
{
    for (size_t i = 0; i < d->forget_count; i++)
        if (strcmp(d->forget[i], id) == 0)
            return true;
    return false;
}
