// Answers to running tasks and to their agents.
#include "master/lifecycle/task_snapshots.h"
#include "master/views/live_state/live_state.h"

static void write_ints(struct json_writer *w, const char *key, const int *values, int count)
{
    jw_key(w, key);
    jw_array(w);
    for (int i = 0; i < count; i++)
        jw_int(w, values[i]);
    jw_array_end(w);
}

static void write_strings(struct json_writer *w, const char *key, const char *const *values,
                          size_t count)
{
    jw_key(w, key);
    jw_array(w);
    for (size_t i = 0; i < count; i++)
        jw_string(w, values[i]);
    jw_array_end(w);
}

// A rank has one slot where there is a rank for each slot; else the only rank has all slots.
static void write_ranks(struct json_writer *w, const struct task_snapshot *task)
{
    bool each = task->rank_count == task->slot_count;
    jw_key(w, "ranks");
    jw_array(w);
    for (int i = 0; i < task->rank_count; i++) {
        jw_object(w);
        jw_kv_int(w, "rank", task->first_rank + i);
        jw_kv_int(w, "localRank", i);
        write_ints(w, "slots", task->slots + (each ? i : 0), each ? 1 : task->slot_count);
        jw_kv_raw(w, "env", "{}");
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_rendezvous(struct json_writer *w, const char *key,
                             const struct rendezvous_snapshot *r)
{
    jw_key(w, key);
    jw_object(w);
    write_strings(w, "addresses", r->addresses, (size_t)r->count);
    jw_kv_int(w, "rank", r->rank);
    write_ints(w, "slots", r->slots, r->count);
    jw_object_end(w);
}

static void write_task(struct json_writer *w, const struct task_snapshot *task)
{
    jw_object(w);
    jw_kv_string(w, "allocationId", task->allocation_id);
    jw_kv_string(w, "taskId", task->task_id);
    jw_kv_int(w, "trialId", task->trial_id);
    jw_kv_int(w, "experimentId", task->experiment_id);
    jw_kv_int(w, "epoch", task->epoch);
    jw_kv_string(w, "action", task->kill ? "KILL" : "RUN");
    jw_kv_int(w, "graceSeconds", task->grace_s);
    if (!task->kill) {
        if (task->context_url)
            jw_kv_string(w, "contextUrl", task->context_url);
        jw_key(w, "argv");
        jw_json(w, task->argv);
        jw_kv_bool(w, "native", task->native);
        if (task->env) {
            jw_key(w, "env");
            jw_json(w, task->env);
            if (task->hang) {
                jw_key(w, "hang");
                jw_json(w, task->hang);
            }
            if (task->account) {
                jw_key(w, "account");
                jw_json(w, task->account);
            }
            jw_key(w, "mounts");
            jw_json(w, task->mounts);
            write_rendezvous(w, "rendezvous", task->rendezvous);
        }
        write_ranks(w, task);
    }
    jw_object_end(w);
}

// A call was held for seconds, so the credential may have been revoked meanwhile: the tasks and
// their tokens must not go to that machine any more.
static int check_credential(struct view *v, struct error *e)
{
    if (!*v->rq->principal.agent_id)
        return 0;
    struct db_rows *rows = DB_QUERY(v->db, TOKEN_PRINCIPAL, v->rq->principal.token);
    bool valid = db_next(rows) == 1;
    db_rows_close(rows);
    return valid ? 0 : error_set(e, ERR_AUTH, "the credential of the agent was revoked");
}

int render_agent_poll(struct view *v, struct error *e)
{
    const struct poll_snapshot *tasks = v->rq->result;
    int rc = check_credential(v, e);
    if (rc)
        return rc;
    jw_object(&v->w);
    if (tasks) { // else the agent has gone
        jw_kv_int(&v->w, "version", tasks->version);
        jw_key(&v->w, "tasks");
        jw_array(&v->w);
        for (size_t i = 0; i < tasks->count; i++)
            write_task(&v->w, &tasks->items[i]);
        jw_array_end(&v->w);
        write_strings(&v->w, "forget", tasks->forget, tasks->forget_count);
    }
    jw_object_end(&v->w);
    return 0;
}

int render_rendezvous(struct view *v, struct error *e)
{
    (void)e;
    jw_object(&v->w);
    write_rendezvous(&v->w, "rendezvousInfo", v->rq->result);
    jw_object_end(&v->w);
    return 0;
}

int render_gather(struct view *v, struct error *e)
{
    const struct gather_snapshot *gather = v->rq->result;
    (void)e;
    jw_object(&v->w);
    jw_key(&v->w, "data");
    jw_array(&v->w);
    for (int i = 0; i < gather->count; i++)
        jw_raw(&v->w, gather->values[i]);
    jw_array_end(&v->w);
    jw_object_end(&v->w);
    return 0;
}
