// The handlers of the registry, grouped by source. A handler that changes objects runs on a worker
// thread and answers after its commit; the others read the store on an http thread.
#ifndef MUSTER_MASTER_REGISTRY_REGISTRY_H
#define MUSTER_MASTER_REGISTRY_REGISTRY_H

#include "master/views/views.h"

// accounts.c
view_handler account_login, account_logout, account_create, account_patch; // worker
view_handler account_patch_many, account_set_password;                     // worker
int account_password_read(struct request *rq, char *text, size_t len, struct error *e);
view_handler account_me, account_list, account_get, account_get_by_name;

// tokens.c, settings.c
view_handler token_create, token_patch, settings_set, settings_reset; // worker
view_handler token_list, settings_get;

// models.c
view_handler model_create, model_patch, model_archive, model_unarchive, model_move, model_delete,
    model_version_create, model_version_patch, model_version_delete,
    model_version_metrics; // worker
view_handler model_list, model_get, model_labels, model_version_list, model_version_get;

// templates.c
view_handler template_create, template_put, template_patch, template_rename,
    template_delete; // worker
view_handler template_list, template_get;

// enrolments.c
view_handler enrolment_create, enrolment_delete, credential_create, credential_delete; // worker
view_handler enrolment_list, credential_list;

// tokens.c: the number of the token with that hash; 0: there is none.
int64_t token_id(struct view *v, const char *hash);

// cluster_settings.c
view_handler master_patch_config, master_set_message, master_delete_message; // worker

// webhook_test.c
view_handler webhook_test; // worker

// commit.c: commits a batch together with the call's row of the audit trail, and waits until both
// are on disk. Frees the batch. Handlers of the registry write with this function only.
int view_commit(struct view *v, struct db_batch *b, struct error *e);

#endif
