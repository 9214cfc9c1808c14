// Lists with filters, an order and pages: builds the SQL of one call from constant fragments.
// Values of the caller are always bound and never part of the SQL text. One thread, during one
// call.
//
//   struct list l;
//   list_init(&l, v);
//   list_filter_ints(&l, "userIds", "e.user_id");
//   list_sort(&l, "sortBy", sorts, "e.id DESC", "e.id");
//   list_page(&l);
//   return list_answer(&l, &source, e);
#ifndef MUSTER_MASTER_VIEWS_LISTS_LIST_H
#define MUSTER_MASTER_VIEWS_LISTS_LIST_H

#include "api/wire.h"
#include "master/http/view.h"

enum {
    LIST_VALUES_MAX = 2 * QUERY_PAIRS_MAX + 32, // a parameter may be bound twice
    LIST_SQL_MAX = 32 * 1024,
};

struct list_sort {
    const char *name;   // "SORT_BY_ID"; a NULL name ends the table
    const char *column; // constant SQL
};

struct list {
    struct view *v;
    struct buf where, order;
    struct db_value values[LIST_VALUES_MAX];
    size_t value_count;
    int64_t offset, limit; // limit -1: all
    int64_t total;         // rows without the limit; set by the count
    bool has_cursor;       // the list can be read by cursor, see list_cursor()
    bool after_cursor;     // the caller sent a cursor: no total
    bool inside_object;    // the caller of list_answer() opens and closes the JSON object
    struct error error;    // the first error; list_answer() returns it
};

void list_init(struct list *l, struct view *v);

// Adds a constant condition, " AND (sql)"; bind a value for each of its ? marks.
void list_and(struct list *l, const char *sql);
void list_bind_int(struct list *l, int64_t value);
void list_bind_text(struct list *l, const char *value);

// Filters by a query parameter; does nothing if the caller did not send it. Repeated parameters are
// alternatives.
void list_filter_texts(struct list *l, const char *name, const char *column);
void list_filter_name(struct list *l, const char *name, const char *column); // "": no filter
void list_filter_ints(struct list *l, const char *name, const char *column);
void list_filter_bool(struct list *l, const char *name, const char *column);
void list_filter_contains(struct list *l, const char *name,
                          const char *column); // contains the value, in any case
void list_filter_enum(struct list *l, const char *name, const char *column, enum wire_names table);

// Keeps the rows of workspaces that the caller may see.
void list_filter_visible(struct list *l, const char *workspace_column);

// Sorts by the query parameters orderBy and `name` (such as sortBy); `fallback` is the order
// without them. `tie` makes the order unique.
void list_sort(struct list *l, const char *name, const struct list_sort *sorts,
               const char *fallback, const char *tie);
void list_page(struct list *l); // reads offset (negative: from the end) and limit

// Makes a list readable by cursor. The list must be in the order of `column` alone, a unique number
// that is also the first column of the SELECT. Every page then costs the same, and rows that are
// added meanwhile move nothing. Call it after the filters. `up`: ascending order.
void list_cursor(struct list *l, const char *column, bool up);

// Writes the whole answer, {KEY: [..], "pagination"}, and frees the list. `write` writes one object
// for each row. The conditions may use the tables of `from` alone; the columns and the order may
// also use those of `joined`.
typedef void list_writer(struct json_writer *w, struct db_rows *rows);
struct list_source {
    const char *key, *columns, *from, *joined;
    list_writer *write;
};
int list_answer(struct list *l, const struct list_source *source, struct error *e);

#endif
