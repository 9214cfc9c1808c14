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

static json_t *draw_leaf(const json_t *leaf, const char *type, struct rng *rng)
{
    double low = jget_double(leaf, "minval", 0), high = jget_double(leaf, "maxval", 0);
    if (!strcmp(type, "int"))
        return json_integer(
            draw_integer(jget_int(leaf, "minval", 0), jget_int(leaf, "maxval", 0), rng));
    if (!strcmp(type, "double"))
        return json_real(draw_between(low, high, rng));
    if (!strcmp(type, "log"))
        return json_real(pow(jget_double(leaf, "base", 10), draw_between(low, high, rng)));
    if (!strcmp(type, "categorical")) {
        json_t *vals = jget(leaf, "vals");
        must(json_array_size(vals) > 0);
        return json_deep_copy(
            json_array_get(vals, rng_below(rng, (uint32_t)json_array_size(vals))));
    }
    json_t *constant = json_object_get(leaf, "val");
    return constant ? json_deep_copy(constant) : json_null();
}

// Values are drawn in the order of their keys in the file, so a seed always gives the same point.
json_t *search_draw(const json_t *space, struct rng *rng)
{
    json_t *point = json_object();
    const char *key;
    json_t *value;
    must(point);
    json_object_foreach((json_t *)space, key, value)
    {
        const char *type = jget_string(value, "type", NULL);
        json_t *drawn = type ? draw_leaf(value, type, rng) : search_draw(value, rng);
        must(drawn && !json_object_set_new(point, key, drawn));
    }
    return point;
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
    double value = low + (high - low) * part;
    if (!strcmp(type, "int"))
        return json_integer((int64_t)llround(value));
    if (!strcmp(type, "double"))
        return json_real(value);
    if (!strcmp(type, "log"))
        return json_real(pow(jget_double(leaf, "base", 10), value));
    if (!strcmp(type, "categorical"))
        return json_deep_copy(json_array_get(jget(leaf, "vals"), (size_t)at));
    json_t *constant = json_object_get(leaf, "val");
    return constant ? json_deep_copy(constant) : json_null();
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
