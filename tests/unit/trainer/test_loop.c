// Whole trainings of small models on generated data by forked ranks: the same bits for every world
// size, through drains, deaths, resumes with another world size, and damaged checkpoints.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/config/expconf.h"
#include "base/arena.h"
#include "base/os/file.h"
#include "tests/unit/trainer/ranks.h"
#include "tests/unit/trainer/toys.h"
#include "trainer/launcher/local_launcher.h"
#include "trainer/loop/job.h"

enum { STEPS = 12, CHECKPOINTS_MAX = 8, REPORTS_MAX = 16 };

// One training as the parent sees it.
struct loop_run {
    const char *yaml;
    int world;
    // step after which rank 0 requests a drain, or kills rank 1; 0: never
    int64_t drain_at, kill_at;
    const char *folder;    // of checkpoints
    const char *data_of_1; // base of rank 1's data paths; NULL: like the others
    char *restore[CHECKPOINTS_MAX];
    int restore_count;
    json_t *trainer;
    pid_t *pids; // [RANKS_MAX] in shared memory

    char checkpoints[CHECKPOINTS_MAX][256];
    int checkpoint_count;
    char failures[RANKS_MAX][ERROR_TEXT_MAX];
    int codes[RANKS_MAX];
    bool drained, permanent_failure;
    double validation[REPORTS_MAX], losses[REPORTS_MAX]; // losses are indexed by step
    int validations;
    struct gang_result result;
};

// --- a rank --------------------------------------------------------------------------------------

struct seat_link {
    struct local_launcher local; // first, because the operations of local_launcher get this pointer
    const struct loop_run *run;
    int64_t step;
};

static void record_step(void *ctx, int64_t step, double loss)
{
    struct seat_link *l = ctx;
    (void)loss;
    l->step = step;
    if (step == l->run->kill_at)
        kill(l->run->pids[1], SIGKILL);
}

static int poll_step(void *ctx, bool *drain, struct error *e)
{
    const struct seat_link *l = ctx;
    (void)e;
    *drain = l->run->drain_at > 0 && l->step + 1 >= l->run->drain_at;
    return 0;
}

static int rank_trains(struct gang_member *member, void *ctx)
{
    struct loop_run *run = ctx;
    struct seat_link l = {.run = run};
    struct launcher launcher = local_launcher_open(&l.local, member);
    struct launcher_ops ops = *launcher.ops;
    ops.step = record_step;
    ops.poll = poll_step;
    run->pids[member->rank] = getpid();
    const struct training_job job = {
        .name = "test",
        .trainer = run->trainer,
        .folder = member->rank == 1 && run->data_of_1 ? run->data_of_1 : ".",
        .rank = member->rank,
        .world = member->world,
        .seed = 11,
        .launcher = {.ops = &ops, .ctx = &l},
        .checkpoint_folder = run->folder,
        .restore = run->restore,
        .restore_count = run->restore_count,
    };
    enum training_end end;
    struct error e = {0};
    int err = training_job_run(&job, &end, &e);
    if (err)
        local_launcher_report_failure(&l.local, err, e.text);
    return err_exit_code(err);
}

// --- the parent ----------------------------------------------------------------------------------

static void receive_message(void *ctx, int rank, const json_t *message)
{
    struct loop_run *run = ctx;
    const char *group = jget_string(message, "group", NULL);
    const char *folder = jget_string(message, "checkpoint", NULL);
    const char *failed = jget_string(message, "failed", NULL);
    const json_t *metrics = jget(message, "metrics");
    if (folder)
        snprintf(run->checkpoints[run->checkpoint_count++], sizeof run->checkpoints[0], "%s",
                 folder);
    if (failed) {
        snprintf(run->failures[rank], ERROR_TEXT_MAX, "%s", failed);
        run->codes[rank] = (int)jget_int(message, "code", 0);
    }
    if (group && strcmp(group, "validation") == 0)
        run->validation[run->validations++] = jget_double(metrics, "validation_loss", NAN);
    else if (group)
        run->losses[jget_int(message, "at", 0)] = jget_double(metrics, "loss", NAN);
    run->permanent_failure |= jget(message, "permanent_failure") != NULL;
    run->drained |= jget_bool(message, "drained", false);
}

