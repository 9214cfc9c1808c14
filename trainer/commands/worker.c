// `muster-trainer worker`: the process of one rank, started by an agent. Its whole input is in the
// environment: the DET_* variables (docs/wire.md) and torchrun's names.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/config/expconf.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/commands/commands.h"
#include "trainer/launcher/cluster_launcher.h"
#include "trainer/loop/job.h"

struct trainer_worker {
    struct cluster_launcher_config cluster;
    json_t *config, *hparams, *trainer;
    int64_t seed;
    const char *address; // of this machine
    struct cluster_launcher *link;
    char **restore; // checkpoint folders to resume from
    int restore_count;
};

// --- the environment -----------------------------------------------------------------------------

struct environment_variable {
    const char *name;
    bool required;
    const char **text; // one of text, number and json
    int64_t *number;
    json_t **json;
};

static int read_number(const char *name, const char *text, int64_t *out, struct error *e)
{
    char *end;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end)
        return error_set(e, ERR_INVALID, "%s is \"%s\", but must be a whole number", name, text);
    *out = number;
    return 0;
}

static int read_variable(const struct environment_variable *v, struct error *e)
{
    const char *text = getenv(v->name);
    if (!text || !text[0]) {
        if (!v->required)
            return 0;
        return error_set(e, ERR_INVALID,
                         "%s is not set: `worker` is started by an agent. To train without a "
                         "cluster: muster-trainer run FILE",
                         v->name);
    }
    if (v->text)
        *v->text = text;
    if (v->number)
        return read_number(v->name, text, v->number, e);
    if (v->json)
        return json_parse(text, strlen(text), v->name, v->json, e);
    return 0;
}

static int read_environment(struct trainer_worker *w, struct error *e)
{
    int64_t rank = 0, world = 0;
    struct cluster_launcher_config *c = &w->cluster;
    const struct environment_variable variables[] = {
        {"DET_MASTER", true, .text = &c->master},
        {"DET_SESSION_TOKEN", true, .text = &c->token},
        {"DET_MASTER_CERT_FILE", false, .text = &c->ca_file},
        {"DET_ALLOCATION_ID", true, .text = &c->allocation},
        {"DET_TASK_ID", true, .text = &c->task},
        {"DET_TRIAL_ID", true, .number = &c->trial},
        {"DET_TRIAL_RUN_ID", true, .number = &c->run},
        {"DET_TRIAL_SEED", true, .number = &w->seed},
        {"DET_EXPERIMENT_CONFIG", true, .json = &w->config},
        {"DET_HPARAMS", true, .json = &w->hparams},
        {"MUSTER_ADDRESS", false, .text = &w->address},
        {"RANK", true, .number = &rank},
        {"WORLD_SIZE", true, .number = &world},
    };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        int err = read_variable(&variables[i], e);
        if (err)
            return err;
    }
    if (world < 1 || world > LIMIT_SLOTS_PER_TRIAL || rank < 0 || rank >= world)
        return error_set(e, ERR_INVALID, "RANK=%lld does not fit WORLD_SIZE=%lld", (long long)rank,
                         (long long)world);
    c->rank = (int)rank;
    c->world = (int)world;
    return 0;
}

// --- checkpoints to resume from ------------------------------------------------------------------

static int add_restore_folder(struct trainer_worker *w, const char *uuid, struct error *e)
{
    const json_t *storage = jget(w->config, "checkpoint_storage");
    w->restore = xrealloc(w->restore, (size_t)(w->restore_count + 1) * sizeof *w->restore);
    int err = checkpoint_folder(storage, uuid, &w->restore[w->restore_count], e);
    if (!err)
        w->restore_count++;
    return err;
}

static int find_restore_folders(struct trainer_worker *w, struct error *e)
{
    const char *latest = getenv("DET_LATEST_CHECKPOINT");
    if (!latest || !latest[0] || w->cluster.rank > 0)
        return 0;
    char **uuids = NULL, why[ERROR_TEXT_MAX];
    int count = 0;
    int err = add_restore_folder(w, latest, e);
    if (!err && cluster_launcher_checkpoints(w->link, &uuids, &count, e)) {
        log_warn("cannot list earlier checkpoints", "err=%s", log_quote(why, sizeof why, e->text));
        count = 0;
    }
    for (int i = 0; i < count; i++) {
        if (!err && strcmp(uuids[i], latest) != 0)
            err = add_restore_folder(w, uuids[i], e);
        free(uuids[i]);
    }
    free(uuids);
    return err;
}

