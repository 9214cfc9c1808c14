// Every call of the master. Which body and answer each has is the wire's (Determined's REST API
// v1); what is marked ours is Muster's own.

#include "master/http/routes.h"

#include "master/core/handlers.h"
#include "master/http/views.h"

#define V1            "/api/v1"
#define ANY_USER_TASK (AUTH_USER | AUTH_TASK)
#define EVERYBODY     (AUTH_USER | AUTH_TASK | AUTH_AGENT)
#define PAGE          " offset limit orderBy "
#define WORKSPACE_SETTINGS                                                                         \
    " +defaultRole?:Role +weight?:number +guaranteedSlots?:int +maxSlots?:int"

// The kinds of rows: method, path, who, ..., and at the end the summary with what else is said of
// the row: .takes, .answers.
#define READ(path_, auth_, view_, query_, ...)                                                     \
    {                                                                                              \
        .method = "GET", .path = path_, .auth = auth_, .kind = ROUTE_READ, .view = view_,          \
        .query = query_, .summary = __VA_ARGS__                                                    \
    }
#define STREAM(path_, auth_, stream_, query_, ...)                                                 \
    {                                                                                              \
        .method = "GET", .path = path_, .auth = auth_, .kind = ROUTE_STREAM, .stream = stream_,    \
        .query = query_, .summary = __VA_ARGS__                                                    \
    }
#define WORKER(method_, path_, auth_, view_, ...)                                                  \
    {                                                                                              \
        .method = method_, .path = path_, .auth = auth_, .kind = ROUTE_WORKER, .view = view_,      \
        .body = BODY_SMALL, .summary = __VA_ARGS__                                                 \
    }
#define SLOW(path_, auth_, view_, query_, ...)                                                     \
    {                                                                                              \
        .method = "GET", .path = path_, .auth = auth_, .kind = ROUTE_WORKER, .view = view_,        \
        .query = query_, .summary = __VA_ARGS__                                                    \
    }
#define CORE(method_, path_, auth_, core_, render_, ...)                                           \
    {                                                                                              \
        .method = method_, .path = path_, .auth = auth_, .kind = ROUTE_CORE, .core = core_,        \
        .view = render_, .body = BODY_SMALL, .summary = __VA_ARGS__                                \
    }
#define CORE_GET(path_, auth_, core_, query_, ...)                                                 \
    {                                                                                              \
        .method = "GET", .path = path_, .auth = auth_, .kind = ROUTE_CORE, .core = core_,          \
        .query = query_, .summary = __VA_ARGS__                                                    \
    }