static void train_all_ranks(struct loop_run *run)
{
    struct error e = {0};
    struct yaml_doc doc = {0};
    json_t *no_hparams = json_object();
    if (expconf_parse(run->yaml, strlen(run->yaml), "test.yaml", &doc, &e) ||
        expconf_resolve_trainer(doc.root, no_hparams, &run->trainer, &e))
        fail_msg("%s", e.text);
    run->pids = mmap(NULL, RANKS_MAX * sizeof *run->pids, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(run->pids, MAP_FAILED);
    const struct gang_spec spec = {.world = run->world,
                                   .rank = rank_trains,
                                   .message = receive_message,
                                   .ctx = run,
                                   .grace_us = 10 * SECOND};
    assert_int_equal(dir_make(run->folder, 0777, &e), 0);
    assert_int_equal(gang_run(&spec, &run->result, &e), 0);
    munmap(run->pids, RANKS_MAX * sizeof *run->pids);
    json_decref(run->trainer);
    json_decref(no_hparams);
    yaml_doc_free(&doc);
}

static void assert_well(const struct loop_run *run)
{
    for (int r = 0; r < run->world; r++)
        if (run->failures[r][0])
            fail_msg("rank %d of %d: %s", r, run->world, run->failures[r]);
    assert_int_equal(run->result.failed_rank, -1);
    assert_true(run->checkpoint_count > 0);
}

struct digests {
    char weights[SHA256_HEX], state[SHA256_HEX];
};

static void digest(const char *folder, struct digests *out)
{
    struct checkpoint *ck = NULL;
    struct error e = {0};
    if (checkpoint_open(folder, &ck, &e))
        fail_msg("%s", e.text);
    checkpoint_digests(ck, out->weights, out->state);
    checkpoint_close(ck);
}

static void digest_last(const struct loop_run *run, struct digests *out)
{
    assert_well(run);
    digest(run->checkpoints[run->checkpoint_count - 1], out);
}

static void assert_same(const struct digests *a, const struct digests *b)
{
    assert_string_equal(a->weights, b->weights);
    assert_string_equal(a->state, b->state);
}

// --- the same bits for every world size ----------------------------------------------------------

// Trains with 1 to `worlds` ranks and different bucket sizes.
static void assert_same_in_worlds(const char *yaml, int worlds)
{
    static const int sizes[] = {0, 1, 40000, 16384}; // 0: measured
    struct digests first = {0}, now;
    struct loop_run reference = {0};
    for (int world = 1; world <= worlds; world++) {
        char *whole = xasprintf("%s  verify: 5\n  fusion_bytes: %d\n", yaml, sizes[world % 4]);
        struct loop_run run = {.yaml = whole, .world = world, .folder = "worlds"};
        train_all_ranks(&run);
        digest_last(&run, &now);
        if (world == 1) {
            first = now;
            reference = run;
        }
        assert_same(&now, &first);
        assert_int_equal(run.validations, reference.validations);
        assert_memory_equal(run.validation, reference.validation, sizeof run.validation);
        assert_memory_equal(run.losses, reference.losses, sizeof run.losses);
        assert_true(run.validation[run.validations - 1] < run.validation[0]);
        free(whole);
    }
}

static void test_mlp_has_the_same_bits(void **state)
{
    (void)state;
    assert_same_in_worlds(
        TOYS_HEAD "trainer:\n"
                  "  model: {family: mlp, hidden: [160, 96], classes: 4, dropout: 0.1}\n" TOYS_IDX
                  "  global_batch_size: 32\n  micro_batch_size: 4\n  steps: 12\n" // V = 8
                  "  optimizer: {name: adamw, learning_rate: 0.003}\n"
                  "  validate_every: 6\n  checkpoint_every: 4\n  report_every: 5\n",
        8);
}

// The shares of ranks are uneven unless 12 is a multiple of their number; norms span the parts of
// several ranks.
static void test_gpt_has_the_same_bits(void **state)
{
    (void)state;
    char *yaml = xasprintf("%s  checkpoint_every: 6\n", toys_gpt);
    char *width = strstr(yaml, "width: 16");
    assert_non_null(width);
    memcpy(width, "width: 32", 9); // several cells of the optimizer
    assert_same_in_worlds(yaml, 12);
    free(yaml);
}

// With recomputation, in all worlds, they are the bits without it.
static void assert_same_when_recomputed(const char *yaml)
{
    struct digests expected, now;
    char *whole = xasprintf("%s  recompute: none\n", yaml);
    struct loop_run plain = {.yaml = whole, .world = 1, .folder = "plain"};
    train_all_ranks(&plain);
    digest_last(&plain, &expected);
    free(whole);
    for (int world = 1; world <= 3; world++) {
        whole = xasprintf("%s  recompute: blocks\n", yaml);
        struct loop_run run = {.yaml = whole, .world = world, .folder = "recomputed"};
        train_all_ranks(&run);
        digest_last(&run, &now);
        assert_same(&now, &expected);
        assert_memory_equal(run.losses, plain.losses, sizeof run.losses);
        free(whole);
    }
}

static void test_recomputed_blocks_have_the_same_bits(void **state)
{
    (void)state;
    assert_same_when_recomputed(toys_gpt);
    assert_same_when_recomputed(TOYS_HEAD
                                "trainer:\n"
                                "  model: {family: resnet, depth: 20, classes: 4}\n" TOYS_IDX
                                "  global_batch_size: 16\n  micro_batch_size: 4\n  steps: 3\n"
                                "  optimizer: {name: momentum, learning_rate: 0.01}\n");
    assert_same_when_recomputed(
        TOYS_HEAD
        "trainer:\n"
        "  model: {family: layers, context: 12, layers: [{layer: embedding, name: words, width: "
        "16}, "
        "{layer: residual, layers: [{layer: rms_norm}, {layer: linear, out: 48}, {layer: "
        "attention, heads: 2, rotary: true, dropout: 0.1}, {layer: linear, out: 16}]}, "
        "{layer: residual, layers: [{layer: rms_norm}, {layer: linear, out: 32}, {layer: silu}, "
        "{layer: linear, out: 16}, {layer: dropout, rate: 0.1}]}, {layer: rms_norm}, "
        "{layer: linear, out: 256, tied: words, bias: false}]}\n"
        "  data: {format: bytes, path: text}\n"
        "  global_batch_size: 12\n  micro_batch_size: 2\n  steps: 6\n"
        "  optimizer: {name: adamw, learning_rate: 0.01}\n");
}

static void test_batch_norm_has_the_same_bits(void **state)
{
    (void)state;
    assert_same_in_worlds(
        TOYS_HEAD
        "trainer:\n"
        "  model: {family: layers, classes: 4, layers: [{layer: conv2d, out: 8, kernel: 3, "
        "padding: "
        "1}, {layer: batch_norm}, {layer: relu}, {layer: flatten}, {layer: linear, out: 24}, "
        "{layer: relu}, {layer: linear, out: 4}]}\n" TOYS_IDX
        "  global_batch_size: 32\n  micro_batch_size: 4\n  steps: 12\n" // V = 8
        "  optimizer: {name: lamb, learning_rate: 0.01}\n  clip_norm: 0.5\n",
        5);
}

static void test_float_is_near_exact(void **state)
{
    (void)state;
    char *yaml = xasprintf("%s  reduction: float\n", toys_mlp);
    struct loop_run exact = {.yaml = toys_mlp, .world = 2, .folder = "exact"};
    struct loop_run floats = {.yaml = yaml, .world = 3, .folder = "float"};
    train_all_ranks(&exact);
    train_all_ranks(&floats);
    assert_well(&exact);
    assert_well(&floats);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(exact.validation[i] - floats.validation[i]) < 1e-4);
    free(yaml);
}

