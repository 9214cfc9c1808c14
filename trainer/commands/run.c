// `muster-trainer run`: trains an experiment file on this machine. The parent forks one process per
// slot, shows progress, and restarts the gang from the last checkpoint when a rank dies.
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/flags.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/os/proc.h"
#include "base/text/json.h"
#include "trainer/commands/checkpoint_dir.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/experiment_file.h"
#include "trainer/commands/progress_bar.h"
#include "trainer/launcher/gang.h"
#include "trainer/launcher/local_launcher.h"
#include "trainer/loop/job.h"

enum {
    EXIT_INTERRUPTED = 128 + SIGINT,
    GRACE_US = 2 * 1000 * 1000, // the other ranks may still report the failure they saw
};

struct local_run {
    struct experiment_args args;
    struct experiment_file experiment;
    const char *checkpoint_folder;
    char *default_checkpoint_folder; // ./checkpoints/NAME
    struct checkpoint_dir_options dir_options;
    char **argv; // of the command

    struct progress_bar progress;
    struct checkpoint_dir dir;
    double first_validation_loss, last_validation_loss;  // of the validations
    int64_t first_validation_step, last_validation_step; // of the validations; negative: none yet
    bool permanent_failure, drained;
    struct error failure; // the first failure that a rank reported
};

static void choose_checkpoint_folder(struct local_run *r)
{
    if (r->checkpoint_folder)
        return;
    r->default_checkpoint_folder = path_join("checkpoints", r->experiment.name);
    for (char *c = r->default_checkpoint_folder + strlen("checkpoints/"); *c; c++)
        *c = *c == '/' ? '_' : *c;
    r->checkpoint_folder = r->default_checkpoint_folder;
}

// If the experiment has no seed, it continues with the seed of the checkpoint.
static void adopt_seed(struct local_run *r)
{
    char *text = NULL, *path = path_join(checkpoint_dir_last(&r->dir), "manifest.json");
    size_t len = 0;
    json_t *manifest = NULL;
    if (!jget_path(r->experiment.doc.root, "reproducibility.experiment_seed") &&
        file_read(path, LIMIT_BODY, &text, &len, NULL) == 0 &&
        json_parse(text, len, path, &manifest, NULL) == 0)
        r->experiment.seed = (uint64_t)jget_int(jget(manifest, "generator"), "seed", 0);
    json_decref(manifest);
    free(text);
    free(path);
}

// --- a rank --------------------------------------------------------------------------------------

static int train_rank_main(struct gang_member *member, void *ctx)
{
    struct local_run *r = ctx;
    struct local_launcher local;
    struct error e = {0};
    int count = r->dir.count;
    char **restore = xcalloc((size_t)count + 1, sizeof *restore);
    for (int i = 0; i < count; i++)
        restore[i] = r->dir.checkpoints[count - 1 - i];
    const struct training_job job = {
        .name = r->experiment.name,
        .trainer = r->experiment.trainer,
        .folder = r->experiment.folder,
        .metric = r->experiment.metric,
        .larger_is_better = r->experiment.larger_is_better,
        .rank = member->rank,
        .world = member->world,
        .seed = r->experiment.seed,
        .launcher = local_launcher_open(&local, member),
        .checkpoint_folder = r->checkpoint_folder,
        .restore = restore,
        .restore_count = count,
    };
    enum training_end end;
    int err = training_job_run(&job, &end, &e);
    if (err)
        local_launcher_report_failure(&local, err, e.text);
    free(restore);
    return err_exit_code(err);
}

// --- messages from the ranks ---------------------------------------------------------------------

static void receive_metrics(struct local_run *r, const char *group, const json_t *message)
{
    char line[METRICS_LINE_MAX];
    const json_t *metrics = jget(message, "metrics");
    const char *metric = r->experiment.metric;
    bool validation = strcmp(group, "validation") == 0;
    if (validation) {
        r->last_validation_loss = jget_double(metrics, "validation_loss", 0);
        r->last_validation_step = jget_int(message, "at", 0);
        if (r->first_validation_step < 0) {
            r->first_validation_loss = r->last_validation_loss;
            r->first_validation_step = r->last_validation_step;
        }
        if (jget_int(message, "at", 0) > 0)
            progress_bar_best(&r->progress, jget_double(metrics, metric, NAN));
    } else {
        r->progress.samples_per_second = jget_double(metrics, "samples_per_second", 0);
    }
    if (validation || !r->progress.terminal) // the bar shows the other metrics
        progress_bar_line(&r->progress, "%s",
                          metrics_line(line, sizeof line, jget_int(message, "at", 0),
                                       jget_int(message, "steps", 0), metrics));
}

