#include "trainer/link.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

json_t *link_number(double x)
{
    if (isfinite(x))
        return json_real(x);
    return json_string(isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

const char *link_line(char *out, size_t cap, const char *group, int64_t step, int64_t steps,
                      const json_t *metrics)
{
    int n = snprintf(out, cap, "step %lld/%lld", (long long)step, (long long)steps);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (used >= cap)
        return out;
    if (strcmp(group, "validation") == 0)
        snprintf(out + used, cap - used, "  validation loss %.4f  accuracy %.2f %%",
                 jget_double(metrics, "validation_loss", NAN),
                 100.0 * jget_double(metrics, "validation_accuracy", NAN));
    else
        snprintf(out + used, cap - used, "  loss %.4f  learning rate %.3g  %.0f samples/s",
                 jget_double(metrics, "loss", NAN), jget_double(metrics, "learning_rate", NAN),
                 jget_double(metrics, "samples_per_second", NAN));
    return out;
}