// --- interrupted trainings -----------------------------------------------------------------------

static void train_undisturbed(struct loop_run *run, struct digests *digests)
{
    *run = (struct loop_run){.yaml = toys_mlp, .world = 1, .folder = "undisturbed"};
    train_all_ranks(run);
    digest_last(run, digests);
}

static void test_drain_and_go_on_with_other_ranks(void **state)
{
    (void)state;
    struct loop_run whole,
        first = {.yaml = toys_mlp, .world = 3, .folder = "drained", .drain_at = 7};
    struct digests expected, got;
    train_undisturbed(&whole, &expected);
    train_all_ranks(&first);
    assert_well(&first);
    assert_true(first.drained);
    assert_string_equal(first.checkpoints[first.checkpoint_count - 1], "drained/step-00000007");
    struct loop_run second = {
        .yaml = toys_mlp, .world = 5, .folder = "drained", .restore_count = 1};
    second.restore[0] = first.checkpoints[first.checkpoint_count - 1];
    train_all_ranks(&second);
    digest_last(&second, &got);
    assert_false(second.drained);
    assert_same(&got, &expected);
    // a report window that began before the drain
    assert_true(second.losses[10] == whole.losses[10]);
    assert_true(second.losses[12] == whole.losses[12]);
    assert_int_equal(second.validations, 1); // after step 12; steps 0 and 6 came before
}

