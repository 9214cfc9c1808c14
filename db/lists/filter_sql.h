// SQL of filters and sorts: a tree of api/filter/filter.h becomes constant fragments of a table and
// bound values; no text of a caller is ever part of the SQL. Pure; one thread.
//
// The test of a field is `open OPERATOR ? close`. Its driving query selects ids from an index: all
// ids that pass the test, and perhaps others. If they are few, a list starts from them.
#ifndef MUSTER_DB_LISTS_FILTER_SQL_H
#define MUSTER_DB_LISTS_FILTER_SQL_H

#include "api/filter/filter.h"
#include "db/db.h"

struct sql { // a text, and the values of its parameters in order
    struct buf text;
    struct db_value *values;
    size_t count, cap;
};

void sql_init(struct sql *s);
void sql_free(struct sql *s);
void sql_add(struct sql *s, const char *constant);
void sql_int(struct sql *s, int64_t value);
void sql_double(struct sql *s, double value);
void sql_text(struct sql *s, const char *value); // borrowed until the query is closed
struct db_rows *sql_query(struct db_reader *db, const struct sql *s);

enum sql_key { // the value of the first parameter in each fragment of a field
    SQL_KEY_NONE,
    SQL_KEY_NAME,   // "optimizer.momentum"; for metrics "validation.loss"
    SQL_KEY_HPARAM, // $."optimizer"."momentum"
    SQL_KEY_METRIC, // $.validation_metrics."loss".min
};

struct sql_field {
    const char *name; // field of the filter language; NULL ends the table
    enum filter_pick pick;
    enum sql_key key;
    bool counted;  // a column of the table of counts
    bool nullable; // rows without a value are sorted last
    const char *open, *close;
    const char *drive_open, *drive_close; // driving query; NULL: there is no index
    const char *sort, *sort_down; // expressions for both directions; sort_down NULL: the same
    // Walk in the order of this field: FROM, the order, and the id, as an index has them. A
    // condition with the key is needed if the walk is over another table, which has no rows for
    // missing values.
    const char *walk_from, *walk_where, *walk_where_down, *walk_sort, *walk_id;
    // Walk over only the rows that pass a test of this field, in the order of ids; NULL: no index
    // has them in this order.
    const struct sql_field *match_walk;
};

struct sql_table {
    enum filter_list list;
    const struct sql_field
        *fields;              // `open` and `close` of `state` are the column without allocations;
    const char *active_open;  // active_open, 1, 2, 3 (PULLING, STARTING, RUNNING), active_close
    const char *active_close; // select the ids whose allocations have one of these states
    const char *id;           // "r.id"
    const char *active_ids;   // driving query of all active ids; NULL: none by state
};

extern const struct sql_table sql_experiments, sql_trials, sql_runs; // db/statements/fields_*.c

const struct sql_field *sql_field_of(const struct sql_table *t, const struct filter_name *name);
void sql_key_bind(struct sql *s, struct arena *a, const struct sql_field *f,
                  const struct filter_name *name);

struct filter_context {
    const struct sql_table *table;
    struct arena *arena; // owns the bound values
    int64_t now;         // wall, microseconds
};

void filter_sql(const struct filter_context *c, const struct filter_node *n, struct sql *out);

// Adds the same test of another expression that has the value of the field. False: an ordered walk
// cannot stop at this test, and nothing is added.
bool filter_sql_of(const struct filter_context *c, const struct filter_node *n,
                   const char *expression, struct sql *out);

// Adds a query of the ids that may pass; false: no index has them.
bool filter_drive(const struct filter_context *c, const struct filter_node *n, struct sql *out);

bool filter_drive_is_exact(const struct filter_node *n); // every id passes the test

// Returns the value to bind in the field's match_walk; NULL: no walk can follow this test.
const char *filter_match_key(const struct filter_context *c, const struct filter_node *n);

// Returns whether the table of counts can count the rows that pass.
bool filter_is_counted(const struct filter_context *c, const struct filter_node *n);

#endif
