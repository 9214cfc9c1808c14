#include "master/views/monitoring/exposition.h"

#include <math.h>
#include <stdio.h>

enum { NUMBER_TEXT = 32 };

// Shortest form that reads back as the same number.
static const char *number(double value, char out[NUMBER_TEXT])
{
    if (isnan(value))
        return "NaN";
    if (isinf(value))
        return value > 0 ? "+Inf" : "-Inf";
    for (int digits = 6; digits <= 17; digits++) {
        double read = 0;
        snprintf(out, NUMBER_TEXT, "%.*g", digits, value);
        if (sscanf(out, "%lf", &read) == 1 && read == value)
            break;
    }
    return out;
}

static void put_escaped(struct buf *out, const char *text, bool quotes)
{
    for (; *text; text++)
        if (*text == '\\')
            buf_puts(out, "\\\\");
        else if (*text == '\n')
            buf_puts(out, "\\n");
        else if (*text == '"' && quotes)
            buf_puts(out, "\\\"");
        else
            buf_append(out, text, 1);
}

void exposition_family(struct buf *out, const char *name, enum exposition_type type,
                       const char *help)
{
    static const char *const words[] = {"counter", "gauge", "histogram"};
    buf_printf(out, "# HELP %s ", name);
    put_escaped(out, help, false);
    buf_printf(out, "\n# TYPE %s %s\n", name, words[type]);
}

static void put_label(struct buf *out, char *before, const char *name, const char *value)
{
    buf_append(out, before, 1);
    *before = ',';
    buf_printf(out, "%s=\"", name);
    put_escaped(out, value, true);
    buf_puts(out, "\"");
}

// `le` NULL: no such label.
static void put_sample(struct buf *out, const char *name, const char *suffix,
                       const struct exposition_labels *labels, const char *le, double value)
{
    char before = '{', text[NUMBER_TEXT];
    buf_puts(out, name);
    buf_puts(out, suffix);
    for (int i = 0; labels && i < EXPOSITION_LABELS && labels->of[i].name; i++)
        put_label(out, &before, labels->of[i].name, labels->of[i].value);
    if (le)
        put_label(out, &before, "le", le);
    buf_printf(out, "%s %s\n", before == ',' ? "}" : "", number(value, text));
}

void exposition_sample(struct buf *out, const char *name, const struct exposition_labels *labels,
                       double value)
{
    put_sample(out, name, "", labels, NULL, value);
}

void exposition_histogram(struct buf *out, const char *name, const struct exposition_labels *labels,
                          const struct histogram *h)
{
    char bound[NUMBER_TEXT];
    struct histogram_figures f;
    histogram_read(h, &f);
    for (int i = 0; i < HISTOGRAM_BOUNDS; i++)
        put_sample(out, name, "_bucket", labels,
                   number((double)histogram_bounds_us[i] / 1e6, bound), (double)f.up_to[i]);
    put_sample(out, name, "_bucket", labels, "+Inf", (double)f.count);
    put_sample(out, name, "_sum", labels, NULL, (double)f.sum_us / 1e6);
    put_sample(out, name, "_count", labels, NULL, (double)f.count);
}

void exposition_single(struct buf *out, const char *name, enum exposition_type type,
                       const char *help, double value)
{
    exposition_family(out, name, type, help);
    exposition_sample(out, name, NULL, value);
}
