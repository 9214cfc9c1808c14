// The checks between fields of the trainer section.
#include <string.h>

#include "api/expconf_parts.h"
#include "base/json.h"
#include "base/limits.h"

static int check_batches(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    long long global = jget_int(trainer, "global_batch_size", 0);
    long long micro = jget_int(trainer, "micro_batch_size", 0);
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

static int check_model(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    const json_t *model = jget(trainer, "model");
    const char *family = jget_string(model, "family", "");
    const char *format = jget_string(jget(trainer, "data"), "format", "");
    bool tokens = !strcmp(family, "gpt");
    if (tokens != !strcmp(format, "bytes"))
        return expconf_fault(doc, "trainer.data.format", e, "model %s learns from %s, not from %s",
                             family, tokens ? "bytes" : "idx", format);
    if (!strcmp(family, "mlp") && !json_array_size(jget(model, "hidden")))
        return expconf_fault(doc, "trainer.model.hidden", e,
                             "is empty; give the width of at least one layer");
    if (json_array_size(jget(model, "hidden")) > LIMIT_LAYERS)
        return expconf_fault(doc, "trainer.model.hidden", e, "at most %d layers", LIMIT_LAYERS);
    if (!tokens)
        return 0;
    long long width = jget_int(model, "width", 0), heads = jget_int(model, "heads", 1);
    if (width % heads)
        return expconf_fault(doc, "trainer.model.heads", e, "%lld does not divide width %lld",
                             heads, width);
    return 0;
}

static int check_data(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    const json_t *data = jget(trainer, "data");
    if (!strcmp(jget_string(data, "format", ""), "bytes")) {
        double fraction = jget_double(data, "validation_fraction", 0);
        if (!jget(data, "validation_path") && !(fraction > 0 && fraction < 1))
            return expconf_fault(doc, "trainer.data.validation_fraction", e,
                                 "must lie between 0 and 1, both excluded, unless there is a "
                                 "validation_path");
        return 0;
    }
    bool images = jget(data, "validation_images"), labels = jget(data, "validation_labels");
    if (images != labels)
        return expconf_fault(
            doc, images ? "trainer.data.validation_images" : "trainer.data.validation_labels", e,
            "stands alone; validation needs images and labels");
    if (images && jget_int(data, "validation_count", 0))
        return expconf_fault(doc, "trainer.data.validation_count", e,
                             "is for data without validation files; leave it out");
    return 0;
}

static int check_schedule(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    const json_t *schedule = jget(trainer, "schedule");
    long long steps = jget_int(trainer, "steps", 0);
    if (jget_int(schedule, "warmup_steps", 0) > steps)
        return expconf_fault(doc, "trainer.schedule.warmup_steps", e,
                             "warm-up is longer than training (%lld steps)", steps);
    double rate = jget_double(jget(trainer, "optimizer"), "learning_rate", 0);
    if (jget_double(schedule, "min_learning_rate", 0) > rate)
        return expconf_fault(doc, "trainer.schedule.min_learning_rate", e,
                             "is greater than learning_rate %g", rate);
    return 0;
}

int expconf_check_trainer(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    int rc = check_batches(doc, trainer, e);
    if (!rc)
        rc = check_model(doc, trainer, e);
    if (!rc)
        rc = check_data(doc, trainer, e);
    if (!rc)
        rc = check_schedule(doc, trainer, e);
    return rc;
}