const struct route route_table[] = {
    READ("/", AUTH_NONE, view_page, NULL, "A page that says what runs here",
         .content = "text/html"),
    READ("/info", AUTH_NONE, view_info, NULL, "Names and version of this cluster",
         .answers = "version:string master_id:string cluster_id:string cluster_name:string"),
    {.method = "GET",
     .path = V1 "/openapi.json",
     .auth = AUTH_NONE,
     .kind = ROUTE_READ,
     .view = view_openapi,
     .ours = true,
     .summary = "This document",
     .answers = "object"},

    READ(V1 "/master", AUTH_NONE, view_master, NULL, "About the master", .answers = "Master"),
    READ(V1 "/master/config", AUTH_ADMIN, view_master_config, NULL,
         "What the master was started with", .answers = "config:object"),
    READ(V1 "/master/cluster_message", EVERYBODY, view_cluster_message, NULL,
         "The notice to all users", .answers = "clusterMessage?:ClusterMessage"),

    WORKER("POST", V1 "/auth/login", AUTH_NONE, account_login, "Log in: a token for a password",
           .takes = "username:string password:string isHashed?:bool",
           .answers = "token:string user:User"),
    WORKER("POST", V1 "/auth/logout", AUTH_USER, account_logout, "Revoke the token of this call"),
    READ(V1 "/me", ANY_USER_TASK, account_me, NULL, "The user of this token",
         .answers = "user:User"),
    READ(V1 "/users", AUTH_USER, account_list, "active admin name sortBy" PAGE, "List users",
         .answers = "users:[User] pagination:Pagination"),
    WORKER("POST", V1 "/users", AUTH_ADMIN, account_create, "Create a user",
           .takes = "user:NewUser password?:string isHashed?:bool", .answers = "user:User"),
    READ(V1 "/users/{userId}", AUTH_USER, account_get, NULL, "One user", .answers = "user:User"),
    WORKER("PATCH", V1 "/users/{userId}", AUTH_USER, account_patch,
           "Change a user: password, displayName, username, active, admin", .takes = "PatchUser",
           .answers = "user:User"),
    READ(V1 "/users/{username}/by-username", AUTH_USER, account_get_by_name, NULL,
         "One user by name", .answers = "user:User"),

    READ(V1 "/workspaces", AUTH_USER, view_workspaces, "archived name users sortBy" PAGE,
         "List workspaces", .answers = "workspaces:[Workspace] pagination:Pagination"),
    CORE("POST", V1 "/workspaces", AUTH_USER, core_workspace_create, render_workspace,
         "Make a workspace, which is a team of the scheduler",
         .takes = "name:string" WORKSPACE_SETTINGS,
         .answers = "workspace:Workspace namespaceBindings:{object}"),
    READ(V1 "/workspaces/{workspaceId}", AUTH_USER, view_workspace, NULL, "One workspace",
         .answers = "workspace:Workspace"),
    CORE("PATCH", V1 "/workspaces/{workspaceId}", AUTH_USER, core_workspace_patch, render_workspace,
         "Change name, defaultRole, weight, guaranteedSlots or maxSlots",
         .takes = "name?:string" WORKSPACE_SETTINGS,
         .answers = "workspace:Workspace namespaceBindings:{object}"),
    CORE("DELETE", V1 "/workspaces/{workspaceId}", AUTH_USER, core_workspace_delete, NULL,
         "Delete a workspace that holds no experiments, with its projects",
         .answers = "completed:bool"),
    CORE("POST", V1 "/workspaces/{workspaceId}/archive", AUTH_USER, core_workspace_archive, NULL,
         "Let nobody submit into a workspace any more"),
    CORE("POST", V1 "/workspaces/{workspaceId}/unarchive", AUTH_USER, core_workspace_unarchive,
         NULL, "Open an archived workspace again"),
    READ(V1 "/workspaces/{workspaceId}/projects", AUTH_USER, view_workspace_projects,
         "archived name sortBy" PAGE, "List the projects of a workspace",
         .answers = "projects:[Project] pagination:Pagination"),
    CORE("POST", V1 "/workspaces/{workspaceId}/projects", AUTH_USER, core_project_create,
         render_project, "Make a project in a workspace",
         .takes = "name:string description?:string workspaceId?:int key?:string",
         .answers = "project:Project"),
    {.method = "GET",
     .path = V1 "/workspaces/{workspaceId}/members",
     .auth = AUTH_USER,
     .kind = ROUTE_READ,
     .view = view_members,
     .ours = true,
     .summary = "Who has a role, a weight or a limit in a workspace",
     .answers = "members:[Member]"},
    {.method = "PUT",
     .path = V1 "/workspaces/{workspaceId}/members/{userId}",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_member_set,
     .body = BODY_SMALL,
     .ours = true,
     .summary = "Set a user's role, weight or maxSlots in a workspace",
     .takes = "role?:string weight?:number maxSlots?:int"},
    {.method = "DELETE",
     .path = V1 "/workspaces/{workspaceId}/members/{userId}",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_member_remove,
     .ours = true,
     .summary = "Give a user the workspace's default role, weight and limit again"},
    READ(V1 "/projects/{projectId}", AUTH_USER, view_project, NULL, "One project",
         .answers = "project:Project"),
    CORE("PATCH", V1 "/projects/{projectId}", AUTH_USER, core_project_patch, render_project,
         "Change name or description of a project",
         .takes = "name?:string description?:string key?:string", .answers = "project:Project"),
    CORE("DELETE", V1 "/projects/{projectId}", AUTH_USER, core_project_delete, NULL,
         "Delete a project that holds no experiments", .answers = "completed:bool"),
    CORE("POST", V1 "/projects/{projectId}/archive", AUTH_USER, core_project_archive, NULL,
         "Let nobody submit into a project any more"),
    CORE("POST", V1 "/projects/{projectId}/unarchive", AUTH_USER, core_project_unarchive, NULL,
         "Open an archived project again"),

    READ(V1 "/experiments", AUTH_USER, view_experiments,
         "states users userIds archived name description labels projectId sortBy" PAGE,
         "List experiments", .answers = "experiments:[Experiment] pagination:Pagination"),
    {.method = "POST",
     .path = V1 "/experiments",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_experiment_create,
     .view = render_experiment_created,
     .body = BODY_FILES,
     .summary = "Submit an experiment: configuration as YAML text, and files",
     .takes = "config?:string modelDefinition?:[File] activate?:bool projectId?:int "
              "template?:string parentId?:int validateOnly?:bool unmanaged?:bool",
     .answers =
         "experiment:Experiment config:object warnings?:[LaunchWarning] +warningTexts?:[string]"},
    READ(V1 "/experiments/{experimentId}", ANY_USER_TASK, view_experiment, NULL, "One experiment",
         .answers = "experiment:Experiment config?:object jobSummary?:JobSummary"),
    CORE("PATCH", V1 "/experiments/{experimentId}", AUTH_USER, core_experiment_patch,
         render_experiment, "Change name, description, notes, labels or resources",
         .takes = "PatchExperiment", .answers = "experiment:Experiment"),
    CORE("DELETE", V1 "/experiments/{experimentId}", AUTH_USER, core_experiment_delete, NULL,
         "Delete an experiment that has ended, with its checkpoints"),
    CORE("POST", V1 "/experiments/{experimentId}/activate", AUTH_USER, core_experiment_activate,
         NULL, "Go on with a paused experiment"),
    CORE("POST", V1 "/experiments/{experimentId}/pause", AUTH_USER, core_experiment_pause, NULL,
         "Checkpoint, and leave the slots"),
    CORE("POST", V1 "/experiments/{experimentId}/cancel", AUTH_USER, core_experiment_cancel, NULL,
         "Checkpoint, and end"),
    CORE("POST", V1 "/experiments/{experimentId}/kill", AUTH_USER, core_experiment_kill, NULL,
         "End at once"),
    CORE("POST", V1 "/experiments/{experimentId}/archive", AUTH_USER, core_experiment_archive, NULL,
         "Take an experiment that has ended out of the lists"),
    CORE("POST", V1 "/experiments/{experimentId}/unarchive", AUTH_USER, core_experiment_unarchive,
         NULL, "Show an archived experiment in the lists again"),
    {.method = "GET",
     .path = V1 "/experiments/{experimentId}/why",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_experiment_why,
     .ours = true,
     .summary = "Why an experiment waits",
     .answers = "experimentId:int reason:string resourcePool?:string priority?:int "
                "requestedSlots?:int allocatedSlots?:int waiting:[WaitReason]"},
    CORE_GET(V1 "/experiments/{experimentId}/searcher/best_searcher_validation_metric",
             ANY_USER_TASK, core_experiment_best_metric, NULL,
             "The best value of the searcher's metric so far", .answers = "metric?:float"),
    READ(V1 "/experiments/{experimentId}/trials", AUTH_USER, view_experiment_trials,
         "states sortBy" PAGE, "List the trials of an experiment",
         .answers = "trials:[Trial] pagination:Pagination"),
    READ(V1 "/experiments/{experimentId}/checkpoints", AUTH_USER, view_experiment_checkpoints,
         "states sortByAttr" PAGE, "List the checkpoints of an experiment",
         .answers = "checkpoints:[Checkpoint] pagination:Pagination"),
    SLOW(V1 "/experiments/{experimentId}/model_def", AUTH_USER, view_model_definition, NULL,
         "The files of an experiment, as tar.gz in base64", .answers = "b64Tgz:base64"),

    STREAM(V1 "/trials/metrics/training_metrics", ANY_USER_TASK, stream_training_metrics,
           "trialIds", "The training reports of trials", .answers = "metrics:[MetricsReport]"),
    STREAM(V1 "/trials/metrics/validation_metrics", ANY_USER_TASK, stream_validation_metrics,
           "trialIds", "The validation reports of trials", .answers = "metrics:[MetricsReport]"),
    STREAM(V1 "/trials/metrics/trial_metrics", ANY_USER_TASK, stream_trial_metrics,
           "trialIds group", "The reports of a group of metrics, or of all",
           .answers = "metrics:[MetricsReport]"),
    READ(V1 "/trials/{trialId}", ANY_USER_TASK, view_trial, NULL, "One trial",
         .answers = "trial:Trial"),
    READ(V1 "/trials/{trialId}/workloads", AUTH_USER, view_trial_workloads,
         "filter group includeBatchMetrics removeDeletedCheckpoints sortKey" PAGE,
         "Training, validation and checkpoints of a trial, by step",
         .answers = "workloads:[WorkloadContainer] pagination:Pagination"),
    {.method = "GET",
     .path = V1 "/trials/{trialId}/starts",
     .auth = AUTH_USER,
     .kind = ROUTE_READ,
     .view = view_trial_starts,
     .ours = true,
     .summary = "Every start of a trial: where it ran, and why it ended",
     .answers = "starts:[Start]"},
    READ(V1 "/trials/{trialId}/checkpoints", ANY_USER_TASK, view_trial_checkpoints,
         "states sortByAttr" PAGE, "List the checkpoints of a trial",
         .answers = "checkpoints:[Checkpoint] pagination:Pagination"),
    {.method = "GET",
     .path = V1 "/trials/{trialId}/series",
     .auth = ANY_USER_TASK,
     .kind = ROUTE_WORKER,
     .view = view_trial_series,
     .query = "group metric max",
     .ours = true,
     .summary = "One metric of a trial as arrays, thinned to `max` points",
     .answers = "group:string metric:string total:int steps:[int] times:[number] values:[float]"},
    STREAM(V1 "/trials/{trialId}/logs", AUTH_USER, stream_trial_logs,
           "follow limit orderBy agentIds allocationIds containerIds rankIds sources stdtypes "
           "levels timestampBefore timestampAfter searchText enableRegex",
           "The log of a trial", .answers = "TrialLog"),
    STREAM(V1 "/trials/{trialId}/logs/fields", AUTH_USER, stream_trial_log_fields, "follow",
           "What the log of a trial can be filtered by", .answers = "LogFields"),
    CORE("POST", V1 "/trials/{trialId}/kill", AUTH_USER, core_trial_kill, NULL,
         "End a trial at once"),

    // What running tasks report.
    CORE("POST", V1 "/runs/start", AUTH_TASK, core_run_start, NULL, "A task has started",
         .takes = "runId?:int checkpointStorage?:object", .answers = "storageId?:int"),
    CORE("POST", V1 "/trials/{trialId}/metrics", AUTH_TASK, core_trial_metrics, NULL,
         "Report metrics", .takes = "group:string metrics:TrialMetrics"),
    CORE("POST", V1 "/trials/{trialId}/progress", AUTH_TASK, core_trial_progress, NULL,
         "Report progress", .takes = "progress:number isRaw?:bool"),
    CORE("POST", V1 "/trials/{trialId}/early_exit", AUTH_TASK, core_trial_early_exit, NULL,
         "Say why the trial ends early", .takes = "reason:ExitedReason"),
    CORE("POST", V1 "/trials/{trialId}/runner/metadata", AUTH_TASK, core_trial_runner_metadata,
         NULL, "Say what the trial is doing", .takes = "state:string"),
    CORE_GET(V1 "/allocations/{allocationId}/signals/preemption", AUTH_TASK,
             core_allocation_preemption, "timeoutSeconds",
             "Wait for the signal to checkpoint and leave", .answers = "preempt?:bool"),
    CORE("POST", V1 "/allocations/{allocationId}/signals/ack_preemption", AUTH_TASK,
         core_allocation_ack_preemption, NULL, "The signal was heard",
         .takes = "allocationId?:string"),
    CORE("POST", V1 "/allocations/{allocationId}/all_gather", AUTH_TASK, core_allocation_all_gather,
         NULL, "Exchange a value with all ranks",
         .takes = "allocationId?:string requestUuid?:string numPeers?:int data?:any",
         .answers = "data:[any]"),
    CORE_GET(V1 "/allocations/{allocationId}/resources/{resourcesId}/rendezvous", AUTH_TASK,
             core_allocation_rendezvous, NULL, "Wait until every part of an allocation has started",
             .answers = "rendezvousInfo:RendezvousInfo"),
    CORE("POST", V1 "/allocations/{allocationId}/acceleratorData", AUTH_TASK,
         core_allocation_accelerator_data, NULL, "Report the accelerators of an allocation",
         .takes = "allocationId?:string acceleratorData:AcceleratorData"),
    CORE("POST", V1 "/task/logs", AUTH_TASK | AUTH_AGENT, core_task_logs, NULL, "Ship log lines",
         .takes = "logs:[NewTaskLog]"),

    CORE("POST", V1 "/checkpoints", AUTH_TASK, core_checkpoint_report, NULL, "Report a checkpoint",
         .takes = "Checkpoint"),
    READ(V1 "/checkpoints/{checkpointUuid}", ANY_USER_TASK, view_checkpoint, NULL, "One checkpoint",
         .answers = "checkpoint:Checkpoint"),
    STREAM("/checkpoints/{checkpointUuid}", AUTH_USER, stream_checkpoint_archive, NULL,
           "The files of a checkpoint, as tar.gz", .content = "application/gzip"),

    CORE_GET(V1 "/tasks", AUTH_USER, core_tasks, NULL, "What runs: the live allocations",
             .answers = "allocationIdToSummary?:{AllocationSummary}"),
    SLOW(V1 "/tasks/{taskId}/context_directory", EVERYBODY, view_context_directory, NULL,
         "The files of a task, as tar.gz in base64", .answers = "b64Tgz:base64"),
    STREAM(V1 "/tasks/{taskId}/logs", AUTH_USER, stream_task_logs,
           "follow limit orderBy agentIds allocationIds containerIds rankIds sources stdtypes "
           "levels timestampBefore timestampAfter searchText enableRegex",
           "The log of a task", .answers = "TaskLog"),
    STREAM(V1 "/tasks/{taskId}/logs/fields", AUTH_USER, stream_task_log_fields, "follow",
           "What the log of a task can be filtered by", .answers = "LogFields"),

    {.method = "POST",
     .path = V1 "/agents/{agentId}/sync",
     .auth = AUTH_AGENT,
     .kind = ROUTE_CORE,
     .core = core_agent_sync,
     .body = BODY_SMALL,
     .ours = true,
     .summary = "What an agent runs, for what it should run",
     .takes = "object",
     .answers = "object"},
    CORE_GET(V1 "/agents", AUTH_USER, core_agents, "label sortBy" PAGE, "List agents",
             .answers = "agents:[Agent] pagination:Pagination"),
    CORE_GET(V1 "/agents/{agentId}", AUTH_USER, core_agent, NULL, "One agent",
             .answers = "agent:Agent"),
    CORE("POST", V1 "/agents/{agentId}/enable", AUTH_ADMIN, core_agent_enable, NULL,
         "Let an agent take work again", .answers = "agent:Agent"),
    CORE("POST", V1 "/agents/{agentId}/disable", AUTH_ADMIN, core_agent_disable, NULL,
         "Give an agent no more work; without drain, end what it runs",
         .takes = "agentId?:string drain?:bool", .answers = "agent:Agent"),
    CORE_GET(V1 "/agents/{agentId}/slots", AUTH_USER, core_slots, NULL,
             "List the slots of an agent", .answers = "slots:[Slot]"),
    CORE_GET(V1 "/agents/{agentId}/slots/{slotId}", AUTH_USER, core_slot, NULL, "One slot",
             .answers = "slot:Slot"),
    CORE("POST", V1 "/agents/{agentId}/slots/{slotId}/enable", AUTH_ADMIN, core_slot_enable, NULL,
         "Use a slot again", .answers = "slot:Slot"),
    CORE("POST", V1 "/agents/{agentId}/slots/{slotId}/disable", AUTH_ADMIN, core_slot_disable, NULL,
         "Use a slot no more", .takes = "agentId?:string slotId?:string drain?:bool",
         .answers = "slot:Slot"),

    CORE_GET(V1 "/job-queues-v2", AUTH_USER, core_job_queue, "resourcePool states" PAGE,
             "What runs and what waits, in order",
             .answers = "jobs:[RBACJob] pagination:Pagination"),
    CORE("POST", V1 "/job-queues", AUTH_USER, core_job_queue_update, NULL,
         "Move jobs: priority, weight, resourcePool, aheadOf or behindOf another; all or none",
         .takes = "updates:[QueueControl]"),
    {.method = "GET",
     .path = V1 "/shares",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_shares,
     .query = "resourcePool",
     .ours = true,
     .summary = "What each workspace and user is entitled to, holds, wants and has used",
     .answers = "shares:[Share]"},
    CORE_GET(V1 "/resource-pools", AUTH_USER, core_resource_pools, "offset limit",
             "List resource pools",
             .answers = "resourcePools:[ResourcePool] pagination:Pagination"),
};

const size_t route_count = sizeof route_table / sizeof *route_table;
