// What an agent is told of a task: program, environment, ranks. The environment is Determined's
// contract (ClusterInfo of its Core API) beside the names of torchrun; what the machine itself
// knows (RANK, LOCAL_RANK, its slots) the agent adds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"

// Ports are not fenced between tasks of one machine, so each has a lane of its own: the smallest
// slot it holds on the machine of rank 0, or for a task of no slots a number from its trial. All
// below 32768, where the kernel's own choice of ports begins.
enum {
    LANES = 2000,
    PORT_MASTER = 22000,
    PORT_C10D = 24000,
    PORT_COMM_1 = 26000,
    PORT_COMM_2 = 28000,
    PORT_SSH = 30000,
};

char *launch_placement(const struct allocation *a)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text, LIMIT_BODY);
    jw_init(&w, &text);
    jw_array(&w);
    for (int i = 0; i < a->part_count; i++) {
        const struct part *p = &a->parts[i];
        jw_object(&w);
        jw_kv_string(&w, "agent", p->agent->id);
        jw_key(&w, "slots");
        jw_array(&w);
        for (int k = 0; k < p->slot_count; k++)
            jw_int(&w, p->slots[k]);
        jw_array_end(&w);
        jw_key(&w, "ranks");
        jw_array(&w);
        for (int k = 0; k < p->rank_count; k++)
            jw_int(&w, p->first_rank + k);
        jw_array_end(&w);
        if (part_nearness(p))
            jw_kv_string(&w, "near", part_nearness(p));
        if (p->daemon)
            jw_kv_bool(&w, "daemon", true);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    must(!text.err);
    return buf_take(&text);
}

// Only the hash is stored, so a master that was started again does not know the tokens of before.
// Where it must tell one, it makes another beside it; all end with the allocation.
const char *launch_token(struct core *c, struct allocation *a)
{
    uint8_t secret[SHA256_BYTES];
    char hash[SHA256_HEX];
    if (a->token[0])
        return a->token;
    rng_secret(secret, sizeof secret);
    hex_encode(secret, sizeof secret, a->token);
    sha256_hex(a->token, strlen(a->token), hash);
    STORE(c, TOKEN_INSERT, hash, "allocation", NULL, a->id, c->wall, 0);
    return a->token;
}

const char *launch_container(const struct part *p, char out[UUID_TEXT])
{
    char name[ALLOCATION_ID + LIMIT_NAME + 2], hash[SHA256_HEX];
    int len = snprintf(name, sizeof name, "%s %s", p->allocation->id, p->agent->id);
    sha256_hex(name, (size_t)len, hash);
    snprintf(out, UUID_TEXT, "%.8s-%.4s-%.4s-%.4s-%.12s", hash, hash + 8, hash + 12, hash + 16,
             hash + 20);
    return out;
}

// --- environment ---------------------------------------------------------------------------------

static void set(json_t *env, const char *name, const char *value)
{
    must(!json_object_set_new(env, name, json_string(value)));
}

static void set_int(json_t *env, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    set(env, name, text);
}

static void set_json(json_t *env, const char *name, const json_t *value)
{
    char *text = json_text(value);
    set(env, name, text);
    free(text);
}

static bool has_cuda(const struct agent *g)
{
    return !strcmp(jget_string(json_array_get(g->slots, 0), "type", ""), "CUDA");
}

// "NAME=VALUE" entries, or a list of them for each kind of device.
static void set_users(json_t *env, const json_t *variables, const struct agent *g)
{
    size_t i;
    json_t *entry;
    const json_t *list = variables;
    if (json_is_object(variables))
        list = jget(variables, has_cuda(g) ? "cuda" : "cpu");
    json_array_foreach(list, i, entry)
    {
        const char *text = json_string_value(entry), *equals = text ? strchr(text, '=') : NULL;
        if (!text || text == equals || !*text)
            continue;
        char *name = xstrdup(text);
        name[strcspn(name, "=")] = '\0';
        set(env, name, equals ? equals + 1 : "");
        free(name);
    }
}

static void set_identity(json_t *env, struct core *c, const struct part *p)
{
    struct allocation *a = p->allocation;
    const struct trial *t = a->trial;
    char container[UUID_TEXT];
    const char *url = *c->options.master_url ? c->options.master_url : p->agent->master_url;
    if (url && *url)
        set(env, "DET_MASTER", url);
    set(env, "DET_CLUSTER_ID", c->options.cluster_id);
    set(env, "DET_AGENT_ID", p->agent->id);
    set(env, "DET_TASK_ID", t->task_id);
    set(env, "DET_TASK_TYPE", kind_words[t->active->experiment->kind].task);
    set(env, "DET_ALLOCATION_ID", a->id);
    set(env, "DET_SESSION_TOKEN", launch_token(c, a));
    set(env, "DET_USER", t->active->owner);
    set(env, "DET_RESOURCES_ID", launch_container(p, container));
    set(env, "DET_CONTAINER_ID", container);
    set(env, "DET_RESOURCES_TYPE", "docker-container"); // the kind that asks us for its rendezvous
    set(env, "DET_RUN_DIR", "/run/determined");
    set(env, "DET_SKIP_PIP_INSTALL", "1");
    set(env, "DET_SEGMENT_ENABLED", "false");
    json_t *logging = json_pack("{s:s, s:s, s:s, s:s}", "task_id", t->task_id, "allocation_id",
                                a->id, "container_id", container, "agent_id", p->agent->id);
    set_json(env, "DET_TASK_LOGGING_METADATA", logging);
    json_decref(logging);
}

