// The types of every SQL statement (statements/*.def): its values, as a struct with a typed member
// for each, and the columns of its rows, by name. db.h has the macros that use them.
//
//   READ(LOG_SENDERS, VALUES(V(text, task_id)), COLUMNS(C(text, allocation_id) ..), "SELECT ..")
//
// becomes STMT_LOG_SENDERS, struct db_read_LOG_SENDERS (values) and struct db_columns_LOG_SENDERS.
#ifndef MUSTER_DB_STATEMENTS_H
#define MUSTER_DB_STATEMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "db/statements/rows.h"

enum stmt {
#define WRITE(name, values, sql)         STMT_##name,
#define READ(name, values, columns, sql) STMT_##name,
#include "db/statements/all.def"
    STMT_COUNT
};

struct db_blob {
    const void *data;
    size_t len;
};

#define DB_TYPE_integer         int64_t
#define DB_TYPE_real            double
#define DB_TYPE_text            const char * // NULL: null
#define DB_TYPE_blob            struct db_blob
#define DB_TYPE_integer_or_null const int64_t * // NULL: null

// The values. The macros set the first member, `given`, to 1, so that a call without values also
// lacks members and does not compile.
#define V(type, name) DB_TYPE_##type name;
#define WRITE(name, values, sql)                                                                   \
    struct db_write_##name {                                                                       \
        int64_t given;                                                                             \
        values                                                                                     \
    };
#define READ(name, values, columns, sql)                                                           \
    struct db_read_##name {                                                                        \
        int64_t given;                                                                             \
        values                                                                                     \
    };
#include "db/statements/all.def"

// The columns of the shared rows and of the queries. Such a struct is never created: its members
// are pointers, so that the offset of a member gives the number of the column, and its type is the
// result of DB_GET().
#define C(type, name, ...) DB_TYPE_##type *name;
#define ROW(name)                                                                                  \
    struct db_columns_##name {                                                                     \
        name##_ROW(C, C)                                                                           \
    };
ROW(ID)
ROW(COUNT)
ROW(NAME)
ROW(LABEL)
ROW(USER)
ROW(EXPERIMENT)
ROW(ACTIVE_EXPERIMENT)
ROW(ACTIVE_TRIAL)
ROW(START)
ROW(AUTHZ)
ROW(EXPERIMENT_VIEW)
ROW(TRIAL_VIEW)
ROW(CHECKPOINT_VIEW)
ROW(MEDIA_VIEW)
ROW(LOG_CHUNK)
ROW(MODEL_VIEW)
ROW(VERSION_VIEW)
ROW(PROJECT_VIEW)
ROW(WORKSPACE_VIEW)
ROW(AUDIT)
ROW(TEMPLATE)
ROW(TOKEN)
ROW(TASK_VIEW)
ROW(SLOT_USE)
ROW(ALLOCATION_VIEW)
ROW(VALUE_COUNT)
ROW(WORKLOAD_CHECKPOINT)
#undef ROW

// Rows that contain other rows: DB_GET(rows, MODEL_VERSION, version.name).
struct db_columns_MODEL_VERSION {
    struct db_columns_CHECKPOINT_VIEW checkpoint;
    struct db_columns_VERSION_VIEW version;
    struct db_columns_MODEL_VIEW model;
};
struct db_columns_SEARCHED_EXPERIMENT {
    struct db_columns_EXPERIMENT_VIEW experiment;
    DB_TYPE_text *best_trial;
};

// A list of experiments selects the columns of EXPERIMENT_VIEW from other tables.
struct db_columns_EXPERIMENT_LIST {
    EXPERIMENT_LIST_ROW(C, C, , , )
};
#undef C
#define C(type, name, ...)                                                                         \
    _Static_assert(offsetof(struct db_columns_EXPERIMENT_LIST, name) ==                            \
                       offsetof(struct db_columns_EXPERIMENT_VIEW, name),                          \
                   "the two rows of an experiment have the same columns");
EXPERIMENT_VIEW_ROW(C, C)
#undef C

#define C(type, name, ...) DB_TYPE_##type *name;
#define PART(row, name)    struct db_columns_##row name;
#define WRITE(name, values, sql)
#define READ(name, values, columns, sql)                                                           \
    struct db_columns_##name {                                                                     \
        columns                                                                                    \
    };
#include "db/statements/all.def"

#endif
