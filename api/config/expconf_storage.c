// checkpoint_storage: the checks that the table of keys cannot express, the defaults, the secrets.
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "api/config/expconf.h"
#include "api/config/expconf_parts.h"
#include "base/text/json.h"

// The keys without which a type has no place.
static const struct {
    const char *type, *key;
} places[] = {{"directory", "container_path"},
              {"shared_fs", "host_path"},
              {"s3", "bucket"},
              {"gcs", "bucket"},
              {"azure", "container"}};

static const char *const secrets[] = {"access_key", "secret_key", "connection_string",
                                      "credential"};
enum { SECRETS = sizeof secrets / sizeof *secrets };
static const char mask[] = "********"; // as Determined shows secrets

int expconf_check_storage_folder(const json_t *storage, struct error *e)
{
    static const char any_uuid[] = "00000000-0000-0000-0000-000000000000";
    const char *type = jget_string(storage, "type", "");
    char *folder;
    if (strcmp(type, "directory") && strcmp(type, "shared_fs"))
        return 0;
    int err = checkpoint_folder(storage, any_uuid, &folder, e);
    if (!err)
        free(folder);
    return err;
}

static int check_place(const json_t *storage, struct error *e)
{
    const char *type = jget_string(storage, "type", NULL);
    if (!type)
        return error_set(e, ERR_INVALID,
                         "type: missing; one of directory, shared_fs, s3, gcs, azure");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!strcmp(places[i].type, type) && !*jget_string(storage, places[i].key, ""))
            return error_set(e, ERR_INVALID, "%s: missing; storage of type %s needs it",
                             places[i].key, type);
    return 0;
}

static int refuse_masks(const json_t *storage, struct error *e)
{
    for (size_t i = 0; i < SECRETS; i++)
        if (!strcmp(jget_string(storage, secrets[i], ""), mask))
            return error_set(e, ERR_INVALID,
                             "%s: %s stands in answers for the secret; give the secret itself",
                             secrets[i], mask);
    return 0;
}

int expconf_check_storage(json_t *storage, const char *source, struct error *e)
{
    struct error why;
    int err = schema_apply_json(expconf_storage_keys, storage, source, e);
    if (err)
        return err;
    err = check_place(storage, &why);
    err = err ? err : refuse_masks(storage, &why);
    err = err ? err : expconf_check_storage_folder(storage, &why);
    return err ? error_set(e, ERR_INVALID, "%s: %s", source, why.text) : 0;
}

void expconf_mask_storage(json_t *storage)
{
    for (size_t i = 0; i < SECRETS; i++)
        if (jget(storage, secrets[i]))
            json_object_set_new(storage, secrets[i], json_string(mask));
}

int expconf_merge_storage(json_t *config, const json_t *storage, struct error *e)
{
    static const struct {
        const char *key;
        int count;
    } kept[] = {{"save_experiment_best", 0}, {"save_trial_best", 1}, {"save_trial_latest", 1}};
    json_t *own = jget(config, "checkpoint_storage");
    if (!own) {
        own = json_object();
        json_object_set_new(config, "checkpoint_storage", own);
    }
    const char *type = jget_string(own, "type", NULL);
    const char *default_type = jget_string(storage, "type", "");
    if (storage && (!type || !strcmp(type, default_type)))
        json_object_update_missing(own, (json_t *)storage);
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
        if (!jget(own, kept[i].key))
            json_object_set_new(own, kept[i].key,
                                json_integer(jget_int(storage, kept[i].key, kept[i].count)));
    if (!jget(own, "type"))
        return expconf_fault(NULL, "checkpoint_storage", e,
                             "the experiment names no type and there is no default; add "
                             "{type: directory, container_path: /folder/all/machines/share}");
    return 0;
}
