#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "api/checkpoint/checkpoint.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

enum { DOWNLOAD_MAX_GIB = 1024 };

// --- list ----------------------------------------------------------------------------------------

static int owner_metric(struct cli *c, long long *experiment, const char **metric, struct error *e)
{
    json_t *answer = NULL;
    int err = 0;
    if (c->options.experiment == 0) {
        err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/trials/%lld", c->options.trial);
        *experiment = jget_int(jget(answer, "trial"), "experimentId", 0);
        json_decref(answer);
    }
    json_t *object = NULL;
    err = err ? err : fetch_experiment(c, *experiment, &object, e);
    *metric = arena_strdup(&c->arena, searcher_metric(jget(object, "config")));
    json_decref(object);
    return err;
}

// Finds the row for --latest: the one with the most steps; among equals, the one reported last.
static json_t *keep_latest(json_t *rows)
{
    json_t *chosen = NULL, *row, *only = json_array();
    size_t i;
    json_array_foreach(rows, i, row)
    {
        json_int_t steps = json_integer_value(json_object_get(row, "steps"));
        json_int_t most = json_integer_value(json_object_get(chosen, "steps"));
        bool later =
            steps > most || (steps == most && strcmp(jget_string(row, "reported", ""),
                                                     jget_string(chosen, "reported", "")) > 0);
        if (!chosen || later)
            chosen = row;
    }
    if (chosen)
        json_array_append(only, chosen);
    return only;
}

// --best takes the first row in the master's order, which is the same for every client.
static int fetch_rows(struct cli *c, json_t **rows, struct error *e)
{
    const char *metric = NULL;
    const char *best = "?sortByAttr=SORT_BY_SEARCHER_METRIC&states=STATE_COMPLETED";
    long long experiment = c->options.experiment;
    json_t *list = NULL, *item;
    int err = owner_metric(c, &experiment, &metric, e);
    if (!err) {
        err = cli_list(
            c, "checkpoints", c->options.best ? 1 : c->options.limit, &list, e,
            "/api/v1/%s/%lld/checkpoints%s", c->options.trial > 0 ? "trials" : "experiments",
            c->options.trial > 0 ? c->options.trial : experiment, c->options.best ? best : "");
    }
    *rows = json_array();
    size_t i;
    json_array_foreach(list, i, item)
    {
        json_array_append_new(*rows, row_checkpoint(item, metric));
    }
    json_decref(list);
    return err;
}

int run_checkpoint_list(struct cli *c, const struct command *self, struct error *e)
{
    if (c->options.experiment == 0 && c->options.trial == 0)
        return error_set(e, ERR_INVALID,
                         "give the owner of the checkpoints: --experiment ID or --trial ID");
    json_t *rows = NULL;
    int err = fetch_rows(c, &rows, e);
    if (!err && c->options.latest && !c->options.best) {
        json_t *one = keep_latest(rows);
        json_decref(rows);
        rows = one;
    }
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    return err;
}

static int fetch_checkpoint(struct cli *c, const char *uuid, json_t **checkpoint, struct error *e)
{
    char *escaped = client_escape(uuid);
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/checkpoints/%s", escaped);
    *checkpoint = !err ? json_incref(jget(answer, "checkpoint")) : NULL;
    json_decref(answer);
    free(escaped);
    return err;
}

int run_checkpoint_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *checkpoint = NULL;
    int err = fetch_checkpoint(c, c->args[0], &checkpoint, e);
    if (!err) {
        const json_t *config = jget_path(checkpoint, "training.experimentConfig");
        json_t *row = row_checkpoint(checkpoint, searcher_metric(config));
        json_object_set(row, "files", jget(checkpoint, "resources"));
        json_object_set(row, "metadata", jget(checkpoint, "metadata"));
        err = output_object(
            c, row, "uuid,experiment,trial,steps,metric,state,size,reported,path,metadata", e);
        json_decref(row);
    }
    json_decref(checkpoint);
    return err;
}

// --- files ---------------------------------------------------------------------------------------

