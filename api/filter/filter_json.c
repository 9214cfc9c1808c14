#include "api/filter/filter_json.h"

#include <string.h>

#include "base/limits.h"
#include "base/text/json.h"

#define BOTH (FILTER_EXPERIMENTS | FILTER_RUNS)

const struct filter_column filter_columns[] = {
    {"id", "id", "ID", BOTH},
    {"name", "name", "Name", FILTER_EXPERIMENTS},
    {"description", "description", "Description", FILTER_EXPERIMENTS},
    {"experimentId", "experiment", "Search ID", FILTER_RUNS},
    {"experimentName", "name", "Search Name", FILTER_RUNS},
    {"experimentDescription", "description", "Search Description", FILTER_RUNS},
    {"experimentProgress", "progress", "Search Progress", FILTER_RUNS},
    {"tags", "label", "Tags", BOTH},
    {"state", "state", "State", BOTH},
    {"user", "owner", "User", BOTH},
    {"userId", "user_id", "User ID", BOTH},
    {"startTime", "started", "Start Time", BOTH},
    {"endTime", "ended", "End Time", BOTH},
    {"duration", "duration", "Duration", BOTH},
    {"numTrials", "trials", "Trials", BOTH},
    {"checkpointCount", "checkpoints", "Checkpoints", BOTH},
    {"checkpointSize", "checkpoint_size", "Checkpoint Size", BOTH},
    {"externalExperimentId", "external_id", "External ID", BOTH},
    {"progress", "progress", "Progress", FILTER_EXPERIMENTS},
    {"resourcePool", "resource_pool", "Resource Pool", BOTH},
    {"searcherType", "searcher", "Searcher", BOTH},
    {"searcherMetricsVal", "metric", "Searcher Metric Value", BOTH},
    {"forkedFrom", "forked_from", "Forked From", BOTH},
    {"projectId", "project_id", "Project ID", BOTH},
    {"archived", "archived", "Archived", BOTH},
    {"unmanaged", "unmanaged", "Unmanaged", BOTH},
    {0},
};

// Quotes a text as the filter language does.
static void put_quoted(struct buf *out, const char *text, size_t len)
{
    buf_puts(out, "\"");
    for (size_t i = 0; i < len; i++)
        buf_printf(out, strchr("\\\"", text[i]) ? "\\%c" : "%c", text[i]);
    buf_puts(out, "\"");
}

// The rest of "validation.loss.min" after its first part: a name, which may contain dots, and which
// value.
static int put_metric(struct buf *out, const char *group, const char *name, struct error *e)
{
    static const char *const picks[] = {".last", ".min", ".max"};
    size_t len = strlen(name);
    const char *pick = "";
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(picks[i]);
        if (len > n && !strcmp(name + len - n, picks[i])) {
            pick = i ? picks[i] : "";
            len -= n;
            break;
        }
    }
    if (len > 5 && !strcmp(name + len - 5, ".mean"))
        return error_set(e, ERR_INVALID,
                         "column %s.%.64s: means are not stored; use last, min or max", group,
                         name);
    buf_puts(out, group);
    buf_puts(out, ".");
    put_quoted(out, name, len);
    buf_puts(out, pick);
    return 0;
}

static void put_hparam(struct buf *out, const char *path)
{
    buf_puts(out, "hparams");
    for (const char *end; *path; path = *end ? end + 1 : end) {
        end = path + strcspn(path, ".");
        buf_puts(out, ".");
        put_quoted(out, path, (size_t)(end - path));
    }
}

static int put_column(struct buf *out, enum filter_list list, const char *name, struct error *e)
{
    if (!strncmp(name, "validation.", 11) && name[11])
        return put_metric(out, "validation", name + 11, e);
    if (!strncmp(name, "training.", 9) && name[9])
        return put_metric(out, "training", name + 9, e);
    if (!strncmp(name, "hp.", 3) && name[3]) {
        put_hparam(out, name + 3);
        return 0;
    }
    for (const struct filter_column *c = filter_columns; c->column; c++)
        if (c->lists & list && !strcmp(c->column, name)) {
            buf_puts(out, c->field);
            return 0;
        }
    return error_set(e, ERR_INVALID,
                     "column \"%.64s\": lists have none of this name; GET "
                     "/api/v1/experiment/fields tells what there is",
                     name);
}

