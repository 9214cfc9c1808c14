// Takes a checkpoint between two steps: collects the state, chooses the folder and hands both to
// the snapshot writer. Compute thread; collective.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "trainer/loop/training.h"

static int choose_target(const struct training *t, bool due, struct snapshot_info *info,
                         char **folder, struct error *e)
{
    const struct training_job *job = t->job;
    *info = (struct snapshot_info){
        .step = t->state.position.step, .best = training_at_best(t), .only_best = !due};
    int err = 0;
    if (job->storage) {
        uuid_make(info->id);
        err = checkpoint_folder(job->storage, info->id, folder, e);
    } else {
        snprintf(info->id, sizeof info->id, "step-%08lld", (long long)info->step);
        *folder = path_join(job->checkpoint_folder, info->id);
        err = dir_remove_tree(*folder, e); // left by an earlier run
    }
    info->folder = *folder;
    return err;
}

// The entries of the manifest besides the state itself.
static json_t *make_metadata(const struct training *t, const struct snapshot_info *info)
{
    char time[CLOCK_RFC3339_MAX];
    const json_t *trainer = t->job->trainer;
    json_t *schedule = json_deep_copy(jget(trainer, "schedule"));
    must(schedule); // the section holds all defaults
    json_object_set_new(schedule, "step", json_integer(t->state.position.step));
    json_object_set_new(schedule, "steps", json_integer(t->plan.steps));
    json_t *validated = t->validated_step == t->state.position.step ? t->validation_metrics : NULL;
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:O, s:O, s:o, s:O, s:I, s:I, s:O*}", "uuid",
                     info->id, "experiment", t->job->name, "fingerprint", t->fingerprint, "time",
                     clock_format(clock_wall_us(), time), "world_size", t->job->world, "model",
                     jget(trainer, "model"), "optimizer", jget(trainer, "optimizer"), "schedule",
                     schedule, "reduction", jget(trainer, "reduction"), "global_batch_size",
                     (json_int_t)t->plan.global_batch, "micro_batch_size",
                     (json_int_t)t->plan.micro_batch, "validation", validated);
}

int training_checkpoint(struct training *t, bool due, struct error *e)
{
    struct train_state *state = &t->state;
    if (t->last_saved_step == state->position.step || t->job->only_steps)
        return 0;
    t->last_saved_step = state->position.step;
    int err = 0;
    for (int i = 0; i < optimizer_state_count(t->optimizer) && !err; i++)
        err = reducer_collect(t->reducer, optimizer_state(t->optimizer, i), e);
    if (!err)
        err = comm_synchronize(t->comm, e); // wait until the collected parts are here
    if (err || t->job->rank > 0)
        return err;
    const int32_t *exponents = reducer_exponents(t->reducer);
    state->position.exponents_known = exponents != NULL;
    if (exponents)
        memcpy(state->exponents, exponents, (size_t)state->parameter_count * sizeof *exponents);
    const int32_t *quantised = reducer_quantised_exponents(t->reducer);
    state->position.quantised_known = quantised != NULL;
    if (quantised)
        memcpy(state->quantised_exponents, quantised,
               (size_t)state->quantised_count * sizeof *quantised);
    struct snapshot_info info;
    char *folder = NULL;
    err = choose_target(t, due, &info, &folder, e);
    if (!err) {
        json_t *metadata = make_metadata(t, &info);
        err = snapshot_writer_save(t->snapshot_writer, state, &info, metadata, e);
        json_decref(metadata);
    }
    free(folder);
    return err;
}
