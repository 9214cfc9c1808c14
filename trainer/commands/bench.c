// `muster-trainer bench`: measures how fast an experiment file trains on this machine. Ranks train
// as in `run`, but validate and save nothing; rank 0 records the time of each step and sends a
// summary to the parent at the end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/flags.h"
#include "base/os/proc.h"
#include "base/text/json.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/device_trace.h"
#include "trainer/commands/experiment_file.h"
#include "trainer/launcher/gang.h"
#include "trainer/launcher/local_launcher.h"
#include "trainer/loop/job.h"

enum { WARMUP = 5, STEPS = 20, STEPS_MAX = 1000000, GRACE_US = 2 * 1000 * 1000 };

struct bench_run {
    struct experiment_file experiment;
    long long warmup, steps;
    const char *trace; // file of the trace; NULL: none
    json_t *result;
    struct error failure; // the first failure that a rank reported
};

// The metrics of a rank, collected from one report per step.
struct bench_rank {
    struct local_launcher local; // first, so that the launcher's operations get a pointer to it
    const struct bench_run *bench;
    double *step_ms; // [steps]
    int64_t count;
    json_t *sums; // sum of every metric over the measured steps
    struct device_trace *trace;
    struct error trace_failure;
};

static void add_metrics(json_t *sums, const json_t *metrics)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)metrics, name, value) json_object_set_new(
        sums, name, json_real(jget_double(sums, name, 0) + json_number_value(value)));
}

// The trace covers the measured steps.
static void trace_steps(struct bench_rank *r, int64_t step)
{
    const struct bench_run *b = r->bench;
    if (!b->trace || r->trace_failure.code)
        return;
    if (step == b->warmup)
        device_trace_begin(b->trace, &r->trace, &r->trace_failure);
    if (step == b->warmup + b->steps) {
        device_trace_end(r->trace, &r->trace_failure);
        r->trace = NULL;
    }
}

static void collect_metrics(void *ctx, const char *group, int64_t step, int64_t steps,
                            const json_t *metrics)
{
    struct bench_rank *r = ctx;
    (void)steps;
    if (strcmp(group, "training") == 0)
        trace_steps(r, step);
    if (strcmp(group, "training") != 0 || step <= r->bench->warmup || r->count == r->bench->steps)
        return;
    r->step_ms[r->count++] = jget_double(metrics, "step_ms", 0);
    add_metrics(r->sums, metrics);
}

