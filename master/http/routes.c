// Every call of the master. Which body and answer each has is the wire's (Determined's REST API
// v1); what is marked ours is Muster's own.

#include "master/http/routes.h"

#include "master/core/handlers.h"
#include "master/core/logpost.h"
#include "master/core/metricpost.h"
#include "master/views/views.h"

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

// A verb of many experiments, of one project or of any.
#define BULK_ROW(method_, path_, core_, summary_)                                                  \
    {                                                                                              \
        .method = method_, .path = path_, .auth = AUTH_USER, .kind = ROUTE_CORE, .core = core_,    \
        .body = BODY_SMALL, .summary = summary_,                                                   \
        .takes = "experimentIds?:[int] filters?:ExperimentFilters destinationProjectId?:int "      \
                 "projectId?:int",                                                                 \
        .answers = "results:[ActionResult]"                                                        \
    }
#define BULK(method_, verb_, core_, summary_)                                                      \
    BULK_ROW(method_, V1 "/experiments/" verb_, core_, summary_),                                  \
        BULK_ROW(method_, V1 "/projects/{projectId}/experiments/" verb_, core_, summary_)

// The same of searches and runs, which are experiments and trials by the names of the web client.
#define BULK_NAMED(noun_, ids_, verb_, core_, summary_)                                            \
    {                                                                                              \
        .method = "POST", .path = V1 "/" noun_ "/" verb_, .auth = AUTH_USER, .kind = ROUTE_CORE,   \
        .core = core_, .body = BODY_SMALL, .summary = summary_,                                    \
        .takes = ids_ "?:[int] projectId?:int sourceProjectId?:int destinationProjectId?:int "     \
                      "filter?:string skipMultitrial?:bool",                                       \
        .answers = "results:[ActionResult]"                                                        \
    }
#define SEARCHES(verb_, core_, summary_) BULK_NAMED("searches", "searchIds", verb_, core_, summary_)
#define RUNS(verb_, core_, summary_)     BULK_NAMED("runs", "runIds", verb_, core_, summary_)

// A call of Determined's that has no meaning here, and what to do instead.
#define NO(method_, path_, instead_)                                                               \
    {                                                                                              \
        .method = method_, .path = path_, .auth = ANY_USER_TASK, .kind = ROUTE_READ,               \
        .body = BODY_NONE, .instead = instead_, .summary = "Refused; instead: " instead_           \
    }
#define ROLES                                                                                      \
    "roles are given in each workspace: GET /api/v1/workspaces/{id}/members, PUT and DELETE "      \
    "/api/v1/workspaces/{id}/members/{userId}"
#define POLICIES                                                                                   \
    "templates hold what configurations have in common (/api/v1/templates), and PATCH "            \
    "/api/v1/workspaces/{id} sets what a workspace may use"
#define POOLS                                                                                      \
    "every workspace may use every pool; PATCH /api/v1/workspaces/{id} sets guaranteedSlots and "  \
    "maxSlots of a workspace"
#define KUBERNETES                                                                                 \
    "programs run as processes of agents, and there is no Kubernetes; PATCH "                      \
    "/api/v1/workspaces/{id} sets guaranteedSlots and maxSlots of a workspace"
#define SINGLE_SIGN_ON                                                                             \
    "programs get access tokens of their own: POST /api/v1/tokens; users are made by POST "        \
    "/api/v1/users"
#define CHARTS                                                                                     \
    "GET /api/v1/trials/time-series has the metrics of several trials, GET "                       \
    "/api/v1/experiments/{id}/trials sorts and filters by them"
#define FIELDS   "GET /api/v1/experiment/fields has what lists can be filtered and sorted by"
#define SETTINGS "POST /api/v1/users/setting keeps what a page is to remember of a user"
#define NO_READINESS                                                                               \
    "nothing is passed on to programs; GET /api/v1/tasks/{id} has the state of one, POST "         \
    "/api/v1/tasks/{id}/kill ends it"
#define SEARCHERS "searches are run by the master: GET /api/v1/experiments/{id}/search shows one"

#define NEW_EXPERIMENT                                                                             \
    "config?:string modelDefinition?:[File] activate?:bool projectId?:int template?:string "       \
    "parentId?:int validateOnly?:bool unmanaged?:bool"