static int run_worker(struct trainer_worker *w, struct error *e)
{
    struct launcher launcher = cluster_launcher_base(w->link);
    int err = expconf_resolve_trainer(w->config, w->hparams, &w->trainer, e);
    if (err) {
        launcher.ops->permanent_failure(launcher.ctx, e->text);
        return err;
    }
    err = find_restore_folders(w, e);
    if (err)
        return err;
    const json_t *searcher = jget(w->config, "searcher");
    const struct training_job job = {
        .name = jget_string(w->config, "name", ""),
        .trainer = w->trainer,
        .folder = ".",
        .metric = jget_string(searcher, "metric", NULL),
        .larger_is_better = !jget_bool(searcher, "smaller_is_better", true),
        .rank = w->cluster.rank,
        .world = w->cluster.world,
        .seed = (uint64_t)w->seed,
        .launcher = launcher,
        .address = w->address,
        .allocation = w->cluster.allocation,
        .storage = jget(w->config, "checkpoint_storage"),
        .restore = w->restore,
        .restore_count = w->restore_count,
    };
    enum training_end end;
    err = training_job_run(&job, &end, e);
    if (!err && job.rank == 0)
        puts(end == TRAINING_DRAINED ? "training stopped as requested; the state is saved"
                                     : "training completed");
    return err;
}

static const char help[] =
    "usage: muster-trainer worker\n\n"
    "Runs one rank of a trial. An agent starts it with all settings in the environment "
    "(DET_MASTER,\n"
    "DET_SESSION_TOKEN, DET_EXPERIMENT_CONFIG, RANK, WORLD_SIZE, ...); the current folder holds\n"
    "the experiment's files. To train without a cluster: muster-trainer run FILE\n";

// On a GPU slot this process replaces itself with the trainer for GPUs, a separate program in the
// same folder, because only that program loads NVIDIA's libraries. Returns if this program is the
// right one.
static int exec_gpu_worker(struct error *e)
{
#ifndef MUSTER_CUDA
    const char *gpu = getenv("CUDA_VISIBLE_DEVICES");
    char path[PATH_MAX], *argv[] = {path, "worker", NULL};
    static const char name[] = "muster-trainer-cuda";
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof name);
    if (!gpu || !gpu[0] || n <= 0)
        return 0;
    path[n] = '\0';
    memcpy(strrchr(path, '/') + 1, name, sizeof name);
    execv(path, argv);
    return error_set_errno(
        e, ERR_NOT_FOUND, errno,
        "this is a GPU slot, but %s cannot be started. Build Muster with the CUDA "
        "toolkit to get it, or start the agent of this machine with --gpus none to "
        "offer CPU slots",
        path);
#else
    (void)e;
    return 0;
#endif
}

int command_worker(int argc, char **argv)
{
    if (argc > 1) {
        bool wanted = strcmp(argv[1], "--help") == 0;
        fputs(help, wanted ? stdout : stderr);
        return wanted ? 0 : err_exit_code(ERR_INVALID);
    }
    struct trainer_worker w = {0};
    struct error e = {0};
    char why[ERROR_TEXT_MAX];
    setvbuf(stdout, NULL, _IOLBF, 0); // stdout is the task's log
    int err = exec_gpu_worker(&e);
    if (!err)
        err = read_environment(&w, &e);
    if (!err)
        err = cluster_launcher_open(&w.cluster, &w.link, &e);
    if (!err)
        err = run_worker(&w, &e);
    if (err)
        log_error("training failed", "alloc=%s rank=%d err=%s",
                  w.cluster.allocation ? w.cluster.allocation : "", w.cluster.rank,
                  log_quote(why, sizeof why, e.text));
    cluster_launcher_close(w.link);
    for (int i = 0; i < w.restore_count; i++)
        free(w.restore[i]);
    free(w.restore);
    json_decref(w.trainer);
    json_decref(w.hparams);
    json_decref(w.config);
    return err_exit_code(err);
}
