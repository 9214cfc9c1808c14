// Rows that several queries share. A list gives the types and names of the columns (struct
// db_columns_NAME, see statements.h) and the SQL of the select list, so that the two cannot differ.
//
//   NAME_ROW(FIRST, NEXT): FIRST and NEXT take (type, name) of a column of that name, or
//   (type, name, sql) with the expression that gives it.
#ifndef MUSTER_DB_STATEMENTS_ROWS_H
#define MUSTER_DB_STATEMENTS_ROWS_H

#include "db/statements/fragments.h"
#include "db/statements/rows_experiments.h"
#include "db/statements/rows_registry.h"
#include "db/statements/rows_tasks.h"
#include "db/statements/rows_trials.h"

// "id, u.username AS owner, ..": the select list of a row.
#define SQL_LIST(row)              row(SQL_FIRST, SQL_NEXT)
#define SQL_FIRST(type, name, ...) __VA_OPT__(__VA_ARGS__ " AS ") #name
#define SQL_NEXT(type, name, ...)  ", " __VA_OPT__(__VA_ARGS__ " AS ") #name

#define SQL_SELECT(row) "SELECT " SQL_LIST(row)

// Rows with one column.
#define ID_ROW(FIRST, NEXT)    FIRST(integer, id)
#define COUNT_ROW(FIRST, NEXT) FIRST(integer, count)
#define NAME_ROW(FIRST, NEXT)  FIRST(text, name)
#define LABEL_ROW(FIRST, NEXT) FIRST(text, label)

#define USER_ROW(FIRST, NEXT)                                                                      \
    FIRST(integer, id)                                                                             \
    NEXT(text, username)                                                                           \
    NEXT(text, display_name)                                                                       \
    NEXT(integer, admin)                                                                           \
    NEXT(integer, active)                                                                          \
    NEXT(integer, modified_at)                                                                     \
    NEXT(text, agent_user_group)                                                                   \
    NEXT(integer, last_auth_at)

#define PROJECT_ROW(FIRST, NEXT)                                                                   \
    FIRST(integer, id)                                                                             \
    NEXT(text, name)                                                                               \
    NEXT(integer, workspace_id)                                                                    \
    NEXT(text, description)                                                                        \
    NEXT(integer, user_id)                                                                         \
    NEXT(integer, archived)                                                                        \
    NEXT(integer, created_at)

#define WORKSPACE_VIEW_ROW(FIRST, NEXT)                                                            \
    FIRST(integer, id, "w.id")                                                                     \
    NEXT(text, name, "w.name")                                                                     \
    NEXT(integer, archived, "w.archived")                                                          \
    NEXT(text, compute_pool, "w.default_compute_pool")                                             \
    NEXT(text, aux_pool, "w.default_aux_pool")                                                     \
    NEXT(text, username, "u.username")                                                             \
    NEXT(integer, user_id, "w.user_id")                                                            \
    NEXT(integer, projects, "(SELECT count(*) FROM projects p WHERE p.workspace_id = w.id)")       \
    NEXT(integer, experiments,                                                                     \
         "(SELECT coalesce(sum(c.experiments), 0) FROM projects p JOIN experiment_counts c ON"     \
         " c.project_id = p.id AND c.kind = 'EXPERIMENT' WHERE p.workspace_id = w.id)")            \
    NEXT(real, weight, "w.weight")                                                                 \
    NEXT(integer, guaranteed_slots, "w.guaranteed_slots")                                          \
    NEXT(integer, max_slots, "w.max_slots")                                                        \
    NEXT(text, default_role, "w.default_role")                                                     \
    NEXT(integer, members,                                                                         \
         "1 + (SELECT count(*) FROM workspace_members m WHERE m.workspace_id = w.id AND m.role"    \
         " NOT IN ('', 'none') AND m.user_id <> w.user_id)")                                       \
    NEXT(text, agent_user_group, "w.agent_user_group")                                             \
    NEXT(text, checkpoint_storage, "w.checkpoint_storage")                                         \
    NEXT(text, state, "w.state")                                                                   \
    NEXT(text, error, "w.error")

#define PROJECT_VIEW_ROW(FIRST, NEXT)                                                              \
    FIRST(integer, id, "p.id")                                                                     \
    NEXT(text, name, "p.name")                                                                     \
    NEXT(integer, workspace_id, "p.workspace_id")                                                  \
    NEXT(text, description, "p.description")                                                       \
    NEXT(integer, archived, "p.archived")                                                          \
    NEXT(text, username, "u.username")                                                             \
    NEXT(integer, user_id, "p.user_id")                                                            \
    NEXT(text, workspace_name, "w.name")                                                           \
    NEXT(text, key, "p.key")                                                                       \
    NEXT(integer, experiments, SQL_PROJECT_COUNT("experiments", ""))                               \
    NEXT(integer, active_experiments,                                                              \
                                                                                                   \
         SQL_PROJECT_COUNT("experiments",                                                          \
                           " AND c.state NOT IN ('COMPLETED', 'CANCELED', 'ERROR')"))              \
    NEXT(integer, last_submitted_at, SQL_PROJECT_LAST_SUBMITTED)                                   \
    NEXT(integer, trials, SQL_PROJECT_COUNT("trials", ""))                                         \
    NEXT(text, notes, "p.notes")                                                                   \
    NEXT(text, state, "p.state")                                                                   \
    NEXT(text, error, "p.error")

#define AUTHZ_ROW(FIRST, NEXT)                                                                     \
    FIRST(integer, creator_id)                                                                     \
    NEXT(text, default_role)                                                                       \
    NEXT(text, role)                                                                               \
    NEXT(integer, experiment_id)

#define AUDIT_ROW(FIRST, NEXT)                                                                     \
    FIRST(integer, id, "a.id")                                                                     \
    NEXT(integer, time, "a.time")                                                                  \
    NEXT(integer, user_id, "a.user_id")                                                            \
    NEXT(text, username, "a.username")                                                             \
    NEXT(text, address, "a.address")                                                               \
    NEXT(text, method, "a.method")                                                                 \
    NEXT(text, path, "a.path")                                                                     \
    NEXT(integer, status, "a.status")                                                              \
    NEXT(text, detail, "a.detail")

#define TOKEN_ROW(FIRST, NEXT)                                                                     \
    FIRST(integer, id, "k.id")                                                                     \
    NEXT(integer, user_id, "k.user_id")                                                            \
    NEXT(integer, expires_at, "k.expires_at")                                                      \
    NEXT(integer, created_at, "k.created_at")                                                      \
    NEXT(integer, access, "k.access")                                                              \
    NEXT(integer, revoked, "k.revoked")                                                            \
    NEXT(text, description, "k.description")

#endif
