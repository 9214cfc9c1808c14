// The description of a task for its agent: program, environment, ranks. The environment is
// Determined's contract (ClusterInfo of its Core API) and the names of torchrun; the agent adds
// what depends on its machine (RANK, LOCAL_RANK, its slots).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/mounts.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "master/lifecycle/lifecycle.h"
#include "master/teams/task_account.h"

// Ports of tasks on one machine are not separated, so each task has a port lane: its smallest slot
// on the machine of rank 0 and the start of its trial, or a number derived from the trial if it has
// no slots. All ports are below 32768, where the kernel begins to assign ports.
enum {
    LANES = 2000,
    PORT_MASTER = 22000,
    PORT_C10D = 24000,
    PORT_COMM_1 = 26000,
    PORT_COMM_2 = 28000,
    PORT_SSH = 30000,
    HANG_WARN_AFTER_S = 300, // unless the configuration says otherwise
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

// Only the hash is stored, so a restarted master does not know the old tokens. Where it needs one,
// it makes a second token; all tokens end with the allocation.
static void token_make(char token[ALLOCATION_TOKEN], char hash[SHA256_HEX])
{
    uint8_t secret[SHA256_BYTES];
    rng_secret(secret, sizeof secret);
    hex_encode(secret, sizeof secret, token);
    sha256_hex(token, strlen(token), hash);
}

void launch_make_tokens(struct core *c, struct allocation *a)
{
    char hash[SHA256_HEX];
    if (a->token[0])
        return;
    token_make(a->token, hash);
    STORE(c, TOKEN_INSERT, hash, "allocation", NULL, a->id, c->wall, 0);
    // The programs of a task may also call as their owner. The token has no number, so no list of
    // access tokens shows it. If the owner has lost access since the submission, or loses it
    // later, it has only the calls of the task.
    token_make(a->user_token, hash);
    STORE(c, TOKEN_INSERT_TASK, hash, a->trial->active->experiment->id, a->id, c->wall);
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

static void env_set(json_t *env, const char *name, const char *value)
{
    must(!json_object_set_new(env, name, json_string(value)));
}

static void env_set_int(json_t *env, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    env_set(env, name, text);
}

static void env_set_json(json_t *env, const char *name, const json_t *value)
{
    char *text = json_text(value);
    env_set(env, name, text);
    free(text);
}

static bool agent_has_cuda(const struct agent *g)
{
    return !strcmp(jget_string(json_array_get(g->slots, 0), "type", ""), "CUDA");
}

// Entries "NAME=VALUE", or a list of them for each kind of device.
static void env_add_user_variables(json_t *env, const json_t *variables, const struct agent *g)
{
    size_t i;
    json_t *entry;
    const json_t *list = variables;
    if (json_is_object(variables))
        list = jget(variables, agent_has_cuda(g) ? "cuda" : "cpu");
    json_array_foreach(list, i, entry)
    {
        const char *text = json_string_value(entry), *equals = text ? strchr(text, '=') : NULL;
        if (!text || text == equals || !*text)
            continue;
        char *name = xstrdup(text);
        name[strcspn(name, "=")] = '\0';
        env_set(env, name, equals ? equals + 1 : "");
        free(name);
    }
}

static void env_add_identity(json_t *env, struct core *c, const struct part *p)
{
    struct allocation *a = p->allocation;
    const struct trial *t = a->trial;
    char container[UUID_TEXT];
    const char *url = *c->options.master_url ? c->options.master_url : p->agent->master_url;
    launch_make_tokens(c, a);
    if (url && *url) {
        env_set(env, "DET_MASTER", url);
        env_set(env, "MUSTER_MASTER", url);
    }
    env_set(env, "DET_CLUSTER_ID", c->options.cluster_id);
    env_set(env, "DET_AGENT_ID", p->agent->id);
    env_set(env, "DET_TASK_ID", t->task_id);
    env_set(env, "DET_TASK_TYPE", kind_words[t->active->experiment->kind].task);
    env_set(env, "DET_ALLOCATION_ID", a->id);
    env_set(env, "DET_SESSION_TOKEN", a->token);
    env_set(env, "DET_USER", t->active->owner);
    env_set(env, "DET_USER_TOKEN", a->user_token);
    env_set(env, "MUSTER_TOKEN", a->user_token);
    env_set(env, "DET_RESOURCES_ID", launch_container(p, container));
    env_set(env, "DET_CONTAINER_ID", container);
    env_set(env, "DET_RESOURCES_TYPE",
            "docker-container"); // the kind that calls the master for its rendezvous
    env_set(env, "DET_RUN_DIR", "/run/determined");
    env_set(env, "DET_SKIP_PIP_INSTALL", "1");
    env_set(env, "DET_SEGMENT_ENABLED", "false");
    json_t *logging = json_pack("{s:s, s:s, s:s, s:s}", "task_id", t->task_id, "allocation_id",
                                a->id, "container_id", container, "agent_id", p->agent->id);
    env_set_json(env, "DET_TASK_LOGGING_METADATA", logging);
    json_decref(logging);
}

static void env_add_trial(json_t *env, const struct allocation *a)
{
    const struct trial *t = a->trial;
    const char *source =
        jget_string(jget(t->active->config, "searcher"), "source_checkpoint_uuid", NULL);
    env_set_int(env, "DET_EXPERIMENT_ID", t->active->experiment->id);
    env_set_int(env, "DET_TRIAL_ID", t->id);
    env_set_int(env, "DET_TRIAL_RUN_ID", a->epoch);
    env_set_int(env, "DET_TRIAL_SEED", t->seed);
    env_set_json(env, "DET_HPARAMS", t->hparams);
    env_set(env, "DET_EXPERIMENT_CONFIG", t->active->config_text);
    env_set_int(env, "DET_STEPS_COMPLETED", a->resume[0] ? a->resume_steps : 0);
    if (a->resume[0] || source)
        env_set(env, "DET_LATEST_CHECKPOINT", a->resume[0] ? a->resume : source);
}

// The port lane of an allocation. Each start of a trial has another one, because a port may be held
// by a program that Muster does not know; lanes of other slots stay apart.
static int port_lane(const struct allocation *a)
{
    const struct part *first = &a->parts[0];
    int slots = (int)json_array_size(first->agent->slots), lane = LIMIT_SLOTS_PER_AGENT;
    if (!first->slot_count)
        return lane + (int)(a->trial->id % (LANES - LIMIT_SLOTS_PER_AGENT));
    for (int i = 0; i < first->slot_count; i++)
        lane = first->slots[i] < lane ? first->slots[i] : lane;
    int groups = slots > lane ? LIMIT_SLOTS_PER_AGENT / slots : 1;
    return lane + (int)((a->epoch - 1) % groups) * slots;
}

static void env_add_rendezvous(json_t *env, const struct part *p)
{
    const struct allocation *a = p->allocation;
    const char *address = a->parts[0].agent->address;
    int lane = port_lane(a);
    bool elsewhere = a->part_count > 1 && address && *address;
    env_set(env, "MASTER_ADDR", elsewhere ? address : "127.0.0.1");
    if (a->part_count > 1 && p->agent->address)
        env_set(env, "MUSTER_ADDRESS", p->agent->address);
    env_set_int(env, "MASTER_PORT", PORT_MASTER + lane);
    env_set_int(env, "WORLD_SIZE", a->world_size);
    env_set_int(env, "C10D_PORT", PORT_C10D + lane);
    env_set_int(env, "INTER_TRAIN_PROCESS_COMM_PORT_1", PORT_COMM_1 + lane);
    env_set_int(env, "INTER_TRAIN_PROCESS_COMM_PORT_2", PORT_COMM_2 + lane);
    env_set_int(env, "DTRAIN_SSH_PORT", PORT_SSH + lane);
}

static json_t *env_make(struct core *c, const struct part *p)
{
    const struct allocation *a = p->allocation;
    json_t *env = json_object();
    must(env);
    env_set(env, "PYTHONUNBUFFERED", "1"); // else lines arrive only when the program ends
    env_add_user_variables(
        env, jget_path(a->trial->active->config, "environment.environment_variables"), p->agent);
    env_add_identity(env, c, p);
    if (a->trial->active->experiment->kind == KIND_EXPERIMENT)
        env_add_trial(env, a);
    env_add_rendezvous(env, p);
    return env;
}

// --- description for the agent -------------------------------------------------------------------

static void argv_add(json_t *argv, const char *word)
{
    must(!json_array_append_new(argv, json_string(word)));
}

// A command or task of one word is a shell line, as in `det cmd run "a; b"`.
static bool is_shell_line(const struct active_experiment *l)
{
    const json_t *entrypoint = jget(l->config, "entrypoint");
    bool is_task = l->experiment->kind != KIND_EXPERIMENT;
    return !json_is_array(entrypoint) || (is_task && json_array_size(entrypoint) == 1);
}

static json_t *argv_make(const struct active_experiment *l)
{
    const json_t *entrypoint = jget(l->config, "entrypoint");
    const char *folder = jget_string(l->config, "work_dir", NULL); // of a command
    json_t *argv = json_array();
    must(argv);
    if (folder) {
        argv_add(argv, "sh");
        argv_add(argv, "-c");
        argv_add(argv, "cd -- \"$0\" && exec \"$@\"");
        argv_add(argv, folder);
    }
    if (l->native || is_shell_line(l)) {
        argv_add(argv, l->native ? "muster-trainer" : "sh");
        argv_add(argv, l->native ? "worker" : "-c");
    }
    if (!l->native && json_is_string(entrypoint))
        argv_add(argv, json_string_value(entrypoint));
    if (!l->native && json_is_array(entrypoint))
        must(!json_array_extend(argv, (json_t *)entrypoint));
    return argv;
}

const struct rendezvous_snapshot *launch_rendezvous(struct request *rq, const struct part *p)
{
    const struct allocation *a = p->allocation;
    size_t count = (size_t)a->part_count;
    const char **addresses = arena_alloc(&rq->arena, count * sizeof *addresses);
    int *slots = arena_alloc(&rq->arena, count * sizeof *slots);
    for (size_t i = 0; i < count; i++) {
        addresses[i] =
            count > 1 ? arena_strdup(&rq->arena, a->parts[i].agent->address) : "127.0.0.1";
        slots[i] = a->parts[i].slot_count;
    }
    struct rendezvous_snapshot *out = arena_alloc(&rq->arena, sizeof *out);
    *out = (struct rendezvous_snapshot){addresses, slots, a->part_count, p - a->parts};
    return out;
}

// The request gets a copy; the caller's reference is given up.
static const json_t *json_hand_over(struct request *rq, json_t *value)
{
    const json_t *copy = request_copy_json(rq, value);
    json_decref(value);
    return copy;
}

// The limits after which the agent reports or ends a trial that does nothing. Commands and
// notebooks have none, because they may wait for people.
static json_t *hang_limits(const struct active_experiment *l)
{
    const json_t *hang = jget(l->config, "hang");
    return json_pack("{s:I, s:I}", "warnAfter",
                     (json_int_t)jget_int(hang, "warn_after", HANG_WARN_AFTER_S), "killAfter",
                     (json_int_t)jget_int(hang, "kill_after", 0));
}

// A change of the link counts from the next start of a task on.
static const json_t *account_of(struct core *c, struct request *rq, const struct experiment *x)
{
    json_t *account = task_account_read(c->reader, x->user_id, x->project_id);
    return account ? json_hand_over(rq, account) : NULL;
}

struct task_snapshot launch_describe(struct core *c, struct request *rq, const struct part *p)
{
    const struct allocation *a = p->allocation;
    const struct trial *t = a->trial;
    struct task_snapshot task = {.allocation_id = arena_strdup(&rq->arena, a->id),
                                 .task_id = arena_strdup(&rq->arena, t->task_id),
                                 .trial_id = t->id,
                                 .experiment_id = t->active->experiment->id,
                                 .epoch = a->epoch,
                                 .grace_s = c->options.kill_grace_us / 1000000,
                                 .kill =
                                     a->state == ALLOCATION_TERMINATING || p->state == PART_EXITED};
    if (task.kill)
        return task;
    if (!t->active->no_files)
        task.context_url =
            arena_printf(&rq->arena, "/api/v1/tasks/%s/context_directory", t->task_id);
    task.argv = json_hand_over(rq, argv_make(t->active));
    task.native = t->active->native;
    if (p->state == PART_ASSIGNED) {
        task.env = json_hand_over(rq, env_make(c, p));
        task.rendezvous = launch_rendezvous(rq, p);
        task.account = account_of(c, rq, t->active->experiment);
        if (t->active->experiment->kind == KIND_EXPERIMENT)
            task.hang = json_hand_over(rq, hang_limits(t->active));
        task.mounts =
            json_hand_over(rq, mounts_of_config(t->active->config,
                                                t->active->experiment->kind == KIND_EXPERIMENT));
    }
    int *slots = arena_alloc(&rq->arena, ((size_t)p->slot_count + 1) * sizeof *slots);
    memcpy(slots, p->slots, (size_t)p->slot_count * sizeof *slots);
    task.slots = slots;
    task.slot_count = p->slot_count;
    task.first_rank = p->first_rank;
    task.rank_count = p->rank_count;
    return task;
}
