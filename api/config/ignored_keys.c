#include "api/config/ignored_keys.h"

#include "base/text/json.h"

static const char *const keys[] = {
    "environment.image",
    "environment.registry_auth",
    "environment.force_pull_image",
    "environment.pod_spec",
    "environment.add_capabilities",
    "environment.drop_capabilities",
    "environment.ports",
    "resources.shm_size",
    "resources.devices",
    "resources.native_parallel",
    "resources.agent_label",
    "slurm",
    "pbs",
};

// False, "", [] and {} are the defaults.
static bool is_set(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) > 0;
    return json_is_object(value)  ? json_object_size(value) > 0
           : json_is_array(value) ? json_array_size(value) > 0
                                  : value && !json_is_false(value) && !json_is_null(value);
}

void ignored_keys_list(const json_t *written, struct buf *out)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (is_set(jget_path(written, keys[i])))
            buf_printf(out, "%s%s", out->len ? ", " : "", keys[i]);
}
