// Metadata of checkpoints and trials. The API replaces all of it at once; these commands set or
// remove single keys and keep the others.
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "cli/commands/commands.h"

// Applies --metadata to the existing metadata; KEY=null removes a key.
static int apply_metadata(struct cli *c, const json_t *there, json_t **metadata, struct error *e)
{
    json_t *changes = NULL, *value;
    const char *key;
    *metadata = there ? json_deep_copy(there) : json_object();
    int err = cli_pairs("--metadata", &c->options.metadata, &changes, e);
    json_object_foreach(changes, key, value)
    {
        if (json_is_null(value))
            json_object_del(*metadata, key);
        else
            json_object_set(*metadata, key, value);
    }
    json_decref(changes);
    return err;
}

int run_checkpoint_set(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL, *metadata = NULL;
    if (c->options.metadata.count == 0)
        return error_set(e, ERR_INVALID, "nothing to change: give --metadata KEY=VALUE");
    char *uuid = client_escape(c->args[0]);
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/checkpoints/%s", uuid);
    err = err ? err : apply_metadata(c, jget(jget(answer, "checkpoint"), "metadata"), &metadata, e);
    if (!err) {
        json_t *body =
            json_pack("{s:{s:s, s:O}}", "checkpoint", "uuid", c->args[0], "metadata", metadata);
        err = cli_call(c, "POST", body, NULL, e, "/api/v1/checkpoints/%s/metadata", uuid);
        json_decref(body);
    }
    if (!err) {
        err = cli_report(c, json_pack("{s:s, s:O}", "uuid", c->args[0], "metadata", metadata), e,
                         "Checkpoint %s: changed", c->args[0]);
    }
    json_decref(metadata);
    json_decref(answer);
    free(uuid);
    return err;
}

int fetch_trial_metadata(struct cli *c, long long trial, json_t **metadata, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/runs/%lld/metadata", trial);
    *metadata = json_incref(jget(answer, "metadata"));
    json_decref(answer);
    return err;
}

int set_trial_metadata(struct cli *c, long long trial, struct error *e)
{
    json_t *there = NULL, *metadata = NULL;
    int err = fetch_trial_metadata(c, trial, &there, e);
    err = err ? err : apply_metadata(c, there, &metadata, e);
    if (!err) {
        json_t *body = json_pack("{s:O}", "metadata", metadata);
        err = cli_call(c, "POST", body, NULL, e, "/api/v1/runs/%lld/metadata", trial);
        json_decref(body);
    }
    json_decref(metadata);
    json_decref(there);
    return err;
}