static void test_killed_rank_then_other_size(void **state)
{
    (void)state;
    struct loop_run whole, first = {.yaml = toys_mlp, .world = 3, .folder = "killed", .kill_at = 6};
    struct digests expected, got;
    train_undisturbed(&whole, &expected);
    int64_t begin = clock_mono_us();
    train_all_ranks(&first);
    assert_true(clock_mono_us() - begin < 8 * SECOND);
    assert_int_equal(first.result.failed_rank, 1);
    assert_int_equal(first.codes[0], ERR_PEER);
    assert_int_equal(first.codes[2], ERR_PEER);
    assert_non_null(strstr(first.failures[0], "rank 1 died"));
    assert_false(first.permanent_failure);
    assert_int_equal(first.checkpoint_count, 1);
    struct loop_run second = {.yaml = toys_mlp, .world = 2, .folder = "killed", .restore_count = 1};
    second.restore[0] = first.checkpoints[0];
    train_all_ranks(&second);
    digest_last(&second, &got);
    assert_same(&got, &expected);
}

// --- FP8 -----------------------------------------------------------------------------------------

// A micro-batch has 8 x 16 rows, so all linear layers but the head multiply in FP8. V = 5.
// A high learning rate moves the exponents from step to step.
#define FP8_GPT(precision, rate)                                                                   \
    TOYS_HEAD "trainer:\n"                                                                         \
              "  data: {format: bytes, path: text}\n"                                              \
              "  model: {family: gpt, layers: 2, heads: 2, width: 32, context: 16}\n"              \
              "  global_batch_size: 40\n  micro_batch_size: 8\n  steps: 12\n"                      \
              "  optimizer: {name: adamw, learning_rate: " rate "}\n"                              \
              "  checkpoint_every: 4\n  report_every: 1\n"                                         \
              "  precision: " precision "\n"

static void test_fp8_has_the_same_bits(void **state)
{
    (void)state;
    assert_same_in_worlds(FP8_GPT("fp8", "0.03"), 3);
}

// Also if blocks run forward twice: the second run quantises to the same codes.
static void test_fp8_has_the_same_bits_when_recomputed(void **state)
{
    (void)state;
    assert_same_when_recomputed(FP8_GPT("fp8", "0.03"));
}

