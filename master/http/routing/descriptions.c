// Finds the text of a field. The rows of all tables are sorted once, at the first search.

#include "master/http/routing/descriptions.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { ROWS_MAX = 4096, KEY_MAX = 128 };

const struct description_table *const description_tables[] = {
    &common_descriptions, &cluster_descriptions, &team_descriptions,     &experiment_descriptions,
    &trial_descriptions,  &log_descriptions,     &registry_descriptions, &task_descriptions,
    &queue_descriptions,  &import_descriptions,
};
const size_t description_table_count = sizeof description_tables / sizeof *description_tables;

static const struct description *sorted[ROWS_MAX];
static size_t count;

static int compare_keys(const void *a, const void *b)
{
    return strcmp((*(const struct description *const *)a)->key,
                  (*(const struct description *const *)b)->key);
}

static void sort_rows(void)
{
    for (size_t t = 0; t < description_table_count; t++)
        for (size_t i = 0; i < description_tables[t]->count; i++) {
            must(count < ROWS_MAX);
            sorted[count++] = &description_tables[t]->rows[i];
        }
    qsort(sorted, count, sizeof *sorted, compare_keys);
}

static const struct description *find_key(const char *key)
{
    const struct description row = {.key = key}, *wanted = &row;
    const struct description **found =
        bsearch(&wanted, sorted, count, sizeof *sorted, compare_keys);
    return found ? *found : NULL;
}

static bool is_in_path(const char *owner, const char *name)
{
    size_t len = strlen(name);
    for (const char *c = strchr(owner, '{'); c; c = strchr(c, '{'))
        if (!strncmp(++c, name, len) && c[len] == '}')
            return true;
    return false;
}

const struct description *description_find(enum described place, const char *owner,
                                           const char *field, size_t len)
{
    static const char *const joints[] = {[IN_PATH] = " ",
                                         [IN_QUERY] = " ",
                                         [IN_BODY] = " ",
                                         [IN_ANSWER] = " -> ",
                                         [IN_SCHEMA] = "."};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char key[2 * KEY_MAX], name[KEY_MAX];
    pthread_once(&once, sort_rows);
    snprintf(name, sizeof name, place == IN_PATH ? "{%.*s}" : "%.*s", (int)len, field);
    if (!*name) {
        snprintf(key, sizeof key, place == IN_ANSWER ? "%s ->" : "%s", owner);
        return find_key(key);
    }
    snprintf(key, sizeof key, "%s%s%s", owner, joints[place], name);
    const struct description *found = find_key(key);
    if (!found && place == IN_BODY && is_in_path(owner, name))
        return find_key("{} repeated");
    return found ? found : find_key(name);
}
