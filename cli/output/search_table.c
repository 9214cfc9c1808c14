#include "cli/output/search_table.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"

struct ranked_trial {
    json_t *row;
    double best; // smaller is better; NaN: none
    bool leads;  // the master names it as the best trial
    json_int_t id;
};

static int compare_rank(const void *a, const void *b)
{
    const struct ranked_trial *x = a, *y = b;
    if (isnan(x->best) != isnan(y->best))
        return isnan(x->best) ? 1 : -1;
    if (x->best != y->best && !isnan(x->best))
        return x->best < y->best ? -1 : 1;
    if (x->leads != y->leads)
        return x->leads ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

json_t *search_table(json_t *rows, const json_t *config, long long best_trial)
{
    bool smaller = jget_bool(jget(config, "searcher"), "smaller_is_better", true);
    size_t count = json_array_size(rows), i;
    struct ranked_trial *all = xcalloc(count + 1, sizeof(*all));
    json_t *row, *sorted = json_array();
    json_array_foreach(rows, i, row)
    {
        double best = jget_double(row, "best", NAN);
        all[i] =
            (struct ranked_trial){row, smaller ? best : -best, jget_int(row, "id", 0) == best_trial,
                                  jget_int(row, "id", 0)};
    }
    qsort(all, count, sizeof(*all), compare_rank);
    for (i = 0; i < count; i++)
        json_array_append(sorted, all[i].row);
    free(all);
    return sorted;
}

static bool rows_differ(const json_t *rows, const char *path)
{
    json_t *first = jget_path(json_array_get(rows, 0), path), *row;
    size_t i;
    json_array_foreach((json_t *)rows, i, row)
    {
        json_t *value = jget_path(row, path);
        if (value != first && !json_equal(value, first))
            return true;
    }
    return false;
}

// Returns the column of a hyperparameter and adds it to each row: its own name unless another
// member has that name.
static const char *hparam_column(const json_t *rows, const char *path)
{
    const char *name = path + strlen("hparams.");
    json_t *row;
    size_t i;
    if (json_object_get(json_array_get(rows, 0), name))
        return path;
    json_array_foreach((json_t *)rows, i, row)
    {
        json_object_set(row, name, jget_path(row, path));
    }
    return name;
}

// Adds a column for each value in `group` in which the rows differ.
static const char *add_hparam_columns(const json_t *rows, const json_t *group, const char *path,
                                      const char *columns, struct arena *a)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)group, key, value)
    {
        const char *below = arena_printf(a, "%s.%s", path, key);
        if (json_is_object(value))
            columns = add_hparam_columns(rows, value, below, columns, a);
        else if (rows_differ(rows, below))
            columns = arena_printf(a, "%s,%s", columns, hparam_column(rows, below));
    }
    return columns;
}

const char *search_hparam_columns(const json_t *rows, const char *first, struct arena *a)
{
    return add_hparam_columns(rows, jget(json_array_get(rows, 0), "hparams"), "hparams", first, a);
}

const char *search_columns(const json_t *rows, struct arena *a)
{
    return arena_printf(a, "%s,best,steps,state,ran", search_hparam_columns(rows, "id", a));
}
