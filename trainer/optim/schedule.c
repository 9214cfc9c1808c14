#include "trainer/optim/schedule.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

int schedule_read(const json_t *spec, double learning_rate, int64_t steps, struct schedule *out,
                  struct error *e)
{
    const char *name = jget_string(spec, "name", "constant");
    *out = (struct schedule){.cosine = strcmp(name, "warmup_cosine") == 0,
                             .learning_rate = learning_rate,
                             .min_learning_rate = jget_double(spec, "min_learning_rate", 0),
                             .warmup_steps = jget_int(spec, "warmup_steps", 0),
                             .steps = steps};
    if (!out->cosine && strcmp(name, "constant") != 0)
        return error_set(e, ERR_INVALID,
                         "trainer.schedule.name: expected constant or warmup_cosine, found \"%s\"",
                         name);
    if (out->warmup_steps < 0)
        return error_set(e, ERR_INVALID, "trainer.schedule.warmup_steps: must not be negative");
    if (!(out->min_learning_rate >= 0 && out->min_learning_rate <= learning_rate))
        return error_set(e, ERR_INVALID,
                         "trainer.schedule.min_learning_rate: must lie between 0 and the learning "
                         "rate, %g",
                         learning_rate);
    return 0;
}

double schedule_rate(const struct schedule *s, int64_t step)
{
    if (step < s->warmup_steps)
        return s->learning_rate * (double)(step + 1) / (double)(s->warmup_steps + 1);
    if (!s->cosine)
        return s->learning_rate;
    double done = (double)(step - s->warmup_steps) / (double)(s->steps - s->warmup_steps);
    if (step >= s->steps)
        done = 1;
    double share = 0.5 * (1 + cos(M_PI * done));
    return s->min_learning_rate + share * (s->learning_rate - s->min_learning_rate);
}
