// The texts of the OpenAPI document: the meaning of each parameter, field, body, answer and schema,
// with its unit, and the value that the master takes where a request leaves the field out. The
// tables (descriptions_*.c) are read-only; any thread. A row is found by its key:
//
//   "GET /api/v1/agents lost"        a parameter in the query, or a field of the body
//   "GET /api/v1/agents -> agents"   a field of the answer (of a stream: of each line)
//   "PATCH /api/v1/templates/{templateName}"    a body that has no fields of its own
//   "GET /resources/allocation/raw ->"          an answer that has none
//   "Experiment.progress"            a field of a schema
//   "Experiment"                     a schema; of an enumeration also its words
//   "{trialId}"                      a parameter in the path, in every call
//   "{} repeated"                    a field of a body with the name of a parameter in the path
//   "limit"                          every other field and parameter of this name
//
// The first that exists is taken, from top to bottom. test_descriptions.c fails for a field without
// a text, and for a row without a field.
#ifndef MUSTER_MASTER_HTTP_ROUTING_DESCRIPTIONS_H
#define MUSTER_MASTER_HTTP_ROUTING_DESCRIPTIONS_H

#include <stddef.h>

struct description {
    const char *key, *text;
    const char *value; // JSON: the default. NULL: none, or the text states it ("Default: ..")
};

#define TEXT(key_, text_)                                                                          \
    {                                                                                              \
        .key = key_, .text = text_                                                                 \
    }
#define VALUE(key_, value_, text_)                                                                 \
    {                                                                                              \
        .key = key_, .value = value_, .text = text_                                                \
    }

struct description_table {
    const char *file; // for the messages of the test
    const struct description *rows;
    size_t count;
};

extern const struct description_table *const description_tables[];
extern const size_t description_table_count;

extern const struct description_table common_descriptions, cluster_descriptions, team_descriptions,
    experiment_descriptions, trial_descriptions, log_descriptions, registry_descriptions,
    task_descriptions, queue_descriptions, import_descriptions;

enum described { // the place of a field
    IN_PATH,
    IN_QUERY,
    IN_BODY,
    IN_ANSWER,
    IN_SCHEMA
};

// `owner` is a schema, or "METHOD /path"; an empty `field` asks for the owner itself. NULL: no row.
const struct description *description_find(enum described place, const char *owner,
                                           const char *field, size_t len);

#endif
