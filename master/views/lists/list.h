// Lists with filters, an order and pages: builds the SQL of one list call from constant fragments.
// What callers send is only ever bound, never part of the text. One thread, during one call.
//
//   struct list l;
//   list_init(&l, v);
//   list_filter_ints(&l, "userIds", "e.user_id");
//   list_sort(&l, sorts, "e.id DESC");
//   list_page(&l);
//   return list_answer(&l, &source, e);
#ifndef MUSTER_MASTER_VIEWS_LIST_H
#define MUSTER_MASTER_VIEWS_LIST_H

#include "api/wire.h"
#include "master/http/view.h"

enum {
    LIST_VALUES_MAX = 2 * QUERY_PAIRS_MAX + 32, // a parameter may be bound twice
    LIST_SQL_MAX = 32 * 1024,
};

struct list_sort {
    const char *name;   // "SORT_BY_ID"; ends with NULL
    const char *column; // constant SQL
};

struct list {
    struct view *v;
    struct buf where, order;
    struct db_value values[LIST_VALUES_MAX];
    size_t value_count;
    int64_t offset, limit; // limit -1: all
    int64_t total;         // rows without the limit; known after the count
    bool cursors;          // it is also read by cursor, see list_cursor()
    bool after;            // .. and is so now: what is before it is not counted
    bool within;           // the answer's object is the caller's to open and end
    struct error error;    // the first; told by list_answer()
};

void list_init(struct list *l, struct view *v);

// A fixed condition, " AND (sql)", and values for its ? marks.
void list_and(struct list *l, const char *sql);
void list_bind_int(struct list *l, int64_t value);
void list_bind_text(struct list *l, const char *value);

// By a query parameter; nothing when the caller did not send it. Repeated ones are alternatives.
void list_filter_texts(struct list *l, const char *name, const char *column);
void list_filter_ints(struct list *l, const char *name, const char *column);
void list_filter_bool(struct list *l, const char *name, const char *column);
void list_filter_contains(struct list *l, const char *name,
                          const char *column); // contains, any case
void list_filter_enum(struct list *l, const char *name, const char *column, enum wire_names table);

// Only what the caller may see, by its workspace.
void list_filter_visible(struct list *l, const char *workspace_column);

// orderBy and `name` (sortBy) of the caller; `fallback` without them. `tie` makes it unique.
void list_sort(struct list *l, const char *name, const struct list_sort *sorts,
               const char *fallback, const char *tie);
void list_page(struct list *l); // offset (negative: from the end) and limit of the caller

// A list in the order of `column` alone, an unique number that is the first of the columns, can
// also be read by cursor: the next page costs what the first did, and rows that come meanwhile move
// nothing. After the filters; `up`: where the least comes first.
void list_cursor(struct list *l, const char *column, bool up);

// The whole answer, {key: [..], "pagination"}, by a writer of one object a row; frees the list.
// `from` is what the conditions are about, which is all that is counted; `joined` is what the
// columns and the order need beside it.
typedef void list_writer(struct json_writer *w, struct db_rows *rows);
struct list_source {
    const char *key, *columns, *from, *joined;
    list_writer *write;
};
int list_answer(struct list *l, const struct list_source *source, struct error *e);

#endif