// Downloads the archive into an unnamed file and unpacks it into `folder`.
int fetch_checkpoint_files(struct cli *c, const char *uuid, const char *folder, struct error *e)
{
    char *path = xasprintf("/checkpoints/%s", uuid);
    FILE *spool = tmpfile();
    int err = spool ? 0 : error_set_errno(e, ERR_IO, errno, "cannot make a temporary file");
    if (!err)
        err = client_download(c->client, path, "application/gzip", fileno(spool), e);
    if (!err && lseek(fileno(spool), 0, SEEK_SET) != 0)
        err = error_set_errno(e, ERR_IO, errno, "cannot read the downloaded file");
    if (!err)
        err = archive_unpack_fd(fileno(spool), folder, (uint64_t)DOWNLOAD_MAX_GIB << 30, e);
    if (spool)
        fclose(spool);
    free(path);
    return err;
}

int run_checkpoint_download(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *checkpoint = NULL;
    int err = fetch_checkpoint(c, c->args[0], &checkpoint, e);
    if (!err) {
        const char *uuid = jget_string(checkpoint, "uuid", "");
        const char *folder = c->options.to ? c->options.to : uuid;
        err = fetch_checkpoint_files(c, uuid, folder, e);
        if (!err && !c->options.quiet)
            printf("Checkpoint %s is in %s\n", uuid, folder);
    }
    json_decref(checkpoint);
    return err;
}

// Native checkpoints have a manifest; the files of a program are only hashed.
static bool has_manifest(const char *folder)
{
    char *path = xasprintf("%s/manifest.json", folder);
    bool found = path_exists(path);
    free(path);
    return found;
}

static int show_files_digest(struct cli *c, const char *folder, const char *uuid, struct error *e)
{
    char digest[SHA256_HEX];
    int64_t count;
    int err = checkpoint_files_digest(folder, digest, &count, e);
    if (err)
        return err;
    json_t *row = json_pack("{s:s, s:I}", "files", digest, "count", (json_int_t)count);
    if (uuid)
        json_object_set_new(row, "uuid", json_string(uuid));
    err = output_object(c, row, "files,count", e);
    json_decref(row);
    return err;
}

static int show_digests(struct cli *c, const struct command *self, const char *folder,
                        const char *uuid, struct error *e)
{
    struct checkpoint *ck = NULL;
    if (path_exists(folder) && !has_manifest(folder))
        return show_files_digest(c, folder, uuid, e);
    int err = checkpoint_open(folder, &ck, e);
    if (err)
        return err;
    char weights[SHA256_HEX], state[SHA256_HEX];
    checkpoint_digests(ck, weights, state);
    json_t *row = json_pack("{s:s, s:s, s:I}", "weights", weights, "state", state, "steps",
                            (json_int_t)jget_int(checkpoint_manifest(ck), "step", 0));
    if (uuid)
        json_object_set_new(row, "uuid", json_string(uuid));
    err = output_object(c, row, self->columns, e);
    json_decref(row);
    checkpoint_close(ck);
    return err;
}

// The storage is not visible from this machine: downloads into a temporary folder.
static int show_digests_of_download(struct cli *c, const struct command *self, const char *uuid,
                                    struct error *e)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = xasprintf("%s/muster-digest-%d", tmp ? tmp : "/tmp", (int)getpid());
    int err = fetch_checkpoint_files(c, uuid, folder, e);
    err = err ? err : show_digests(c, self, folder, uuid, e);
    dir_remove_tree(folder, NULL);
    free(folder);
    return err;
}

int run_checkpoint_digest(struct cli *c, const struct command *self, struct error *e)
{
    if (strchr(c->args[0], '/') || path_exists(c->args[0]))
        return show_digests(c, self, c->args[0], NULL, e); // a folder: no master is needed
    json_t *checkpoint = NULL;
    int err = session_open(c, true, e);
    err = err ? err : fetch_checkpoint(c, c->args[0], &checkpoint, e);
    if (!err) {
        const char *uuid = jget_string(checkpoint, "uuid", "");
        json_t *row = row_checkpoint(checkpoint, NULL);
        const char *path = jget_string(row, "path", NULL);
        err = path ? show_digests(c, self, path, uuid, e)
                   : show_digests_of_download(c, self, uuid, e);
        json_decref(row);
    }
    json_decref(checkpoint);
    return err;
}