// What commands, shells, notebooks and tensorboards have in common; `Type_` is a schema, `cannot_`
// why the call is refused, or NULL.
#define TASK_ROWS(noun_, Type_, create_, render_created_, summary_)                                \
    READ(V1 "/" #noun_ "s", AUTH_USER, view_##noun_##s, "users userIds workspaceId sortBy" PAGE,   \
         "List " #noun_ "s, newest first",                                                         \
         .answers = #noun_ "s:[" Type_ "] pagination:Pagination"),                                 \
        {.method = "POST",                                                                         \
         .path = V1 "/" #noun_ "s",                                                                \
         .auth = AUTH_USER,                                                                        \
         .kind = ROUTE_CORE,                                                                       \
         .core = create_,                                                                          \
         .view = render_created_,                                                                  \
         .body = BODY_FILES,                                                                       \
         .growth = GROWS_BY_SUBMISSION,                                                            \
         .summary = summary_,                                                                      \
         .takes = "config?:object templateName?:string workspaceId?:int files?:[File] "            \
                  "seed?:int data?:string preview?:bool experimentIds?:[int] trialIds?:[int] "     \
                  "filters?:object +externalTaskId?:string",                                       \
         .answers =                                                                                \
             #noun_ ":" Type_ " config:object warnings?:[LaunchWarning] +warningTexts?:[string]"}, \
        READ(V1 "/" #noun_ "s/{taskId}", AUTH_USER, view_##noun_, NULL, "One " #noun_,             \
             .answers = #noun_ ":" Type_ " config:object"),                                        \
        CORE("POST", V1 "/" #noun_ "s/{taskId}/kill", AUTH_USER, core_##noun_##_kill,              \
             render_##noun_, "End a " #noun_ " at once", .answers = #noun_ "?:" Type_),            \
        CORE("POST", V1 "/" #noun_ "s/{taskId}/set_priority", AUTH_USER,                           \
             core_##noun_##_set_priority, render_##noun_,                                          \
             "Give a " #noun_                                                                      \
             " another priority, 1 to 99, the smaller the sooner; users may give "                 \
             "those that the pool's maxUserPriority allows",                                       \
             .takes = "priority:int " #noun_ "Id?:string", .answers = #noun_ "?:" Type_)
#define NO_PROXY                                                                                   \
    "Refused: programs cannot be reached from outside; the answer says what to do instead"

#define EXPERIMENT_MADE                                                                            \
    "experiment:Experiment config:object warnings?:[LaunchWarning] +warningTexts?:[string]"

const struct route route_table[] = {
    READ("/", AUTH_NONE, view_page, NULL, "The web page; a browser gets it for other paths too",
         .content = "text/html"),
    READ("/assets/{file}", AUTH_NONE, view_page_asset, NULL, "What the web page loads",
         .content = "application/octet-stream"),
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
    {.method = "GET",
     .path = V1 "/master/backup",
     .auth = AUTH_ADMIN,
     .kind = ROUTE_STREAM,
     .stream = stream_backup,
     .content = "application/vnd.sqlite3",
     .ours = true,
     .summary = "A verified copy of the whole store, as of one moment"},
    WORKER("PATCH", V1 "/master/config", AUTH_ADMIN, master_patch_config,
           "Change the level of the master's log, until its next start",
           .takes = "config:object fieldMask?:object", .answers = "config:object"),
    STREAM(V1 "/master/logs", AUTH_ADMIN, stream_master_logs, "offset limit follow:bool",
           "The newest lines of the master's own log", .answers = "logEntry:LogEntry"),
    READ(V1 "/master/telemetry", AUTH_USER, view_telemetry, NULL, "That nothing is sent to anybody",
         .answers = "enabled:bool segmentKey?:string"),
    WORKER("PUT", V1 "/master/cluster_message", AUTH_ADMIN, master_set_message,
           "Set the notice to all users",
           .takes = "message:string startTime?:time endTime?:time duration?:string"),
    WORKER("DELETE", V1 "/master/cluster_message", AUTH_ADMIN, master_delete_message,
           "Remove the notice to all users"),
    READ(V1 "/master/cluster_message", EVERYBODY, view_cluster_message, NULL,
         "The notice to all users", .answers = "clusterMessage?:ClusterMessage"),

    WORKER("POST", V1 "/auth/login", AUTH_NONE, account_login,
           "Log in: a token for a password; cookie=true: in a cookie, for the web page",
           .query = "cookie:bool", .takes = "username:string password:string isHashed?:bool",
           .answers = "token:string user:User"),
    WORKER("POST", V1 "/auth/logout", AUTH_USER, account_logout, "Revoke the token of this call"),
    READ(V1 "/me", ANY_USER_TASK, account_me, NULL, "The user of this token",
         .answers = "user:User"),
    READ(V1 "/users", AUTH_USER, account_list, "active admin name sortBy" PAGE, "List users",
         .answers = "users:[User] pagination:Pagination"),
    WORKER("POST", V1 "/users", AUTH_ADMIN, account_create, "Create a user",
           .takes = "user:NewUser password?:string isHashed?:bool", .answers = "user:User"),
    WORKER("PATCH", V1 "/users", AUTH_ADMIN, account_patch_many,
           "Let many users work, or keep them out", .takes = "userIds:[int] activate:bool",
           .answers = "results:[ActionResult]"),
    READ(V1 "/users/{userId}", AUTH_USER, account_get, NULL, "One user", .answers = "user:User"),
    WORKER("PATCH", V1 "/users/{userId}", AUTH_USER, account_patch,
           "Change a user: password, displayName, username, active, admin", .takes = "PatchUser",
           .answers = "user:User"),
    {.method = "POST",
     .path = V1 "/users/{userId}/password",
     .auth = AUTH_USER,
     .kind = ROUTE_WORKER,
     .view = account_set_password,
     .read = account_password_read,
     .body = BODY_SMALL,
     .summary = "Change a user's password: the body is the new one alone, or its hash as at a "
                "login, as a JSON string",
     .takes = "string"},
    READ(V1 "/users/{username}/by-username", AUTH_USER, account_get_by_name, NULL,
         "One user by name", .answers = "user:User"),

    READ(V1 "/auth/user", ANY_USER_TASK, account_me, NULL, "The user of this token",
         .answers = "user:User"),
    READ(V1 "/users/setting", AUTH_USER, settings_get, NULL,
         "What the web page keeps for the caller", .answers = "settings:[UserSetting]"),
    WORKER("POST", V1 "/users/setting", AUTH_USER, settings_set,
           "Keep something for the web page of the caller", .takes = "settings:[UserSetting]"),
    WORKER("POST", V1 "/users/setting/reset", AUTH_USER, settings_reset,
           "Forget what the web page has kept for the caller"),
    READ(V1 "/tokens", AUTH_USER, token_list,
         "tokenIds:[int] username showInactive:bool sessions:bool sortBy" PAGE,
         "List access tokens: the caller's own, of an administrator everybody's",
         .answers = "tokenInfo:[TokenInfo] pagination:Pagination"),
    WORKER("POST", V1 "/tokens", AUTH_USER, token_create, "Make an access token for a program",
           .takes = "userId?:int lifespan?:string description?:string",
           .answers = "token:string tokenId:int"),
    WORKER("PATCH", V1 "/tokens/{tokenId}", AUTH_USER, token_patch,
           "Describe an access token anew, or revoke it",
           .takes = "tokenId?:int description?:string setRevoked?:bool",
           .answers = "tokenInfo:TokenInfo"),
    {.method = "GET",
     .path = V1 "/audit",
     .auth = AUTH_ADMIN,
     .kind = ROUTE_READ,
     .view = audit_list,
     .query = "user userIds:[int] method status:int path since:time until:time sortBy cursor" PAGE,
     .answers = "audit:[AuditRow] pagination:Pagination +nextCursor?:string +totalIsLeast?:bool",
     .ours = true,
     .summary = "Who changed what, and who was refused"},

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
    CORE("POST", V1 "/projects/{projectId}/notes", AUTH_USER, core_project_note_add,
         render_project_notes, "Leave a note at a project", .takes = "Note",
         .answers = "notes:[Note]"),
    CORE("PUT", V1 "/projects/{projectId}/notes", AUTH_USER, core_project_notes_set,
         render_project_notes, "Set all notes of a project", .takes = "notes:[Note] projectId?:int",
         .answers = "notes:[Note]"),
    CORE("POST", V1 "/projects/{projectId}/archive", AUTH_USER, core_project_archive, NULL,
         "Let nobody submit into a project any more"),
    CORE("POST", V1 "/projects/{projectId}/unarchive", AUTH_USER, core_project_unarchive, NULL,
         "Open an archived project again"),
    CORE("POST", V1 "/projects/{projectId}/move", AUTH_USER, core_project_move, NULL,
         "Move a project, with all that is in it, to another workspace",
         .takes = "destinationWorkspaceId:int projectId?:int"),

    READ(V1 "/experiments", AUTH_USER, view_experiments,
         "states users userIds archived name description labels projectId sortBy filter sort show "
         "cursor omit count" PAGE,
         "List experiments; filter, sort, show, cursor, omit and count are ours",
         .answers = "experiments:[Experiment] pagination:Pagination +nextCursor?:string "
                    "+totalIsLeast?:bool +values?:[any]"),
    {.method = "POST",
     .path = V1 "/experiments",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_experiment_create,
     .view = render_experiment_created,
     .body = BODY_FILES,
     .growth = GROWS_BY_SUBMISSION,
     .summary = "Submit an experiment: configuration as YAML text, and files",
     .takes = NEW_EXPERIMENT " +externalExperimentId?:string",
     .answers = EXPERIMENT_MADE},
    {.method = "PUT",
     .path = V1 "/experiments/by-external-id/{externalExperimentId}",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_experiment_put,
     .view = render_experiment_created,
     .body = BODY_FILES,
     .growth = GROWS_BY_SUBMISSION,
     .summary = "The experiment of that name, submitted unless there is one",
     .takes = NEW_EXPERIMENT,
     .answers = EXPERIMENT_MADE},
    CORE("POST", V1 "/experiments/continue", AUTH_USER, core_experiment_continue,
         render_experiment_created,
         "Go on with an experiment that has ended, from its newest checkpoint",
         .growth = GROWS_BY_SUBMISSION, .takes = "id:int overrideConfig?:string",
         .answers = EXPERIMENT_MADE),
    BULK("POST", "pause", core_experiments_pause, "Pause many experiments"),
    BULK("POST", "activate", core_experiments_activate, "Go on with many paused experiments"),
    BULK("POST", "cancel", core_experiments_cancel, "Checkpoint and end many experiments"),
    BULK("POST", "kill", core_experiments_kill, "End many experiments at once"),
    BULK("POST", "archive", core_experiments_archive, "Take many experiments out of the lists"),
    BULK("POST", "unarchive", core_experiments_unarchive, "Show many experiments in lists again"),
    BULK("DELETE", "delete", core_experiments_delete, "Delete many experiments that have ended"),
    {.method = "PUT",
     .path = V1 "/experiments/retain_logs",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_experiments_retain_logs,
     .body = BODY_SMALL,
     .summary = "Say for how many days after their end the logs of many experiments are kept",
     .takes = "experimentIds?:[int] filters?:ExperimentFilters projectId?:int numDays:int",
     .answers = "results:[ActionResult]"},
    BULK("POST", "move", core_experiments_move, "Move many experiments to another project"),
    SEARCHES("pause", core_searches_pause, "Pause many searches"),
    SEARCHES("resume", core_searches_activate, "Go on with many paused searches"),
    SEARCHES("cancel", core_searches_cancel, "Checkpoint and end many searches"),
    SEARCHES("kill", core_searches_kill, "End many searches at once"),
    SEARCHES("archive", core_searches_archive, "Take many searches out of the lists"),
    SEARCHES("unarchive", core_searches_unarchive, "Show many searches in lists again"),
    SEARCHES("delete", core_searches_delete, "Delete many searches that have ended"),
    SEARCHES("move", core_searches_move, "Move many searches to another project"),
    RUNS("pause", core_runs_pause, "Pause many runs that are the only ones of their searches"),
    RUNS("resume", core_runs_activate, "Go on with many such runs that are paused"),
    RUNS("kill", core_runs_kill, "End many runs at once"),
    RUNS("archive", core_runs_archive, "Take many runs out of the lists, with their searches"),
    RUNS("unarchive", core_runs_unarchive, "Show many runs in lists again, with their searches"),
    RUNS("delete", core_runs_delete, "Delete many runs that have ended, with their searches"),
    RUNS("move", core_runs_move, "Move many runs to another project, with their searches"),
    WORKER("POST", V1 "/experiments-search", AUTH_USER, view_search_experiments,
           "List experiments by a filter and a sort as Determined's web client has them",
           .takes = "projectId?:int offset?:int limit?:int sort?:string filter?:string",
           .answers = "experiments:[FoundExperiment] pagination:Pagination +nextCursor?:string "
                      "+totalIsLeast?:bool"),
    STREAM(V1 "/experiments/metrics-stream/metric-names", AUTH_USER, stream_metric_names,
           "ids:[int] periodSeconds:int",
           "The names of what experiments have reported; again every so often while one runs",
           .answers = "searcherMetrics?:[string] trainingMetrics?:[string] "
                      "validationMetrics?:[string] metricNames?:[MetricName]"),
    SLOW(V1 "/experiment/labels", AUTH_USER, view_labels, "projectId",
         "The labels in use, the most frequent first", .answers = "labels:[string]"),
    {.method = "GET",
     .path = V1 "/experiment/fields",
     .auth = AUTH_USER,
     .kind = ROUTE_WORKER,
     .view = view_fields,
     .query = "archived",
     .ours = true,
     .summary =
         "What lists of experiments can be filtered, sorted and shown by, and how many there "
         "are of each sort",
     .answers = "fields:[Field] states:[object] users:[object] projects:[object]"},
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
    CORE("POST", V1 "/experiments/{experimentId}/move", AUTH_USER, core_experiment_move, NULL,
         "Move an experiment to another project",
         .takes = "destinationProjectId:int experimentId?:int"),
    CORE("PUT", V1 "/experiments/{experimentId}/labels/{label}", AUTH_USER,
         core_experiment_add_label, NULL, "Add a label", .answers = "labels:[string]"),
    CORE("DELETE", V1 "/experiments/{experimentId}/labels/{label}", AUTH_USER,
         core_experiment_remove_label, NULL, "Remove a label", .answers = "labels:[string]"),
    READ(V1 "/experiments/{experimentId}/validation-history", AUTH_USER, view_validation_history,
         NULL, "The validations that were the best when they came",
         .answers = "validationHistory:[ValidationHistoryEntry]"),
    SLOW(V1 "/experiments/{experimentId}/file_tree", AUTH_USER, view_file_tree, NULL,
         "The names of an experiment's files", .answers = "files:[FileNode]"),
    WORKER("POST", V1 "/experiments/{experimentId}/file", AUTH_USER, view_file,
           "One of an experiment's files", .takes = "path:string experimentId?:int",
           .answers = "file:base64"),
    {.method = "GET",
     .path = V1 "/experiments/{experimentId}/why",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_experiment_why,
     .ours = true,
     .summary = "Why an experiment waits",
     .answers = "experimentId:int reason:string resourcePool?:string priority?:int "
                "requestedSlots?:int allocatedSlots?:int waiting:[WaitReason]"},
    {.method = "GET",
     .path = V1 "/experiments/{experimentId}/search",
     .auth = AUTH_USER,
     .kind = ROUTE_WORKER,
     .view = view_experiment_search,
     .ours = true,
     .summary = "Where the trials of a search stand: brackets, their rungs, who reached them",
     .answers = "method:string metric:string smallerIsBetter:bool divisor:number "
                "timeMetric?:string brackets:[SearchBracket]"},
    {.method = "GET",
     .path = V1 "/experiments/{experimentId}/starts",
     .auth = AUTH_USER,
     .kind = ROUTE_READ,
     .view = view_experiment_starts,
     .query = "offset limit",
     .ours = true,
     .summary = "Every start of an experiment's trials, newest first",
     .answers = "starts:[Start] pagination:Pagination"},
    CORE_GET(V1 "/experiments/{experimentId}/searcher/best_searcher_validation_metric",
             ANY_USER_TASK, core_experiment_best_metric, NULL,
             "The best value of the searcher's metric so far", .answers = "metric?:float"),
    CORE("PUT", V1 "/experiments/{experimentId}/retain_logs", AUTH_USER,
         core_experiment_retain_logs, NULL,
         "Say for how many days after their end the logs of its trials are kept; -1: for ever",
         .takes = "experimentId?:int numDays:int"),
    READ(V1 "/experiments/{experimentId}/trials", AUTH_USER, view_experiment_trials,
         "states sortBy filter sort show cursor count" PAGE,
         "List the trials of an experiment; filter, sort, show, cursor and count are ours",
         .answers = "trials:[Trial] pagination:Pagination +nextCursor?:string +totalIsLeast?:bool "
                    "+values?:[any]"),
    READ(V1 "/experiments/{experimentId}/checkpoints", AUTH_USER, view_experiment_checkpoints,
         "states sortByAttr sortByMetric" PAGE, "List the checkpoints of an experiment",
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
    SLOW(V1 "/trials/time-series", AUTH_USER, view_compare_trials,
         "trialIds:[int] metricIds:[string] metricNames:[string] group metricType "
         "maxDatapoints:int startBatches:int endBatches:int",
         "Metrics of several trials, thinned, for a chart", .answers = "trials:[ComparableTrial]"),
    CORE("POST", V1 "/trials", AUTH_USER, core_trial_create, render_trial,
         "Make a trial of an unmanaged experiment", .growth = GROWS_BY_SUBMISSION,
         .takes = "experimentId:int hparams?:object unmanaged?:bool +externalTrialId?:string",
         .answers = "trial:Trial"),
    CORE("PUT", V1 "/trials", AUTH_USER, core_trial_put, render_trial,
         "The trial of that name in an unmanaged experiment, made unless there is one",
         .growth = GROWS_BY_SUBMISSION,
         .takes = "createTrialRequest:CreateTrial externalTrialId:string",
         .answers = "trial:Trial"),
    CORE("POST", V1 "/trials/{trialId}/start", AUTH_USER, core_trial_start, NULL,
         "An unmanaged trial's program begins, or goes on from its newest checkpoint",
         .takes = "resume?:bool trialId?:int",
         .answers = "trialRunId:int latestCheckpoint?:string stepsCompleted:int"),
    CORE("PATCH", V1 "/trials/{trialId}", AUTH_USER, core_trial_patch, render_trial,
         "How an unmanaged trial is; without a state, that it still runs: one that is not heard "
         "for 300 s has failed",
         .takes = "state?:TrialState trialId?:int", .answers = "trial:Trial"),
    READ(V1 "/trials/{trialId}", ANY_USER_TASK, view_trial, NULL, "One trial",
         .answers = "trial:Trial"),
    READ(V1 "/trials/by-external-id/{externalExperimentId}/{externalTrialId}", AUTH_USER,
         view_trial_by_external_id, NULL, "The trial of that name in an unmanaged experiment",
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
         "states sortByAttr sortByMetric" PAGE, "List the checkpoints of a trial",
         .answers = "checkpoints:[Checkpoint] pagination:Pagination"),
    {.method = "GET",
     .path = V1 "/trials/{trialId}/series",
     .auth = ANY_USER_TASK,
     .kind = ROUTE_WORKER,
     .view = view_trial_series,
     .query = "group metric max from to",
     .ours = true,
     .summary = "Metrics of a trial as arrays, thinned to `max` points each",
     .answers = "group:string series:[Series]"},
    STREAM(V1 "/trials/{trialId}/logs", AUTH_USER, stream_trial_logs,
           "follow limit orderBy agentIds allocationIds containerIds rankIds sources stdtypes "
           "levels timestampBefore timestampAfter searchText enableRegex after:int before:int",
           "The log of a trial; after and, newest first, before (ours): only lines behind, or "
           "before, the one of this id",
           .answers = "TrialLog"),
    CORE("PUT", V1 "/trials/{trialId}/retain_logs", AUTH_USER, core_trial_retain_logs, NULL,
         "Say for how many days after its end the log of a trial is kept; -1: for ever",
         .takes = "trialId?:int numDays:int"),
    STREAM(V1 "/trials/{trialId}/logs/fields", AUTH_USER, stream_trial_log_fields, "follow",
           "What the log of a trial can be filtered by", .answers = "LogFields"),
    CORE("POST", V1 "/trials/{trialId}/kill", AUTH_USER, core_trial_kill, NULL,
         "End a trial at once"),

    // What running tasks report, and the programs of unmanaged trials with a user's token.
    CORE("POST", V1 "/runs/start", ANY_USER_TASK, core_run_start, NULL, "A task has started",
         .takes = "runId?:int checkpointStorage?:object", .answers = "storageId?:int"),
    READ(V1 "/runs/{trialId}/metadata", ANY_USER_TASK, view_run_metadata, NULL,
         "The metadata of a run", .answers = "metadata:object"),
    CORE("POST", V1 "/runs/{trialId}/metadata", ANY_USER_TASK, core_run_metadata, NULL,
         "Replace the metadata of a run", .takes = "metadata:object runId?:int",
         .answers = "metadata:object"),
    CORE("POST", V1 "/trial-source-info", ANY_USER_TASK, core_trial_source, NULL,
         "Say which checkpoint, or model version, a trial works with",
         .takes = "trialSourceInfo:TrialSourceInfo",
         .answers = "trialId:int checkpointUuid:string"),
    CORE("POST", V1 "/trials/{trialId}/metrics", ANY_USER_TASK, core_trial_metrics, NULL,
         "Report metrics", .read = metric_report_read, .growth = GROWS_BY_REPORTS,
         .takes = "group:string metrics:TrialMetrics"),
    {.method = "POST",
     .path = V1 "/trials/{trialId}/metrics/columns",
     .auth = ANY_USER_TASK,
     .kind = ROUTE_CORE,
     .core = core_trial_metric_columns,
     .read = metric_columns_read,
     .growth = GROWS_BY_REPORTS,
     .body = BODY_SMALL,
     .ours = true,
     .summary = "Report metrics of many steps, each metric as a list",
     .takes = "group:string trialRunId?:int steps:[int] times?:[any] metrics:object"},
    CORE("POST", V1 "/trials/{trialId}/progress", ANY_USER_TASK, core_trial_progress, NULL,
         "Report progress", .takes = "progress:number isRaw?:bool"),
    CORE("POST", V1 "/trials/{trialId}/early_exit", ANY_USER_TASK, core_trial_early_exit, NULL,
         "Say why the trial ends early", .takes = "reason:ExitedReason"),
    CORE("POST", V1 "/trials/{trialId}/runner/metadata", ANY_USER_TASK, core_trial_runner_metadata,
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
    READ(V1 "/allocations/{allocationId}", ANY_USER_TASK, view_allocation, NULL,
         "One start of a task", .answers = "allocation:Allocation"),
    CORE("POST", V1 "/allocations/{allocationId}/notify_container_running", AUTH_TASK,
         core_allocation_container_running, NULL,
         "A machine of an allocation runs; the answer waits for all",
         .takes = "allocationId?:string requestUuid?:string numPeers?:int rank?:int "
                  "nodeName?:string data?:any",
         .answers = "data:[any]"),
    CORE("POST", V1 "/allocations/{allocationId}/proxy_address", AUTH_TASK,
         core_allocation_proxy_address, NULL, "Say where a task can be reached",
         .takes = "allocationId?:string proxyAddress?:string"),
    CORE("POST", V1 "/allocations/{allocationId}/signals/pending_preemption", AUTH_TASK,
         core_allocation_pending_preemption, NULL,
         "A task must leave: its peers hear the signal to checkpoint",
         .takes = "allocationId?:string"),
    CORE("POST", V1 "/allocations/{allocationId}/resources/{resourcesId}/daemon", AUTH_TASK,
         core_allocation_daemon, NULL,
         "A machine of an allocation only serves the others, and ends with them",
         .takes = "allocationId?:string resourcesId?:string"),
    CORE("POST", V1 "/allocations/{allocationId}/acceleratorData", AUTH_TASK,
         core_allocation_accelerator_data, NULL, "Report the accelerators of an allocation",
         .takes = "allocationId?:string acceleratorData:AcceleratorData"),
    CORE("POST", V1 "/task/logs", AUTH_TASK | AUTH_AGENT, core_task_logs, NULL,
         "Ship log lines; the names beside the list, before it, are of lines that do not say them",
         .read = log_post_read, .growth = GROWS_BY_REPORTS,
         .takes = "logs:[NewTaskLog] +taskId?:string +allocationId?:string +agentId?:string "
                  "+containerId?:string"),
    CORE("POST", "/task-logs", EVERYBODY, core_task_logs, NULL,
         "Ship log lines of tasks that run elsewhere", .read = log_list_read,
         .growth = GROWS_BY_REPORTS, .takes = "[NewTaskLog]"),

    CORE("POST", V1 "/checkpoints", ANY_USER_TASK, core_checkpoint_report, NULL,
         "Report a checkpoint", .takes = "Checkpoint"),
    CORE("DELETE", V1 "/checkpoints", AUTH_USER, core_checkpoints_delete, NULL,
         "Delete checkpoints; their files go soon after", .takes = "checkpointUuids:[string]"),
    CORE("POST", V1 "/checkpoints/rm", AUTH_USER, core_checkpoints_remove_files, NULL,
         "Remove the files that patterns match from checkpoints",
         .takes = "checkpointUuids:[string] checkpointGlobs:[string]"),
    CORE("PATCH", V1 "/checkpoints", ANY_USER_TASK, core_checkpoints_patch, NULL,
         "Say which files of checkpoints are left; none: it is deleted",
         .takes = "checkpoints:[PatchCheckpoint]"),
    CORE("POST", V1 "/checkpoints/{checkpointUuid}/metadata", AUTH_USER, core_checkpoint_metadata,
         view_checkpoint, "Replace what a checkpoint says of itself", .takes = "checkpoint:object",
         .answers = "checkpoint:Checkpoint"),
    READ(V1 "/checkpoints/{checkpointUuid}", ANY_USER_TASK, view_checkpoint, NULL, "One checkpoint",
         .answers = "checkpoint:Checkpoint"),
    SLOW(V1 "/checkpoints/{checkpointUuid}/metrics", AUTH_USER, view_checkpoint_metrics,
         "trialSourceInfoType metricGroup",
         "The reports of the trials that say they worked with a checkpoint",
         .answers = "metrics:[MetricsReport]"),
    STREAM("/checkpoints/{checkpointUuid}", AUTH_USER, stream_checkpoint_archive, NULL,
           "The files of a checkpoint, as tar.gz; with Accept also application/x-tar or "
           "application/zip",
           .content = "application/gzip"),
    SLOW("/experiments/{experimentId}/preview_gc", AUTH_USER, view_preview_gc,
         "saveExperimentBest:int saveTrialBest:int saveTrialLatest:int",
         "Which checkpoints a policy would delete",
         .answers = "checkpoints:[object] metric_name:string"),
    {.method = "POST",
     .path = V1 "/experiments/{experimentId}/gc",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_experiment_gc,
     .body = BODY_SMALL,
     .ours = true,
     .summary = "Delete the checkpoints that the experiment's policy leaves out"},
    {.method = "POST",
     .path = V1 "/experiments/{experimentId}/history",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_experiment_history,
     .body = BODY_SMALL,
     .ours = true,
     .summary = "Say when an unmanaged experiment that has ended ran, and how far it came; of its "
                "trials also their seeds",
     .takes = "startTime:time endTime?:time progress?:number trials?:[object]"},

    READ(V1 "/models", AUTH_USER, model_list,
         "name description labels archived users userIds id workspaceIds workspaceName sortBy" PAGE,
         "List models", .answers = "models:[Model] pagination:Pagination"),
    WORKER("POST", V1 "/models", AUTH_USER, model_create, "Make a model in the registry",
           .takes = "name:string description?:string metadata?:object labels?:[string] "
                    "notes?:string workspaceName?:string workspaceId?:int username?:string",
           .answers = "model:Model"),
    READ(V1 "/models/{modelName}", AUTH_USER, model_get, NULL, "One model, by name or id",
         .answers = "model:Model"),
    WORKER("PATCH", V1 "/models/{modelName}", AUTH_USER, model_patch,
           "Change name, description, metadata, labels or notes of a model",
           .takes = "name?:string description?:string metadata?:object labels?:[string] "
                    "notes?:string workspaceName?:string workspaceId?:int",
           .answers = "model:Model"),
    WORKER("DELETE", V1 "/models/{modelName}", AUTH_USER, model_delete,
           "Delete a model with its versions; their checkpoints stay"),
    WORKER("POST", V1 "/models/{modelName}/archive", AUTH_USER, model_archive,
           "Let nobody register versions of a model any more"),
    WORKER("POST", V1 "/models/{modelName}/unarchive", AUTH_USER, model_unarchive,
           "Open an archived model again"),
    WORKER("POST", V1 "/models/{modelName}/move", AUTH_USER, model_move,
           "Move a model to another workspace",
           .takes = "modelName?:string destinationWorkspaceId:int"),
    READ(V1 "/models/{modelName}/versions", AUTH_USER, model_version_list, "sortBy" PAGE,
         "List the versions of a model",
         .answers = "model:Model modelVersions:[ModelVersion] pagination:Pagination"),
    WORKER("POST", V1 "/models/{modelName}/versions", AUTH_USER, model_version_create,
           "Register a checkpoint as the next version of a model",
           .takes = "checkpointUuid:string modelName?:string name?:string comment?:string "
                    "metadata?:object labels?:[string] notes?:string",
           .answers = "modelVersion:ModelVersion"),
    READ(V1 "/models/{modelName}/versions/{modelVersionNum}", AUTH_USER, model_version_get, NULL,
         "One version of a model", .answers = "modelVersion:ModelVersion"),
    WORKER("PATCH", V1 "/models/{modelName}/versions/{modelVersionNum}", AUTH_USER,
           model_version_patch, "Change name, comment, metadata, labels or notes of a version",
           .takes = "name?:string comment?:string metadata?:object labels?:[string] "
                    "notes?:string checkpoint?:object",
           .answers = "modelVersion:ModelVersion"),
    WORKER("DELETE", V1 "/models/{modelName}/versions/{modelVersionNum}", AUTH_USER,
           model_version_delete, "Take a version out of the registry; its checkpoint stays"),
    SLOW(V1 "/models/{modelName}/versions/{modelVersionNum}/metrics", AUTH_USER,
         model_version_metrics, "trialSourceInfoType metricGroup",
         "The reports of the trials that say they worked with a version of a model",
         .answers = "metrics:[MetricsReport]"),
    READ(V1 "/model/labels", AUTH_USER, model_labels, "workspaceId offset limit",
         "The labels of all models, the most used first",
         .answers = "labels:[string] pagination:Pagination"),

    READ(V1 "/templates", AUTH_USER, template_list, "name workspaceIds sortBy" PAGE,
         "List templates", .answers = "templates:[Template] pagination:Pagination"),
    READ(V1 "/templates/{templateName}", AUTH_USER, template_get, "workspaceId", "One template",
         .answers = "template:Template"),
    WORKER("POST", V1 "/templates/{templateName}", AUTH_USER, template_create, "Make a template",
           .takes = "name?:string config:any workspaceId?:int validateOnly?:bool",
           .answers = "template?:Template +warningTexts?:[string]"),
    WORKER("PUT", V1 "/templates/{templateName}", AUTH_USER, template_put,
           "Make a template, or replace its configuration",
           .takes = "name?:string config:any workspaceId?:int validateOnly?:bool",
           .answers = "template?:Template +warningTexts?:[string]"),
    WORKER("PATCH", V1 "/templates/{templateName}", AUTH_USER, template_patch,
           "Replace the configuration of a template: it is the body", .query = "workspaceId",
           .takes = "object", .answers = "template:Template"),
    WORKER("DELETE", V1 "/templates/{templateName}", AUTH_USER, template_delete,
           "Delete a template", .query = "workspaceId"),

    CORE_GET(V1 "/webhooks", AUTH_USER, core_webhooks, "offset limit",
             "List the webhooks that the caller may manage",
             .answers = "webhooks:[Webhook] +pagination:Pagination"),
    CORE("POST", V1 "/webhooks", AUTH_USER, core_webhook_create, NULL,
         "Tell an address outside when something happens", .takes = "Webhook",
         .answers = "webhook:Webhook"),
    CORE_GET(V1 "/webhooks/{webhookId}", AUTH_USER, core_webhook, NULL, "One webhook",
             .answers = "webhook:Webhook"),
    CORE("PATCH", V1 "/webhooks/{webhookId}", AUTH_USER, core_webhook_patch, NULL,
         "Change the address of a webhook", .takes = "url:string", .answers = "webhook:Webhook"),
    CORE("DELETE", V1 "/webhooks/{webhookId}", AUTH_USER, core_webhook_delete, NULL,
         "Delete a webhook, and what it has not delivered yet"),
    WORKER("POST", V1 "/webhooks/{webhookId}/test", AUTH_USER, webhook_test,
           "Send an event that means nothing, now", .answers = "completed:bool"),
    CORE("POST", V1 "/webhooks/custom", ANY_USER_TASK, core_webhook_custom, NULL,
         "An alert of a program, to the webhooks that its experiment names",
         .takes = "experimentId?:int trialId?:int data:object"),

    STREAM("/resources/allocation/raw", AUTH_USER, stream_resources_raw,
           "timestampAfter:time timestampBefore:time", "Who had which slots when, as CSV",
           .content = "text/csv"),
    SLOW("/resources/allocation/aggregated", AUTH_USER, view_resources_aggregated_csv,
         "startDate:string endDate:string period:string",
         "Slot-seconds by day or month, user, label and pool, as CSV", .content = "text/csv"),
    SLOW(V1 "/resources/allocation/raw", AUTH_USER, view_resources_raw,
         "timestampAfter:time timestampBefore:time", "Who had which slots when",
         .answers = "resourceEntries:[object]"),
    SLOW(V1 "/resources/allocation/aggregated", AUTH_USER, view_resources_aggregated,
         "startDate:string endDate:string period:string",
         "Slot-seconds by day or month, user, label and pool",
         .answers = "resourceEntries:[object]"),

    {.method = "GET",
     .path = V1 "/simulate",
     .auth = AUTH_ADMIN,
     .kind = ROUTE_WORKER,
     .view = view_simulate,
     .query = "resourcePool scheduler days:int addNodes:int slotsPerNode:int",
     .ours = true,
     .summary = "What more agents would have done with the jobs of the last days",
     .answers =
         "jobs:int unfinished:int unstarted:int slotsPerNode:int now:Simulated then:Simulated"},

    CORE_GET(V1 "/tasks", AUTH_USER, core_tasks, NULL, "What runs: the live allocations",
             .answers = "allocationIdToSummary?:{AllocationSummary}"),
    READ(V1 "/tasks/{taskId}", ANY_USER_TASK, view_task, NULL, "One task, with all of its starts",
         .answers = "task:Task"),
    SLOW(V1 "/tasks/{taskId}/context_directory", EVERYBODY, view_context_directory, NULL,
         "The files of a task, as tar.gz in base64", .answers = "b64Tgz:base64"),
    READ(V1 "/tasks/count", AUTH_USER, view_task_count, NULL,
         "How many tasks of each kind have not ended",
         .answers = "commands:int notebooks:int shells:int tensorboards:int +tasks:int"),
    READ(V1 "/tasks/{taskId}/config", AUTH_USER, view_task_config, NULL,
         "The configuration of a task, as text", .answers = "config:string"),
    CORE("POST", V1 "/tasks/{taskId}/kill", AUTH_USER, core_task_kill, NULL,
         "End a generic task and all that were made below it; killFromRoot: its whole tree",
         .takes = "taskId?:string killFromRoot?:bool"),
    CORE("POST", V1 "/tasks/{taskId}/pause", AUTH_USER, core_task_pause, NULL,
         "End the program of a generic task, and of those below it, until it is unpaused",
         .takes = "taskId?:string"),
    CORE("POST", V1 "/tasks/{taskId}/unpause", AUTH_USER, core_task_unpause, NULL,
         "Start a paused generic task, and those below it, again", .takes = "taskId?:string"),
    {.method = "DELETE",
     .path = V1 "/tasks/{taskId}",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_task_delete,
     .ours = true,
     .summary = "Delete a command or a generic task that has ended, with its log"},
    {.method = "GET",
     .path = V1 "/generic-tasks",
     .auth = AUTH_USER,
     .kind = ROUTE_READ,
     .view = view_generic_tasks,
     .query = "users userIds workspaceId sortBy" PAGE,
     .ours = true,
     .summary = "List generic tasks, newest first",
     .answers = "tasks:[GenericTask] pagination:Pagination"},
    {.method = "GET",
     .path = V1 "/generic-tasks/{taskId}",
     .auth = AUTH_USER,
     .kind = ROUTE_READ,
     .view = view_generic_task,
     .ours = true,
     .summary = "One generic task",
     .answers = "task:GenericTask config:string"},
    {.method = "POST",
     .path = V1 "/generic-tasks",
     .auth = AUTH_USER,
     .kind = ROUTE_CORE,
     .core = core_generic_create,
     .view = render_generic_created,
     .body = BODY_FILES,
     .growth = GROWS_BY_SUBMISSION,
     .summary = "Start a generic task: configuration as YAML text, and files",
     .takes = "config?:string contextDirectory?:[File] projectId?:int parentId?:string "
              "inheritContext?:bool forkedFrom?:string noPause?:bool +externalTaskId?:string",
     .answers = "taskId:string warnings?:[LaunchWarning] +warningTexts?:[string]"},
    TASK_ROWS(command, "Command", core_command_create, render_command_created,
              "Run a program once"),
    TASK_ROWS(shell, "Shell", core_shell_create, NULL, NO_PROXY),
    TASK_ROWS(notebook, "Notebook", core_notebook_create, NULL, NO_PROXY),
    TASK_ROWS(tensorboard, "Tensorboard", core_tensorboard_create, NULL, NO_PROXY),
    STREAM(
        V1
        "/tasks/{taskId}/logs",
        AUTH_USER, stream_task_logs,
        "follow limit orderBy agentIds allocationIds containerIds rankIds sources stdtypes "
        "levels timestampBefore timestampAfter searchText enableRegex after:int before:int",
        "The log of a task; after and, newest first, before (ours): only lines behind, or before, "
        "the one of this id",
        .answers = "TaskLog"),
    STREAM(V1 "/tasks/{taskId}/logs/fields", AUTH_USER, stream_task_log_fields, "follow",
           "What the log of a task can be filtered by", .answers = "LogFields"),

    {.method = "GET",
     .path = V1 "/events",
     .auth = AUTH_USER,
     .kind = ROUTE_STREAM,
     .stream = stream_events,
     .query = "topics experimentIds trialIds since",
     .ours = true,
     .content = "text/event-stream",
     .summary = "What changes, as server-sent events; Last-Event-ID or since: where to go on"},

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
    CORE_GET(V1 "/agents", AUTH_USER, core_agents, "label sortBy lost:bool" PAGE,
             "List agents; lost=true: also those that were given up within three days",
             .answers = "agents:[Agent] pagination:Pagination"),
    CORE_GET(V1 "/agents/{agentId}", AUTH_USER, core_agent, NULL, "One agent",
             .answers = "agent:Agent"),
    {.method = "DELETE",
     .path = V1 "/agents/{agentId}",
     .auth = AUTH_ADMIN,
     .kind = ROUTE_CORE,
     .core = core_agent_forget,
     .body = BODY_SMALL,
     .ours = true,
     .summary = "Forget an agent that is lost, and what was set of it"},
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
    CORE_GET(V1 "/job-queues/stats", AUTH_USER, core_job_queue_stats, "resourcePools",
             "How many jobs wait and run in each pool", .answers = "results:[PoolQueueStats]"),
    CORE("POST", V1 "/job-queues", AUTH_USER, core_job_queue_update, NULL,
         "Move jobs: priority, weight, resourcePool, aheadOf or behindOf another; all or none. 403 "
         "where "
         "another user's job would lose by it, or the priority is above the pool's maxUserPriority",
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
    CORE_GET(V1 "/resource-pools/{resourcePoolName}/workspace-bindings", AUTH_USER,
             core_pool_bindings, "offset limit", "The workspaces that alone may use a pool: none",
             .answers = "workspaceIds:[int] pagination:Pagination"),
    CORE_GET(V1 "/workspaces/{workspaceId}/available-resource-pools", AUTH_USER,
             core_available_pools, NULL, "The pools that a workspace may use: all",
             .answers = "resourcePools:[string] pagination:Pagination"),
    CORE_GET(V1 "/resource-pools", AUTH_USER, core_resource_pools, "offset limit",
             "List resource pools",
             .answers = "resourcePools:[ResourcePool] pagination:Pagination"),

    // Calls of Determined's that have no meaning here.
    NO("POST", V1 "/groups", ROLES),
    NO("POST", V1 "/groups/search", ROLES),
    NO("GET", V1 "/groups/{groupId}", ROLES),
    NO("PUT", V1 "/groups/{groupId}", ROLES),
    NO("DELETE", V1 "/groups/{groupId}", ROLES),
    NO("PATCH", V1 "/users/assignments", ROLES),
    NO("GET", V1 "/permissions/summary", ROLES),
    NO("GET", V1 "/roles/workspace/{workspaceId}", ROLES),
    NO("POST", V1 "/roles/search", ROLES),
    NO("POST", V1 "/roles/search/by-ids", ROLES),
    NO("GET", V1 "/roles/search/by-user/{userId}", ROLES),
    NO("GET", V1 "/roles/search/by-group/{groupId}", ROLES),
    NO("POST", V1 "/roles/search/by-assignability", ROLES),
    NO("POST", V1 "/roles/add-assignments", ROLES),
    NO("POST", V1 "/roles/remove-assignments", ROLES),
    NO("GET", V1 "/config-policies/workspaces/{workspaceId}/{workloadType}", POLICIES),
    NO("PUT", V1 "/config-policies/workspaces/{workspaceId}/{workloadType}", POLICIES),
    NO("DELETE", V1 "/config-policies/workspaces/{workspaceId}/{workloadType}", POLICIES),
    NO("GET", V1 "/config-policies/global/{workloadType}", POLICIES),
    NO("PUT", V1 "/config-policies/global/{workloadType}", POLICIES),
    NO("DELETE", V1 "/config-policies/global/{workloadType}", POLICIES),
    NO("POST", V1 "/resource-pools/{resourcePoolName}/workspace-bindings", POOLS),
    NO("PUT", V1 "/resource-pools/{resourcePoolName}/workspace-bindings", POOLS),
    NO("DELETE", V1 "/resource-pools/{resourcePoolName}/workspace-bindings", POOLS),
    NO("POST", V1 "/workspaces/{workspaceId}/namespace-bindings", KUBERNETES),
    NO("DELETE", V1 "/workspaces/{workspaceId}/namespace-bindings", KUBERNETES),
    NO("GET", V1 "/workspaces/{workspaceId}/list-namespace-bindings", KUBERNETES),
    NO("POST", V1 "/workspaces/{workspaceId}/set-resource-quota", KUBERNETES),
    NO("GET", V1 "/workspaces/{workspaceId}/get-k8-resource-quotas", KUBERNETES),
    NO("GET", V1 "/namespace-bindings/workspace-ids-with-default-bindings", KUBERNETES),
    NO("POST", V1 "/namespace-bindings/bulk-auto-create", KUBERNETES),
    NO("GET", "/oauth2/clients", SINGLE_SIGN_ON),
    NO("POST", "/oauth2/clients", SINGLE_SIGN_ON),
    NO("DELETE", "/oauth2/clients/{clientId}", SINGLE_SIGN_ON),
    NO("GET", V1 "/experiments/{experimentId}/metrics-stream/batches", CHARTS),
    NO("GET", V1 "/experiments/{experimentId}/metrics-stream/trials-snapshot", CHARTS),
    NO("GET", V1 "/experiments/{experimentId}/metrics-stream/trials-sample", CHARTS),
    NO("GET", V1 "/experiments/{experimentId}/searcher_events", SEARCHERS),
    NO("POST", V1 "/experiments/{experimentId}/searcher_operations", SEARCHERS),
    NO("POST", V1 "/runs",
       "POST /api/v1/experiments-search lists searches, GET /api/v1/experiments/{id}/trials the "
       "runs of one"),
    NO("GET", V1 "/projects/{projectId}/columns", FIELDS),
    NO("GET", V1 "/projects/{projectId}/experiments/metric-ranges", FIELDS),
    NO("GET", V1 "/job-queues", "GET /api/v1/job-queues-v2 has what runs and what waits"),
    NO("GET", V1 "/tasks/{taskId}/acceleratorData",
       "GET /api/v1/tasks/{id} names the agents, GET /api/v1/agents their devices"),
    NO("POST", V1 "/workspaces/{workspaceId}/pin", SETTINGS),
    NO("POST", V1 "/workspaces/{workspaceId}/unpin", SETTINGS),
    NO("POST", V1 "/users/activity", SETTINGS),
    NO("GET", V1 "/user/projects/activity", SETTINGS),
    NO("POST", V1 "/allocations/{allocationId}/ready", NO_READINESS),
    NO("POST", V1 "/allocations/{allocationId}/waiting", NO_READINESS),
    NO("PUT", V1 "/notebooks/{taskId}/report_idle", NO_READINESS),
    NO("POST", V1 "/preview-hp-search",
       "POST /api/v1/experiments with validateOnly checks a configuration; a search that runs is "
       "shown by GET /api/v1/experiments/{id}/search"),
    NO("POST", V1 "/cleanup_logs",
       "logs go by themselves when their days are over: PUT /api/v1/experiments/{id}/retain_logs"),
    NO("DELETE", V1 "/experiments/{experimentId}/tensorboard-files",
       "metrics are kept by the master; DELETE /api/v1/experiments/{id} deletes them all"),
};

const size_t route_count = sizeof route_table / sizeof *route_table;