// Micro-batches in lockstep, each in a replica of the model, use the same scales and weights.
static void test_fp8_in_lockstep_has_the_same_bits(void **state)
{
    (void)state;
    assert_same_in_worlds(
        TOYS_HEAD
        "trainer:\n"
        "  model: {family: layers, classes: 4, layers: [{layer: flatten}, {layer: linear, "
        "out: 48}, {layer: batch_norm, sync: true}, {layer: relu}, {layer: linear, out: "
        "4}]}\n" TOYS_IDX "  global_batch_size: 64\n  micro_batch_size: 16\n  steps: 12\n" // V = 4
        "  optimizer: {name: adamw, learning_rate: 0.01}\n  precision: fp8\n",
        3);
}

// The exponents of quantised tensors are part of a checkpoint, also with sums of floats.
static void test_fp8_goes_on_after_a_death(void **state)
{
    (void)state;
    static const char *const yamls[] = {FP8_GPT("fp8", "0.03"),
                                        FP8_GPT("fp8\n  reduction: float", "0.03")};
    for (int i = 0; i < 2; i++) {
        // Float sums have the same bits in worlds of the same size only.
        const int worlds[] = {2, 2, i ? 2 : 3};
        struct loop_run whole = {.yaml = yamls[i], .world = worlds[0], .folder = "fp8-whole"};
        struct loop_run first = {
            .yaml = yamls[i], .world = worlds[1], .folder = "fp8-killed", .kill_at = 6};
        struct loop_run second = {
            .yaml = yamls[i], .world = worlds[2], .folder = "fp8-killed", .restore_count = 1};
        struct digests expected, got;
        train_all_ranks(&whole);
        digest_last(&whole, &expected);
        train_all_ranks(&first);
        assert_int_equal(first.result.failed_rank, 1);
        assert_int_equal(first.checkpoint_count, 1);
        second.restore[0] = first.checkpoints[0];
        train_all_ranks(&second);
        digest_last(&second, &got);
        assert_same(&got, &expected);
        assert_true(second.losses[12] == whole.losses[12]);
    }
}

// A training may change its precision at a checkpoint, in both directions.
static void test_fp8_goes_on_from_another_precision(void **state)
{
    (void)state;
    static const char *const yamls[] = {FP8_GPT("float32", "0.03"), FP8_GPT("fp8", "0.03")};
    for (int i = 0; i < 2; i++) {
        struct loop_run first = {.yaml = yamls[i], .world = 1, .folder = "before", .drain_at = 4};
        struct loop_run second = {
            .yaml = yamls[!i], .world = 2, .folder = "after", .restore_count = 1};
        struct loop_run third = second;
        struct digests two, three;
        train_all_ranks(&first);
        assert_true(first.drained);
        second.restore[0] = third.restore[0] = first.checkpoints[first.checkpoint_count - 1];
        train_all_ranks(&second);
        digest_last(&second, &two);
        third.world = 3;
        train_all_ranks(&third);
        digest_last(&third, &three);
        assert_same(&three, &two);
    }
}

static void test_fp8_is_near_float32(void **state)
{
    (void)state;
    struct loop_run exact = {.yaml = FP8_GPT("float32", "0.01"), .world = 1, .folder = "float32"};
    struct loop_run fp8 = {.yaml = FP8_GPT("fp8", "0.01"), .world = 1, .folder = "fp8"};
    train_all_ranks(&exact);
    train_all_ranks(&fp8);
    assert_well(&exact);
    assert_well(&fp8);
    assert_true(exact.losses[12] < 0.8 * exact.losses[1]);
    for (int step = 1; step <= STEPS; step++) {
        double apart = fabs(fp8.losses[step] - exact.losses[step]);
        if (!(apart > 0 && apart < 0.03))
            fail_msg("step %d: loss %.6f in fp8, %.6f in float32", step, fp8.losses[step],
                     exact.losses[step]);
    }
}

// --- a batch size that scales with the slots -----------------------------------------------------

