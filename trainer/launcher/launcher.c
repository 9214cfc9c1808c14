#include "trainer/launcher/launcher.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"

json_t *metric_number(double x)
{
    if (isfinite(x))
        return json_real(x);
    return json_string(isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
}

// The text of one metric on a line; missing metrics are left out.
struct metric_format {
    const char *metric, *format; // a printf format for one double
    double factor;
};

static void append_metric(char *out, size_t cap, const struct metric_format *formats,
                          const json_t *metrics)
{
    size_t used = strlen(out);
    if (json_object_get(metrics, formats->metric))
        snprintf(out + used, cap - used, formats->format,
                 formats->factor * jget_double(metrics, formats->metric, NAN));
}

const char *metrics_line(char *out, size_t cap, int64_t step, int64_t steps, const json_t *metrics)
{
    static const struct metric_format formats[] = {
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
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        append_metric(out, cap, &formats[i], metrics);
    return out;
}
