#include "tests/unit/master/support/core_stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/os/mailbox.h"

struct stub_message {
    core_handler *handler; // NULL: release all parked requests with `status`
    struct request *rq;
    int status;
};

static void stub_send(struct core *c, core_handler *handler, struct request *rq, int status)
{
    struct stub_message *m = xcalloc(1, sizeof *m);
    *m = (struct stub_message){handler, rq, status};
    must(!mailbox_send_wait(stub_of(c)->inbox, m));
}

static void stub_release(struct core *c, bool only_gone, int status)
{
    int kept = 0;
    for (int i = 0; i < atomic_load(&stub_of(c)->parked_count); i++) {
        struct request *rq = stub_of(c)->parked[i];
        if (only_gone && !atomic_load(&rq->client_gone)) {
            stub_of(c)->parked[kept++] = rq;
            continue;
        }
        struct error e = {0};
        if (status != 200) {
            error_set(&e, err_from_http(status), "let go");
            request_fail(rq, &e);
        } else {
            buf_puts(&rq->answer, "{\"preempt\":false}");
        }
        rq->complete(rq);
    }
    atomic_store(&stub_of(c)->parked_count, kept);
}

static void *stub_main(void *arg)
{
    struct core *c = arg;
    void *message;
    while (mailbox_receive(stub_of(c)->inbox, &message, 1, INT64_MAX)) {
        struct stub_message *m = message;
        struct error e = {0};
        if (!m->handler) {
            stub_release(c, m->status == 0, m->status);
        } else {
            int rc = m->handler(c, m->rq, &e);
            if (rc < 0)
                request_fail(m->rq, &e);
            if (rc != REQUEST_PARKED)
                m->rq->complete(m->rq);
        }
        free(m);
    }
    return NULL;
}

int core_submit(struct core *c, core_handler *handler, struct request *rq, struct error *e)
{
    struct stub_message *m = xcalloc(1, sizeof *m);
    *m = (struct stub_message){handler, rq, 0};
    int rc = mailbox_send(stub_of(c)->inbox, m);
    if (!rc)
        return 0;
    free(m);
    return error_set(e, rc, "the inbox of the core is full");
}

void core_client_gone(struct core *c, struct request *rq)
{
    (void)rq;
    atomic_fetch_add(&stub_of(c)->gone_count, 1);
    stub_send(c, NULL, NULL, 0);
}

struct core *stub_start(void)
{
    struct core_stub *stub = xcalloc(1, sizeof *stub);
    struct core *c = (struct core *)stub;
    stub->inbox = mailbox_new(1024);
    must(!pthread_create(&stub->thread, NULL, stub_main, c));
    return c;
}

void stub_let_go(struct core *c, int status)
{
    stub_send(c, NULL, NULL, status);
}

void stub_stop(struct core *c)
{
    mailbox_close(stub_of(c)->inbox);
    pthread_join(stub_of(c)->thread, NULL);
    must(!atomic_load(&stub_of(c)->parked_count));
    mailbox_free(stub_of(c)->inbox);
    free(c);
}

// The request as JSON: caller, path parameters, body.
static int stub_echo(struct core *c, struct request *rq, struct error *e)
{
    static const char *const kinds[] = {"none", "user", "agent", "task"};
    struct json_writer w;
    (void)c, (void)e;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_kv_string(&w, "who", kinds[rq->principal.kind]);
    jw_kv_string(&w, "username", rq->principal.username);
    jw_kv_string(&w, "allocation", rq->principal.allocation_id);
    jw_key(&w, "params");
    jw_array(&w);
    for (int i = 0; i < REQUEST_PARAMS_MAX && rq->params[i]; i++)
        jw_string(&w, rq->params[i]);
    jw_array_end(&w);
    jw_kv_string(&w, "query", rq->query(rq, "timeoutSeconds"));
    jw_key(&w, "body");
    if (rq->body)
        jw_json(&w, rq->body);
    else
        jw_null(&w);
    jw_object_end(&w);
    return 0;
}

#define STUB(name)                                                                                 \
    int name(struct core *c, struct request *rq, struct error *e)                                  \
    {                                                                                              \
        return stub_echo(c, rq, e);                                                                \
    }