static void ignore_step(void *ctx, int64_t step, double loss)
{
    (void)ctx, (void)step, (void)loss;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static json_t *make_summary(struct bench_rank *r)
{
    static const char *const means[][2] = {
        {"data_ms", "data_ms"},           {"forward_ms", "forward_ms"},
        {"backward_ms", "backward_ms"},   {"exposed_communication_ms", "communication_ms"},
        {"optimizer_ms", "optimizer_ms"}, {"mfu", "mfu"},
    };
    double n = (double)r->count, seconds = jget_double(r->sums, "step_ms", 0) / 1000.0;
    double samples = n * (double)experiment_file_batch(&r->bench->experiment) / seconds;
    qsort(r->step_ms, (size_t)r->count, sizeof *r->step_ms, by_size);
    json_t *out = json_pack("{s:f, s:n, s:f}", "samples_per_second", samples, "tokens_per_second",
                            "step_ms", r->step_ms[r->count / 2]);
    double tokens = jget_double(r->sums, "tokens_per_second", 0);
    if (tokens > 0) // the ratio of tokens to samples is the same in every report
        json_object_set_new(
            out, "tokens_per_second",
            json_real(samples * tokens / jget_double(r->sums, "samples_per_second", 1)));
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        json_object_set_new(out, means[i][0], json_real(jget_double(r->sums, means[i][1], 0) / n));
    return out;
}

static int send_summary(void *ctx, bool drained, struct error *e)
{
    struct bench_rank *r = ctx;
    if (r->local.member->rank > 0 || drained)
        return 0;
    json_t *message = json_pack("{s:o}", "bench", make_summary(r));
    int err = gang_send(r->local.member, message, e);
    json_decref(message);
    return err;
}

static int bench_rank_main(struct gang_member *member, void *ctx)
{
    const struct bench_run *b = ctx;
    struct bench_rank r = {.bench = b, .sums = json_object()};
    struct error e = {0};
    struct launcher launcher = local_launcher_open(&r.local, member);
    struct launcher_ops ops = *launcher.ops;
    ops.step = ignore_step;
    ops.metrics = collect_metrics;
    ops.finish = send_summary;
    r.step_ms = xcalloc((size_t)b->steps, sizeof *r.step_ms);
    const struct training_job job = {
        .name = b->experiment.name,
        .trainer = b->experiment.trainer,
        .folder = b->experiment.folder,
        .metric = b->experiment.metric,
        .larger_is_better = b->experiment.larger_is_better,
        .rank = member->rank,
        .world = member->world,
        .seed = b->experiment.seed,
        .launcher = {.ops = &ops, .ctx = &r},
        .only_steps = true,
    };
    enum training_end end;
    int err = training_job_run(&job, &end, &e);
    if (!err && r.trace_failure.code)
        err = error_set(&e, r.trace_failure.code, "--trace: %s", r.trace_failure.text);
    if (err)
        local_launcher_report_failure(&r.local, err, e.text);
    json_decref(r.sums);
    free(r.step_ms);
    return err_exit_code(err);
}

// --- the parent ----------------------------------------------------------------------------------

static void receive_message(void *ctx, int rank, const json_t *message)
{
    struct bench_run *b = ctx;
    const char *failed = jget_string(message, "failed", NULL);
    if (jget(message, "bench"))
        b->result = json_incref(jget(message, "bench"));
    // the cause, not its consequences
    if (failed && (!b->failure.code || b->failure.code == ERR_PEER))
        error_set(&b->failure, (int)jget_int(message, "code", ERR_FAILED), "rank %d: %s", rank,
                  failed);
}

static int run_bench(struct bench_run *b, struct error *e)
{
    json_t *trainer = b->experiment.trainer;
    json_object_set_new(trainer, "steps", json_integer(b->warmup + b->steps));
    json_object_set_new(trainer, "report_every", json_integer(1));
    const struct gang_spec spec = {.world = b->experiment.slots,
                                   .rank = bench_rank_main,
                                   .message = receive_message,
                                   .ctx = b,
                                   .grace_us = GRACE_US};
    struct gang_result result;
    char status[64];
    int err = gang_run(&spec, &result, e);
    if (err)
        return err;
    if (b->failure.code)
        return error_set(e, b->failure.code, "%s", b->failure.text);
    if (result.failed_rank >= 0)
        return error_set(e, ERR_FAILED, "rank %d ended: %s", result.failed_rank,
                         proc_status_text(result.status, status, sizeof status));
    if (!b->result)
        return error_set(e, ERR_FAILED, "interrupted before all steps were measured");
    json_object_set_new(b->result, "slots", json_integer(b->experiment.slots));
    json_object_set_new(b->result, "steps", json_integer(b->steps));
    json_object_set_new(b->result, "warmup", json_integer(b->warmup));
    return 0;
}

static void print_result(const struct bench_run *b)
{
    const json_t *r = b->result;
    printf("%s: %d slot%s, %lld steps after %lld to warm up\n", b->experiment.file,
           b->experiment.slots, b->experiment.slots == 1 ? "" : "s", b->steps, b->warmup);
    printf("  %.0f samples/s", jget_double(r, "samples_per_second", 0));
    if (jget(r, "tokens_per_second"))
        printf("  %.0f tokens/s", jget_double(r, "tokens_per_second", 0));
    printf("  %.3f ms per step (median)  %.1f %% of the slots' peak\n",
           jget_double(r, "step_ms", 0), 100 * jget_double(r, "mfu", 0));
    printf("  ms of a step: data %.3f  forward %.3f  backward %.3f  exposed communication %.3f  "
           "optimizer %.3f\n",
           jget_double(r, "data_ms", 0), jget_double(r, "forward_ms", 0),
           jget_double(r, "backward_ms", 0), jget_double(r, "exposed_communication_ms", 0),
           jget_double(r, "optimizer_ms", 0));
}

static const char help_head[] =
    "usage: muster-trainer bench FILE [FLAGS]\n\n"
    "Measures how fast the `trainer` section of an experiment file trains on this machine: a few\n"
    "steps to warm up, then the measured steps. Nothing is validated, saved or sent to a master.\n"
    "Times are those of rank 0: the median of a step, and the mean of each of its phases.\n\n";
static const char help_tail[] =
    "\n--trace writes the activity of rank 0's device in the measured steps as JSON that\n"
    "chrome://tracing and ui.perfetto.dev show: phases and layers of a CPU slot, phases and\n"
    "kernels of a GPU slot. The library CUPTI of the CUDA toolkit reports the kernels.\n"
    "\nexample:\n"
    "  muster-trainer bench examples/mnist.yaml --folder mnist --slots 2 --steps 100\n"
    "  muster-trainer bench examples/mnist.yaml --folder mnist --steps 2 --trace mnist.json\n";

int command_bench(int argc, char **argv)
{
    struct bench_run b = {.warmup = WARMUP, .steps = STEPS};
    const char *format = "table";
    const struct flag flags[] = {
        {"warmup", 0, FLAG_INT, &b.warmup, "N", "steps to warm up (default 5)", 0, STEPS_MAX, NULL},
        {"steps", 0, FLAG_INT, &b.steps, "N", "measured steps (default 20)", 1, STEPS_MAX, NULL},
        {"trace", 0, FLAG_STRING, &b.trace, "FILE", "write a trace of the device to FILE", 0, 0,
         NULL},
        COMMAND_OUTPUT_FLAG(&format),
        {0},
    };
    const struct experiment_help help = {.head = help_head, .tail = help_tail, .flags = flags};
    struct experiment_args args;
    struct error e = {0};
    int err = experiment_args_parse(argc, argv, &help, &args, &e);
    if (!err && !args.help) {
        err = command_check_output(format, &e);
        if (!err && b.trace && b.warmup == 0)
            err = error_set(&e, ERR_INVALID,
                            "--trace needs at least one warm-up step; add --warmup 1");
        if (!err)
            err = experiment_file_open(&args, &b.experiment, &e);
        if (!err)
            err = run_bench(&b, &e);
        if (!err && strcmp(format, "json") == 0)
            command_print_json(b.result);
        else if (!err)
            print_result(&b);
    }
    json_decref(b.result);
    experiment_file_close(&b.experiment);
    return err ? command_failed("bench", &e) : 0;
}