#define SCALED(batches, optimizer)                                                                 \
    TOYS_HEAD "trainer:\n"                                                                         \
              "  model: {family: mlp, hidden: [24], classes: 4}\n" TOYS_IDX                        \
              "  micro_batch_size: 4\n  steps: 12\n  checkpoint_every: 4\n" batches                \
              "  optimizer: {name: momentum, learning_rate: 0.01" optimizer                        \
              "}\n  schedule: {name: constant, warmup_steps: 4}\n"

static void test_batch_and_rate_scale_with_slots(void **state)
{
    (void)state;
    static const char yaml[] = SCALED("  global_batch_size: 16\n  scale_with_slots: true\n", "");
    struct loop_run whole = {.yaml = SCALED("  global_batch_size: 32\n", ", base_batch_size: 16"),
                             .world = 1,
                             .folder = "explicit"};
    struct loop_run two = {.yaml = yaml, .world = 2, .folder = "two"};
    struct loop_run first = {.yaml = yaml, .world = 2, .folder = "scaled", .drain_at = 7};
    struct loop_run second = {.yaml = yaml, .world = 3, .folder = "scaled", .restore_count = 1};
    struct loop_run three = {.yaml = yaml, .world = 3, .folder = "three"};
    struct digests expected, got;
    train_all_ranks(&whole);
    digest_last(&whole, &expected);
    train_all_ranks(&two);
    digest_last(&two, &got);
    assert_same(&got, &expected);
    train_all_ranks(&first);
    assert_true(first.drained);
    second.restore[0] = first.checkpoints[first.checkpoint_count - 1];
    train_all_ranks(&second);
    digest_last(&second, &got);
    assert_same(&got, &expected);
    train_all_ranks(&three);
    digest_last(&three, &got);
    assert_string_not_equal(got.weights, expected.weights);
}

// --- a micro-batch size that is chosen -----------------------------------------------------------

// toys_gpt with micro-batches of `size` samples, a digit.
static char *gpt_with_micro_batch(char size)
{
    static const char key[] = "micro_batch_size: ";
    char *yaml = xasprintf("%s  checkpoint_every: 4\n", toys_gpt), *at = strstr(yaml, key);
    assert_non_null(at);
    at[strlen(key)] = size;
    return yaml;
}

// Of 24 samples, 3 make 8 micro-batches.
static void test_micro_batch_is_chosen(void **state)
{
    (void)state;
    char *given = gpt_with_micro_batch('3'), *open = gpt_with_micro_batch('0');
    struct digests expected, now;
    struct loop_run first = {.yaml = given, .world = 1, .folder = "given"};
    train_all_ranks(&first);
    digest_last(&first, &expected);
    for (int world = 1; world <= 3; world++) {
        struct loop_run run = {.yaml = open, .world = world, .folder = "chosen"};
        train_all_ranks(&run);
        digest_last(&run, &now);
        assert_same(&now, &expected);
    }
    free(open);
    free(given);
}

static void test_recorded_micro_batch_stays(void **state)
{
    (void)state;
    char *given = gpt_with_micro_batch('2'), *open = gpt_with_micro_batch('0');
    struct digests expected, now;
    struct loop_run whole = {.yaml = given, .world = 1, .folder = "whole"};
    struct loop_run first = {.yaml = given, .world = 2, .folder = "parts", .drain_at = 7};
    struct loop_run second = {.yaml = open, .world = 3, .folder = "parts", .restore_count = 1};
    train_all_ranks(&whole);
    digest_last(&whole, &expected);
    train_all_ranks(&first);
    assert_true(first.drained);
    second.restore[0] = first.checkpoints[first.checkpoint_count - 1];
    train_all_ranks(&second);
    digest_last(&second, &now);
    assert_same(&now, &expected);
    free(open);
    free(given);
}

