// The kinds of rows of the route table, and the texts of calls of Determined's API that have no
// meaning here. Included by routes.c alone, after all other headers, because its names are short.
#ifndef MUSTER_MASTER_ROUTE_ROWS_H
#define MUSTER_MASTER_ROUTE_ROWS_H

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
#define SETTINGS "POST /api/v1/users/setting keeps what a page is to remember of a user"
#define NO_READINESS                                                                               \
    "nothing is passed on to programs; GET /api/v1/tasks/{id} has the state of one, POST "         \
    "/api/v1/tasks/{id}/kill ends it"
#define SEARCHERS "searches are run by the master: GET /api/v1/experiments/{id}/search shows one"

#define V1            "/api/v1"
#define ANY_USER_TASK (AUTH_USER | AUTH_TASK)
#define EVERYBODY     (AUTH_USER | AUTH_TASK | AUTH_AGENT)
#define PAGE          " offset limit orderBy "
#define WORKSPACE_SETTINGS                                                                         \
    " agentUserGroup?:AgentUserGroup checkpointStorageConfig?:object"                              \
    " defaultComputePool?:string defaultAuxPool?:string"                                           \
    " +defaultRole?:Role +weight?:number +guaranteedSlots?:int +maxSlots?:int"

// The kinds of rows: method, path, callers, ..., and at the end the summary with further members of
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
#define WORKER(...) WORKER_OF(BODY_CALL, __VA_ARGS__)
#define WORKER_OF(body_, method_, path_, auth_, view_, ...)                                        \
    {                                                                                              \
        .method = method_, .path = path_, .auth = auth_, .kind = ROUTE_WORKER, .view = view_,      \
        .body = body_, .summary = __VA_ARGS__                                                      \
    }
#define SLOW(path_, auth_, view_, query_, ...)                                                     \
    {                                                                                              \
        .method = "GET", .path = path_, .auth = auth_, .kind = ROUTE_WORKER, .view = view_,        \
        .query = query_, .summary = __VA_ARGS__                                                    \
    }
#define CORE(...) CORE_OF(BODY_CALL, __VA_ARGS__)
#define CORE_OF(body_, method_, path_, auth_, core_, render_, ...)                                 \
    {                                                                                              \
        .method = method_, .path = path_, .auth = auth_, .kind = ROUTE_CORE, .core = core_,        \
        .view = render_, .body = body_, .summary = __VA_ARGS__                                     \
    }
#define CORE_GET(path_, auth_, core_, render_, query_, ...)                                        \
    {                                                                                              \
        .method = "GET", .path = path_, .auth = auth_, .kind = ROUTE_CORE, .core = core_,          \
        .view = render_, .query = query_, .summary = __VA_ARGS__                                   \
    }

// An action on many experiments, of one project or of any.
#define BULK_ROW(method_, path_, core_, summary_)                                                  \
    {                                                                                              \
        .method = method_, .path = path_, .auth = AUTH_USER, .kind = ROUTE_CORE, .core = core_,    \
        .view = render_action_results, .body = BODY_CALL, .summary = summary_,                     \
        .takes = "experimentIds?:[int] filters?:ExperimentFilters destinationProjectId?:int "      \
                 "projectId?:int",                                                                 \
        .answers = "results:[ActionResult]"                                                        \
    }
#define BULK(method_, verb_, core_, summary_)                                                      \
    BULK_ROW(method_, V1 "/experiments/" verb_, core_, summary_),                                  \
        BULK_ROW(method_, V1 "/projects/{projectId}/experiments/" verb_, core_, summary_)

#define RETAIN_LOGS(path_)                                                                         \
    {                                                                                              \
        .method = "PUT", .path = path_, .auth = AUTH_USER, .kind = ROUTE_CORE,                     \
        .core = core_experiments_retain_logs, .view = render_action_results, .body = BODY_CALL,    \
        .summary = "Say for how many days after their end the logs of many experiments are kept",  \
        .takes = "experimentIds?:[int] filters?:ExperimentFilters projectId?:int numDays:int",     \
        .answers = "results:[ActionResult]"                                                        \
    }

// The same actions on searches and runs, the web client's names for experiments and trials.
#define BULK_NAMED(noun_, ids_, verb_, core_, summary_)                                            \
    {                                                                                              \
        .method = "POST", .path = V1 "/" noun_ "/" verb_, .auth = AUTH_USER, .kind = ROUTE_CORE,   \
        .core = core_, .view = render_action_results, .body = BODY_CALL, .summary = summary_,      \
        .takes = ids_ "?:[int] projectId?:int sourceProjectId?:int destinationProjectId?:int "     \
                      "filter?:string skipMultitrial?:bool",                                       \
        .answers = "results:[ActionResult]"                                                        \
    }
#define SEARCHES(verb_, core_, summary_) BULK_NAMED("searches", "searchIds", verb_, core_, summary_)
#define RUNS(verb_, core_, summary_)     BULK_NAMED("runs", "runIds", verb_, core_, summary_)

// A call of Determined's API without a meaning here, and what to do instead.
#define NO(method_, path_, instead_)                                                               \
    {                                                                                              \
        .method = method_, .path = path_, .auth = ANY_USER_TASK, .kind = ROUTE_READ,               \
        .body = BODY_NONE, .instead = instead_, .summary = "Refused; instead: " instead_           \
    }
#define NEW_EXPERIMENT                                                                             \
    "config?:string modelDefinition?:[File] activate?:bool projectId?:int template?:string "       \
    "parentId?:int validateOnly?:bool unmanaged?:bool"
// The common calls of commands, shells, notebooks and tensorboards; `Type_` is a schema, `cannot_`
// says why the call is refused, or NULL.
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

#endif
