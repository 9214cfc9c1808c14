#include "trainer/commands/experiment_file.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "trainer/commands/commands.h"

enum { FLAGS_MAX = 16 };

// --- arguments -----------------------------------------------------------------------------------

static int count_flags(const struct flag *flags)
{
    int count = 0;
    while (flags && flags[count].name)
        count++;
    return count;
}

int experiment_args_parse(int argc, char **argv, const struct experiment_help *help,
                          struct experiment_args *out, struct error *e)
{
    *out = (struct experiment_args){0};
    const struct flag common[] = {
        {"slots", 'n', FLAG_INT, &out->slots, "N",
         "number of processes (default: resources.slots_per_trial)", 1, LIMIT_SLOTS_PER_AGENT,
         NULL},
        {"folder", 0, FLAG_STRING, &out->folder, "DIR",
         "base of relative data paths (default: the file's folder)", 0, 0, NULL},
        {"set", 0, FLAG_LIST, &out->set, "KEY=VALUE", "change a key of the file; may be repeated",
         0, 0, NULL},
        COMMAND_HELP_FLAG(&out->help),
        {0},
    };
    struct flag flags[FLAGS_MAX];
    char wanted[ERROR_TEXT_MAX];
    int own = count_flags(help->flags);
    must(own + (int)(sizeof common / sizeof *common) <= FLAGS_MAX);
    if (own)
        memcpy(flags, help->flags, (size_t)own * sizeof *flags);
    memcpy(flags + own, common, sizeof common);
    snprintf(wanted, sizeof wanted, "give one experiment file: muster-trainer %s FILE", argv[0]);
    const struct command_syntax syntax = {
        .flags = flags, .head = help->head, .tail = help->tail, .usage = wanted, .count = 1};
    return command_parse(&syntax, argc, argv, &out->help, &out->file, e);
}

// --- the file ------------------------------------------------------------------------------------

static int read_config(const struct experiment_args *args, struct yaml_doc *doc, struct error *e)
{
    char *text = NULL;
    size_t len = 0;
    int err = file_read(args->file, LIMIT_CONFIG, &text, &len, e);
    if (!err)
        err = yaml_parse(text, len, args->file, doc, e);
    free(text);
    for (int i = 0; i < args->set.count && !err; i++)
        err = expconf_set(doc, args->set.items[i], e);
    return err ? err : expconf_finish(doc, e);
}

static int resolve_config(struct experiment_file *x, struct error *e)
{
    json_t *hparams = NULL;
    if (!jget(x->doc.root, "trainer"))
        return error_set(e, ERR_INVALID,
                         "%s has no `trainer` section for the "
                         "native trainer; programs (`entrypoint`) run on a cluster: muster "
                         "experiment create",
                         x->file);
    int err = expconf_const_hparams(x->doc.root, &hparams, e);
    if (err)
        return error_prefix(e,
                            "%s describes a search; run it on a cluster (muster experiment "
                            "create), or set every hyperparameter to run one trial here",
                            x->file);
    if (!err)
        err = expconf_resolve_trainer(x->doc.root, hparams, &x->trainer, e);
    json_decref(hparams);
    return err;
}

static uint64_t choose_seed(const json_t *config)
{
    uint32_t random;
    const json_t *given = jget_path(config, "reproducibility.experiment_seed");
    if (json_is_integer(given))
        return (uint64_t)json_integer_value(given);
    rng_secret(&random, sizeof random);
    return random & INT32_MAX;
}

static char *data_folder(const struct experiment_args *args)
{
    if (args->folder)
        return xstrdup(args->folder);
    char *path = xstrdup(args->file);
    char *folder = xstrdup(dirname(path));
    free(path);
    return folder;
}

int experiment_file_open(const struct experiment_args *args, struct experiment_file *out,
                         struct error *e)
{
    *out = (struct experiment_file){.file = args->file};
    int err = read_config(args, &out->doc, e);
    if (!err)
        err = resolve_config(out, e);
    if (err)
        return err;
    const json_t *config = out->doc.root;
    long long slots = args->slots;
    if (!slots)
        slots = json_integer_value(jget_path(config, "resources.slots_per_trial"));
    if (slots > LIMIT_SLOTS_PER_AGENT)
        return error_set(e, ERR_INVALID, "%lld slots are too many; one machine has at most %d",
                         slots, LIMIT_SLOTS_PER_AGENT);
    out->slots = slots < 1 ? 1 : (int)slots;
    out->seed = choose_seed(config);
    out->name = jget_string(config, "name", "run");
    out->metric = jget_string(jget(config, "searcher"), "metric", NULL);
    out->larger_is_better = !jget_bool(jget(config, "searcher"), "smaller_is_better", true);
    out->folder = data_folder(args);
    return 0;
}

void experiment_file_close(struct experiment_file *x)
{
    free(x->folder);
    json_decref(x->trainer);
    yaml_doc_free(&x->doc);
    *x = (struct experiment_file){0};
}

int64_t experiment_file_batch(const struct experiment_file *x)
{
    int64_t batch = jget_int(x->trainer, "global_batch_size", 0);
    return jget_bool(x->trainer, "scale_with_slots", false) ? batch * x->slots : batch;
}
