// A page of a list that can be filtered, sorted and walked through by a cursor. A cursor names the
// last row of a page by what it is sorted by, so the next page costs what the first did, and rows
// that come or go between move nothing. One thread, during one call.
//
// Three ways to a page, by what an index can do for it:
//   driven   an outermost test passes few rows: these are looked up and tested, once, and what is
//            left of them is counted and sorted
//   walked   rows are read in the order of an index and tested until the page is full
//   sorted   all rows are tested and sorted
//
//   struct filtered_list g;
//   filtered_list_init(&g, v, &table, &source);
//   pager_test_texts(&g, "owner", query values);   // Determined's parameters become tests, too
//   return filtered_list_answer(&g, e);
#ifndef MUSTER_MASTER_VIEWS_PAGER_H
#define MUSTER_MASTER_VIEWS_PAGER_H

#include "db/lists/filter_sql.h"
#include "master/views/lists/list.h"

struct filtered_list_source {
    const char *key;     // of the answer: "experiments"
    const char *base;    // "experiment_briefs r"; its column id is the rows' id
    const char *size;    // "SELECT max(id) FROM experiment_briefs": about how many rows; NULL: few
    const char *counts;  // "SELECT coalesce(sum(experiments), 0) FROM experiment_counts r", or NULL
    const char *columns; // "SELECT .."
    const char *joined;  // what the columns need, joined to k.id
    const char *order;   // sort keys without the caller's: "-id"
    int column_count;    // of `columns`
    list_writer *write;
};

enum { PAGER_FIXED_MAX = 8, PAGER_SHOWN_MAX = 32 };

struct filtered_list {
    struct view *v;
    struct filter_context context;
    const struct filtered_list_source *source;
    struct filter_node *tests, **tests_end; // all must be true
    struct {
        const char *sql; // and these, which are constant: conditions with one ? at most
        bool counted, bound;
        int64_t value;
    } fixed[PAGER_FIXED_MAX];
    size_t fixed_count;
    struct filter_key keys[FILTER_KEYS_MAX + 1]; // the last is always id
    size_t key_count;
    struct filter_name shown[PAGER_SHOWN_MAX]; // values of each row that the caller also wants
    size_t shown_count;
    int64_t offset, limit; // -1: all
    bool exact;            // the total is wanted exactly, at any price
    json_t *after;         // values of the cursor; NULL: from the beginning
    struct error error;    // the first
    // The answer's:
    int64_t rows, total, all; // all: about how many rows there are to test
    bool more;                // rows follow
    bool least;               // there may be more than `total`
    struct buf next, values;
    const struct filter_node *driver; // of a driven page, and
    const char *ids;                  // all that pass every test, a JSON list
    int64_t found;                    // how many these are
    const struct filter_node *along;  // the test whose index is walked by id
};

void filtered_list_init(struct filtered_list *g, struct view *v, const struct sql_table *table,
                        const struct filtered_list_source *source);

// A condition of the list itself.
void filtered_list_require(struct filtered_list *g, const char *sql, bool counted);
void filtered_list_require_int(struct filtered_list *g, const char *sql, bool counted,
                               int64_t value);

// A query parameter as a test of a field; nothing when the caller did not send it.
void filtered_list_any_of(struct filtered_list *g, const char *parameter,
                          const char *field); // one of its values
void filtered_list_all_of(struct filtered_list *g, const char *parameter,
                          const char *field); // each of its values
void filtered_list_contains(struct filtered_list *g, const char *parameter,
                            const char *field); // contains

// Determined's orderBy and `parameter` (sortBy); ends with NULL. `by` is a name of the language.
struct filtered_list_sort {
    const char *name, *by;
};
void filtered_list_sort(struct filtered_list *g, const char *parameter,
                        const struct filtered_list_sort *sorts);

// Reads filter, sort, show, cursor, offset, limit, count; writes {KEY: [..], "pagination",
// "nextCursor"}, and with show "values": of each row a list, as long as that of the names.
int filtered_list_answer(struct filtered_list *g, struct error *e);

#endif