static void change_manifest(const char *folder, int64_t global, int64_t micro)
{
    char *path = path_join(folder, "manifest.json");
    json_t *manifest = json_load_file(path, 0, NULL);
    assert_non_null(manifest);
    json_object_set_new(manifest, "global_batch_size", json_integer(global));
    json_object_set_new(manifest, "micro_batch_size", json_integer(micro));
    assert_int_equal(json_dump_file(manifest, path, 0), 0);
    json_decref(manifest);
    free(path);
}

// A checkpoint may come from anybody.
static void test_recorded_sizes_out_of_range(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{INT64_C(1) << 62, INT64_C(1) << 62},
                                       {INT64_C(1) << 40, INT64_C(1) << 40},
                                       {INT64_C(1) << 62, 0},
                                       {1 << 20, 1}};
    char *open = gpt_with_micro_batch('0'), *yaml = xasprintf("%s  scale_with_slots: true\n", open);
    struct loop_run first = {.yaml = yaml, .world = 1, .folder = "range", .drain_at = 4};
    train_all_ranks(&first);
    assert_true(first.drained);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct loop_run run = {.yaml = yaml, .world = 1, .folder = "again", .restore_count = 1};
        run.restore[0] = first.checkpoints[first.checkpoint_count - 1];
        change_manifest(run.restore[0], sizes[i][0], sizes[i][1]);
        train_all_ranks(&run);
        assert_true(run.permanent_failure);
        assert_non_null(strstr(run.failures[0], "batch_size"));
    }
    free(yaml);
    free(open);
}

// The others wait for its choice, and name it.
static void test_rank_that_cannot_choose(void **state)
{
    (void)state;
    char *open = gpt_with_micro_batch('0');
    struct loop_run run = {.yaml = open, .world = 3, .folder = "lost", .data_of_1 = "nowhere"};
    train_all_ranks(&run);
    assert_true(run.permanent_failure);
    assert_non_null(strstr(run.failures[1], "nowhere"));
    if (run.failures[0][0])
        assert_non_null(strstr(run.failures[0], "rank 1 cannot start training"));
    free(open);
}

// --- unusable checkpoints ------------------------------------------------------------------------

static void damage_checkpoint(const char *folder)
{
    char *path = path_join(folder, "optimizer.safetensors"), *data;
    size_t len;
    assert_int_equal(file_read(path, 1 << 24, &data, &len, NULL), 0);
    data[len - 5] ^= 16;
    assert_int_equal(file_write_durable(path, data, len, 0666, NULL), 0);
    free(data);
    free(path);
}

static void test_damaged_checkpoint_falls_back_or_is_refused(void **state)
{
    (void)state;
    struct loop_run whole;
    struct digests expected, got;
    train_undisturbed(&whole, &expected);
    assert_int_equal(whole.checkpoint_count, 3); // steps 4, 8 and 12
    damage_checkpoint(whole.checkpoints[1]);
    struct loop_run second = {.yaml = toys_mlp, .world = 2, .folder = "again", .restore_count = 2};
    second.restore[0] = whole.checkpoints[1];
    second.restore[1] = whole.checkpoints[0];
    train_all_ranks(&second);
    digest_last(&second, &got);
    assert_same(&got, &expected);
    assert_string_equal(second.checkpoints[0], "again/step-00000008"); // trained again from step 4

    struct loop_run third = {.yaml = toys_mlp, .world = 2, .folder = "again", .restore_count = 1};
    third.restore[0] = whole.checkpoints[1];
    train_all_ranks(&third);
    assert_int_equal(third.codes[0], ERR_CORRUPT);
    assert_non_null(strstr(third.failures[0], "optimizer.safetensors"));
    assert_true(third.permanent_failure);
    assert_int_equal(third.codes[1], ERR_PEER);
}

static void test_checkpoint_of_another_model_is_refused(void **state)
{
    (void)state;
    struct loop_run whole,
        other = {.yaml = toys_gpt, .world = 1, .folder = "other", .restore_count = 1};
    struct digests digests;
    train_undisturbed(&whole, &digests);
    other.restore[0] = whole.checkpoints[0];
    train_all_ranks(&other);
    assert_int_equal(other.codes[0], ERR_INVALID);
    assert_non_null(strstr(other.failures[0], "another model"));
}

