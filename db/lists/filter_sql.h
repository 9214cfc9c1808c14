// SQL of filters and sorts: a tree of api/filter/filter.h becomes constant fragments of a table and
// bound values; nothing that a caller wrote is ever part of the text. Pure; one thread.
//
// A field's test is `open OPERATOR ? close`. Its drive is a query of ids from an index: all ids
// that pass the test, and perhaps others. If there are few, a list starts from them.
#ifndef MUSTER_DB_LISTS_FILTER_SQL_H
#define MUSTER_DB_LISTS_FILTER_SQL_H

#include "api/filter/filter.h"
#include "db/db.h"

struct sql { // a text, and the values of its ? marks in their order
    struct buf text;
    struct db_value *values;
    size_t count, cap;
};

void sql_init(struct sql *s);
void sql_free(struct sql *s);
void sql_add(struct sql *s, const char *constant);
void sql_int(struct sql *s, int64_t value);
void sql_double(struct sql *s, double value);
void sql_text(struct sql *s, const char *value); // borrowed until the query is over
struct db_rows *sql_query(struct db_reader *db, const struct sql *s);

enum sql_key { // what the first ? of each fragment of a field stands for
    SQL_KEY_NONE,
    SQL_KEY_NAME,   // "optimizer.momentum"; of metrics "validation.loss"
    SQL_KEY_HPARAM, // $."optimizer"."momentum"
    SQL_KEY_METRIC, // $.validation_metrics."loss".min
};

struct sql_field {
    const char *name; // of the language; ends with NULL
    enum filter_pick pick;
    enum sql_key key;
    bool counted;  // a column of the table of counts
    bool nullable; // as an order: what has none comes last
    const char *open, *close;
    const char *drive_open, *drive_close; // NULL: no index has it
    const char *sort, *sort_down;         // expression; descending, where that is another one
    // Walking in this order: FROM, the order, and the id as an index has them; a condition with
    // the key, where the walk is over another table, in which things without a value are not.
    const char *walk_from, *walk_where, *walk_where_down, *walk_sort, *walk_id;
    // What passes a test of this field, newest first or last, by its index; NULL: not in that order
    const struct sql_field *along;
};

struct sql_table {
    enum filter_list list;
    const struct sql_field *fields; // that of `state` has as open and close the raw column alone,
    const char *live_open;          // and these hold the ids whose allocations have some rank:
    const char *live_close;         // live_open, 1, 2, 3 (PULLING, STARTING, RUNNING), live_close
    const char *id;                 // "r.id"
    const char *active_ids;         // drive of all that are active; NULL: no drive by state
};

extern const struct sql_table sql_experiments, sql_trials; // db/statements/fields_*.c

const struct sql_field *sql_field_of(const struct sql_table *t, const struct filter_name *name);
void sql_key_bind(struct sql *s, struct arena *a, const struct sql_field *f,
                  const struct filter_name *name);

struct filter_context {
    const struct sql_table *table;
    struct arena *arena; // what is bound lives here
    int64_t now;         // wall, microseconds
};

void filter_sql(const struct filter_context *c, const struct filter_node *n, struct sql *out);

// The same test of another expression that has the field's value; false: it is none that an order
// could stop at, and nothing is added.
bool filter_sql_of(const struct filter_context *c, const struct filter_node *n,
                   const char *expression, struct sql *out);

// The ids that may pass, as a query; false: no index knows.
bool filter_drive(const struct filter_context *c, const struct filter_node *n, struct sql *out);

bool filter_drive_is_exact(const struct filter_node *n); // its ids pass the test, every one

// What is bound in the walk along a test; NULL: it is none that a walk could follow.
const char *filter_along(const struct filter_context *c, const struct filter_node *n);

// Whether the table of counts can tell how many pass.
bool filter_is_counted(const struct filter_context *c, const struct filter_node *n);

#endif
