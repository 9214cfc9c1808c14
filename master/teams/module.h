// The kernel module of this folder, and its request handlers (master/routes.c lists the
// calls).
#ifndef MUSTER_MASTER_TEAMS_MODULE_H
#define MUSTER_MASTER_TEAMS_MODULE_H

#include "master/kernel/module.h"

extern const struct core_module teams_module;

// Workspaces (params[0]), their projects and members (params[1]: the user).
core_handler core_workspace_create, core_workspace_patch, core_workspace_delete,
    core_workspace_archive, core_workspace_unarchive, core_project_create, core_project_patch,
    core_project_delete, core_project_archive, core_project_unarchive, core_project_move,
    core_project_note_add, core_project_notes_set, core_member_set, core_member_remove;

// Functions of teams.c that the module table calls.
int teams_load(struct core *c, struct error *e); // before the experiments
void teams_free(struct core *c);

#endif
