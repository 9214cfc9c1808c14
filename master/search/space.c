// The space of hyperparameters: objects are nested as written; a leaf is {"type": const | int |
// double | log | categorical, ..} within the limits of the configuration's table.
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/text/json.h"
#include "master/search/method.h"

static double draw_between(double low, double high, struct rng *rng)
{
    return low + (high - low) * rng_double(rng);
}

// Both ends belong to the range, which is narrower than 2^54.
static int64_t draw_integer(int64_t low, int64_t high, struct rng *rng)
{
    uint64_t width = (uint64_t)(high - low) + 1, drawn = rng_u32(rng);
    drawn = drawn << 32 | rng_u32(rng);
    return low + (int64_t)(drawn % width);
}

json_t *search_leaf_value(const json_t *leaf, double at)
{
    const char *type = jget_string(leaf, "type", "const");
    if (!strcmp(type, "int"))
        return json_integer((int64_t)llround(at));
    if (!strcmp(type, "double"))
        return json_real(at);
    if (!strcmp(type, "log"))
        return json_real(pow(jget_double(leaf, "base", 10), at));
    if (!strcmp(type, "categorical"))
        return json_deep_copy(json_array_get(jget(leaf, "vals"), (size_t)at));
    json_t *constant = json_object_get(leaf, "val");
    return constant ? json_deep_copy(constant) : json_null();
}

json_t *search_draw_leaf(const json_t *leaf, struct rng *rng)
{
    const char *type = jget_string(leaf, "type", "const");
    double low = jget_double(leaf, "minval", 0), high = jget_double(leaf, "maxval", 0), at = 0;
    if (!strcmp(type, "int"))
        return json_integer(
            draw_integer(jget_int(leaf, "minval", 0), jget_int(leaf, "maxval", 0), rng));
    if (!strcmp(type, "double") || !strcmp(type, "log"))
        at = draw_between(low, high, rng);
    if (!strcmp(type, "categorical")) {
        size_t count = json_array_size(jget(leaf, "vals"));
        must(count > 0);
        at = rng_below(rng, (uint32_t)count);
    }
    return search_leaf_value(leaf, at);
}

json_t *search_make_point(const json_t *space, const json_t *old, search_value_of *value_of,
                          void *ctx)
{
    json_t *point = json_object();
    const char *key;
    json_t *value;
    must(point);
    json_object_foreach((json_t *)space, key, value)
    {
        const json_t *before = json_object_get(old, key);
        json_t *made = jget_string(value, "type", NULL)
                           ? value_of(value, before, ctx)
                           : search_make_point(value, before, value_of, ctx);
        must(made && !json_object_set_new(point, key, made));
    }
    return point;
}

static json_t *value_drawn(const json_t *leaf, const json_t *old, void *rng)
{
    (void)old;
    return search_draw_leaf(leaf, rng);
}

// Values are drawn in the order of their keys in the file, so a seed always gives the same point.
json_t *search_draw(const json_t *space, struct rng *rng)
{
    return search_make_point(space, NULL, value_drawn, rng);
}

void search_visit(const json_t *space, void (*leaf)(const json_t *leaf, void *ctx), void *ctx)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)space, key, value)
    {
        if (jget_string(value, "type", NULL))
            leaf(value, ctx);
        else
            search_visit(value, leaf, ctx);
    }
}

bool search_varies(const json_t *space)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)space, key, value)
    {
        const char *type = jget_string(value, "type", NULL);
        if (type ? strcmp(type, "const") != 0 : search_varies(value))
            return true;
    }
    return false;
}

// --- grids ---------------------------------------------------------------------------------------

// The number of values of a leaf in a grid: the `count` of a range, but at most all integers of an
// integer range.
static int64_t leaf_points(const json_t *leaf, const char *type)
{
    if (!strcmp(type, "categorical"))
        return (int64_t)json_array_size(jget(leaf, "vals"));
    if (!strcmp(type, "const"))
        return 1;
    int64_t count = jget_int(leaf, "count", 1);
    int64_t whole = jget_int(leaf, "maxval", 0) - jget_int(leaf, "minval", 0) + 1;
    return !strcmp(type, "int") && whole < count ? whole : count;
}

// Value `at` of `points`, spread evenly over the range including both ends; the middle for a single
// point.
static json_t *leaf_point(const json_t *leaf, const char *type, int64_t at, int64_t points)
{
    double low = jget_double(leaf, "minval", 0), high = jget_double(leaf, "maxval", 0);
    double part = points > 1 ? (double)at / (double)(points - 1) : 0.5;
    return search_leaf_value(leaf,
                             strcmp(type, "categorical") ? low + (high - low) * part : (double)at);
}

int64_t search_grid_points(const json_t *space)
{
    int64_t points = 1;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)space, key, value)
    {
        const char *type = jget_string(value, "type", NULL);
        int64_t own = type ? leaf_points(value, type) : search_grid_points(value);
        if (__builtin_mul_overflow(points, own, &points))
            return INT64_MAX;
    }
    return points;
}

json_t *search_grid_point(const json_t *space, int64_t number)
{
    json_t *point = json_object();
    int64_t below = search_grid_points(space);
    const char *key;
    json_t *value;
    must(point && below > 0);
    json_object_foreach((json_t *)space, key, value)
    {
        const char *type = jget_string(value, "type", NULL);
        int64_t own = type ? leaf_points(value, type) : search_grid_points(value);
        below /= own;
        int64_t at = number / below % own;
        json_t *chosen = type ? leaf_point(value, type, at, own) : search_grid_point(value, at);
        must(chosen && !json_object_set_new(point, key, chosen));
    }
    return point;
}