STUB(core_experiment_activate)
STUB(core_experiment_pause)
STUB(core_experiment_cancel)
STUB(core_experiment_kill)
STUB(core_experiment_archive)
STUB(core_experiment_unarchive)
STUB(core_experiment_delete)
STUB(core_experiment_why)
STUB(core_experiment_best_metric)
STUB(core_trial_kill)
STUB(core_trial_metrics)
STUB(core_trial_media)
STUB(core_trial_metric_columns)
STUB(core_trial_progress)
STUB(core_trial_early_exit)
STUB(core_trial_runner_metadata)
STUB(core_run_start)
STUB(core_allocation_ack_preemption)
STUB(core_allocation_all_gather)
STUB(core_allocation_rendezvous)
STUB(core_allocation_accelerator_data)
STUB(core_task_logs)
STUB(core_experiment_retain_logs)
STUB(core_trial_retain_logs)
STUB(core_experiments_retain_logs)
STUB(core_checkpoint_report)
STUB(core_tasks)
STUB(core_agent_poll)
STUB(core_agents)
STUB(core_agent)
STUB(core_agent_enable)
STUB(core_agent_disable)
STUB(core_slots)
STUB(core_slot)
STUB(core_slot_enable)
STUB(core_slot_disable)
STUB(core_job_queue)
STUB(core_job_queue_update)
STUB(core_shares)
STUB(core_resource_pools)
STUB(core_workspace_delete)
STUB(core_workspace_archive)
STUB(core_workspace_unarchive)
STUB(core_project_delete)
STUB(core_project_archive)
STUB(core_project_unarchive)
STUB(core_member_set)
STUB(core_member_remove)
STUB(core_available_pools)
STUB(core_pool_bindings)
STUB(core_webhooks)
STUB(core_webhook)
STUB(core_webhook_create)
STUB(core_webhook_patch)
STUB(core_webhook_delete)
STUB(core_webhook_custom)
STUB(core_checkpoint_metadata)
STUB(core_checkpoints_delete)
STUB(core_checkpoints_patch)
STUB(core_checkpoints_remove_files)
STUB(core_experiment_add_label)
STUB(core_experiment_continue)
STUB(core_import_begin)
STUB(core_import_records)
STUB(core_import_metrics)
STUB(core_experiment_gc)
STUB(core_experiment_move)
STUB(core_experiment_put)
STUB(core_experiment_remove_label)
STUB(core_experiments_activate)
STUB(core_experiments_archive)
STUB(core_experiments_cancel)
STUB(core_experiments_delete)
STUB(core_experiments_kill)
STUB(core_experiments_move)
STUB(core_experiments_pause)
STUB(core_experiments_unarchive)
STUB(core_run_metadata)
STUB(core_trial_create)
STUB(core_trial_patch)
STUB(core_trial_put)
STUB(core_trial_source)
STUB(core_trial_start)
STUB(core_allocation_container_running)
STUB(core_allocation_daemon)
STUB(core_allocation_pending_preemption)
STUB(core_allocation_proxy_address)
STUB(core_experiment_history)
STUB(core_job_queue_stats)
STUB(core_command_create)
STUB(core_command_kill)
STUB(core_command_set_priority)
STUB(core_shell_create)
STUB(core_shell_kill)
STUB(core_shell_set_priority)
STUB(core_notebook_create)
STUB(core_notebook_kill)
STUB(core_notebook_set_priority)
STUB(core_tensorboard_create)
STUB(core_tensorboard_kill)
STUB(core_tensorboard_set_priority)
STUB(core_generic_create)
STUB(core_task_kill)
STUB(core_task_pause)
STUB(core_task_unpause)
STUB(core_task_delete)

// The answers of these calls are rendered from the store: an experiment, workspace or project with
// this id.
int core_experiment_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c;
    if (!jget_string(rq->body, "config", NULL))
        return error_set(e, ERR_INVALID, "config: missing");
    rq->id = 1;
    return 0;
}

int core_experiment_preview(struct core *c, struct request *rq, struct error *e)
{
    (void)c;
    if (!jget_string(rq->body, "config", NULL))
        return error_set(e, ERR_INVALID, "config: missing");
    return 0;
}

int core_experiment_patch(struct core *c, struct request *rq, struct error *e)
{
    (void)c;
    return request_param_int(rq, 0, &rq->id, e);
}

int core_workspace_patch(struct core *c, struct request *rq, struct error *e)
{
    (void)c;
    return request_param_int(rq, 0, &rq->id, e);
}

int core_project_patch(struct core *c, struct request *rq, struct error *e)
{
    (void)c;
    return request_param_int(rq, 0, &rq->id, e);
}

int core_workspace_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c;
    (void)e;
    rq->id = 1;
    return 0;
}

int core_project_create(struct core *c, struct request *rq, struct error *e)
{
    (void)c;
    (void)e;
    rq->id = 1;
    return 0;
}

int core_allocation_preemption(struct core *c, struct request *rq, struct error *e)
{
    (void)e;
    int n = atomic_load(&stub_of(c)->parked_count);
    must(n < STUB_PARKED_MAX);
    stub_of(c)->parked[n] = rq;
    atomic_store(&stub_of(c)->parked_count, n + 1);
    return REQUEST_PARKED;
}