// --- permanent failures --------------------------------------------------------------------------

static void assert_fails_permanently(const char *yaml, int code, const char *text)
{
    struct loop_run run = {.yaml = yaml, .world = 3, .folder = "bad"};
    train_all_ranks(&run);
    assert_true(run.permanent_failure);
    int named = 0;
    for (int r = 0; r < 3; r++) {
        assert_true(run.codes[r] == code || run.codes[r] == ERR_PEER);
        named += run.codes[r] == code && strstr(run.failures[r], text);
    }
    if (!named)
        fail_msg("rank 0 said \"%s\"", run.failures[0]);
}

static void test_training_that_blows_up_names_the_tensor(void **state)
{
    (void)state;
    assert_fails_permanently(TOYS_HEAD
                             "trainer:\n"
                             "  model: {family: mlp, hidden: [8], classes: 4}\n" TOYS_IDX
                             "  global_batch_size: 32\n  micro_batch_size: 4\n  steps: 12\n"
                             "  optimizer: {name: sgd, learning_rate: 1.0e+6, weight_decay: 0.9}\n",
                             ERR_CORRUPT, "gradient");
}

static void test_model_without_products_for_fp8_is_refused(void **state)
{
    (void)state;
    char *yaml = xasprintf("%s  precision: fp8\n", toys_mlp);
    assert_fails_permanently(yaml, ERR_INVALID, "no product of this model can be computed in fp8");
    free(yaml);
}

static void test_missing_data_is_named(void **state)
{
    (void)state;
    assert_fails_permanently(TOYS_HEAD
                             "trainer:\n"
                             "  model: {family: gpt, layers: 1, heads: 2, width: 16, context: 12}\n"
                             "  data: {format: bytes, path: nowhere.txt}\n"
                             "  global_batch_size: 4\n  micro_batch_size: 2\n  steps: 12\n"
                             "  optimizer: {name: sgd, learning_rate: 0.1}\n",
                             ERR_NOT_FOUND, "nowhere.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp_has_the_same_bits),
        cmocka_unit_test(test_gpt_has_the_same_bits),
        cmocka_unit_test(test_recomputed_blocks_have_the_same_bits),
        cmocka_unit_test(test_batch_norm_has_the_same_bits),
        cmocka_unit_test(test_float_is_near_exact),
        cmocka_unit_test(test_drain_and_go_on_with_other_ranks),
        cmocka_unit_test(test_killed_rank_then_other_size),
        cmocka_unit_test(test_fp8_has_the_same_bits),
        cmocka_unit_test(test_fp8_has_the_same_bits_when_recomputed),
        cmocka_unit_test(test_fp8_in_lockstep_has_the_same_bits),
        cmocka_unit_test(test_fp8_goes_on_after_a_death),
        cmocka_unit_test(test_fp8_goes_on_from_another_precision),
        cmocka_unit_test(test_fp8_is_near_float32),
        cmocka_unit_test(test_batch_and_rate_scale_with_slots),
        cmocka_unit_test(test_micro_batch_is_chosen),
        cmocka_unit_test(test_recorded_micro_batch_stays),
        cmocka_unit_test(test_recorded_sizes_out_of_range),
        cmocka_unit_test(test_rank_that_cannot_choose),
        cmocka_unit_test(test_damaged_checkpoint_falls_back_or_is_refused),
        cmocka_unit_test(test_checkpoint_of_another_model_is_refused),
        cmocka_unit_test(test_training_that_blows_up_names_the_tensor),
        cmocka_unit_test(test_model_without_products_for_fp8_is_refused),
        cmocka_unit_test(test_missing_data_is_named),
    };
    return cmocka_run_group_tests(tests, toys_make, NULL);
}