static int put_value(struct buf *out, const json_t *value, struct error *e)
{
    if (json_is_integer(value))
        buf_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        buf_printf(out, "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        buf_puts(out, json_is_true(value) ? "true" : "false");
    else if (json_is_string(value))
        put_quoted(out, json_string_value(value), json_string_length(value));
    else
        return error_set(e, ERR_INVALID, "filter: a value must be a text, a number, true or false");
    return 0;
}

static int put_test(struct buf *out, enum filter_list list, const json_t *field, struct error *e)
{
    static const struct {
        const char *sent, *ours;
        bool negated, unary;
    } operators[] = {{"=", " = ", false, false},        {"!=", " != ", false, false},
                     {"<", " < ", false, false},        {"<=", " <= ", false, false},
                     {">", " > ", false, false},        {">=", " >= ", false, false},
                     {"contains", " ~ ", false, false}, {"notContains", " ~ ", true, false},
                     {"notEmpty", NULL, false, true},   {"isEmpty", NULL, true, true}};
    const char *sent = jget_string(field, "operator", "");
    const json_t *value = jget(field, "value");
    size_t i = 0, count = sizeof operators / sizeof *operators;
    while (i < count && strcmp(operators[i].sent, sent))
        i++;
    if (i == count)
        return error_set(e, ERR_INVALID, "filter: \"%.32s\" is not an operator", sent);
    if (!operators[i].unary && !value) { // a test that the user has not completed yet
        buf_puts(out, "id > 0");
        return 0;
    }
    buf_puts(out, operators[i].negated ? "not (" : "(");
    int err = put_column(out, list, jget_string(field, "columnName", ""), e);
    if (!err && !operators[i].unary) {
        buf_puts(out, operators[i].ours);
        err = put_value(out, value, e);
    }
    buf_puts(out, ")");
    return err;
}

static int put_node(struct buf *out, enum filter_list list, const json_t *node, struct error *e)
{
    const char *conjunction = jget_string(node, "conjunction", "and");
    const json_t *children = jget(node, "children");
    size_t i;
    json_t *child;
    int err = 0;
    if (!strcmp(jget_string(node, "kind", ""), "field"))
        return put_test(out, list, node, e);
    if (!json_is_object(node) || (children && !json_is_array(children)) ||
        (strcmp(conjunction, "and") && strcmp(conjunction, "or")))
        return error_set(e, ERR_INVALID,
                         "filter: a part is neither a field nor a group with \"conjunction\" "
                         "(and, or) and \"children\"");
    if (!json_array_size(children)) {
        buf_puts(out, "id > 0");
        return 0;
    }
    buf_puts(out, "(");
    json_array_foreach(children, i, child)
    {
        if (i)
            buf_printf(out, " %s ", conjunction);
        err = err ? err : put_node(out, list, child, e);
    }
    buf_puts(out, ")");
    return err;
}

int filter_of_json(enum filter_list list, const char *json, struct buf *out, struct error *e)
{
    json_t *tree = NULL;
    int err = json_parse(json, strlen(json), "filter", &tree, e);
    if (!err && json_is_deeper_than(tree, LIMIT_JSON_DEPTH))
        err = error_set(e, ERR_INVALID, "filter: more than %d levels of JSON", LIMIT_JSON_DEPTH);
    if (!err)
        err = put_node(out, list, jget(tree, "filterGroup"), e);
    if (!err && !jget_bool(tree, "showArchived", false))
        buf_puts(out, " and not archived");
    json_decref(tree);
    return err;
}

int filter_sort_of_columns(const char *sort, struct buf *out, struct error *e)
{
    int err = 0;
    for (const char *end; *sort && !err; sort = *end ? end + 1 : end) {
        end = sort + strcspn(sort, ",");
        const char *equals = memchr(sort, '=', (size_t)(end - sort));
        size_t way = equals ? (size_t)(end - equals) - 1 : 0;
        bool down = way == 4 && !strncmp(equals + 1, "desc", 4);
        char column[LIMIT_NAME];
        if (!equals || (!down && (way != 3 || strncmp(equals + 1, "asc", 3))) ||
            (size_t)(equals - sort) >= sizeof column)
            return error_set(e, ERR_INVALID,
                             "sort: \"%.64s\" is not like name=asc, or several with commas", sort);
        memcpy(column, sort, (size_t)(equals - sort));
        column[equals - sort] = '\0';
        buf_puts(out, out->len ? "," : "");
        buf_puts(out, down ? "-" : "");
        err = put_column(out, FILTER_EXPERIMENTS, column, e);
    }
    return err;
}
