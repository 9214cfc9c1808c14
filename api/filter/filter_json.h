// Converts filters and sorts of Determined's web client (a JSON tree, "name=asc,id=desc") to our
// filter language (filter.h). Pure; any thread.
//
//   {"filterGroup": {"kind": "group", "conjunction": "and", "children": [
//        {"kind": "field", "location": "LOCATION_TYPE_VALIDATIONS",
//         "columnName": "validation.loss.min", "operator": "<", "value": 0.3}]},
//    "showArchived": false}
//   (validation."loss".min < 0.3) and not archived
#ifndef MUSTER_API_FILTER_JSON_H
#define MUSTER_API_FILTER_JSON_H

#include "api/filter/filter.h"
#include "base/buf.h"
#include "base/error.h"

struct filter_column { // a name of the web client
    const char *column, *field, *title;
    unsigned lists; // bits of enum filter_list
};
extern const struct filter_column filter_columns[]; // ends with column == NULL

// `list`: FILTER_EXPERIMENTS or FILTER_RUNS. ERR_INVALID names the fault, or the column by which
// the list cannot be filtered. Sorts are those of experiments.
int filter_of_json(enum filter_list list, const char *json, struct buf *out, struct error *e);
int filter_sort_of_columns(const char *sort, struct buf *out, struct error *e);

#endif
