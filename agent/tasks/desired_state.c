#include "agent/tasks/desired_state.h"

#include <stdlib.h>
#include <string.h>

#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/text/json.h"

static bool is_list_of_words(const json_t *list)
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

static bool is_list_of_slots(const json_t *slots)
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

static int check_run(const json_t *task, size_t index, struct error *e)
{
    const json_t *ranks = jget(task, "ranks");
    size_t count = json_array_size(ranks), i;
    json_t *rank;
    if (!is_list_of_words(jget(task, "argv")))
        return error_set(e, ERR_PEER, "tasks.%zu.argv: not a list of words", index);
    if (!is_environment(jget(task, "env")))
        return error_set(e, ERR_PEER, "tasks.%zu.env: not an object of texts", index);
    if (count == 0 || count > LIMIT_SLOTS_PER_AGENT)
        return error_set(e, ERR_PEER, "tasks.%zu.ranks: %zu ranks; 1 to %d can run here", index,
                         count, LIMIT_SLOTS_PER_AGENT);
    json_array_foreach(ranks, i, rank)
    {
        if (jget_int(rank, "rank", -1) < 0 || jget_int(rank, "localRank", -1) < 0 ||
            !is_environment(jget(rank, "env")) || !is_list_of_slots(jget(rank, "slots")))
            return error_set(e, ERR_PEER,
                             "tasks.%zu.ranks.%zu: wants rank, localRank, slots and env", index, i);
    }
    return 0;
}

static int parse_task(const json_t *json, size_t index, struct desired_task *out, struct error *e)
{
    const char *action = jget_string(json, "action", "");
    *out = (struct desired_task){
        .id = jget_string(json, "allocationId", ""),
        .kill = strcmp(action, "KILL") == 0,
        .grace_s = jget_int(json, "graceSeconds", DESIRED_GRACE_S),
        .json = json,
    };
    if (!taskdir_id_valid(out->id))
        return error_set(e, ERR_PEER, "tasks.%zu.allocationId: \"%s\" is no id", index, out->id);
    if (!out->kill && strcmp(action, "RUN") != 0)
        return error_set(e, ERR_PEER, "tasks.%zu.action: \"%s\" is neither RUN nor KILL", index,
                         action);
    if (out->grace_s < 0)
        return error_set(e, ERR_PEER, "tasks.%zu.graceSeconds: negative", index);
    return out->kill ? 0 : check_run(json, index, e);
}

static int parse_tasks(struct desired *d, struct error *e)
{
    const json_t *tasks = jget(d->root, "tasks");
    size_t i;
    json_t *task;
    if (!json_is_array(tasks))
        return error_set(e, ERR_PEER, "tasks: not a list");
    d->tasks = xcalloc(json_array_size(tasks) + 1, sizeof *d->tasks);
    json_array_foreach(tasks, i, task)
    {
        int rc = parse_task(task, i, &d->tasks[i], e);
        if (rc != 0)
            return rc;
        d->count++;
    }
    return 0;
}

static int parse_forget(struct desired *d, struct error *e)
{
    const json_t *forget = jget(d->root, "forget");
    size_t i;
    json_t *id;
    d->forget = xcalloc(json_array_size(forget) + 1, sizeof *d->forget);
    json_array_foreach(forget, i, id)
    {
        if (!json_is_string(id))
            return error_set(e, ERR_PEER, "forget.%zu: not a text", i);
        d->forget[d->forget_count++] = json_string_value(id);
    }
    return 0;
}

int desired_parse(json_t *answer, struct desired *out, struct error *e)
{
    *out = (struct desired){.root = answer, .version = jget_int(answer, "version", -1)};
    int rc = out->version < 0 ? error_set(e, ERR_PEER, "version: not a number") : 0;
    if (rc == 0)
        rc = parse_tasks(out, e);
    if (rc == 0)
        rc = parse_forget(out, e);
    if (rc != 0)
        desired_free(out);
    return rc;
}

void desired_free(struct desired *d)
{
    free(d->tasks);
    free(d->forget);
    json_decref(d->root);
    *d = (struct desired){0};
}

const struct desired_task *desired_find(const struct desired *d, const char *id)
{
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->tasks[i].id, id) == 0)
            return &d->tasks[i];
    return NULL;
}

bool desired_forgets(const struct desired *d, const char *id)
{
    for (size_t i = 0; i < d->forget_count; i++)
        if (strcmp(d->forget[i], id) == 0)
            return true;
    return false;
}
