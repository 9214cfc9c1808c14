#include "trainer/link.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"

json_t *link_number(double x)
{
    if (isfinite(x))
        return json_real(x);
    return json_string(isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

// How a metric is told on a line; one that was not measured is left out.
struct told {
    const char *metric, *format; // of one double
    double factor;
};

static void tell(char *out, size_t cap, const struct told *told, const json_t *metrics)
{
    size_t used = strlen(out);
    if (json_object_get(metrics, told->metric))
        snprintf(out + used, cap - used, told->format,
                 told->factor * jget_double(metrics, told->metric, NAN));
}

const char *link_line(char *out, size_t cap, int64_t step, int64_t steps, const json_t *metrics)
{
    static const struct told told[] = {
        {"validation_loss", "  validation loss %.4f", 1},
        {"validation_accuracy", "  accuracy %.2f %%", 100},
        {"validation_perplexity", "  perplexity %.4g", 1},
        {"validation_rmse", "  root mean square error %.4g", 1},
        {"loss", "  loss %.4f", 1},
        {"learning_rate", "  learning rate %.3g", 1},
        {"tokens_per_second", "  %.0f tokens/s", 1},
        {"samples_per_second", "  %.0f samples/s", 1},
    };
    snprintf(out, cap, "step %lld/%lld", (long long)step, (long long)steps);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        tell(out, cap, &told[i], metrics);
    return out;
}
