#include "trainer/optim/schedule.h"

#include <math.h>
#include <string.h>

#include "base/text/json.h"

// The share of training after warm-up that is done, from 0 to 1.
static double share_done(const struct schedule *s, int64_t step)
{
    if (step >= s->steps)
        return 1;
    return (double)(step - s->warmup_steps) / (double)(s->steps - s->warmup_steps);
}

static double above_min(const struct schedule *s, double share)
{
    return s->min_learning_rate + share * (s->learning_rate - s->min_learning_rate);
}

static double constant_rate(const struct schedule *s, int64_t step)
{
    (void)step;
    return s->learning_rate;
}

static double step_rate(const struct schedule *s, int64_t step)
{
    double rate = s->learning_rate;
    for (int i = 0; i < s->milestone_count && s->milestones[i] <= step; i++)
        rate *= s->factor;
    return rate;
}

static double cosine_rate(const struct schedule *s, int64_t step)
{
    return above_min(s, 0.5 * (1 + cos(M_PI * share_done(s, step))));
}

static double polynomial_rate(const struct schedule *s, int64_t step)
{
    return above_min(s, pow(1 - share_done(s, step), s->power));
}

static const struct {
    const char *name;
    double (*rate)(const struct schedule *s, int64_t step);
} kinds[] = {
    {"constant", constant_rate},     {"step", step_rate},
    {"cosine", cosine_rate},         {"warmup_cosine", cosine_rate},
    {"polynomial", polynomial_rate},
};

static int read_kind(const json_t *spec, struct schedule *s, struct error *e)
{
    const char *name = jget_string(spec, "name", "constant");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            s->rate = kinds[i].rate;
    if (s->rate)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.schedule.name: there is no schedule \"%s\"; `muster help config "
                     "trainer.schedule` lists them",
                     name);
}

static int read_milestones(const json_t *spec, struct schedule *s, struct error *e)
{
    const json_t *list = jget(spec, "milestones"), *one;
    size_t i;
    if (json_array_size(list) > LIMIT_MILESTONES)
        return error_set(e, ERR_INVALID, "trainer.schedule.milestones: at most %d milestones",
                         LIMIT_MILESTONES);
    json_array_foreach(list, i, one)
    {
        int64_t step = json_integer_value(one);
        if (!json_is_integer(one) || step <= (i ? s->milestones[i - 1] : 0))
            return error_set(e, ERR_INVALID,
                             "trainer.schedule.milestones: must be increasing steps of at least 1");
        s->milestones[s->milestone_count++] = step;
    }
    return 0;
}

static int check_ranges(const struct schedule *s, struct error *e)
{
    if (s->warmup_steps < 0)
        return error_set(e, ERR_INVALID, "trainer.schedule.warmup_steps: must not be negative");
    if (!(s->min_learning_rate >= 0 && s->min_learning_rate <= s->learning_rate))
        return error_set(e, ERR_INVALID,
                         "trainer.schedule.min_learning_rate: must lie between 0 and the learning "
                         "rate, %g",
                         s->learning_rate);
    if (!(s->factor >= 0 && s->factor < INFINITY))
        return error_set(e, ERR_INVALID, "trainer.schedule.factor: must be a number of at least 0");
    if (!(s->power > 0 && s->power < INFINITY))
        return error_set(e, ERR_INVALID, "trainer.schedule.power: must be a number above 0");
    return 0;
}

int schedule_read(const json_t *spec, double start, double learning_rate, int64_t steps,
                  struct schedule *out, struct error *e)
{
    *out = (struct schedule){.start = start,
                             .learning_rate = learning_rate,
                             .min_learning_rate = jget_double(spec, "min_learning_rate", 0),
                             .factor = jget_double(spec, "factor", 0.1),
                             .power = jget_double(spec, "power", 1),
                             .warmup_steps = jget_int(spec, "warmup_steps", 0),
                             .steps = steps};
    int rc = read_kind(spec, out, e);
    if (!rc)
        rc = read_milestones(spec, out, e);
    return rc ? rc : check_ranges(out, e);
}

double schedule_rate(const struct schedule *s, int64_t step)
{
    if (step >= s->warmup_steps)
        return s->rate(s, step);
    double share = (double)(step + 1) / (double)(s->warmup_steps + 1);
    return s->start + share * (s->learning_rate - s->start);
}
