// The keys of trainer.optimizer and trainer.schedule and the checks between them.
#include "api/config/expconf_parts.h"
#include "api/config/expconf_rows.h"
#include "base/limits.h"
#include "base/text/json.h"

#define LEARNING_RATE                                                                              \
    NUMBER_REQUIRED("learning_rate", 0, 1e6, "learning rate after warm-up"),                       \
        INT("base_batch_size", 0, BIG, "0",                                                        \
            "global batch size for which learning_rate is chosen: learning_rate is multiplied by " \
            "global_batch_size / base_batch_size, and warm-up starts from it (Goyal et al. "       \
            "2017); 0: not scaled")
#define WEIGHT_DECAY(def)                                                                          \
    NUMBER("weight_decay", 0, 1e6, def, "weight decay of matrices and filters")
#define MOMENTUM                                                                                   \
    NUMBER("momentum", 0, 0.999999, "0.9", "share of the previous update that is added")
#define MOMENTS                                                                                    \
    NUMBER("beta1", 0, 0.999999, "0.9", "decay of the first moment"),                              \
        NUMBER("beta2", 0, 0.999999, "0.999", "decay of the second moment")
#define EPSILON(def) NUMBER("epsilon", 1e-30, 1, def, "added to the root of the second moment")

// clang-format off
static const struct schema_field sgd_fields[] = {LEARNING_RATE, WEIGHT_DECAY("0"), END};
static const struct schema_field momentum_fields[] = {
    LEARNING_RATE,
    MOMENTUM,
    BOOL("nesterov", "false", "whether to use Nesterov's momentum, like the optimizer nesterov"),
    WEIGHT_DECAY("0"),
    END,
};
static const struct schema_field nesterov_fields[] = {
    LEARNING_RATE, MOMENTUM, WEIGHT_DECAY("0"), END};
static const struct schema_field lars_fields[] = {
    LEARNING_RATE,
    MOMENTUM,
    NUMBER("trust_coefficient", 1e-9, 1e6, "0.001",
           "factor of the learning rate of each matrix or filter, together with |weights| / (|gradient| + weight_decay |weights|)"),
    WEIGHT_DECAY("0.0005"),
    END,
};
static const struct schema_field adam_fields[] = {
    LEARNING_RATE, MOMENTS, EPSILON("1e-8"), WEIGHT_DECAY("0"), END};
static const struct schema_field adamw_fields[] = {
    LEARNING_RATE, MOMENTS, EPSILON("1e-8"), WEIGHT_DECAY("0.01"), END};
static const struct schema_field lamb_fields[] = {
    LEARNING_RATE, MOMENTS, EPSILON("1e-6"), WEIGHT_DECAY("0.01"), END};
// clang-format on
const struct schema_variant expconf_optimizers[] = {
    {"sgd", sgd_fields, "stochastic gradient descent"},
    {"momentum", momentum_fields, "gradient descent with momentum"},
    {"nesterov", nesterov_fields, "gradient descent with Nesterov's momentum"},
    {"lars", lars_fields,
     "momentum with a learning rate for each tensor, for large batches (You et al. 2017)"},
    {"adam", adam_fields, "Adam; weight decay is part of the gradient (Kingma & Ba 2015)"},
    {"adamw", adamw_fields, "Adam with decoupled weight decay (Loshchilov & Hutter 2019)"},
    {"lamb", lamb_fields,
     "Adam with a learning rate for each tensor, for large batches (You et al. 2019)"},
    {NULL, NULL, NULL},
};

#define WARMUP INT("warmup_steps", 0, BIG, "0", "steps of linear warm-up")
#define MIN_LEARNING_RATE                                                                          \
    NUMBER("min_learning_rate", 0, 1e6, "0", "learning rate at the end of training")
static const struct schema_field milestone = {
    .name = "step", .type = SCHEMA_INT, .min = 1, .max = BIG};
static const struct schema_field constant_fields[] = {WARMUP, END};
static const struct schema_field step_fields[] = {
    WARMUP,
    {.name = "milestones",
     .type = SCHEMA_LIST,
     .element = &milestone,
     .required = true,
     .doc = "increasing steps; at each the learning rate is multiplied by factor"},
    NUMBER("factor", 0, 1e6, "0.1", "factor of the learning rate at each milestone"),
    END,
};
static const struct schema_field cosine_fields[] = {WARMUP, MIN_LEARNING_RATE, END};
static const struct schema_field polynomial_fields[] = {
    WARMUP,
    NUMBER("power", 1e-3, 1e3, "1", "exponent of the remaining share of training; 1: linear"),
    MIN_LEARNING_RATE,
    END,
};
const struct schema_variant expconf_schedules[] = {
    {"constant", constant_fields, "a constant learning rate"},
    {"step", step_fields, "a learning rate that falls at milestones"},
    {"cosine", cosine_fields, "half a cosine, down to min_learning_rate"},
    {"warmup_cosine", cosine_fields, "another name of cosine"},
    {"polynomial", polynomial_fields,
     "a power of the remaining share of training, down to min_learning_rate"},
    {NULL, NULL, NULL},
};

static int check_milestones(const struct yaml_doc *doc, const json_t *schedule, struct error *e)
{
    const json_t *list = jget(schedule, "milestones"), *one;
    const char *path = "trainer.schedule.milestones";
    json_int_t before = 0;
    size_t i;
    if (json_array_size(list) > LIMIT_MILESTONES)
        return expconf_fault(doc, path, e, "at most %d steps", LIMIT_MILESTONES);
    json_array_foreach(list, i, one)
    {
        if (json_integer_value(one) <= before)
            return expconf_fault(doc, path, e,
                                 "%lld does not come after %lld; the steps must increase",
                                 (long long)json_integer_value(one), (long long)before);
        before = json_integer_value(one);
    }
    return 0;
}

// The learning rate after the scaling that the trainer applies.
static double learning_rate_of(const json_t *trainer)
{
    const json_t *optimizer = jget(trainer, "optimizer");
    double rate = jget_double(optimizer, "learning_rate", 0);
    long long base = jget_int(optimizer, "base_batch_size", 0);
    return base ? rate * (double)jget_int(trainer, "global_batch_size", 0) / (double)base : rate;
}

int expconf_check_schedule(const struct yaml_doc *doc, const json_t *trainer, struct error *e)
{
    const json_t *schedule = jget(trainer, "schedule");
    long long steps = jget_int(trainer, "steps", 0);
    if (jget_int(schedule, "warmup_steps", 0) > steps)
        return expconf_fault(doc, "trainer.schedule.warmup_steps", e,
                             "warm-up is longer than training (%lld steps)", steps);
    double rate = learning_rate_of(trainer);
    if (jget_double(schedule, "min_learning_rate", 0) > rate)
        return expconf_fault(doc, "trainer.schedule.min_learning_rate", e,
                             "is greater than learning_rate %g", rate);
    return check_milestones(doc, schedule, e);
}
