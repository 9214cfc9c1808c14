// The keys of the trainer section and the checks between them; its larger parts have their own
// files.
#include <string.h>

#include "api/config/expconf_parts.h"
#include "api/config/expconf_rows.h"
#include "base/limits.h"
#include "base/text/json.h"

static const char *const reductions[] = {"exact", "float", NULL};
static const char *const recompute_words[] = {"none", "blocks", "auto", NULL};
static const char *const precisions[] = {"auto", "float32", "tf32", "bf16", "fp8", NULL};

const struct schema_field expconf_trainer_keys[] = {
    {.name = "model",
     .type = SCHEMA_UNION,
     .tag = "family",
     .tag_fallback = "layers",
     .variants = expconf_models,
     .required = true,
     .doc = "the model to train"},
    UNION("data", "format", expconf_data_formats, "the data to train on"),
    {.name = "loss",
     .type = SCHEMA_UNION,
     .tag = "name",
     .variants = expconf_losses,
     .doc = "the function that training minimizes; unset: cross_entropy, or mse if the data has "
            "values"},
    INT_REQUIRED("global_batch_size", 1, BIG, "samples of one optimizer step, on all slots"),
    BOOL("scale_with_slots", "false",
         "whether global_batch_size is the batch of one slot: it is multiplied by the number of "
         "slots at the start of the training, and so is learning_rate unless base_batch_size is "
         "set (Goyal et al. 2017). Both stay the same when the training continues on other slots"),
    INT("micro_batch_size", 0, LIMIT_MICRO_BATCH, "0",
        "samples that go through the network together; 0: chosen when the training starts, as "
        "large as is useful and as memory permits. Checkpoints record it, because the bits of the "
        "weights depend on it"),
    WORD("recompute", recompute_words, "\"auto\"",
         "none: the results of all layers are kept for the backward pass; blocks: only those "
         "between residual blocks (of a transformer: between its blocks), and the rest is computed "
         "a second time, which takes less memory and about a third more time; auto: blocks, if "
         "memory would not suffice otherwise. The bits are the same"),
    INT_REQUIRED("steps", 1, BIG, "optimizer steps"),
    UNION("optimizer", "name", expconf_optimizers, "the optimizer"),
    {.name = "schedule",
     .type = SCHEMA_UNION,
     .tag = "name",
     .variants = expconf_schedules,
     .fallback = "{\"name\":\"constant\"}",
     .doc = "learning rate over the steps"},
    NUMBER("clip_norm", 0, 1e9, "0", "largest norm of the whole gradient; 0: no clipping"),
    WORD("reduction", reductions, "\"exact\"",
         "exact: the same bits on any number of slots; float: ordinary sums"),
    WORD("precision", precisions, "\"auto\"",
         "precision of multiplications (sums and weights are always float32); auto: bf16 on GPU "
         "slots, float32 on CPU slots. fp8: as auto, but training quantises the products of linear "
         "layers, except the last, to 8 bits, on GPUs of compute capability 8.9 or newer (Hopper); "
         "CPU slots emulate it. CPU slots know float32 and fp8 only"),
    INT("fusion_bytes", 0, 1 << 30, "0",
        "size in bytes of a bucket, whose gradients are reduced in one operation; 0: measured at "
        "the start"),
    BOOL(
        "encrypt_network", "false",
        "whether slots on different machines encrypt what they send each other (TLS 1.3). The "
        "result has the same bits; communication takes longer. Only for CPU slots: NCCL, which GPU "
        "slots use, cannot encrypt, so a training on GPUs of several machines ends with an error"),
    INT("verify", 0, BIG, "0",
        "steps between exact comparisons of the weights of all slots; 0: never"),
    INT("validate_every", 0, BIG, "0",
        "steps between validations; 0: only before the first and after the last"),
    INT("checkpoint_every", 0, BIG, "0", "steps between checkpoints; 0: only at the end"),
    BOOL("checkpoint_best", "true",
         "whether to write a checkpoint after each validation that is the best so far (by "
         "searcher.metric)"),
    INT("patience", 0, BIG, "0",
        "number of validations without an improvement of searcher.metric after which training "
        "ends; 0: never"),
    NUMBER("min_delta", 0, 1e300, "0",
           "smallest change of searcher.metric that counts as an improvement"),
    INT("report_every", 1, BIG, "10", "steps between training reports"),
    END,
};

const struct schema_field expconf_trainer_fields[] = {
    OBJECT("trainer", expconf_trainer_keys, NULL, "the native trainer, used instead of entrypoint"),
    END,
};

static int check_batches(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    long long global = jget_int(trainer, "global_batch_size", 0);
    long long micro = jget_int(trainer, "micro_batch_size", 0);
    if (micro == 0)
        return 0;
    if (global % micro)
        return expconf_fault(doc, "trainer.micro_batch_size", e,
                             "%lld does not divide global_batch_size %lld", micro, global);
    if (global / micro > LIMIT_MICRO_BATCHES)
        return expconf_fault(doc, "trainer.micro_batch_size", e,
                             "%lld makes %lld micro-batches per step; at most %d. Use a larger "
                             "micro_batch_size",
                             micro, global / micro, LIMIT_MICRO_BATCHES);
    return 0;
}

static int check_patience(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    if (jget_int(trainer, "patience", 0) && !jget_int(trainer, "validate_every", 0))
        return expconf_fault(
            doc, "trainer.patience", e,
            "counts validations, but there are none before the last step; set validate_every");
    return 0;
}

int expconf_check_trainer(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    int rc = check_batches(doc, trainer, e);
    if (!rc)
        rc = check_patience(doc, trainer, e);
    if (!rc)
        rc = expconf_check_model(doc, trainer, e);
    if (!rc)
        rc = expconf_check_data(doc, trainer, e);
    if (!rc)
        rc = expconf_check_schedule(doc, trainer, e);
    return rc;
}
