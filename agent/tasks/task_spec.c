#include "agent/tasks/task_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tasks/taskdir.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

static void set_variable(json_t *env, const char *name, const char *value)
{
    json_t *text = value ? json_string(value) : NULL; // NULL: not UTF-8, so it is omitted
    if (text)
        must(json_object_set_new(env, name, text) == 0);
}

static void set_int_variable(json_t *env, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    set_variable(env, name, text);
}

static const json_t *find_local_rank(const json_t *ranks, int64_t local_rank)
{
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
    {
        if (jget_int(rank, "localRank", -1) == local_rank)
            return rank;
    }
    return NULL;
}

// Lists the task's slots on this machine in the order of local ranks: device i belongs to local
// rank i, as programs for torchrun expect.
static int gather_slots(const json_t *ranks, const struct slots *slots, json_t *out,
                        struct error *e)
{
    for (size_t local = 0; local < json_array_size(ranks); local++) {
        const json_t *rank = find_local_rank(ranks, (int64_t)local);
        if (!rank)
            return error_set(e, ERR_PEER,
                             "the master sent %zu ranks for this machine, but no local "
                             "rank %zu",
                             json_array_size(ranks), local);
        size_t i;
        json_t *slot;
        json_array_foreach(jget(rank, "slots"), i, slot)
        {
            json_int_t id = json_integer_value(slot);
            if (id < 0 || (size_t)id >= slots->count)
                return error_set(e, ERR_PEER,
                                 "slot %lld is not on this machine, which has slots 0 to %zu; was "
                                 "the agent started with fewer slots than before?",
                                 (long long)id, slots->count - 1);
            must(json_array_append(out, slot) == 0);
        }
    }
    return 0;
}

static char *visible_devices(const struct slots *slots, const json_t *ids)
{
    struct buf text;
    size_t i;
    json_t *id;
    buf_init(&text, 1 << 20);
    json_array_foreach(ids, i, id)
        buf_printf(&text, "%s%s", i > 0 ? "," : "", slots->items[json_integer_value(id)].uuid);
    return buf_take(&text);
}

