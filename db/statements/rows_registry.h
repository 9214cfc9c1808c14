// Rows of models, their versions and templates: a part of rows.h.
#ifndef MUSTER_DB_STATEMENTS_ROWS_REGISTRY_H
#define MUSTER_DB_STATEMENTS_ROWS_REGISTRY_H

#define MODEL_VIEW_ROW(FIRST, NEXT)                                                                \
    FIRST(integer, id, "m.id")                                                                     \
    NEXT(text, name, "m.name")                                                                     \
    NEXT(text, description, "m.description")                                                       \
    NEXT(text, metadata, "m.metadata")                                                             \
    NEXT(text, labels, "m.labels")                                                                 \
    NEXT(text, notes, "m.notes")                                                                   \
    NEXT(integer, created_at, "m.created_at")                                                      \
    NEXT(integer, updated_at, "m.updated_at")                                                      \
    NEXT(integer, archived, "m.archived")                                                          \
    NEXT(integer, user_id, "m.user_id")                                                            \
    NEXT(text, username, "mu.username")                                                            \
    NEXT(integer, workspace_id, "m.workspace_id")                                                  \
    NEXT(integer, versions, "(SELECT count(*) FROM model_versions x WHERE x.model_id = m.id)")

#define VERSION_VIEW_ROW(FIRST, NEXT)                                                              \
    FIRST(integer, id, "v.id")                                                                     \
    NEXT(integer, version, "v.version")                                                            \
    NEXT(text, checkpoint_uuid, "v.checkpoint_uuid")                                               \
    NEXT(text, name, "v.name")                                                                     \
    NEXT(text, comment, "v.comment")                                                               \
    NEXT(text, metadata, "v.metadata")                                                             \
    NEXT(text, labels, "v.labels")                                                                 \
    NEXT(text, notes, "v.notes")                                                                   \
    NEXT(integer, user_id, "v.user_id")                                                            \
    NEXT(text, username, "vu.username")                                                            \
    NEXT(integer, created_at, "v.created_at")                                                      \
    NEXT(integer, updated_at, "v.updated_at")

#define TEMPLATE_ROW(FIRST, NEXT)                                                                  \
    FIRST(text, name, "t.name")                                                                    \
    NEXT(text, config, "t.config")                                                                 \
    NEXT(integer, workspace_id, "t.workspace_id")

#endif