static void receive_checkpoint(struct local_run *r, const char *checkpoint, const json_t *message)
{
    struct error e = {0};
    bool best = jget_bool(message, "best", false);
    progress_bar_line(&r->progress, "step %" PRId64 "  checkpoint %s%s", jget_int(message, "at", 0),
                      checkpoint, best ? "  (the best)" : "");
    if (checkpoint_dir_add(&r->dir, checkpoint, best, jget_bool(message, "only_best", false), &e))
        progress_bar_line(&r->progress, "%s", e.text);
}

static void receive_message(void *ctx, int rank, const json_t *message)
{
    struct local_run *r = ctx;
    const char *group = jget_string(message, "group", NULL);
    const char *checkpoint = jget_string(message, "checkpoint", NULL);
    const char *note = jget_string(message, "note", NULL);
    const char *failed = jget_string(message, "failed", NULL);
    if (group) {
        receive_metrics(r, group, message);
    } else if (checkpoint) {
        receive_checkpoint(r, checkpoint, message);
    } else if (note) {
        progress_bar_line(&r->progress, "%s", note);
    } else if (failed) {
        if (!r->failure.code || r->failure.code == ERR_PEER) // the cause, not its consequences
            error_set(&r->failure, (int)jget_int(message, "code", ERR_FAILED), "rank %d: %s", rank,
                      failed);
    } else if (jget(message, "step")) {
        progress_bar_step(&r->progress, jget_int(message, "step", 0),
                          jget_double(message, "loss", 0));
    }
    r->permanent_failure |= jget(message, "permanent_failure") != NULL;
    r->drained |= jget_bool(message, "drained", false);
}

static void announce_interrupt(void *ctx, bool drain)
{
    struct local_run *r = ctx;
    progress_bar_line(&r->progress,
                      drain ? "finishing the step and saving the state; interrupt again to "
                              "stop at once"
                            : "stopping at once");
}

// --- restarts ------------------------------------------------------------------------------------

// 0: completed or drained; 1: restart; negative: failed for good.
static int decide_restart(struct local_run *r, const struct gang_result *result, int64_t restarts,
                          struct error *e)
{
    char status[64];
    int64_t allowed = jget_int(r->experiment.doc.root, "max_restarts", 0);
    if (result->failed_rank < 0)
        return 0;
    proc_status_text(result->status, status, sizeof status);
    struct error why = r->failure;
    if (!why.code)
        error_set(&why, ERR_FAILED, "rank %d ended: %s", result->failed_rank, status);
    if (r->permanent_failure || result->drain || restarts >= allowed)
        return error_set(e, why.code, "%s%s", why.text,
                         restarts >= allowed && restarts > 0 ? " (no restarts are left)" : "");
    progress_bar_line(&r->progress, "%s; restart %" PRId64 " of %" PRId64 " from %s", why.text,
                      restarts + 1, allowed,
                      r->dir.count ? checkpoint_dir_last(&r->dir) : "the beginning");
    return 1;
}

static int run_with_restarts(struct local_run *r, bool *killed, struct error *e)
{
    const struct gang_spec spec = {
        .world = r->experiment.slots,
        .rank = train_rank_main,
        .message = receive_message,
        .signalled = announce_interrupt,
        .ctx = r,
        .grace_us = GRACE_US,
    };
    for (int64_t restarts = 0;; restarts++) {
        struct gang_result result;
        r->failure = (struct error){0};
        progress_bar_restart(&r->progress);
        int err = gang_run(&spec, &result, e);
        *killed = result.killed;
        if (err || result.killed)
            return err;
        err = decide_restart(r, &result, restarts, e);
        if (err <= 0)
            return err;
    }
}

// Prints a word of a command line, quoted for a shell.
static void print_quoted(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=.,:/@%";
    if (word[0] && word[strspn(word, plain)] == '\0') {
        printf(" %s", word);
        return;
    }
    fputs(" '", stdout);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, stdout);
    putchar('\'');
}

// Prints the same command with --resume.
static void print_resume(const struct local_run *r)
{
    fputs("stopped as requested; continue with: muster-trainer run", stdout);
    for (char **word = r->argv + 1; *word; word++)
        if (strcmp(*word, "--from") == 0 && word[1])
            word++;
        else if (strcmp(*word, "--overwrite") != 0 && strcmp(*word, "--resume") != 0 &&
                 strncmp(*word, "--from=", 7) != 0)
            print_quoted(*word);
    puts(" --resume");
}

