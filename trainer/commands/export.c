// `muster-trainer export`: writes the weights of a checkpoint as one safetensors file for other
// programs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "trainer/commands/commands.h"

static const char weights_prefix[] = "weights"; // prefix of the files that hold weights
static const char suffix[] = ".safetensors";

struct weights_export {
    const char *from, *to;
    bool force;
    struct checkpoint *ck; // verified, including the data
    struct checkpoint_tensor *tensors;
    size_t count, bytes;
};

static int check_target(const struct weights_export *x, struct error *e)
{
    size_t length = strlen(x->to), end = sizeof suffix - 1;
    if (length <= end || strcmp(x->to + length - end, suffix) != 0)
        return error_set(e, ERR_INVALID,
                         "%s: export writes safetensors files; let the name end in %s", x->to,
                         suffix);
    if (path_exists(x->to) && !x->force)
        return error_set(e, ERR_CONFLICT, "%s already exists; --force replaces it", x->to);
    return 0;
}

// Collects the weights in the order of the manifest, which is the order of the model.
static void collect_tensors(struct weights_export *x)
{
    const json_t *files = jget(checkpoint_manifest(x->ck), "files");
    json_t *file, *entry;
    size_t i, j;
    x->tensors = xcalloc(checkpoint_tensor_count(x->ck) + 1, sizeof *x->tensors);
    json_array_foreach(files, i, file)
    {
        const char *name = jget_string(file, "name", "");
        if (strncmp(name, weights_prefix, sizeof weights_prefix - 1) != 0)
            continue;
        json_array_foreach(jget(file, "tensors"), j, entry)
        {
            const struct checkpoint_tensor *t =
                checkpoint_tensor_find(x->ck, jget_string(entry, "name", ""));
            x->tensors[x->count++] = *t;
            x->bytes += checkpoint_tensor_bytes(t);
        }
    }
}

static int write_weights(const struct weights_export *x, struct error *e)
{
    const char *slash = strrchr(x->to, '/');
    char *folder = slash ? xasprintf("%.*s", (int)(slash - x->to + 1), x->to) : xstrdup(".");
    const struct checkpoint_file file = {
        .name = slash ? slash + 1 : x->to, .tensors = x->tensors, .count = x->count};
    json_t *entry = NULL;
    int err = checkpoint_write_file(folder, &file, &entry, e);
    json_decref(entry);
    free(folder);
    return err;
}

static int export_weights(struct weights_export *x, struct error *e)
{
    int err = check_target(x, e);
    if (!err)
        err = checkpoint_open(x->from, &x->ck, e);
    if (err)
        return err;
    collect_tensors(x);
    err = x->count ? write_weights(x, e)
                   : error_set(e, ERR_INVALID,
                               "%s holds no weights of the native trainer; name a folder that "
                               "`muster-trainer run` saved",
                               x->from);
    if (!err)
        printf("%s: %zu tensors, %zu bytes of weights, of step %lld\n", x->to, x->count, x->bytes,
               (long long)jget_int(checkpoint_manifest(x->ck), "step", 0));
    return err;
}

static const char help_head[] =
    "usage: muster-trainer export CHECKPOINT OUT.safetensors [FLAGS]\n\n"
    "Writes the weights of a checkpoint (the folder that holds manifest.json) as one safetensors\n"
    "file, under the names of the model's parameters, running statistics included. The checksums\n"
    "of the checkpoint are verified first.\n\n"
    "Matrices are [in, out], filters [height, width, in, out], and flatten orders an image by\n"
    "row, column, channel; in PyTorch these are [out, in], [out, in, height, width] and channel,\n"
    "row, column.\n\n";
static const char help_tail[] = "\nexample:\n"
                                "  muster-trainer export checkpoints/mnist/best mnist.safetensors\n"
                                "  python3 -c 'import safetensors.torch as s; "
                                "print(s.load_file(\"mnist.safetensors\").keys())'\n";

int command_export(int argc, char **argv)
{
    struct weights_export x = {0};
    bool show_help = false;
    const struct flag flags[] = {
        {"force", 0, FLAG_BOOL, &x.force, NULL, "replace an existing file", 0, 0, NULL},
        COMMAND_HELP_FLAG(&show_help),
        {0},
    };
    const struct command_syntax syntax = {
        .flags = flags,
        .head = help_head,
        .tail = help_tail,
        .usage = "give a checkpoint and a file: muster-trainer export CHECKPOINT OUT.safetensors",
        .count = 2,
    };
    struct error e = {0};
    const char *rest[2];
    int err = command_parse(&syntax, argc, argv, &show_help, rest, &e);
    if (!err && !show_help) {
        x.from = rest[0];
        x.to = rest[1];
        err = export_weights(&x, &e);
    }
    free(x.tensors);
    checkpoint_close(x.ck);
    return err ? command_failed("export", &e) : 0;
}
