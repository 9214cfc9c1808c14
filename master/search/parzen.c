#include "master/search/parzen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

// A kernel is at least the range divided by this number (or by the number of kernels) wide, so that
// equal values do not make it a spike.
static const double narrowest_part = 100;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double normal_cdf(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}

// Integers are rounded, so each stands for the half units around it.
static double lower_end(const struct parzen_range *range)
{
    return range->kind == PARZEN_INTEGER ? range->low - 0.5 : range->low;
}

static double upper_end(const struct parzen_range *range)
{
    return range->kind == PARZEN_INTEGER ? range->high + 0.5 : range->high;
}

// Each category counts as if it had been seen once more.
static void fit_categories(struct parzen *p, const double *values, size_t count)
{
    p->count = (size_t)p->range.high + 1;
    p->weight = xcalloc(p->count, sizeof *p->weight);
    for (size_t i = 0; i < p->count; i++)
        p->weight[i] = 1;
    for (size_t i = 0; i < count; i++)
        p->weight[(size_t)values[i]]++;
    for (size_t i = 0; i < p->count; i++)
        p->weight[i] /= (double)(count + p->count);
}

// The width of a kernel is the larger distance to its neighbours, within bounds; that of the prior
// is the whole range.
static void set_widths(struct parzen *p, size_t prior, double span)
{
    double part = p->count < narrowest_part ? (double)p->count : narrowest_part;
    for (size_t i = 0; i < p->count; i++) {
        double left = i ? p->centre[i] - p->centre[i - 1] : 0;
        double right = i + 1 < p->count ? p->centre[i + 1] - p->centre[i] : 0;
        double width = left > right ? left : right;
        p->width[i] = width < span / part ? span / part : width > span ? span : width;
    }
    p->width[prior] = span;
}

void parzen_fit(struct parzen *p, const struct parzen_range *range, double *values, size_t count)
{
    *p = (struct parzen){.range = *range};
    if (range->kind == PARZEN_CATEGORY) {
        fit_categories(p, values, count);
        return;
    }
    double low = lower_end(range), high = upper_end(range), middle = (low + high) / 2;
    size_t prior = 0;
    p->count = count + 1;
    p->centre = xcalloc(3 * p->count, sizeof *p->centre);
    p->width = p->centre + p->count;
    p->weight = p->width + p->count;
    if (count)
        qsort(values, count, sizeof *values, by_value);
    while (prior < count && values[prior] < middle)
        prior++;
    memcpy(p->centre, values, prior * sizeof *values);
    p->centre[prior] = middle;
    memcpy(p->centre + prior + 1, values + prior, (count - prior) * sizeof *values);
    set_widths(p, prior, high - low);
    for (size_t i = 0; i < p->count; i++) {
        double mass = normal_cdf((high - p->centre[i]) / p->width[i]) -
                      normal_cdf((low - p->centre[i]) / p->width[i]);
        p->weight[i] = 1 / (mass * (double)p->count);
    }
}

void parzen_free(struct parzen *p)
{
    if (p->centre)
        free(p->centre);
    else
        free(p->weight);
    *p = (struct parzen){0};
}

static double draw_category(const struct parzen *p, struct rng *rng)
{
    double left = rng_double(rng);
    size_t i = 0;
    while (i + 1 < p->count && left >= p->weight[i])
        left -= p->weight[i++];
    return (double)i;
}

// A kernel has more than a third of its mass within the range, so this ends soon.
double parzen_draw(const struct parzen *p, struct rng *rng)
{
    if (p->range.kind == PARZEN_CATEGORY)
        return draw_category(p, rng);
    double low = lower_end(&p->range), high = upper_end(&p->range), value;
    size_t i = rng_below(rng, (uint32_t)p->count);
    do {
        double radius = sqrt(-2 * log(1 - rng_double(rng)));
        value = p->centre[i] + p->width[i] * radius * cos(2 * M_PI * rng_double(rng));
    } while (value < low || value >= high);
    return p->range.kind == PARZEN_INTEGER ? floor(value + 0.5) : value;
}

double parzen_log_density(const struct parzen *p, double value)
{
    double sum = 0;
    if (p->range.kind == PARZEN_CATEGORY)
        return log(p->weight[(size_t)value]);
    for (size_t i = 0; i < p->count; i++) {
        double z = (value - p->centre[i]) / p->width[i], half = 0.5 / p->width[i];
        sum += p->weight[i] * (p->range.kind == PARZEN_INTEGER
                                   ? normal_cdf(z + half) - normal_cdf(z - half)
                                   : exp(-0.5 * z * z) / (p->width[i] * sqrt(2 * M_PI)));
    }
    return log(sum);
}