static void print_best(const struct local_run *r, const json_t *manifest)
{
    const json_t *best = jget(manifest, "best");
    int64_t step = jget_int(best, "step", 0);
    if (step > 0)
        printf("best        %s %.6g at step %" PRId64 "\n", jget_string(best, "metric", ""),
               jget_double(best, "value", 0), step);
    if (r->dir.has_best)
        printf("            %s/best\n", r->dir.path);
}

static int print_result(struct local_run *r, struct error *e)
{
    const char *last = checkpoint_dir_last(&r->dir);
    char weights[SHA256_HEX], state[SHA256_HEX];
    struct checkpoint *ck = NULL;
    if (r->first_validation_step != r->last_validation_step)
        printf("validation loss  %.4f at step %" PRId64 ", %.4f at step %" PRId64 "\n",
               r->first_validation_loss, r->first_validation_step, r->last_validation_loss,
               r->last_validation_step);
    if (!last)
        return 0;
    int err = checkpoint_open(last, &ck, e);
    if (err)
        return err;
    checkpoint_digests(ck, weights, state);
    print_best(r, checkpoint_manifest(ck));
    checkpoint_close(ck);
    printf("checkpoint  %s\n  weights   %s\n  state     %s\n", last, weights, state);
    if (r->drained)
        print_resume(r);
    return 0;
}

static int run_file(struct local_run *r, bool *killed, struct error *e)
{
    struct experiment_file *x = &r->experiment;
    int err = experiment_file_open(&r->args, x, e);
    if (err)
        return err;
    choose_checkpoint_folder(r);
    err = checkpoint_dir_open(r->checkpoint_folder, &r->dir_options, &r->dir, e);
    if (err)
        return err;
    if (checkpoint_dir_last(&r->dir))
        adopt_seed(r);
    int64_t steps = jget_int(x->trainer, "steps", 0);
    printf("%s: %d slot%s, %" PRId64 " steps, seed %" PRIu64 "\n", x->file, x->slots,
           x->slots == 1 ? "" : "s", steps, x->seed);
    if (checkpoint_dir_last(&r->dir))
        printf("resuming from %s\n", checkpoint_dir_last(&r->dir));
    progress_bar_open(&r->progress, steps, x->larger_is_better);
    err = run_with_restarts(r, killed, e);
    progress_bar_close(&r->progress);
    return err || *killed ? err : print_result(r, e);
}

static const char help_head[] =
    "usage: muster-trainer run FILE [FLAGS]\n\n"
    "Trains the `trainer` section of an experiment file on this machine, one process per slot.\n"
    "Ctrl-C finishes the step and saves the state. If a rank dies, all restart from the last\n"
    "checkpoint, up to max_restarts times.\n\n";
static const char help_tail[] =
    "\nexample:\n"
    "  muster-trainer run examples/shakespeare.yaml --folder texts --slots 2 \\\n"
    "      --set trainer.steps=500\n";

int command_run(int argc, char **argv)
{
    struct local_run r = {.argv = argv, .first_validation_step = -1, .last_validation_step = -1};
    bool killed = false;
    const struct flag flags[] = {
        {"checkpoint-dir", 0, FLAG_STRING, &r.checkpoint_folder, "DIR",
         "folder for checkpoints (default: ./checkpoints/NAME)", 0, 0, NULL},
        {"resume", 0, FLAG_BOOL, &r.dir_options.resume, NULL,
         "continue from the last checkpoint in that folder, if there is one", 0, 0, NULL},
        {"overwrite", 0, FLAG_BOOL, &r.dir_options.overwrite, NULL,
         "remove the checkpoints in that folder", 0, 0, NULL},
        {"from", 0, FLAG_STRING, &r.dir_options.from, "CHECKPOINT",
         "continue from this checkpoint; new ones go to --checkpoint-dir", 0, 0, NULL},
        {0},
    };
    const struct experiment_help help = {.head = help_head, .tail = help_tail, .flags = flags};
    struct error e = {0};
    int err = experiment_args_parse(argc, argv, &help, &r.args, &e);
    if (!err && !r.args.help)
        err = run_file(&r, &killed, &e);
    checkpoint_dir_close(&r.dir);
    free(r.default_checkpoint_folder);
    experiment_file_close(&r.experiment);
    if (killed)
        return EXIT_INTERRUPTED;
    return err ? command_failed("run", &e) : 0;
}
