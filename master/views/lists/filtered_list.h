// One page of a list that can be filtered, sorted and read by cursor. A cursor holds the sort
// values of the last row of a page, so every page costs the same, and no row is skipped or repeated
// when others are added or removed. One thread, during one call.
//
// A page is read in one of three ways:
//   driven   one test (the driver) passes few rows: these rows are looked up by id, tested,
//            counted and sorted
//   walked   rows are read in the order of an index and tested until the page is full
//   sorted   all rows are tested and sorted
//
//   struct filtered_list l;
//   filtered_list_init(&l, v, &table, &source);
//   filtered_list_any_of(&l, "users", "owner"); // Determined's parameters become tests, too
//   return filtered_list_answer(&l, e);
#ifndef MUSTER_MASTER_VIEWS_LISTS_FILTERED_LIST_H
#define MUSTER_MASTER_VIEWS_LISTS_FILTERED_LIST_H

#include "db/lists/filter_sql.h"
#include "master/views/lists/list.h"

struct filtered_list_source {
    const char *key;     // of the answer, such as "experiments"
    const char *base;    // "experiment_briefs r"; its column `id` identifies a row
    const char *size;    // SQL for about how many rows there are; NULL: few
    const char *counts;  // SQL for the count from a table of counts; NULL: none
    const char *columns; // "SELECT .."
    const char *joined;  // joins that the columns need; a row's id is k.id
    const char *order;   // sort keys if the caller gives none: "-id"
    int column_count;    // of `columns`
    list_writer *write;
};

enum { FILTERED_LIST_REQUIRED_MAX = 8, FILTERED_LIST_SHOWN_MAX = 32 };

struct filtered_list {
    struct view *v;
    struct filter_context context;
    const struct filtered_list_source *source;
    struct filter_node *tests, **tests_end; // all must be true
    struct {
        const char *sql; // constant SQL, at most one ?
        bool counted, bound;
        int64_t value;
    } required[FILTERED_LIST_REQUIRED_MAX];
    size_t required_count;
    struct filter_key keys[FILTER_KEYS_MAX + 1]; // the last is always the id
    size_t key_count;
    // fields whose values the answer adds for each row
    struct filter_name shown[FILTERED_LIST_SHOWN_MAX];
    size_t shown_count;
    int64_t offset, limit; // limit -1: all
    bool exact_total;      // count the total even if that is expensive
    json_t *cursor;        // values of the cursor; NULL: from the beginning
    struct error error;    // the first error
    // Results:
    int64_t rows, total, size_estimate; // size_estimate: about how many rows there are to test
    bool more;                          // rows follow
    bool total_is_minimum;              // there may be more rows than `total`
    struct buf next, values;
    const struct filter_node *driver;    // of a driven page; else NULL
    const char *driven_ids;              // JSON list of the ids that pass every test
    int64_t driven_count;                // number of these ids
    const struct filter_node *walk_test; // the test whose index is walked in the order of ids
};

void filtered_list_init(struct filtered_list *l, struct view *v, const struct sql_table *table,
                        const struct filtered_list_source *source);

// A condition that always holds. `counted`: the table of counts has its column, too.
void filtered_list_require(struct filtered_list *l, const char *sql, bool counted);
void filtered_list_require_int(struct filtered_list *l, const char *sql, bool counted,
                               int64_t value);

// Turns a query parameter into a test: the field has one of the values, has all of the values,
// contains the value, or compares with it. Does nothing if the caller did not send the parameter.
void filtered_list_any_of(struct filtered_list *l, const char *parameter, const char *field);
void filtered_list_all_of(struct filtered_list *l, const char *parameter, const char *field);
void filtered_list_contains(struct filtered_list *l, const char *parameter, const char *field);
void filtered_list_compare(struct filtered_list *l, const char *parameter, const char *field,
                           enum filter_op op);

// Reads Determined's orderBy and `parameter` (such as sortBy). `by` is a field of the filter
// language; a NULL name ends the table.
struct filtered_list_sort {
    const char *name, *by;
};
void filtered_list_sort(struct filtered_list *l, const char *parameter,
                        const struct filtered_list_sort *sorts);

// Reads filter, sort, show, cursor, offset, limit and count; writes {KEY: [..], "pagination",
// "nextCursor"}, and with `show` also "values": for each row a list with one value for each name.
int filtered_list_answer(struct filtered_list *l, struct error *e);

#endif