// Whether `list`, folders separated by colons, contains `folder`.
static bool lists_folder(const char *list, const char *folder)
{
    size_t len = strlen(folder);
    for (const char *at = list; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        if (strncmp(at, folder, len) == 0 && (at[len] == ':' || !at[len]))
            return true;
    return false;
}

// An empty entry of the list would be the working folder.
static void append_folder(json_t *env, const char *name, const char *folder)
{
    const char *list = jget_string(env, name, "");
    if (!folder || lists_folder(list, folder))
        return;
    char *longer = xasprintf("%s%s%s", list, *list ? ":" : "", folder);
    set_variable(env, name, longer);
    free(longer);
}

static void prepend_folder(json_t *env, const char *name, const char *folder)
{
    const char *list = jget_string(env, name, "");
    if (!folder)
        return;
    char *longer = xasprintf("%s%s%s", folder, *list ? ":" : "", list);
    set_variable(env, name, longer);
    free(longer);
}

static json_t *common_environment(const json_t *task, const struct task_host *host,
                                  const json_t *slot_ids)
{
    json_t *env = json_object();
    char *ids = json_text(slot_ids);
    set_variable(env, "HOME", host->home);
    set_variable(env, "PATH", host->path);
    set_variable(env, "LANG", host->lang);
    if (host->ca_file) {
        char *path = path_join(host->dir, TASKDIR_AUTHORITY);
        set_variable(env, "DET_MASTER_CERT_FILE", path);
        set_variable(env, "MUSTER_CA_FILE", path);
        free(path);
    }
    json_object_update(env, jget(task, "env"));
    if (!jget_bool(task, "native", false)) {
        prepend_folder(env, "PATH", host->command_dir);
        append_folder(env, "PATH", host->program_dir);
        append_folder(env, "PYTHONPATH", host->python_dir);
    }
    set_variable(env, "DET_AGENT_ID", host->agent_id);
    set_variable(env, "DET_SLOT_IDS", ids);
    set_variable(env, "MUSTER_RUN_DIR", host->dir);
    set_int_variable(env, "LOCAL_WORLD_SIZE", (int64_t)json_array_size(jget(task, "ranks")));
    if (host->slots->cuda) {
        char *devices = visible_devices(host->slots, slot_ids);
        set_variable(env, "CUDA_VISIBLE_DEVICES", devices);
        free(devices);
    }
    free(ids);
    return env;
}

// A process can use only the first MIG instance that it sees.
static bool has_instances(const struct slots *slots, const json_t *ids)
{
    size_t i;
    json_t *id;
    json_array_foreach(ids, i, id)
    {
        if (strncmp(slots->items[json_integer_value(id)].uuid, "MIG-", 4) == 0)
            return true;
    }
    return false;
}

static json_t *make_rank_entry(const json_t *rank, const json_t *common, const struct slots *here)
{
    json_t *env = json_object();
    const json_t *own = jget(rank, "slots");
    size_t slots = json_array_size(own);
    if (!here->cuda && !jget(common, "OMP_NUM_THREADS"))
        set_int_variable(env, "OMP_NUM_THREADS", slots > 0 ? (int64_t)slots : 1);
    json_object_update(env, jget(rank, "env"));
    if (here->cuda && has_instances(here, own)) {
        char *devices = visible_devices(here, own);
        set_variable(env, "CUDA_VISIBLE_DEVICES", devices);
        free(devices);
    }
    set_int_variable(env, "RANK", jget_int(rank, "rank", 0));
    set_int_variable(env, "LOCAL_RANK", jget_int(rank, "localRank", 0));
    return json_pack("{s:I, s:o}", "rank", (json_int_t)jget_int(rank, "rank", 0), "env", env);
}

static json_t *complete_argv(const json_t *task, const struct task_host *host)
{
    json_t *argv = json_copy(jget(task, "argv"));
    if (jget_bool(task, "native", false)) {
        char *program = path_join(host->program_dir, json_string_value(json_array_get(argv, 0)));
        must(json_array_set_new(argv, 0, json_string(program)) == 0);
        free(program);
    }
    return argv;
}

// A CPU share and a GPU that is lost have no bus id. `instance` -1: the whole GPU.
static json_t *list_gpus(const struct slots *slots, const json_t *ids)
{
    size_t i;
    json_t *id, *list = json_array();
    json_array_foreach(ids, i, id)
    {
        const struct slot_gpu *gpu = &slots->items[json_integer_value(id)].gpu;
        if (slots->cuda && gpu->bus_id[0])
            json_array_append_new(list, json_pack("{s:s, s:i}", "busId", gpu->bus_id, "instance",
                                                  (int)gpu->instance));
    }
    return list;
}

// What the supervisor needs to separate the task from the machine.
static void add_isolation(json_t *spec, const json_t *task, const struct task_host *host,
                          const json_t *slot_ids)
{
    json_t *programs =
        json_pack("[s, s*, s*]", host->program_dir, host->command_dir, host->python_dir);
    must(programs && !json_object_set_new(spec, "programs", programs));
    must(!json_object_set_new(spec, "gpus", list_gpus(host->slots, slot_ids)));
    if (jget(jget(task, "env"), "HOME"))
        must(!json_object_set_new(spec, "userHome", json_true()));
    if (jget(task, "account"))
        must(!json_object_set(spec, "account", jget(task, "account")));
    if (host->protections)
        must(!json_object_set(spec, "protections", (json_t *)host->protections));
    if (host->tasks_as_root)
        must(!json_object_set_new(spec, "tasksAsRoot", json_true()));
    set_variable(spec, "taskAccount", host->task_account);
    set_variable(spec, "taskGroup", host->task_group);
    set_variable(spec, "tokenFile", host->token_file);
}

// Processor time is divided by slots.
static void set_limits(json_t *spec, const struct task_host *host, size_t slots)
{
    json_t *limits = host->limits ? json_copy((json_t *)host->limits) : NULL;
    if (!limits)
        return;
    must(!json_object_set_new(limits, "slots", json_integer((json_int_t)slots)));
    must(!json_object_set_new(spec, "limits", limits));
}

int task_spec_build(const struct desired_task *task, const struct task_host *host, json_t **out,
                    struct error *e)
{
    const json_t *ranks = jget(task->json, "ranks");
    json_t *slot_ids = json_array(), *entries = json_array();
    int err = gather_slots(ranks, host->slots, slot_ids, e);
    if (err)
        goto out;
    json_t *env = common_environment(task->json, host, slot_ids);
    size_t i;
    json_t *rank;
    json_array_foreach(ranks, i, rank)
        must(json_array_append_new(entries, make_rank_entry(rank, env, host->slots)) == 0);
    *out =
        json_pack("{s:s, s:s, s:s, s:s, s:s*, s:b, s:I, s:o, s:o, s:O}", "allocationId", task->id,
                  "taskId", jget_string(task->json, "taskId", ""), "agentId", host->agent_id,
                  "containerId", jget_string(env, "DET_CONTAINER_ID", task->id), "contextUrl",
                  jget_string(task->json, "contextUrl", NULL), "native",
                  jget_bool(task->json, "native", false), "graceSeconds", (json_int_t)task->grace_s,
                  "argv", complete_argv(task->json, host), "env", env, "ranks", entries);
    must(*out);
    if (jget(task->json, "mounts"))
        must(!json_object_set(*out, "mounts", jget(task->json, "mounts")));
    if (jget(task->json, "hang"))
        must(!json_object_set(*out, "hang", jget(task->json, "hang")));
    if (jget(task->json, "rendezvous"))
        must(!json_object_set(*out, "rendezvous", jget(task->json, "rendezvous")));
    add_isolation(*out, task->json, host, slot_ids);
    set_limits(*out, host, json_array_size(slot_ids));
out:
    json_decref(slot_ids);
    json_decref(entries);
    return err;
}

bool task_spec_reports(const json_t *spec)
{
    return !jget_bool(spec, "native", false) && jget(jget(spec, "env"), "DET_TRIAL_ID");
}

json_t *task_spec_environment(const json_t *spec, const json_t *rank)
{
    json_t *env = json_copy(jget(spec, "env"));
    json_object_update(env, jget(rank, "env"));
    return env;
}
