#include "api/run_metadata.h"

#include <string.h>

#include "base/limits.h"

static int check_value(const json_t *value, int depth, size_t *values, struct error *e);

static int check_key(const char *key, struct error *e)
{
    if (strlen(key) > LIMIT_METADATA_KEY)
        return error_set(e, ERR_INVALID, "metadata: the key \"%.64s\" is longer than %d bytes", key,
                         LIMIT_METADATA_KEY);
    if (strpbrk(key, "$.[]"))
        return error_set(e, ERR_INVALID, "metadata: the key \"%.64s\" contains one of $ . [ ]",
                         key);
    return 0;
}

static int check_object(const json_t *object, int depth, size_t *values, struct error *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        int err = check_key(key, e);
        if (!err)
            err = check_value(value, depth + 1, values, e);
        if (err)
            return err;
    }
    return 0;
}

static int check_list(const json_t *list, int depth, size_t *values, struct error *e)
{
    size_t i;
    json_t *value;
    if (json_array_size(list) > LIMIT_METADATA_LIST)
        return error_set(e, ERR_INVALID, "metadata: a list of more than %d elements",
                         LIMIT_METADATA_LIST);
    json_array_foreach(list, i, value)
    {
        int err = check_value(value, depth + 1, values, e);
        if (err)
            return err;
    }
    return 0;
}

static int check_value(const json_t *value, int depth, size_t *values, struct error *e)
{
    if (depth > LIMIT_METADATA_DEPTH)
        return error_set(e, ERR_INVALID, "metadata: nested more than %d levels deep",
                         LIMIT_METADATA_DEPTH);
    if (json_is_object(value) && json_object_size(value))
        return check_object(value, depth, values, e);
    if (json_is_array(value) && json_array_size(value))
        return check_list(value, depth, values, e);
    if (json_string_length(value) > LIMIT_METADATA_TEXT)
        return error_set(e, ERR_INVALID, "metadata: a text of more than %d bytes",
                         LIMIT_METADATA_TEXT);
    if (++*values > LIMIT_METADATA_VALUES)
        return error_set(e, ERR_INVALID, "metadata: more than %d values", LIMIT_METADATA_VALUES);
    return 0;
}

int run_metadata_check(const json_t *metadata, struct error *e)
{
    size_t values = 0;
    if (!json_is_object(metadata))
        return error_set(e, ERR_INVALID, "metadata: missing, or not an object");
    return check_value(metadata, 0, &values, e);
}