static void set_trial(json_t *env, const struct allocation *a)
{
    const struct trial *t = a->trial;
    const char *source =
        jget_string(jget(t->active->config, "searcher"), "source_checkpoint_uuid", NULL);
    set_int(env, "DET_EXPERIMENT_ID", t->active->experiment->id);
    set_int(env, "DET_TRIAL_ID", t->id);
    set_int(env, "DET_TRIAL_RUN_ID", a->epoch);
    set_int(env, "DET_TRIAL_SEED", t->seed);
    set_json(env, "DET_HPARAMS", t->hparams);
    set(env, "DET_EXPERIMENT_CONFIG", t->active->config_text);
    set_int(env, "DET_STEPS_COMPLETED", a->resume[0] ? a->resume_steps : 0);
    if (a->resume[0] || source)
        set(env, "DET_LATEST_CHECKPOINT", a->resume[0] ? a->resume : source);
}

static void set_meeting(json_t *env, const struct part *p)
{
    const struct allocation *a = p->allocation;
    const struct part *first = &a->parts[0];
    const char *address = first->agent->address;
    int lane = first->slot_count ? first->slots[0] : 0;
    for (int i = 1; i < first->slot_count; i++)
        if (first->slots[i] < lane)
            lane = first->slots[i];
    if (!first->slot_count)
        lane = LIMIT_SLOTS_PER_AGENT + (int)(a->trial->id % (LANES - LIMIT_SLOTS_PER_AGENT));
    bool elsewhere = a->part_count > 1 && address && *address;
    set(env, "MASTER_ADDR", elsewhere ? address : "127.0.0.1");
    if (a->part_count > 1 && p->agent->address)
        set(env, "MUSTER_ADDRESS", p->agent->address);
    set_int(env, "MASTER_PORT", PORT_MASTER + lane);
    set_int(env, "WORLD_SIZE", a->world_size);
    set_int(env, "C10D_PORT", PORT_C10D + lane);
    set_int(env, "INTER_TRAIN_PROCESS_COMM_PORT_1", PORT_COMM_1 + lane);
    set_int(env, "INTER_TRAIN_PROCESS_COMM_PORT_2", PORT_COMM_2 + lane);
    set_int(env, "DTRAIN_SSH_PORT", PORT_SSH + lane);
}

static json_t *environment(struct core *c, const struct part *p)
{
    const struct allocation *a = p->allocation;
    json_t *env = json_object();
    must(env);
    set_users(env, jget_path(a->trial->active->config, "environment.environment_variables"),
              p->agent);
    set_identity(env, c, p);
    if (a->trial->active->experiment->kind == KIND_EXPERIMENT)
        set_trial(env, a);
    set_meeting(env, p);
    return env;
}

// --- the task as an agent gets it ----------------------------------------------------------------

static void write_argv(struct json_writer *w, const struct active_experiment *l)
{
    const json_t *entrypoint = jget(l->config, "entrypoint");
    const char *folder = jget_string(l->config, "work_dir", NULL); // of a command
    size_t i;
    json_t *word;
    jw_key(w, "argv");
    jw_array(w);
    if (folder) {
        jw_string(w, "sh");
        jw_string(w, "-c");
        jw_string(w, "cd -- \"$0\" && exec \"$@\"");
        jw_string(w, folder);
    }
    if (l->native || !json_is_array(entrypoint)) {
        jw_string(w, l->native ? "muster-trainer" : "sh");
        jw_string(w, l->native ? "worker" : "-c");
    }
    if (!l->native && json_is_string(entrypoint))
        jw_string(w, json_string_value(entrypoint));
    json_array_foreach(l->native ? NULL : entrypoint, i, word) jw_json(w, word);
    jw_array_end(w);
}

static void write_ranks(struct json_writer *w, const struct part *p)
{
    bool each = p->rank_count == p->slot_count; // a slot a rank; else all to the one
    jw_key(w, "ranks");
    jw_array(w);
    for (int i = 0; i < p->rank_count; i++) {
        jw_object(w);
        jw_kv_int(w, "rank", p->first_rank + i);
        jw_kv_int(w, "localRank", i);
        jw_key(w, "slots");
        jw_array(w);
        for (int k = each ? i : 0; k < (each ? i + 1 : p->slot_count); k++)
            jw_int(w, p->slots[k]);
        jw_array_end(w);
        jw_kv_raw(w, "env", "{}");
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_run(struct core *c, struct json_writer *w, const struct part *p)
{
    const struct trial *t = p->allocation->trial;
    if (!t->active->no_files) {
        char *url = xasprintf("/api/v1/tasks/%s/context_directory", t->task_id);
        jw_kv_string(w, "contextUrl", url);
        free(url);
    }
    write_argv(w, t->active);
    jw_kv_bool(w, "native", t->active->native);
    if (p->state == PART_ASSIGNED) { // later it runs, and only has to know that it still should
        json_t *env = environment(c, p);
        jw_key(w, "env");
        jw_json(w, env);
        json_decref(env);
    }
    write_ranks(w, p);
}

void launch_write(struct core *c, struct json_writer *w, const struct part *p)
{
    const struct allocation *a = p->allocation;
    bool kill = a->state == ALLOCATION_TERMINATING || p->state == PART_EXITED;
    jw_object(w);
    jw_kv_string(w, "allocationId", a->id);
    jw_kv_string(w, "taskId", a->trial->task_id);
    jw_kv_int(w, "trialId", a->trial->id);
    jw_kv_int(w, "experimentId", a->trial->active->experiment->id);
    jw_kv_int(w, "epoch", a->epoch);
    jw_kv_string(w, "action", kill ? "KILL" : "RUN");
    jw_kv_int(w, "graceSeconds", c->options.kill_grace_us / 1000000);
    if (!kill)
        write_run(c, w, p);
    jw_object_end(w);
}
