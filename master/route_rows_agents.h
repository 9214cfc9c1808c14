// The rows of the route table by which machines become agents. Included by routes.c alone, after
// route_rows.h.
#ifndef MUSTER_MASTER_ROUTE_ROWS_AGENTS_H
#define MUSTER_MASTER_ROUTE_ROWS_AGENTS_H

// How machines get credentials of their own.
#define ENROLMENT_ROWS                                                                             \
    READ(V1 "/agent-enrolments", AUTH_ADMIN, enrolment_list, NULL,                                 \
         "List the enrolments of agents that may still be used", .ours = true,                     \
         .answers = "enrolments:[Enrolment]"),                                                     \
        {.method = "POST",                                                                         \
         .path = V1 "/agent-enrolments",                                                           \
         .auth = AUTH_ADMIN,                                                                       \
         .kind = ROUTE_WORKER,                                                                     \
         .view = enrolment_create,                                                                 \
         .body = BODY_CALL,                                                                        \
         .ours = true,                                                                             \
         .summary = "Let machines enrol as agents",                                                \
         .takes = "agentId?:string pool?:string lifespan?:string uses?:int",                       \
         .answers = "enrolment:Enrolment token:string https:bool fingerprint:string "              \
                    "masterUrl:string hostName:string"},                                           \
        {.method = "DELETE",                                                                       \
         .path = V1 "/agent-enrolments/{enrolmentId}",                                             \
         .auth = AUTH_ADMIN,                                                                       \
         .kind = ROUTE_WORKER,                                                                     \
         .view = enrolment_delete,                                                                 \
         .body = BODY_CALL,                                                                        \
         .ours = true,                                                                             \
         .summary = "Withdraw an enrolment; agents that have used it stay"},                       \
        READ(V1 "/agent-credentials", AUTH_ADMIN, credential_list, NULL,                           \
             "List the agents with credentials of their own", .ours = true,                        \
             .answers = "credentials:[AgentCredential]"),                                          \
        {.method = "POST",                                                                         \
         .path = V1 "/agent-credentials",                                                          \
         .auth = AUTH_NONE,                                                                        \
         .kind = ROUTE_WORKER,                                                                     \
         .view = credential_create,                                                                \
         .body = BODY_CALL,                                                                        \
         .ours = true,                                                                             \
         .summary = "Exchange the token of an enrolment for a credential; may be repeated",        \
         .takes = "token:string agentId:string credentialHash:string",                             \
         .answers = "agentId:string pool:string"},                                                 \
    {                                                                                              \
        .method = "DELETE", .path = V1 "/agent-credentials/{agentId}", .auth = AUTH_ADMIN,         \
        .kind = ROUTE_WORKER, .view = credential_delete, .body = BODY_CALL, .ours = true,          \
        .summary = "Revoke the credential of an agent: it ends at once"                            \
    }

#endif
